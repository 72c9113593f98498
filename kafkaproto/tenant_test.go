package kafkaproto

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// replaceTenant deletes a tenant with its topics, and with again makes one of its name that has a topic of each name too.
func (n *fakeNode) replaceTenant(name string, again bool) *cluster.Image {
	n.mu.Lock()
	var topics []string
	b := cluster.NewBuilder(n.image)
	n.image.TopicsOf(name, func(t *cluster.Topic) bool {
		topics = append(topics, t.Name)
		b.DeleteTopic(t)
		return true
	})
	b.DeleteTenant(name)
	version := n.image.Version() + 1
	b.SetTenantsDeleted(version)
	if again {
		b.PutTenant(cluster.Tenant{Name: name, Incarnation: version})
	}
	n.image = b.Build(version)
	n.mu.Unlock()
	if again {
		for _, topic := range topics {
			n.add("default", topic, 1)
		}
	}
	return n.Image()
}

// imageVerifier lets everybody in to the tenants that there are at a node, which is set once there is one.
type imageVerifier struct{ node atomic.Pointer[fakeNode] }

func newLoginHarness(t *testing.T, change func(*Options)) *harness {
	t.Helper()
	v := new(imageVerifier)
	h := newHarness(t, func(o *Options) {
		o.Verifier = v
		if change != nil {
			change(o)
		}
	})
	v.node.Store(h.node)
	return h
}

func (v *imageVerifier) VerifyPlain(_ context.Context, user, _ string) (Identity, error) {
	t := v.node.Load().Image().Tenant(user)
	if t == nil {
		return Identity{}, errcode.New(errcode.AuthenticationFailed, "there is no such tenant")
	}
	return Identity{Caller: Caller{Tenant: user, Principal: "p", Incarnation: t.Incarnation}}, nil
}

// TestConnectionsOfADeletedTenant: who is logged in to a tenant when it is deleted is let go, whether or not another one has its name by
// then: a request that is on its way finds it out by itself, one that waits is ended when the server is told.
func TestConnectionsOfADeletedTenant(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "made_again": true} {
		t.Run(name, func(t *testing.T) {
			h := newLoginHarness(t, nil)
			topic := h.node.add("default", "t", 1)
			asks, waits, idle, other := h.dial(), h.dial(), h.dial(), h.dial()
			for _, c := range []*client{asks, waits, idle} {
				c.logIn(testTenant)
			}
			other.logIn("t2")
			req := fetchRequestFor("t", 0)
			req.MaxWaitMillis = 30_000
			waits.send(req)
			eventually(t, "the fetch waits", func() bool { return h.node.shard(topic, 0).waiting() > 0 })

			img := h.node.replaceTenant(testTenant, again)
			asks.send(fetchRequestFor("t", 0))
			asks.wantClosed()
			h.srv.Apply(img)
			waits.wantClosed()
			idle.wantClosed()
			if resp := other.ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse); len(resp.Brokers) == 0 {
				t.Error("another tenant's connection gets nothing")
			}

			c := h.dial()
			handshake(c, 1, "PLAIN")
			resp := authenticate(c, 2, "\x00"+testTenant+"\x00secret")
			if want := map[bool]int16{false: errcode.AuthenticationFailed.Kafka(), true: 0}[again]; resp.ErrorCode != want {
				t.Fatalf("who logs in again gets code %d, want %d", resp.ErrorCode, want)
			}
			if again {
				if p := c.ask(fetchRequestFor("t", 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
					t.Errorf("in the new tenant: %+v", p)
				}
			}
		})
	}
}

// TestProduceToADeletedTenant: the streamed request of an old session writes nothing to a topic of the tenant that has the name now.
func TestProduceToADeletedTenant(t *testing.T) {
	h := newLoginHarness(t, nil)
	h.node.add("default", "t", 1)
	oneRecord = makeBatch(t, 1, []byte("x"))
	c := h.dial()
	c.logIn(testTenant)
	if code := produceCode0(c, produceRequestFor("t", 0, oneRecord)); code != "0@0" {
		t.Fatalf("produced: %s", code)
	}
	img := h.node.replaceTenant(testTenant, true)
	req := produceRequestFor("t", 0, slices.Clone(oneRecord))
	c.write(encode(req, 99))
	_ = c.nc.SetReadDeadline(time.Now().Add(time.Minute))
	answer := make([]byte, 1<<10)
	n, _ := c.nc.Read(answer) // an error code or the end: either will do
	if s := h.node.shard(img.Topic(testTenant, "default", "t"), 0); s.Bounds().HighWatermark != 0 {
		t.Errorf("the new tenant's topic has records: %+v, answer %x", s.Bounds(), answer[:n])
	}
}

// TestAnonymousTenantMadeAgain: nobody has logged in, so who comes back is let in to the tenant as it is now.
func TestAnonymousTenantMadeAgain(t *testing.T) {
	h := newHarness(t, nil)
	h.node.add("default", "t", 1)
	c := h.dial()
	c.ask(fetchRequestFor("t", 0))
	h.srv.Apply(h.node.replaceTenant(testTenant, true))
	c.wantClosed()
	if p := h.dial().ask(fetchRequestFor("t", 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Errorf("got %+v", p)
	}
}

// TestGroupsOfAnIncarnation: the coordinator is asked for the groups of the tenant that was logged in to.
func TestGroupsOfAnIncarnation(t *testing.T) {
	fake := newFakeGroups()
	h := newLoginHarness(t, func(o *Options) { o.Groups = fake })
	img := h.node.replaceTenant(testTenant, true)
	c := h.dial()
	c.logIn(testTenant)
	req := at(kmsg.NewPtrHeartbeatRequest(), 4)
	req.Group = "g"
	c.ask(req)
	want := groups.Key{Tenant: testTenant, Incarnation: img.TenantsDeleted(), Group: "g"}
	if asked := noted(fake, &fake.asked); len(asked) != 1 || asked[0] != want {
		t.Errorf("asked for %+v, want %+v", asked, want)
	}
}
