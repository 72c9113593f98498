package recordbatch

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

// fuzzLimit keeps what one input may decode to small, so that the fuzzer stays fast.
const fuzzLimit = 1 << 20

// seedBatches are good batches in each codec, and odd ones.
func seedBatches(f *testing.F) [][]byte {
	var seeds [][]byte
	for _, codec := range allCodecs {
		seeds = append(seeds, build(f, BuilderOptions{Codec: codec}, samples()[:4]))
		seeds = append(seeds, build(f, BuilderOptions{Codec: codec, LogAppendTime: true, AppendTime: 9, Producer: &Producer{ID: 1}}, samples()[:1]))
	}
	empty, _, err := Rebuild(nil, seeds[0], RebuildOptions{Keep: func(*Record) bool { return false }, KeepEmpty: true})
	if err != nil {
		f.Fatal(err)
	}
	horizon, _, err := Rebuild(nil, seeds[0], RebuildOptions{DeleteHorizon: 1 << 41})
	if err != nil {
		f.Fatal(err)
	}
	return append(seeds, empty, horizon, append(bytes.Clone(seeds[0]), seeds[2]...), seeds[4][:50])
}

func FuzzParseHeader(f *testing.F) {
	for _, b := range seedBatches(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			if errcode.Of(err) == errcode.Internal {
				t.Fatalf("error without a kind: %v", err)
			}
			return
		}
		if again := AppendHeader(nil, h); !bytes.Equal(again, b[:HeaderSize]) {
			t.Fatalf("parses as %+v, encodes as %x", h, again)
		}
		if longer, err := ParseHeader(append(bytes.Clone(b), 0)); err != nil || longer != h {
			t.Fatalf("with a byte more: %+v, %v", longer, err)
		}
		if h.Size() < HeaderSize {
			t.Fatalf("size %d", h.Size())
		}
		h.LastSequence()
		for rest := b; ; {
			var batch []byte
			if h, batch, rest, err = Next(rest); err != nil {
				break
			}
			_ = CheckCRC(batch)
		}
	})
}

