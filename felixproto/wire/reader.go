package wire

import (
	"encoding/binary"
	"unicode/utf8"
)

// reader takes fields off the front of a binary payload. The first that is not there makes a fault, and all later ones are zero.
type reader struct {
	b     []byte
	fault Fault
}

func (r *reader) fail(f Fault) {
	if r.fault == FaultNone {
		r.fault = f
	}
	r.b = nil
}

// take returns the next n bytes without spare capacity, never nil.
func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail(FaultTruncated)
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// bytes16 is a u16 length and that many bytes.
func (r *reader) bytes16() []byte { return r.take(int(r.u16())) }

// text16 is the same as text.
func (r *reader) text16() []byte { return r.text(r.bytes16()) }

func (r *reader) text(b []byte) []byte {
	if !utf8.Valid(b) {
		r.fail(FaultUTF8)
	}
	return b
}
