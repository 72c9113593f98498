package recordbatch

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// DefaultLevel asks for the codec's own default level.
const DefaultLevel = 0

// lz4DefaultLevel is Kafka's name for the fast compressor (compression.lz4.level).
const lz4DefaultLevel = 9

// CompressLevel is Compress at a level, in the numbers of Kafka's compression.<codec>.level: gzip 1 to 9 or -1, lz4 1 to 17, zstd its
// own. Levels outside are taken as the nearest one that exists; snappy has none.
func CompressLevel(dst []byte, codec Codec, src []byte, level int) ([]byte, error) {
	switch codec {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		return gzipTo(dst, src, level), nil
	case CodecSnappy:
		return snappyTo(dst, src), nil
	case CodecLZ4:
		return lz4To(dst, src, level), nil
	case CodecZstd:
		return zstdTo(dst, src, level), nil
	default:
		return nil, ErrCodec
	}
}

// sink is an io.Writer that appends.
type sink struct{ b []byte }

func (s *sink) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

// gzipWriter is a writer with the sink it writes to.
type gzipWriter struct {
	sink sink
	gz   *gzip.Writer
}

// gzipWriters has a pool a level; 0 is the default one.
var gzipWriters [gzip.BestCompression + 1]sync.Pool

func gzipTo(dst, src []byte, level int) []byte {
	level = min(max(level, 0), gzip.BestCompression)
	w, _ := gzipWriters[level].Get().(*gzipWriter)
	if w == nil {
		w = new(gzipWriter)
		at := level
		if at == DefaultLevel {
			at = gzip.DefaultCompression
		}
		w.gz, _ = gzip.NewWriterLevel(&w.sink, at) // the level is valid
	}
	w.sink.b = dst
	w.gz.Reset(&w.sink)
	_, _ = w.gz.Write(src) // a sink does not fail
	_ = w.gz.Close()
	dst, w.sink.b = w.sink.b, nil
	gzipWriters[level].Put(w)
	return dst
}

// snappyTo writes one raw block, as librdkafka and franz-go do; every client reads both forms.
func snappyTo(dst, src []byte) []byte {
	start, size := len(dst), snappy.MaxEncodedLen(len(src))
	dst = slices.Grow(dst, size)
	return dst[:start+len(snappy.Encode(dst[start:start+size], src))]
}

// lz4Head begins our frames: version 1, independent blocks of at most 64 KiB, no checksums, no content size, as Kafka's own
// client writes them. The third byte is the checksum of the two before it.
var lz4Head = [...]byte{0x60, 0x40, 0x82}

const lz4BlockBytes = 64 << 10

// lz4Compressor holds the library's two compressors, which are tables of several hundred KiB.
type lz4Compressor struct {
	fast lz4.Compressor
	high lz4.CompressorHC
}

var lz4Compressors = sync.Pool{New: func() any { return new(lz4Compressor) }}

// compress compresses one block into dst, which is no longer than src; 0 means that it did not get smaller.
func (c *lz4Compressor) compress(dst, src []byte, level int) int {
	var n int
	if level == DefaultLevel || level == lz4DefaultLevel {
		n, _ = c.fast.CompressBlock(src, dst) // its only error is that it did not fit
	} else {
		c.high.Level = lz4.CompressionLevel(1 << (8 + min(max(level, 1), 9)))
		n, _ = c.high.CompressBlock(src, dst)
	}
	return n
}

func lz4To(dst, src []byte, level int) []byte {
	c := lz4Compressors.Get().(*lz4Compressor)
	defer lz4Compressors.Put(c)
	dst = binary.LittleEndian.AppendUint32(dst, lz4Magic)
	dst = append(dst, lz4Head[:]...)
	for len(src) > 0 {
		block := src[:min(len(src), lz4BlockBytes)]
		src = src[len(block):]
		at := len(dst)
		dst = slices.Grow(dst, 4+len(block)+4)[:at+4+len(block)]
		length := uint32(c.compress(dst[at+4:at+4+len(block)-1], block, level))
		if length == 0 {
			copy(dst[at+4:], block)
			length = uint32(len(block)) | lz4Uncompressed
		}
		binary.LittleEndian.PutUint32(dst[at:], length)
		dst = dst[:at+4+int(length&^lz4Uncompressed)]
	}
	return binary.LittleEndian.AppendUint32(dst, 0)
}

// zstdEncoders has a pool a speed of the library.
var zstdEncoders [zstd.SpeedBestCompression + 1]sync.Pool

func zstdTo(dst, src []byte, level int) []byte {
	speed := zstd.SpeedDefault
	if level != DefaultLevel {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	e, _ := zstdEncoders[speed].Get().(*zstd.Encoder)
	if e == nil {
		// Encoders that only EncodeAll have no goroutines. The options are valid.
		e, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(speed), zstd.WithZeroFrames(true),
			zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	}
	dst = e.EncodeAll(src, dst)
	zstdEncoders[speed].Put(e)
	return dst
}
