package wire

import (
	"encoding/binary"
	"unicode/utf8"
)

// Status bytes of a publish ack.
const (
	statusOK    = 0
	statusError = 1
)

// PublishAck answers a binary publish. On the wire, after the frame header: u8 status, u64 request id, u16 length and message; u16 code
// and u8 retry class with FlagAckCode; u16 length and reason, u64 suggested wait with FlagAckDetail; u16 length and node id, u16 length
// and address, u64 generation with FlagAckOwner; u64 offset with FlagAckOffset. Source: spec/felix-wire.md 4.4.4.
type PublishAck struct {
	RequestID uint64
	// Failed says that the publish was refused. The fields below belong to one outcome each, or to both.
	Failed bool
	// Message is the sentence of a failure, UTF-8.
	Message string
	// Code is the code of a failure, 0 for none. A number that is not known here is kept.
	Code Code
	// Retry is the retry class of a failure with a code.
	Retry Retry
	// Reason is the machine-readable reason of a failure with a code, empty for none.
	Reason string
	// RetryAfterMillis is the suggested wait before another attempt of a failure with a code, 0 for none.
	RetryAfterMillis uint64
	// Owner is the server that the batch was forwarded to: a hint for the next one.
	Owner Opt[Owner]
	// Offset is the offset of the batch's first record, of a success that was answered after the write.
	Offset Opt[uint64]
}

// Owner is the server that leads a shard.
type Owner struct {
	NodeID string
	// Addr is its address for clients, empty if it has not told one.
	Addr       string
	Generation uint64
}

// flags is the frame's flags: the parts that there is something to say in, as far as offered allows.
func (a *PublishAck) flags(offered Flags) Flags {
	f := FlagPublishAck
	if a.Failed && a.Code != 0 {
		f |= FlagAckCode & offered
		if f.Has(FlagAckCode) && (a.Reason != "" || a.RetryAfterMillis != 0) {
			f |= FlagAckDetail & offered
		}
	}
	if a.Owner.Set {
		f |= FlagAckOwner & offered
	}
	if !a.Failed && a.Offset.Set {
		f |= FlagAckOffset & offered
	}
	return f
}

// AppendPublishAck appends a as a whole frame. Parts are written only as far as offered, the flags that the client named, allows, and
// only those of a's outcome. CodeRevoked, a number that clients need not know, is written as CodeForbidden. Text that is longer than
// 65,535 bytes is cut between two characters.
func AppendPublishAck(dst []byte, a *PublishAck, offered Flags) []byte {
	flags := a.flags(offered)
	start := len(dst)
	dst = BeginFrame(dst, flags)
	status, message := byte(statusOK), ""
	if a.Failed {
		status, message = statusError, a.Message
	}
	dst = binary.BigEndian.AppendUint64(append(dst, status), a.RequestID)
	dst = appendText16(dst, message)
	if flags.Has(FlagAckCode) {
		code := a.Code
		if code == CodeRevoked {
			code = CodeForbidden
		}
		dst = append(binary.BigEndian.AppendUint16(dst, uint16(code)), byte(a.Retry.orFatal()))
	}
	if flags.Has(FlagAckDetail) {
		dst = binary.BigEndian.AppendUint64(appendText16(dst, a.Reason), a.RetryAfterMillis)
	}
	if flags.Has(FlagAckOwner) {
		dst = appendText16(dst, a.Owner.Value.NodeID)
		dst = appendText16(dst, a.Owner.Value.Addr)
		dst = binary.BigEndian.AppendUint64(dst, a.Owner.Value.Generation)
	}
	if flags.Has(FlagAckOffset) {
		dst = binary.BigEndian.AppendUint64(dst, a.Offset.Value)
	}
	EndFrame(dst[start:])
	return dst
}

// appendText16 appends text behind its length: valid UTF-8, cut at 65,535 bytes.
func appendText16(dst []byte, s string) []byte {
	s = validText(s)
	if len(s) > maxShort {
		n := maxShort
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return appendBytes16(dst, s)
}

// ParsePublishAck reads the payload of a frame whose flags have LayoutPublishAck. The result owns its memory. A success allocates
// nothing unless it names an owner. An unknown retry class reads as RetryFatal.
//
// Errors are DecodeErrors with EndStream; a status byte other than 0 and 1, a message on a success, a code of 0 and a part that belongs to
// the other outcome are FaultValue.
func ParsePublishAck(flags Flags, b []byte) (PublishAck, error) {
	a, fault := parsePublishAck(flags, b)
	if fault != FaultNone {
		return PublishAck{}, &DecodeError{Fault: fault, Verdict: EndStream}
	}
	return a, nil
}

func parsePublishAck(flags Flags, b []byte) (PublishAck, Fault) {
	if layout, legal := flags.Layout(); !legal || layout != LayoutPublishAck {
		return PublishAck{}, FaultFlags
	}
	var a PublishAck
	r := reader{b: b}
	status := r.u8()
	a.Failed = status == statusError
	a.RequestID = r.u64()
	a.Message = string(r.text16())
	if status > statusError || a.Failed && flags.Has(FlagAckOffset) || !a.Failed && (a.Message != "" || flags.Has(FlagAckCode)) {
		r.fail(FaultValue)
	}
	if flags.Has(FlagAckCode) {
		a.Code = Code(r.u16())
		a.Retry = Retry(r.u8()).orFatal()
		if a.Code == 0 {
			r.fail(FaultValue)
		}
	}
	if flags.Has(FlagAckDetail) {
		a.Reason = string(r.text16())
		a.RetryAfterMillis = r.u64()
	}
	if flags.Has(FlagAckOwner) {
		a.Owner = Some(Owner{NodeID: string(r.text16()), Addr: string(r.text16()), Generation: r.u64()})
	}
	if flags.Has(FlagAckOffset) {
		a.Offset = Some(r.u64())
	}
	if len(r.b) != 0 {
		r.fail(FaultTrailing)
	}
	return a, r.fault
}
