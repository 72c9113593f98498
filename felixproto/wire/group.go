package wire

// GroupScope is what every request of a queue group begins with: stream, shard, group and request id. Each is one request on a fresh
// stream, served by the shard's leader only; elsewhere the answer is NotLeader. Source: spec/felix-wire.md 4.10.
type GroupScope struct {
	StreamScope
	Shard     uint32
	Group     string
	RequestID uint64
}

func (s *GroupScope) group(c *coder) {
	s.scope(c)
	num(c, "shard", &s.Shard)
	c.str("group", &s.Group)
	num(c, "request_id", &s.RequestID)
}

// GroupPoll claims records. Client to server; answered by GroupRecords.
type GroupPoll struct {
	GroupScope
	MaxRecords uint32
	// WaitMillis is how long the server may look for a record; it is always written.
	WaitMillis uint64
	// Consumer names the member, with FeatureGroupConsumer.
	Consumer Opt[string]
	// Reclaim asks for the claims that the member holds from older connections.
	Reclaim bool
	// VisibilityMillis is how long the claims stand, with FeatureGroupClaimControl; 0, and left out, is the server's default.
	VisibilityMillis uint64
}

func (*GroupPoll) kind() string { return "group_poll" }

func (m *GroupPoll) code(c *coder) {
	m.group(c)
	num(c, "max_records", &m.MaxRecords)
	numOr(c, "wait_ms", &m.WaitMillis)
	c.strOpt("consumer", &m.Consumer)
	c.booleanIf("reclaim", &m.Reclaim)
	numIf(c, "visibility_ms", &m.VisibilityMillis)
}

// GroupAck settles a record as done. Client to server; answered by CacheOK.
type GroupAck struct {
	GroupScope
	Offset uint64
}

func (*GroupAck) kind() string { return "group_ack" }

func (m *GroupAck) code(c *coder) {
	m.group(c)
	num(c, "offset", &m.Offset)
}

// GroupNack gives a record back. Client to server; answered by CacheOK.
type GroupNack struct {
	GroupScope
	Offset uint64
	// DelayMillis is how long it stays back; 0, and left out, is not at all. With FeatureGroupClaimControl, as the next one.
	DelayMillis uint64
	// Attempts is the delivery that is meant; 0, and left out, is whichever holds the claim.
	Attempts uint32
}

func (*GroupNack) kind() string { return "group_nack" }

func (m *GroupNack) code(c *coder) {
	m.group(c)
	num(c, "offset", &m.Offset)
	numIf(c, "delay_ms", &m.DelayMillis)
	numIf(c, "attempts", &m.Attempts)
}

// GroupExtend makes a claim stand longer. Client to server; answered by GroupExtended.
type GroupExtend struct {
	GroupScope
	Offset uint64
	// Attempts is the delivery that is meant.
	Attempts     uint32
	ExtendMillis uint64
}

func (*GroupExtend) kind() string { return "group_extend" }

func (m *GroupExtend) code(c *coder) {
	m.group(c)
	num(c, "offset", &m.Offset)
	num(c, "attempts", &m.Attempts)
	num(c, "extend_ms", &m.ExtendMillis)
}

// GroupDeadLetter makes a record a dead letter. Client to server; answered by CacheOK.
type GroupDeadLetter struct {
	GroupScope
	Offset uint64
}

func (*GroupDeadLetter) kind() string { return "group_dead_letter" }

func (m *GroupDeadLetter) code(c *coder) {
	m.group(c)
	num(c, "offset", &m.Offset)
}

// GroupDeadLetters asks for the dead letters. Client to server; answered by GroupDeadLetterList.
type GroupDeadLetters struct {
	GroupScope
}

func (*GroupDeadLetters) kind() string { return "group_dead_letters" }

func (m *GroupDeadLetters) code(c *coder) { m.group(c) }

// GroupDiscard forgets a dead letter. Client to server; answered by CacheOK.
type GroupDiscard struct {
	GroupScope
	Offset uint64
}

func (*GroupDiscard) kind() string { return "group_discard" }

func (m *GroupDiscard) code(c *coder) {
	m.group(c)
	num(c, "offset", &m.Offset)
}

// GroupRedrive delivers a dead letter again. Client to server; answered by CacheOK.
type GroupRedrive struct {
	GroupScope
	Offset uint64
}

func (*GroupRedrive) kind() string { return "group_redrive" }

func (m *GroupRedrive) code(c *coder) {
	m.group(c)
	num(c, "offset", &m.Offset)
}

