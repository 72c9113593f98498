package controller

import (
	"maps"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

func (s *state) createTopics(b *cluster.Builder, list []cluster.NewTopic) []cluster.ItemResult {
	items := make([]cluster.ItemResult, len(list))
	for i := range list {
		items[i].Topic, items[i].Err = s.createTopic(b, &list[i])
	}
	return items
}

// createTopic makes one topic. The checks are in the order of Kafka's controller, so that a request with several faults gets the
// same answer: name, existence, configuration, partitions, replicas.
func (s *state) createTopic(b *cluster.Builder, n *cluster.NewTopic) (*cluster.Topic, error) {
	if err := checkNewName(b.Current(), n); err != nil {
		return nil, err
	}
	if err := checkTopics(b.Current()); err != nil {
		return nil, err
	}
	overrides, err := checkOverrides(n.Overrides)
	if err != nil {
		return nil, err
	}
	t := &cluster.Topic{
		ID: n.ID, Tenant: n.Tenant, Namespace: n.Namespace, Name: n.Name,
		Durable: n.Durable, MadeByKafka: n.MadeByKafka, Internal: n.Internal, Overrides: overrides,
	}
	if len(n.Assignment) > 0 {
		t.Partitions, err = s.assigned(b.Current(), n.Assignment, 0)
	} else {
		t.Partitions, err = s.placed(b.Current(), n)
	}
	if err != nil {
		return nil, err
	}
	if n.CreateNamespace && b.Current().Namespace(n.Tenant, n.Namespace) == nil {
		if err := checkNamespaces(b.Current()); err != nil {
			return nil, err
		}
		b.PutNamespace(cluster.Namespace{Tenant: n.Tenant, Name: n.Namespace})
	}
	return t, putTopic(b, t)
}

func checkNewName(m *cluster.Image, n *cluster.NewTopic) error {
	if n.Internal {
		return checkNewInternal(m, n)
	}
	if err := cluster.ValidateName("namespace", n.Namespace); err != nil {
		return err
	}
	if err := cluster.ValidateStreamName(n.Namespace, n.Name); err != nil {
		return err
	}
	switch {
	case m.Topic(n.Tenant, n.Namespace, n.Name) != nil:
		return errcode.Newf(errcode.TopicExists, "stream %s of namespace %s exists already", n.Name, n.Namespace)
	case m.Tenant(n.Tenant) == nil:
		return errcode.Newf(errcode.PolicyViolation, "tenant %q does not exist", n.Tenant)
	case !n.CreateNamespace && m.Namespace(n.Tenant, n.Namespace) == nil:
		return errcode.Newf(errcode.PolicyViolation, "namespace %s does not exist, and making it takes the right ns.manage", n.Namespace)
	case n.ID.IsZero() || m.TopicByID(n.ID) != nil:
		// Ids are drawn at random by the proposer: this is a fault of ours, never of the client.
		return errcode.Newf(errcode.Internal, "topic id %s is in use", n.ID)
	}
	return nil
}

// checkNewInternal checks the name of a topic of the server's own. It lives outside all tenants, under names that none can have.
func checkNewInternal(m *cluster.Image, n *cluster.NewTopic) error {
	switch {
	case n.Tenant != cluster.SystemTenant || n.Namespace != cluster.SystemNamespace || n.CreateNamespace:
		return errcode.Newf(errcode.Internal, "an internal topic cannot belong to tenant %q", n.Tenant)
	case m.Topic(n.Tenant, n.Namespace, n.Name) != nil || m.TopicByID(n.ID) != nil:
		return errcode.Newf(errcode.TopicExists, "internal topic %s exists already", n.Name)
	case n.ID.IsZero():
		return errcode.Newf(errcode.Internal, "an internal topic has no id")
	}
	return cluster.ValidateStreamName(n.Namespace, n.Name)
}

// checkOverrides bounds and parses configurations and returns their canonical texts. A list that names one thing twice is taken, since older
// logs have such: proposers refuse it, see cluster.CheckDuplicates.
func checkOverrides(m map[string]string) (map[string]string, error) {
	if len(m) > cluster.MaxOverrides {
		return nil, errcode.Newf(errcode.InvalidConfig, "%d configurations are given, at most %d are allowed", len(m), cluster.MaxOverrides)
	}
	long := "" // the smallest name, so that every member gives the same answer
	for name, value := range m {
		if len(value) > cluster.MaxOverrideLength && (long == "" || name < long) {
			long = name
		}
	}
	if long != "" {
		return nil, errcode.Newf(errcode.InvalidConfig, "the value of %.64q has more than %d bytes", long, cluster.MaxOverrideLength)
	}
	return cluster.CanonicalOverrides(m)
}

// putTopic resolves what follows from the configurations and adds the topic.
func putTopic(b *cluster.Builder, t *cluster.Topic) error {
	level, err := cluster.ParseConsistency(t.Overrides["felix.consistency"])
	if err != nil {
		return errcode.Newf(errcode.InvalidConfig, "%w", err)
	}
	var have map[string]string
	if old := b.Current().TopicByID(t.ID); old != nil {
		have = old.Overrides
	}
	if err := checkOverrideBytes(b.Current(), have, t.Overrides); err != nil {
		return err
	}
	t.Consistency = level.Resolve(t.ReplicationFactor())
	return b.PutTopic(t)
}

// find resolves a reference. Missing by id: UnknownTopicID; by name: UnknownShard, which is Kafka's UNKNOWN_TOPIC_OR_PARTITION.
func find(m *cluster.Image, ref *cluster.TopicRef) (*cluster.Topic, error) {
	if !ref.ID.IsZero() {
		t := m.TopicByID(ref.ID)
		if t == nil || ref.Tenant != "" && t.Tenant != ref.Tenant {
			return nil, errcode.Newf(errcode.UnknownTopicID, "there is no topic with id %s", ref.ID.Base64())
		}
		return t, nil
	}
	t := m.Topic(ref.Tenant, ref.Namespace, ref.Name)
	if t == nil {
		return nil, errcode.Newf(errcode.UnknownShard, "there is no stream %.64q in namespace %.64q", ref.Name, ref.Namespace)
	}
	return t, nil
}

func deleteTopics(b *cluster.Builder, refs []cluster.TopicRef) []cluster.ItemResult {
	items := make([]cluster.ItemResult, len(refs))
	var gone []ids.TopicID
	for i := range refs {
		t, err := find(b.Current(), &refs[i])
		if err != nil {
			items[i].Err = err
			continue
		}
		b.DeleteTopic(t)
		gone = append(gone, t.ID)
		items[i].Topic = t
	}
	if len(gone) > 0 {
		b.Remember(gone)
	}
	return items
}

func (s *state) createPartitions(b *cluster.Builder, list []cluster.MorePartitions) []cluster.ItemResult {
	items := make([]cluster.ItemResult, len(list))
	for i := range list {
		items[i].Topic, items[i].Err = s.growTopic(b, &list[i])
	}
	return items
}

func (s *state) growTopic(b *cluster.Builder, c *cluster.MorePartitions) (*cluster.Topic, error) {
	t, err := find(b.Current(), &c.Topic)
	if err != nil {
		return nil, err
	}
	have, added := len(t.Partitions), int(c.Count)-len(t.Partitions)
	switch {
	case !t.MadeByKafka:
		return nil, errcode.Newf(errcode.InvalidPartitions,
			"stream %s was made natively: its keys are mapped to %d shards for ever, so it cannot grow", t.FullName(), have)
	case added == 0:
		return nil, errcode.Newf(errcode.InvalidPartitions, "the topic already has %d partitions", have)
	case added < 0:
		return nil, errcode.Newf(errcode.InvalidPartitions, "the topic has %d partitions; %d would not be an increase", have, c.Count)
	}
	if err := checkPartitions(b.Current(), have, added); err != nil {
		return nil, err
	}
	var more []cluster.Partition
	if len(c.Assignment) > 0 {
		if len(c.Assignment) != added {
			return nil, errcode.Newf(errcode.InvalidReplicaAssignment, "%d partitions are added, but %d assignments are given", added, len(c.Assignment))
		}
		more, err = s.assigned(b.Current(), c.Assignment, t.ReplicationFactor())
	} else {
		more, err = s.place(b.Current(), t.ID, have, added, t.ReplicationFactor())
	}
	if err != nil {
		return nil, err
	}
	next := *t
	next.Partitions = append(append(make([]cluster.Partition, 0, have+added), t.Partitions...), more...)
	b.ReplaceTopic(t, &next)
	return &next, nil
}

func setTopicConfigs(b *cluster.Builder, list []cluster.TopicConfigChange) []cluster.ItemResult {
	items := make([]cluster.ItemResult, len(list))
	for i := range list {
		items[i].Topic, items[i].Err = setTopicConfig(b, &list[i])
	}
	return items
}

func setTopicConfig(b *cluster.Builder, c *cluster.TopicConfigChange) (*cluster.Topic, error) {
	t, err := find(b.Current(), &c.Topic)
	if err != nil {
		return nil, err
	}
	overrides := map[string]string{}
	if !c.Replace {
		maps.Copy(overrides, t.Overrides)
	}
	for _, ch := range c.Changes {
		value, set, err := cluster.ApplyConfigChange(overrides, ch)
		switch {
		case err != nil:
			return nil, err
		case set:
			overrides[ch.Name] = value
		default:
			delete(overrides, ch.Name)
		}
	}
	next := *t
	if next.Overrides, err = checkOverrides(overrides); err != nil {
		return nil, err
	}
	return &next, putTopic(b, &next)
}
