package recordbatch

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/felixlog/felix/internal/errcode"
)

// contents are what each codec is tried with: nothing, a byte, runs, text of several blocks, and what does not compress.
func contents() map[string][]byte {
	text := build(nil2t(), BuilderOptions{}, sized(800, 150))
	noise := make([]byte, 80_000)
	x := uint32(1)
	for i := range noise {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	return map[string][]byte{
		"empty": {}, "byte": {7}, "zeros": make([]byte, 280_000), "text": text, "noise": noise,
		"block": bytes.Repeat([]byte("0123456789abcdef"), 4096),
	}
}

// nil2t lets build be used outside a test: it fails only on programming errors.
func nil2t() testing.TB { return panicking{} }

type panicking struct{ testing.TB }

func (panicking) Helper()           {}
func (panicking) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func TestCodecRoundTrip(t *testing.T) {
	for name, want := range contents() {
		for _, codec := range allCodecs {
			for _, level := range []int{DefaultLevel, -1, 1, 5, 9, 17, 100} {
				compressed, err := CompressLevel([]byte("before"), codec, want, level)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.HasPrefix(compressed, []byte("before")) {
					t.Fatalf("%v %s: dst was not kept", codec, name)
				}
				for _, dst := range [][]byte{nil, []byte("dst"), make([]byte, 3, 1<<20)} {
					got, err := Decompress(dst, codec, compressed[6:], len(want))
					if err != nil {
						t.Fatalf("%v %s level %d: %v", codec, name, level, err)
					}
					if !bytes.Equal(got[:len(dst)], dst) || !bytes.Equal(got[len(dst):], want) {
						t.Errorf("%v %s level %d: content differs", codec, name, level)
					}
				}
				if len(want) > 0 {
					_, err := Decompress(nil, codec, compressed[6:], len(want)-1)
					if !errors.Is(err, ErrDecodedTooLarge) {
						t.Errorf("%v %s level %d, one byte too many: %v", codec, name, level, err)
					}
				}
			}
		}
	}
}

// others encodes with other encoders than ours, in the forms that clients send.
func others(t *testing.T, want []byte) map[string]struct {
	codec Codec
	b     []byte
} {
	t.Helper()
	out := map[string]struct {
		codec Codec
		b     []byte
	}{}
	add := func(name string, codec Codec, b []byte) {
		out[name] = struct {
			codec Codec
			b     []byte
		}{codec, b}
	}
	half := len(want) / 2

	gz := func(p []byte) []byte {
		var b bytes.Buffer
		w := stdgzip.NewWriter(&b)
		w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
		_, err := w.Write(p)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	add("gzip_with_a_name", CodecGzip, gz(want))
	add("gzip_members", CodecGzip, bytes.Join([][]byte{gz(want[:half]), gz(nil), gz(want[half:]), gz(nil)}, nil))

	header := func(order binary.AppendByteOrder) []byte {
		b := order.AppendUint32(append([]byte{}, xerialMagic...), 1)
		return order.AppendUint32(b, 1)
	}
	blocks := func(p []byte) (b []byte) {
		for len(p) > 0 {
			n := min(len(p), 32<<10)
			block := snappy.Encode(nil, p[:n])
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(block))), block...)
			p = p[n:]
		}
		return b
	}
	add("snappy_raw", CodecSnappy, snappy.Encode(nil, want))
	add("snappy_xerial", CodecSnappy, append(header(binary.BigEndian), blocks(want)...))
	add("snappy_xerial_little_endian", CodecSnappy, append(header(binary.LittleEndian), blocks(want)...))
	add("snappy_xerial_streams", CodecSnappy, bytes.Join([][]byte{
		header(binary.BigEndian), blocks(want[:half]), header(binary.BigEndian), blocks(want[half:]),
	}, nil))

	lz := func(p []byte, options ...lz4.Option) []byte {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		if err := w.Apply(options...); err != nil {
			t.Fatal(err)
		}
		_, err := w.Write(p)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	add("lz4_content_checksum", CodecLZ4, lz(want, lz4.ChecksumOption(true)))
	add("lz4_block_checksum", CodecLZ4, lz(want, lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block64Kb)))
	add("lz4_content_size", CodecLZ4, lz(want, lz4.SizeOption(uint64(len(want))), lz4.BlockSizeOption(lz4.Block1Mb)))
	skip := append(binary.LittleEndian.AppendUint32(nil, lz4SkipMagic+3), 2, 0, 0, 0, 'x', 'y')
	add("lz4_frames", CodecLZ4, bytes.Join([][]byte{skip, lz(want[:half]), lz(nil), lz(want[half:]), skip}, nil))

	zs := func(p []byte, options ...zstd.EOption) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, options...)
		if err != nil {
			t.Fatal(err)
		}
		if len(p) > 0 {
			_, err = w.Write(p[:1])
			err = errors.Join(err, w.Flush()) // now the frame cannot know its size
			p = p[1:]
		}
		_, err2 := w.Write(p)
		if err = errors.Join(err, err2, w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	add("zstd_no_content_size", CodecZstd, zs(want))
	add("zstd_checksum", CodecZstd, zs(want, zstd.WithEncoderCRC(true)))
	add("zstd_window_of_64_MiB", CodecZstd, zs(want, zstd.WithWindowSize(64<<20)))
	add("zstd_frames", CodecZstd, bytes.Join([][]byte{zs(want[:half]), zs(want[half:])}, nil))
	skippable := append(binary.LittleEndian.AppendUint32(nil, 0x184D2A5F), 2, 0, 0, 0, 'x', 'y')
	add("zstd_skipped_frame", CodecZstd, append(skippable, zs(want)...))
	return out
}

