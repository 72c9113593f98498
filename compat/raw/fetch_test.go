package raw_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/raw"
)

var _ = register(
	Case{ID: "39.wake-up", What: "fetch at the end with max_wait 10 s, then one record is produced", Want: "delivered at once"},
	Case{ID: "40.min-bytes", What: "min_bytes 1 MiB, max_wait 300 ms, 100 bytes available", Want: "the records, after about 300 ms"},
	Case{ID: "41.empty", What: "fetch at the end of an empty topic, max_wait 0", Want: "at once; 0, records of length 0, marks 0 0 0"},
	Case{ID: "41.end", What: "fetch at the log end of a topic with data, max_wait 0", Want: "at once; 0, records of length 0, marks 3 3 0"},
	Case{ID: "42.large", What: "max_bytes 1 and partition_max_bytes 1, batch of 500 KiB", Want: "the whole batch"},
	Case{ID: "43.sum", What: "three partitions, max_bytes below their sum", Want: "first one whole, the rest within the limit; all progress"},
	Case{ID: "43.partition", What: "two batches of 10 KB in a partition, partition_max_bytes 15 KB", Want: "one whole batch"},
	Case{ID: "44.middle", What: "fetch offset in the middle of a batch", Want: "the batch from its base, franz-go shows records from the offset"},
	Case{ID: "45.below", What: "fetch below the log start", Want: "OFFSET_OUT_OF_RANGE (1)"},
	Case{ID: "45.above", What: "fetch above the log end", Want: "OFFSET_OUT_OF_RANGE (1)"},
	Case{ID: "45.negative", What: "fetch at -5", Want: "OFFSET_OUT_OF_RANGE (1)"},
	Case{ID: "47.fetch", What: "Fetch with current_leader_epoch one too low, one too high, right, -1", Want: "FENCED_LEADER_EPOCH (74); UNKNOWN_LEADER_EPOCH (75); 0; 0"},
	Case{ID: "47.list", What: "ListOffsets with the same epochs", Want: "FENCED_LEADER_EPOCH (74); UNKNOWN_LEADER_EPOCH (75); 0; 0"},
	Case{ID: "47.epoch", What: "OffsetForLeaderEpoch with the same current epochs", Want: "FENCED_LEADER_EPOCH (74); UNKNOWN_LEADER_EPOCH (75); 0; 0"},
	Case{ID: "49.ids", What: "Fetch v13 with the id from Metadata", Want: "0, data"},
	Case{ID: "49.unknown", What: "Fetch v13 with a made-up id", Want: "UNKNOWN_TOPIC_ID (100)"},
	Case{ID: "49.recreated", What: "Fetch v13 with the old id after delete and re-create", Want: "UNKNOWN_TOPIC_ID (100)"},
	Case{ID: "52.consumer", What: "DeleteRecords moves the log start past a consumer: fetch, answer's log start, franz-go with reset to earliest", Want: "OFFSET_OUT_OF_RANGE (1); log start 6; goes on at 6"},
	Case{ID: "59.gap", What: "compacted log: fetch at an offset that was compacted away", Want: "the next batch; franz-go reads to the end"},
	Case{ID: "T07.null", What: "records of an empty answer, all versions 4-12", Want: "empty, not null"},
	Case{ID: "T08.errors", What: "Fetch: errors of unknown partition, unknown topic, bad offset, epoch of the future", Want: "UNKNOWN_TOPIC_OR_PARTITION (3); UNKNOWN_TOPIC_OR_PARTITION (3); OFFSET_OUT_OF_RANGE (1); UNKNOWN_LEADER_EPOCH (75)"},
	Case{ID: "T09.fetch", What: "marks in the answer for an unknown partition", Want: "partition 7, -1 -1 -1"},
	Case{ID: "T31.empty", What: "read_committed fetch of a log emptied by DeleteRecords", Want: "0, marks 3 3 3, aborted list not null, no records"},
	Case{ID: "T31.aborted", What: "aborted transactions in an answer: read_uncommitted, read_committed", Want: "null; empty"},
	Case{ID: "T32.restart", What: "high watermark, last stable offset and fetch at the log end after a restart", Want: "as before"},
	Case{ID: "T33.min-bytes", What: "min_bytes above what the partition limit lets through, max_wait 10 s", Want: "at once"},
	Case{ID: "T33.total", What: "fetch without limits of its own of 60 MB in three partitions", Want: "at most fetch.max.bytes (55 MiB) and one batch"},
	Case{ID: "T45.wait", What: "incremental fetch with nothing new, max_wait 400 ms", Want: "empty, after about 400 ms"},
	Case{ID: "T25.zero-id", What: "Fetch v13 with a zero topic id, and forgetting one", Want: "UNKNOWN_TOPIC_ID (100); served"},
	Case{
		ID: "S99.hour", What: "fetch with max_wait of an hour and nothing to fetch", Want: "answered after about 30 s",
		OnlyFelix: "Kafka waits as long as it is asked to",
	},
	Case{ID: "43.order", What: "every asked partition once in the answer, and the topic's name", Want: "partitions 0 1 2"},
	Case{ID: "43.replica", What: "Fetch v12 with replica id 5", Want: "refused"},
)

