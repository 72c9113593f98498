package raw_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/raw"
)

const maxSequence = 1<<31 - 1

var _ = register(
	Case{ID: "30.twice", What: "batch with sequences 0-9 sent twice", Want: "0 at 0; 0 at 0; log end 10"},
	Case{ID: "30.last-five", What: "five more batches, then each of the last five again", Want: "the original offsets; log unchanged"},
	Case{
		ID: "30.sixth", What: "the sixth last batch again", Want: "0 at the original offset",
		WantKafka: "OUT_OF_ORDER_SEQUENCE_NUMBER (45)", Why: "design.md decision 7: 64 batches of a producer are remembered, Kafka keeps 5",
	},
	Case{ID: "30.acks-1", What: "a duplicate with acks=1 and with acks=0", Want: "0 at 0; log unchanged"},
	Case{ID: "31.gap", What: "sequences 0-9, then 20-29", Want: "OUT_OF_ORDER_SEQUENCE_NUMBER (45), nothing stored"},
	Case{ID: "31.lower-epoch", What: "an epoch lower than the known one", Want: "INVALID_PRODUCER_EPOCH (47), nothing stored"},
	Case{ID: "31.epoch-seq-5", What: "a higher epoch with sequence 5", Want: "OUT_OF_ORDER_SEQUENCE_NUMBER (45), nothing stored"},
	Case{ID: "31.epoch-seq-0", What: "a higher epoch with sequence 0", Want: "0, stored"},
	Case{ID: "31.negative", What: "a producer id with base sequence -1", Want: "INVALID_RECORD (87), nothing stored"},
	Case{ID: "32.with-data", What: "unknown producer id, first sequence 7, partition with data", Want: "0, stored"},
	Case{
		ID: "32.never-written", What: "unknown producer id, first sequence 7, never-written partition", Want: "OUT_OF_ORDER_SEQUENCE_NUMBER (45), nothing stored",
		WantKafka: "0, stored", Why: "spec/kafka.md 3.5: as Kafka 4.5 (KAFKA-15591), else the second of two in-flight batches can win",
	},
	Case{ID: "33.wrap", What: "a batch that ends at 2^31-1, then one from 0", Want: "0; 0"},
	Case{ID: "33.straddle", What: "a batch that straddles 2^31-1", Want: "0"},
	Case{ID: "33.duplicates", What: "duplicates of the batches at the wrap", Want: "the original offsets; log unchanged"},
	Case{ID: "34.restart", What: "case 30 with a clean restart between the two sends", Want: "the original offset; log unchanged; the next sequence accepted"},
	Case{ID: "34.kill", What: "case 30 with kill -9 between the two sends", Want: "the original offset; log unchanged; the next sequence accepted"},
	Case{ID: "34.snapshot", What: "case 30 with several segments and a restart between the two sends", Want: "the original offset; log unchanged; the next sequence accepted"},
	Case{
		ID: "34.older", What: "the same, a batch before the producer's last one", Want: "the original offset",
		WantKafka: "OUT_OF_ORDER_SEQUENCE_NUMBER (45)", Why: "design.md decision 7: all remembered batches survive a restart; Kafka's snapshot keeps one batch a producer",
	},
	Case{ID: "T14.idle", What: "a producer whose records DeleteRecords removed goes on with its next sequence", Want: "0, stored"},
	Case{
		ID: "T46.in-flight", What: "never-written partition, two batches of one producer in flight, the second one first", Want: "OUT_OF_ORDER_SEQUENCE_NUMBER (45); 0; 0",
		WantKafka: "0; OUT_OF_ORDER_SEQUENCE_NUMBER (45); 0", Why: "as 32.never-written: Kafka 4.3.1 loses the first batch",
	},
	Case{ID: "T47.max", What: "a batch that starts after 2^31-1 with sequence 1 instead of 0", Want: "OUT_OF_ORDER_SEQUENCE_NUMBER (45), nothing stored"},
	Case{ID: "T13.interleaved", What: "a duplicate on a second connection while later batches are in flight on the first", Want: "0 at 0; log end 6"},
	Case{ID: "29.init-fresh", What: "InitProducerId twice; with an id and an epoch but no transactional id (v4)", Want: "fresh ids, epoch 0"},
	Case{ID: "29.init-empty", What: "InitProducerId with an empty transactional id", Want: "INVALID_REQUEST (42)"},
)

