package wire

// Topology asks for the servers of the cluster. Client to server; answered by TopologyView.
type Topology struct{}

func (*Topology) kind() string { return "topology" }

func (*Topology) code(*coder) {}

// TopologyView lists servers with an address for clients. Server to client.
type TopologyView struct {
	Brokers []Broker
}

// Broker is one server.
type Broker struct {
	NodeID string
	// Addr is host:port; clients ignore one whose host is no IP address.
	Addr string
}

func (*TopologyView) kind() string { return "topology_view" }

func (m *TopologyView) code(c *coder) {
	list(c, "brokers", &m.Brokers, func(c *coder, b *Broker) {
		c.str("node_id", &b.NodeID)
		c.str("addr", &b.Addr)
	})
}

// StreamShards asks how many shards a stream has. Client to server; answered by StreamShardsView.
type StreamShards struct {
	StreamScope
	RequestID uint64
}

func (*StreamShards) kind() string { return "stream_shards" }

func (m *StreamShards) code(c *coder) {
	m.scope(c)
	num(c, "request_id", &m.RequestID)
}

// StreamShardsView answers StreamShards. Server to client.
type StreamShardsView struct {
	// Shards is 0 for a stream that is not known.
	Shards    uint32
	RequestID uint64
	// Routing is written only if it is not MappingModulo.
	Routing Mapping
}

func (*StreamShardsView) kind() string { return "stream_shards_view" }

func (m *StreamShardsView) code(c *coder) {
	num(c, "shards", &m.Shards)
	num(c, "request_id", &m.RequestID)
	var name string
	if c.encoding && m.Routing != MappingModulo {
		name = m.Routing.String()
	}
	wordIf(c, "routing", &name, mappingNames[:]...)
	if !c.encoding && name == mappingNames[MappingJumpHash] {
		m.Routing = MappingJumpHash
	}
}

// CacheShards asks how many shards a cache has. Client to server; answered by CacheShardsView.
type CacheShards struct {
	CacheScope
	RequestID uint64
}

func (*CacheShards) kind() string { return "cache_shards" }

func (m *CacheShards) code(c *coder) {
	m.scope(c)
	num(c, "request_id", &m.RequestID)
}

// CacheShardsView answers CacheShards. Server to client.
type CacheShardsView struct {
	// Shards is 0 for a cache that is not known.
	Shards    uint32
	RequestID uint64
}

func (*CacheShardsView) kind() string { return "cache_shards_view" }

func (m *CacheShardsView) code(c *coder) {
	num(c, "shards", &m.Shards)
	num(c, "request_id", &m.RequestID)
}

// ObjectKind says what a name names.
type ObjectKind string

// The kinds.
const (
	KindStream ObjectKind = "stream"
	KindCache  ObjectKind = "cache"
)

// ShardOwners asks who leads each shard of a stream or cache. Client to server; answered by ShardOwnersView.
type ShardOwners struct {
	TenantID  string
	Namespace string
	Name      string
	Kind      ObjectKind
	RequestID uint64
}

func (*ShardOwners) kind() string { return "shard_owners" }

func (m *ShardOwners) code(c *coder) {
	c.str("tenant_id", &m.TenantID)
	c.str("namespace", &m.Namespace)
	c.str("name", &m.Name)
	word(c, "kind", &m.Kind, KindStream, KindCache)
	num(c, "request_id", &m.RequestID)
}

// ShardOwnersView answers ShardOwners. Server to client.
type ShardOwnersView struct {
	// Owners has one entry a shard, in their order. None means that the name is not known.
	Owners    []ShardOwner
	RequestID uint64
}

// ShardOwner is one shard and who leads it.
type ShardOwner struct {
	Shard uint32
	// NodeID is empty when nobody can serve the shard, or outside a cluster.
	NodeID string
	// Addr is the owner's host:port for clients, empty if it has told none.
	Addr string
	// Generation is 0 outside a cluster.
	Generation uint64
	// Unavailable is a reason of CodeShardUnavailable, when nobody can serve the shard.
	Unavailable string
}

func (*ShardOwnersView) kind() string { return "shard_owners_view" }

func (m *ShardOwnersView) code(c *coder) {
	list(c, "owners", &m.Owners, func(c *coder, o *ShardOwner) {
		num(c, "shard", &o.Shard)
		c.strIf("node_id", &o.NodeID)
		c.strIf("addr", &o.Addr)
		num(c, "generation", &o.Generation)
		c.strIf("unavailable", &o.Unavailable)
	})
	num(c, "request_id", &m.RequestID)
}

// NotLeader sends a client that offered FeatureRedirect to the shard's owner. It names no request. Server to client. An owner without an
// address is one that the cluster has not been told of. Source: spec/felix-wire.md 4.3.
type NotLeader struct {
	Owner
}

func (*NotLeader) kind() string { return "not_leader" }

func (m *NotLeader) code(c *coder) {
	c.str("node_id", &m.NodeID)
	c.strIf("addr", &m.Addr)
	num(c, "generation", &m.Generation)
}
