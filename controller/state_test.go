package controller

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

func topicID(n int) ids.TopicID {
	var t ids.TopicID
	t[0] = 0xfe
	binary.BigEndian.PutUint64(t[8:], uint64(n))
	return t
}

// testState has a cluster with two live brokers, 1 and 2, and tenant and namespace "default".
func testState(t *testing.T) *state {
	t.Helper()
	s := newState(cluster.NewImage(nil))
	for i, cmd := range []cluster.Command{
		cluster.Bootstrap{ClusterID: "c", Tenant: "default", Namespace: "default"},
		cluster.RegisterNode{ID: "a", KafkaHost: "h", KafkaPort: 1},
		cluster.RegisterNode{ID: "b", KafkaHost: "h", KafkaPort: 2},
	} {
		if res := s.apply(uint64(i+1), cmd); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	return s
}

func (s *state) next(cmd cluster.Command) cluster.Result { return s.apply(s.image.Version()+1, cmd) }

func named(n int, name string) cluster.NewTopic {
	return cluster.NewTopic{
		ID: topicID(n), Tenant: "default", Namespace: "default", Name: name,
		Partitions: 3, ReplicationFactor: 1, Durable: true, MadeByKafka: true,
	}
}

func TestCreateTopicChecks(t *testing.T) {
	s := testState(t)
	if res := s.next(cluster.CreateTopics{Topics: []cluster.NewTopic{named(1, "have")}}); res.Items[0].Err != nil {
		t.Fatal(res.Items[0].Err)
	}
	with := func(change func(*cluster.NewTopic)) cluster.NewTopic {
		n := named(2, "new")
		change(&n)
		return n
	}
	for _, c := range []struct {
		name string
		n    cluster.NewTopic
		kind errcode.Kind
	}{
		{"exists", with(func(n *cluster.NewTopic) { n.Name = "have" }), errcode.TopicExists},
		{"exists_before_config", with(func(n *cluster.NewTopic) { n.Name = "have"; n.Overrides = map[string]string{"x": "y"} }), errcode.TopicExists},
		{"bad_name", with(func(n *cluster.NewTopic) { n.Name = "a b" }), errcode.InvalidTopic},
		{"bad_namespace", with(func(n *cluster.NewTopic) { n.Namespace = "_x"; n.CreateNamespace = true }), errcode.InvalidTopic},
		{"no_namespace", with(func(n *cluster.NewTopic) { n.Namespace = "other" }), errcode.PolicyViolation},
		{"no_tenant", with(func(n *cluster.NewTopic) { n.Tenant = "nobody" }), errcode.PolicyViolation},
		{"no_partitions", with(func(n *cluster.NewTopic) { n.Partitions = 0 }), errcode.InvalidPartitions},
		{"too_many", with(func(n *cluster.NewTopic) { n.Partitions = cluster.MaxPartitionsPerTopic + 1 }), errcode.InvalidPartitions},
		{"no_replicas", with(func(n *cluster.NewTopic) { n.ReplicationFactor = 0 }), errcode.InvalidReplicationFactor},
		{"three_of_two", with(func(n *cluster.NewTopic) { n.ReplicationFactor = 3 }), errcode.InvalidReplicationFactor},
		{"bad_config", with(func(n *cluster.NewTopic) { n.Overrides = map[string]string{"retention.ms": "x"} }), errcode.InvalidConfig},
		{"unknown_config", with(func(n *cluster.NewTopic) { n.Overrides = map[string]string{"no.such": "x"} }), errcode.InvalidConfig},
		{"long_config", with(func(n *cluster.NewTopic) {
			n.Overrides = map[string]string{"leader.replication.throttled.replicas": strings.Repeat("0:1,", 4000)}
		}), errcode.InvalidConfig},
		{"empty_set", with(func(n *cluster.NewTopic) { n.Assignment = [][]ids.BrokerID{{}} }), errcode.InvalidReplicaAssignment},
		{"unequal_sets", with(func(n *cluster.NewTopic) { n.Assignment = [][]ids.BrokerID{{1}, {1, 2}} }), errcode.InvalidReplicaAssignment},
		{"twice", with(func(n *cluster.NewTopic) { n.Assignment = [][]ids.BrokerID{{1, 1}} }), errcode.InvalidReplicaAssignment},
		{"stranger", with(func(n *cluster.NewTopic) { n.Assignment = [][]ids.BrokerID{{3}} }), errcode.InvalidReplicaAssignment},
		{"used_id", with(func(n *cluster.NewTopic) { n.ID = topicID(1) }), errcode.Internal},
		{"zero_id", with(func(n *cluster.NewTopic) { n.ID = ids.TopicID{} }), errcode.Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := EncodeSnapshot(s.image)
			version := s.image.Version()
			res := s.next(cluster.CreateTopics{Topics: []cluster.NewTopic{c.n}})
			if got := errcode.Of(res.Items[0].Err); got != c.kind {
				t.Errorf("%v (%v), want %v", res.Items[0].Err, got, c.kind)
			}
			s.image = rebuilt(s.image, version)
			if !bytes.Equal(EncodeSnapshot(s.image), before) {
				t.Error("a refused creation left something behind")
			}
		})
	}
}

