package wire

// StartKind is what kind of place a Start is.
type StartKind uint8

// The kinds.
const (
	StartDefault  StartKind = iota // left out: the default of the message
	StartLatest                    // "latest": the next record
	StartEarliest                  // "earliest": the oldest record that is held
	StartOffset                    // {"offset":n}: n is the first record not yet seen
)

// Start is where to begin.
type Start struct {
	Kind StartKind
	// Offset is meant with StartOffset.
	Offset uint64
}

// start is a Start; StartDefault is absence, which a message may not allow.
func (c *coder) start(name string, p *Start, required bool) {
	if !c.encoding {
		switch tag, n := c.unionNumber(name, "offset", "latest", "earliest"); tag {
		case "latest":
			*p = Start{Kind: StartLatest}
		case "earliest":
			*p = Start{Kind: StartEarliest}
		case "offset":
			*p = Start{Kind: StartOffset, Offset: n}
		default:
			if required {
				c.fail(name, FaultMissing)
			}
		}
		return
	}
	word := "latest"
	switch {
	case p.Kind == StartOffset:
		c.tagged(name, "offset", p.Offset)
		return
	case p.Kind == StartEarliest:
		word = "earliest"
	case p.Kind != StartLatest && !required:
		return
	}
	c.str(name, &word)
}

// Subscribe asks for the events of one shard. Client to server; answered by Subscribed, SubscribeCursorError, NotLeader or Error.
type Subscribe struct {
	StreamScope
	// SubscriptionID is the client's choice; absent, the server picks one.
	SubscriptionID Opt[uint64]
	// Start is StartLatest by default.
	Start Start
	// Shard is 0 by default, and left out then.
	Shard uint32
	// QueueCapacity is how many published batches the server should queue, with FeatureSubscribeQueue.
	QueueCapacity Opt[uint32]
}

func (*Subscribe) kind() string { return "subscribe" }

func (m *Subscribe) code(c *coder) {
	m.scope(c)
	numOpt(c, "subscription_id", &m.SubscriptionID)
	c.start("start", &m.Start, false)
	numIf(c, "shard", &m.Shard)
	numOpt(c, "queue_capacity", &m.QueueCapacity)
}

// Subscribed accepts a Subscribe. Server to client.
type Subscribed struct {
	// SubscriptionID is unique among the subscriptions and watches of the connection.
	SubscriptionID uint64
	// StartOffset is the first offset that is delivered and LiveOffset the tail when the subscriber was registered, both only to a client
	// that offered FlagOffsets.
	StartOffset Opt[uint64]
	LiveOffset  Opt[uint64]
	// QueueCapacity is what was granted, if it was asked for.
	QueueCapacity Opt[uint32]
}

func (*Subscribed) kind() string { return "subscribed" }

func (m *Subscribed) code(c *coder) {
	num(c, "subscription_id", &m.SubscriptionID)
	numOpt(c, "start_offset", &m.StartOffset)
	numOpt(c, "live_offset", &m.LiveOffset)
	numOpt(c, "queue_capacity", &m.QueueCapacity)
}

// CursorReason is why an offset cannot be served.
type CursorReason string

// The reasons.
const (
	CursorTooOld   CursorReason = "too_old"   // below the oldest record that is held
	CursorInFuture CursorReason = "in_future" // past the tail
)

// SubscribeCursorError refuses an offset. Server to client.
type SubscribeCursorError struct {
	Reason    CursorReason
	Requested uint64
	// Available is the nearest offset that can be served: the oldest one held, or the tail.
	Available uint64
}

func (*SubscribeCursorError) kind() string { return "subscribe_cursor_error" }

func (m *SubscribeCursorError) code(c *coder) {
	word(c, "reason", &m.Reason, CursorTooOld, CursorInFuture)
	num(c, "requested", &m.Requested)
	num(c, "available", &m.Available)
}

// EventStreamHello is the first frame of every event stream. Server to client.
type EventStreamHello struct {
	SubscriptionID uint64
}

func (*EventStreamHello) kind() string { return "event_stream_hello" }

func (m *EventStreamHello) code(c *coder) { num(c, "subscription_id", &m.SubscriptionID) }

// EventMessage is one event in JSON, on an event stream. Server to client; servers of today send binary batches.
type EventMessage struct {
	StreamScope
	Payload []byte
	Offset  Opt[uint64]
}

func (*EventMessage) kind() string { return "event" }

func (m *EventMessage) code(c *coder) {
	m.scope(c)
	c.bytes("payload", &m.Payload)
	numOpt(c, "offset", &m.Offset)
}

// EventBatchMessage is several events in JSON, on an event stream. Server to client; servers of today send binary batches.
type EventBatchMessage struct {
	StreamScope
	Payloads   Payloads
	BaseOffset Opt[uint64]
}

func (*EventBatchMessage) kind() string { return "event_batch" }

func (m *EventBatchMessage) code(c *coder) {
	m.scope(c)
	c.payloads(&m.Payloads)
	numOpt(c, "base_offset", &m.BaseOffset)
}

// ShardMoved is the last frame of an event stream whose shard is served elsewhere, to a client that offered FeatureShardMoved.
type ShardMoved struct {
	SubscriptionID uint64
	// ResumeFrom is the first offset that was not offered to this reader; absent for a stream without offsets, and for a watch whose shard
	// still took writes.
	ResumeFrom Opt[uint64]
	// NodeID and Addr are the next owner, as a hint; both may be empty.
	NodeID     string
	Addr       string
	Generation uint64
}

func (*ShardMoved) kind() string { return "shard_moved" }

func (m *ShardMoved) code(c *coder) {
	num(c, "subscription_id", &m.SubscriptionID)
	numOpt(c, "resume_from", &m.ResumeFrom)
	c.strIf("node_id", &m.NodeID)
	c.strIf("addr", &m.Addr)
	num(c, "generation", &m.Generation)
}

// SubscriptionLagged is the last frame of an event stream whose queue dropped events, to a client that offered
// FeatureSubscriptionLagged and FlagOffsets.
type SubscriptionLagged struct {
	SubscriptionID uint64
	// ResumeFrom is the first offset that was dropped.
	ResumeFrom uint64
}

func (*SubscriptionLagged) kind() string { return "subscription_lagged" }

func (m *SubscriptionLagged) code(c *coder) {
	num(c, "subscription_id", &m.SubscriptionID)
	num(c, "resume_from", &m.ResumeFrom)
}