// marks are high watermark, last stable offset and log start of an answer.
func marks(p kmsg.FetchResponseTopicPartition) string {
	return fmt.Sprintf("%d %d %d", p.HighWatermark, p.LastStableOffset, p.LogStartOffset)
}

// timed runs f and reports how long it took.
func timed(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

// about tells whether d is near the wanted wait: not early, and late by less than a busy machine can make it.
func about(d, want time.Duration) string {
	if d < want-20*time.Millisecond || d > want+1500*time.Millisecond {
		return fmt.Sprintf("after %v", d.Round(time.Millisecond))
	}
	return fmt.Sprintf("after about %d ms", want.Milliseconds())
}

func TestCase39WakeUp(t *testing.T) {
	c, d := dial(t), dial(t)
	topic := c.topic(1)
	req := fetchRequest(topic, 0, 0)
	req.MaxWaitMillis = 10000
	id, err := c.Send(req)
	if err != nil {
		t.Fatal(err)
	}
	// The fetch waits when a later request on the same connection is not answered; a produce elsewhere must not wait for it.
	d.metadata(9, topic)
	begin := time.Now()
	d.mustProduce(topic, 0, values("x"))
	resp, err := c.Receive(req, id)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("after %v", time.Since(begin))
	if p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) > 0 && p.HighWatermark == 1 && time.Since(begin) < time.Second {
		got = "delivered at once"
	}
	expect(t, "39.wake-up", got)
}

func TestCase40MinBytes(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("x"))
	req := fetchRequest(topic, 0, 0)
	req.MinBytes, req.MaxWaitMillis = 1<<20, 300
	var p kmsg.FetchResponseTopicPartition
	d := timed(func() { p = c.fetchOne(req) })
	got := "no records, "
	if len(p.RecordBatches) > 0 {
		got = "the records, "
	}
	expect(t, "40.min-bytes", got+about(d, 300*time.Millisecond))
	req.Topics[0].Partitions[0].PartitionMaxBytes, req.MaxBytes, req.MaxWaitMillis = 10, 10, 10000
	d = timed(func() { c.fetchOne(req) })
	got = "at once"
	if d > 2*time.Second {
		got = about(d, 10*time.Second)
	}
	expect(t, "T33.min-bytes", got)
}

func TestCase41AtTheEnd(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	look := func(offset int64) string {
		var p kmsg.FetchResponseTopicPartition
		d := timed(func() { p = c.fetch(topic, 0, offset) })
		when := "at once"
		if d > time.Second {
			when = d.String()
		}
		records := fmt.Sprintf("records of length %d", len(p.RecordBatches))
		if p.RecordBatches == nil {
			records = "null records"
		}
		return fmt.Sprintf("%s; %s, %s, marks %s", when, name(p.ErrorCode), records, marks(p))
	}
	expect(t, "41.empty", look(0))
	c.mustProduce(topic, 0, values("a", "b", "c"))
	expect(t, "41.end", look(3))
	got := "empty, not null"
	for version := int16(4); version <= 12; version++ {
		req := fetchRequest(topic, 0, 3)
		req.Version = version
		if p := c.fetchOne(req); p.RecordBatches == nil || len(p.RecordBatches) != 0 {
			got = fmt.Sprintf("v%d: %v", version, p.RecordBatches)
		}
	}
	expect(t, "T07.null", got)
}

