package wire

import (
	"encoding/binary"
	"iter"
	"math"
)

// timestampSize is the size of the append time before each event with FlagTimestamps.
const timestampSize = 8

// EventHead is what an event batch says before its events. On the wire, after the frame header: u64 subscription id with
// FlagEventBatch; u64 base offset with FlagOffsets; u64 skipped with FlagSkipped; u8 length and publisher with FlagPublisher; u32 count.
// Then each event: u64 append time with FlagTimestamps, u32 length, payload. Source: spec/felix-wire.md 4.6.1.
type EventHead struct {
	// Flags are the parts to write, as far as there is something to say; see WireFlags.
	Flags Flags
	// SubscriptionID is meant with FlagEventBatch.
	SubscriptionID uint64
	// BaseOffset is the offset of the first event, with FlagOffsets; event i has offset BaseOffset + i.
	BaseOffset uint64
	// SkippedBefore is how many offsets directly below BaseOffset hold no event, with FlagSkipped.
	SkippedBefore uint64
	// Publisher is the principal that published the batch, with FlagPublisher: UTF-8, at most 255 bytes.
	Publisher []byte
}

// WireFlags is the flags of the frame: h.Flags without the parts that have nothing to say (no skipped offsets or no base offset, a
// publisher that is empty or too long for its length) and without bits of other layouts. Without FlagEventBatch the form is shared.
func (h *EventHead) WireFlags() Flags {
	f := h.Flags & (FlagEventBatch | eventParts)
	if !f.Has(FlagEventBatch) {
		f |= FlagSharedEventBatch
	}
	if !f.Has(FlagOffsets) || h.SkippedBefore == 0 {
		f &^= FlagSkipped
	}
	if len(h.Publisher) == 0 || len(h.Publisher) > math.MaxUint8 {
		f &^= FlagPublisher
	}
	return f
}

// Size is the number of bytes from the start of the frame to the first event: frame header, head and count.
func (h *EventHead) Size() int {
	f := h.WireFlags()
	n := HeaderSize + 4
	for _, part := range [...]Flags{FlagEventBatch, FlagOffsets, FlagSkipped} {
		if f.Has(part) {
			n += 8
		}
	}
	if f.Has(FlagPublisher) {
		n += 1 + len(h.Publisher)
	}
	return n
}

// BeginEventFrame appends the start of a frame: header, head and a count of zero, h.Size bytes. AppendEvent follows once an event, then
// EndEventFrame.
func BeginEventFrame(dst []byte, h *EventHead) []byte {
	f := h.WireFlags()
	dst = BeginFrame(dst, f)
	if f.Has(FlagEventBatch) {
		dst = binary.BigEndian.AppendUint64(dst, h.SubscriptionID)
	}
	if f.Has(FlagOffsets) {
		dst = binary.BigEndian.AppendUint64(dst, h.BaseOffset)
	}
	if f.Has(FlagSkipped) {
		dst = binary.BigEndian.AppendUint64(dst, h.SkippedBefore)
	}
	if f.Has(FlagPublisher) {
		dst = append(append(dst, byte(len(h.Publisher))), h.Publisher...)
	}
	return binary.BigEndian.AppendUint32(dst, 0)
}

// AppendEvent appends one event, with its append time in microseconds since 1970 if flags has FlagTimestamps.
func AppendEvent(dst []byte, flags Flags, micros uint64, payload []byte) []byte {
	if flags.Has(FlagTimestamps) {
		dst = binary.BigEndian.AppendUint64(dst, micros)
	}
	return AppendPayload(dst, payload)
}

// EventSize is how many bytes AppendEvent appends for a payload of n bytes.
func EventSize(flags Flags, n int) int {
	if flags.Has(FlagTimestamps) {
		return timestampSize + payloadPrefix + n
	}
	return payloadPrefix + n
}

// EndEventFrame writes length and count of a frame that BeginEventFrame began with the same h; frame is all of it, from its first byte.
func EndEventFrame(frame []byte, h *EventHead, count int) {
	binary.BigEndian.PutUint32(frame[h.Size()-4:], uint32(count))
	EndFrame(frame)
}

// AppendEventHead appends all of a frame but its events: what must follow is p.Encoded, which so need not be copied. h must be without
// FlagTimestamps, as events with times have another form: that bit is left out.
func AppendEventHead(dst []byte, h *EventHead, p Payloads) []byte {
	plain := *h
	plain.Flags &^= FlagTimestamps
	start := len(dst)
	dst = BeginEventFrame(dst, &plain)
	binary.BigEndian.PutUint32(dst[len(dst)-4:], uint32(p.count))
	binary.BigEndian.PutUint32(dst[start+8:], uint32(len(dst)-start-HeaderSize+len(p.encoded)))
	return dst
}

