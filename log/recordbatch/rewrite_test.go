package recordbatch

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

// rebuilt runs Rebuild behind other bytes and checks that they stay.
func rebuilt(t *testing.T, batch []byte, o RebuildOptions) ([]byte, RebuildResult) {
	t.Helper()
	out, r, err := Rebuild([]byte("before"), batch, o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(out, []byte("before")) {
		t.Fatal("dst was not kept")
	}
	out = out[6:]
	if len(out) > 0 {
		h, err := ParseHeader(out)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h, r.Header); diff != "" {
			t.Errorf("result's header: %s", diff)
		}
		if h.Size() != len(out) {
			t.Errorf("size %d, have %d bytes", h.Size(), len(out))
		}
	}
	return out, r
}

func TestRebuild(t *testing.T) {
	for _, codec := range allCodecs {
		t.Run(codec.String(), func(t *testing.T) {
			original := build(t, BuilderOptions{
				BaseOffset: 100, LeaderEpoch: 4, Codec: codec, Producer: &Producer{ID: 7, Epoch: 1, BaseSequence: 50},
			}, samples())
			before, _ := ParseHeader(original)

			out, r := rebuilt(t, original, RebuildOptions{DeleteHorizon: -1})
			if r.Changed || !bytes.Equal(out, original) || r.Kept != 5 || r.Tombstones != 1 {
				t.Errorf("all kept: %+v", r)
			}

			odd := func(r *Record) bool { return r.OffsetDelta%2 == 1 }
			out, r = rebuilt(t, original, RebuildOptions{Keep: odd, DeleteHorizon: -1})
			if !r.Changed || r.Kept != 2 || r.Tombstones != 1 {
				t.Errorf("some kept: %+v", r)
			}
			got, offsets := read(t, out)
			if diff := cmp.Diff([]plain{samples()[1], samples()[3]}, got, exact); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]int64{101, 103}, offsets); diff != "" {
				t.Error(diff)
			}
			after := r.Header
			after.Length, after.CRC, after.RecordCount = before.Length, before.CRC, before.RecordCount
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("other header fields changed: %s", diff)
			}

			// A second pass reads what the first one wrote.
			out, r = rebuilt(t, out, RebuildOptions{Keep: func(r *Record) bool { return r.Offset == 101 }, DeleteHorizon: -1})
			if r.Header.MaxTimestamp != 1007 || r.Header.LastOffset() != 104 {
				t.Errorf("header %+v", r.Header)
			}
			got, offsets = read(t, out)
			if !cmp.Equal([]plain{samples()[1]}, got, exact) || !cmp.Equal([]int64{101}, offsets) {
				t.Errorf("second pass: %v at %v", got, offsets)
			}

			none := func(*Record) bool { return false }
			out, r = rebuilt(t, original, RebuildOptions{Keep: none, DeleteHorizon: -1})
			if !r.Changed || r.Kept != 0 || len(out) != 0 {
				t.Errorf("none kept: %+v, %d bytes", r, len(out))
			}
			out, r = rebuilt(t, original, RebuildOptions{Keep: none, DeleteHorizon: 5, KeepEmpty: true})
			if !r.Changed || len(out) != HeaderSize || r.Header.LastOffset() != 104 || r.Header.LastSequence() != 54 || r.Header.Codec() != CodecNone {
				t.Errorf("kept empty: %+v, %d bytes", r, len(out))
			}
			if got, _ := read(t, out); len(got) != 0 {
				t.Errorf("records in an empty batch: %v", got)
			}
			again, r := rebuilt(t, out, RebuildOptions{Keep: none, DeleteHorizon: 5, KeepEmpty: true})
			if r.Changed || !bytes.Equal(again, out) {
				t.Errorf("an empty batch again: %+v", r)
			}
			if gone, r := rebuilt(t, out, RebuildOptions{}); len(gone) != 0 || r.Kept != 0 {
				t.Errorf("an empty batch dropped: %+v", r)
			}
		})
	}
}