// GroupSeek moves the group's cursor. Client to server; answered by GroupPosition.
type GroupSeek struct {
	GroupScope
	// Start must be there.
	Start Start
	// IfNew moves only a group that has no cursor and has handed nothing out.
	IfNew bool
}

func (*GroupSeek) kind() string { return "group_seek" }

func (m *GroupSeek) code(c *coder) {
	m.group(c)
	c.start("start", &m.Start, true)
	c.booleanIf("if_new", &m.IfNew)
}

// GroupDescribe asks for the group's state. Client to server; answered by GroupInfo.
type GroupDescribe struct {
	GroupScope
}

func (*GroupDescribe) kind() string { return "group_describe" }

func (m *GroupDescribe) code(c *coder) { m.group(c) }

// GroupDelete forgets the group. Client to server; answered by GroupDeleted.
type GroupDelete struct {
	GroupScope
}

func (*GroupDelete) kind() string { return "group_delete" }

func (m *GroupDelete) code(c *coder) { m.group(c) }

// GroupRecords answers a GroupPoll. Server to client.
type GroupRecords struct {
	Records   []GroupRecord
	RequestID uint64
}

// GroupRecord is one claimed record.
type GroupRecord struct {
	Offset  uint64
	Payload []byte
	// Attempts counts deliveries, this one included; 0, and left out, is not reported.
	Attempts uint32
	// SkippedBefore counts offsets directly below that were settled without a delivery; only with FeatureGroupSkipped offered, left out
	// at 0.
	SkippedBefore uint64
	// Publisher is only for a client that offered FeatureGroupPublisher; empty is left out.
	Publisher string
	// TimestampMicros is only for a client that offered FeatureRecordTimestamps.
	TimestampMicros Opt[uint64]
}

func (*GroupRecords) kind() string { return "group_records" }

func (m *GroupRecords) code(c *coder) {
	list(c, "records", &m.Records, func(c *coder, r *GroupRecord) {
		num(c, "offset", &r.Offset)
		c.bytes("payload", &r.Payload)
		numIf(c, "attempts", &r.Attempts)
		numIf(c, "skipped_before", &r.SkippedBefore)
		c.strIf("publisher", &r.Publisher)
		numOpt(c, "timestamp_micros", &r.TimestampMicros)
	})
	num(c, "request_id", &m.RequestID)
}

// GroupExtended answers a GroupExtend. Server to client.
type GroupExtended struct {
	// VisibleMillis is how long the claim stands from now.
	VisibleMillis uint64
	RequestID     uint64
}

func (*GroupExtended) kind() string { return "group_extended" }

func (m *GroupExtended) code(c *coder) {
	num(c, "visible_ms", &m.VisibleMillis)
	num(c, "request_id", &m.RequestID)
}

// GroupDeadLetterList answers a GroupDeadLetters. Server to client.
type GroupDeadLetterList struct {
	// Offsets are ascending.
	Offsets   []uint64
	RequestID uint64
}

func (*GroupDeadLetterList) kind() string { return "group_dead_letter_list" }

func (m *GroupDeadLetterList) code(c *coder) {
	numbers(c, "offsets", &m.Offsets)
	num(c, "request_id", &m.RequestID)
}

// GroupPosition answers a GroupSeek. Server to client.
type GroupPosition struct {
	Offset uint64
	// Moved is false if IfNew kept the cursor where it was.
	Moved     bool
	RequestID uint64
}

func (*GroupPosition) kind() string { return "group_position" }

func (m *GroupPosition) code(c *coder) {
	num(c, "offset", &m.Offset)
	c.boolean("moved", &m.Moved)
	num(c, "request_id", &m.RequestID)
}

// GroupInfo answers a GroupDescribe. Server to client.
type GroupInfo struct {
	// Committed is the cursor; absent for a group without one.
	Committed   Opt[uint64]
	Tail        uint64
	InFlight    uint64
	Owed        uint64
	DeadLetters uint64
	RequestID   uint64
}

func (*GroupInfo) kind() string { return "group_info" }

func (m *GroupInfo) code(c *coder) {
	numOpt(c, "committed", &m.Committed)
	num(c, "tail", &m.Tail)
	num(c, "in_flight", &m.InFlight)
	num(c, "owed", &m.Owed)
	num(c, "dead_letters", &m.DeadLetters)
	num(c, "request_id", &m.RequestID)
}

// GroupDeleted answers a GroupDelete. Server to client.
type GroupDeleted struct {
	Existed   bool
	RequestID uint64
}

func (*GroupDeleted) kind() string { return "group_deleted" }

func (m *GroupDeleted) code(c *coder) {
	c.boolean("existed", &m.Existed)
	num(c, "request_id", &m.RequestID)
}