func TestCodecReadsOtherEncoders(t *testing.T) {
	for name, want := range contents() {
		if len(want) == 0 {
			continue // some forms cannot hold nothing
		}
		for form, c := range others(t, want) {
			t.Run(form+"/"+name, func(t *testing.T) {
				for _, prefix := range []string{"", "prefix"} {
					got, err := Decompress([]byte(prefix), c.codec, c.b, DefaultMaxDecodedBytes)
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, append([]byte(prefix), want...)) {
						t.Error("content differs")
					}
				}
				if _, err := Decompress(nil, c.codec, c.b, len(want)); err != nil {
					t.Errorf("exactly at the limit: %v", err)
				}
				if _, err := Decompress(nil, c.codec, c.b, len(want)-1); !errors.Is(err, ErrDecodedTooLarge) {
					t.Errorf("over the limit: %v", err)
				}
				if _, err := Decompress(nil, c.codec, c.b[:len(c.b)-1], DefaultMaxDecodedBytes); err == nil {
					t.Error("the last byte is missing and nobody noticed")
				}
				if _, err := Decompress(nil, c.codec, append(bytes.Clone(c.b), "garbage"...), DefaultMaxDecodedBytes); !errors.Is(err, ErrDecompress) {
					t.Errorf("trailing garbage: %v", err)
				}
			})
		}
	}
}

// TestLZ4Linked decodes a frame whose second block copies from the first: the form that lz4's own command line writes.
func TestLZ4Linked(t *testing.T) {
	frame := func(independent byte, blocks ...[]byte) []byte {
		b := binary.LittleEndian.AppendUint32(nil, lz4Magic)
		descriptor := []byte{lz4Version | independent, 0x40}
		b = append(append(b, descriptor...), byte(xxh32Of(descriptor)>>8))
		for _, block := range blocks {
			b = append(b, block...)
		}
		return binary.LittleEndian.AppendUint32(b, 0)
	}
	stored := append(binary.LittleEndian.AppendUint32(nil, 16|lz4Uncompressed), "0123456789abcdef"...)
	// No literal, 12 bytes from 16 back, then 5 literals as the format demands.
	copying := append(binary.LittleEndian.AppendUint32(nil, 9), 0x08, 16, 0, 0x50, 'v', 'w', 'x', 'y', 'z')
	want := "0123456789abcdef0123456789abvwxyz"
	batch := func(b []byte) []byte { return wrap(Header{Attributes: int16(CodecLZ4)}, b) }

	got, err := Decompress(nil, CodecLZ4, frame(0, stored, copying), 100)
	if err != nil || string(got) != want {
		t.Errorf("linked: %q, %v", got, err)
	}
	got, err = Decompress([]byte("before"), CodecLZ4, frame(0, stored, copying), 100)
	if err != nil || string(got) != "before"+want {
		t.Errorf("linked, behind other bytes: %q, %v", got, err)
	}
	r, err := NewRecordReader(batch(frame(0, stored, copying)), 100)
	if err != nil {
		t.Fatal(err)
	}
	if piece, err := io.ReadAll(r.src); err != nil || string(piece) != want {
		t.Errorf("linked, in pieces: %q, %v", piece, err)
	}
	r.Close()

	// What a block must not reach: bytes before its frame, an earlier batch's above all.
	for name, b := range map[string][]byte{
		"independent":   frame(lz4FlagIndependent, stored, copying),
		"first_block":   frame(0, copying),
		"earlier_frame": append(frame(0, stored), frame(0, copying)...),
	} {
		if got, err := Decompress([]byte("secret of another"), CodecLZ4, b, 1<<20); !errors.Is(err, ErrDecompress) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		r, err := NewRecordReader(batch(b), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r.src); !errors.Is(err, ErrDecompress) {
			t.Errorf("%s in pieces: %q, %v", name, got, err)
		}
		r.Close()
	}
}