func TestCase42FirstBatchWhole(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	batch := sized(500 << 10)
	c.mustProduce(topic, 0, batch)
	c.mustProduce(topic, 0, values("next"))
	req := fetchRequest(topic, 0, 0)
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 1, 1
	p := c.fetchOne(req)
	got := fmt.Sprintf("%d bytes", len(p.RecordBatches))
	if len(p.RecordBatches) == len(batch) && bytes.Equal(p.RecordBatches[21:], batch[21:]) {
		got = "the whole batch"
	}
	expect(t, "42.large", got)
}

func TestCase43Limits(t *testing.T) {
	c := dial(t)
	topic := c.topic(3)
	const size = 10_000
	for partition := range int32(3) {
		for range 2 {
			c.mustProduce(topic, partition, sized(size))
		}
	}
	offsets := map[int32]int64{}
	got, rounds := "first one whole, the rest within the limit", 0
	var seen []string
	for ; rounds < 6; rounds++ {
		req := fetchRequest(topic, 0, offsets[0])
		req.MaxBytes = 25_000
		req.Topics[0].Partitions = nil
		for i := range int32(3) { // the client rotates, as real ones do
			partition := (i + int32(rounds)) % 3
			rp := fetchPartition(partition, offsets[partition])
			rp.PartitionMaxBytes = 15_000
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
		}
		total := 0
		resp := do[*kmsg.FetchResponse](c, req)
		for _, p := range resp.Topics[0].Partitions {
			if rounds == 0 {
				seen = append(seen, fmt.Sprint(p.Partition))
			}
			stored, err := raw.ParseBatches(p.RecordBatches)
			if err != nil {
				t.Logf("partial batch in partition %d: %v", p.Partition, err)
			}
			total += len(p.RecordBatches)
			if p.Partition == int32(rounds)%3 && len(stored) != 1 && offsets[p.Partition] < 2 {
				got = fmt.Sprintf("%d batches of the first partition", len(stored))
			}
			offsets[p.Partition] += int64(len(stored))
		}
		if total > 25_000 {
			got = fmt.Sprintf("%d bytes", total)
		}
	}
	if offsets[0] == 2 && offsets[1] == 2 && offsets[2] == 2 {
		got += "; all progress"
	}
	expect(t, "43.sum", got)
	slices.Sort(seen)
	expect(t, "43.order", "partitions "+strings.Join(seen, " "))
	req := fetchRequest(topic, 0, 0)
	req.Topics[0].Partitions[0].PartitionMaxBytes = 15_000
	p := c.fetchOne(req)
	stored, err := raw.ParseBatches(p.RecordBatches)
	one := fmt.Sprintf("%d batches, %d bytes, %v", len(stored), len(p.RecordBatches), err)
	if len(stored) == 1 && len(stored[0].Raw) == size { // Kafka's answer may end with a part of the second one
		one = "one whole batch"
	}
	expect(t, "43.partition", one)
	req.ReplicaID = 5
	replica := name(c.fetchOne(req).ErrorCode)
	if replica != "0" {
		replica = "refused"
	}
	expect(t, "43.replica", replica)
}

func TestTrap33TotalBytes(t *testing.T) {
	c := dial(t)
	topic := c.topic(3)
	const size, fetchMaxBytes = 1_000_000, 57_671_680
	for i := range int32(60) {
		c.mustProduce(topic, i%3, sized(size))
	}
	req := fetchRequest(topic, 0, 0)
	req.MaxBytes, req.Topics[0].Partitions = 1<<31-1, nil
	for partition := range int32(3) {
		rp := fetchPartition(partition, 0)
		rp.PartitionMaxBytes = 1<<31 - 1
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
	}
	total := 0
	for _, p := range do[*kmsg.FetchResponse](c, req).Topics[0].Partitions {
		total += len(p.RecordBatches)
	}
	got := fmt.Sprintf("%d bytes", total)
	if total <= fetchMaxBytes+size && total > size {
		got = "at most fetch.max.bytes (55 MiB) and one batch"
	}
	expect(t, "T33.total", got)
}

