package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// commandVersion is the first byte of every encoded command. A higher one was written by a newer Felix and is refused.
const commandVersion = 1

// Kinds of commands: the second byte. Numbers are never reused.
const (
	kindBootstrap           = 1
	kindRegisterNode        = 2
	kindCreateTenant        = 3
	kindCreateNamespace     = 4
	kindCreateTopics        = 5
	kindDeleteTopics        = 6
	kindCreatePartitions    = 7
	kindSetTopicConfigs     = 8
	kindAllocateProducerIDs = 9
	kindSetClientQuotas     = 10
	kindCreateTenantWithKey = 11 // kind 3 is for those without a key
	kindDisplayedNamespace  = 12 // kind 4 is for those without a display name
	kindCreateStreams       = 13
	kindUpdateStream        = 14
	kindDeleteNamespace     = 15
	kindDeleteTenant        = 16
	kindPutSigningKey       = 17
	kindActivateSigningKey  = 18
	kindRetireSigningKey    = 19
	kindInitializeTenant    = 20
	kindDeleteTenantCounted = 21 // kind 16 was written before there were incarnations
	kindGuarded             = 22 // before the kind of what it guards
	kindCreateResources     = 40
	kindUpdateCache         = 41
	kindDeleteCache         = 42
	kindPutPolicy           = 43
	kindDeletePolicy        = 44
	kindPutGrouping         = 45
	kindDeleteGrouping      = 46
	kindPausePlacement      = 47
)

var errNoEncoding = errors.New("controller: command without an encoding")

// EncodeCommand returns the bytes of a command (FORMAT.md). Equal commands give equal bytes. ValidateOnly commands have no encoding:
// they are never logged.
func EncodeCommand(cmd cluster.Command) ([]byte, error) {
	w := &writer{b: make([]byte, 0, 64)}
	w.byte(commandVersion)
	if g, ok := cmd.(cluster.Guarded); ok {
		w.byte(kindGuarded)
		w.text(g.Tenant)
		w.uint(g.Incarnation)
		cmd = g.Command
	}
	if err := w.command(cmd); err != nil {
		return nil, err
	}
	return w.seal(), nil
}

// command writes the kind and the fields of a command without a guard.
func (w *writer) command(cmd cluster.Command) error {
	switch c := cmd.(type) {
	case cluster.Bootstrap:
		w.byte(kindBootstrap)
		w.text(c.ClusterID)
		w.text(c.Tenant)
		w.text(c.Namespace)
	case cluster.RegisterNode:
		w.byte(kindRegisterNode)
		w.text(string(c.ID))
		w.text(c.KafkaHost)
		w.int(int64(c.KafkaPort))
		w.text(c.Rack)
		w.bool(c.Clean)
	case cluster.CreateTenant:
		if c.Key.IsZero() {
			w.byte(kindCreateTenant)
		} else {
			w.byte(kindCreateTenantWithKey)
			w.newKey(c.Key)
		}
		w.text(c.Name)
		w.text(c.DisplayName)
	case cluster.CreateNamespace:
		if c.DisplayName == "" {
			w.byte(kindCreateNamespace)
		} else {
			w.byte(kindDisplayedNamespace)
			w.text(c.DisplayName)
		}
		w.text(c.Tenant)
		w.text(c.Name)
	case cluster.CreateTopics:
		if c.ValidateOnly {
			return errNoEncoding
		}
		w.byte(kindCreateTopics)
		w.count(len(c.Topics))
		for i := range c.Topics {
			w.newTopic(&c.Topics[i])
		}
	case cluster.DeleteTopics:
		w.byte(kindDeleteTopics)
		w.count(len(c.Topics))
		for i := range c.Topics {
			w.topicRef(&c.Topics[i])
		}
	case cluster.CreatePartitions:
		if c.ValidateOnly {
			return errNoEncoding
		}
		w.byte(kindCreatePartitions)
		w.count(len(c.Topics))
		for i := range c.Topics {
			w.topicRef(&c.Topics[i].Topic)
			w.int(int64(c.Topics[i].Count))
			w.assignment(c.Topics[i].Assignment)
		}
	case cluster.SetTopicConfigs:
		if c.ValidateOnly {
			return errNoEncoding
		}
		w.byte(kindSetTopicConfigs)
		w.count(len(c.Topics))
		for i := range c.Topics {
			w.configChange(&c.Topics[i])
		}
	case cluster.AllocateProducerIDs:
		w.byte(kindAllocateProducerIDs)
		w.int(int64(c.Count))
	case cluster.SetClientQuotas:
		if c.ValidateOnly {
			return errNoEncoding
		}
		w.byte(kindSetClientQuotas)
		w.count(len(c.Changes))
		for i := range c.Changes {
			w.quotaChange(&c.Changes[i])
		}
	default:
		if !w.streamCommand(cmd) && !w.resourceCommand(cmd) {
			return fmt.Errorf("%w: %T", errNoEncoding, cmd)
		}
	}
	return nil
}

