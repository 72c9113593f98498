package recordbatch

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

// altered returns a copy of b, changed, with a good checksum.
func altered(b []byte, change func(b []byte)) []byte {
	b = append([]byte{}, b...)
	change(b)
	Recrc(b)
	return b
}

func put16(pos int, v uint16) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint16(b[pos:], v) }
}

func put32(pos int, v uint32) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint32(b[pos:], v) }
}

func put64(pos int, v uint64) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint64(b[pos:], v) }
}

// wrap makes a batch of given record bytes.
func wrap(h Header, records []byte) []byte {
	if h.ProducerID == 0 {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = -1, -1, -1
	}
	h.Magic, h.Length = 2, int32(len(records)+HeaderSize-LengthEnd)
	b := append(AppendHeader(nil, h), records...)
	Recrc(b)
	return b
}

func wantKind(t *testing.T, err error, want errcode.Kind, index int32) {
	t.Helper()
	if errcode.Of(err) != want {
		t.Errorf("got %v (%v), want kind %v", err, errcode.Of(err), want)
	}
	if index < 0 {
		return
	}
	var record *errcode.RecordError
	if !errors.As(err, &record) || record.Index != index {
		t.Errorf("got %v, want record %d to be named", err, index)
	}
}

func TestValidateHeader(t *testing.T) {
	good := build(t, BuilderOptions{Producer: &Producer{ID: 5, Epoch: 0, BaseSequence: 0}}, samples()[:3])
	size := len(good)
	for _, c := range []struct {
		name string
		b    []byte
		o    ValidateOptions
		want errcode.Kind
	}{
		{"good", good, ValidateOptions{}, errcode.OK},
		{"exact_size", good, ValidateOptions{MaxBatchBytes: size}, errcode.OK},
		{"one_byte_over", good, ValidateOptions{MaxBatchBytes: size - 1}, errcode.BatchTooLarge},
		{"empty", nil, ValidateOptions{}, errcode.CorruptBatch},
		{"header_cut", good[:50], ValidateOptions{}, errcode.CorruptBatch},
		{"cut", good[:size-1], ValidateOptions{}, errcode.CorruptBatch},
		{"trailing", append(append([]byte{}, good...), 0), ValidateOptions{}, errcode.CorruptBatch},
		{"flipped", append(append([]byte{}, good[:size-1]...), good[size-1]^1), ValidateOptions{}, errcode.CorruptBatch},
		{"magic_1", altered(good, func(b []byte) { b[16] = 1 }), ValidateOptions{}, errcode.UnsupportedFormat},
		{"magic_0", altered(good, func(b []byte) { b[16] = 0 }), ValidateOptions{}, errcode.UnsupportedFormat},
		{"magic_9", altered(good, func(b []byte) { b[16] = 9 }), ValidateOptions{}, errcode.CorruptBatch},
		{"base_offset", altered(good, put64(0, 5)), ValidateOptions{}, errcode.InvalidRecord},
		{"any_leader_epoch", altered(good, put32(12, 99)), ValidateOptions{}, errcode.OK},
		{"count_2", altered(good, put32(57, 2)), ValidateOptions{}, errcode.InvalidRecord},
		{"count_0", altered(good, func(b []byte) { put32(57, 0)(b); put32(23, math.MaxUint32)(b) }), ValidateOptions{}, errcode.InvalidRecord},
		{"count_negative", altered(good, put32(57, math.MaxUint32)), ValidateOptions{}, errcode.InvalidRecord},
		{"count_overflow", altered(good, func(b []byte) { put32(57, 1<<31)(b); put32(23, math.MaxInt32)(b) }), ValidateOptions{}, errcode.InvalidRecord},
		{"count_4", altered(good, func(b []byte) { put32(57, 4)(b); put32(23, 3)(b) }), ValidateOptions{}, errcode.InvalidRecord},
		{"count_beyond_bytes", altered(good, func(b []byte) { put32(57, 1e9)(b); put32(23, 1e9-1)(b) }), ValidateOptions{}, errcode.InvalidRecord},
		{"control", altered(good, put16(21, 0x20)), ValidateOptions{}, errcode.InvalidRecord},
		{"control_allowed", altered(good, put16(21, 0x20)), ValidateOptions{AllowControl: true}, errcode.OK},
		{"no_sequence", altered(good, put32(53, math.MaxUint32)), ValidateOptions{}, errcode.InvalidRecord},
		{"no_epoch", altered(good, put16(51, math.MaxUint16)), ValidateOptions{}, errcode.InvalidRecord},
		{"transactional", altered(good, put16(21, 0x10)), ValidateOptions{}, errcode.OK},
		{"transactional_without_producer", altered(good, func(b []byte) { put16(21, 0x10)(b); put64(43, math.MaxUint64)(b) }), ValidateOptions{}, errcode.InvalidRecord},
		{"codec_5", altered(good, put16(21, 5)), ValidateOptions{}, errcode.CorruptBatch},
		{"codec_7", altered(good, put16(21, 7)), ValidateOptions{}, errcode.CorruptBatch},
		{"unused_bits", altered(good, put16(21, 0xff80)), ValidateOptions{}, errcode.OK},
		{"zstd_refused", build(t, BuilderOptions{Codec: CodecZstd}, samples()), ValidateOptions{}, errcode.UnsupportedCodec},
		{"zstd_allowed", build(t, BuilderOptions{Codec: CodecZstd}, samples()), ValidateOptions{ZstdAllowed: true}, errcode.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Validate(c.b, c.o)
			wantKind(t, err, c.want, -1)
		})
	}
}