// rebuilt is m with another version, to compare all else.
func rebuilt(m *cluster.Image, version uint64) *cluster.Image {
	return cluster.NewBuilder(m).Build(version)
}

func TestCreateTopics(t *testing.T) {
	s := testState(t)
	again, elsewhere, quorum := named(2, "one"), named(3, "two"), named(4, "three")
	elsewhere.Namespace, elsewhere.CreateNamespace = "ns", true
	quorum.Assignment = [][]ids.BrokerID{{2, 1}, {1, 2}}
	quorum.Overrides = map[string]string{"felix.consistency": "quorum", "retention.ms": " 007 "}
	res := s.next(cluster.CreateTopics{Topics: []cluster.NewTopic{named(1, "one"), again, elsewhere, quorum}})
	var kinds []errcode.Kind
	for _, item := range res.Items {
		kinds = append(kinds, errcode.Of(item.Err))
	}
	if want := []errcode.Kind{errcode.OK, errcode.TopicExists, errcode.OK, errcode.OK}; !cmp.Equal(kinds, want) {
		t.Fatalf("results %v, want %v", kinds, want)
	}
	one := s.image.Topic("default", "default", "one")
	if one == nil || one.ID != topicID(1) || len(one.Partitions) != 3 || one.Consistency != cluster.ConsistencyLeader || !one.MadeByKafka {
		t.Errorf("topic one is %+v", one)
	}
	for i, p := range one.Partitions {
		if p.Leader != p.Replicas[0] || p.Epoch != 0 || len(p.Replicas) != 1 {
			t.Errorf("partition %d is %+v", i, p)
		}
	}
	if s.image.Namespace("default", "ns") == nil || s.image.Topic("default", "ns", "two") == nil {
		t.Error("the namespace was not made with its first topic")
	}
	three := s.image.TopicByID(topicID(4))
	if three.Consistency != cluster.ConsistencyQuorum || three.Overrides["retention.ms"] != "7" || three.Config.RetentionMs != 7 {
		t.Errorf("topic three is %+v", three)
	}
	if p := three.Partitions[0]; p.Leader != 2 || !cmp.Equal(p.Replicas, []ids.BrokerID{2, 1}) {
		t.Errorf("partition 0 of three is %+v", p)
	}
	if s.image.PartitionCount() != 8 {
		t.Errorf("%d partitions in all, want 8", s.image.PartitionCount())
	}
}

func TestDeleteAndMakeAgain(t *testing.T) {
	s := testState(t)
	s.next(cluster.CreateTopics{Topics: []cluster.NewTopic{named(1, "t"), named(2, "u")}})
	byName := cluster.TopicRef{Tenant: "default", Namespace: "default", Name: "t"}
	res := s.next(cluster.DeleteTopics{Topics: []cluster.TopicRef{
		byName, byName, {ID: topicID(2), Tenant: "other"}, {ID: topicID(2), Tenant: "default"}, {ID: topicID(9)},
	}})
	var kinds []errcode.Kind
	for _, item := range res.Items {
		kinds = append(kinds, errcode.Of(item.Err))
	}
	want := []errcode.Kind{errcode.OK, errcode.UnknownShard, errcode.UnknownTopicID, errcode.OK, errcode.UnknownTopicID}
	if !cmp.Equal(kinds, want) {
		t.Errorf("results %v, want %v", kinds, want)
	}
	if s.image.TopicCount() != 0 || !s.image.WasDeleted(topicID(1)) || !s.image.WasDeleted(topicID(2)) || s.image.WasDeleted(topicID(3)) {
		t.Errorf("%d topics, deleted %v", s.image.TopicCount(), s.image.Deleted())
	}
	if res := s.next(cluster.CreateTopics{Topics: []cluster.NewTopic{named(3, "t")}}); res.Items[0].Err != nil || res.Items[0].Topic.ID != topicID(3) {
		t.Errorf("made again: %+v", res.Items[0])
	}
}

