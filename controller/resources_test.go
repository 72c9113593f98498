package controller

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

func newCache(n int, name string) cluster.NewCache {
	return cluster.NewCache{
		TopicRef: cluster.TopicRef{ID: topicID(n), Tenant: "default", Namespace: "default", Name: name}, Shards: 1, ReplicationFactor: 1,
	}
}

func cacheNames(m *cluster.Image, tenant, namespace string) []string {
	names := []string{}
	for c := range m.CachesAfter(tenant, namespace, "") {
		names = append(names, c.Name)
	}
	return names
}

func TestCaches(t *testing.T) {
	s := testState(t)
	res := s.next(cluster.CreateResources{Caches: []cluster.NewCache{newCache(1, "b"), newCache(2, "a")}})
	if res.Err != nil || res.Items[0].Err != nil || res.Items[1].Cache.Name != "a" || res.Items[1].Cache.Consistency != cluster.ConsistencyLeader {
		t.Fatalf("%+v", res)
	}
	again := s.next(cluster.CreateResources{Caches: []cluster.NewCache{newCache(3, "b")}}).Items[0]
	if !again.Unchanged || again.Cache.ID != topicID(1) {
		t.Errorf("there already: %+v", again)
	}
	title := "B"
	if item := s.next(cluster.UpdateCache{Tenant: "default", Namespace: "default", Name: "b", DisplayName: &title}).Items[0]; item.Err != nil || item.Cache.DisplayName != "B" || item.Unchanged {
		t.Errorf("changed: %+v", item)
	}
	if item := s.next(cluster.UpdateCache{Tenant: "default", Namespace: "default", Name: "none", DisplayName: &title}).Items[0]; errcode.Of(item.Err) != errcode.ResourceNotFound {
		t.Errorf("of none: %+v", item)
	}
	if got := cacheNames(s.image, "default", "default"); !cmp.Equal(got, []string{"a", "b"}) || s.image.CacheCount() != 2 {
		t.Errorf("caches %q", got)
	}
	if err := s.next(cluster.DeleteCache{Tenant: "default", Namespace: "default", Name: "b", ID: topicID(9)}).Err; errcode.Of(err) != errcode.ResourceNotFound {
		t.Errorf("another incarnation: %v", err)
	}
	if err := s.next(cluster.DeleteCache{Tenant: "default", Namespace: "default", Name: "b", ID: topicID(1)}).Err; err != nil || s.image.CacheCount() != 1 {
		t.Errorf("deleted: %v, %d left", err, s.image.CacheCount())
	}
	s.next(cluster.DeleteNamespace{Tenant: "default", Name: "default"})
	if s.image.CacheCount() != 0 {
		t.Error("a cache outlived its namespace")
	}
}

// TestResourcesAllOrNone: one stream or cache that cannot be made stops the others of its command.
func TestResourcesAllOrNone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster.NewCache)
		kind   errcode.Kind
	}{
		"name":        {func(n *cluster.NewCache) { n.Name = "_a" }, errcode.InvalidTopic},
		"namespace":   {func(n *cluster.NewCache) { n.Namespace = "none" }, errcode.ResourceNotFound},
		"shards":      {func(n *cluster.NewCache) { n.Shards = 1025 }, errcode.InvalidPartitions},
		"no_shards":   {func(n *cluster.NewCache) { n.Shards = 0 }, errcode.InvalidPartitions},
		"factor":      {func(n *cluster.NewCache) { n.ReplicationFactor = 8 }, errcode.InvalidReplicationFactor},
		"no_factor":   {func(n *cluster.NewCache) { n.ReplicationFactor = 0 }, errcode.InvalidReplicationFactor},
		"unplaceable": {func(n *cluster.NewCache) { n.ReplicationFactor = 7 }, errcode.InvalidReplicationFactor},
		"title":       {func(n *cluster.NewCache) { n.DisplayName = strings.Repeat("x", 257) }, errcode.InvalidRequest},
		"id":          {func(n *cluster.NewCache) { n.ID = ids.TopicID{} }, errcode.Internal},
		"exists":      {func(n *cluster.NewCache) { n.Name, n.Shards = "have", 2 }, errcode.TopicExists},
	} {
		t.Run(name, func(t *testing.T) {
			s := testState(t)
			s.next(cluster.CreateResources{Caches: []cluster.NewCache{newCache(1, "have")}})
			bad := newCache(3, "bad")
			c.change(&bad)
			stream := cluster.NewStream{TopicRef: cluster.TopicRef{ID: topicID(5), Tenant: "default", Namespace: "default", Name: "s"}, Shards: 1, ReplicationFactor: 1}
			res := s.next(cluster.CreateResources{Streams: []cluster.NewStream{stream}, Caches: []cluster.NewCache{newCache(2, "good"), bad, newCache(4, "have")}})
			if len(res.Items) != 4 || errcode.Of(res.Items[0].Err) != errcode.OperationNotAttempted || errcode.Of(res.Items[1].Err) != errcode.OperationNotAttempted ||
				errcode.Of(res.Items[2].Err) != c.kind || !res.Items[3].Unchanged {
				t.Errorf("%+v", res)
			}
			if s.image.CacheCount() != 1 || s.image.TopicCount() != 0 {
				t.Errorf("%d caches, %d streams", s.image.CacheCount(), s.image.TopicCount())
			}
		})
	}
	s := testState(t)
	if res := s.next(cluster.CreateResources{Caches: make([]cluster.NewCache, cluster.MaxCreateResources+1)}); errcode.Of(res.Err) != errcode.InvalidRequest {
		t.Errorf("too many: %+v", res)
	}
}