func TestValidateRecords(t *testing.T) {
	ok, err := AppendRecord(nil, 0, 0, []byte("k"), []byte("v"), []RecordHeader{{Key: []byte("h"), Value: nil}})
	if err != nil {
		t.Fatal(err)
	}
	// ok is: length 10·2, attributes, timestamp, offset, key length 2, k, value length 2, v, headers 2, h length 2, h, null.
	at := func(pos int, c byte) []byte {
		b := append([]byte{}, ok...)
		b[pos] = c
		return b
	}
	for _, c := range []struct {
		name    string
		records []byte
		want    errcode.Kind
	}{
		{"good", ok, errcode.OK},
		{"smallest", []byte{12, 0, 0, 0, 1, 1, 0}, errcode.OK},
		{"attributes_ignored", at(1, 0xff), errcode.OK},
		{"below_smallest", []byte{10, 0, 0, 0, 1, 1, 0}, errcode.InvalidRecord},
		{"length_over", at(0, ok[0]+2), errcode.InvalidRecord},
		{"length_under", at(0, ok[0]-2), errcode.InvalidRecord},
		{"length_negative", at(0, 1), errcode.InvalidRecord},
		{"length_overlong", append([]byte{ok[0] | 0x80, 0}, ok[1:]...), errcode.InvalidRecord},
		{"length_cut", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, errcode.InvalidRecord},
		{"length_huge", []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0}, errcode.InvalidRecord},
		{"length_33_bits", []byte{0x8c, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 1, 1, 0}, errcode.InvalidRecord},
		{"offset_negative", at(3, 1), errcode.InvalidRecord},
		{"key_below_null", at(4, 3), errcode.InvalidRecord},
		{"key_over", at(4, 40), errcode.InvalidRecord},
		{"value_below_null", at(6, 3), errcode.InvalidRecord},
		{"value_over", at(6, 40), errcode.InvalidRecord},
		{"headers_negative", at(8, 1), errcode.InvalidRecord},
		{"headers_missing", at(8, 0), errcode.InvalidRecord},
		{"headers_over", at(8, 6), errcode.InvalidRecord},
		{"headers_claimed", append(append([]byte{26}, ok[1:8]...), 0xfe, 0xff, 0xff, 0xff, 0x0f, 0), errcode.InvalidRecord},
		{"header_key_null", at(9, 1), errcode.InvalidRecord},
		{"header_key_over", at(9, 40), errcode.InvalidRecord},
		{"header_value_over", at(11, 2), errcode.InvalidRecord},
		{"header_value_below_null", at(11, 3), errcode.InvalidRecord},
		{"bytes_left_over", append(append([]byte{}, ok...), 0), errcode.InvalidRecord},
		{"timestamp_11_bytes", append([]byte{32, 0}, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 1, 1, 0), errcode.InvalidRecord},
		{"timestamp_65_bits", append([]byte{30, 0}, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2, 0, 1, 1, 0), errcode.InvalidRecord},
		{"timestamp_overflows", append([]byte{30, 0}, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 1, 1, 0), errcode.InvalidRecord},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := Header{RecordCount: 1, BaseTimestamp: 1000, MaxTimestamp: 1000}
			_, err := Validate(wrap(h, c.records), ValidateOptions{})
			index := int32(0)
			if c.want == errcode.OK {
				index = -1
			}
			wantKind(t, err, c.want, index)
			for _, codec := range allCodecs[1:] {
				compressed, err := Compress(nil, codec, c.records)
				if err != nil {
					t.Fatal(err)
				}
				h := Header{RecordCount: 1, BaseTimestamp: 1000, MaxTimestamp: 1000, Attributes: int16(codec)}
				_, err = Validate(wrap(h, compressed), ValidateOptions{Open: true, ZstdAllowed: true})
				wantKind(t, err, c.want, index)
			}
		})
	}
}

