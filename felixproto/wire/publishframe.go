package wire

import (
	"encoding/binary"
	"math"
)

// AckMode is which answer a publish asks for.
type AckMode uint8

// The ack modes, with their numbers in binary frames. AckNone has no number there: a frame without FlagAcked asks for no answer.
const (
	AckNone       AckMode = 0
	AckPerMessage AckMode = 1
	AckPerBatch   AckMode = 2
)

// correlationSize is the size of what an answer needs: u64 request id, u8 ack mode.
const correlationSize = 9

// maxShort is the largest value of a u16 length.
const maxShort = math.MaxUint16

// BinaryPublish is a publish batch. On the wire, after the frame header: u64 request id and u8 ack mode with FlagAcked; u64 producer id
// and u64 sequence with FlagIdempotent; u16 length and key with FlagKeyed; tenant, namespace and stream, each behind a u16 length; u32
// count, and each payload behind a u32 length. Source: spec/felix-wire.md 4.4.1.
type BinaryPublish struct {
	// RequestID is meant when Ack is not AckNone.
	RequestID uint64
	// Ack is AckPerBatch when Idempotent is set.
	Ack AckMode
	// Idempotent says that ProducerID and Sequence are meant. Sequences count batches of one producer and shard, from 0.
	Idempotent bool
	ProducerID uint64
	Sequence   uint64
	// Key routes the whole batch. Nil is no key; an empty key is a key. At most 65,535 bytes.
	Key []byte
	// TenantID, Namespace and Stream are UTF-8, at most 65,535 bytes each.
	TenantID  []byte
	Namespace []byte
	Stream    []byte
	// Payloads may be empty.
	Payloads Payloads
}

// Flags is the frame's flags, which follow from the fields.
func (p *BinaryPublish) Flags() Flags {
	f := FlagPublishBatch
	if p.Ack != AckNone || p.Idempotent {
		f |= FlagAcked
	}
	if p.Idempotent {
		f |= FlagIdempotent
	}
	if p.Key != nil {
		f |= FlagKeyed
	}
	return f
}

// AppendBinaryPublish appends p as a whole frame. An idempotent publish is written with AckPerBatch, whatever p.Ack is.
//
// Errors: ErrTooLong if the key, a name or the frame does not fit its length field; dst is then returned as it was.
func AppendBinaryPublish(dst []byte, p *BinaryPublish) ([]byte, error) {
	names := len(p.TenantID) + len(p.Namespace) + len(p.Stream)
	if max(len(p.Key), len(p.TenantID), len(p.Namespace), len(p.Stream)) > maxShort ||
		int64(len(p.Payloads.encoded)) > math.MaxUint32-int64(names+len(p.Key)+64) {
		return dst, ErrTooLong
	}
	flags := p.Flags()
	start := len(dst)
	dst = BeginFrame(dst, flags)
	if flags.Has(FlagAcked) {
		mode := AckPerBatch
		if p.Ack == AckPerMessage && !p.Idempotent {
			mode = AckPerMessage
		}
		dst = append(binary.BigEndian.AppendUint64(dst, p.RequestID), byte(mode))
	}
	if p.Idempotent {
		dst = binary.BigEndian.AppendUint64(dst, p.ProducerID)
		dst = binary.BigEndian.AppendUint64(dst, p.Sequence)
	}
	if p.Key != nil {
		dst = appendBytes16(dst, p.Key)
	}
	dst = appendBytes16(dst, p.TenantID)
	dst = appendBytes16(dst, p.Namespace)
	dst = appendBytes16(dst, p.Stream)
	dst = AppendPayloads(dst, p.Payloads)
	EndFrame(dst[start:])
	return dst, nil
}

// appendBytes16 appends b, at most 65,535 bytes, behind its length.
func appendBytes16[B string | []byte](dst []byte, b B) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(b))), b...)
}

// ParseBinaryPublish reads the payload of a frame whose flags have LayoutPublish. Every payload has been walked and nothing follows the
// last one. The result points into b. It does not allocate.
//
// Errors are DecodeErrors. If FlagAcked is set and the request id could be read, it is in the error and the verdict is Continue: the
// failure is answered under that id (with FlagIdempotent by a PublishError, else by a PublishAck). Otherwise the verdict is EndStream.
func ParseBinaryPublish(flags Flags, b []byte) (BinaryPublish, error) {
	var p BinaryPublish
	if layout, legal := flags.Layout(); !legal || layout != LayoutPublish {
		return p, &DecodeError{Fault: FaultFlags, Verdict: EndStream}
	}
	r := reader{b: b}
	if flags.Has(FlagAcked) {
		p.RequestID = r.u64()
		p.Ack = AckMode(r.u8())
		if p.Ack != AckPerBatch && (p.Ack != AckPerMessage || flags.Has(FlagIdempotent)) {
			r.fail(FaultValue)
		}
	}
	if flags.Has(FlagIdempotent) {
		p.Idempotent = true
		p.ProducerID = r.u64()
		p.Sequence = r.u64()
	}
	if flags.Has(FlagKeyed) {
		p.Key = r.bytes16()
	}
	p.TenantID = r.text16()
	p.Namespace = r.text16()
	p.Stream = r.text16()
	if r.fault == FaultNone {
		p.Payloads, r.fault = parsePayloads(r.b)
	}
	if r.fault == FaultNone {
		return p, nil
	}
	err := &DecodeError{Fault: r.fault, Verdict: EndStream}
	if flags.Has(FlagAcked) && len(b) >= correlationSize {
		err.Verdict, err.RequestID = Continue, Some(binary.BigEndian.Uint64(b))
	}
	return BinaryPublish{}, err
}