func TestRememberedDeletionsAreBounded(t *testing.T) {
	b := cluster.NewBuilder(cluster.NewImage(nil))
	for n := range cluster.MaxRemembered/100 + 2 {
		var list []ids.TopicID
		for i := range 100 {
			list = append(list, topicID(n*100+i))
		}
		b.Remember(list)
	}
	m := b.Build(1)
	last := (cluster.MaxRemembered/100+2)*100 - 1
	if len(m.Deleted()) != cluster.MaxRemembered || m.WasDeleted(topicID(0)) || !m.WasDeleted(topicID(last)) {
		t.Errorf("%d remembered, first %t, last %t", len(m.Deleted()), m.WasDeleted(topicID(0)), m.WasDeleted(topicID(last)))
	}
}

func TestCreatePartitions(t *testing.T) {
	s := testState(t)
	native := named(2, "native")
	native.MadeByKafka = false
	s.next(cluster.CreateTopics{Topics: []cluster.NewTopic{named(1, "t"), native}})
	ref := func(name string) cluster.TopicRef {
		return cluster.TopicRef{Tenant: "default", Namespace: "default", Name: name}
	}
	old := s.image.Topic("default", "default", "t")
	for _, c := range []struct {
		name string
		more cluster.MorePartitions
		kind errcode.Kind
	}{
		{"unknown", cluster.MorePartitions{Topic: ref("none"), Count: 4}, errcode.UnknownShard},
		{"native", cluster.MorePartitions{Topic: ref("native"), Count: 4}, errcode.InvalidPartitions},
		{"equal", cluster.MorePartitions{Topic: ref("t"), Count: 3}, errcode.InvalidPartitions},
		{"less", cluster.MorePartitions{Topic: ref("t"), Count: 2}, errcode.InvalidPartitions},
		{"negative", cluster.MorePartitions{Topic: ref("t"), Count: -1}, errcode.InvalidPartitions},
		{"too_many", cluster.MorePartitions{Topic: ref("t"), Count: cluster.MaxPartitionsPerTopic + 1}, errcode.InvalidPartitions},
		{"assignments_short", cluster.MorePartitions{Topic: ref("t"), Count: 5, Assignment: [][]ids.BrokerID{{1}}}, errcode.InvalidReplicaAssignment},
		{"assignment_factor", cluster.MorePartitions{Topic: ref("t"), Count: 4, Assignment: [][]ids.BrokerID{{1, 2}}}, errcode.InvalidReplicaAssignment},
	} {
		res := s.next(cluster.CreatePartitions{Topics: []cluster.MorePartitions{c.more}})
		if got := errcode.Of(res.Items[0].Err); got != c.kind {
			t.Errorf("%s: %v, want %v", c.name, res.Items[0].Err, c.kind)
		}
	}
	res := s.next(cluster.CreatePartitions{Topics: []cluster.MorePartitions{
		{Topic: ref("t"), Count: 5, Assignment: [][]ids.BrokerID{{2}, {1}}}, {Topic: ref("t"), Count: 6},
	}})
	if res.Items[0].Err != nil || res.Items[1].Err != nil {
		t.Fatal(res.Items[0].Err, res.Items[1].Err)
	}
	now := s.image.Topic("default", "default", "t")
	if len(now.Partitions) != 6 || now.Partitions[3].Leader != 2 || now.Partitions[4].Leader != 1 || !cmp.Equal(now.Partitions[:3], old.Partitions) {
		t.Errorf("grown to %+v", now.Partitions)
	}
	if len(old.Partitions) != 3 {
		t.Error("the old image changed")
	}
}