// batchOf is n records of a producer.
func batchOf(id int64, epoch int16, sequence int32, n int) []byte {
	v := make([]string, n)
	for i := range v {
		v[i] = fmt.Sprintf("%d.%d.%d", id, epoch, int64(sequence)+int64(i))
	}
	return raw.NewBatch(now(), raw.Values(v...)...).Idempotent(id, epoch, sequence).Encode()
}

// at is an answer with its offset.
func at(p kmsg.ProduceResponseTopicPartition) string {
	if p.ErrorCode != 0 {
		return name(p.ErrorCode)
	}
	return fmt.Sprintf("0 at %d", p.BaseOffset)
}

func TestCase30Duplicates(t *testing.T) {
	c := dial(t)
	topic, id := c.topic(1), c.producerID()
	first, second := c.produce(topic, 0, batchOf(id, 0, 0, 10)), c.produce(topic, 0, batchOf(id, 0, 0, 10))
	expect(t, "30.twice", fmt.Sprintf("%s; %s; log end %d", at(first), at(second), c.offset(topic, 0, -1)))
	for i := range 5 {
		c.mustProduce(topic, 0, batchOf(id, 0, int32(10+10*i), 10))
	}
	got := "the original offsets"
	for i := range 5 {
		if p := c.produce(topic, 0, batchOf(id, 0, int32(10+10*i), 10)); p.ErrorCode != 0 || p.BaseOffset != int64(10+10*i) {
			got = fmt.Sprintf("batch %d: %s", i, at(p))
		}
	}
	if end := c.offset(topic, 0, -1); end == 60 {
		got += "; log unchanged"
	}
	expect(t, "30.last-five", got)
	sixth := at(c.produce(topic, 0, batchOf(id, 0, 0, 10)))
	if sixth == "0 at 0" {
		sixth = "0 at the original offset"
	}
	expect(t, "30.sixth", sixth)

	other, pid := c.topic(1), c.producerID()
	c.mustProduce(other, 0, batchOf(pid, 0, 0, 3))
	p := c.produceAs(9, 1, other, 0, batchOf(pid, 0, 0, 3))
	if _, err := c.Send(produceRequest(9, 0, other, part{0, batchOf(pid, 0, 0, 3)})); err != nil {
		t.Fatal(err)
	}
	got = at(p)
	if c.offset(other, 0, -1) == 3 { // the connection's order puts this after the acks=0 produce
		got += "; log unchanged"
	}
	expect(t, "30.acks-1", got)
}

func TestCase31SequencesAndEpochs(t *testing.T) {
	c := dial(t)
	topic, id := c.topic(1), c.producerID()
	c.mustProduce(topic, 0, batchOf(id, 3, 0, 10))
	expect(t, "31.gap", verdict(c, topic, batchOf(id, 3, 20, 10)))
	expect(t, "31.lower-epoch", verdict(c, topic, batchOf(id, 2, 10, 10)))
	expect(t, "31.epoch-seq-5", verdict(c, topic, batchOf(id, 4, 5, 10)))
	expect(t, "31.epoch-seq-0", verdict(c, topic, batchOf(id, 4, 0, 10)))
	expect(t, "31.negative", verdict(c, topic, batchOf(id, 4, -1, 1)))
}

func TestCase32UnknownProducer(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("data"))
	expect(t, "32.with-data", verdict(c, topic, batchOf(c.producerID(), 0, 7, 3)))
	expect(t, "32.never-written", verdict(c, c.topic(1), batchOf(c.producerID(), 0, 7, 3)))
}

