package cluster

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/felixlog/felix/internal/ids"
)

func id(n int) ids.TopicID {
	var t ids.TopicID
	binary.BigEndian.PutUint64(t[8:], uint64(n))
	return t
}

func put(t testing.TB, b *Builder, n int) *Topic {
	t.Helper()
	topic := &Topic{ID: id(n), Tenant: "default", Namespace: "default", Name: fmt.Sprintf("t%06d", n), Partitions: make([]Partition, 1)}
	if err := b.PutTopic(topic); err != nil {
		t.Fatal(err)
	}
	return topic
}

// TestImageAgainstModel builds many versions by random changes and compares each look-up, listing and Diff with plain maps, also on
// versions that were left behind: they must not change.
func TestImageAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type version struct {
		m     *Image
		model map[int]*Topic
	}
	versions := []version{{NewImage(nil), map[int]*Topic{}}}
	for v := range 200 {
		last := versions[len(versions)-1]
		b := NewBuilder(last.m)
		model := make(map[int]*Topic, len(last.model))
		for k, t := range last.model {
			model[k] = t
		}
		for range rng.IntN(30) {
			n := rng.IntN(400)
			switch have := model[n]; {
			case have == nil:
				model[n] = put(t, b, n)
			case rng.IntN(2) == 0:
				b.DeleteTopic(have)
				delete(model, n)
			default:
				c := have.Clone()
				c.Partitions = append(slices.Clone(c.Partitions), Partition{})
				if err := b.PutTopic(c); err != nil {
					t.Fatal(err)
				}
				model[n] = c
			}
		}
		versions = append(versions, version{b.Build(uint64(v + 1)), model})
	}
	for i, v := range versions {
		checkImage(t, v.m, v.model)
		from := versions[max(0, i-rng.IntN(5))]
		got := map[ids.TopicID][2]*Topic{}
		Diff(from.m, v.m, func(a, b *Topic) {
			k := a
			if k == nil {
				k = b
			}
			if _, twice := got[k.ID]; twice {
				t.Errorf("Diff called twice for %s", k.ID)
			}
			got[k.ID] = [2]*Topic{a, b}
		})
		for n := range 400 {
			a, b := from.model[n], v.model[n]
			if pair := got[id(n)]; a != b && pair != [2]*Topic{a, b} {
				t.Errorf("Diff of topic %d: got %v, want %v %v", n, pair, a, b)
			}
			if _, called := got[id(n)]; a == b && called {
				t.Errorf("Diff reports topic %d, which did not change", n)
			}
		}
	}
}

func checkImage(t *testing.T, m *Image, model map[int]*Topic) {
	t.Helper()
	partitions := 0
	for n := range 400 {
		want := model[n]
		if got := m.TopicByID(id(n)); got != want {
			t.Fatalf("version %d: TopicByID(%d) = %p, want %p", m.Version(), n, got, want)
		}
		if got := m.Topic("default", "default", fmt.Sprintf("t%06d", n)); got != want {
			t.Fatalf("version %d: Topic(%d) = %p, want %p", m.Version(), n, got, want)
		}
		if want != nil {
			partitions += len(want.Partitions)
		}
	}
	if m.TopicCount() != len(model) || m.PartitionCount() != partitions {
		t.Fatalf("version %d: counts %d, %d, want %d, %d", m.Version(), m.TopicCount(), m.PartitionCount(), len(model), partitions)
	}
	var names []string
	m.TopicsOf("default", func(topic *Topic) bool { names = append(names, topic.Name); return true })
	if len(names) != len(model) || !slices.IsSorted(names) {
		t.Fatalf("version %d: listing of %d names, sorted %t, want %d", m.Version(), len(names), slices.IsSorted(names), len(model))
	}
}

func TestTopicsOfKeepsTenantsApart(t *testing.T) {
	b := NewBuilder(NewImage(nil))
	for i, tenant := range []string{"b", "a", "c", "b"} {
		if err := b.PutTopic(&Topic{ID: id(i + 1), Tenant: tenant, Namespace: "n", Name: fmt.Sprint("t", i)}); err != nil {
			t.Fatal(err)
		}
	}
	m := b.Build(1)
	for tenant, want := range map[string]int{"a": 1, "b": 2, "c": 1, "": 0, "bb": 0, "d": 0} {
		got := 0
		m.TopicsOf(tenant, func(topic *Topic) bool {
			if topic.Tenant != tenant {
				t.Errorf("TopicsOf(%q) gives a topic of %q", tenant, topic.Tenant)
			}
			got++
			return true
		})
		if got != want {
			t.Errorf("TopicsOf(%q) gives %d topics, want %d", tenant, got, want)
		}
	}
}

func TestNodesTenantsNamespaces(t *testing.T) {
	b := NewBuilder(NewImage(nil))
	b.PutNode(Node{ID: "n2", Broker: 2, Live: true})
	b.PutNode(Node{ID: "n1", Broker: 1})
	b.PutTenant(Tenant{Name: "t"})
	b.PutNamespace(Namespace{Tenant: "t", Name: "b"})
	b.PutNamespace(Namespace{Tenant: "t", Name: "a"})
	b.PutNamespace(Namespace{Tenant: "t", Name: "a"})
	b.PutNamespace(Namespace{Tenant: "s", Name: "z"})
	m := b.Build(1)
	if got := m.Controller(); got != 2 {
		t.Errorf("Controller() = %d, want the live broker 2", got)
	}
	if n, ok := m.NodeByID("n1"); !ok || n.Broker != 1 {
		t.Errorf("NodeByID(n1) = %v, %t", n, ok)
	}
	if _, ok := m.Node(3); ok {
		t.Error("Node(3) exists")
	}
	if got := m.Namespaces("t"); len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("Namespaces(t) = %v", got)
	}
	if m.Namespace("t", "z") != nil || m.Namespace("s", "z") == nil || m.Tenant("t") == nil || m.Tenant("u") != nil {
		t.Error("look-up of tenants and namespaces is wrong")
	}
}

func TestLookUpsDoNotAllocate(t *testing.T) {
	b := NewBuilder(NewImage(nil))
	for n := range 1000 {
		put(t, b, n)
	}
	m := b.Build(1)
	target := id(500)
	if n := testing.AllocsPerRun(100, func() {
		if m.Topic("default", "default", "t000500") == nil || m.TopicByID(target) == nil {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("look-ups allocate %v times", n)
	}
}

func BenchmarkAddOneAmongTenThousand(b *testing.B) {
	build := NewBuilder(NewImage(nil))
	for n := range 10_000 {
		_ = build.PutTopic(&Topic{ID: id(n), Tenant: "default", Namespace: "default", Name: fmt.Sprint("t", n)})
	}
	m := build.Build(1)
	b.ReportAllocs()
	for b.Loop() {
		next := NewBuilder(m)
		_ = next.PutTopic(&Topic{ID: id(10_001), Tenant: "default", Namespace: "default", Name: "new"})
		next.Build(2)
	}
}

func BenchmarkTopicByName(b *testing.B) {
	build := NewBuilder(NewImage(nil))
	for n := range 10_000 {
		_ = build.PutTopic(&Topic{ID: id(n), Tenant: "default", Namespace: "default", Name: fmt.Sprint("t", n)})
	}
	m := build.Build(1)
	b.ReportAllocs()
	for b.Loop() {
		m.Topic("default", "default", "t777")
	}
}
