package kafkaproto

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/felixlog/felix/internal/ids"
)

// errMalformed is for bytes that are not what their request says they are. The connection is closed.
var errMalformed = errors.New("malformed request")

// wireReader takes Kafka's primitives off a byte string. After the first value that does not fit it is bad: every later
// value is zero and no loop over a count goes on, so callers check bad once at the end. It never allocates; what it
// returns points into the input.
type wireReader struct {
	b   []byte
	bad bool
}

func (r *wireReader) fail() {
	r.bad = true
	r.b = nil
}

// take returns the next n bytes.
func (r *wireReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *wireReader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *wireReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *wireReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *wireReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *wireReader) uuid() ids.TopicID {
	if b := r.take(16); b != nil {
		return ids.TopicID(b)
	}
	return ids.TopicID{}
}

// uvarint reads at most 32 bits in at most 5 bytes.
func (r *wireReader) uvarint() uint32 {
	var v uint64
	for i := range 5 {
		if i >= len(r.b) {
			break
		}
		c := r.b[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if v > math.MaxUint32 {
				break
			}
			r.b = r.b[i+1:]
			return uint32(v)
		}
	}
	r.fail()
	return 0
}

// length reads the length of a string (wide false) or of bytes or an array (wide true), -1 for null.
func (r *wireReader) length(flexible, wide bool) int {
	switch {
	case flexible:
		return int(r.uvarint()) - 1
	case wide:
		return int(r.int32())
	default:
		return int(r.int16())
	}
}

// str reads a string; ok is false for null.
func (r *wireReader) str(flexible bool) (s []byte, ok bool) {
	return r.sized(r.length(flexible, false))
}

// bytes reads a byte string; ok is false for null.
func (r *wireReader) bytes(flexible bool) (b []byte, ok bool) {
	return r.sized(r.length(flexible, true))
}

func (r *wireReader) sized(n int) (b []byte, ok bool) {
	if n < 0 {
		if n < -1 {
			r.fail()
		}
		return nil, false
	}
	b = r.take(n)
	return b, !r.bad
}

// count reads an array's count, -1 for null. Each element takes at least least bytes (1 or more), so a count that the rest of
// the input cannot hold is refused before anybody loops over it.
func (r *wireReader) count(flexible bool, least int) int {
	n := r.length(flexible, true)
	if n < -1 || n > len(r.b)/least {
		r.fail()
		return 0
	}
	if r.bad {
		return 0
	}
	return n
}

// skipTags passes over a tag section and returns how many tags it had.
func (r *wireReader) skipTags() int { return r.tags(nil) }

// tags reads a tag section. known is given each tag's number and content; nil passes over them. A tag takes at least two
// bytes, so a count beyond that is refused at once: kmsg would loop as often as the count says.
func (r *wireReader) tags(known func(tag uint32, content []byte)) int {
	n := r.uvarint()
	if int64(n) > int64(len(r.b)/2) {
		r.fail()
		return 0
	}
	for range n {
		tag := r.uvarint()
		content := r.take(int(r.uvarint()))
		if r.bad {
			return 0
		}
		if known != nil {
			known(tag, content)
		}
	}
	return int(n)
}

// header is the part of a request before its body.
type header struct {
	key         int16
	version     int16
	correlation int32
	client      []byte // client id, nil when null
}

// fixedHeader reads what every request has, to find its row of the table.
func (r *wireReader) fixedHeader() header {
	return header{key: r.int16(), version: r.int16(), correlation: r.int32()}
}

// restOfHeader reads the client id, which has a two-byte length in all versions, and the tag section of flexible ones.
func (r *wireReader) restOfHeader(h *header, flexible bool) {
	h.client, _ = r.str(false)
	if flexible {
		r.skipTags()
	}
}