// DecodeCommand reads what EncodeCommand wrote. Errors: ErrCorrupt, or a version or kind that this Felix does not know.
func DecodeCommand(b []byte) (cluster.Command, error) {
	r, err := open(b)
	if err != nil {
		return nil, err
	}
	if v := r.byte(); v != commandVersion {
		return nil, fmt.Errorf("command of version %d, this server knows %d", v, commandVersion)
	}
	kind := r.byte()
	var g cluster.Guarded
	guarded := kind == kindGuarded
	if guarded {
		g.Tenant, g.Incarnation = r.text(), r.uint()
		kind = r.byte()
	}
	cmd := r.command(kind)
	if cmd == nil && r.err == nil {
		return nil, fmt.Errorf("command of kind %d, which this server does not know", kind)
	}
	if guarded {
		g.Command = cmd
		cmd = g
	}
	return cmd, r.end()
}

// command reads the fields of a command without a guard; nil: the kind is of none.
func (r *reader) command(kind byte) cluster.Command {
	var cmd cluster.Command
	switch kind {
	case kindBootstrap:
		cmd = cluster.Bootstrap{ClusterID: r.text(), Tenant: r.text(), Namespace: r.text()}
	case kindRegisterNode:
		cmd = cluster.RegisterNode{ID: ids.NodeID(r.text()), KafkaHost: r.text(), KafkaPort: r.int32(), Rack: r.text(), Clean: r.bool()}
	case kindCreateTenant:
		cmd = cluster.CreateTenant{Name: r.text(), DisplayName: r.text()}
	case kindCreateNamespace:
		cmd = cluster.CreateNamespace{Tenant: r.text(), Name: r.text()}
	case kindCreateTopics:
		c := cluster.CreateTopics{Topics: make([]cluster.NewTopic, r.count(minNewTopic))}
		for i := range c.Topics {
			c.Topics[i] = r.newTopic()
		}
		cmd = c
	case kindDeleteTopics:
		c := cluster.DeleteTopics{Topics: make([]cluster.TopicRef, r.count(minTopicRef))}
		for i := range c.Topics {
			c.Topics[i] = r.topicRef()
		}
		cmd = c
	case kindCreatePartitions:
		c := cluster.CreatePartitions{Topics: make([]cluster.MorePartitions, r.count(minTopicRef+2))}
		for i := range c.Topics {
			c.Topics[i] = cluster.MorePartitions{Topic: r.topicRef(), Count: r.int32(), Assignment: r.assignment()}
		}
		cmd = c
	case kindSetTopicConfigs:
		c := cluster.SetTopicConfigs{Topics: make([]cluster.TopicConfigChange, r.count(minTopicRef+2))}
		for i := range c.Topics {
			c.Topics[i] = r.configChange()
		}
		cmd = c
	case kindAllocateProducerIDs:
		cmd = cluster.AllocateProducerIDs{Count: r.int32()}
	case kindSetClientQuotas:
		c := cluster.SetClientQuotas{Changes: make([]cluster.QuotaChange, r.count(minQuotaEntity+1))}
		for i := range c.Changes {
			c.Changes[i] = r.quotaChange()
		}
		cmd = c
	default:
		if cmd = r.streamCommand(kind); cmd == nil {
			cmd = r.resourceCommand(kind)
		}
	}
	return cmd
}

