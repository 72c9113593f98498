package wire

// CachePut sets a key. Client to server; answered by CacheOK, or by OK if it had no request id.
type CachePut struct {
	CacheScope
	Key       string
	Value     []byte
	RequestID Opt[uint64]
	// TTLMillis is how long the value lives. Absent (written as null) is for ever.
	TTLMillis Opt[uint64]
}

func (*CachePut) kind() string { return "cache_put" }

func (m *CachePut) code(c *coder) {
	m.scope(c)
	c.str("key", &m.Key)
	c.bytes("value", &m.Value)
	numOpt(c, "request_id", &m.RequestID)
	if c.encoding && !m.TTLMillis.Set {
		c.key("ttl_ms")
		c.dst = append(c.dst, "null"...)
	}
	numOpt(c, "ttl_ms", &m.TTLMillis)
}

// CacheGet asks for a key. Client to server; answered by CacheValue.
type CacheGet struct {
	CacheScope
	Key       string
	RequestID Opt[uint64]
}

func (*CacheGet) kind() string { return "cache_get" }

func (m *CacheGet) code(c *coder) {
	m.scope(c)
	c.str("key", &m.Key)
	numOpt(c, "request_id", &m.RequestID)
}

// CacheDelete removes a key. Client to server; answered by CacheValue with what was removed.
type CacheDelete struct {
	CacheScope
	Key       string
	RequestID Opt[uint64]
}

func (*CacheDelete) kind() string { return "cache_delete" }

func (m *CacheDelete) code(c *coder) {
	m.scope(c)
	c.str("key", &m.Key)
	numOpt(c, "request_id", &m.RequestID)
}

// Condition is what a CachePutIf wants to find: no live entry, or one of a version.
type Condition struct {
	// Absent says that there must be no live entry; Version is then not meant.
	Absent  bool
	Version uint64
}

// CachePutIf sets a key on a condition. Client to server; answered by CacheConditionResult.
type CachePutIf struct {
	CacheScope
	Key       string
	Value     []byte
	TTLMillis Opt[uint64]
	Condition Condition
	RequestID uint64
}

func (*CachePutIf) kind() string { return "cache_put_if" }

func (m *CachePutIf) code(c *coder) {
	m.scope(c)
	c.str("key", &m.Key)
	c.bytes("value", &m.Value)
	numOpt(c, "ttl_ms", &m.TTLMillis)
	switch {
	case c.encoding && m.Condition.Absent:
		absent := "absent"
		c.str("condition", &absent)
	case c.encoding:
		c.tagged("condition", "version", m.Condition.Version)
	default:
		tag, n := c.unionNumber("condition", "version", "absent")
		c.require(tag != "", "condition", FaultMissing)
		m.Condition = Condition{Absent: tag == "absent", Version: n}
	}
	num(c, "request_id", &m.RequestID)
}

// CacheDeleteIf removes a key if its entry has a version. Client to server; answered by CacheConditionResult.
type CacheDeleteIf struct {
	CacheScope
	Key       string
	Version   uint64
	RequestID uint64
}

func (*CacheDeleteIf) kind() string { return "cache_delete_if" }

func (m *CacheDeleteIf) code(c *coder) {
	m.scope(c)
	c.str("key", &m.Key)
	num(c, "version", &m.Version)
	num(c, "request_id", &m.RequestID)
}

// CacheOK answers a CachePut and what settles a record of a group. Server to client.
type CacheOK struct {
	RequestID uint64
}

func (*CacheOK) kind() string { return "cache_ok" }

func (m *CacheOK) code(c *coder) { num(c, "request_id", &m.RequestID) }

// CacheValue answers a CacheGet or CacheDelete. Server to client.
type CacheValue struct {
	CacheScope
	Key string
	// Value is nil if there is none, which is written as null.
	Value     []byte
	RequestID Opt[uint64]
	// Version is the entry's, on a get that found one, to a client that offered FeatureCacheConditional.
	Version Opt[uint64]
}

func (*CacheValue) kind() string { return "cache_value" }

func (m *CacheValue) code(c *coder) {
	m.scope(c)
	c.str("key", &m.Key)
	c.bytesNull("value", &m.Value)
	numOpt(c, "request_id", &m.RequestID)
	numOpt(c, "version", &m.Version)
}

// CacheConditionResult answers a CachePutIf or CacheDeleteIf, also when the condition was not met. Server to client.
type CacheConditionResult struct {
	Applied bool
	// Version is the new one after a put that was applied, else the current one; absent if there is no live entry.
	Version   Opt[uint64]
	RequestID uint64
}

func (*CacheConditionResult) kind() string { return "cache_condition_result" }