func TestRebuildDeleteHorizon(t *testing.T) {
	for _, codec := range allCodecs {
		original := build(t, BuilderOptions{BaseOffset: 10, Codec: codec}, samples())
		out, r := rebuilt(t, original, RebuildOptions{DeleteHorizon: 1 << 41})
		if ms, ok := r.Header.DeleteHorizon(); !r.Changed || !ok || ms != 1<<41 {
			t.Errorf("%v: %+v", codec, r)
		}
		got, offsets := read(t, out)
		if diff := cmp.Diff(samples(), got, exact); diff != "" {
			t.Errorf("%v: %s", codec, diff)
		}
		if diff := cmp.Diff([]int64{10, 11, 12, 13, 14}, offsets); diff != "" {
			t.Error(diff)
		}
		if r.Header.MaxTimestamp != 1<<40 || r.Header.Codec() != codec {
			t.Errorf("%v: header %+v", codec, r.Header)
		}
		// Once set it stays.
		again, r := rebuilt(t, out, RebuildOptions{DeleteHorizon: 1 << 42})
		if r.Changed || !bytes.Equal(again, out) {
			t.Errorf("%v: set again: %+v", codec, r)
		}
		_, r = rebuilt(t, out, RebuildOptions{DeleteHorizon: 1 << 42, Keep: func(r *Record) bool { return r.Index < 2 }})
		if ms, ok := r.Header.DeleteHorizon(); !ok || ms != 1<<41 {
			t.Errorf("%v: after a further filter: %+v", codec, r)
		}
		// No tombstone, no horizon.
		_, r = rebuilt(t, original, RebuildOptions{DeleteHorizon: 1 << 41, Keep: func(r *Record) bool { return r.Value != nil }})
		if _, ok := r.Header.DeleteHorizon(); ok || r.Tombstones != 0 {
			t.Errorf("%v: without tombstones: %+v", codec, r)
		}
	}
}

func TestRebuildControlBatchGetsHorizon(t *testing.T) {
	batch := build(t, BuilderOptions{Control: true, Transactional: true, Producer: &Producer{ID: 1, Epoch: 2, BaseSequence: NoSequence}},
		[]plain{{Timestamp: 1, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)}})
	_, r := rebuilt(t, batch, RebuildOptions{DeleteHorizon: 99})
	if ms, ok := r.Header.DeleteHorizon(); !ok || ms != 99 {
		t.Errorf("%+v", r)
	}
}

func TestRebuildLogAppendTime(t *testing.T) {
	batch := build(t, BuilderOptions{LogAppendTime: true, AppendTime: 5000}, samples())
	out, r := rebuilt(t, batch, RebuildOptions{DeleteHorizon: 9000, Keep: func(r *Record) bool { return r.Index > 0 }})
	if r.Header.MaxTimestamp != 5000 {
		t.Errorf("header %+v", r.Header)
	}
	got, _ := read(t, out)
	for _, p := range got {
		if p.Timestamp != 5000 {
			t.Errorf("timestamp %d", p.Timestamp)
		}
	}
}