func TestCase44MiddleOfABatch(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a", "b", "c", "d"))
	got := fmt.Sprintf("the batch from %d", c.batches(topic, 0, 2)[0].BaseOffset)
	if got == "the batch from 0" {
		got = "the batch from its base"
	}
	r := consume(t, topic, 0, 2, 2)
	if len(r) == 2 && r[0].Offset == 2 && string(r[0].Value) == "c" {
		got += ", franz-go shows records from the offset"
	}
	expect(t, "44.middle", got)
}

func TestCase45OutOfRange(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a", "b", "c"))
	if code, _ := c.deleteRecords(topic, 0, 2); code != 0 {
		t.Fatal(name(code))
	}
	expect(t, "45.below", name(c.fetch(topic, 0, 1).ErrorCode))
	expect(t, "45.above", name(c.fetch(topic, 0, 4).ErrorCode))
	expect(t, "45.negative", name(c.fetch(topic, 0, -5).ErrorCode))
}

func TestCase49TopicIDs(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a"))
	id := c.topicID(topic)
	byID := func(id [16]byte) kmsg.FetchResponseTopicPartition {
		req := fetchRequest("", 0, 0)
		req.Version, req.Topics[0].TopicID = 13, id
		return c.fetchOne(req)
	}
	p := byID(id)
	got := name(p.ErrorCode)
	if len(p.RecordBatches) > 0 {
		got += ", data"
	}
	expect(t, "49.ids", got)
	expect(t, "49.unknown", name(byID([16]byte{1, 2, 3}).ErrorCode))
	if code := c.deleteTopic(topic).ErrorCode; code != 0 {
		t.Fatal(name(code))
	}
	await(t, "the topic to be gone", func() bool { return c.metadata(9, topic).Topics[0].ErrorCode != 0 })
	c.createTopic(topic, 1)
	if c.topicID(topic) == id {
		t.Error("the new topic has the old id")
	}
	expect(t, "49.recreated", name(byID(id).ErrorCode))
	zero := name(byID([16]byte{}).ErrorCode)
	forget := fetchRequest("", 0, 0)
	forget.Version, forget.SessionEpoch, forget.Topics[0].TopicID = 13, 0, c.topicID(topic)
	opened := do[*kmsg.FetchResponse](c, forget)
	forget.SessionID, forget.SessionEpoch, forget.Topics = opened.SessionID, 1, nil
	if opened.SessionID == 0 {
		forget.SessionEpoch = -1
	}
	ft := kmsg.NewFetchRequestForgottenTopic()
	ft.Partitions = []int32{0}
	forget.ForgottenTopics = append(forget.ForgottenTopics, ft)
	served := name(do[*kmsg.FetchResponse](c, forget).ErrorCode)
	if served == "0" {
		served = "served"
	}
	expect(t, "T25.zero-id", zero+"; "+served)
}

func TestCase52LogStartMoves(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	for i := range 10 {
		c.mustProduce(topic, 0, values(fmt.Sprint(i)))
	}
	if code, low := c.deleteRecords(topic, 0, 6); code != 0 || low != 6 {
		t.Fatalf("delete records: %s, %d", name(code), low)
	}
	cl := franz(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(3)}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(context.Background(), raw.Timeout)
	defer cancel()
	first := int64(-1)
	if records := cl.PollFetches(ctx).Records(); len(records) > 0 {
		first = records[0].Offset
	}
	expect(t, "52.consumer", fmt.Sprintf("%s; log start %d; goes on at %d",
		name(c.fetch(topic, 0, 3).ErrorCode), c.fetch(topic, 0, 7).LogStartOffset, first))
}