// FuzzValidate feeds a produce request's records, their checksum put right, to all that a broker does with them.
func FuzzValidate(f *testing.F) {
	for _, b := range seedBatches(f) {
		f.Add(b, true, false)
		f.Add(b, false, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, open, requireKeys bool) {
		batch, err := SplitProduce(b)
		if err != nil {
			if errcode.Of(err) == errcode.Internal {
				t.Fatalf("split: error without a kind: %v", err)
			}
			return
		}
		batch = bytes.Clone(batch)
		if len(batch) >= HeaderSize {
			Recrc(batch)
		}
		o := ValidateOptions{
			ZstdAllowed: true, Open: open, RequireKeys: requireKeys, MaxDecodedBytes: fuzzLimit,
			BoundTimestamps: true, Now: 1 << 40, TimestampBeforeMax: 1 << 41, TimestampAfterMax: 1 << 41,
		}
		before := bytes.Clone(batch)
		r, err := Validate(batch, o)
		if !bytes.Equal(before, batch) {
			t.Fatal("the batch was changed")
		}
		if err != nil {
			if errcode.Of(err) == errcode.Internal {
				t.Fatalf("error without a kind: %v", err)
			}
			return
		}
		if !r.Opened {
			return
		}
		// What was accepted must be readable for good, however it is read.
		if r.FixOffsets {
			if batch, err = Recompress(nil, batch, RecompressOptions{Codec: r.Header.Codec(), Renumber: true, MaxDecodedBytes: fuzzLimit}); err != nil {
				t.Fatal(err)
			}
		}
		if r.FixMaxTimestamp {
			SetMaxTimestamp(batch, r.MaxTimestamp, false)
			Recrc(batch)
		}
		r, err = Validate(batch, ValidateOptions{ZstdAllowed: true, Open: true, MaxDecodedBytes: fuzzLimit})
		if err != nil || r.FixOffsets || r.FixMaxTimestamp {
			t.Fatalf("after the fixes: %+v, %v", r, err)
		}
		records, err := Open(nil, r.Header, batch, fuzzLimit)
		if err != nil {
			t.Fatal(err)
		}
		iterated, _, err := collect(r.Header, records)
		if err != nil {
			t.Fatal(err)
		}
		if len(iterated) != int(r.Header.RecordCount) {
			t.Fatalf("%d records of %d", len(iterated), r.Header.RecordCount)
		}
		streamed, err := stream(batch, fuzzLimit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(iterated, streamed, exact); diff != "" {
			t.Fatal(diff)
		}
		kept, _, err := Rebuild(nil, batch, RebuildOptions{DeleteHorizon: 1 << 40, MaxDecodedBytes: fuzzLimit})
		if err != nil {
			t.Fatal(err)
		}
		rebuilt, err := stream(kept, fuzzLimit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(iterated, rebuilt, exact); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzRecords reads arbitrary bytes as opened records: what is readable must encode to the same bytes.
func FuzzRecords(f *testing.F) {
	for _, b := range seedBatches(f) {
		if h, err := ParseHeader(b); err == nil && h.Codec() == CodecNone {
			f.Add(b[HeaderSize:], h.RecordCount, h.BaseTimestamp, false)
		}
	}
	f.Fuzz(func(t *testing.T, records []byte, count int32, base int64, logAppendTime bool) {
		h := Header{RecordCount: count, BaseTimestamp: base, LastOffsetDelta: 1<<31 - 1}
		if logAppendTime {
			h.Attributes |= attributeLogAppendTime
		}
		it := Records(h, records)
		var again []byte
		n := 0
		for it.Next() {
			r := &it.Record
			if r.Index != n {
				t.Fatalf("record %d has index %d", n, r.Index)
			}
			n++
			var headers []RecordHeader
			for hs := r.Headers(); ; {
				header, ok := hs.Next()
				if !ok {
					break
				}
				headers = append(headers, header)
			}
			if len(headers) != r.HeaderCount {
				t.Fatalf("%d headers of %d", len(headers), r.HeaderCount)
			}
			at := len(again)
			var err error
			if again, err = AppendRecord(again, r.timestampDelta, r.OffsetDelta, r.Key, r.Value, headers); err != nil {
				t.Fatal(err)
			}
			raw := bytes.Clone(r.raw)
			_, pos := uvarint32(raw, 0)
			raw[pos] = 0 // attributes are not kept
			if !bytes.Equal(again[at:], raw) {
				t.Fatalf("read %x, wrote %x", raw, again[at:])
			}
			if moved := r.appendMoved(nil, r.timestampDelta, r.OffsetDelta); !bytes.Equal(moved, raw) {
				t.Fatalf("read %x, moved %x", raw, moved)
			}
		}
		if err := it.Err(); err == nil {
			if n != max(int(count), 0) || len(again) != len(records) {
				t.Fatalf("%d records of %d, %d bytes of %d", n, count, len(again), len(records))
			}
		} else if errcode.Of(err) != errcode.InvalidRecord {
			t.Fatal(err)
		}
		if it.Next() {
			t.Fatal("a record behind the end")
		}
	})
}

// fuzzDecompress is the common part of the decompressors' targets.
func fuzzDecompress(f *testing.F, codec Codec) {
	for _, content := range [][]byte{nil, []byte("a"), bytes.Repeat([]byte("0123456789"), 300)} {
		b, err := Compress(nil, codec, content)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(bytes.Clone(b), b...))
	}
	for _, bomb := range bombs(f) {
		if bomb.codec == codec && len(bomb.b) < 1<<16 {
			f.Add(bomb.b)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := Decompress(nil, codec, src, fuzzLimit)
		runtime.ReadMemStats(&after)
		// Pooled decoders may be made anew at any time, hence the constant.
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Fatalf("%d bytes allocated for %d", used, len(src))
		}
		if err != nil && errcode.Of(err) != errcode.CorruptBatch && errcode.Of(err) != errcode.BatchTooLarge {
			t.Fatal(err)
		}
		if len(got) > fuzzLimit {
			t.Fatalf("%d bytes", len(got))
		}

		batch := wrap(Header{Attributes: int16(codec)}, src)
		r, openErr := NewRecordReader(batch, fuzzLimit)
		if openErr != nil {
			if err == nil {
				t.Fatalf("at once: %d bytes, in pieces: %v", len(got), openErr)
			}
			return
		}
		defer r.Close()
		var pieces []byte
		buf := make([]byte, 1000)
		for len(pieces) <= fuzzLimit {
			n, readErr := r.src.Read(buf)
			pieces = append(pieces, buf[:n]...)
			if readErr != nil {
				break
			}
		}
		if err == nil && !bytes.Equal(pieces, got) {
			t.Fatalf("at once %d bytes, in pieces %d", len(got), len(pieces))
		}
		if size, sizeErr := DecodedSize(codec, src, fuzzLimit, func() {}); err == nil && (sizeErr != nil || size != len(got)) {
			t.Fatalf("decodes to %d bytes, measured %d: %v", len(got), size, sizeErr)
		}
		if err == nil {
			packed, err := Compress(nil, codec, got)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Decompress(nil, codec, packed, fuzzLimit); err != nil || !bytes.Equal(again, got) {
				t.Fatalf("compressed again: %v", err)
			}
		}
	})
}

func FuzzGzip(f *testing.F)   { fuzzDecompress(f, CodecGzip) }
func FuzzSnappy(f *testing.F) { fuzzDecompress(f, CodecSnappy) }
func FuzzLZ4(f *testing.F)    { fuzzDecompress(f, CodecLZ4) }
func FuzzZstd(f *testing.F)   { fuzzDecompress(f, CodecZstd) }

// FuzzBuild builds a batch from arbitrary fields and reads them back.
func FuzzBuild(f *testing.F) {
	f.Add(int64(1), int64(2), []byte("key"), []byte("value"), []byte("header"), uint8(0), uint8(0))
	f.Add(int64(-1), int64(1<<62), []byte{}, bytes.Repeat([]byte("v"), 200), []byte{}, uint8(4), uint8(0x1f))
	f.Fuzz(func(t *testing.T, first, second int64, key, value, header []byte, codec, nulls uint8) {
		want := []plain{
			{Timestamp: first, Key: key, Value: value, Headers: []RecordHeader{{Key: header, Value: value}, {Key: key}}},
			{Timestamp: second, Key: value, Value: key},
		}
		for i, p := range []*[]byte{&want[0].Key, &want[0].Value, &want[0].Headers[0].Value, &want[1].Key, &want[1].Value} {
			if nulls&(1<<i) != 0 {
				*p = nil
			} else if *p == nil {
				*p = []byte{}
			}
		}
		for i := range want[0].Headers {
			if want[0].Headers[i].Key == nil {
				want[0].Headers[i].Key = []byte{}
			}
		}
		b := NewBuilder(nil, BuilderOptions{Codec: Codec(codec % 5)})
		for _, p := range want {
			b.Append(p.Timestamp, p.Key, p.Value, p.Headers...)
		}
		batch, err := b.Build()
		if err != nil {
			if _, ok := addTimestamp(second, -first); ok && first != -1<<63 {
				t.Fatal(err)
			}
			return
		}
		r, err := Validate(batch, ValidateOptions{Open: true, ZstdAllowed: true})
		if err != nil || r.FixMaxTimestamp && max(first, second) >= NoTimestamp || r.FixOffsets {
			t.Fatalf("%+v, %v", r, err)
		}
		got, err := stream(batch, DefaultMaxDecodedBytes)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, exact); diff != "" {
			t.Fatal(diff)
		}
	})
}
