package controller

import (
	"testing"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// TestInternalTopic: the server can make its own topic without a tenant, once, and nobody else can make anything beside it.
func TestInternalTopic(t *testing.T) {
	s := newState(cluster.NewImage(nil))
	if res := s.apply(1, cluster.Bootstrap{ClusterID: "c", Tenant: "t", Namespace: "default"}); res.Err != nil {
		t.Fatal(res.Err)
	}
	if res := s.apply(2, cluster.RegisterNode{ID: "n1"}); res.Err != nil {
		t.Fatal(res.Err)
	}
	change := func(f func(*cluster.NewTopic)) cluster.NewTopic {
		n := cluster.GroupsTopic()
		f(&n)
		return n
	}
	tests := []struct {
		name  string
		topic cluster.NewTopic
		want  errcode.Kind
	}{
		{"of_a_tenant", change(func(n *cluster.NewTopic) { n.Tenant, n.Namespace = "t", "default" }), errcode.Internal},
		{"without_an_id", change(func(n *cluster.NewTopic) { n.ID = ids.TopicID{} }), errcode.Internal},
		{"by_a_client", change(func(n *cluster.NewTopic) { n.Internal = false }), errcode.InvalidTopic},
		{"by_a_client_in_a_namespace", change(func(n *cluster.NewTopic) { n.Internal, n.Namespace = false, "default" }), errcode.PolicyViolation},
		{"first", cluster.GroupsTopic(), errcode.OK},
		{"again", cluster.GroupsTopic(), errcode.TopicExists},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := s.apply(uint64(3+i), cluster.CreateTopics{Topics: []cluster.NewTopic{tt.topic}})
			if res.Err != nil || errcode.Of(res.Items[0].Err) != tt.want {
				t.Fatalf("got %v, want kind %v", res.Items[0].Err, tt.want)
			}
		})
	}
	topic := s.image.TopicByID(cluster.GroupsTopicID)
	if topic == nil || !topic.Internal || len(topic.Partitions) != cluster.GroupsPartitions || !topic.Config.CleanupCompact || topic.Config.CleanupDelete {
		t.Fatalf("topic: %+v", topic)
	}
	for _, tenant := range s.image.Tenants() {
		s.image.TopicsOf(tenant.Name, func(u *cluster.Topic) bool {
			t.Errorf("tenant %s lists %s", tenant.Name, u.Name)
			return true
		})
	}
	again, err := DecodeSnapshot(EncodeSnapshot(s.image), nil)
	if err != nil || again.TopicByID(cluster.GroupsTopicID) == nil {
		t.Errorf("after a snapshot: %v", err)
	}
	if cluster.ValidateName("tenant", cluster.SystemTenant) == nil || cluster.ValidateName("namespace", cluster.SystemNamespace) == nil {
		t.Error("a client can have the system's names")
	}
}
