package raw

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is a compression codec by its number in a batch's attributes.
type Codec int16

// The codecs.
const (
	None Codec = iota
	Gzip
	Snappy // written as one raw block
	Lz4
	Zstd
)

// String is the codec's name in configurations.
func (c Codec) String() string {
	names := [...]string{"none", "gzip", "snappy", "lz4", "zstd"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("codec %d", int16(c))
	}
	return names[c]
}

// maxPlain bounds what Decompress returns.
const maxPlain = 64 << 20

// xerialMagic starts a snappy stream in the framing of Java's library.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// Compress compresses b; an unknown codec leaves it as it is. Writing to memory cannot fail.
func Compress(c Codec, b []byte) []byte {
	var out bytes.Buffer
	var w io.WriteCloser
	switch c {
	case Gzip:
		w = gzip.NewWriter(&out)
	case Snappy:
		return snappy.Encode(nil, b)
	case Lz4:
		w = lz4.NewWriter(&out)
	case Zstd:
		w, _ = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	default:
		return b
	}
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// Xerial compresses b with snappy in xerial framing, blocks of at most blockBytes, version fields big-endian.
func Xerial(b []byte, blockBytes int) []byte {
	out := append([]byte{}, xerialMagic...)
	out = binary.BigEndian.AppendUint32(out, 1)
	out = binary.BigEndian.AppendUint32(out, 1)
	for len(b) > 0 {
		n := min(len(b), blockBytes)
		block := snappy.Encode(nil, b[:n])
		out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
		out = append(out, block...)
		b = b[n:]
	}
	return out
}

// Decompress is the inverse of Compress, and reads xerial framing too.
func Decompress(c Codec, b []byte) ([]byte, error) {
	var r io.Reader
	switch c {
	case None:
		return b, nil
	case Gzip:
		g, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		r = g
	case Snappy:
		if bytes.HasPrefix(b, xerialMagic) {
			return unXerial(b)
		}
		return snappy.Decode(nil, b)
	case Lz4:
		r = lz4.NewReader(bytes.NewReader(b))
	case Zstd:
		z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("unknown %v", c)
	}
	return io.ReadAll(io.LimitReader(r, maxPlain))
}

func unXerial(b []byte) ([]byte, error) {
	var out []byte
	for b = b[16:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int(binary.BigEndian.Uint32(b))
		if b = b[4:]; n > len(b) {
			return nil, io.ErrUnexpectedEOF
		}
		block, err := snappy.Decode(nil, b[:n])
		if err != nil {
			return nil, err
		}
		out, b = append(out, block...), b[n:]
	}
	return out, nil
}
