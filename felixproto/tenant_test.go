package felixproto

import (
	"testing"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/cluster"
)

// replaceTenant deletes tenant t1 with its streams, and with again makes one of its name that has a stream of each name too.
func (r *rig) replaceTenant(again bool) {
	r.t.Helper()
	var names []string
	r.meta.change(func(b *cluster.Builder) {
		var gone []*cluster.Topic
		b.Current().TopicsOf("t1", func(topic *cluster.Topic) bool { gone = append(gone, topic); return true })
		for _, topic := range gone {
			names = append(names, topic.Name)
			b.DeleteTopic(topic)
		}
		b.DeleteTenant("t1")
		b.SetTenantsDeleted(b.Current().Version() + 1)
		if again {
			b.PutTenant(cluster.Tenant{Name: "t1", Incarnation: b.Current().TenantsDeleted()})
			b.PutNamespace(cluster.Namespace{Tenant: "t1", Name: "default"})
		}
	})
	if again {
		for _, name := range names {
			r.stream(name, 1, true)
		}
	}
}

// TestStreamsOfADeletedTenant is native decision N14: what a stream asks for once its tenant was deleted is not found, also when another
// tenant has the name by then, and its subscriptions end. A new stream is let in by what the new tenant's keys say.
func TestStreamsOfADeletedTenant(t *testing.T) {
	scope := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "s"}
	for name, again := range map[string]bool{"deleted": false, "made_again": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			r.stream("s", 1, true)
			c := r.connect()
			s := c.openAs("t1", "admin", plainFlags, allFeatures)
			s.publish(1, "s", "old")
			if a := s.ack(); a.Failed {
				t.Fatalf("got %+v", a)
			}
			_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope})

			r.replaceTenant(again)
			s.publish(2, "s", "late")
			if a := s.ack(); !a.Failed || a.Code != wire.CodeNotFound {
				t.Errorf("a publish to it is answered %+v", a)
			}
			for _, m := range []wire.Message{
				&wire.StreamRead{StreamScope: scope, RequestID: 3}, &wire.StreamShards{StreamScope: scope, RequestID: 3},
				&wire.ShardOwners{Kind: wire.KindStream, TenantID: "t1", Namespace: "default", Name: "s", RequestID: 3},
				&wire.ProducerInit{StreamScope: scope, RequestID: 3}, &wire.Subscribe{StreamScope: scope}, &wire.Topology{},
				&wire.OffsetForTime{StreamScope: scope, RequestID: 3}, &wire.CacheShards{CacheScope: wire.CacheScope{TenantID: "t1", Namespace: "default", Cache: "c"}, RequestID: 3},
				&wire.ShardInspect{Kind: wire.KindStream, TenantID: "t1", Namespace: "default", Name: "s", RequestID: 3},
				&wire.SubscriptionsList{RequestID: 3},
			} {
				s.send(m)
				if e := expect[*wire.Error](s); e.Code != "not_found" || e.Retry != "retry_after" {
					t.Errorf("%T is answered %+v", m, e)
				}
			}
			for {
				if _, m, err := events.batch(); m != nil || err != nil {
					break // told, or at its end
				}
			}
			if again {
				if b := r.shardBounds("s"); b != 0 {
					t.Errorf("the new tenant's stream has %d records", b)
				}
			}
		})
	}
}

// shardBounds is the high watermark of a stream's only shard.
func (r *rig) shardBounds(name string) int64 {
	r.t.Helper()
	shard, err := r.broker.Shard(r.meta.Image().Topic("t1", "default", name), 0)
	must(r.t, err)
	return int64(shard.Bounds().HighWatermark)
}
