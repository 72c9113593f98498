package raw_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/raw"
)

// defaultMaxMessage is max.message.bytes where nobody set it.
const defaultMaxMessage = 1048588

var _ = register(
	Case{ID: "20.acks-0", What: "1000 records with acks=0, raw, 10 requests", Want: "all stored; no response bytes"},
	Case{ID: "21.partition", What: "acks=0 to a partition that does not exist", Want: "closed, no bytes; nothing stored"},
	Case{
		ID: "23.min-isr", What: "acks=-1 to a topic with min.insync.replicas=2 and one replica", Want: "NOT_ENOUGH_REPLICAS (19), nothing stored",
		WantKafka: "0, stored", Why: "design.md decision 5: acks=all waits for max(consistency, min.insync.replicas) replicas; Kafka since 3.x takes the smaller of min.insync.replicas and the replica count",
	},
	Case{ID: "24.acks-2", What: "acks=2, two partitions", Want: "INVALID_REQUIRED_ACKS (21); INVALID_REQUIRED_ACKS (21)"},
	Case{ID: "25.max", What: "batch of exactly max.message.bytes", Want: "0"},
	Case{ID: "25.over", What: "batch one byte larger", Want: "MESSAGE_TOO_LARGE (10), nothing stored"},
	Case{ID: "25.topic", What: "the same limit set by the topic: max.message.bytes=2000, batches of 2000 and 2001 bytes", Want: "0; MESSAGE_TOO_LARGE (10)"},
	Case{ID: "25.segment", What: "batch larger than segment.bytes (1 MiB) but within max.message.bytes", Want: "RECORD_LIST_TOO_LARGE (18)"},
	Case{ID: "26.flipped", What: "flipped byte in the records", Want: "CORRUPT_MESSAGE (2), nothing stored"},
	Case{ID: "26.length-more", What: "batch_length one too large, so that the batch ends past the data", Want: "INVALID_RECORD (87), nothing stored"},
	Case{ID: "26.length-less", What: "batch_length one too small", Want: "CORRUPT_MESSAGE (2), nothing stored"},
	Case{ID: "26.truncated", What: "truncated batch", Want: "INVALID_RECORD (87), nothing stored"},
	Case{ID: "26.trailing", What: "five bytes after the batch", Want: "0, stored without them"},
	Case{ID: "26.others", What: "the other partition of a request with a flipped byte", Want: "CORRUPT_MESSAGE (2); 0, stored"},
	Case{ID: "27.two", What: "two batches in one partition", Want: "INVALID_RECORD (87), nothing stored"},
	Case{
		ID: "27.magic-1", What: "message set of magic 1", Want: "UNSUPPORTED_FOR_MESSAGE_FORMAT (43), nothing stored",
		WantKafka: "INVALID_RECORD (87), nothing stored", Why: "spec/kafka.md 3.6: both are final, 43 says what is wrong",
	},
	Case{ID: "27.base", What: "base_offset 5", Want: "INVALID_RECORD (87), nothing stored"},
	Case{ID: "27.control", What: "control bit set", Want: "INVALID_RECORD (87), nothing stored"},
	Case{ID: "27.count", What: "records_count one more than last_offset_delta + 1", Want: "INVALID_RECORD (87), nothing stored"},
	Case{ID: "27.content", What: "records_count and last_offset_delta agree, but the batch has one record less", Want: "INVALID_RECORD (87), nothing stored"},
	Case{ID: "27.empty", What: "a batch of no records", Want: "INVALID_RECORD (87), nothing stored"},
	Case{
		ID: "27.null", What: "null records", Want: "INVALID_RECORD (87), nothing stored",
		OnlyFelix: "Kafka 4.3.1 fails on it with a NullPointerException and never answers",
	},
	Case{
		ID: "27.codec", What: "unknown codec 5", Want: "CORRUPT_MESSAGE (2), nothing stored",
		WantKafka: "UNKNOWN_SERVER_ERROR (-1), nothing stored", Why: "spec/kafka.md 6 case 27: an answer that says what is wrong",
	},
	Case{
		ID: "28.gzip", What: "1 MiB of gzip that expands to 1 GiB, topic that opens batches (compacted)", Want: "MESSAGE_TOO_LARGE (10) quickly",
		OnlyFelix: "Kafka has no cap on what a batch expands to",
	},
	Case{
		ID: "28.zstd", What: "zstd that expands to 1 GiB, topic that opens batches (compacted)", Want: "MESSAGE_TOO_LARGE (10) quickly",
		OnlyFelix: "Kafka has no cap on what a batch expands to",
	},
	Case{ID: "35.log-append", What: "LogAppendTime topic, timestamp 1000: answer and stored batch", Want: "0, server's time in the answer; bit 3, server's time, CRC valid"},
	Case{ID: "36.missing", What: "produce to a missing topic", Want: "UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{
		ID: "36.name", What: "produce to an invalid name", Want: "INVALID_TOPIC_EXCEPTION (17)",
		WantKafka: "UNKNOWN_TOPIC_OR_PARTITION (3)", Why: "spec/kafka.md 6 case 36: 17 is final, so the client does not retry for two minutes",
	},
	Case{ID: "36.id", What: "Produce v13 with a made-up topic id, with a zero id", Want: "UNKNOWN_TOPIC_ID (100); UNKNOWN_TOPIC_ID (100)"},
	Case{ID: "36.partition", What: "produce to partition 99", Want: "UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "T09.produce", What: "Produce v9: fields of a refused partition", Want: "base offset -1, append time -1, log start -1"},
	Case{ID: "T17.xerial", What: "snappy: xerial framing, raw block; each read back by franz-go", Want: "same records, bytes untouched"},
	Case{ID: "T18.max-timestamp", What: "max_timestamp left at -1 by the producer: stored batch, ListOffsets by time", Want: "true maximum, CRC valid; found"},
	Case{ID: "T18.bounds", What: "CreateTime two hours ahead with message.timestamp.after.max.ms of one hour", Want: "INVALID_TIMESTAMP (32), nothing stored"},
	Case{ID: "T18.bit-3", What: "a producer that sets bit 3 itself, LogAppendTime topic", Want: "INVALID_TIMESTAMP (32), nothing stored"},
	Case{ID: "T18.bit-3-create", What: "a producer that sets bit 3 itself, CreateTime topic", Want: "0, stored without bit 3"},
	Case{ID: "T35.zstd-6", What: "zstd with Produce v6, then v7", Want: "UNSUPPORTED_COMPRESSION_TYPE (76); 0"},
	Case{ID: "T36.codecs", What: "all five codecs, Produce v9: stored codec bits", Want: "none gzip snappy lz4 zstd"},
	Case{ID: "T18.compact-key", What: "compacted topic: a record without a key", Want: "INVALID_RECORD (87), record 1 named, nothing stored"},
	Case{ID: "T36.codec-topic", What: "compression.type=lz4 and a gzip batch", Want: "stored as lz4, same records"},
	Case{ID: "S97.count", What: "record count 2^31-1 in a small batch", Want: "refused, nothing stored"},
	Case{ID: "S98.timestamp", What: "timestamp delta that overflows the base", Want: "refused, nothing stored"},
	Case{ID: "S98.offset", What: "the one record of a batch with an offset delta that no int32 holds, 2^40; with the largest one", Want: "refused, nothing stored; 0, stored"},
	Case{ID: "T13.order", What: "acks=1: order of five requests in flight on one connection", Want: "0,1,2,3,4"},
)

// verdict produces one partition's records and says what came of it.
func verdict(c *client, topic string, records []byte) string {
	c.t.Helper()
	before := c.offset(topic, 0, -1)
	p := c.produce(topic, 0, records)
	after := c.offset(topic, 0, -1)
	switch {
	case p.ErrorCode != 0 && after != before:
		return fmt.Sprintf("%s, but the log end moved from %d to %d", name(p.ErrorCode), before, after)
	case p.ErrorCode != 0:
		return name(p.ErrorCode) + ", nothing stored"
	case after == before:
		return "0, but nothing stored"
	default:
		return "0, stored"
	}
}

func TestCase20Acks0(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	var want []string
	for i := range 10 {
		var v []string
		for j := range 100 {
			v = append(v, fmt.Sprint(i*100+j))
		}
		want = append(want, v...)
		if _, err := c.Send(produceRequest(9, 0, topic, part{0, values(v...)})); err != nil {
			t.Fatal(err)
		}
	}
	got := "no response bytes"
	if o := c.Outcome(200 * time.Millisecond); o != "open, no bytes" {
		got = o
	}
	d := dial(t)
	await(t, "1000 records", func() bool { return d.offset(topic, 0, -1) == 1000 })
	if d.stored(topic, 0) == strings.Join(want, ",") {
		got = "all stored; " + got
	}
	expect(t, "20.acks-0", got)
}

func TestCase21Acks0Refused(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	if _, err := c.Send(produceRequest(9, 0, topic, part{7, values("x")})); err != nil {
		t.Fatal(err)
	}
	got := c.Outcome(closeWait)
	if dial(t).stored(topic, 0) == "" {
		got += "; nothing stored"
	}
	expect(t, "21.partition", got)
}

func TestCase23MinInsyncReplicas(t *testing.T) {
	c := dial(t)
	expect(t, "23.min-isr", verdict(c, c.topic(1, "min.insync.replicas=2"), values("x")))
}

func TestCase24Acks2(t *testing.T) {
	c := dial(t)
	topic := c.topic(2)
	resp := do[*kmsg.ProduceResponse](c, produceRequest(9, 2, topic, part{0, values("x")}, part{1, values("x")}))
	p := resp.Topics[0].Partitions
	expect(t, "24.acks-2", names(p[0].ErrorCode, p[1].ErrorCode))
}

// sized is a batch of exactly n bytes.
func sized(n int) []byte {
	value := n - len(values(""))
	for {
		b := raw.NewBatch(now(), raw.Record{Value: bytes.Repeat([]byte{'v'}, value)}).Encode()
		if len(b) == n {
			return b
		}
		value -= len(b) - n
	}
}

func TestCase25MaxMessageBytes(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	expect(t, "25.max", name(c.produce(topic, 0, sized(defaultMaxMessage)).ErrorCode))
	expect(t, "25.over", verdict(c, topic, sized(defaultMaxMessage+1)))
	small := c.topic(1, "max.message.bytes=2000")
	expect(t, "25.topic", names(c.produce(small, 0, sized(2000)).ErrorCode, c.produce(small, 0, sized(2001)).ErrorCode))
	segment := c.topic(1, "segment.bytes=1048576", "max.message.bytes=4000000")
	expect(t, "25.segment", name(c.produce(segment, 0, sized(1048577)).ErrorCode))
}

func TestCase26Corrupt(t *testing.T) {
	c := dial(t)
	topic := c.topic(2)
	batch := func() []byte { return values("one", "two", "three") }
	flip := func(b []byte) []byte {
		b[len(b)-3] ^= 0x10
		return b
	}
	length := func(delta int32) []byte {
		b := batch()
		binary.BigEndian.PutUint32(b[8:], uint32(int32(len(b)-12)+delta))
		return b
	}
	expect(t, "26.flipped", verdict(c, topic, flip(batch())))
	expect(t, "26.length-more", verdict(c, topic, length(1)))
	expect(t, "26.length-less", verdict(c, topic, length(-1)))
	expect(t, "26.truncated", verdict(c, topic, batch()[:len(batch())-4]))
	got := verdict(c, topic, append(batch(), 1, 2, 3, 4, 5))
	if s := c.batches(topic, 0, 0); got == "0, stored" && len(s) == 1 && s[0].Count == 3 && len(s[0].Raw) == len(batch()) {
		got = "0, stored without them"
	}
	expect(t, "26.trailing", got)
	resp := do[*kmsg.ProduceResponse](c, produceRequest(9, -1, topic, part{0, flip(batch())}, part{1, batch()}))
	slices.SortFunc(resp.Topics[0].Partitions, func(a, b kmsg.ProduceResponseTopicPartition) int { return int(a.Partition - b.Partition) })
	p := resp.Topics[0].Partitions
	got = names(p[0].ErrorCode, p[1].ErrorCode)
	if c.stored(topic, 1) == "one,two,three" {
		got += ", stored"
	}
	expect(t, "26.others", got)
	expect(t, "T09.produce", fmt.Sprintf("base offset %d, append time %d, log start %d", p[0].BaseOffset, p[0].LogAppendTime, p[0].LogStartOffset))
}

func TestCase27IllegalBatches(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	two := int32(2)
	three := int32(3)
	with := func(change func(b *raw.Batch)) []byte {
		b := raw.NewBatch(now(), raw.Values("a", "b")...)
		change(b)
		return b.Encode()
	}
	expect(t, "27.two", verdict(c, topic, append(values("a"), values("b")...)))
	expect(t, "27.magic-1", verdict(c, topic, raw.MessageSet(1, now(), []byte("a"))))
	expect(t, "27.base", verdict(c, topic, with(func(b *raw.Batch) { b.BaseOffset = 5 })))
	expect(t, "27.control", verdict(c, topic, with(func(b *raw.Batch) { b.Attributes = 0x20 })))
	expect(t, "27.count", verdict(c, topic, with(func(b *raw.Batch) { b.Count = &three })))
	expect(t, "27.content", verdict(c, topic, with(func(b *raw.Batch) { b.Count, b.LastOffsetDelta = &three, &two })))
	expect(t, "27.empty", verdict(c, topic, with(func(b *raw.Batch) { b.Records = nil })))
	expect(t, "27.codec", verdict(c, topic, with(func(b *raw.Batch) { b.Attributes = 5 })))
	if got := c.stored(topic, 0); got != "" {
		t.Errorf("stored %q", got)
	}
}

func TestCase27NullRecords(t *testing.T) {
	if onlyFelix(t, "27.null") {
		return
	}
	c := dial(t)
	expect(t, "27.null", verdict(c, c.topic(1), nil))
}

func TestCase28Bombs(t *testing.T) {
	gzipExcluded, zstdExcluded := onlyFelix(t, "28.gzip"), onlyFelix(t, "28.zstd")
	if gzipExcluded || zstdExcluded {
		return
	}
	c := dial(t)
	topic := c.topic(1, "cleanup.policy=compact", "max.message.bytes=4000000")
	// 64 members (or frames) of 16 MiB each, which both formats allow to follow one another.
	zeros := make([]byte, 16<<20)
	for id, codec := range map[string]raw.Codec{"28.gzip": raw.Gzip, "28.zstd": raw.Zstd} {
		b := raw.NewBatch(now(), raw.Values("x")...)
		b.Codec = codec
		records := bytes.Repeat(raw.Compress(codec, zeros), 64)
		begin := time.Now()
		got := name(c.produce(topic, 0, b.EncodeRecords(records, now())).ErrorCode)
		if d := time.Since(begin); d < 2*time.Second {
			got += " quickly"
		} else {
			got += fmt.Sprintf(" after %v", d)
		}
		expect(t, id, got)
	}
}

func TestCase35LogAppendTime(t *testing.T) {
	c := dial(t)
	topic := c.topic(1, "message.timestamp.type=LogAppendTime")
	before := now()
	p := c.produce(topic, 0, raw.NewBatch(1000, raw.Values("a", "b")...).Encode())
	near := func(ts int64) string {
		if ts >= before && ts <= now() {
			return "server's time"
		}
		return fmt.Sprintf("time %d", ts)
	}
	s := c.batches(topic, 0, 0)[0]
	bit := "no bit 3"
	if s.LogAppendTime() {
		bit = "bit 3"
	}
	crc := "CRC wrong"
	if s.CRCValid {
		crc = "CRC valid"
	}
	expect(t, "35.log-append", fmt.Sprintf("%s, %s in the answer; %s, %s, %s", name(p.ErrorCode), near(p.LogAppendTime), bit, near(s.MaxTimestamp), crc))
	if s.BaseTimestamp != 1000 {
		t.Logf("base timestamp %d: the records were rewritten", s.BaseTimestamp)
	}
	for _, r := range consume(t, topic, 0, 0, 2) {
		if got := near(r.Timestamp.UnixMilli()); got != "server's time" {
			t.Errorf("consumer sees %s", got)
		}
	}
}

func TestCase36UnknownTargets(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	expect(t, "36.missing", name(c.produce(newName(t), 0, values("x")).ErrorCode))
	expect(t, "36.name", name(c.produce("raw.not legal", 0, values("x")).ErrorCode))
	byID := func(id [16]byte) int16 {
		req := produceRequest(13, -1, "", part{0, values("x")})
		req.Topics[0].TopicID = id
		return do[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0].ErrorCode
	}
	expect(t, "36.id", names(byID([16]byte{2, 7, 1, 8}), byID([16]byte{})))
	expect(t, "36.partition", name(c.produce(topic, 99, values("x")).ErrorCode))
}

func TestTrap17SnappyFramings(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	b := raw.NewBatch(now(), raw.Values("one", strings.Repeat("two", 1000), "three")...)
	plain := b.Encode()[61:]
	b.Codec = raw.Snappy
	sent := [][]byte{
		b.EncodeRecords(raw.Xerial(plain, 1024), b.BaseTimestamp),
		b.EncodeRecords(raw.Compress(raw.Snappy, plain), b.BaseTimestamp),
	}
	got := "same records, bytes untouched"
	for _, batch := range sent {
		c.mustProduce(topic, 0, batch)
	}
	for i, s := range c.batches(topic, 0, 0) {
		if !bytes.Equal(s.Raw[61:], sent[i][61:]) {
			got = fmt.Sprintf("batch %d rewritten", i)
		}
	}
	for i, r := range consume(t, topic, 0, 0, 6) {
		if string(r.Value) != string(b.Records[i%3].Value) {
			got = fmt.Sprintf("record %d differs", i)
		}
	}
	expect(t, "T17.xerial", got)
}

func TestTrap18Timestamps(t *testing.T) {
	c := dial(t)
	topic := c.topic(1, "message.timestamp.after.max.ms=3600000")
	unset, base := int64(-1), now()
	b := raw.NewBatch(base, raw.Values("a", "b", "c")...)
	b.Records[1].TimestampDelta, b.MaxTimestamp = 50, &unset
	c.mustProduce(topic, 0, b.Encode())
	s := c.batches(topic, 0, 0)[0]
	got := fmt.Sprintf("maximum %d", s.MaxTimestamp-base)
	if s.MaxTimestamp == base+50 {
		got = "true maximum"
	}
	if s.CRCValid {
		got += ", CRC valid"
	}
	if p := c.listOffsets(7, topic, 0, base+20); p.Offset == 1 && p.Timestamp == base+50 {
		got += "; found"
	} else {
		got += fmt.Sprintf("; offset %d time %d", p.Offset, p.Timestamp-base)
	}
	expect(t, "T18.max-timestamp", got)
	expect(t, "T18.bounds", verdict(c, topic, raw.NewBatch(now()+2*3600*1000, raw.Values("x")...).Encode()))
	bit := raw.NewBatch(now(), raw.Values("x")...)
	bit.Attributes = 8
	appendTime := c.topic(1, "message.timestamp.type=LogAppendTime")
	expect(t, "T18.bit-3", verdict(c, appendTime, bit.Encode()))
	got = verdict(c, topic, bit.Encode())
	if s := c.batches(topic, 0, c.offset(topic, 0, -1)-1); got == "0, stored" && s[0].LogAppendTime() {
		got += " with bit 3"
	} else {
		got += " without bit 3"
	}
	expect(t, "T18.bit-3-create", got)
}

func TestTrap35ZstdVersions(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	b := raw.NewBatch(now(), raw.Values("x")...)
	b.Codec = raw.Zstd
	expect(t, "T35.zstd-6", names(c.produceAs(6, -1, topic, 0, b.Encode()).ErrorCode, c.produceAs(7, -1, topic, 0, b.Encode()).ErrorCode))
}

func TestTrap36Codecs(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	for codec := raw.None; codec <= raw.Zstd; codec++ {
		b := raw.NewBatch(now(), raw.Values(codec.String(), strings.Repeat("x", 500))...)
		b.Codec = codec
		c.mustProduce(topic, 0, b.Encode())
	}
	var bits []string
	for _, s := range c.batches(topic, 0, 0) {
		bits = append(bits, s.Codec().String())
		if records, err := s.Records(); err != nil || string(records[0].Value) != s.Codec().String() {
			t.Errorf("%v: %v", s.Codec(), err)
		}
	}
	expect(t, "T36.codecs", strings.Join(bits, " "))
	for i, r := range consume(t, topic, 0, 0, 10) {
		if i%2 == 0 && string(r.Value) != raw.Codec(i/2).String() {
			t.Errorf("record %d: %q", i, r.Value)
		}
	}
}

func TestCompactedTopicNeedsKeys(t *testing.T) {
	c := dial(t)
	topic := c.topic(1, "cleanup.policy=compact")
	records := []raw.Record{{Key: []byte("k"), Value: []byte("v")}, {Value: []byte("v")}}
	p := c.produce(topic, 0, raw.NewBatch(now(), records...).Encode())
	got := name(p.ErrorCode)
	for _, e := range p.ErrorRecords {
		got += fmt.Sprintf(", record %d named", e.RelativeOffset)
	}
	if c.stored(topic, 0) == "" {
		got += ", nothing stored"
	}
	expect(t, "T18.compact-key", got)
}

func TestTopicCompressionType(t *testing.T) {
	c := dial(t)
	topic := c.topic(1, "compression.type=lz4")
	b := raw.NewBatch(now(), raw.Values("one", "two")...)
	b.Codec = raw.Gzip
	c.mustProduce(topic, 0, b.Encode())
	got := "stored as " + c.batches(topic, 0, 0)[0].Codec().String()
	if c.stored(topic, 0) == "one,two" {
		got += ", same records"
	}
	expect(t, "T36.codec-topic", got)
}

func TestHostile97Counts(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	refused := func(records []byte) string {
		got := verdict(c, topic, records)
		if strings.HasSuffix(got, ", nothing stored") {
			return "refused, nothing stored"
		}
		return got
	}
	maxInt := int32(1<<31 - 1)
	b := raw.NewBatch(now(), raw.Values("x")...)
	b.Count = &maxInt
	expect(t, "S97.count", refused(b.Encode()))
	b.LastOffsetDelta = &maxInt
	if got := refused(b.Encode()); got != "refused, nothing stored" {
		t.Error(got)
	}
	overflow := raw.NewBatch(1<<63-10, raw.Values("x", "y")...)
	overflow.Records[1].TimestampDelta = 1 << 62
	expect(t, "S98.timestamp", refused(overflow.Encode()))
	delta := func(d int64) []byte {
		body := append([]byte{0, 0}, binary.AppendVarint(nil, d)...)
		body = append(body, 1, 2, 'x', 0) // no key, a value of one byte, no headers
		one := raw.NewBatch(now(), raw.Values("x")...)
		return one.EncodeRecords(append(binary.AppendVarint(nil, int64(len(body))), body...), one.BaseTimestamp)
	}
	expect(t, "S98.offset", refused(delta(1<<40))+"; "+refused(delta(1<<31-1)))
}

func TestTrap13OrderInFlight(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	var requests []kmsg.Request
	for i := range 5 {
		requests = append(requests, produceRequest(9, 1, topic, part{0, values(fmt.Sprint(i))}))
	}
	if wrong := pipeline(c, requests); wrong != "" {
		t.Fatal(wrong)
	}
	expect(t, "T13.order", c.stored(topic, 0))
}
