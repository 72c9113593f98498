package wire

// ackNames are the ack modes in JSON.
var ackNames = [...]string{AckNone: "none", AckPerMessage: "per_message", AckPerBatch: "per_batch"}

// String is the name on the wire.
func (a AckMode) String() string {
	if int(a) < len(ackNames) {
		return ackNames[a]
	}
	return "unknown"
}

// ackFields are the optional id and ack mode of a publish: an answer needs something to name.
func ackFields(c *coder, id *Opt[uint64], mode *AckMode) {
	numOpt(c, "request_id", id)
	var name string
	if c.encoding && *mode != AckNone {
		name = mode.String()
	}
	wordIf(c, "ack", &name, ackNames[:]...)
	if !c.encoding {
		for a, known := range ackNames {
			if name == known {
				*mode = AckMode(a)
			}
		}
		c.require(*mode == AckNone || id.Set, "request_id", FaultMissing)
	}
}

// shardOpt is the shard that a request names. To whoever has not negotiated FeatureExplicitShard it is an unknown field, whatever its value.
func shardOpt(c *coder, shard *Opt[uint32]) {
	if !c.without.Has(FeatureExplicitShard) {
		numOpt(c, "shard", shard)
	}
}

// Publish is a publish of one record. Client to server; with an Ack answered by PublishOK or PublishError, else by nothing.
type Publish struct {
	StreamScope
	Payload []byte
	// Key is nil for none; an empty key is a key.
	Key []byte
	// RequestID must be there if Ack is not AckNone.
	RequestID Opt[uint64]
	Ack       AckMode
	// Shard is where the records go, whatever the key says, with FeatureExplicitShard.
	Shard Opt[uint32]
}

func (*Publish) kind() string { return "publish" }

func (m *Publish) code(c *coder) {
	m.scope(c)
	c.bytes("payload", &m.Payload)
	c.bytesOpt("key", &m.Key)
	ackFields(c, &m.RequestID, &m.Ack)
	shardOpt(c, &m.Shard)
}

// PublishBatch is a publish of several records under one key. Client to server; answered like Publish, once.
type PublishBatch struct {
	StreamScope
	Payloads Payloads
	// Key is nil for none; an empty key is a key.
	Key []byte
	// RequestID must be there if Ack is not AckNone.
	RequestID Opt[uint64]
	Ack       AckMode
	// Shard is where the records go, whatever the key says, with FeatureExplicitShard.
	Shard Opt[uint32]
}

func (*PublishBatch) kind() string { return "publish_batch" }

func (m *PublishBatch) code(c *coder) {
	m.scope(c)
	c.payloads(&m.Payloads)
	c.bytesOpt("key", &m.Key)
	ackFields(c, &m.RequestID, &m.Ack)
	shardOpt(c, &m.Shard)
}

// PublishIdempotent is a batch of a producer. Client to server; answered by PublishOK, PublishError or PublishRefused.
type PublishIdempotent struct {
	StreamScope
	Payloads Payloads
	// Key is nil for none; an empty key is a key.
	Key        []byte
	RequestID  uint64
	ProducerID uint64
	// Sequence counts batches of the producer and shard, from 0.
	Sequence uint64
	// Shard is where the records go, whatever the key says, with FeatureExplicitShard.
	Shard Opt[uint32]
}

func (*PublishIdempotent) kind() string { return "publish_idempotent" }

func (m *PublishIdempotent) code(c *coder) {
	m.scope(c)
	c.payloads(&m.Payloads)
	c.bytesOpt("key", &m.Key)
	num(c, "request_id", &m.RequestID)
	num(c, "producer_id", &m.ProducerID)
	num(c, "sequence", &m.Sequence)
	shardOpt(c, &m.Shard)
}

// PublishIf is a batch that is appended only if the shard's next offset is ExpectedOffset. Client to server; answered by PublishOK,
// PublishRefused, NotLeader or Error.
type PublishIf struct {
	StreamScope
	Payloads Payloads
	// Key is nil for none; an empty key is a key.
	Key            []byte
	ExpectedOffset uint64
	RequestID      uint64
	// Shard is where the records go, whatever the key says, with FeatureExplicitShard.
	Shard Opt[uint32]
}

func (*PublishIf) kind() string { return "publish_if" }

func (m *PublishIf) code(c *coder) {
	m.scope(c)
	c.payloads(&m.Payloads)
	c.bytesOpt("key", &m.Key)
	num(c, "expected_offset", &m.ExpectedOffset)
	num(c, "request_id", &m.RequestID)
	shardOpt(c, &m.Shard)
}

