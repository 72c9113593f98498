package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/felixlog/felix/internal/ids"
)

// ErrCorrupt is for commands and snapshots whose bytes are not what was written.
var ErrCorrupt = errors.New("controller: corrupt metadata")

// checksum is CRC-32C, as in record batches.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writer appends fields. Integers are variable-length; texts and lists carry their length in front.
type writer struct{ b []byte }

func (w *writer) byte(v byte)      { w.b = append(w.b, v) }
func (w *writer) uint(v uint64)    { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)      { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) count(n int)      { w.uint(uint64(n)) }
func (w *writer) id(t ids.TopicID) { w.b = append(w.b, t[:]...) }

func (w *writer) text(s string) {
	w.count(len(s))
	w.b = append(w.b, s...)
}

func (w *writer) bool(v bool) {
	if v {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

// seal appends the checksum of everything so far.
func (w *writer) seal() []byte {
	return binary.LittleEndian.AppendUint32(w.b, crc32.Checksum(w.b, castagnoli))
}

// reader takes fields off. After the first error every further read gives zero values; check err once at the end, and
// before acting on what was read. Counts are bounded by the bytes that are left.
type reader struct {
	b   []byte
	err error
}

// open checks the checksum of a sealed buffer and returns a reader over what precedes it.
func open(b []byte) (*reader, error) {
	n := len(b) - crc32.Size
	if n < 0 {
		return nil, fmt.Errorf("%w: %d bytes are too few", ErrCorrupt, len(b))
	}
	if got, want := crc32.Checksum(b[:n], castagnoli), binary.LittleEndian.Uint32(b[n:]); got != want {
		return nil, fmt.Errorf("%w: checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	return &reader{b: b[:n]}, nil
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s with %d bytes left", ErrCorrupt, what, len(r.b))
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("missing byte")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bool() bool {
	v := r.byte()
	if v > 1 {
		r.fail("bad boolean")
	}
	return v == 1
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("bad number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("bad number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// int32 reads a number that must fit 32 bits.
func (r *reader) int32() int32 {
	v := r.int()
	if v != int64(int32(v)) {
		r.fail("number out of range")
		return 0
	}
	return int32(v)
}

func (r *reader) int16() int16 {
	v := r.int()
	if v != int64(int16(v)) {
		r.fail("number out of range")
		return 0
	}
	return int16(v)
}

// count reads the length of a list whose elements take at least size bytes each, size > 0.
func (r *reader) count(size int) int {
	v := r.uint()
	if v > uint64(len(r.b)/size) {
		r.fail("list longer than the rest")
		return 0
	}
	return int(v)
}

func (r *reader) text() string {
	n := r.count(1)
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) id() ids.TopicID {
	var t ids.TopicID
	if len(r.b) < len(t) {
		r.fail("missing topic id")
		return t
	}
	copy(t[:], r.b)
	r.b = r.b[len(t):]
	return t
}

// end checks that nothing is left over.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("trailing bytes")
	}
	return r.err
}