func TestRules(t *testing.T) {
	s := testState(t)
	policy := func(subject, object, action string) cluster.Policy {
		return cluster.Policy{Tenant: "default", Subject: subject, Object: object, Action: action}
	}
	good := policy("role:r", "stream:default/n/*", "stream.publish")
	for _, p := range []cluster.Policy{
		good, policy("role:a", "tenant:default", "tenant.manage"), policy("role:r", "stream:default/a/*", "stream.publish"), policy("p:o", "cluster:*", "node.view"),
		policy("group:https://idp#a b", "cache:default/n/c/k*", "cache.read"),
	} {
		if res := s.next(cluster.PutPolicy{Policy: p}); res.Err != nil || res.Unchanged {
			t.Errorf("%+v: %+v", p, res)
		}
	}
	if res := s.next(cluster.PutPolicy{Policy: good}); !res.Unchanged {
		t.Errorf("again: %+v", res)
	}
	for _, p := range []cluster.Policy{
		policy("", "tenant:default", "rbac.view"), policy("a\n", "tenant:default", "rbac.view"), policy("a\xff", "tenant:default", "rbac.view"),
		policy(strings.Repeat("s", 1025), "tenant:default", "rbac.view"), policy("a", "tenant:other", "rbac.view"), policy("a", "tenant:*", "rbac.view"),
		policy("a", "stream:*", "stream.publish"), policy("a", "node:*", "node.manage"), policy("a", "cluster:nodes", "node.view"), policy("a", "tenant:default", "no.such"),
		policy("a", "cache:default/n/c/k", "cache.manage"), policy("a", "", ""), policy("a", "stream:default/n/"+strings.Repeat("s", 1024), "stream.publish"),
	} {
		if res := s.next(cluster.PutPolicy{Policy: p}); errcode.Of(res.Err) != errcode.InvalidRequest {
			t.Errorf("%.80v: %v", p, res.Err)
		}
	}
	gone := good
	gone.Tenant, gone.Object = "none", "stream:none/n/*"
	if res := s.next(cluster.PutPolicy{Policy: gone}); errcode.Of(res.Err) != errcode.ResourceNotFound {
		t.Errorf("of no tenant: %v", res.Err)
	}
	var order []string
	for p := range s.image.PoliciesAfter(cluster.Policy{Tenant: "default"}) {
		order = append(order, p.Subject+" "+p.Object+" "+p.Action)
	}
	if len(order) != 5 || !slices.IsSorted(order) {
		t.Errorf("policies %q", order)
	}
	if err := s.next(cluster.DeletePolicy{Policy: policy("role:r", "stream:default/n/*", "stream.subscribe")}).Err; errcode.Of(err) != errcode.ResourceNotFound {
		t.Errorf("of none: %v", err)
	}
	if err := s.next(cluster.DeletePolicy{Policy: good}).Err; err != nil || s.image.HasPolicy(good) || s.image.PolicyCount() != 4 {
		t.Errorf("deleted: %v, %d left", err, s.image.PolicyCount())
	}

	pair := func(user, role string) cluster.Grouping {
		return cluster.Grouping{Tenant: "default", User: user, Role: role}
	}
	for _, g := range []cluster.Grouping{pair("p:a", "role:r"), pair("role:r", "role:s"), pair("role:s", "role:r"), pair("group:g", "role:t"), pair("p:b", "role:u")} {
		if res := s.next(cluster.PutGrouping{Grouping: g}); res.Err != nil || res.Unchanged {
			t.Errorf("%+v: %+v", g, res)
		}
	}
	if got := s.image.SubjectsOf("default", "p:a", "group:g"); !cmp.Equal(got, []string{"p:a", "group:g", "role:r", "role:t", "role:s"}) {
		t.Errorf("subjects %q", got)
	}
	for _, g := range []cluster.Grouping{pair("", "r"), pair("u", ""), pair("u\x00", "r"), pair("u", strings.Repeat("r", 1025)), pair("r", "r")} {
		if res := s.next(cluster.PutGrouping{Grouping: g}); errcode.Of(res.Err) != errcode.InvalidRequest {
			t.Errorf("%.80v: %v", g, res.Err)
		}
	}
	if err := s.next(cluster.DeleteGrouping{Grouping: pair("p:a", "role:none")}).Err; errcode.Of(err) != errcode.ResourceNotFound {
		t.Errorf("of none: %v", err)
	}
	if err := s.next(cluster.DeleteGrouping{Grouping: pair("p:a", "role:r")}).Err; err != nil || s.image.GroupingCount() != 4 {
		t.Errorf("deleted: %v", err)
	}
	s.next(cluster.DeleteTenant{Name: "default"})
	if s.image.PolicyCount() != 0 || s.image.GroupingCount() != 0 || s.image.RuleBytes() != 0 {
		t.Errorf("%d policies, %d groupings, %d bytes outlived the tenant", s.image.PolicyCount(), s.image.GroupingCount(), s.image.RuleBytes())
	}
}