func TestValidateTimestamps(t *testing.T) {
	at := func(codec Codec, timestamps ...int64) []byte {
		b := NewBuilder(nil, BuilderOptions{Codec: codec})
		for _, ms := range timestamps {
			b.Append(ms, nil, nil)
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return batch
	}
	claimed := func(b []byte, ms int64) []byte {
		return altered(b, func(b []byte) { SetMaxTimestamp(b, ms, true) })
	}
	bounded := ValidateOptions{BoundTimestamps: true, Now: 10_000, TimestampBeforeMax: 1000, TimestampAfterMax: 500}
	unlimited := ValidateOptions{BoundTimestamps: true, Now: 10_000, TimestampBeforeMax: math.MaxInt64, TimestampAfterMax: math.MaxInt64}
	appended := bounded
	appended.LogAppendTime = true
	for _, c := range []struct {
		name  string
		b     []byte
		o     ValidateOptions
		want  errcode.Kind
		index int32
	}{
		{"inside", at(CodecNone, 9000, 10_500), bounded, errcode.OK, -1},
		{"before", at(CodecNone, 9500, 8999), bounded, errcode.InvalidTimestamp, 1},
		{"after", at(CodecNone, 10_000, 10_000, 10_501), bounded, errcode.InvalidTimestamp, 2},
		{"none", at(CodecNone, NoTimestamp), bounded, errcode.OK, -1},
		{"unbounded", at(CodecNone, 1, math.MaxInt64), ValidateOptions{}, errcode.OK, -1},
		{"far_past", at(CodecNone, math.MinInt64), unlimited, errcode.OK, -1},
		{"far_future", at(CodecNone, math.MaxInt64), unlimited, errcode.OK, -1},
		{"far_past_bounded", at(CodecNone, math.MinInt64), bounded, errcode.InvalidTimestamp, 0},
		{"compressed_inside", at(CodecLZ4, 9000, 10_500), bounded, errcode.OK, -1},
		{"compressed_after", at(CodecLZ4, 9000, 10_501), bounded, errcode.InvalidTimestamp, -1},
		{"compressed_before", at(CodecLZ4, 8000), bounded, errcode.InvalidTimestamp, -1},
		{"compressed_none", at(CodecLZ4, NoTimestamp), bounded, errcode.OK, -1},
		{"compressed_opened", at(CodecLZ4, 9000, 8000), ValidateOptions{BoundTimestamps: true, Now: 10_000, TimestampBeforeMax: 1000, TimestampAfterMax: 1, Open: true}, errcode.InvalidTimestamp, 1},
		{"append_time_topic", at(CodecNone, 1), appended, errcode.OK, -1},
		{"append_time_topic_compressed", at(CodecGzip, 1), appended, errcode.OK, -1},
		{"append_time_claimed_there", claimed(at(CodecNone, 9500), 9500), appended, errcode.InvalidTimestamp, 0},
		{"append_time_claimed", claimed(at(CodecNone, 1), 9500), bounded, errcode.OK, -1},
		{"append_time_claimed_outside", claimed(at(CodecNone, 9500), 1), bounded, errcode.InvalidTimestamp, 0},
		{"append_time_claimed_without_time", claimed(at(CodecNone, 9500), NoTimestamp), bounded, errcode.InvalidTimestamp, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Validate(c.b, c.o)
			wantKind(t, err, c.want, c.index)
		})
	}
}

