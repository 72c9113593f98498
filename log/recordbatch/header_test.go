package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fromKafkaClient encodes a batch with the client library's own types: a second opinion on every field's place.
func fromKafkaClient(h Header, records []byte) []byte {
	b := kmsg.NewRecordBatch()
	b.FirstOffset, b.PartitionLeaderEpoch, b.Magic = h.BaseOffset, h.LeaderEpoch, 2
	b.Attributes, b.LastOffsetDelta = h.Attributes, h.LastOffsetDelta
	b.FirstTimestamp, b.MaxTimestamp = h.BaseTimestamp, h.MaxTimestamp
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = h.ProducerID, h.ProducerEpoch, h.BaseSequence
	b.NumRecords, b.Records = h.RecordCount, records
	b.Length = int32(len(b.AppendTo(nil)) - LengthEnd)
	b.CRC = int32(Checksum(b.AppendTo(nil)))
	return b.AppendTo(nil)
}

func TestHeaderAgainstClientLibrary(t *testing.T) {
	want := Header{
		BaseOffset: 1<<40 + 1, LeaderEpoch: -7, Magic: 2, Attributes: 0x7fff, LastOffsetDelta: 1 << 30, BaseTimestamp: -5,
		MaxTimestamp: 1<<50 + 3, ProducerID: 1<<45 + 9, ProducerEpoch: 0x7ffe, BaseSequence: 1<<30 + 7, RecordCount: 1<<29 + 5,
	}
	b := fromKafkaClient(want, []byte("records"))
	want.Length = int32(len(b) - LengthEnd)
	want.CRC = binary.BigEndian.Uint32(b[17:])
	got, err := ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, exact); diff != "" {
		t.Error(diff)
	}
	if err := CheckCRC(b); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(b[:HeaderSize], AppendHeader(nil, got)); diff != "" {
		t.Error(diff)
	}
}

