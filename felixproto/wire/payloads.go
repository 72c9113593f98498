package wire

import (
	"encoding/binary"
	"iter"
)

// MaxPayloads is how many payloads one batch may hold: as many empty ones as fit a frame of the default limit.
const MaxPayloads = DefaultMaxFrameBytes / payloadPrefix

// payloadPrefix is the size of the length before each payload.
const payloadPrefix = 4

// Payloads is a list of payloads in the form that publish batches and event batches without timestamps share: each is a u32 length and
// that many bytes, back to back. The zero value is the empty list. A Payloads is always whole: whoever made it has walked it.
type Payloads struct {
	count   int
	encoded []byte
}

// ParsePayloads reads a u32 count and that many payloads, which must fill b to its end. The result points into b.
//
// Errors are DecodeErrors with EndStream: FaultTruncated, FaultTooMany above MaxPayloads, FaultTrailing.
func ParsePayloads(b []byte) (Payloads, error) {
	p, fault := parsePayloads(b)
	if fault != FaultNone {
		return Payloads{}, &DecodeError{Fault: fault, Verdict: EndStream}
	}
	return p, nil
}

func parsePayloads(b []byte) (Payloads, Fault) {
	if len(b) < 4 {
		return Payloads{}, FaultTruncated
	}
	count := int64(binary.BigEndian.Uint32(b))
	b = b[4:]
	if count > int64(len(b)/payloadPrefix) {
		return Payloads{}, FaultTruncated
	}
	if count > MaxPayloads {
		return Payloads{}, FaultTooMany
	}
	if fault := walkPayloads(b, int(count), 0); fault != FaultNone {
		return Payloads{}, fault
	}
	return Payloads{count: int(count), encoded: b[:len(b):len(b)]}, FaultNone
}

// walkPayloads checks that b is count payloads and nothing else, each with extra bytes before its length.
func walkPayloads(b []byte, count, extra int) Fault {
	prefix := extra + payloadPrefix
	for ; count > 0; count-- {
		if len(b) < prefix {
			return FaultTruncated
		}
		size := binary.BigEndian.Uint32(b[extra:])
		if int64(size) > int64(len(b)-prefix) {
			return FaultTruncated
		}
		b = b[prefix+int(size):]
	}
	if len(b) != 0 {
		return FaultTrailing
	}
	return FaultNone
}

// NewPayloads takes count payloads that AppendPayload wrote back to back; it keeps encoded. Errors are those of ParsePayloads.
func NewPayloads(count int, encoded []byte) (Payloads, error) {
	fault := FaultTruncated
	switch {
	case count > MaxPayloads:
		fault = FaultTooMany
	case count >= 0:
		fault = walkPayloads(encoded, count, 0)
	}
	if fault != FaultNone {
		return Payloads{}, &DecodeError{Fault: fault, Verdict: EndStream}
	}
	return Payloads{count: count, encoded: encoded}, nil
}

// MakePayloads copies payloads into a list of their own.
func MakePayloads(payloads ...[]byte) Payloads {
	size := 0
	for _, p := range payloads {
		size += payloadPrefix + len(p)
	}
	encoded := make([]byte, 0, size)
	for _, p := range payloads {
		encoded = AppendPayload(encoded, p)
	}
	return Payloads{count: len(payloads), encoded: encoded}
}

// AppendPayload appends one payload behind its length. A payload of 4 GiB and more is the caller's mistake: no frame holds one.
func AppendPayload(dst, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	return append(dst, payload...)
}

// AppendPayloads appends the count and the payloads of p.
func AppendPayloads(dst []byte, p Payloads) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.count))
	return append(dst, p.encoded...)
}

// Count is the number of payloads.
func (p Payloads) Count() int { return p.count }

// Encoded is the list as on the wire, without its count. It is the list's own memory.
func (p Payloads) Encoded() []byte { return p.encoded }

// Bytes is the size of all payloads together, without their lengths.
func (p Payloads) Bytes() int { return len(p.encoded) - payloadPrefix*p.count }

// All yields each payload in order, without an allocation. The slices are the list's own memory and have no spare capacity.
func (p Payloads) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for b := p.encoded; len(b) >= payloadPrefix; {
			end := payloadPrefix + int(binary.BigEndian.Uint32(b))
			if !yield(b[payloadPrefix:end:end]) {
				return
			}
			b = b[end:]
		}
	}
}

// Cut splits p into as many leading payloads as take at most maxBytes on the wire, lengths included but not the count, and the rest. The
// head holds at least one payload, whatever its size, unless p is empty. Both share p's memory.
func (p Payloads) Cut(maxBytes int) (head, rest Payloads) {
	at, count := 0, 0
	for count < p.count {
		end := at + payloadPrefix + int(binary.BigEndian.Uint32(p.encoded[at:]))
		if count > 0 && end > maxBytes {
			break
		}
		at, count = end, count+1
	}
	return Payloads{count, p.encoded[:at:at]}, Payloads{p.count - count, p.encoded[at:]}
}
