package recordbatch

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/klauspost/compress/snappy"
)

// xerialMagic begins the framing of the Java library; two version fields of four bytes follow, in either byte order.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// xerialHeaderSize is the magic and the two version fields.
const xerialHeaderSize = 16

// unsnappy decodes one raw block or xerial's framing of several.
func unsnappy(dst, src []byte, maxBytes int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return unsnappyBlock(dst, src, maxBytes)
	}
	limit := len(dst) + maxBytes
	x := xerial{src: src}
	for {
		block, err := x.next()
		if err != nil {
			return nil, err
		}
		if block == nil {
			return dst, nil
		}
		if dst, err = unsnappyBlock(dst, block, limit-len(dst)); err != nil {
			return nil, err
		}
	}
}

// unsnappyBlock decodes one raw block.
func unsnappyBlock(dst, src []byte, maxBytes int) ([]byte, error) {
	size, err := snappy.DecodedLen(src)
	if err != nil {
		return nil, ErrDecompress
	}
	if size > maxBytes {
		return nil, ErrDecodedTooLarge
	}
	// The densest element turns 3 bytes into 64, so a larger claim is a lie that must not cost memory.
	if size > 22*len(src) {
		return nil, ErrDecompress
	}
	start := len(dst)
	dst = slices.Grow(dst, size)
	block, err := snappy.Decode(dst[start:start+size:start+size], src)
	if err != nil || len(block) != size {
		return nil, ErrDecompress
	}
	return dst[:start+size], nil
}

// xerial yields the blocks of xerial's framing: a header, then blocks, each behind its length. Concatenated streams are
// allowed; they begin with a header again.
type xerial struct {
	src     []byte
	streams int
}

// next returns the next block, nil behind the last.
func (x *xerial) next() ([]byte, error) {
	for bytes.HasPrefix(x.src, xerialMagic) {
		if x.streams++; x.streams > maxMembers || len(x.src) < xerialHeaderSize {
			return nil, ErrDecompress
		}
		x.src = x.src[xerialHeaderSize:]
	}
	if len(x.src) == 0 {
		return nil, nil
	}
	if len(x.src) < 4 {
		return nil, ErrDecompress
	}
	size := binary.BigEndian.Uint32(x.src)
	if size == 0 || uint64(size) > uint64(len(x.src)-4) {
		return nil, ErrDecompress
	}
	block := x.src[4 : 4+size]
	x.src = x.src[4+size:]
	return block, nil
}
