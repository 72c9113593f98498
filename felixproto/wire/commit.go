package wire

// ChangeOp is what a Change does.
type ChangeOp string

// The operations.
const (
	ChangePut    ChangeOp = "put"
	ChangeDelete ChangeOp = "delete"
)

// Change is one change of an entity's state.
type Change struct {
	Op  ChangeOp
	Key string
	// Value is meant with ChangePut.
	Value []byte
}

// Commit appends one event together with changes of an entity's state. Client to server; answered by CommitOK, PublishRefused, NotLeader
// or Error.
type Commit struct {
	StreamScope
	// EntityKey routes like the key of a publish.
	EntityKey []byte
	Event     []byte
	Changes   []Change
	RequestID uint64
	// ExpectedOffset is the offset that the commit must get, with FeaturePublishConditional.
	ExpectedOffset Opt[uint64]
	// Shard is where the event goes, whatever EntityKey says, with FeatureExplicitShard. The state of an entity is kept by shard.
	Shard Opt[uint32]
}

func (*Commit) kind() string { return "commit" }

func (m *Commit) code(c *coder) {
	m.scope(c)
	c.bytes("entity_key", &m.EntityKey)
	c.bytes("event", &m.Event)
	listIf(c, "changes", &m.Changes, func(c *coder, ch *Change) {
		word(c, "op", &ch.Op, ChangePut, ChangeDelete)
		c.str("key", &ch.Key)
		if ch.Op == ChangePut {
			c.bytes("value", &ch.Value)
		}
	})
	num(c, "request_id", &m.RequestID)
	numOpt(c, "expected_offset", &m.ExpectedOffset)
	shardOpt(c, &m.Shard)
}

// CommitOK accepts a Commit. Server to client.
type CommitOK struct {
	RequestID uint64
	Offset    uint64
}

func (*CommitOK) kind() string { return "commit_ok" }

func (m *CommitOK) code(c *coder) {
	num(c, "request_id", &m.RequestID)
	num(c, "offset", &m.Offset)
}

// StateGet asks for one key of an entity's state. Client to server; answered by StateValue, NotLeader or Error.
type StateGet struct {
	StreamScope
	EntityKey []byte
	Key       string
	RequestID uint64
	// Shard is where to look, whatever EntityKey says, with FeatureExplicitShard.
	Shard Opt[uint32]
}

func (*StateGet) kind() string { return "state_get" }

func (m *StateGet) code(c *coder) {
	m.scope(c)
	c.bytes("entity_key", &m.EntityKey)
	c.str("key", &m.Key)
	num(c, "request_id", &m.RequestID)
	shardOpt(c, &m.Shard)
}

// StateValue answers a StateGet. Server to client.
type StateValue struct {
	// Value is nil if there is none, which is written as null.
	Value []byte
	// Version is the offset of the commit that wrote the value, AsOf the last commit that the answer reflects.
	Version   Opt[uint64]
	AsOf      Opt[uint64]
	RequestID uint64
}

func (*StateValue) kind() string { return "state_value" }

func (m *StateValue) code(c *coder) {
	c.bytesNull("value", &m.Value)
	numOpt(c, "version", &m.Version)
	numOpt(c, "as_of", &m.AsOf)
	num(c, "request_id", &m.RequestID)
}
