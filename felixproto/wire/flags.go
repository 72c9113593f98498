package wire

// Flags is the flags field of a frame header: which layout the payload has and which optional parts it holds. Zero is JSON.
type Flags uint16

// The bits. The first three and FlagPublishAck say what the payload is, the others which parts it has.
const (
	FlagPublishBatch     Flags = 0x0001 // binary publish batch, client to server
	FlagEventBatch       Flags = 0x0002 // event batch that names its subscription: read, not written by servers of today
	FlagSharedEventBatch Flags = 0x0004 // event batch without a subscription id, server to client
	FlagAcked            Flags = 0x0008 // publish: request id and ack mode come first, an answer is owed
	FlagPublishAck       Flags = 0x0010 // binary publish ack, server to client
	FlagOffsets          Flags = 0x0020 // events: the offset of the first one
	FlagKeyed            Flags = 0x0040 // publish: routing key
	FlagAckOwner         Flags = 0x0080 // ack: the owner that the batch was forwarded to
	FlagIdempotent       Flags = 0x0100 // acked publish: producer id and sequence
	FlagAckCode          Flags = 0x0200 // failed ack: error code and retry class
	FlagAckDetail        Flags = 0x0400 // failed ack with a code: reason and suggested wait
	FlagSkipped          Flags = 0x0800 // events with offsets: how many offsets before the batch hold no event
	FlagAckOffset        Flags = 0x1000 // ack of a success: offset of the first record
	FlagPublisher        Flags = 0x2000 // events: principal that published the batch
	FlagTimestamps       Flags = 0x4000 // events: append time before each event

	// KnownFlags are all bits that this package reads and writes.
	KnownFlags Flags = 0x7FFF
	// LegacyFlags are the bits that every peer knows, also one that offers none: they need no negotiation.
	LegacyFlags Flags = 0x0007

	publishParts = FlagAcked | FlagKeyed | FlagIdempotent
	ackParts     = FlagAckOwner | FlagAckCode | FlagAckDetail | FlagAckOffset
	eventParts   = FlagOffsets | FlagSkipped | FlagPublisher | FlagTimestamps
)

// Layout is what a payload is.
type Layout uint8

// The layouts, and how each is parsed.
const (
	LayoutJSON       Layout = iota // ParseRequest, ParseReply
	LayoutPublish                  // ParseBinaryPublish
	LayoutPublishAck               // ParsePublishAck
	LayoutEvents                   // ParseEventBatch
)

// Has says that all bits of other are set.
func (f Flags) Has(other Flags) bool { return f&other == other }

// Layout is the layout that f stands for. It is false if f has an unknown bit or is no legal set: a part without what it belongs to,
// parts of two layouts, an ack with an error code and an offset.
func (f Flags) Layout() (Layout, bool) {
	switch {
	case f == 0:
		return LayoutJSON, true
	case f.Has(FlagPublishBatch):
		idempotent := f.Has(FlagIdempotent) && !f.Has(FlagAcked)
		return LayoutPublish, f&^(FlagPublishBatch|publishParts) == 0 && !idempotent
	case f.Has(FlagPublishAck):
		detail := f.Has(FlagAckDetail) && !f.Has(FlagAckCode)
		both := f.Has(FlagAckCode | FlagAckOffset)
		return LayoutPublishAck, f&^(FlagPublishAck|ackParts) == 0 && !detail && !both
	case f.Has(FlagSharedEventBatch) != f.Has(FlagEventBatch):
		skipped := f.Has(FlagSkipped) && !f.Has(FlagOffsets)
		return LayoutEvents, f&^(FlagSharedEventBatch|FlagEventBatch|eventParts) == 0 && !skipped
	}
	return 0, false
}

// String is f in hexadecimal, as documents write it.
func (f Flags) String() string {
	const digits = "0123456789abcdef"
	return string([]byte{'0', 'x', digits[f>>12], digits[f>>8&15], digits[f>>4&15], digits[f&15]})
}