func TestXXH32(t *testing.T) {
	// Values of the reference implementation with seed 0.
	for in, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32Of([]byte(in)); got != want {
			t.Errorf("%q: %#x, want %#x", in, got, want)
		}
	}
	whole := contents()["noise"][:1000]
	for _, step := range []int{1, 3, 16, 17, 333} {
		var x xxh32
		x.reset()
		for i := 0; i < len(whole); i += step {
			x.write(whole[i:min(i+step, len(whole))])
		}
		if got, want := x.sum(), xxh32Of(whole); got != want {
			t.Errorf("in steps of %d: %#x, want %#x", step, got, want)
		}
	}
}

// bombs are small inputs that decode to 256 MiB or claim to decode to 1 GiB.
func bombs(t testing.TB) map[string]struct {
	codec Codec
	b     []byte
} {
	out := map[string]struct {
		codec Codec
		b     []byte
	}{}
	add := func(name string, codec Codec, b []byte) {
		out[name] = struct {
			codec Codec
			b     []byte
		}{codec, b}
	}
	var gz, zs bytes.Buffer
	g := stdgzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zs, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 8 {
		_, err1 := g.Write(zeros)
		_, err2 := z.Write(zeros)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(g.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	add("gzip", CodecGzip, bytes.Repeat(gz.Bytes(), 32))
	add("zstd", CodecZstd, bytes.Repeat(zs.Bytes(), 32))

	// One zstd frame that claims 1 GiB and holds one run of 1 MiB after the other.
	claim := append(binary.LittleEndian.AppendUint32(nil, 0xFD2FB528), 0xA0) // single segment, content size of 4 bytes
	claim = binary.LittleEndian.AppendUint32(claim, 1<<30)
	for range 64 {
		size := uint32(128<<10)<<3 | 1<<1 // an RLE block
		claim = append(claim, byte(size), byte(size>>8), byte(size>>16), 0)
	}
	add("zstd_claim", CodecZstd, claim)
	// The same with a window of 64 MiB instead of a content size: more than the limit, and no claim to refuse it by.
	window := append(binary.LittleEndian.AppendUint32(nil, 0xFD2FB528), 0x00, 16<<3)
	add("zstd_window", CodecZstd, append(window, bytes.Repeat(claim[9:13], 8192)...))

	add("snappy_claim", CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0})
	add("snappy_claim_within", CodecSnappy, []byte{0x80, 0x80, 0x80, 0x04, 0})
	xerialClaim := append(append([]byte{}, xerialMagic...), make([]byte, 8)...)
	add("xerial_claim", CodecSnappy, append(xerialClaim, 0x7f, 0xff, 0xff, 0xff, 0))
	add("xerial_block_claim", CodecSnappy, append(xerialClaim, 0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 0x07, 0))

	lz := append(binary.LittleEndian.AppendUint32(nil, lz4Magic), 0x60, 0x70, 0x73)
	block := append([]byte{0x1f, 'x', 1, 0}, bytes.Repeat([]byte{255}, 16_000)...)
	block = append(block, 0, 0x50, 'a', 'b', 'c', 'd', 'e')
	for range 256 {
		lz = append(binary.LittleEndian.AppendUint32(lz, uint32(len(block))), block...)
	}
	lz[6] = byte(xxh32Of(lz[4:6]) >> 8)
	add("lz4", CodecLZ4, binary.LittleEndian.AppendUint32(lz, 0))
	small := append(binary.LittleEndian.AppendUint32(nil, lz4Magic), lz[4:7]...)
	add("lz4_block_size_claim", CodecLZ4, append(small, 1, 0, 0, 0, 0xff))
	return out
}

func TestDecompressionBombs(t *testing.T) {
	const limit = 16 << 20
	for name, bomb := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			if len(bomb.b) > 4<<20 {
				t.Fatalf("a bomb of %d bytes is none", len(bomb.b))
			}
			// Once, so that pooled decoders exist: they are not the bomb's.
			_, _ = Decompress(nil, bomb.codec, bomb.b, limit)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Decompress(nil, bomb.codec, bomb.b, limit)
			runtime.ReadMemStats(&after)
			if kind := errcode.Of(err); kind != errcode.BatchTooLarge && kind != errcode.CorruptBatch {
				t.Errorf("got %v", err)
			}
			budget := uint64(10 * limit) // in all: growing costs several times what is held at once
			if strings.Contains(name, "claim") && name != "zstd_claim" {
				budget = 1 << 16
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > budget {
				t.Errorf("%d bytes allocated, budget %d", used, budget)
			}

			batch := wrap(Header{Attributes: int16(bomb.codec), RecordCount: 1}, bomb.b)
			runtime.ReadMemStats(&before)
			_, err = stream(batch, limit)
			runtime.ReadMemStats(&after)
			if errcode.Of(err) == errcode.OK || errcode.Of(err) == errcode.Internal {
				t.Errorf("in pieces: %v", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8*limit {
				t.Errorf("in pieces: %d bytes allocated", used)
			}
		})
	}
}

func TestManyEmptyMembers(t *testing.T) {
	var gz bytes.Buffer
	if err := stdgzip.NewWriter(&gz).Close(); err != nil {
		t.Fatal(err)
	}
	lz := append(append(binary.LittleEndian.AppendUint32(nil, lz4Magic), lz4Head[:]...), 0, 0, 0, 0)
	skip := append(binary.LittleEndian.AppendUint32(nil, lz4SkipMagic), 0, 0, 0, 0)
	zs, err := Compress(nil, CodecZstd, nil)
	if err != nil {
		t.Fatal(err)
	}
	zstdSkip := append(binary.LittleEndian.AppendUint32(nil, 0x184D2A50), 0, 0, 0, 0)
	xerialEmpty := append(append([]byte{}, xerialMagic...), make([]byte, 8)...)
	for _, c := range []struct {
		name   string
		codec  Codec
		member []byte
	}{
		{"gzip", CodecGzip, gz.Bytes()},
		{"lz4", CodecLZ4, lz},
		{"lz4_skipped", CodecLZ4, skip},
		{"xerial", CodecSnappy, xerialEmpty},
		{"zstd", CodecZstd, zs},
		{"zstd_skipped", CodecZstd, zstdSkip},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := Decompress(nil, c.codec, bytes.Repeat(c.member, maxMembers), 1000); err != nil || len(got) != 0 {
				t.Errorf("at the limit: %d bytes, %v", len(got), err)
			}
			if _, err := Decompress(nil, c.codec, bytes.Repeat(c.member, maxMembers+1), 1000); !errors.Is(err, ErrDecompress) {
				t.Errorf("over the limit: %v", err)
			}
		})
	}
}

func TestUnknownCodec(t *testing.T) {
	for _, codec := range []Codec{-1, 5, 7} {
		if _, err := Decompress(nil, codec, []byte("x"), 10); !errors.Is(err, ErrCodec) {
			t.Errorf("decompress %d: %v", codec, err)
		}
		if _, err := Compress(nil, codec, []byte("x")); !errors.Is(err, ErrCodec) {
			t.Errorf("compress %d: %v", codec, err)
		}
	}
	if _, err := NewRecordReader(wrap(Header{Attributes: 6}, nil), 10); !errors.Is(err, ErrCodec) {
		t.Errorf("reader: %v", err)
	}
}