// TestRebuildHostileTimestamps: deltas that cannot be moved to the horizon must not stop compaction.
func TestRebuildHostileTimestamps(t *testing.T) {
	for _, timestamps := range [][]int64{{math.MinInt64}, {1, 1 + math.MinInt64}, {math.MinInt64 + 1000, 900}} {
		b := NewBuilder(nil, BuilderOptions{})
		for _, ms := range timestamps {
			b.Append(ms, []byte("k"), nil)
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		want, _ := read(t, batch)
		out, r := rebuilt(t, batch, RebuildOptions{DeleteHorizon: 1 << 41})
		if _, ok := r.Header.DeleteHorizon(); ok {
			t.Errorf("%v: got a horizon: %+v", timestamps, r)
		}
		if got, _ := read(t, out); !cmp.Equal(want, got, exact) {
			t.Errorf("%v: records changed to %v", timestamps, got)
		}
	}
}

func TestRebuildErrors(t *testing.T) {
	for name, c := range map[string]struct {
		batch []byte
		want  errcode.Kind
	}{
		"short":      {[]byte("short"), errcode.CorruptBatch},
		"codec":      {wrap(Header{Attributes: 6}, nil), errcode.CorruptBatch},
		"compressed": {wrap(Header{Attributes: int16(CodecZstd), RecordCount: 1}, []byte("no")), errcode.CorruptBatch},
		"records":    {wrap(Header{RecordCount: 1}, []byte("no")), errcode.InvalidRecord},
		"limit":      {build(t, BuilderOptions{Codec: CodecGzip}, []plain{{Value: make([]byte, DefaultMaxDecodedBytes)}}), errcode.BatchTooLarge},
	} {
		out, _, err := Rebuild([]byte("dst"), c.batch, RebuildOptions{})
		if errcode.Of(err) != c.want || string(out) != "dst" {
			t.Errorf("rebuild %s: %q, %v", name, out, err)
		}
		out, err = Recompress([]byte("dst"), c.batch, RecompressOptions{Renumber: true})
		if errcode.Of(err) != c.want || string(out) != "dst" {
			t.Errorf("recompress %s: %q, %v", name, out, err)
		}
	}
	if _, err := Recompress(nil, build(t, BuilderOptions{}, samples()), RecompressOptions{Codec: 5}); !errors.Is(err, ErrCodec) {
		t.Errorf("recompress to codec 5: %v", err)
	}
}

func TestRecompress(t *testing.T) {
	for _, from := range allCodecs {
		original := build(t, BuilderOptions{
			BaseOffset: 100, LeaderEpoch: 4, Codec: from, Producer: &Producer{ID: 7, Epoch: 1, BaseSequence: 50},
		}, samples())
		before, _ := ParseHeader(original)
		for _, to := range allCodecs {
			out, err := Recompress(nil, original, RecompressOptions{Codec: to, Level: 3})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := read(t, out)
			if diff := cmp.Diff(samples(), got, exact); diff != "" {
				t.Errorf("%v to %v: %s", from, to, diff)
			}
			after, _ := ParseHeader(out)
			if after.Codec() != to {
				t.Errorf("%v to %v: codec %v", from, to, after.Codec())
			}
			after.Length, after.CRC, after.Attributes = before.Length, before.CRC, before.Attributes
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%v to %v: %s", from, to, diff)
			}
		}
	}
}

func TestRecompressRenumbers(t *testing.T) {
	var records []byte
	for _, delta := range []int32{7, 7, 1 << 30} {
		var err error
		if records, err = AppendRecord(records, int64(delta), delta, []byte("k"), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	batch := wrap(Header{RecordCount: 3, LastOffsetDelta: 2}, records)
	r, err := Validate(batch, ValidateOptions{})
	if err != nil || !r.FixOffsets {
		t.Fatalf("%+v, %v", r, err)
	}
	out, err := Recompress(nil, batch, RecompressOptions{Renumber: true})
	if err != nil {
		t.Fatal(err)
	}
	got, offsets := read(t, out)
	if !cmp.Equal([]int64{0, 1, 2}, offsets) || got[2].Timestamp != 1<<30 {
		t.Errorf("%v at %v", got, offsets)
	}
	if r, err = Validate(altered(out, withMaxTimestamp(r.MaxTimestamp)), ValidateOptions{}); err != nil || r.FixOffsets || r.FixMaxTimestamp {
		t.Errorf("%+v, %v", r, err)
	}
}

// withMaxTimestamp is SetMaxTimestamp as a change for altered.
func withMaxTimestamp(ms int64) func([]byte) {
	return func(b []byte) { SetMaxTimestamp(b, ms, false) }
}
