package clients

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
)

// codecNames in the order of their numbers in a batch's attributes; the matrix writes codec n to partition n.
var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// xerialMagic starts a snappy stream in the framing of the Java library.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// fixture is what a client writes to one partition: odd records first, then enough repetition that every codec pays off.
func fixture(partition int32, f driver.Features) []agent.Record {
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	text := []byte("value of a record that repeats itself: " + strings.Repeat("felix ", 60))
	records := []agent.Record{
		{Key: []byte("k1"), Value: text},
		{Key: nil, Value: append([]byte("no key "), text...)},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("tombstone"), Value: nil},
		{Key: []byte("ключ"), Value: []byte("värde")},
		{Key: []byte("headers"), Value: text, Headers: []agent.Header{
			{Key: "h1", Value: []byte("a")},
			{Key: "h2", Value: []byte("b")},
			{Key: "h1", Value: []byte("c")},
			{Key: "empty", Value: []byte{}},
			{Key: "null", Value: nil},
		}},
	}
	if !f.TextOnly {
		records = append(records,
			agent.Record{Key: binary, Value: append([]byte("line\nline\ttab\x00"), binary...)},
			agent.Record{Key: nil, Value: nil, Headers: []agent.Header{{Key: "only", Value: binary}}})
	}
	if f.NoNullHeader {
		records[5].Headers[4].Value = []byte{}
	}
	if f.NoEmptyPair {
		records[len(records)-1].Key = []byte("a key")
	}
	for i := range 100 {
		records = append(records, agent.Record{Key: fmt.Appendf(nil, "bulk-%03d", i), Value: text})
	}
	base := time.Now().Add(-time.Hour).UnixMilli()
	for i := range records {
		records[i].Partition = partition
		if !f.NoTimestamps {
			// Every third one is older than the one before: deltas may be negative.
			records[i].Timestamp = base + int64(i)*1000 - int64(i%3)*5000
		}
	}
	return records
}

// written is one partition of the matrix after it was written.
type written struct {
	records  []agent.Record
	from, to time.Time // when it was written, for clients that choose timestamps
}

// TestCase17CodecMatrix: every client writes in every codec (cases 17 to 19; traps 1, 17, 18, 35, 36), the stored batches carry
// that codec's bits, and every client reads what every other wrote.
func TestCase17CodecMatrix(t *testing.T) {
	for _, w := range suite.clients {
		topic := newTopic(t, int32(len(codecNames)), nil)
		var parts []written
		forClient(t, "17", w, func(t *testing.T, w *driver.Client) {
			parts = writeCodecs(t, w, topic)
			checkStored(t, w, topic, parts)
		})
		if parts == nil {
			continue
		}
		for _, reader := range suite.clients {
			t.Run(strings.ReplaceAll(w.Name+" read by "+reader.Name, " ", "-"), func(t *testing.T) {
				needsRead(t, reader)
				t.Cleanup(func() { suite.results.Note("19", reader.Name, !t.Failed()) })
				whole := readBack(t, w, reader, topic, parts)
				for range whole {
					suite.results.Read(w.Name, reader.Name)
				}
				suite.results.Note("18", reader.Name, slices.Contains(whole, "snappy"))
			})
		}
	}
}