func TestCase59Gaps(t *testing.T) {
	c := dial(t)
	topic := c.topic(1, "cleanup.policy=compact", "segment.bytes=1048576", "min.cleanable.dirty.ratio=0.01",
		"delete.retention.ms=0", "min.compaction.lag.ms=0")
	filler := bytes.Repeat([]byte{'f'}, 300_000)
	for range 12 {
		c.mustProduce(topic, 0, raw.NewBatch(now(), raw.Record{Key: []byte("k"), Value: filler}).Encode())
	}
	// A server may go on serving from memory what it has compacted on disk (Felix does): other records take that place.
	other := c.topic(1)
	for range 80 {
		c.mustProduce(other, 0, sized(500_000))
	}
	await(t, "compaction", func() bool { return c.batches(topic, 0, 0)[0].BaseOffset > 1 })
	p := c.fetch(topic, 0, 1)
	stored, err := raw.ParseBatches(p.RecordBatches)
	if err != nil {
		t.Fatal(err)
	}
	got := name(p.ErrorCode)
	if p.ErrorCode == 0 && len(stored) > 0 && stored[0].BaseOffset+int64(stored[0].LastOffsetDelta) > 1 {
		got = "the next batch"
	}
	end := c.offset(topic, 0, -1)
	cl := franz(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	ctx, cancel := context.WithTimeout(context.Background(), raw.Timeout)
	defer cancel()
	for last := int64(-1); last < end-1 && ctx.Err() == nil; {
		for _, r := range cl.PollFetches(ctx).Records() {
			last = r.Offset
		}
		if last == end-1 {
			got += "; franz-go reads to the end"
		}
	}
	expect(t, "59.gap", got)
}

func TestTrap08ErrorCodes(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a"))
	unknown := c.fetch(topic, 7, 0)
	future := fetchRequest(topic, 0, 0)
	future.Topics[0].Partitions[0].CurrentLeaderEpoch = c.metadata(9, topic).Topics[0].Partitions[0].LeaderEpoch + 1
	expect(t, "T08.errors", names(unknown.ErrorCode, c.fetch(newName(t), 0, 0).ErrorCode, c.fetch(topic, 0, 99).ErrorCode,
		c.fetchOne(future).ErrorCode))
	expect(t, "T09.fetch", fmt.Sprintf("partition %d, %s", unknown.Partition, marks(unknown)))
}

func TestTrap31ReadCommitted(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a", "b", "c"))
	committed := func(offset int64) kmsg.FetchResponseTopicPartition {
		req := fetchRequest(topic, 0, offset)
		req.IsolationLevel = 1
		return c.fetchOne(req)
	}
	aborted := func(p kmsg.FetchResponseTopicPartition) string {
		switch {
		case p.AbortedTransactions == nil:
			return "null"
		case len(p.AbortedTransactions) == 0:
			return "empty"
		default:
			return fmt.Sprint(p.AbortedTransactions)
		}
	}
	expect(t, "T31.aborted", aborted(c.fetch(topic, 0, 0))+"; "+aborted(committed(0)))
	if code, _ := c.deleteRecords(topic, 0, -1); code != 0 {
		t.Fatal(name(code))
	}
	p := committed(3)
	got := fmt.Sprintf("%s, marks %s", name(p.ErrorCode), marks(p))
	if p.AbortedTransactions != nil {
		got += ", aborted list not null"
	}
	if p.RecordBatches != nil && len(p.RecordBatches) == 0 {
		got += ", no records"
	}
	expect(t, "T31.empty", got)
}

// TestHostile99LongWait runs beside nothing else: parallel tests start when the others, which restart the server, are done.
func TestHostile99LongWait(t *testing.T) {
	if onlyFelix(t, "S99.hour") {
		return
	}
	t.Parallel()
	c := dial(t)
	req := fetchRequest(c.topic(1), 0, 0)
	req.MaxWaitMillis = 3_600_000
	if _, err := c.Send(req); err != nil {
		t.Fatal(err)
	}
	var b [4]byte
	begin := time.Now()
	if err := c.SetReadDeadline(begin.Add(40 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got := "not answered"
	if _, err := io.ReadFull(c, b[:]); err == nil {
		got = fmt.Sprintf("answered after %v", time.Since(begin))
		if d := time.Since(begin); d > 25*time.Second && d < 35*time.Second {
			got = "answered after about 30 s"
		}
	}
	expect(t, "S99.hour", got)
}

// kadmOffsets compares kadm's view of a topic, as tools have it (case 58, with compat/clients for Java).
func kadmOffsets(t *testing.T, topic string, ms int64) (start, end, at int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), raw.Timeout)
	defer cancel()
	admin := kadm.NewClient(franz(t))
	s, err1 := admin.ListStartOffsets(ctx, topic)
	e, err2 := admin.ListEndOffsets(ctx, topic)
	a, err3 := admin.ListOffsetsAfterMilli(ctx, ms, topic)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	return s[topic][0].Offset, e[topic][0].Offset, a[topic][0].Offset
}