// TestDuplicatesInLists: a list that names one thing twice is in logs of before it was refused, and the topic must be there after a replay.
func TestDuplicatesInLists(t *testing.T) {
	s := testState(t)
	n := named(1, "t")
	n.Overrides = map[string]string{"cleanup.policy": "compact,compact"}
	if item := s.next(cluster.CreateTopics{Topics: []cluster.NewTopic{n}}).Items[0]; item.Err != nil {
		t.Fatal(item.Err)
	}
	change := cluster.TopicConfigChange{Topic: cluster.TopicRef{ID: n.ID}, Changes: []cluster.ConfigChange{{Name: "cleanup.policy", Value: "delete,compact,delete"}}}
	if item := s.next(cluster.SetTopicConfigs{Topics: []cluster.TopicConfigChange{change}}).Items[0]; item.Err != nil {
		t.Fatal(item.Err)
	}
	m, err := DecodeSnapshot(EncodeSnapshot(s.image), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := m.TopicByID(n.ID).Config; !c.CleanupCompact || !c.CleanupDelete {
		t.Errorf("the topic has %q", m.TopicByID(n.ID).Overrides["cleanup.policy"])
	}
}

func TestSetTopicConfigs(t *testing.T) {
	s := testState(t)
	n := named(1, "t")
	n.Overrides = map[string]string{"retention.ms": "5", "cleanup.policy": "compact"}
	s.next(cluster.CreateTopics{Topics: []cluster.NewTopic{n}})
	ref := cluster.TopicRef{ID: topicID(1)}
	set := func(replace bool, changes ...cluster.ConfigChange) error {
		return s.next(cluster.SetTopicConfigs{Topics: []cluster.TopicConfigChange{{Topic: ref, Replace: replace, Changes: changes}}}).Items[0].Err
	}
	overrides := func() map[string]string { return s.image.TopicByID(topicID(1)).Overrides }
	if err := set(false, cluster.ConfigChange{Name: "cleanup.policy", Op: cluster.ConfigAppend, Value: "delete"},
		cluster.ConfigChange{Name: "retention.ms", Op: cluster.ConfigDelete}, cluster.ConfigChange{Name: "segment.bytes", Value: "2000000"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"cleanup.policy": "compact,delete", "segment.bytes": "2000000"}, overrides()); diff != "" {
		t.Error(diff)
	}
	before := overrides()
	for name, err := range map[string]error{
		"all_or_nothing": set(false, cluster.ConfigChange{Name: "retention.ms", Value: "9"}, cluster.ConfigChange{Name: "segment.bytes", Value: "1"}),
		"relation": set(false, cluster.ConfigChange{Name: "min.compaction.lag.ms", Value: "9"},
			cluster.ConfigChange{Name: "max.compaction.lag.ms", Value: "8"}),
		"not_a_list": set(false, cluster.ConfigChange{Name: "retention.ms", Op: cluster.ConfigAppend, Value: "9"}),
	} {
		if errcode.Of(err) != errcode.InvalidConfig {
			t.Errorf("%s: %v, want InvalidConfig", name, err)
		}
	}
	if !cmp.Equal(before, overrides()) {
		t.Errorf("refused changes left %v", overrides())
	}
	if err := set(true, cluster.ConfigChange{Name: "felix.consistency", Value: "quorum"}); err != nil {
		t.Fatal(err)
	}
	topic := s.image.TopicByID(topicID(1))
	if !cmp.Equal(topic.Overrides, map[string]string{"felix.consistency": "quorum"}) || topic.Consistency != cluster.ConsistencyQuorum {
		t.Errorf("replaced: %+v", topic)
	}
	if err := set(true); err != nil {
		t.Fatal(err)
	}
	topic = s.image.TopicByID(topicID(1))
	if topic.Overrides != nil || topic.Config != s.image.Defaults() || topic.Consistency != cluster.ConsistencyLeader {
		t.Errorf("emptied: %+v", topic)
	}
}

func TestRegisterNode(t *testing.T) {
	s := testState(t)
	assigned := named(1, "t")
	assigned.Assignment = [][]ids.BrokerID{{1}, {2}, {2}}
	s.next(cluster.CreateTopics{Topics: []cluster.NewTopic{assigned}})
	epochs := func() (out []ids.LeaderEpoch) {
		for _, p := range s.image.TopicByID(topicID(1)).Partitions {
			out = append(out, p.Epoch)
		}
		return out
	}
	res := s.next(cluster.RegisterNode{ID: "b", KafkaHost: "h2", KafkaPort: 9, Clean: true})
	if res.Node.Broker != 2 || res.Node.Incarnation != 2 || res.Node.KafkaHost != "h2" {
		t.Errorf("registered again: %+v", res.Node)
	}
	if got := epochs(); !cmp.Equal(got, []ids.LeaderEpoch{0, 0, 0}) {
		t.Errorf("a clean stop moved the epochs to %v", got)
	}
	s.next(cluster.RegisterNode{ID: "b", KafkaHost: "h2", KafkaPort: 9})
	if got := epochs(); !cmp.Equal(got, []ids.LeaderEpoch{0, 1, 1}) {
		t.Errorf("after an unclean stop the epochs are %v, want 0 1 1", got)
	}
	if res := s.next(cluster.RegisterNode{ID: "c"}); res.Node.Broker != 3 {
		t.Errorf("the third node gets number %d", res.Node.Broker)
	}
	for _, bad := range []cluster.RegisterNode{{}, {ID: ids.NodeID(strings.Repeat("n", 129))}, {ID: "d", KafkaPort: 70000}} {
		if res := s.next(bad); errcode.Of(res.Err) != errcode.InvalidRequest {
			t.Errorf("%+v: %v, want InvalidRequest", bad, res.Err)
		}
	}
}

func TestProducerIDs(t *testing.T) {
	s := testState(t)
	for i := range 3 {
		if res := s.next(cluster.AllocateProducerIDs{Count: 1000}); res.Err != nil || res.First != int64(i)*1000 {
			t.Errorf("block %d starts at %d, %v", i, res.First, res.Err)
		}
	}
	for _, n := range []int32{0, -1, maxProducerIDBlock + 1} {
		if res := s.next(cluster.AllocateProducerIDs{Count: n}); errcode.Of(res.Err) != errcode.InvalidRequest {
			t.Errorf("a block of %d: %v, want InvalidRequest", n, res.Err)
		}
	}
	b := cluster.NewBuilder(s.image)
	b.SetNextProducerID(endProducerIDs - 10)
	s.image = b.Build(s.image.Version())
	if res := s.next(cluster.AllocateProducerIDs{Count: 11}); res.Err == nil {
		t.Error("producer ids run into the native ones")
	}
	if res := s.next(cluster.AllocateProducerIDs{Count: 10}); res.Err != nil {
		t.Errorf("the last ids: %v", res.Err)
	}
}

func TestTenantsAndBootstrap(t *testing.T) {
	s := testState(t)
	if res := s.next(cluster.Bootstrap{ClusterID: "other", Tenant: "t", Namespace: "n"}); res.Err != nil || s.image.ClusterID() != "c" || s.image.Tenant("t") != nil {
		t.Errorf("a second bootstrap: %v, cluster %s", res.Err, s.image.ClusterID())
	}
	for _, c := range []struct {
		cmd  cluster.Command
		kind errcode.Kind
	}{
		{cluster.CreateTenant{Name: "t", DisplayName: "T"}, errcode.OK},
		{cluster.CreateTenant{Name: "t", DisplayName: "T"}, errcode.OK},
		{cluster.CreateTenant{Name: "t", DisplayName: "U"}, errcode.TopicExists},
		{cluster.CreateTenant{Name: "t/"}, errcode.InvalidTopic},
		{cluster.CreateNamespace{Tenant: "t", Name: "n"}, errcode.OK},
		{cluster.CreateNamespace{Tenant: "t", Name: "n"}, errcode.OK},
		{cluster.CreateNamespace{Tenant: "u", Name: "n"}, errcode.ResourceNotFound},
		{cluster.CreateNamespace{Tenant: "t", Name: ""}, errcode.InvalidTopic},
	} {
		if res := s.next(c.cmd); errcode.Of(res.Err) != c.kind {
			t.Errorf("%+v: %v, want %v", c.cmd, res.Err, c.kind)
		}
	}
}

func TestPlacementIsEvenAndStable(t *testing.T) {
	s := testState(t)
	for n := range 3 {
		s.next(cluster.RegisterNode{ID: ids.NodeID(fmt.Sprint("n", n)), KafkaHost: "h", KafkaPort: 1})
	}
	parts, err := s.place(s.image, topicID(7), 0, 1000, 3)
	if err != nil {
		t.Fatal(err)
	}
	leads := map[ids.BrokerID]int{}
	for i, p := range parts {
		leads[p.Leader]++
		if p.Leader != p.Replicas[0] || len(p.Replicas) != 3 || p.Replicas[0] == p.Replicas[1] || p.Replicas[1] == p.Replicas[2] || p.Replicas[0] == p.Replicas[2] {
			t.Fatalf("partition %d is %+v", i, p)
		}
	}
	for b := ids.BrokerID(1); b <= 5; b++ {
		if leads[b] < 140 || leads[b] > 260 {
			t.Errorf("broker %d leads %d of 1000", b, leads[b])
		}
	}
	// The first partitions are pinned: another hash would move data.
	var got []ids.BrokerID
	for _, p := range parts[:10] {
		got = append(got, p.Leader)
	}
	if want := []ids.BrokerID{4, 1, 1, 2, 4, 1, 4, 5, 3, 5}; !cmp.Equal(got, want) {
		t.Errorf("leaders of the first ten partitions are %v, want %v", got, want)
	}
	tail, _ := s.place(s.image, topicID(7), 900, 100, 3)
	if !cmp.Equal(tail, parts[900:]) {
		t.Error("placing partitions in two steps gives another result than in one")
	}
}