func (m *CacheConditionResult) code(c *coder) {
	c.boolean("applied", &m.Applied)
	numOpt(c, "version", &m.Version)
	num(c, "request_id", &m.RequestID)
}

// CacheWatch asks for the changes of a key, or of the keys with a prefix on one shard. Client to server; answered by CacheWatchStarted,
// SubscribeCursorError, NotLeader or Error.
type CacheWatch struct {
	CacheScope
	// Exactly one of Key and Prefix is there. An empty prefix is the whole shard.
	Key    Opt[string]
	Prefix Opt[string]
	// Shard is for Prefix only.
	Shard Opt[uint32]
	// FromOffset is the first change not yet seen; absent is from now on.
	FromOffset Opt[uint64]
	// Retained asks for the current values first; not together with FromOffset.
	Retained bool
	// SubscriptionID is the client's choice; absent, the server picks one.
	SubscriptionID Opt[uint64]
}

func (*CacheWatch) kind() string { return "cache_watch" }

func (m *CacheWatch) code(c *coder) {
	m.scope(c)
	c.strOpt("key", &m.Key)
	c.strOpt("prefix", &m.Prefix)
	c.require(m.Key.Set != m.Prefix.Set, "key", FaultExclusive)
	numOpt(c, "shard", &m.Shard)
	numOpt(c, "from_offset", &m.FromOffset)
	c.booleanIf("retained", &m.Retained)
	c.require(!m.Retained || !m.FromOffset.Set, "retained", FaultExclusive)
	numOpt(c, "subscription_id", &m.SubscriptionID)
}

// CacheWatchStarted accepts a CacheWatch. Server to client.
type CacheWatchStarted struct {
	SubscriptionID uint64
	// ResumeOffset is where live delivery starts.
	ResumeOffset uint64
	// Resnapshot says that the offset asked for is compacted away and current values are sent instead.
	Resnapshot bool
	// RetainedCount is there exactly when retained values were asked for.
	RetainedCount Opt[uint64]
}

func (*CacheWatchStarted) kind() string { return "cache_watch_started" }

func (m *CacheWatchStarted) code(c *coder) {
	num(c, "subscription_id", &m.SubscriptionID)
	num(c, "resume_offset", &m.ResumeOffset)
	c.booleanOr("resnapshot", &m.Resnapshot)
	numOpt(c, "retained_count", &m.RetainedCount)
}

// CacheEvent is one change, on the event stream of a watch. Server to client.
type CacheEvent struct {
	Key string
	// Value is nil, and left out, when the key was deleted.
	Value  []byte
	Offset uint64
	// ExpiresAtMillis is when the value expires, in milliseconds since 1970; 0, and left out, is never.
	ExpiresAtMillis uint64
}

func (*CacheEvent) kind() string { return "cache_event" }

func (m *CacheEvent) code(c *coder) {
	c.str("key", &m.Key)
	c.bytesOpt("value", &m.Value)
	num(c, "offset", &m.Offset)
	numIf(c, "expires_at_millis", &m.ExpiresAtMillis)
}

// CacheWatchLagged is the last frame of a watch whose queue dropped changes. Server to client.
type CacheWatchLagged struct {
	// ResumeFrom is the first change that was missed.
	ResumeFrom uint64
}

func (*CacheWatchLagged) kind() string { return "cache_watch_lagged" }

func (m *CacheWatchLagged) code(c *coder) { num(c, "resume_from", &m.ResumeFrom) }

// CounterAdd adds to a counter. Client to server; answered by CounterValue with the sum.
type CounterAdd struct {
	CacheScope
	Key       string
	Delta     int64
	RequestID uint64
}

func (*CounterAdd) kind() string { return "counter_add" }

func (m *CounterAdd) code(c *coder) {
	m.scope(c)
	c.str("key", &m.Key)
	c.signed("delta", &m.Delta)
	num(c, "request_id", &m.RequestID)
}

// CounterGet asks for a counter. Client to server; answered by CounterValue.
type CounterGet struct {
	CacheScope
	Key       string
	RequestID uint64
}

func (*CounterGet) kind() string { return "counter_get" }

func (m *CounterGet) code(c *coder) {
	m.scope(c)
	c.str("key", &m.Key)
	num(c, "request_id", &m.RequestID)
}

// CounterValue answers a CounterAdd or CounterGet. Server to client.
type CounterValue struct {
	// Value is absent for a counter that was never written.
	Value     Opt[int64]
	RequestID uint64
}

func (*CounterValue) kind() string { return "counter_value" }

func (m *CounterValue) code(c *coder) {
	c.signedOpt("value", &m.Value)
	num(c, "request_id", &m.RequestID)
}
