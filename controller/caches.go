package controller

import (
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// createResources makes all streams and caches or none. It returns the builder to go on with, as createStreams does.
func (s *state) createResources(b *cluster.Builder, c cluster.CreateResources) (*cluster.Builder, cluster.Result) {
	if n := len(c.Streams) + len(c.Caches); n > cluster.MaxCreateResources {
		return b, refused(errcode.InvalidRequest, "%d streams and caches are asked for, at most %d are made at a time", n, cluster.MaxCreateResources)
	}
	items := make([]cluster.ItemResult, 0, len(c.Streams)+len(c.Caches))
	for i := range c.Streams {
		items = append(items, s.createStream(b, &c.Streams[i]))
	}
	for i := range c.Caches {
		items = append(items, createCache(b, &c.Caches[i]))
	}
	return s.allOrNone(b, items)
}

// allOrNone throws away what b has when an item failed.
func (s *state) allOrNone(b *cluster.Builder, items []cluster.ItemResult) (*cluster.Builder, cluster.Result) {
	failed := false
	for i := range items {
		failed = failed || items[i].Err != nil
	}
	if !failed {
		return b, cluster.Result{Items: items}
	}
	for i := range items {
		if items[i].Err == nil && !items[i].Unchanged {
			items[i] = cluster.ItemResult{Err: errNotAttempted}
		}
	}
	return cluster.NewBuilder(s.image), cluster.Result{Items: items}
}

// createCache registers one cache. The order of the checks is the control API's: values, then existence, then state.
func createCache(b *cluster.Builder, n *cluster.NewCache) cluster.ItemResult {
	if err := checkNewCache(n); err != nil {
		return cluster.ItemResult{Err: err}
	}
	m := b.Current()
	if m.Namespace(n.Tenant, n.Namespace) == nil {
		return cluster.ItemResult{Err: errcode.Newf(errcode.ResourceNotFound, "namespace %s does not exist", n.Namespace)}
	}
	next := &cluster.Cache{
		ID: n.ID, Tenant: n.Tenant, Namespace: n.Namespace, Name: n.Name, DisplayName: n.DisplayName,
		Shards: n.Shards, ReplicationFactor: n.ReplicationFactor, Consistency: streamConsistency(n.Consistency),
	}
	if have := m.Cache(n.Tenant, n.Namespace, n.Name); have != nil {
		next.ID = have.ID
		if *next != *have {
			return cluster.ItemResult{Err: cluster.Conflictf(cluster.ConflictExists, "cache %s exists with another configuration", have.FullName())}
		}
		return cluster.ItemResult{Cache: have, Unchanged: true}
	}
	if err := checkCacheRoom(m, n); err != nil {
		return cluster.ItemResult{Err: err}
	}
	b.PutCache(next)
	return cluster.ItemResult{Cache: next}
}

// checkCacheRoom looks at the state that a new cache meets. Its shards are not placed, but what could not be placed is refused as it is for
// a stream.
func checkCacheRoom(m *cluster.Image, n *cluster.NewCache) error {
	live := 0
	for _, node := range m.Nodes() {
		if node.Live {
			live++
		}
	}
	switch {
	case n.ID.IsZero():
		return errcode.Newf(errcode.Internal, "a cache has no id") // ids are drawn by the proposer: a fault of ours
	case int(n.ReplicationFactor) > live:
		return errcode.Newf(errcode.InvalidReplicationFactor, "the replication factor is %d, but the number of live brokers is %d", n.ReplicationFactor, live)
	case m.CacheCount() >= cluster.MaxCaches:
		return errcode.Newf(errcode.PolicyViolation, "the cluster has %d caches, which is as many as are kept", cluster.MaxCaches)
	}
	return nil
}

func checkNewCache(n *cluster.NewCache) error {
	if err := cluster.ValidateName("namespace", n.Namespace); err != nil {
		return err
	}
	if err := cluster.ValidateName("cache", n.Name); err != nil {
		return err
	}
	switch {
	case n.Shards < 1 || n.Shards > cluster.MaxStreamShards:
		return errcode.Newf(errcode.InvalidPartitions, "a cache has 1 to %d shards, not %d", cluster.MaxStreamShards, n.Shards)
	case n.ReplicationFactor < 1 || n.ReplicationFactor > cluster.MaxStreamReplicas:
		return errcode.Newf(errcode.InvalidReplicationFactor, "the replication factor is 1 to %d, not %d", cluster.MaxStreamReplicas, n.ReplicationFactor)
	case n.Consistency > cluster.ConsistencyQuorum:
		return errcode.Newf(errcode.Internal, "cache %.64q has a consistency that does not exist", n.Name)
	}
	return checkCacheTitle(n.DisplayName)
}

func checkCacheTitle(name string) error {
	if len(name) > cluster.MaxCacheTitle {
		return errcode.Newf(errcode.InvalidRequest, "a display name has at most %d bytes", cluster.MaxCacheTitle)
	}
	return nil
}

func updateCache(b *cluster.Builder, c cluster.UpdateCache) cluster.ItemResult {
	have, err := findCache(b.Current(), c.Tenant, c.Namespace, c.Name)
	if err != nil {
		return cluster.ItemResult{Err: err}
	}
	if c.DisplayName == nil || *c.DisplayName == have.DisplayName {
		return cluster.ItemResult{Cache: have, Unchanged: true}
	}
	if err := checkCacheTitle(*c.DisplayName); err != nil {
		return cluster.ItemResult{Err: err}
	}
	next := *have
	next.DisplayName = *c.DisplayName
	b.PutCache(&next)
	return cluster.ItemResult{Cache: &next}
}

// deleteCache removes one incarnation: a cache of the same name that somebody made meanwhile is another one.
func deleteCache(b *cluster.Builder, c cluster.DeleteCache) error {
	have, err := findCache(b.Current(), c.Tenant, c.Namespace, c.Name)
	switch {
	case err != nil:
		return err
	case have.ID != c.ID:
		return noCache(c.Namespace, c.Name)
	}
	b.DeleteCache(have)
	return nil
}

func findCache(m *cluster.Image, tenant, namespace, name string) (*cluster.Cache, error) {
	c := m.Cache(tenant, namespace, name)
	if c == nil {
		return nil, noCache(namespace, name)
	}
	return c, nil
}

func noCache(namespace, name string) error {
	return errcode.Newf(errcode.ResourceNotFound, "there is no cache %.64q in namespace %.64q", name, namespace)
}

// minNewCache is the fewest bytes that a new cache takes.
const minNewCache = minTopicRef + 1 + 1 + 1 + 1

func (w *writer) newCache(n *cluster.NewCache) {
	w.topicRef(&n.TopicRef)
	w.text(n.DisplayName)
	w.int(int64(n.Shards))
	w.int(int64(n.ReplicationFactor))
	w.byte(byte(n.Consistency))
}

func (r *reader) newCache() cluster.NewCache {
	return cluster.NewCache{
		TopicRef: r.topicRef(), DisplayName: r.text(), Shards: r.int32(), ReplicationFactor: r.int16(), Consistency: cluster.Consistency(r.byte()),
	}
}

// caches are stored as they would be registered.
func (w *writer) caches(m *cluster.Image) {
	w.count(m.CacheCount())
	for c := range m.Caches() {
		w.newCache(&cluster.NewCache{
			TopicRef:    cluster.TopicRef{ID: c.ID, Tenant: c.Tenant, Namespace: c.Namespace, Name: c.Name},
			DisplayName: c.DisplayName, Shards: c.Shards, ReplicationFactor: c.ReplicationFactor, Consistency: c.Consistency,
		})
	}
}

func (r *reader) caches(build *cluster.Builder) {
	for range r.count(minNewCache) {
		n := r.newCache()
		m := build.Current()
		switch {
		case r.err != nil:
			return
		case n.ID == (ids.TopicID{}) || n.Consistency == cluster.ConsistencyDefault || checkNewCache(&n) != nil || m.Namespace(n.Tenant, n.Namespace) == nil:
			r.fail("cache that cannot be")
			return
		case m.Cache(n.Tenant, n.Namespace, n.Name) != nil:
			r.fail("cache that is there twice")
			return
		}
		build.PutCache(&cluster.Cache{
			ID: n.ID, Tenant: n.Tenant, Namespace: n.Namespace, Name: n.Name, DisplayName: n.DisplayName,
			Shards: n.Shards, ReplicationFactor: n.ReplicationFactor, Consistency: n.Consistency,
		})
	}
}
