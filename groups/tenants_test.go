package groups

import (
	"testing"

	"github.com/felixlog/felix/internal/cluster"
)

// again is testKey of the tenant that replaceTenant makes at version 7.
var again = Key{Tenant: testKey.Tenant, Incarnation: 7, Group: testKey.Group}

// TestDeletedTenant: the groups of a tenant that was deleted go, members or not, and the next tenant of its name starts with none, before
// the coordinator has heard of the deletion and after it, and after a restart too.
func TestDeletedTenant(t *testing.T) {
	h := newHarness(t)
	h.committed(testKey, 1, 2)
	live := Key{Tenant: "t", Group: "live"}
	h.settled(live)
	waiting := h.join(live, "") // a second member: the group rebalances, and the first has not come back
	stays := Key{Tenant: "u", Group: "g"}
	h.committed(stays, 9)

	// Nothing is told yet: who has logged in to the new tenant must not see the old one's groups all the same.
	if got := h.offsetOf(again, 0); got != -1 {
		t.Errorf("the next tenant of the name sees offset %d", got)
	}
	if err := h.c.List("t", again.Incarnation, func(o Overview) bool { t.Errorf("and lists %+v", o); return true }); err != nil {
		t.Error(err)
	}
	if _, err := h.c.Describe(again); err == nil {
		t.Error("and describes a group")
	}
	h.committed(again, 5)

	h.setImage(h.replaceTenant(7, "t"))
	if r := receive(t, waiting); r.Err == nil {
		t.Errorf("a member of a group that went has joined: %+v", r)
	}
	h.until("the groups are gone", func() bool { return len(h.listed("t")) == 0 })
	for range 2 {
		if got, old, other := h.offsetOf(again, 0), h.offsetOf(testKey, 0), h.offsetOf(stays, 0); got != 5 || old != -1 || other != 9 {
			t.Errorf("offsets: new tenant %d, old one %d, another tenant %d, want 5, -1, 9", got, old, other)
		}
		h.c.ExpireOnce()
		h.restart()
	}
	// The tombstones are in the log: what nobody is told of any more does not come back either.
	b := cluster.NewBuilder(h.image0())
	b.DeleteTenant("t")
	b.PutTenant(cluster.Tenant{Name: "t"})
	h.mu.Lock()
	h.img = b.Build(9)
	h.mu.Unlock()
	h.restart()
	if n := len(h.listed("t")); n != 0 {
		t.Errorf("%d groups are back after a restart", n)
	}
}

// TestTenantDeletedWhileAway: a load removes the groups of tenants that the metadata does not know.
func TestTenantDeletedWhileAway(t *testing.T) {
	h := newHarness(t)
	h.committed(testKey, 1)
	wantErr(t, h.c.Close(t.Context()), nil)
	h.img = h.replaceTenant(7, "t")
	h.start()
	if got := h.offsetOf(testKey, 0); got != -1 {
		t.Errorf("offset %d is left", got)
	}
	h.until("the tombstone is written", func() bool {
		s := h.c.shardFor(testKey)
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.writing && len(s.queue) == 0
	})
	r := newReplay()
	wantErr(t, h.log(testKey).Scan(t.Context(), r.batch), nil)
	for id, l := range r.groups {
		if l.value != nil || len(l.offsets) > 0 {
			t.Errorf("group %q is in the log still", id)
		}
	}
}

// TestLateCallOfADeletedTenant: a request that was on its way when its tenant went makes a group that nobody sees and that does not stay.
func TestLateCallOfADeletedTenant(t *testing.T) {
	h := newHarness(t)
	h.setImage(h.replaceTenant(7, "t"))
	h.committed(testKey, 1)
	if got := h.offsetOf(again, 0); got != -1 {
		t.Errorf("the new tenant sees offset %d", got)
	}
	h.c.ExpireOnce()
	h.until("the group is gone", func() bool { return h.offsetOf(testKey, 0) == -1 })
}

// TestLateImage: the image that the coordinator is told of is older than the newest one, by which a client of the next tenant, or one of a
// topic that was made since, has come in. What it committed stays.
func TestLateImage(t *testing.T) {
	between := func(h *harness) *cluster.Image {
		b := cluster.NewBuilder(h.image0())
		b.DeleteTenant("t")
		b.SetTenantsDeleted(7)
		return b.Build(7)
	}
	tests := []struct {
		name   string
		late   func(*harness) *cluster.Image
		newest func(*harness) *cluster.Image
		key    Key
	}{
		{"tenant_made_again", between, func(h *harness) *cluster.Image { return h.replaceTenant(7, "t") }, again},
		{"topic_made", func(h *harness) *cluster.Image { return h.image(1) }, func(h *harness) *cluster.Image { return h.image(1, topicA) }, testKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t)
			h.committed(testKey, 1)
			late, newest := tt.late(h), tt.newest(h)
			h.mu.Lock()
			h.img = newest
			h.mu.Unlock()
			h.committed(tt.key, 5)
			h.c.Apply(late)
			h.c.ExpireOnce()
			h.restart()
			if got := h.offsetOf(tt.key, 0); got != 5 {
				t.Errorf("offset %d, want the 5 that was acknowledged", got)
			}
		})
	}
}

// TestLoadBeforeTheTenantIsKnown: a leader whose metadata is behind finds groups of a tenant that it has not heard of, and keeps them. The
// next one of the name, once it is known, puts an end to them.
func TestLoadBeforeTheTenantIsKnown(t *testing.T) {
	h := newHarness(t)
	h.setImage(h.replaceTenant(7, "t"))
	known := h.image0()
	h.committed(again, 5)
	b := cluster.NewBuilder(known)
	b.DeleteTenant("t")
	behind := b.Build(6)
	for _, step := range []struct {
		img  *cluster.Image
		want int64
	}{{behind, 5}, {known, 5}} {
		h.mu.Lock()
		h.img = step.img
		h.mu.Unlock()
		h.restart()
		h.c.ExpireOnce()
		if got := h.offsetOf(again, 0); got != step.want {
			t.Errorf("offset %d, want %d", got, step.want)
		}
	}
	h.setImage(h.replaceTenant(9, "t"))
	h.until("the group is gone", func() bool { return h.offsetOf(again, 0) == -1 })
}
