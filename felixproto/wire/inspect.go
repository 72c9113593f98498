package wire

// ShardInspect asks one server for its own view of one shard; it is never forwarded. Client to server; answered by ShardInspectInfo.
// Source: spec/felix-wire.md 4.14.
type ShardInspect struct {
	TenantID  string
	Namespace string
	Name      string
	Kind      ObjectKind
	Shard     uint32
	RequestID uint64
}

func (*ShardInspect) kind() string { return "shard_inspect" }

func (m *ShardInspect) code(c *coder) {
	c.str("tenant_id", &m.TenantID)
	c.str("namespace", &m.Namespace)
	c.str("name", &m.Name)
	word(c, "kind", &m.Kind, KindStream, KindCache)
	num(c, "shard", &m.Shard)
	num(c, "request_id", &m.RequestID)
}

// ShardInspectInfo answers a ShardInspect. Server to client. The words in a view are open sets, so that a server may add one.
type ShardInspectInfo struct {
	RequestID uint64
	View      ShardView
}

// ShardView is one server's view of one shard.
type ShardView struct {
	// NodeID is empty outside a cluster.
	NodeID string
	// Shards is how many the stream or cache has, 0 if it is not known here.
	Shards uint32
	// Role is leader, follower or none.
	Role string
	// Phase is unassigned, opening, fencing, active, draining, closed or failed.
	Phase string
	// Serving says that this server takes writes for the shard now; Reason is why not, Detail the same as a sentence.
	Serving bool
	Reason  string
	Detail  string
	// Generation is the one that this server holds the shard at.
	Generation Opt[uint64]
	Assignment Opt[ViewAssignment]
	// Fence is there while a promoted leader waits for its replicas.
	Fence Opt[ViewFence]
	Lease Opt[ViewLease]
	// Tail is one past the last record of this copy, Committed the high watermark; each is absent where there is none.
	Tail               Opt[uint64]
	Committed          Opt[uint64]
	AcceptedGeneration Opt[uint64]
	// Replicas are the others as the leader sees them.
	Replicas []ViewReplica
}

// ViewAssignment is who leads and holds a shard.
type ViewAssignment struct {
	Generation uint64
	Leader     string
	// Replicas are those other than the leader.
	Replicas []string
	Draining bool
	// Successor is whom a move hands the shard to, empty for none.
	Successor string
}

// ViewFence is a promoted leader's fence: who has taken its generation.
type ViewFence struct {
	Took          []string
	Pending       []string
	Attempts      uint32
	RetryInMillis Opt[uint64]
}

// ViewLease is the server's lease.
type ViewLease struct {
	Held            bool
	RemainingMillis uint64
}

// ViewReplica is one replica as the leader sees it.
type ViewReplica struct {
	NodeID string
	// Role is follower or learner.
	Role       string
	NextOffset Opt[uint64]
	// Lag is in records.
	Lag   Opt[uint64]
	Fence Opt[bool]
	State string
	// Halted is why replication to it stopped, empty if it goes on.
	Halted string
}

func (*ShardInspectInfo) kind() string { return "shard_inspect_info" }

func (m *ShardInspectInfo) code(c *coder) {
	num(c, "request_id", &m.RequestID)
	c.object("view", m.View.fields)
}

func (v *ShardView) fields(c *coder) {
	c.str("node_id", &v.NodeID)
	num(c, "shards", &v.Shards)
	c.str("role", &v.Role)
	c.str("phase", &v.Phase)
	c.boolean("serving", &v.Serving)
	c.strIf("reason", &v.Reason)
	c.strIf("detail", &v.Detail)
	numOpt(c, "generation", &v.Generation)
	if c.present("assignment", &v.Assignment.Set) {
		c.object("assignment", v.Assignment.Value.fields)
	}
	if c.present("fence", &v.Fence.Set) {
		c.object("fence", v.Fence.Value.fields)
	}
	if c.present("lease", &v.Lease.Set) {
		c.object("lease", v.Lease.Value.fields)
	}
	numOpt(c, "tail", &v.Tail)
	numOpt(c, "committed", &v.Committed)
	numOpt(c, "accepted_generation", &v.AcceptedGeneration)
	listIf(c, "replicas", &v.Replicas, func(c *coder, r *ViewReplica) { r.fields(c) })
}

func (a *ViewAssignment) fields(c *coder) {
	num(c, "generation", &a.Generation)
	c.str("leader", &a.Leader)
	c.strings("replicas", &a.Replicas)
	c.booleanIf("draining", &a.Draining)
	c.strIf("successor", &a.Successor)
}

