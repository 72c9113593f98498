package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// TestIncarnations makes tenants of one name again and again: none of them is taken for another, also next to tenants that come and go.
func TestIncarnations(t *testing.T) {
	s := testState(t)
	seen := map[uint64]bool{}
	for i := range 4 {
		for _, cmd := range []cluster.Command{cluster.CreateTenant{Name: "t"}, cluster.CreateTenant{Name: fmt.Sprint("other", i)}} {
			if res := s.next(cmd); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		now := s.image.Tenant("t").Incarnation
		if seen[now] || !s.image.HasTenant("t", now) {
			t.Errorf("incarnation %d is used twice", now)
		}
		seen[now] = true
		s.next(cluster.CreateTenant{Name: "t"}) // it exists: the same one stays
		if !s.image.HasTenant("t", now) {
			t.Error("a tenant that exists became another one")
		}
		if res := s.next(cluster.PutSigningKey{Tenant: "t", Key: cluster.KeyFromSeed(seed(i))}); res.Err != nil || !s.image.HasTenant("t", now) {
			t.Errorf("%v, or a new key made it another one", res.Err)
		}
		if res := s.next(cluster.DeleteTenant{Name: "t"}); res.Err != nil || s.image.HasTenant("t", now) {
			t.Errorf("%v, or it is there still", res.Err)
		}
	}
	if !seen[0] {
		t.Error("a cluster that never deleted a tenant has incarnations: what it stored before there were any would be lost")
	}
}

// TestGuard: what somebody asked for in a tenant that was deleted since changes nothing in the next one of its name, dry or not.
func TestGuard(t *testing.T) {
	c := openController(t)
	propose := func(cmd cluster.Command) cluster.Result {
		t.Helper()
		res, err := c.Propose(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	propose(cluster.RegisterNode{ID: "n", KafkaHost: "h", KafkaPort: 1})
	guarded := func(name string, dry bool) cluster.Guarded {
		topics := []cluster.NewTopic{{ID: topicID(len(name)), Tenant: "t", Namespace: "n", Name: name, CreateNamespace: true, Partitions: 1, ReplicationFactor: 1}}
		return cluster.Guarded{Tenant: "t", Command: cluster.CreateTopics{Topics: topics, ValidateOnly: dry}}
	}
	propose(cluster.CreateTenant{Name: "t"})
	for _, dry := range []bool{true, false} {
		if res := propose(guarded("s", dry)); res.Err != nil || res.Items[0].Err != nil {
			t.Errorf("in its own tenant: %+v", res)
		}
	}
	if c.Image().Topic("t", "n", "s") == nil {
		t.Error("a guarded command was not carried out")
	}
	propose(cluster.DeleteTenant{Name: "t"})
	for _, again := range []bool{false, true} {
		if again {
			propose(cluster.CreateTenant{Name: "t"})
		}
		for _, dry := range []bool{true, false} {
			if res := propose(guarded("late", dry)); errcode.Of(res.Err) != errcode.ResourceNotFound || res.Items != nil {
				t.Errorf("in the next tenant (%v): %+v", again, res)
			}
		}
	}
	if n := c.Image().TopicCount(); n != 0 {
		t.Errorf("the next tenant has %d topics", n)
	}
	late := guarded("late", false)
	late.Incarnation = c.Image().Tenant("t").Incarnation
	if res := propose(late); res.Err != nil || res.Items[0].Err != nil {
		t.Errorf("of the next tenant: %+v", res)
	}
}

// TestShares: a tenant cannot take what is left for all others of anything that the whole cluster has so much of, and the others go on.
func TestShares(t *testing.T) {
	const most = errcode.PolicyViolation
	rule := func(tenant string, i int) cluster.Policy {
		return cluster.Policy{Tenant: tenant, Subject: fmt.Sprintf("p:%05d", i), Object: "tenant:" + tenant, Action: "tenant.manage"}
	}
	cases := []struct {
		name string
		fill func(b *cluster.Builder) // tenant a has half of all
		more func(tenant string) cluster.Command
	}{
		{
			"namespaces", func(b *cluster.Builder) {
				for i := b.Current().NamespaceCount(); i < cluster.MaxNamespaces/2; i++ {
					b.PutNamespace(cluster.Namespace{Tenant: "a", Name: fmt.Sprintf("n%06d", i)})
				}
			},
			func(tenant string) cluster.Command { return cluster.CreateNamespace{Tenant: tenant, Name: "more"} },
		},
		{
			"streams", func(b *cluster.Builder) {
				for i := range cluster.MaxTopics / 2 {
					_ = b.PutTopic(&cluster.Topic{ID: topicID(1000 + i), Tenant: "a", Namespace: "ns", Name: fmt.Sprintf("s%06d", i), Consistency: cluster.ConsistencyLeader})
				}
			},
			func(tenant string) cluster.Command {
				return cluster.CreateTopics{Topics: []cluster.NewTopic{{
					ID: topicID(len(tenant)), Tenant: tenant, Namespace: "ns", Name: "more", Partitions: 1, ReplicationFactor: 1,
				}}}
			},
		},
		{
			"caches", func(b *cluster.Builder) {
				for i := range cluster.MaxCaches / 2 {
					b.PutCache(&cluster.Cache{ID: topicID(1000 + i), Tenant: "a", Namespace: "ns", Name: fmt.Sprintf("c%06d", i), Shards: 1, ReplicationFactor: 1})
				}
			},
			func(tenant string) cluster.Command {
				return cluster.CreateResources{Caches: []cluster.NewCache{{
					TopicRef: cluster.TopicRef{ID: topicID(len(tenant)), Tenant: tenant, Namespace: "ns", Name: "more"}, Shards: 1, ReplicationFactor: 1,
				}}}
			},
		},
		{
			"rules", func(b *cluster.Builder) {
				for i := 0; b.Current().RuleBytes() < cluster.MaxRuleBytes/2; i++ {
					b.PutGrouping(cluster.Grouping{Tenant: "a", User: fmt.Sprintf("%0*d", cluster.MaxSubjectLength, i), Role: strings.Repeat("r", 50_000)})
				}
			},
			func(tenant string) cluster.Command { return cluster.PutPolicy{Policy: rule(tenant, 1)} },
		},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			s := newState(cluster.NewImage(nil))
			for _, cmd := range []cluster.Command{
				cluster.Bootstrap{ClusterID: "c", Tenant: "a", Namespace: "ns"}, cluster.RegisterNode{ID: "n", KafkaHost: "h", KafkaPort: 1},
			} {
				if res := s.next(cmd); res.Err != nil {
					t.Fatal(res.Err)
				}
			}
			b := cluster.NewBuilder(s.image)
			tt.fill(b)
			alone := newState(b.Build(s.image.Version() + 1))
			b = cluster.NewBuilder(alone.image)
			b.PutTenant(cluster.Tenant{Name: "other"})
			b.PutNamespace(cluster.Namespace{Tenant: "other", Name: "ns"})
			s = newState(b.Build(alone.image.Version() + 1))
			guarded := func(s *state, tenant string, cmd cluster.Command) errcode.Kind {
				res := s.next(cluster.Guarded{Tenant: tenant, Command: cmd})
				for _, item := range res.Items {
					if res.Err == nil {
						res.Err = item.Err
					}
				}
				return errcode.Of(res.Err)
			}
			if kind := guarded(alone, "a", tt.more("a")); kind != errcode.OK {
				t.Errorf("alone: %v", kind)
			}
			had := EncodeSnapshot(s.image)
			if kind := guarded(s, "a", tt.more("a")); kind != most {
				t.Errorf("more than its share: %v", kind)
			}
			b = cluster.NewBuilder(s.image)
			if now := EncodeSnapshot(b.Build(s.image.Version() - 1)); string(now) != string(had) {
				t.Error("what was refused changed something")
			}
			if kind := guarded(s, "other", tt.more("other")); kind != errcode.OK {
				t.Errorf("the other tenant: %v", kind)
			}
			if res := s.next(tt.more("a")); res.Err != nil || len(res.Items) > 0 && res.Items[0].Err != nil {
				t.Errorf("from an older log: %+v", res)
			}
		})
	}
}

// TestLimitsOfTheWhole fills the metadata up to each limit: one more is refused with a sentence, and room that is made can be used again.
func TestLimitsOfTheWhole(t *testing.T) {
	const level = errcode.PolicyViolation
	cases := []struct {
		name string
		fill func(b *cluster.Builder)
		more cluster.Command
		room cluster.Command // makes it possible
	}{
		{
			"tenants", func(b *cluster.Builder) {
				for i := len(b.Current().Tenants()); i < cluster.MaxTenants; i++ {
					b.PutTenant(cluster.Tenant{Name: fmt.Sprintf("t%06d", i)})
				}
			},
			cluster.CreateTenant{Name: "more"},
			cluster.DeleteTenant{Name: "t000100"},
		},
		{
			"namespaces", func(b *cluster.Builder) {
				for i := b.Current().NamespaceCount(); i < cluster.MaxNamespaces; i++ {
					b.PutNamespace(cluster.Namespace{Tenant: "default", Name: fmt.Sprintf("n%06d", i)})
				}
			},
			cluster.CreateNamespace{Tenant: "default", Name: "more"},
			cluster.DeleteNamespace{Tenant: "default", Name: "n000100"},
		},
		{
			"streams", func(b *cluster.Builder) {
				for i := b.Current().TopicCount(); i < cluster.MaxTopics; i++ {
					if err := b.PutTopic(&cluster.Topic{ID: topicID(i + 100), Tenant: "default", Namespace: "default", Name: fmt.Sprintf("s%06d", i)}); err != nil {
						t.Fatal(err)
					}
				}
			},
			cluster.CreateStreams{Streams: []cluster.NewStream{stream(1, "more")}},
			cluster.DeleteTopics{Topics: []cluster.TopicRef{{Tenant: "default", Namespace: "default", Name: "s000100"}}},
		},
		{
			"configurations", func(b *cluster.Builder) {
				b.PutNamespace(cluster.Namespace{Tenant: "default", Name: "big"})
				bigTopic(b, strings.Repeat("x", cluster.MaxOverrideBytes/1024-4))
			},
			cluster.CreateStreams{Streams: []cluster.NewStream{stream(1, "more", func(n *cluster.NewStream) { n.Retention.Ms = 1000 })}},
			cluster.DeleteNamespace{Tenant: "default", Name: "big"},
		},
	}
	for _, c := range cases {
		if raceEnabled && c.name == "streams" {
			continue // a quarter of a million of them take too long with the race detector
		}
		t.Run(c.name, func(t *testing.T) {
			s := testState(t)
			b := cluster.NewBuilder(s.image)
			c.fill(b)
			s.image = b.Build(s.image.Version() + 1)
			res := s.next(c.more)
			if err := outcomeOf(res); errcode.Of(err) != level || !strings.Contains(err.Error(), "as many as") {
				t.Errorf("one more: %v", err)
			}
			if err := outcomeOf(s.next(c.room)); err != nil {
				t.Fatal(err)
			}
			if err := outcomeOf(s.next(c.more)); err != nil {
				t.Errorf("one more, after one went: %v", err)
			}
		})
	}
}

// bigTopic adds a topic with 1024 configurations of one text and names of 4 bytes. They are put in behind PutTopic, which would not take
// them.
func bigTopic(b *cluster.Builder, text string) {
	t := &cluster.Topic{ID: topicID(99), Tenant: "default", Namespace: "big", Name: "big", Config: b.Current().Defaults(), Overrides: map[string]string{}}
	for i := range 1024 {
		t.Overrides[fmt.Sprintf("%04d", i)] = text
	}
	b.ReplaceTopic(nil, t)
}

func outcomeOf(res cluster.Result) error {
	if res.Err != nil || len(res.Items) == 0 {
		return res.Err
	}
	return res.Items[0].Err
}

// TestLimitsBoundSnapshots adds up the largest snapshot that the limits allow: it must be one that can be read back.
func TestLimitsBoundSnapshots(t *testing.T) {
	const (
		number    = 10 // the longest
		tenant    = 2*cluster.MaxDisplayNameLength + cluster.MaxSigningKeys*(maxKeyIDLength+64) + number
		namespace = cluster.MaxNameLength + cluster.MaxDisplayNameLength + 2*number
		topic     = 16 + 3*cluster.MaxTopicLength + cluster.MaxNameLength + 16*number
		partition = 3 * number
		quota     = cluster.MaxNameLength + 2*cluster.MaxQuotaNameLength + 8*number
		cache     = 16 + 3*cluster.MaxNameLength + cluster.MaxCacheTitle + 8*number
		// A rule has four texts of at least a byte, each with its length before it.
		rules      = 3 * cluster.MaxRuleBytes
		everything = cluster.MaxTenants*tenant + cluster.MaxNamespaces*namespace + cluster.MaxTopics*topic + cluster.MaxPartitions*partition +
			cluster.MaxQuotas*quota + 2*cluster.MaxOverrideBytes + 16*cluster.MaxRemembered +
			cluster.MaxCaches*cache + rules
	)
	if everything > maxSnapshotBytes {
		t.Errorf("the limits allow a snapshot of %d bytes, and %d can be read", everything, maxSnapshotBytes)
	}
	t.Logf("at most %d MiB", everything>>20)
}
