package controller

import "github.com/felixlog/felix/internal/cluster"

// resourceCommand writes the commands about caches, access rules and placement; false: cmd is none of them.
func (w *writer) resourceCommand(cmd cluster.Command) bool {
	switch c := cmd.(type) {
	case cluster.CreateResources:
		w.byte(kindCreateResources)
		w.count(len(c.Streams))
		for i := range c.Streams {
			w.newStream(&c.Streams[i])
		}
		w.count(len(c.Caches))
		for i := range c.Caches {
			w.newCache(&c.Caches[i])
		}
	case cluster.UpdateCache:
		w.byte(kindUpdateCache)
		w.text(c.Tenant)
		w.text(c.Namespace)
		w.text(c.Name)
		w.bool(c.DisplayName != nil)
		if c.DisplayName != nil {
			w.text(*c.DisplayName)
		}
	case cluster.DeleteCache:
		w.byte(kindDeleteCache)
		w.topicRef(&cluster.TopicRef{ID: c.ID, Tenant: c.Tenant, Namespace: c.Namespace, Name: c.Name})
	case cluster.PutPolicy:
		w.byte(kindPutPolicy)
		w.policy(c.Policy)
	case cluster.DeletePolicy:
		w.byte(kindDeletePolicy)
		w.policy(c.Policy)
	case cluster.PutGrouping:
		w.byte(kindPutGrouping)
		w.grouping(c.Grouping)
	case cluster.DeleteGrouping:
		w.byte(kindDeleteGrouping)
		w.grouping(c.Grouping)
	case cluster.PausePlacement:
		w.byte(kindPausePlacement)
		w.bool(c.Paused)
	default:
		return false
	}
	return true
}

// resourceCommand reads what the writer's wrote behind the kind; nil: the kind is none of them.
func (r *reader) resourceCommand(kind byte) cluster.Command {
	switch kind {
	case kindCreateResources:
		return r.createResources()
	case kindUpdateCache:
		c := cluster.UpdateCache{Tenant: r.text(), Namespace: r.text(), Name: r.text()}
		if r.bool() {
			name := r.text()
			c.DisplayName = &name
		}
		return c
	case kindDeleteCache:
		ref := r.topicRef()
		return cluster.DeleteCache{Tenant: ref.Tenant, Namespace: ref.Namespace, Name: ref.Name, ID: ref.ID}
	case kindPutPolicy:
		return cluster.PutPolicy{Policy: r.policy()}
	case kindDeletePolicy:
		return cluster.DeletePolicy{Policy: r.policy()}
	case kindPutGrouping:
		return cluster.PutGrouping{Grouping: r.grouping()}
	case kindDeleteGrouping:
		return cluster.DeleteGrouping{Grouping: r.grouping()}
	case kindPausePlacement:
		return cluster.PausePlacement{Paused: r.bool()}
	default:
		return nil
	}
}

// createResources: an empty list is none.
func (r *reader) createResources() cluster.Command {
	var c cluster.CreateResources
	if n := r.count(minNewStream); n > 0 {
		c.Streams = make([]cluster.NewStream, n)
	}
	for i := range c.Streams {
		c.Streams[i] = r.newStream()
	}
	if n := r.count(minNewCache); n > 0 {
		c.Caches = make([]cluster.NewCache, n)
	}
	for i := range c.Caches {
		c.Caches[i] = r.newCache()
	}
	return c
}
