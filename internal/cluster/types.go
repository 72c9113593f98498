package cluster

import (
	"fmt"

	"github.com/felixlog/felix/internal/ids"
)

// Node is one registered broker.
type Node struct {
	ID          ids.NodeID
	Broker      ids.BrokerID // number assigned at first registration, for ever
	KafkaHost   string       // advertised to Kafka clients; never a wildcard address
	KafkaPort   int32
	Rack        string // "" when none
	Incarnation uint64 // counts the registrations of this ID, from 1
	Live        bool
}

// Tenant is a realm of names: two tenants can each have a namespace of one name.
type Tenant struct {
	Name        string
	DisplayName string
	// Incarnation tells the tenants of one name apart, of which there is one at a time: it is Image.TenantsDeleted as of the creation.
	Incarnation uint64
	// Bootstrapped says that InitializeTenant has been carried out, which it is once.
	Bootstrapped bool
	// Keys are the tenant's published signing keys: the one that signs first, the others in the order in which they came behind it.
	Keys []SigningKey
}

// Namespace is a group of streams inside a tenant.
type Namespace struct {
	Tenant      string
	Name        string
	DisplayName string
}

// Consistency is when a write counts as committed.
type Consistency uint8

// The levels. The zero value means "not set: by replication factor", see Resolve.
const (
	ConsistencyDefault Consistency = iota
	ConsistencyLeader              // the leader's own write
	ConsistencyQuorum              // a majority of the replica set
)

// String is the word used in configurations: "", "leader" or "quorum".
func (c Consistency) String() string {
	switch c {
	case ConsistencyLeader:
		return "leader"
	case ConsistencyQuorum:
		return "quorum"
	default:
		return ""
	}
}

// ParseConsistency reads the word that String writes. An unknown word is an error, never Leader.
func ParseConsistency(s string) (Consistency, error) {
	switch s {
	case "":
		return ConsistencyDefault, nil
	case "leader":
		return ConsistencyLeader, nil
	case "quorum":
		return ConsistencyQuorum, nil
	default:
		return ConsistencyDefault, fmt.Errorf("unknown consistency %q: leader or quorum", s)
	}
}

// Resolve turns the default into a level: Leader for one and two replicas, Quorum for three and more. (A majority of two is two:
// Quorum there would stop at the first failure.)
func (c Consistency) Resolve(replicas int) Consistency {
	switch {
	case c != ConsistencyDefault:
		return c
	case replicas >= 3:
		return ConsistencyQuorum
	default:
		return ConsistencyLeader
	}
}

// Partition is one shard's assignment. Replicas is shared and immutable; the in-sync set is Replicas until replication exists.
type Partition struct {
	Leader   ids.BrokerID // NoBroker when nobody leads
	Epoch    ids.LeaderEpoch
	Replicas []ids.BrokerID
}

// Topic is one incarnation of a stream. All of it is immutable.
type Topic struct {
	ID        ids.TopicID
	Tenant    string
	Namespace string
	Name      string // the stream's name, without namespace

	Durable     bool        // false: an ephemeral stream, in memory alone
	MadeByKafka bool        // made through the Kafka listener: its partition count may grow
	Internal    bool        // one of ours, not nameable by clients
	Consistency Consistency // resolved, never ConsistencyDefault

	Kind     StreamKind // recorded
	Delivery Delivery   // recorded
	Routing  Routing    // how native publishes choose a shard by key
	Region   string     // where its replicas may stand; "" anywhere

	Overrides map[string]string // configurations that were set, canonical text; nil when none
	Config    *TopicConfig      // Overrides over this node's defaults; shared by all topics without overrides

	Partitions []Partition
}

// ReplicationFactor is the size of partition 0's replica set, which is what Kafka's tools call so.
func (t *Topic) ReplicationFactor() int {
	if len(t.Partitions) == 0 {
		return 0
	}
	return len(t.Partitions[0].Replicas)
}

// FullName is "namespace/name", for logs and errors.
func (t *Topic) FullName() string { return t.Namespace + "/" + t.Name }

// Shard is the id of one partition of t.
func (t *Topic) Shard(partition int32) ids.ShardID {
	return ids.ShardID{Topic: t.ID, Partition: partition}
}