func (f *ViewFence) fields(c *coder) {
	c.strings("took", &f.Took)
	c.strings("pending", &f.Pending)
	num(c, "attempts", &f.Attempts)
	numOpt(c, "retry_in_ms", &f.RetryInMillis)
}

func (l *ViewLease) fields(c *coder) {
	c.boolean("held", &l.Held)
	num(c, "remaining_ms", &l.RemainingMillis)
}

func (r *ViewReplica) fields(c *coder) {
	c.str("node_id", &r.NodeID)
	c.str("role", &r.Role)
	numOpt(c, "next_offset", &r.NextOffset)
	numOpt(c, "lag", &r.Lag)
	c.booleanOpt("fence", &r.Fence)
	c.str("state", &r.State)
	c.strIf("halted", &r.Halted)
}

// SubscriptionsList asks for a page of the server's subscriptions. Client to server; answered by SubscriptionsListInfo.
type SubscriptionsList struct {
	RequestID uint64
	Filter    Opt[SubscriptionFilter]
	// Limit is the size of the page; 0, and left out, is the server's default.
	Limit  uint32
	Cursor Opt[SubscriptionCursor]
}

// SubscriptionFilter keeps what is equal in every field that is there.
type SubscriptionFilter struct {
	TenantID  Opt[string]
	Namespace Opt[string]
	Stream    Opt[string]
	Shard     Opt[uint32]
	Principal Opt[string]
	// Dropping, if it is true, keeps only those that have dropped events.
	Dropping Opt[bool]
}

// SubscriptionCursor is where a page ended.
type SubscriptionCursor struct {
	StreamScope
	Shard        uint32
	SubscriberID uint64
}

func (*SubscriptionsList) kind() string { return "subscriptions_list" }

func (m *SubscriptionsList) code(c *coder) {
	num(c, "request_id", &m.RequestID)
	if c.present("filter", &m.Filter.Set) {
		c.object("filter", m.Filter.Value.fields)
	}
	numIf(c, "limit", &m.Limit)
	if c.present("cursor", &m.Cursor.Set) {
		c.object("cursor", m.Cursor.Value.fields)
	}
}

func (f *SubscriptionFilter) fields(c *coder) {
	c.strOpt("tenant_id", &f.TenantID)
	c.strOpt("namespace", &f.Namespace)
	c.strOpt("stream", &f.Stream)
	numOpt(c, "shard", &f.Shard)
	c.strOpt("principal", &f.Principal)
	c.booleanOpt("dropping", &f.Dropping)
}

func (s *SubscriptionCursor) fields(c *coder) {
	s.scope(c)
	num(c, "shard", &s.Shard)
	num(c, "subscriber_id", &s.SubscriberID)
}

// SubscriptionsListInfo answers a SubscriptionsList. Server to client.
type SubscriptionsListInfo struct {
	RequestID     uint64
	NodeID        string
	Subscriptions []SubscriptionView
	// NextCursor is there if there is more.
	NextCursor Opt[SubscriptionCursor]
}

// SubscriptionView is one subscription.
type SubscriptionView struct {
	StreamScope
	Shard          uint32
	SubscriberID   uint64
	SubscriptionID uint64
	Connection     Opt[uint64]
	// Peer and Principal are empty if they are not known.
	Peer      string
	Principal string
	// Policy is block, drop_new or drop_old.
	Policy   string
	Depth    uint64
	Capacity uint64
	Dropped  uint64
	Position Opt[uint64]
	Tail     uint64
	// AgeMillis is how long ago the subscription began.
	AgeMillis uint64
}

func (*SubscriptionsListInfo) kind() string { return "subscriptions_list_info" }

func (m *SubscriptionsListInfo) code(c *coder) {
	num(c, "request_id", &m.RequestID)
	c.str("node_id", &m.NodeID)
	list(c, "subscriptions", &m.Subscriptions, func(c *coder, s *SubscriptionView) { s.fields(c) })
	if c.present("next_cursor", &m.NextCursor.Set) {
		c.object("next_cursor", m.NextCursor.Value.fields)
	}
}

func (s *SubscriptionView) fields(c *coder) {
	s.scope(c)
	num(c, "shard", &s.Shard)
	num(c, "subscriber_id", &s.SubscriberID)
	num(c, "subscription_id", &s.SubscriptionID)
	numOpt(c, "connection", &s.Connection)
	c.strIf("peer", &s.Peer)
	c.strIf("principal", &s.Principal)
	c.str("policy", &s.Policy)
	num(c, "depth", &s.Depth)
	num(c, "capacity", &s.Capacity)
	num(c, "dropped", &s.Dropped)
	numOpt(c, "position", &s.Position)
	num(c, "tail", &s.Tail)
	num(c, "age_ms", &s.AgeMillis)
}