// ProducerInit asks for a producer id. Client to server; answered by ProducerInitOK.
type ProducerInit struct {
	StreamScope
	RequestID uint64
}

func (*ProducerInit) kind() string { return "producer_init" }

func (m *ProducerInit) code(c *coder) {
	m.scope(c)
	num(c, "request_id", &m.RequestID)
}

// ProducerInitOK gives a producer id. Server to client.
type ProducerInitOK struct {
	RequestID  uint64
	ProducerID uint64
}

func (*ProducerInitOK) kind() string { return "producer_init_ok" }

func (m *ProducerInitOK) code(c *coder) {
	num(c, "request_id", &m.RequestID)
	num(c, "producer_id", &m.ProducerID)
}

// PublishOK says that a publish is accepted. Server to client.
type PublishOK struct {
	RequestID uint64
	// Offset is that of the first record, only for a client that offered FlagAckOffset.
	Offset Opt[uint64]
}

func (*PublishOK) kind() string { return "publish_ok" }

func (m *PublishOK) code(c *coder) {
	num(c, "request_id", &m.RequestID)
	numOpt(c, "offset", &m.Offset)
}

// PublishError says that a publish failed. Server to client.
type PublishError struct {
	RequestID uint64
	Failure
}

func (*PublishError) kind() string { return "publish_error" }

func (m *PublishError) code(c *coder) {
	num(c, "request_id", &m.RequestID)
	m.fields(c)
}

// RefusedReason is why an idempotent or conditional publish was refused.
type RefusedReason string

// The reasons.
const (
	RefusedSequenceGap     RefusedReason = "sequence_gap"     // with Expected: the sequence is beyond the next one
	RefusedUnknownProducer RefusedReason = "unknown_producer" // nothing is known of the producer, and the sequence is not 0
	RefusedSequenceExpired RefusedReason = "sequence_expired" // older than what is remembered
	RefusedSequenceReused  RefusedReason = "sequence_reused"  // a remembered sequence with other payloads
	RefusedNotLeader       RefusedReason = "not_leader"       // with NodeID and perhaps Addr
	RefusedOffsetMismatch  RefusedReason = "offset_mismatch"  // with Tail: the shard's next offset is another one
)

// PublishRefused refuses an idempotent or conditional publish or a conditional commit; nothing was written. Server to client.
type PublishRefused struct {
	RequestID uint64
	Reason    RefusedReason
	// Expected is the next sequence, with RefusedSequenceGap.
	Expected uint64
	// Tail is the shard's next offset, with RefusedOffsetMismatch.
	Tail uint64
	// NodeID and Addr are where to go, with RefusedNotLeader; Addr may be empty.
	NodeID  string
	Addr    string
	Message string
}

func (*PublishRefused) kind() string { return "publish_refused" }

func (m *PublishRefused) code(c *coder) {
	num(c, "request_id", &m.RequestID)
	if c.encoding {
		m.writeReason(c)
	} else {
		m.readReason(c)
	}
	c.str("message", &m.Message)
}

func (m *PublishRefused) writeReason(c *coder) {
	switch m.Reason {
	case RefusedSequenceGap:
		c.object("reason", func(c *coder) { c.tagged("sequence_gap", "expected", m.Expected) })
	case RefusedOffsetMismatch:
		c.object("reason", func(c *coder) { c.tagged("offset_mismatch", "tail", m.Tail) })
	case RefusedNotLeader:
		c.object("reason", func(c *coder) { c.object("not_leader", m.target) })
	default:
		reason := string(m.Reason)
		c.str("reason", &reason)
	}
}

func (m *PublishRefused) target(c *coder) {
	c.str("node_id", &m.NodeID)
	c.strIf("addr", &m.Addr)
}

func (m *PublishRefused) readReason(c *coder) {
	tag, value, ok := c.union("reason")
	if !ok {
		c.fail("reason", FaultMissing)
		return
	}
	m.Reason = RefusedReason(tag)
	var describe func(*coder)
	switch m.Reason {
	case RefusedSequenceGap:
		describe = func(c *coder) { num(c, "expected", &m.Expected) }
	case RefusedOffsetMismatch:
		describe = func(c *coder) { num(c, "tail", &m.Tail) }
	case RefusedNotLeader:
		describe = m.target
	case RefusedUnknownProducer, RefusedSequenceExpired, RefusedSequenceReused:
	default:
		c.fail("reason", FaultField)
	}
	if (describe != nil) != (value != nil) {
		c.fail("reason", FaultField)
	} else if describe != nil {
		c.read("reason", value, &coder{}, describe)
	}
}