// AppendEventBatch appends a whole frame of p. With FlagTimestamps every event is given micros, as all records of a batch are.
func AppendEventBatch(dst []byte, h *EventHead, micros uint64, p Payloads) []byte {
	f := h.WireFlags()
	if !f.Has(FlagTimestamps) {
		return append(AppendEventHead(dst, h, p), p.encoded...)
	}
	start := len(dst)
	dst = BeginEventFrame(dst, h)
	for payload := range p.All() {
		dst = AppendEvent(dst, f, micros, payload)
	}
	EndEventFrame(dst[start:], h, p.count)
	return dst
}

// EventBatch is a parsed event batch. Its Flags are those of the frame.
type EventBatch struct {
	EventHead
	count   int
	encoded []byte
}

// Event is one event of a batch.
type Event struct {
	// Offset is meant with FlagOffsets.
	Offset uint64
	// TimestampMicros is the append time in microseconds since 1970, with FlagTimestamps.
	TimestampMicros uint64
	// Payload is the batch's own memory.
	Payload []byte
}

// ParseEventBatch reads the payload of a frame whose flags have LayoutEvents. Every event has been walked and nothing follows the last
// one. The result points into b. It does not allocate.
//
// Errors are DecodeErrors with EndStream. A part that says nothing although its flag is set (no skipped offset, an empty publisher) is
// FaultValue, and so are offsets past 2^64.
func ParseEventBatch(flags Flags, b []byte) (EventBatch, error) {
	e, fault := parseEventBatch(flags, b)
	if fault != FaultNone {
		return EventBatch{}, &DecodeError{Fault: fault, Verdict: EndStream}
	}
	return e, nil
}

func parseEventBatch(flags Flags, b []byte) (EventBatch, Fault) {
	if layout, legal := flags.Layout(); !legal || layout != LayoutEvents {
		return EventBatch{}, FaultFlags
	}
	e := EventBatch{EventHead: EventHead{Flags: flags}}
	r := reader{b: b}
	if flags.Has(FlagEventBatch) {
		e.SubscriptionID = r.u64()
	}
	if flags.Has(FlagOffsets) {
		e.BaseOffset = r.u64()
	}
	if flags.Has(FlagSkipped) {
		if e.SkippedBefore = r.u64(); e.SkippedBefore == 0 {
			r.fail(FaultValue)
		}
	}
	if flags.Has(FlagPublisher) {
		if e.Publisher = r.text(r.take(int(r.u8()))); len(e.Publisher) == 0 {
			r.fail(FaultValue)
		}
	}
	count := r.u32()
	switch {
	case r.fault != FaultNone:
		return EventBatch{}, r.fault
	case int64(count) > int64(len(r.b)/EventSize(flags, 0)):
		return EventBatch{}, FaultTruncated
	case count > MaxPayloads:
		return EventBatch{}, FaultTooMany
	case e.SkippedBefore > e.BaseOffset, uint64(count) > math.MaxUint64-e.BaseOffset:
		return EventBatch{}, FaultValue
	}
	e.count, e.encoded = int(count), r.b
	return e, walkPayloads(e.encoded, e.count, EventSize(flags, 0)-payloadPrefix)
}

// Count is the number of events.
func (e *EventBatch) Count() int { return e.count }

// Payloads is the events as a list, if they carry no times; it points into the batch.
func (e *EventBatch) Payloads() (Payloads, bool) {
	if e.Flags.Has(FlagTimestamps) {
		return Payloads{}, false
	}
	return Payloads{count: e.count, encoded: e.encoded}, true
}

// All yields each event in order, without an allocation.
func (e *EventBatch) All() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		ev := Event{Offset: e.BaseOffset}
		for b := e.encoded; len(b) >= payloadPrefix; ev.Offset++ {
			if e.Flags.Has(FlagTimestamps) {
				ev.TimestampMicros = binary.BigEndian.Uint64(b)
				b = b[timestampSize:]
			}
			end := payloadPrefix + int(binary.BigEndian.Uint32(b))
			ev.Payload, b = b[payloadPrefix:end:end], b[end:]
			if !yield(ev) {
				return
			}
		}
	}
}