func TestCase33SequenceWrap(t *testing.T) {
	c := dial(t)
	wrap, straddle := c.topic(1), c.topic(1)
	id := c.producerID()
	for _, topic := range []string{wrap, straddle} {
		c.mustProduce(topic, 0, values("data")) // so that any first sequence is accepted
	}
	last, zero := batchOf(id, 0, maxSequence-4, 5), batchOf(id, 0, 0, 5)
	expect(t, "33.wrap", names(c.produce(wrap, 0, last).ErrorCode, c.produce(wrap, 0, zero).ErrorCode))
	before, over, after := batchOf(id, 0, maxSequence-9, 5), batchOf(id, 0, maxSequence-4, 10), batchOf(id, 0, 5, 5)
	c.mustProduce(straddle, 0, before)
	expect(t, "33.straddle", name(c.produce(straddle, 0, over).ErrorCode))
	if got := at(c.produce(straddle, 0, after)); got != "0 at 16" {
		t.Errorf("after the straddling batch: %s", got)
	}
	got := "the original offsets"
	for i, again := range []struct {
		topic  string
		batch  []byte
		offset int64
	}{{wrap, last, 1}, {wrap, zero, 6}, {straddle, before, 1}, {straddle, over, 6}, {straddle, after, 16}} {
		if p := c.produce(again.topic, 0, again.batch); p.ErrorCode != 0 || p.BaseOffset != again.offset {
			got = fmt.Sprintf("duplicate %d: %s", i, at(p))
		}
	}
	if c.offset(wrap, 0, -1) == 11 && c.offset(straddle, 0, -1) == 21 {
		got += "; log unchanged"
	}
	expect(t, "33.duplicates", got)
	late := c.topic(1)
	c.mustProduce(late, 0, values("data"))
	c.mustProduce(late, 0, last)
	expect(t, "T47.max", verdict(c, late, batchOf(id, 0, 1, 1)))
}

func TestTrap14StateWithoutRecords(t *testing.T) {
	c := dial(t)
	topic, id := c.topic(1), c.producerID()
	c.mustProduce(topic, 0, batchOf(id, 0, 0, 10))
	if code, low := c.deleteRecords(topic, 0, -1); code != 0 || low != 10 {
		t.Fatalf("delete records: %s, %d", name(code), low)
	}
	expect(t, "T14.idle", verdict(c, topic, batchOf(id, 0, 10, 1)))
}

func TestTrap46FirstBatches(t *testing.T) {
	c := dial(t)
	topic, id := c.topic(1), c.producerID()
	codes := names(c.produce(topic, 0, batchOf(id, 0, 5, 5)).ErrorCode, c.produce(topic, 0, batchOf(id, 0, 0, 5)).ErrorCode,
		c.produce(topic, 0, batchOf(id, 0, 5, 5)).ErrorCode)
	expect(t, "T46.in-flight", codes)
}

func TestTrap13SecondConnection(t *testing.T) {
	c, d := dial(t), dial(t)
	topic, id := c.topic(1), c.producerID()
	c.mustProduce(topic, 0, batchOf(id, 0, 0, 2))
	var frames []byte
	var ids []int32
	var requests []kmsg.Request
	for i := range 2 {
		req := produceRequest(9, -1, topic, part{0, batchOf(id, 0, int32(2+2*i), 2)})
		frame, correlation := c.Encode(req)
		frames, ids, requests = append(frames, frame...), append(ids, correlation), append(requests, req)
	}
	if err := c.SendBytes(frames); err != nil {
		t.Fatal(err)
	}
	p := d.produce(topic, 0, batchOf(id, 0, 0, 2))
	for i := range requests {
		if _, err := c.Receive(requests[i], ids[i]); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "T13.interleaved", fmt.Sprintf("%s; log end %d", at(p), c.offset(topic, 0, -1)))
}

func TestInitProducerID(t *testing.T) {
	c := dial(t)
	first := c.producerID()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 4, 60000, first, 3
	resp := do[*kmsg.InitProducerIDResponse](c, req)
	got := fmt.Sprintf("%s, id %d, epoch %d", name(resp.ErrorCode), resp.ProducerID, resp.ProducerEpoch)
	if resp.ErrorCode == 0 && resp.ProducerID != first && resp.ProducerID >= 0 && resp.ProducerEpoch == 0 {
		got = "fresh ids, epoch 0"
	}
	expect(t, "29.init-fresh", got)
	req.TransactionalID = new(string)
	resp = do[*kmsg.InitProducerIDResponse](c, req)
	expect(t, "29.init-empty", name(resp.ErrorCode))
}
