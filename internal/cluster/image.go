package cluster

import (
	"cmp"
	"slices"

	"github.com/felixlog/felix/internal/ids"
)

// Image is one immutable version of the cluster's metadata. All methods may run concurrently.
type Image struct {
	version    uint64
	clusterID  string
	nodes      []Node          // by Broker
	tenants    []*Tenant       // by Name
	namespaces []*Namespace    // by (Tenant, Name)
	quotas     []*TenantQuotas // by tenant; none is empty
	byName     index
	byID       index
	sorted     sortedTopics
	partitions int // over all topics
	overrides  int // bytes of their Overrides, over all topics

	caches    ordered[*Cache]
	policies  ordered[*Policy]
	groupings ordered[*Grouping]
	ruleBytes int  // of all policies and groupings
	paused    bool // placement is

	// deleted are the ids of the topics deleted last, the oldest first, at most MaxRemembered. Shared, never appended to in place.
	deleted []ids.TopicID

	nextBroker     ids.BrokerID
	nextProducerID int64
	tenantsDeleted uint64

	defaults *TopicConfig // this node's; not replicated
}

// FirstBroker is the number that the first registered node gets.
const FirstBroker ids.BrokerID = 1

// NewImage returns the empty image, version 0. defaults is what topics without overrides are configured as on this node; nil means
// DefaultTopicConfig().
func NewImage(defaults *TopicConfig) *Image {
	if defaults == nil {
		defaults = DefaultTopicConfig()
	}
	return &Image{nextBroker: FirstBroker, defaults: defaults}
}

// Version counts the applied commands that changed or could have changed something. It only rises.
func (m *Image) Version() uint64 { return m.version }

// ClusterID is the one id of the whole cluster, "" before bootstrap.
func (m *Image) ClusterID() string { return m.clusterID }

// Defaults is the configuration of a topic that overrides nothing, on this node.
func (m *Image) Defaults() *TopicConfig { return m.defaults }

// Controller is a live broker that takes administrative requests: the live one with the lowest number, NoBroker when none is live.
func (m *Image) Controller() ids.BrokerID {
	for i := range m.nodes {
		if m.nodes[i].Live {
			return m.nodes[i].Broker
		}
	}
	return ids.NoBroker
}

// Nodes returns all registered nodes, sorted by broker number. The slice is shared: do not write to it.
func (m *Image) Nodes() []Node { return m.nodes }

// Node returns the node with a broker number.
func (m *Image) Node(b ids.BrokerID) (Node, bool) {
	i, ok := slices.BinarySearchFunc(m.nodes, b, func(n Node, b ids.BrokerID) int { return cmp.Compare(n.Broker, b) })
	if !ok {
		return Node{}, false
	}
	return m.nodes[i], true
}

// NodeByID returns the node with a node id.
func (m *Image) NodeByID(id ids.NodeID) (Node, bool) {
	for i := range m.nodes {
		if m.nodes[i].ID == id {
			return m.nodes[i], true
		}
	}
	return Node{}, false
}

// NextProducerID is the first producer id that was not handed out yet.
func (m *Image) NextProducerID() int64 { return m.nextProducerID }

// NextBroker is the number that the next new node will get.
func (m *Image) NextBroker() ids.BrokerID { return m.nextBroker }

