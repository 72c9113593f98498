package controller

import (
	"maps"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// createStreams makes all streams of the list or none. It returns the builder to go on with: a fresh one when what b has is to be thrown
// away.
func (s *state) createStreams(b *cluster.Builder, list []cluster.NewStream) (*cluster.Builder, cluster.Result) {
	if n := len(list); n > cluster.MaxCreateStreams {
		return b, refused(errcode.InvalidRequest, "%d streams are asked for, at most %d are made at a time", n, cluster.MaxCreateStreams)
	}
	items := make([]cluster.ItemResult, len(list))
	for i := range list {
		items[i] = s.createStream(b, &list[i])
	}
	return s.allOrNone(b, items)
}

var errNotAttempted = errcode.New(errcode.OperationNotAttempted, "controller: not made, since another of the request cannot be made")

// createStream makes one stream. The order of the checks is the control API's: values, then existence, then state.
func (s *state) createStream(b *cluster.Builder, n *cluster.NewStream) cluster.ItemResult {
	if err := checkNewStream(n); err != nil {
		return cluster.ItemResult{Err: err}
	}
	m := b.Current()
	if m.Namespace(n.Tenant, n.Namespace) == nil {
		return cluster.ItemResult{Err: errcode.Newf(errcode.ResourceNotFound, "namespace %s does not exist", n.Namespace)}
	}
	if t := m.Topic(n.Tenant, n.Namespace, n.Name); t != nil {
		if !asAsked(t, n) {
			return cluster.ItemResult{Err: cluster.Conflictf(cluster.ConflictExists, "stream %s exists with another configuration", t.FullName())}
		}
		return cluster.ItemResult{Topic: t, Unchanged: true}
	}
	if n.ID.IsZero() || m.TopicByID(n.ID) != nil {
		// Ids are drawn at random by the proposer: this is a fault of ours, never of the client.
		return cluster.ItemResult{Err: errcode.Newf(errcode.Internal, "topic id %s is in use", n.ID)}
	}
	if err := checkTopics(m); err != nil {
		return cluster.ItemResult{Err: err}
	}
	overrides := map[string]string{}
	n.Retention.Apply(overrides)
	cluster.SetConsistency(overrides, streamConsistency(n.Consistency))
	partitions, err := s.placeStream(m, n)
	if err != nil {
		return cluster.ItemResult{Err: err}
	}
	t := &cluster.Topic{
		ID: n.ID, Tenant: n.Tenant, Namespace: n.Namespace, Name: n.Name, Durable: n.Durable,
		Kind: n.Kind, Delivery: n.Delivery, Routing: n.Routing, Region: n.Region,
		Overrides: overrides, Partitions: partitions,
	}
	if err := putTopic(b, t); err != nil {
		return cluster.ItemResult{Err: err}
	}
	return cluster.ItemResult{Topic: t}
}

func (s *state) placeStream(m *cluster.Image, n *cluster.NewStream) ([]cluster.Partition, error) {
	if err := checkPartitions(m, 0, int(n.Shards)); err != nil {
		return nil, err
	}
	return s.place(m, n.ID, 0, int(n.Shards), int(n.ReplicationFactor))
}

// streamConsistency: a native stream whose level nobody named has Leader, whatever its factor. The level is always an override, so that
// it never follows from the factor as that of a Kafka topic does.
func streamConsistency(c cluster.Consistency) cluster.Consistency {
	if c == cluster.ConsistencyDefault {
		return cluster.ConsistencyLeader
	}
	return c
}

func checkNewStream(n *cluster.NewStream) error {
	if err := cluster.ValidateName("namespace", n.Namespace); err != nil {
		return err
	}
	if err := cluster.ValidateStreamName(n.Namespace, n.Name); err != nil {
		return err
	}
	switch {
	case n.Shards < 1 || n.Shards > cluster.MaxStreamShards:
		return errcode.Newf(errcode.InvalidPartitions, "a stream has 1 to %d shards, not %d", cluster.MaxStreamShards, n.Shards)
	case n.ReplicationFactor < 1 || n.ReplicationFactor > cluster.MaxStreamReplicas:
		return errcode.Newf(errcode.InvalidReplicationFactor, "the replication factor is 1 to %d, not %d", cluster.MaxStreamReplicas, n.ReplicationFactor)
	case len(n.Region) > cluster.MaxNameLength:
		return errcode.Newf(errcode.InvalidRequest, "the name of a region has at most %d bytes", cluster.MaxNameLength)
	case n.Kind > cluster.KindQueue || n.Delivery > cluster.AtMostOnce || n.Routing > cluster.RoutingJumpHash || n.Consistency > cluster.ConsistencyQuorum:
		return errcode.Newf(errcode.Internal, "stream %.64q has a kind, delivery, routing or consistency that does not exist", n.Name)
	}
	return checkRetention(n.Retention)
}

func checkRetention(r cluster.Retention) error {
	if r.Ms < 0 || r.Bytes < 0 {
		return errcode.Newf(errcode.InvalidRequest, "a bound of retention is above 0")
	}
	return nil
}

// asAsked says that a stream is what a creation asks for. Routing counts only when the creation names it.
func asAsked(t *cluster.Topic, n *cluster.NewStream) bool {
	return !t.Internal && t.Kind == n.Kind && t.Delivery == n.Delivery && t.Durable == n.Durable && t.Region == n.Region &&
		len(t.Partitions) == int(n.Shards) && t.ReplicationFactor() == int(n.ReplicationFactor) &&
		t.Consistency == streamConsistency(n.Consistency) && t.Retention() == n.Retention && (n.AnyRouting || t.Routing == n.Routing)
}

func updateStream(b *cluster.Builder, c *cluster.UpdateStream) cluster.ItemResult {
	t, err := find(b.Current(), &c.Stream)
	if err != nil {
		return cluster.ItemResult{Err: err}
	}
	if c.Durable != nil && *c.Durable != t.Durable {
		return cluster.ItemResult{Err: cluster.Conflictf(cluster.ConflictDurabilityFixed,
			"whether stream %s is durable was decided when it was made: delete it and make it again", t.FullName())}
	}
	if c.Consistency > cluster.ConsistencyQuorum || c.Delivery != nil && *c.Delivery > cluster.AtMostOnce {
		return cluster.ItemResult{Err: errcode.Newf(errcode.Internal, "a consistency or delivery that does not exist")}
	}
	next := *t
	next.Overrides = maps.Clone(t.Overrides)
	if next.Overrides == nil {
		next.Overrides = map[string]string{}
	}
	if c.Retention != nil {
		if err := checkRetention(*c.Retention); err != nil {
			return cluster.ItemResult{Err: err}
		}
		c.Retention.Apply(next.Overrides)
	}
	if c.Consistency != cluster.ConsistencyDefault {
		cluster.SetConsistency(next.Overrides, c.Consistency)
	}
	if c.Delivery != nil {
		next.Delivery = *c.Delivery
	}
	if maps.Equal(next.Overrides, t.Overrides) && next.Delivery == t.Delivery {
		return cluster.ItemResult{Topic: t, Unchanged: true}
	}
	if next.Overrides, err = checkOverrides(next.Overrides); err != nil {
		return cluster.ItemResult{Err: err}
	}
	if err := putTopic(b, &next); err != nil {
		return cluster.ItemResult{Err: err}
	}
	return cluster.ItemResult{Topic: &next}
}

func (s *state) deleteNamespace(b *cluster.Builder, c cluster.DeleteNamespace) error {
	if b.Current().Namespace(c.Tenant, c.Name) == nil {
		return errcode.Newf(errcode.ResourceNotFound, "namespace %.64q does not exist", c.Name)
	}
	s.deleteAll(b, c.Tenant, func(t *cluster.Topic) bool { return t.Namespace == c.Name })
	b.DeleteNamespace(c.Tenant, c.Name)
	return nil
}

func (s *state) deleteTenant(b *cluster.Builder, c cluster.DeleteTenant, position uint64) error {
	if b.Current().Tenant(c.Name) == nil {
		return errcode.Newf(errcode.ResourceNotFound, "tenant %.64q does not exist", c.Name)
	}
	s.deleteAll(b, c.Name, func(*cluster.Topic) bool { return true })
	b.DeleteTenant(c.Name)
	// From here on a tenant of this name is another one: what the old one's sessions and groups are stamped with is below. A log of before
	// there were incarnations must come to what its snapshot says, in which every tenant has the incarnation 0.
	if !c.Uncounted {
		b.SetTenantsDeleted(position)
	}
	return nil
}

// deleteAll removes the streams of a tenant that which picks, in the order of their names, so that every member remembers the same.
func (s *state) deleteAll(b *cluster.Builder, tenant string, which func(*cluster.Topic) bool) {
	var gone []ids.TopicID
	s.image.TopicsOf(tenant, func(t *cluster.Topic) bool {
		if which(t) {
			b.DeleteTopic(t)
			gone = append(gone, t.ID)
		}
		return true
	})
	if len(gone) > 0 {
		b.Remember(gone)
	}
}
