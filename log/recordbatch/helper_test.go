package recordbatch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exact compares byte slices as wholes, null apart from empty; byte by byte cmp takes seconds for a batch.
var exact = cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) })

var allCodecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd}

// plain is a record as a test writes it.
type plain struct {
	Timestamp  int64
	Key, Value []byte
	Headers    []RecordHeader
}

// samples cover null, empty, headers with repeats, and timestamps that go back.
func samples() []plain {
	return []plain{
		{Timestamp: 1000, Key: []byte("k"), Value: []byte("v")},
		{Timestamp: 1007, Key: nil, Value: nil},
		{Timestamp: 990, Key: []byte{}, Value: []byte{}},
		{Timestamp: 1 << 40, Key: []byte("key"), Value: bytes.Repeat([]byte("value"), 100), Headers: []RecordHeader{
			{Key: []byte("h"), Value: []byte("1")}, {Key: []byte("h"), Value: nil}, {Key: []byte{}, Value: []byte{}},
		}},
		{Timestamp: 1000, Value: bytes.Repeat([]byte{0}, 70_000)},
	}
}

func build(t testing.TB, o BuilderOptions, records []plain) []byte {
	t.Helper()
	b := NewBuilder(nil, o)
	for _, r := range records {
		b.Append(r.Timestamp, r.Key, r.Value, r.Headers...)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// sized makes n records of size bytes of JSON-like text.
func sized(n, size int) []plain {
	rnd := rand.New(rand.NewPCG(1, 2))
	records := make([]plain, n)
	for i := range records {
		v := fmt.Appendf(nil, `{"id":%d,"name":"user-%d","score":%d,"text":"`, i, rnd.IntN(1e6), rnd.IntN(1e9))
		for len(v) < size-2 {
			v = append(v, byte('a'+rnd.IntN(26)))
		}
		records[i] = plain{Timestamp: 1_700_000_000_000 + int64(i), Value: append(v[:size-2], '"', '}')}
	}
	return records
}

// collect reads all records of an opened batch.
func collect(h Header, records []byte) ([]plain, []int64, error) {
	var out []plain
	var offsets []int64
	it := Records(h, records)
	for it.Next() {
		out = append(out, copied(&it.Record))
		offsets = append(offsets, it.Record.Offset)
	}
	return out, offsets, it.Err()
}

func copied(r *Record) plain {
	p := plain{Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	for it := r.Headers(); ; {
		h, ok := it.Next()
		if !ok {
			return p
		}
		p.Headers = append(p.Headers, RecordHeader{Key: bytes.Clone(h.Key), Value: bytes.Clone(h.Value)})
	}
}

// read opens a whole batch and returns its records and their offsets.
func read(t testing.TB, batch []byte) ([]plain, []int64) {
	t.Helper()
	if err := CheckCRC(batch); err != nil {
		t.Fatal(err)
	}
	h, err := ParseHeader(batch)
	if err != nil {
		t.Fatal(err)
	}
	records, err := Open(nil, h, batch, DefaultMaxDecodedBytes)
	if err != nil {
		t.Fatal(err)
	}
	out, offsets, err := collect(h, records)
	if err != nil {
		t.Fatal(err)
	}
	return out, offsets
}

// stream reads a batch through a RecordReader.
func stream(batch []byte, maxBytes int) ([]plain, error) {
	r, err := NewRecordReader(batch, maxBytes)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []plain
	for r.Next() {
		out = append(out, copied(&r.Record))
	}
	return out, r.Err()
}
