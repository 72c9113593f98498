package recordbatch

import (
	"errors"
	"io"
	"slices"
	"sync"
)

// Codec is how the records of a batch are compressed: bits 0 to 2 of the attributes.
type Codec int8

// The codecs of Kafka.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
	codecCount
)

var codecNames = [codecCount]string{"none", "gzip", "snappy", "lz4", "zstd"}

// Known says whether c is one of the five codecs.
func (c Codec) Known() bool { return c >= 0 && c < codecCount }

// String returns the name that Kafka's configuration uses.
func (c Codec) String() string {
	if !c.Known() {
		return "unknown"
	}
	return codecNames[c]
}

// ParseCodec returns the codec of a name as in Kafka's compression.type, where "none" is also called "uncompressed".
func ParseCodec(name string) (c Codec, ok bool) {
	if name == "uncompressed" {
		return CodecNone, true
	}
	i := slices.Index(codecNames[:], name)
	return Codec(max(i, 0)), i >= 0
}

const (
	// maxMembers limits the gzip members, lz4 frames and xerial streams in one batch: empty ones cost time and decode to nothing.
	// Producers write one.
	maxMembers = 1024
	// maxZstdWindow is the largest window that a zstd frame may declare, the largest that the reference encoder makes.
	maxZstdWindow = 128 << 20
	// scratchKept is the largest scratch buffer that goes back to the pool.
	scratchKept = 1 << 20
)

// scratch is a pooled buffer for decoded or encoded records.
type scratch struct{ b []byte }

// The pools of this package hold buffers and codec state, whose only content that outlives a use is capacity.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

func getScratch() *scratch {
	s := scratches.Get().(*scratch)
	s.b = s.b[:0]
	return s
}

func putScratch(s *scratch) {
	if cap(s.b) <= scratchKept {
		scratches.Put(s)
	}
}

// Decompress appends the decoded form of src to dst, at most maxBytes of it; with CodecNone it appends src itself. It allocates no
// more than a small multiple of what it decodes, whatever sizes src claims.
//
// Errors: ErrDecodedTooLarge over maxBytes, ErrDecompress if src is not valid for the codec, ErrCodec if there is no such codec. dst is
// not returned with an error.
func Decompress(dst []byte, codec Codec, src []byte, maxBytes int) ([]byte, error) {
	switch codec {
	case CodecNone:
		if len(src) > maxBytes {
			return nil, ErrDecodedTooLarge
		}
		return append(dst, src...), nil
	case CodecGzip:
		return gunzip(dst, src, maxBytes)
	case CodecSnappy:
		return unsnappy(dst, src, maxBytes)
	case CodecLZ4:
		return unlz4(dst, src, maxBytes)
	case CodecZstd:
		return unzstd(dst, src, maxBytes)
	default:
		return nil, ErrCodec
	}
}

// Compress appends the compressed form of src to dst, at the codec's default level; with CodecNone it appends src itself. The only
// error is ErrCodec.
func Compress(dst []byte, codec Codec, src []byte) ([]byte, error) {
	return CompressLevel(dst, codec, src, DefaultLevel)
}

// readInto appends what r yields to dst until its end or more than maxBytes.
func readInto(dst []byte, r io.Reader, sizeHint, maxBytes int) ([]byte, error) {
	start := len(dst)
	dst = slices.Grow(dst, min(sizeHint, maxBytes)+1) // one byte more than allowed tells too much from just enough
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(cap(dst)-start, maxBytes)+1)
		}
		room := min(cap(dst), start+maxBytes+1)
		n, err := r.Read(dst[len(dst):room])
		dst = dst[:len(dst)+n]
		if len(dst)-start > maxBytes {
			return nil, ErrDecodedTooLarge
		}
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return nil, ErrDecompress
		}
	}
}
