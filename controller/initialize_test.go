package controller

import (
	"testing"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// TestInitializeTenant: once for a tenant, there or not, and all or nothing.
func TestInitializeTenant(t *testing.T) {
	s := testState(t)
	whole := func(name string, key int) cluster.InitializeTenant {
		return cluster.InitializeTenant{
			Name: name, DisplayName: "A", Key: cluster.KeyFromSeed(seed(key)),
			Policies:  []cluster.Policy{{Subject: "role:admin", Object: "tenant:" + name, Action: "tenant.manage"}, {Subject: "p:op", Object: "cluster:*", Action: "node.view"}},
			Groupings: []cluster.Grouping{{User: "p:a", Role: "role:admin"}},
		}
	}
	for _, spoil := range []func(*cluster.InitializeTenant){
		func(c *cluster.InitializeTenant) { c.Name = "a/b" },
		func(c *cluster.InitializeTenant) { c.Policies[1].Object = "tenant:other" },
		func(c *cluster.InitializeTenant) { c.Policies[1].Action = "no.such" },
		func(c *cluster.InitializeTenant) { c.Groupings[0].User = "" },
		func(c *cluster.InitializeTenant) { c.Key.Seed = nil },
	} {
		c := whole("acme", 1)
		spoil(&c)
		before := s.image
		if res := s.next(c); res.Err == nil {
			t.Errorf("%+v is taken", c)
		}
		if s.image.Tenant("acme") != nil || s.image.PolicyCount() != before.PolicyCount() || s.image.RuleBytes() != 0 {
			t.Error("something of a refused one stays")
		}
	}
	if res := s.next(whole("acme", 1)); res.Err != nil {
		t.Fatal(res.Err)
	}
	k, signs := s.image.Tenant("acme").CurrentKey()
	if !signs || k.ID != cluster.KeyFromSeed(seed(1)).ID || s.image.PolicyCount() != 2 || s.image.GroupingCount() != 1 || s.image.Tenant("acme").DisplayName != "A" {
		t.Errorf("tenant %+v with %d policies", s.image.Tenant("acme"), s.image.PolicyCount())
	}
	if res := s.next(whole("acme", 2)); conflict(res.Err) != cluster.ConflictInitialized {
		t.Errorf("again: %v", res.Err)
	}

	// One that exists keeps the key that signs, and what it was made with.
	s.next(cluster.CreateTenant{Name: "made", DisplayName: "M", Key: cluster.KeyFromSeed(seed(3))})
	c := whole("made", 4)
	c.DisplayName = ""
	if res := s.next(c); res.Err != nil {
		t.Fatal(res.Err)
	}
	if tenant := s.image.Tenant("made"); len(tenant.Keys) != 1 || tenant.Keys[0].ID != cluster.KeyFromSeed(seed(3)).ID || tenant.DisplayName != "M" || !tenant.Bootstrapped {
		t.Errorf("got %+v", tenant)
	}
	// One that was deleted is another one afterwards.
	s.next(cluster.DeleteTenant{Name: "acme"})
	if res := s.next(whole("acme", 5)); res.Err != nil || errcode.Of(res.Err) != errcode.OK {
		t.Errorf("after it was deleted: %v", res.Err)
	}
	again, err := DecodeSnapshot(EncodeSnapshot(s.image), nil)
	if err != nil || !again.Tenant("acme").Bootstrapped || again.Tenant("default").Bootstrapped {
		t.Errorf("a snapshot does not keep it: %v", err)
	}
}
