package controller

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// checkPartitions bounds the size of a topic and of the cluster.
func checkPartitions(m *cluster.Image, have, added int) error {
	switch {
	case have+added > cluster.MaxPartitionsPerTopic:
		return errcode.Newf(errcode.InvalidPartitions, "%d partitions are asked for, a topic has at most %d", have+added, cluster.MaxPartitionsPerTopic)
	case m.PartitionCount()+added > cluster.MaxPartitions:
		return errcode.Newf(errcode.PolicyViolation, "the cluster has %d partitions and at most %d", m.PartitionCount(), cluster.MaxPartitions)
	}
	return nil
}

// placed checks the counts of a new topic and places its partitions.
func (s *state) placed(m *cluster.Image, n *cluster.NewTopic) ([]cluster.Partition, error) {
	switch {
	case n.Partitions <= 0:
		return nil, errcode.Newf(errcode.InvalidPartitions, "the number of partitions is %d, it must be above 0", n.Partitions)
	case n.ReplicationFactor <= 0:
		return nil, errcode.Newf(errcode.InvalidReplicationFactor, "the replication factor is %d, it must be above 0", n.ReplicationFactor)
	}
	if err := checkPartitions(m, 0, int(n.Partitions)); err != nil {
		return nil, err
	}
	return s.place(m, n.ID, 0, int(n.Partitions), int(n.ReplicationFactor))
}

// place chooses the brokers of count partitions from first on: the factor live brokers with the highest weight for the
// partition (rendezvous hashing), the highest of all as leader. It is a pure function of the topic id, the partition and the set of
// live brokers; each broker that joins or goes moves only what it gains or had.
func (s *state) place(m *cluster.Image, id ids.TopicID, first, count, factor int) ([]cluster.Partition, error) {
	var live []ids.BrokerID
	for _, n := range m.Nodes() {
		if n.Live {
			live = append(live, n.Broker)
		}
	}
	if factor > len(live) {
		return nil, errcode.Newf(errcode.InvalidReplicationFactor,
			"the replication factor is %d, but the number of live brokers is %d", factor, len(live))
	}
	out := make([]cluster.Partition, count)
	ranked := make([]weighted, len(live))
	for i := range out {
		for j, b := range live {
			ranked[j] = weighted{b, weight(id, int32(first+i), b)}
		}
		slices.SortFunc(ranked, weighted.compare)
		out[i] = s.partition(ranked[:factor])
	}
	return out, nil
}

type weighted struct {
	broker ids.BrokerID
	weight uint64
}

// compare orders by falling weight; equal weights, which need luck, by broker.
func (a weighted) compare(b weighted) int {
	switch {
	case a.weight > b.weight:
		return -1
	case a.weight < b.weight:
		return 1
	default:
		return int(a.broker) - int(b.broker)
	}
}

func (s *state) partition(ranked []weighted) cluster.Partition {
	if len(ranked) == 1 {
		return cluster.Partition{Leader: ranked[0].broker, Replicas: s.sets.one(ranked[0].broker)}
	}
	set := make([]ids.BrokerID, len(ranked))
	for i := range ranked {
		set[i] = ranked[i].broker
	}
	return cluster.Partition{Leader: set[0], Replicas: s.sets.shared(set)}
}

// weight mixes topic, partition and broker. It must never change: it decides where data lives.
func weight(id ids.TopicID, partition int32, broker ids.BrokerID) uint64 {
	h := binary.BigEndian.Uint64(id[:8])
	h = mix(h ^ binary.BigEndian.Uint64(id[8:]))
	return mix(h ^ uint64(uint32(partition))<<32 ^ uint64(uint32(broker)))
}

// mix is the finalizer of SplitMix64: every input bit changes about half of the output bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// assigned checks replica sets that a client chose, one a partition, and returns the partitions. factor is the size that each must
// have; 0: the size of the first. The checks follow Kafka's.
func (s *state) assigned(m *cluster.Image, assignment [][]ids.BrokerID, factor int) ([]cluster.Partition, error) {
	if err := checkPartitions(m, 0, len(assignment)); err != nil {
		return nil, err
	}
	if factor == 0 {
		factor = len(assignment[0])
	}
	out := make([]cluster.Partition, len(assignment))
	for i, set := range assignment {
		switch {
		case len(set) == 0:
			return nil, errcode.Newf(errcode.InvalidReplicaAssignment, "partition %d has an empty list of replicas", i)
		case len(set) != factor:
			return nil, errcode.Newf(errcode.InvalidReplicaAssignment, "partition %d has %d replicas, others have %d", i, len(set), factor)
		case len(set) > math.MaxInt16:
			return nil, errcode.Newf(errcode.InvalidReplicaAssignment, "partition %d has too many replicas", i)
		}
		for j, b := range set {
			n, ok := m.Node(b)
			switch {
			case slices.Contains(set[:j], b):
				return nil, errcode.Newf(errcode.InvalidReplicaAssignment, "partition %d names broker %d twice", i, b)
			case !ok || !n.Live:
				return nil, errcode.Newf(errcode.InvalidReplicaAssignment, "partition %d names broker %d, which is not live", i, b)
			}
		}
		out[i] = cluster.Partition{Leader: set[0], Replicas: s.sets.shared(set)}
	}
	return out, nil
}

// replicaSets keeps one copy of each replica set, so that a partition costs a slice header and no allocation. It only saves memory:
// what it returns never depends on what it has seen.
type replicaSets struct {
	byText map[string][]ids.BrokerID
	key    []byte // scratch
	last   []ids.BrokerID
}

// maxReplicaSets bounds the table; beyond it, it starts over.
const maxReplicaSets = 1 << 16

func (s *replicaSets) one(b ids.BrokerID) []ids.BrokerID {
	if len(s.last) == 1 && s.last[0] == b {
		return s.last
	}
	return s.shared([]ids.BrokerID{b})
}

// shared returns a slice equal to set. It may keep set.
func (s *replicaSets) shared(set []ids.BrokerID) []ids.BrokerID {
	if slices.Equal(set, s.last) {
		return s.last
	}
	s.key = s.key[:0]
	for _, b := range set {
		s.key = binary.LittleEndian.AppendUint32(s.key, uint32(b))
	}
	have, ok := s.byText[string(s.key)]
	if !ok {
		if s.byText == nil || len(s.byText) >= maxReplicaSets {
			s.byText = map[string][]ids.BrokerID{}
		}
		have = set
		s.byText[string(s.key)] = have
	}
	s.last = have
	return have
}
