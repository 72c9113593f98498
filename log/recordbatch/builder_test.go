package recordbatch

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

func TestBuildAndRead(t *testing.T) {
	for _, codec := range allCodecs {
		t.Run(codec.String(), func(t *testing.T) {
			want := samples()
			batch := build(t, BuilderOptions{
				BaseOffset: 42, LeaderEpoch: 7, Codec: codec, Producer: &Producer{ID: 9, Epoch: 3, BaseSequence: 100},
			}, want)
			got, offsets := read(t, batch)
			if diff := cmp.Diff(want, got, exact); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]int64{42, 43, 44, 45, 46}, offsets); diff != "" {
				t.Error(diff)
			}
			streamed, err := stream(batch, DefaultMaxDecodedBytes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, streamed, exact); diff != "" {
				t.Error(diff)
			}
			h, err := ParseHeader(batch)
			if err != nil {
				t.Fatal(err)
			}
			h.CRC, h.Length = 0, 0
			wantHeader := Header{
				BaseOffset: 42, LeaderEpoch: 7, Magic: 2, Attributes: int16(codec), LastOffsetDelta: 4, BaseTimestamp: 1000,
				MaxTimestamp: 1 << 40, ProducerID: 9, ProducerEpoch: 3, BaseSequence: 100, RecordCount: 5,
			}
			if diff := cmp.Diff(wantHeader, h); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBuilderAppendsToDst(t *testing.T) {
	for _, codec := range allCodecs {
		alone := build(t, BuilderOptions{Codec: codec}, samples())
		b := NewBuilder([]byte("before"), BuilderOptions{Codec: codec})
		for _, r := range samples() {
			b.Append(r.Timestamp, r.Key, r.Value, r.Headers...)
		}
		got, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if string(got[:6]) != "before" || string(got[6:]) != string(alone) {
			t.Errorf("%v: the batch behind other bytes differs", codec)
		}
	}
}

func TestBuilderLogAppendTime(t *testing.T) {
	batch := build(t, BuilderOptions{LogAppendTime: true, AppendTime: 5555}, samples())
	got, _ := read(t, batch)
	for i, r := range got {
		if r.Timestamp != 5555 {
			t.Errorf("record %d has timestamp %d", i, r.Timestamp)
		}
	}
}

func TestBuilderControl(t *testing.T) {
	batch := build(t, BuilderOptions{Control: true, Transactional: true, Producer: &Producer{ID: 1, Epoch: 2, BaseSequence: NoSequence}},
		[]plain{{Timestamp: 1, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)}})
	h, err := ParseHeader(batch)
	if err != nil {
		t.Fatal(err)
	}
	if h.Attributes != 0x30 || !h.IsControl() || !h.IsTransactional() || h.LastSequence() != NoSequence {
		t.Errorf("header %+v", h)
	}
}

func TestBuilderRefuses(t *testing.T) {
	empty := NewBuilder([]byte("x"), BuilderOptions{Codec: CodecLZ4})
	if got, err := empty.Build(); errcode.Of(err) != errcode.InvalidRecord || string(got) != "x" {
		t.Errorf("no records: %q, %v", got, err)
	}
	codec := NewBuilder(nil, BuilderOptions{Codec: 5})
	codec.Append(1, nil, nil)
	if _, err := codec.Build(); !errors.Is(err, ErrCodec) {
		t.Errorf("unknown codec: %v", err)
	}
	apart := NewBuilder(nil, BuilderOptions{})
	apart.Append(math.MinInt64, nil, nil)
	apart.Append(math.MaxInt64, nil, nil)
	apart.Append(1, nil, nil)
	if _, err := apart.Build(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("timestamps too far apart: %v", err)
	}
}

func TestBuilderSize(t *testing.T) {
	for _, codec := range []Codec{CodecNone, CodecZstd} {
		b := NewBuilder([]byte("abc"), BuilderOptions{Codec: codec})
		if b.Size() != HeaderSize || b.Count() != 0 {
			t.Errorf("empty: size %d, count %d", b.Size(), b.Count())
		}
		b.Append(1, nil, []byte("v"))
		if b.Size() != HeaderSize+8 || b.Count() != 1 {
			t.Errorf("one record: size %d, count %d", b.Size(), b.Count())
		}
	}
}

func TestBuilderThatLeavesTheChecksumOutAndIsUsedAgain(t *testing.T) {
	record := func(b *Builder) []byte {
		b.Append(7, []byte("k"), []byte("value"))
		b.Append(9, nil, nil)
		got, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := record(NewBuilder(nil, BuilderOptions{LeaderEpoch: 3}))
	var b Builder
	b.Reset(nil, BuilderOptions{Codec: CodecLZ4})
	record(&b)
	b.Reset(nil, BuilderOptions{LeaderEpoch: 3, Unsummed: true})
	got := record(&b)
	if _, err := Validate(got, ValidateOptions{}); err == nil {
		t.Error("a batch without a checksum is valid")
	}
	Recrc(got)
	if !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
