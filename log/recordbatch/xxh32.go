package recordbatch

import (
	"encoding/binary"
	"math/bits"
)

// The xxHash32 of the LZ4 frame format: of the frame descriptor, and optionally of blocks and content. The lz4 library has it too but
// does not export it.
const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393
)

// xxh32 is a running hash with seed 0.
type xxh32 struct {
	v     [4]uint32
	tail  [16]byte
	tailN int
	total uint64
}

func (x *xxh32) reset() {
	p1, p2 := xxPrime1, xxPrime2
	*x = xxh32{v: [4]uint32{p1 + p2, p2, 0, -p1}}
}

func xxRound(v, lane uint32) uint32 { return bits.RotateLeft32(v+lane*xxPrime2, 13) * xxPrime1 }

func (x *xxh32) write(b []byte) {
	x.total += uint64(len(b))
	if x.tailN > 0 {
		n := copy(x.tail[x.tailN:], b)
		x.tailN += n
		b = b[n:]
		if x.tailN < len(x.tail) {
			return
		}
		x.stripes(x.tail[:])
		x.tailN = 0
	}
	whole := len(b) &^ 15
	x.stripes(b[:whole])
	x.tailN = copy(x.tail[:], b[whole:])
}

// stripes takes a multiple of 16 bytes.
func (x *xxh32) stripes(b []byte) {
	v0, v1, v2, v3 := x.v[0], x.v[1], x.v[2], x.v[3]
	for ; len(b) >= 16; b = b[16:] {
		v0 = xxRound(v0, binary.LittleEndian.Uint32(b))
		v1 = xxRound(v1, binary.LittleEndian.Uint32(b[4:]))
		v2 = xxRound(v2, binary.LittleEndian.Uint32(b[8:]))
		v3 = xxRound(v3, binary.LittleEndian.Uint32(b[12:]))
	}
	x.v = [4]uint32{v0, v1, v2, v3}
}

func (x *xxh32) sum() uint32 {
	h := xxPrime5
	if x.total >= 16 {
		h = bits.RotateLeft32(x.v[0], 1) + bits.RotateLeft32(x.v[1], 7) + bits.RotateLeft32(x.v[2], 12) + bits.RotateLeft32(x.v[3], 18)
	}
	h += uint32(x.total)
	b := x.tail[:x.tailN]
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	h = (h ^ h>>15) * xxPrime2
	h = (h ^ h>>13) * xxPrime3
	return h ^ h>>16
}

// xxh32Of is the hash of b at once.
func xxh32Of(b []byte) uint32 {
	var x xxh32
	x.reset()
	x.write(b)
	return x.sum()
}