// Fewest bytes that an element takes: the bound that a count is checked against before its slice is made.
const (
	minNewTopic = 16 + 3 + 1 + 1 + 1 + 1 + 1
	minTopicRef = 16 + 3
)

// Flags of a new topic.
const (
	flagCreateNamespace = 1 << iota
	flagDurable
	flagMadeByKafka
	flagInternal
	topicFlags = 1<<iota - 1
)

func (w *writer) newTopic(t *cluster.NewTopic) {
	w.id(t.ID)
	w.text(t.Tenant)
	w.text(t.Namespace)
	w.text(t.Name)
	w.byte(flag(t.CreateNamespace, flagCreateNamespace) | flag(t.Durable, flagDurable) |
		flag(t.MadeByKafka, flagMadeByKafka) | flag(t.Internal, flagInternal))
	w.int(int64(t.Partitions))
	w.int(int64(t.ReplicationFactor))
	w.assignment(t.Assignment)
	w.overrides(t.Overrides)
}

func (r *reader) newTopic() cluster.NewTopic {
	t := cluster.NewTopic{ID: r.id(), Tenant: r.text(), Namespace: r.text(), Name: r.text()}
	f := r.flags(topicFlags)
	t.CreateNamespace, t.Durable = f&flagCreateNamespace != 0, f&flagDurable != 0
	t.MadeByKafka, t.Internal = f&flagMadeByKafka != 0, f&flagInternal != 0
	t.Partitions, t.ReplicationFactor = r.int32(), r.int16()
	t.Assignment, t.Overrides = r.assignment(), r.overrides()
	return t
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// flags reads a byte of which only the known bits may be set.
func (r *reader) flags(known byte) byte {
	f := r.byte()
	if f&^known != 0 {
		r.fail("unknown flags")
		return 0
	}
	return f
}

func (w *writer) topicRef(t *cluster.TopicRef) {
	w.id(t.ID)
	w.text(t.Tenant)
	w.text(t.Namespace)
	w.text(t.Name)
}

func (r *reader) topicRef() cluster.TopicRef {
	return cluster.TopicRef{ID: r.id(), Tenant: r.text(), Namespace: r.text(), Name: r.text()}
}

// assignment: nil is an empty list. An empty assignment means the same as none.
func (w *writer) assignment(a [][]ids.BrokerID) {
	w.count(len(a))
	for _, replicas := range a {
		w.count(len(replicas))
		for _, b := range replicas {
			w.int(int64(b))
		}
	}
}

func (r *reader) assignment() [][]ids.BrokerID {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	a := make([][]ids.BrokerID, n)
	for i := range a {
		a[i] = make([]ids.BrokerID, r.count(1))
		for j := range a[i] {
			a[i][j] = ids.BrokerID(r.int32())
		}
	}
	return a
}

// overrides are written sorted by name, so that equal maps give equal bytes.
func (w *writer) overrides(m map[string]string) {
	w.count(len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		w.text(name)
		w.text(m[name])
	}
}

func (r *reader) overrides() map[string]string {
	n := r.count(2)
	if n == 0 {
		return nil
	}
	m := make(map[string]string, n)
	for range n {
		name := r.text()
		m[name] = r.text()
	}
	if r.err == nil && len(m) != n {
		r.fail("configuration named twice")
	}
	return m
}

func (w *writer) configChange(c *cluster.TopicConfigChange) {
	w.topicRef(&c.Topic)
	w.bool(c.Replace)
	w.count(len(c.Changes))
	for _, ch := range c.Changes {
		w.text(ch.Name)
		w.byte(byte(ch.Op))
		w.text(ch.Value)
	}
}

func (r *reader) configChange() cluster.TopicConfigChange {
	c := cluster.TopicConfigChange{Topic: r.topicRef(), Replace: r.bool()}
	if n := r.count(3); n > 0 {
		c.Changes = make([]cluster.ConfigChange, n)
	}
	for i := range c.Changes {
		c.Changes[i] = cluster.ConfigChange{Name: r.text(), Op: cluster.ConfigOp(r.byte()), Value: r.text()}
	}
	return c
}
