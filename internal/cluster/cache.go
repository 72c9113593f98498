package cluster

import (
	"iter"
	"slices"
	"strings"

	"github.com/felixlog/felix/internal/ids"
)

// Limits of caches. The state machine enforces them.
const (
	MaxCaches          = 100_000 // in the whole cluster
	MaxCreateResources = 256     // streams and caches of one command
	MaxCacheTitle      = 256     // bytes of the name that people are shown for a cache
)

// Cache is one incarnation of a registered cache. Immutable. Its shards have no place yet: nothing serves them so far.
type Cache struct {
	ID        ids.TopicID
	Tenant    string
	Namespace string
	Name      string

	DisplayName       string
	Shards            int32
	ReplicationFactor int16
	Consistency       Consistency // of puts, deletes and counter adds; never ConsistencyDefault
}

// FullName is "namespace/name", for errors.
func (c *Cache) FullName() string { return c.Namespace + "/" + c.Name }

func (c *Cache) compareKey(o *Cache) int {
	return compareNames(c.Tenant, o.Tenant, c.Namespace, o.Namespace, c.Name, o.Name)
}

// compareNames compares pairs of names, the first pair first.
func compareNames(pairs ...string) int {
	for i := 0; i+1 < len(pairs); i += 2 {
		if c := strings.Compare(pairs[i], pairs[i+1]); c != 0 {
			return c
		}
	}
	return 0
}

// Cache returns a cache by name, nil if there is none.
func (m *Image) Cache(tenant, namespace, name string) *Cache {
	c, _ := m.caches.get(&Cache{Tenant: tenant, Namespace: namespace, Name: name})
	return c
}

// CachesAfter iterates over the caches of a namespace whose names are behind one, sorted by name.
func (m *Image) CachesAfter(tenant, namespace, name string) iter.Seq[*Cache] {
	return takeUntil(m.caches.from(&Cache{Tenant: tenant, Namespace: namespace, Name: name}, false), func(c *Cache) bool {
		return c.Tenant == tenant && c.Namespace == namespace
	})
}

// Caches iterates over the caches of all tenants, sorted by tenant, namespace and name.
func (m *Image) Caches() iter.Seq[*Cache] { return m.caches.each() }

// CacheCount is the number of caches over all tenants.
func (m *Image) CacheCount() int { return m.caches.n }

// PutCache adds a cache or replaces the one of the same name.
func (b *Builder) PutCache(c *Cache) {
	if ns := b.m.Namespace(c.Tenant, c.Namespace); ns != nil {
		c.Tenant, c.Namespace = ns.Tenant, ns.Name // one copy of the texts
	}
	b.m.caches.put(b.owner, c)
}

// DeleteCache removes a cache that Current has.
func (b *Builder) DeleteCache(c *Cache) { b.m.caches.remove(b.owner, c) }

// deleteCaches removes the caches of a namespace; with none named, those of the tenant.
func (b *Builder) deleteCaches(tenant, namespace string) {
	gone := slices.Collect(takeUntil(b.m.caches.from(&Cache{Tenant: tenant, Namespace: namespace}, true), func(c *Cache) bool {
		return c.Tenant == tenant && (namespace == "" || c.Namespace == namespace)
	}))
	for _, c := range gone {
		b.DeleteCache(c)
	}
}

// NewCache is one cache to register.
type NewCache struct {
	TopicRef // ID: drawn by the proposer. The tenant and the namespace must exist

	DisplayName       string
	Shards            int32       // 1 to MaxStreamShards, fixed for life
	ReplicationFactor int16       // 1 to MaxStreamReplicas, leader included, fixed for life
	Consistency       Consistency // ConsistencyDefault: Leader
}

// CreateResources makes streams and caches, all or none, as CreateStreams does. The result has an item for each stream and behind them one
// for each cache.
type CreateResources struct {
	Streams []NewStream
	Caches  []NewCache // at most MaxCreateResources together
}

// UpdateCache changes one cache. A nil field stays as it is.
type UpdateCache struct {
	Tenant, Namespace, Name string
	DisplayName             *string
}

// DeleteCache removes the incarnation of a cache.
type DeleteCache struct {
	Tenant, Namespace, Name string
	ID                      ids.TopicID
}

func (CreateResources) command() {}
func (UpdateCache) command()     {}
func (DeleteCache) command()     {}
