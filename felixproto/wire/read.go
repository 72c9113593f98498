package wire

// StreamRead asks for a page of committed records of one shard; it never waits. Client to server; answered by StreamRecords,
// SubscribeCursorError, NotLeader or Error.
type StreamRead struct {
	StreamScope
	Shard uint32
	From  uint64
	// End is exclusive; absent is the end of what is committed.
	End Opt[uint64]
	// MaxRecords and MaxBytes bound the page; 0, and left out, is the server's own bound.
	MaxRecords uint32
	MaxBytes   uint64
	RequestID  uint64
}

func (*StreamRead) kind() string { return "stream_read" }

func (m *StreamRead) code(c *coder) {
	m.scope(c)
	num(c, "shard", &m.Shard)
	num(c, "from", &m.From)
	numOpt(c, "end", &m.End)
	numIf(c, "max_records", &m.MaxRecords)
	numIf(c, "max_bytes", &m.MaxBytes)
	num(c, "request_id", &m.RequestID)
}

// StreamRecords answers a StreamRead. Server to client.
type StreamRecords struct {
	// Records are in offset order.
	Records []StreamRecord
	// NextOffset is where the next page begins.
	NextOffset uint64
	RequestID  uint64
}

// StreamRecord is one record of a page.
type StreamRecord struct {
	Offset  uint64
	Payload []byte
	// Publisher is empty, and left out, if it is not known.
	Publisher       string
	TimestampMicros uint64
}

func (*StreamRecords) kind() string { return "stream_records" }

func (m *StreamRecords) code(c *coder) {
	list(c, "records", &m.Records, func(c *coder, r *StreamRecord) {
		num(c, "offset", &r.Offset)
		c.bytes("payload", &r.Payload)
		c.strIf("publisher", &r.Publisher)
		num(c, "timestamp_micros", &r.TimestampMicros)
	})
	num(c, "next_offset", &m.NextOffset)
	num(c, "request_id", &m.RequestID)
}

// OffsetForTime asks for the first record that is not older than a time. Client to server; answered by OffsetValue, NotLeader or Error.
type OffsetForTime struct {
	StreamScope
	Shard uint32
	// AtMicros is in microseconds since 1970.
	AtMicros  uint64
	RequestID uint64
}

func (*OffsetForTime) kind() string { return "offset_for_time" }

func (m *OffsetForTime) code(c *coder) {
	m.scope(c)
	num(c, "shard", &m.Shard)
	num(c, "at_micros", &m.AtMicros)
	num(c, "request_id", &m.RequestID)
}

// OffsetValue answers an OffsetForTime. Server to client.
type OffsetValue struct {
	// Offset is absent if no record is that young.
	Offset    Opt[uint64]
	RequestID uint64
}

func (*OffsetValue) kind() string { return "offset_value" }

func (m *OffsetValue) code(c *coder) {
	numOpt(c, "offset", &m.Offset)
	num(c, "request_id", &m.RequestID)
}
