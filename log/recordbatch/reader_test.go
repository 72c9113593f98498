package recordbatch

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/felixlog/felix/internal/errcode"
)

func TestRecordReaderLargeBatches(t *testing.T) {
	// Records around the size of a piece, and one far beyond it.
	var want []plain
	for i := range 30 {
		want = append(want, plain{Timestamp: int64(i), Key: bytes.Repeat([]byte{byte(i)}, 3), Value: bytes.Repeat([]byte{'a', byte(i)}, pieceBytes/2-20+i)})
	}
	want = append(want, plain{Timestamp: 5, Value: bytes.Repeat([]byte("large"), 500_000)})
	want = append(want, sized(5000, 100)...)
	for _, codec := range allCodecs {
		batch := build(t, BuilderOptions{Codec: codec}, want)
		got, err := stream(batch, DefaultMaxDecodedBytes)
		if err != nil {
			t.Fatalf("%v: %v", codec, err)
		}
		if !cmp.Equal(want, got, exact) {
			t.Errorf("%v: records differ", codec)
		}
	}
}

func TestRecordReaderReadsOtherEncoders(t *testing.T) {
	want := sized(1000, 200)
	var records []byte
	h := Header{RecordCount: 1000, LastOffsetDelta: 999, BaseTimestamp: want[0].Timestamp, MaxTimestamp: want[999].Timestamp}
	for i, p := range want {
		var err error
		if records, err = AppendRecord(records, int64(i), int32(i), p.Key, p.Value, nil); err != nil {
			t.Fatal(err)
		}
	}
	for form, c := range others(t, records) {
		h.Attributes = int16(c.codec)
		got, err := stream(wrap(h, c.b), DefaultMaxDecodedBytes)
		if err != nil {
			t.Errorf("%s: %v", form, err)
		} else if !cmp.Equal(want, got, exact) {
			t.Errorf("%s: records differ", form)
		}
		if _, err := stream(wrap(h, c.b), len(records)); err != nil {
			t.Errorf("%s, exactly at the limit: %v", form, err)
		}
		if _, err := stream(wrap(h, c.b), len(records)-1); !errors.Is(err, ErrDecodedTooLarge) {
			t.Errorf("%s, over the limit: %v", form, err)
		}
		if _, err := stream(wrap(h, c.b[:len(c.b)-1]), DefaultMaxDecodedBytes); err == nil {
			t.Errorf("%s: the last byte is missing and nobody noticed", form)
		}
	}
}

func TestDecodedSize(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	for form, c := range others(t, content) {
		pauses := 0
		size, err := DecodedSize(c.codec, c.b, len(content), func() { pauses++ })
		if err != nil || size != len(content) {
			t.Errorf("%s: %d, %v, want %d", form, size, err, len(content))
		}
		if want := len(content) / pieceBytes; c.codec != CodecNone && pauses < want {
			t.Errorf("%s: %d pauses, want at least %d", form, pauses, want)
		}
		if _, err := DecodedSize(c.codec, c.b, len(content)-1, func() {}); !errors.Is(err, ErrDecodedTooLarge) {
			t.Errorf("%s, over the limit: %v", form, err)
		}
	}
	if _, err := DecodedSize(codecCount, content, len(content), func() {}); !errors.Is(err, ErrCodec) {
		t.Errorf("unknown codec: %v", err)
	}
}

// TestDecodedSizeOfBombs: what a bomb decodes to is neither kept nor paid for in memory.
func TestDecodedSizeOfBombs(t *testing.T) {
	const limit = 64 << 20
	for _, codec := range []Codec{CodecGzip, CodecLZ4, CodecZstd} {
		bomb, err := Compress(nil, codec, make([]byte, limit+1))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := DecodedSize(codec, bomb, limit, func() {}); !errors.Is(err, ErrDecodedTooLarge) {
			t.Errorf("%v: %v", codec, err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > limit/3 {
			t.Errorf("%v: %d bytes allocated to find out that more than %d come", codec, used, limit)
		}
	}
}

// TestRecordReaderWideFrame goes on at once where a later frame has a window too large for pieces.
func TestRecordReaderWideFrame(t *testing.T) {
	encode := func(p []byte, window int) []byte {
		w, err := zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(p, nil)
	}
	value := make([]byte, 12<<20)
	first, err := AppendRecord(nil, 0, 0, nil, bytes.Repeat([]byte("first"), 100_000), nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := AppendRecord(nil, 0, 1, nil, value, nil)
	if err != nil {
		t.Fatal(err)
	}
	frames := append(encode(first, 1<<20), encode(second, 32<<20)...) // a single segment: the window is the content
	got, err := stream(wrap(Header{Attributes: int16(CodecZstd), RecordCount: 2, LastOffsetDelta: 1}, frames), DefaultMaxDecodedBytes)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got[0].Value) != 500_000 || !bytes.Equal(got[1].Value, value) {
		t.Errorf("%d records", len(got))
	}
}

func TestRecordReaderErrors(t *testing.T) {
	good := []byte{12, 0, 0, 0, 1, 1, 0}
	for _, c := range []struct {
		name    string
		records []byte
		count   int32
		want    errcode.Kind
		index   int32
	}{
		{"one", good, 1, errcode.OK, -1},
		{"none", nil, 0, errcode.OK, -1},
		{"missing", good, 2, errcode.InvalidRecord, 1},
		{"too_many", append(append([]byte{}, good...), good...), 1, errcode.InvalidRecord, 1},
		{"cut", good[:5], 1, errcode.InvalidRecord, 0},
		{"length_cut", []byte{0x80}, 1, errcode.InvalidRecord, 0},
		{"length_overlong", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, 1, errcode.InvalidRecord, 0},
		{"length_over_the_limit", []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0}, 1, errcode.InvalidRecord, 0},
		{"negative_length", []byte{1, 0, 0, 0, 0, 0, 0, 0}, 1, errcode.InvalidRecord, 0},
		{"offset_beyond_batch", []byte{12, 0, 0, 2, 1, 1, 0}, 1, errcode.InvalidRecord, 0},
	} {
		for _, codec := range allCodecs {
			t.Run(c.name+"/"+codec.String(), func(t *testing.T) {
				compressed, err := Compress(nil, codec, c.records)
				if err != nil {
					t.Fatal(err)
				}
				_, err = stream(wrap(Header{Attributes: int16(codec), RecordCount: c.count}, compressed), 1000)
				wantKind(t, err, c.want, c.index)
			})
		}
	}
	if _, err := NewRecordReader(nil, 10); !errors.Is(err, ErrShort) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := NewRecordReader(wrap(Header{RecordCount: 1}, good), 3); !errors.Is(err, ErrDecodedTooLarge) {
		t.Errorf("uncompressed over the limit: %v", err)
	}
	for _, codec := range allCodecs[1:] {
		_, err := stream(wrap(Header{Attributes: int16(codec), RecordCount: 1}, []byte("this is not compressed")), 1000)
		if !errors.Is(err, ErrDecompress) {
			t.Errorf("%v of text: %v", codec, err)
		}
	}
}

func TestRecordReaderClose(t *testing.T) {
	for _, codec := range allCodecs {
		r, err := NewRecordReader(build(t, BuilderOptions{Codec: codec, BaseOffset: 3}, samples()), DefaultMaxDecodedBytes)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Next() || r.Record.Offset != 3 || r.Header().RecordCount != 5 {
			t.Errorf("%v: %+v, %v", codec, r.Record, r.Err())
		}
		r.Close()
		r.Close()
		if r.Next() {
			t.Errorf("%v: a record after Close", codec)
		}
	}
}
