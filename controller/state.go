package controller

import (
	"errors"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// Limits of commands about producer ids. Kafka's producer ids stay below bit 62, which marks native ones.
const (
	maxProducerIDBlock = 1_000_000
	endProducerIDs     = int64(1) << 62
)

// state is the state machine: an image, and what helps to build the next one. apply is its only writer; one goroutine at a time.
type state struct {
	image *cluster.Image
	sets  replicaSets
}

func newState(image *cluster.Image) *state { return &state{image: image} }

// apply carries out cmd as the command at position and moves to the next image. Refusals are in the result; nothing of a refused
// command or item takes effect. It is a pure function of the state and the command.
func (s *state) apply(position uint64, cmd cluster.Command) cluster.Result {
	b := cluster.NewBuilder(s.image)
	var res cluster.Result
	if g, ok := cmd.(cluster.Guarded); !ok {
		b, res = s.carryOut(b, position, cmd)
	} else if s.image.HasTenant(g.Tenant, g.Incarnation) {
		b, res = s.carryOut(b, position, g.Command)
		if err := checkShare(s.image, b.Current(), g.Tenant); err != nil {
			b, res = cluster.NewBuilder(s.image), cluster.Result{Err: err}
		}
	} else {
		res = refused(errcode.ResourceNotFound, "tenant %.64q does not exist any more", g.Tenant)
	}
	s.image = b.Build(position)
	res.Version = position
	return res
}

// carryOut does what a command says, and returns the builder to go on with. A guard has no place inside a guard.
func (s *state) carryOut(b *cluster.Builder, position uint64, cmd cluster.Command) (*cluster.Builder, cluster.Result) {
	var res cluster.Result
	switch c := cmd.(type) {
	case cluster.Bootstrap:
		res.Err = applyBootstrap(b, c)
	case cluster.RegisterNode:
		res = applyRegisterNode(b, c)
	case cluster.CreateTenant:
		res = applyCreateTenant(b, c)
	case cluster.CreateNamespace:
		res = applyCreateNamespace(b, c)
	case cluster.CreateTopics:
		res.Items = s.createTopics(b, c.Topics)
	case cluster.DeleteTopics:
		res.Items = deleteTopics(b, c.Topics)
	case cluster.CreatePartitions:
		res.Items = s.createPartitions(b, c.Topics)
	case cluster.SetTopicConfigs:
		res.Items = setTopicConfigs(b, c.Topics)
	case cluster.AllocateProducerIDs:
		res = applyAllocateProducerIDs(b, c)
	case cluster.SetClientQuotas:
		res.Items = setClientQuotas(b, c.Changes)
	case cluster.CreateStreams:
		b, res = s.createStreams(b, c.Streams)
	case cluster.UpdateStream:
		res.Items = []cluster.ItemResult{updateStream(b, &c)}
	case cluster.DeleteNamespace:
		res.Err = s.deleteNamespace(b, c)
	case cluster.DeleteTenant:
		res.Err = s.deleteTenant(b, c, position)
	case cluster.InitializeTenant:
		b, res.Err = s.initializeTenant(b, c)
	case cluster.PutSigningKey:
		res = putSigningKey(b, c)
	case cluster.ActivateSigningKey:
		res.Err = activateSigningKey(b, c)
	case cluster.RetireSigningKey:
		res.Err = retireSigningKey(b, c)
	case cluster.CreateResources:
		b, res = s.createResources(b, c)
	case cluster.UpdateCache:
		res.Items = []cluster.ItemResult{updateCache(b, c)}
	case cluster.DeleteCache:
		res.Err = deleteCache(b, c)
	case cluster.PutPolicy:
		res = putPolicy(b, c.Policy)
	case cluster.DeletePolicy:
		res.Err = deletePolicy(b, c.Policy)
	case cluster.PutGrouping:
		res = putGrouping(b, c.Grouping)
	case cluster.DeleteGrouping:
		res.Err = deleteGrouping(b, c.Grouping)
	case cluster.PausePlacement:
		res = pausePlacement(b, c.Paused)
	default:
		res.Err = errcode.Newf(errcode.Internal, "controller: unknown command %T", cmd)
	}
	return b, res
}

func applyBootstrap(b *cluster.Builder, c cluster.Bootstrap) error {
	if b.Current().ClusterID() != "" {
		return nil
	}
	if c.ClusterID == "" {
		return errcode.Newf(errcode.InvalidRequest, "the cluster id is empty")
	}
	if err := cluster.ValidateName("tenant", c.Tenant); err != nil {
		return err
	}
	if err := cluster.ValidateName("namespace", c.Namespace); err != nil {
		return err
	}
	b.SetClusterID(c.ClusterID)
	b.PutTenant(cluster.Tenant{Name: c.Tenant})
	b.PutNamespace(cluster.Namespace{Tenant: c.Tenant, Name: c.Namespace})
	return nil
}

func applyRegisterNode(b *cluster.Builder, c cluster.RegisterNode) cluster.Result {
	switch {
	case c.ID == "" || len(c.ID) > cluster.MaxNameLength:
		return refused(errcode.InvalidRequest, "a node id has 1 to %d characters", cluster.MaxNameLength)
	case c.KafkaPort < 0 || c.KafkaPort > 65535:
		return refused(errcode.InvalidRequest, "node %s: port %d does not exist", c.ID, c.KafkaPort)
	}
	n, known := b.Current().NodeByID(c.ID)
	if !known {
		n = cluster.Node{ID: c.ID, Broker: b.Current().NextBroker()}
		b.SetNextBroker(n.Broker + 1)
	}
	n.KafkaHost, n.KafkaPort, n.Rack = c.KafkaHost, c.KafkaPort, c.Rack
	n.Incarnation++
	n.Live = true
	b.PutNode(n)
	if known && !c.Clean {
		raiseEpochs(b, n.Broker)
	}
	return cluster.Result{Node: n}
}

// raiseEpochs gives every shard that broker leads a new leader epoch: what it served before an unclean stop may not all be there
// again, so what clients and followers remember of the old leadership must not be taken for the new one.
func raiseEpochs(b *cluster.Builder, broker ids.BrokerID) {
	// The topics are collected first: the index is not walked while it changes.
	var led []*cluster.Topic
	b.Current().EachTopic(func(t *cluster.Topic) bool {
		for i := range t.Partitions {
			if t.Partitions[i].Leader == broker {
				led = append(led, t)
				break
			}
		}
		return true
	})
	for _, t := range led {
		next := *t
		next.Partitions = append([]cluster.Partition(nil), t.Partitions...)
		for i := range next.Partitions {
			if next.Partitions[i].Leader == broker {
				next.Partitions[i].Epoch++
			}
		}
		b.ReplaceTopic(t, &next)
	}
}

func applyCreateTenant(b *cluster.Builder, c cluster.CreateTenant) cluster.Result {
	if err := cluster.ValidateName("tenant", c.Name); err != nil {
		return cluster.Result{Err: err}
	}
	if t := b.Current().Tenant(c.Name); t != nil {
		if t.DisplayName != c.DisplayName {
			return cluster.Result{Err: cluster.Conflictf(cluster.ConflictExists, "tenant %s exists with another display name", c.Name)}
		}
		return cluster.Result{Unchanged: true}
	}
	if err := checkDisplayName(c.DisplayName); err != nil {
		return cluster.Result{Err: err}
	}
	if n := len(b.Current().Tenants()); n >= cluster.MaxTenants {
		return refused(errcode.PolicyViolation, "the cluster has %d tenants, which is as many as it may have: delete one first", n)
	}
	t := cluster.Tenant{Name: c.Name, DisplayName: c.DisplayName, Incarnation: b.Current().TenantsDeleted()}
	if !c.Key.IsZero() {
		if err := checkNewKey(c.Key); err != nil {
			return cluster.Result{Err: err}
		}
		t.Keys = []cluster.SigningKey{c.Key.Key(cluster.KeyCurrent)}
	}
	b.PutTenant(t)
	return cluster.Result{}
}

func applyCreateNamespace(b *cluster.Builder, c cluster.CreateNamespace) cluster.Result {
	if err := cluster.ValidateName("namespace", c.Name); err != nil {
		return cluster.Result{Err: err}
	}
	if b.Current().Tenant(c.Tenant) == nil {
		return refused(errcode.ResourceNotFound, "tenant %q does not exist", c.Tenant)
	}
	if b.Current().Namespace(c.Tenant, c.Name) != nil {
		return cluster.Result{Unchanged: true}
	}
	if err := errors.Join(checkDisplayName(c.DisplayName), checkNamespaces(b.Current())); err != nil {
		return cluster.Result{Err: err}
	}
	b.PutNamespace(cluster.Namespace(c))
	return cluster.Result{}
}

func checkDisplayName(name string) error {
	if len(name) > cluster.MaxDisplayNameLength {
		return errcode.Newf(errcode.InvalidRequest, "a display name has at most %d bytes", cluster.MaxDisplayNameLength)
	}
	return nil
}

// checkNamespaces refuses one namespace more than the cluster may have.
func checkNamespaces(m *cluster.Image) error {
	if n := m.NamespaceCount(); n >= cluster.MaxNamespaces {
		return errcode.Newf(errcode.PolicyViolation, "the cluster has %d namespaces, which is as many as it may have: delete one first", n)
	}
	return nil
}

// checkTopics refuses one topic more than the cluster may have.
func checkTopics(m *cluster.Image) error {
	if n := m.TopicCount(); n >= cluster.MaxTopics {
		return errcode.Newf(errcode.PolicyViolation, "the cluster has %d streams, which is as many as it may have: delete one first", n)
	}
	return nil
}

// checkOverrideBytes refuses configurations of one topic, in place of those that it has, for which the cluster has no room.
func checkOverrideBytes(m *cluster.Image, have, next map[string]string) error {
	total := m.OverrideBytes() - cluster.OverrideBytes(have) + cluster.OverrideBytes(next)
	if total > cluster.MaxOverrideBytes && total > m.OverrideBytes() {
		return errcode.Newf(errcode.PolicyViolation, "the configurations of all streams would take %d bytes, and %d is as many as are kept", total, cluster.MaxOverrideBytes)
	}
	return nil
}

func applyAllocateProducerIDs(b *cluster.Builder, c cluster.AllocateProducerIDs) cluster.Result {
	first := b.Current().NextProducerID()
	switch {
	case c.Count < 1 || c.Count > maxProducerIDBlock:
		return refused(errcode.InvalidRequest, "a block has 1 to %d producer ids, not %d", maxProducerIDBlock, c.Count)
	case first > endProducerIDs-int64(c.Count):
		return refused(errcode.Internal, "producer ids are used up")
	}
	b.SetNextProducerID(first + int64(c.Count))
	return cluster.Result{First: first}
}

func refused(k errcode.Kind, format string, args ...any) cluster.Result {
	return cluster.Result{Err: errcode.Newf(k, format, args...)}
}
