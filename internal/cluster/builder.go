package cluster

import (
	"cmp"
	"maps"
	"slices"

	"github.com/felixlog/felix/internal/ids"
)

// Builder makes the next version of an image. It is used by one goroutine and is spent after Build. What it is given (topics, nodes,
// slices in them) belongs to the image from then on and must not be written again.
type Builder struct {
	owner *owner
	base  *Image
	m     *Image

	ownTenants    bool            // m.tenants is not shared with base
	ownNamespaces bool            // m.namespaces is not shared with base
	ownQuotas     map[string]bool // tenants whose quotas are not shared with base; nil while m.quotas itself is
}

// NewBuilder starts from base, which stays as it is.
func NewBuilder(base *Image) *Builder {
	return &Builder{owner: new(owner), base: base, m: &Image{
		version: base.version, clusterID: base.clusterID,
		nodes: base.nodes, tenants: base.tenants, namespaces: base.namespaces, quotas: base.quotas,
		byName: base.byName, byID: base.byID, sorted: base.sorted, partitions: base.partitions, overrides: base.overrides,
		caches: base.caches, policies: base.policies, groupings: base.groupings, ruleBytes: base.ruleBytes, paused: base.paused,
		deleted: base.deleted, nextBroker: base.nextBroker, nextProducerID: base.nextProducerID,
		tenantsDeleted: base.tenantsDeleted, defaults: base.defaults,
	}}
}

// Current is the image as built so far, for looking things up while building. Do not keep it, and do not change what is being listed.
func (b *Builder) Current() *Image { return b.m }

// Build ends the builder and returns the image, as version v.
func (b *Builder) Build(v uint64) *Image {
	m := b.m
	m.version = v
	b.m, b.base, b.owner = nil, nil, nil
	return m
}

// SetClusterID names the cluster.
func (b *Builder) SetClusterID(id string) { b.m.clusterID = id }

// SetNextBroker sets the number for the next new node.
func (b *Builder) SetNextBroker(n ids.BrokerID) { b.m.nextBroker = n }

// SetPlacementPaused says whether placement is paused.
func (b *Builder) SetPlacementPaused(paused bool) { b.m.paused = paused }

// SetNextProducerID sets the first producer id not handed out.
func (b *Builder) SetNextProducerID(id int64) { b.m.nextProducerID = id }

// PutNode adds a node or replaces the one with the same broker number.
func (b *Builder) PutNode(n Node) {
	nodes := slices.Clone(b.m.nodes)
	i, ok := slices.BinarySearchFunc(nodes, n.Broker, func(n Node, id ids.BrokerID) int { return cmp.Compare(n.Broker, id) })
	if ok {
		nodes[i] = n
	} else {
		nodes = slices.Insert(nodes, i, n)
	}
	b.m.nodes = nodes
}

// SetTenantsDeleted notes the version at which a tenant was deleted last.
func (b *Builder) SetTenantsDeleted(v uint64) { b.m.tenantsDeleted = v }

// PutTenant adds a tenant or replaces the one of the same name.
func (b *Builder) PutTenant(t Tenant) {
	b.writeTenants()
	i, ok := b.findTenant(t.Name)
	if ok {
		b.m.tenants[i] = &t
		return
	}
	b.m.tenants = slices.Insert(b.m.tenants, i, &t)
}

func (b *Builder) findTenant(name string) (int, bool) {
	return slices.BinarySearchFunc(b.m.tenants, name, func(t *Tenant, name string) int { return cmp.Compare(t.Name, name) })
}

func (b *Builder) writeTenants() {
	if !b.ownTenants {
		b.m.tenants, b.ownTenants = slices.Clone(b.m.tenants), true
	}
}

// PutNamespace adds a namespace; one that exists is left alone.
func (b *Builder) PutNamespace(n Namespace) {
	i, ok := b.m.findNamespace(n.Tenant, n.Name)
	if ok {
		return
	}
	if t := b.m.Tenant(n.Tenant); t != nil {
		n.Tenant = t.Name // one copy of the text
	}
	if !b.ownNamespaces {
		b.m.namespaces, b.ownNamespaces = slices.Clone(b.m.namespaces), true
	}
	b.m.namespaces = slices.Insert(b.m.namespaces, i, &n)
}