// Tenant returns a tenant by name, nil if there is none.
func (m *Image) Tenant(name string) *Tenant {
	i, ok := slices.BinarySearchFunc(m.tenants, name, func(t *Tenant, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return m.tenants[i]
}

// Tenants returns all tenants, sorted by name. Shared: do not write to it.
func (m *Image) Tenants() []*Tenant { return m.tenants }

// TenantsDeleted is the version at which a tenant was deleted last, 0 before the first time.
func (m *Image) TenantsDeleted() uint64 { return m.tenantsDeleted }

// HasTenant reports whether a tenant that was known once is there still, and not another one of its name. It does not allocate.
func (m *Image) HasTenant(name string, incarnation uint64) bool {
	t := m.Tenant(name)
	return t != nil && t.Incarnation == incarnation
}

// Namespace returns a namespace, nil if there is none.
func (m *Image) Namespace(tenant, name string) *Namespace {
	i, ok := m.findNamespace(tenant, name)
	if !ok {
		return nil
	}
	return m.namespaces[i]
}

func (m *Image) findNamespace(tenant, name string) (int, bool) {
	return slices.BinarySearchFunc(m.namespaces, Namespace{Tenant: tenant, Name: name}, func(n *Namespace, k Namespace) int {
		if c := cmp.Compare(n.Tenant, k.Tenant); c != 0 {
			return c
		}
		return cmp.Compare(n.Name, k.Name)
	})
}

// Namespaces returns the namespaces of a tenant, sorted by name. Shared: do not write to it.
func (m *Image) Namespaces(tenant string) []*Namespace {
	i, _ := m.findNamespace(tenant, "")
	j, _ := m.findNamespace(tenant+"\x00", "") // no name lies between a tenant's and the same with NUL behind it
	return m.namespaces[i:j:j]
}

// Topic returns a topic by name, nil if there is none. It does not allocate.
func (m *Image) Topic(tenant, namespace, name string) *Topic {
	for _, t := range m.byName.bucket(hashName(tenant, namespace, name)) {
		if t.Name == name && t.Namespace == namespace && t.Tenant == tenant {
			return t
		}
	}
	return nil
}

// TopicByID returns a topic by id, nil if there is none. It does not allocate.
func (m *Image) TopicByID(id ids.TopicID) *Topic {
	for _, t := range m.byID.bucket(hashID(id)) {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// WasDeleted reports whether id was a topic that was deleted, as far as that is remembered: the last MaxRemembered deletions.
func (m *Image) WasDeleted(id ids.TopicID) bool { return slices.Contains(m.deleted, id) }

// Deleted returns the remembered deletions, the oldest first. Shared: do not write to it.
func (m *Image) Deleted() []ids.TopicID { return m.deleted }

// PlacementPaused says that the control plane leaves every shard where it is.
func (m *Image) PlacementPaused() bool { return m.paused }

// TopicCount is the number of topics over all tenants.
func (m *Image) TopicCount() int { return m.byID.n }

// PartitionCount is the number of partitions over all topics.
func (m *Image) PartitionCount() int { return m.partitions }

// NamespaceCount is the number of namespaces over all tenants.
func (m *Image) NamespaceCount() int { return len(m.namespaces) }

// OverrideBytes is the size of the configurations that are set on topics, over all of them.
func (m *Image) OverrideBytes() int { return m.overrides }

// EachTopic calls yield for every topic of every tenant, in no particular order, until it returns false. Cheaper than a listing.
func (m *Image) EachTopic(yield func(*Topic) bool) { m.byID.each(yield) }

// TopicsOf calls yield for every topic of a tenant, sorted by (namespace, name), until it returns false.
func (m *Image) TopicsOf(tenant string, yield func(*Topic) bool) {
	m.sorted.from(topicKey{tenant: tenant}, func(t *Topic) bool { return t.Tenant == tenant && yield(t) })
}

// TopicsBehind calls yield for every topic of every tenant, sorted by (tenant, namespace, name), that follows a key, until it returns
// false. Nothing has to have the key. Finding the first one takes as long as a look-up does.
func (m *Image) TopicsBehind(tenant, namespace, name string, yield func(*Topic) bool) {
	m.sorted.from(topicKey{tenant, namespace, name}, func(t *Topic) bool {
		return t.Name == name && t.Namespace == namespace && t.Tenant == tenant || yield(t)
	})
}

// SortedTopics returns every topic sorted by (tenant, namespace, name), in a slice made for the caller: for whoever needs all of them.
func (m *Image) SortedTopics() []*Topic {
	all := make([]*Topic, 0, m.byName.n)
	m.sorted.from(topicKey{}, func(t *Topic) bool { all = append(all, t); return true })
	return all
}