func TestRulesOfATenantAreBounded(t *testing.T) {
	s := testState(t)
	b := cluster.NewBuilder(s.image)
	for i := range cluster.MaxPolicies {
		b.PutPolicy(cluster.Policy{Tenant: "default", Subject: fmt.Sprint("s", i), Object: "tenant:default", Action: "rbac.view"})
		b.PutGrouping(cluster.Grouping{Tenant: "default", User: fmt.Sprint("s", i), Role: "r"})
	}
	s.image = b.Build(s.image.Version() + 1)
	if res := s.next(cluster.PutPolicy{Policy: cluster.Policy{Tenant: "default", Subject: "s", Object: "tenant:default", Action: "rbac.view"}}); errcode.Of(res.Err) != errcode.PolicyViolation {
		t.Errorf("policies: %v", res.Err)
	}
	if res := s.next(cluster.PutGrouping{Grouping: cluster.Grouping{Tenant: "default", User: "u", Role: "r"}}); errcode.Of(res.Err) != errcode.PolicyViolation {
		t.Errorf("groupings: %v", res.Err)
	}
}

func TestPausePlacement(t *testing.T) {
	s := testState(t)
	for _, c := range []struct{ paused, unchanged bool }{{false, true}, {true, false}, {true, true}, {false, false}} {
		if res := s.next(cluster.PausePlacement{Paused: c.paused}); res.Err != nil || res.Unchanged != c.unchanged || s.image.PlacementPaused() != c.paused {
			t.Errorf("%+v: %+v", c, res)
		}
	}
}

// TestSnapshotWithoutCaches opens a snapshot that was written before there were caches and access rules, and goes on from it. Its bytes
// are never to be changed.
func TestSnapshotWithoutCaches(t *testing.T) {
	old, err := os.ReadFile("testdata/snapshot-v3-streams.bin")
	if err != nil {
		t.Fatal(err)
	}
	m, err := DecodeSnapshot(old, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.ClusterID() != "c" || m.Topic("t", "n", "full") == nil || len(m.Tenant("t").Keys) != 2 || m.CacheCount() != 0 || m.PolicyCount() != 0 || m.PlacementPaused() {
		t.Fatalf("cluster %q, %d topics, %d caches", m.ClusterID(), m.TopicCount(), m.CacheCount())
	}
	s := newState(m)
	for _, cmd := range resourceSamples() {
		s.next(cmd)
	}
	again, err := DecodeSnapshot(EncodeSnapshot(s.image), nil)
	if err != nil || !bytes.Equal(EncodeSnapshot(again), EncodeSnapshot(s.image)) || again.CacheCount() != 2 || again.PolicyCount() != 2 || !again.PlacementPaused() {
		t.Errorf("it is not kept as it was: %v", err)
	}
}