// DeleteNamespace removes a namespace with its caches. Its topics must be gone.
func (b *Builder) DeleteNamespace(tenant, name string) {
	i, ok := b.m.findNamespace(tenant, name)
	if !ok {
		return
	}
	if !b.ownNamespaces {
		b.m.namespaces, b.ownNamespaces = slices.Clone(b.m.namespaces), true
	}
	b.m.namespaces = slices.Delete(b.m.namespaces, i, i+1)
	b.deleteCaches(tenant, name)
}

// DeleteTenant removes a tenant with its namespaces, caches, access rules and client quotas. Its topics must be gone.
func (b *Builder) DeleteTenant(name string) {
	i, ok := b.findTenant(name)
	if !ok {
		return
	}
	b.writeTenants()
	b.m.tenants = slices.Delete(b.m.tenants, i, i+1)
	b.m.namespaces = slices.DeleteFunc(slices.Clone(b.m.namespaces), func(n *Namespace) bool { return n.Tenant == name })
	b.ownNamespaces = true
	b.deleteCaches(name, "")
	b.deleteRules(name)
	if i, ok := b.m.findQuotas(name); ok {
		if b.ownQuotas == nil {
			b.ownQuotas = map[string]bool{}
		}
		b.m.quotas = slices.Delete(slices.Clone(b.m.quotas), i, i+1)
		delete(b.ownQuotas, name)
	}
}

// PutTopic adds a topic or replaces the one with the same id, whose names must be the same. It fills Config from Overrides.
func (b *Builder) PutTopic(t *Topic) error {
	if len(t.Overrides) == 0 {
		t.Overrides, t.Config = nil, b.m.defaults
	} else {
		c, err := ParseTopicConfig(t.Overrides, b.m.defaults)
		if err != nil {
			return err
		}
		t.Config = c
	}
	if ns := b.m.Namespace(t.Tenant, t.Namespace); ns != nil {
		t.Tenant, t.Namespace = ns.Tenant, ns.Name
	}
	old := b.m.TopicByID(t.ID)
	b.replace(old, t)
	return nil
}

// ReplaceTopic puts t in place of old, which Current has, where only partitions differ: the configuration is taken over as it is.
func (b *Builder) ReplaceTopic(old, t *Topic) { b.replace(old, t) }

// DeleteTopic removes a topic that Current has. Call Remember for those that clients deleted.
func (b *Builder) DeleteTopic(t *Topic) { b.replace(t, nil) }

// Remember notes deleted topic ids, in order, so that a node that was away removes their files. The oldest beyond MaxRemembered
// are forgotten.
func (b *Builder) Remember(deleted []ids.TopicID) {
	all := slices.Concat(b.m.deleted, deleted)
	if n := len(all) - MaxRemembered; n > 0 {
		all = slices.Clone(all[n:])
	}
	b.m.deleted = all
}

func (b *Builder) replace(old, t *Topic) {
	key := t
	if key == nil {
		key = old
	}
	b.m.byID.replace(b.owner, hashID(key.ID), old, t)
	b.m.byName.replace(b.owner, hashName(key.Tenant, key.Namespace, key.Name), old, t)
	if t == nil {
		b.m.sorted.remove(b.owner, old)
	} else {
		b.m.sorted.put(b.owner, t)
	}
	if old != nil {
		b.m.partitions -= len(old.Partitions)
		b.m.overrides -= OverrideBytes(old.Overrides)
	}
	if t != nil {
		b.m.partitions += len(t.Partitions)
		b.m.overrides += OverrideBytes(t.Overrides)
	}
}

// OverrideBytes is what the configurations of one topic count for MaxOverrideBytes.
func OverrideBytes(overrides map[string]string) int {
	n := 0
	for name, value := range overrides {
		n += len(name) + len(value)
	}
	return n
}

// Clone returns a copy of t whose top-level fields and Overrides may be written until it is given to a Builder. Partitions is
// still shared: replace it, do not write into it.
func (t *Topic) Clone() *Topic {
	c := *t
	c.Overrides = maps.Clone(t.Overrides)
	return &c
}