func TestValidateResult(t *testing.T) {
	good := build(t, BuilderOptions{}, samples())
	compressed := build(t, BuilderOptions{Codec: CodecGzip}, samples())
	maxTimestamp := func(ms int64) func([]byte) { return put64(35, uint64(ms)) }
	gaps, err := AppendRecord(nil, 0, 0, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if gaps, err = AppendRecord(gaps, 0, 5, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		b    []byte
		o    ValidateOptions
		want Result // without the header
	}{
		{"good", good, ValidateOptions{}, Result{Opened: true, MaxTimestamp: 1 << 40}},
		{"max_too_low", altered(good, maxTimestamp(5)), ValidateOptions{}, Result{Opened: true, MaxTimestamp: 1 << 40, FixMaxTimestamp: true}},
		{"max_unset", altered(good, maxTimestamp(-1)), ValidateOptions{}, Result{Opened: true, MaxTimestamp: 1 << 40, FixMaxTimestamp: true}},
		{"append_time_topic", altered(good, maxTimestamp(5)), ValidateOptions{LogAppendTime: true}, Result{Opened: true, MaxTimestamp: 1 << 40}},
		{"append_time_claimed", altered(good, func(b []byte) { SetMaxTimestamp(b, 5, true) }), ValidateOptions{}, Result{Opened: true, MaxTimestamp: 1 << 40, FixMaxTimestamp: true}},
		{"closed", compressed, ValidateOptions{}, Result{MaxTimestamp: 1 << 40}},
		{"closed_append_time_claimed", altered(compressed, func(b []byte) { SetMaxTimestamp(b, 5, true) }), ValidateOptions{}, Result{MaxTimestamp: 5, FixMaxTimestamp: true}},
		{"opened", altered(compressed, maxTimestamp(5)), ValidateOptions{Open: true}, Result{Opened: true, MaxTimestamp: 1 << 40, FixMaxTimestamp: true}},
		{"gaps", wrap(Header{RecordCount: 2, LastOffsetDelta: 1}, gaps), ValidateOptions{}, Result{Opened: true, FixOffsets: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Validate(c.b, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got.Header.Size() != len(c.b) {
				t.Errorf("header %+v", got.Header)
			}
			got.Header = Header{}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValidateKeys(t *testing.T) {
	records := []plain{{Key: []byte("a")}, {Key: []byte{}}, {Key: nil, Value: []byte("v")}}
	for _, codec := range allCodecs {
		o := ValidateOptions{RequireKeys: true, ZstdAllowed: true}
		_, err := Validate(build(t, BuilderOptions{Codec: codec}, records), o)
		wantKind(t, err, errcode.InvalidRecord, 2)
		_, err = Validate(build(t, BuilderOptions{Codec: codec}, records[:2]), o)
		wantKind(t, err, errcode.OK, -1)
	}
}

func TestValidateOpensUnderTheLimit(t *testing.T) {
	records := []plain{{Value: make([]byte, 1<<20)}}
	for _, codec := range allCodecs[1:] {
		batch := build(t, BuilderOptions{Codec: codec}, records)
		o := ValidateOptions{Open: true, ZstdAllowed: true, MaxDecodedBytes: 1 << 19}
		_, err := Validate(batch, o)
		wantKind(t, err, errcode.BatchTooLarge, -1)
		o.MaxDecodedBytes = 2 << 20
		_, err = Validate(batch, o)
		wantKind(t, err, errcode.OK, -1)
	}
	// A compressed batch that is not opened still cannot claim more records than could ever be decoded.
	batch := altered(build(t, BuilderOptions{Codec: CodecGzip}, records), func(b []byte) { put32(57, 1e7)(b); put32(23, 1e7-1)(b) })
	_, err := Validate(batch, ValidateOptions{})
	wantKind(t, err, errcode.InvalidRecord, -1)
}

func TestValidateDoesNotAllocate(t *testing.T) {
	batch := build(t, BuilderOptions{}, sized(100, 100))
	o := ValidateOptions{MaxBatchBytes: 1 << 20, RequireKeys: false, BoundTimestamps: true, Now: 1_700_000_000_000, TimestampBeforeMax: math.MaxInt64, TimestampAfterMax: 3_600_000}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Validate(batch, o); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("uncompressed: %v allocations", n)
	}
	closed := build(t, BuilderOptions{Codec: CodecLZ4}, sized(100, 100))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Validate(closed, o); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("compressed: %v allocations", n)
	}
	h, _ := ParseHeader(batch)
	if n := testing.AllocsPerRun(100, func() {
		it := Records(h, batch[HeaderSize:])
		for it.Next() {
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}); n != 0 {
		t.Errorf("iterating: %v allocations", n)
	}
}

func TestSplitProduce(t *testing.T) {
	good := build(t, BuilderOptions{}, samples()[:3])
	with := func(tail ...byte) []byte { return append(append([]byte{}, good...), tail...) }
	second := func(n int) []byte { return with(good[:n]...) }
	length := func(v uint32) []byte {
		b := append([]byte{}, good...)
		put32(8, v)(b)
		return b
	}
	magic := func(v byte) []byte {
		b := append([]byte{}, good...)
		b[16] = v
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		want errcode.Kind
	}{
		{"one", good, errcode.OK},
		{"empty", nil, errcode.InvalidRecord},
		{"eleven_bytes", good[:11], errcode.InvalidRecord},
		{"sixteen_bytes", good[:16], errcode.InvalidRecord},
		{"header_alone", good[:61], errcode.InvalidRecord},
		{"truncated", good[:len(good)-1], errcode.InvalidRecord},
		{"length_too_long", length(uint32(len(good))), errcode.InvalidRecord},
		{"length_13", length(13), errcode.CorruptBatch},
		{"length_negative", length(math.MaxUint32), errcode.CorruptBatch},
		{"magic_0", magic(0), errcode.OK},
		{"magic_1", magic(1), errcode.OK},
		{"magic_3", magic(3), errcode.CorruptBatch},
		{"tail_of_1", with('x'), errcode.OK},
		{"tail_of_11", with(make([]byte, 11)...), errcode.OK},
		{"tail_of_16", second(16), errcode.OK},
		{"tail_of_60", second(60), errcode.OK},
		{"tail_cut_behind_its_header", second(len(good) - 1), errcode.InvalidRecord},
		{"zeros", with(make([]byte, 20)...), errcode.CorruptBatch},
		{"text", with([]byte("trailing garbage that is text")...), errcode.CorruptBatch},
		{"two", with(good...), errcode.InvalidRecord},
		{"two_and_a_tail", append(with(good...), 'x'), errcode.InvalidRecord},
	} {
		t.Run(c.name, func(t *testing.T) {
			batch, err := SplitProduce(c.b)
			wantKind(t, err, c.want, -1)
			if err == nil && len(batch) != len(good) {
				t.Errorf("%d bytes, want %d", len(batch), len(good))
			}
		})
	}
}

func TestErrorTexts(t *testing.T) {
	_, err := Validate(wrap(Header{RecordCount: 1}, []byte{12, 0, 0, 1, 1, 1, 0}), ValidateOptions{})
	if got, want := err.Error(), "record 0: bad offset delta"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for f := faultLength; f <= faultTrailing; f++ {
		if faultTexts[f] == "" {
			t.Errorf("fault %d has no text", f)
		}
	}
}