// writeCodecs lets a client write the fixture in each codec to a partition of its own.
func writeCodecs(t *testing.T, w *driver.Client, topic string) []written {
	var parts []written
	for codec, name := range codecNames {
		part := written{records: fixture(int32(codec), w.Features), from: time.Now().Truncate(time.Millisecond)}
		res := call(t, w, agent.Request{Op: agent.OpProduce, Topic: topic, Codec: name, Records: part.records})
		part.to = time.Now()
		if !w.Features.NoOffsets {
			for i, offset := range res.Offsets {
				if offset != int64(i) {
					t.Fatalf("%s: record %d was acknowledged at offset %d", name, i, offset)
				}
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// checkStored fetches what was written and looks at each batch's codec; case 18: at its snappy framing too.
func checkStored(t *testing.T, w *driver.Client, topic string, parts []written) {
	for codec, name := range codecNames {
		records := 0
		for _, b := range stored(t, topic, int32(codec), 0) {
			records += int(b.count)
			// kcat sends each odd record alone; a record of a few bytes does not shrink, and is then stored as it is.
			if b.codec != codec && (b.count > 5 || b.codec != 0) {
				t.Errorf("%s: batch at offset %d with %d records is stored with codec %d", name, b.base, b.count, b.codec)
			}
			if name == "snappy" && b.codec == codec {
				if xerial := bytes.HasPrefix(b.payload, xerialMagic); xerial != w.Features.Xerial {
					t.Errorf("snappy: xerial framing is %v", xerial)
				}
			}
		}
		if records != len(parts[codec].records) {
			t.Errorf("%s: %d records stored, want %d", name, records, len(parts[codec].records))
		}
	}
}

// readBack reads all partitions with one client and compares every record. It returns the codecs whose records are all whole.
func readBack(t *testing.T, w, reader *driver.Client, topic string, parts []written) (whole []string) {
	res, err := try(t, reader, agent.Request{Op: agent.OpConsume, Topic: topic, Assign: []int32{0, 1, 2, 3, 4}, From: agent.FromBeginning})
	if err != nil {
		t.Error(err)
		return nil
	}
	byPartition := make([][]agent.Record, len(codecNames))
	for _, r := range res.Records {
		byPartition[r.Partition] = append(byPartition[r.Partition], r)
	}
	for codec, name := range codecNames {
		if problem := compareAll(w, reader, byPartition[codec], parts[codec]); problem != "" {
			t.Errorf("%s: %s", name, problem)
			continue
		}
		whole = append(whole, name)
	}
	return whole
}

// compareAll says how what was read of a partition differs from what was written to it; "" if it does not.
func compareAll(w, reader *driver.Client, got []agent.Record, part written) string {
	if len(got) != len(part.records) {
		return fmt.Sprintf("%d records, want %d", len(got), len(part.records))
	}
	for i, r := range got {
		want := part.records[i]
		want.Offset = int64(i)
		if w.Features.NoTimestamps {
			if r.Timestamp < part.from.UnixMilli() || r.Timestamp > part.to.UnixMilli() {
				return fmt.Sprintf("record %d has timestamp %d, written between %d and %d", i, r.Timestamp, part.from.UnixMilli(), part.to.UnixMilli())
			}
			want.Timestamp = r.Timestamp
		}
		if reader.Features.TextOnly {
			want.Headers = slices.Clone(want.Headers)
			hideBinaryHeaders(r.Headers, want.Headers)
		}
		if reader.Features.EmptyIsNull {
			r, want = emptyIsNull(r), emptyIsNull(want)
		}
		if w.Features.HeaderMap || reader.Features.HeaderMap {
			want.Headers = grouped(want.Headers)
		}
		if diff := compare(r, want); diff != "" {
			return fmt.Sprintf("record %d: %s", i, diff)
		}
	}
	return ""
}

// emptyIsNull is a record with null for all that is empty.
func emptyIsNull(r agent.Record) agent.Record {
	null := func(b []byte) []byte {
		if len(b) == 0 {
			return nil
		}
		return b
	}
	r.Key, r.Value, r.Headers = null(r.Key), null(r.Value), slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = null(r.Headers[i].Value)
	}
	return r
}

// grouped is what a client that keeps headers in a map by name makes of them.
func grouped(headers []agent.Header) []agent.Header {
	var out []agent.Header
	for i, h := range headers {
		if slices.ContainsFunc(headers[:i], func(before agent.Header) bool { return before.Key == h.Key }) {
			continue
		}
		for _, same := range headers[i:] {
			if same.Key == h.Key {
				out = append(out, same)
			}
		}
	}
	return out
}

// hideBinaryHeaders blanks header values that a tool which prints them as C strings cannot show, on both sides.
func hideBinaryHeaders(got, want []agent.Header) {
	for i, h := range want {
		if i < len(got) && bytes.IndexByte(h.Value, 0) >= 0 {
			got[i].Value, want[i].Value = nil, nil
		}
	}
}

// compare says how a record that was read differs from the one that was written; "" if it does not. Null is not empty.
func compare(got, want agent.Record) string {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	switch {
	case got.Partition != want.Partition || got.Offset != want.Offset:
		return fmt.Sprintf("at %d/%d, want %d/%d", got.Partition, got.Offset, want.Partition, want.Offset)
	case got.Timestamp != want.Timestamp:
		return fmt.Sprintf("timestamp %d, want %d", got.Timestamp, want.Timestamp)
	case !same(got.Key, want.Key):
		return fmt.Sprintf("key %s, want %s", show(got.Key), show(want.Key))
	case !same(got.Value, want.Value):
		return fmt.Sprintf("value %s, want %s", show(got.Value), show(want.Value))
	case len(got.Headers) != len(want.Headers):
		return fmt.Sprintf("%d headers, want %d", len(got.Headers), len(want.Headers))
	}
	for i, h := range got.Headers {
		if h.Key != want.Headers[i].Key || !same(h.Value, want.Headers[i].Value) {
			return fmt.Sprintf("header %d is %q=%s, want %q=%s", i, h.Key, show(h.Value), want.Headers[i].Key, show(want.Headers[i].Value))
		}
	}
	return ""
}

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%.60q", b)
}