func TestRecordsAgainstClientLibrary(t *testing.T) {
	var records []byte
	want := samples()
	for i, p := range want {
		r := kmsg.NewRecord()
		r.TimestampDelta64, r.OffsetDelta = p.Timestamp-1000, int32(i)
		r.Key, r.Value = p.Key, p.Value
		for _, h := range p.Headers {
			r.Headers = append(r.Headers, kmsg.Header{Key: string(h.Key), Value: h.Value})
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // without the length itself, which is one byte while it is 0
		records = r.AppendTo(records)
	}
	h := Header{LastOffsetDelta: 4, BaseTimestamp: 1000, MaxTimestamp: 1 << 40, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, RecordCount: 5}
	batch := fromKafkaClient(h, records)
	if got := build(t, BuilderOptions{}, want); !bytes.Equal(batch, got) {
		t.Error("our batch differs from the library's")
	}
	got, _ := read(t, batch)
	if diff := cmp.Diff(want, got, exact); diff != "" {
		t.Error(diff)
	}
}

func TestParseHeaderErrors(t *testing.T) {
	good := build(t, BuilderOptions{}, samples()[:1])
	patched := func(pos int, with ...byte) []byte {
		b := append([]byte{}, good...)
		copy(b[pos:], with)
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"good", good, nil},
		{"header_alone", good[:61], nil},
		{"empty", nil, ErrShort},
		{"before_magic", good[:16], ErrShort},
		{"one_byte_short", good[:60], ErrShort},
		{"magic_0", patched(16, 0), ErrOldFormat},
		{"magic_1", patched(16, 1)[:30], ErrOldFormat},
		{"magic_3", patched(16, 3), ErrMagic},
		{"magic_255", patched(16, 255), ErrMagic},
		{"length_48", patched(8, 0, 0, 0, 48), ErrLength},
		{"length_49", patched(8, 0, 0, 0, 49), nil},
		{"length_negative", patched(8, 0xff, 0xff, 0xff, 0xff), ErrLength},
		{"length_max", patched(8, 0x7f, 0xff, 0xff, 0xff), ErrLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := ParseHeader(c.b); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestPatches(t *testing.T) {
	b := build(t, BuilderOptions{}, samples())
	SetBaseOffset(b, 1<<50)
	SetLeaderEpoch(b, 12345)
	if err := CheckCRC(b); err != nil {
		t.Errorf("after patches outside the checksum: %v", err)
	}
	SetMaxTimestamp(b, 777, true)
	if err := CheckCRC(b); !errors.Is(err, ErrCRC) {
		t.Errorf("after a patch inside the checksum: %v", err)
	}
	Recrc(b)
	if err := CheckCRC(b); err != nil {
		t.Error(err)
	}
	h, err := ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if h.BaseOffset != 1<<50 || h.LeaderEpoch != 12345 || h.MaxTimestamp != 777 || !h.LogAppendTime() {
		t.Errorf("header %+v", h)
	}
	if h.LastOffset() != 1<<50+4 || h.NextOffset() != 1<<50+5 || h.Size() != len(b) {
		t.Errorf("last %d, next %d, size %d", h.LastOffset(), h.NextOffset(), h.Size())
	}
	SetMaxTimestamp(b, 778, false)
	if h, _ = ParseHeader(b); h.LogAppendTime() || h.MaxTimestamp != 778 {
		t.Errorf("header %+v", h)
	}
}

func TestCheckCRCFindsEveryFlippedBit(t *testing.T) {
	b := build(t, BuilderOptions{}, samples()[:2])
	for i := offsetOfCRC; i < len(b); i++ {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if err := CheckCRC(b); !errors.Is(err, ErrCRC) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
			b[i] ^= 1 << bit
		}
	}
	if err := CheckCRC(b[:60]); !errors.Is(err, ErrShort) {
		t.Errorf("cut short: %v", err)
	}
}

func TestSequenceWraps(t *testing.T) {
	for _, c := range []struct{ base, delta, want int32 }{
		{0, 0, 0},
		{0, 9, 9},
		{math.MaxInt32, 0, math.MaxInt32},
		{math.MaxInt32, 1, 0},
		{math.MaxInt32 - 4, 9, 4},
		{math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
		{-1, 5, -1},
	} {
		h := Header{BaseSequence: c.base, LastOffsetDelta: c.delta}
		if got := h.LastSequence(); got != c.want {
			t.Errorf("base %d, delta %d: last sequence %d, want %d", c.base, c.delta, got, c.want)
		}
	}
	if got := NextSequence(math.MaxInt32, 1); got != 0 {
		t.Errorf("after the largest comes %d", got)
	}
}

func TestNext(t *testing.T) {
	one, two := build(t, BuilderOptions{}, samples()), build(t, BuilderOptions{BaseOffset: 5}, samples()[:1])
	both := append(append([]byte{}, one...), two...)
	h, batch, rest, err := Next(both)
	if err != nil || h.BaseOffset != 0 || len(batch) != len(one) || len(rest) != len(two) {
		t.Fatalf("first: %+v, %d, %d, %v", h, len(batch), len(rest), err)
	}
	h, batch, rest, err = Next(rest)
	if err != nil || h.BaseOffset != 5 || len(batch) != len(two) || len(rest) != 0 {
		t.Fatalf("second: %+v, %d, %d, %v", h, len(batch), len(rest), err)
	}
	if _, _, _, err = Next(rest); !errors.Is(err, ErrShort) {
		t.Errorf("behind the last: %v", err)
	}
	if _, _, _, err = Next(one[:len(one)-1]); !errors.Is(err, ErrShort) {
		t.Errorf("cut short: %v", err)
	}
}

func TestCodecNames(t *testing.T) {
	for _, c := range allCodecs {
		if got, ok := ParseCodec(c.String()); !ok || got != c {
			t.Errorf("%v: parsed as %v, %t", c, got, ok)
		}
	}
	if c, ok := ParseCodec("uncompressed"); !ok || c != CodecNone {
		t.Errorf("uncompressed: %v, %t", c, ok)
	}
	if _, ok := ParseCodec("producer"); ok {
		t.Error("producer is no codec")
	}
	if Codec(5).String() != "unknown" || Codec(-1).Known() {
		t.Error("codec 5 is known")
	}
}
