package controller

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// keysOf writes a tenant's keys as number:state, in their order.
func keysOf(m *cluster.Image, tenant string) string {
	var out []string
	for _, k := range m.Tenant(tenant).Keys {
		for n := range 20 {
			if cluster.KeyFromSeed(seed(n)).ID == k.ID {
				out = append(out, fmt.Sprintf("%d:%s", n, k.State))
			}
		}
	}
	return strings.Join(out, " ")
}

func TestSigningKeys(t *testing.T) {
	s := testState(t)
	key := func(n int) cluster.NewSigningKey { return cluster.KeyFromSeed(seed(n)) }
	put := func(n int) cluster.Command { return cluster.PutSigningKey{Tenant: "t", Key: key(n)} }
	activate := func(n int) cluster.Command { return cluster.ActivateSigningKey{Tenant: "t", ID: key(n).ID} }
	retire := func(n int) cluster.Command { return cluster.RetireSigningKey{Tenant: "t", ID: key(n).ID} }
	for i, c := range []struct {
		cmd  cluster.Command
		kind errcode.Kind
		code string
		want string
	}{
		{cluster.CreateTenant{Name: "t", Key: key(0)}, errcode.OK, "", "0:current"},
		{cluster.CreateTenant{Name: "t", Key: key(9)}, errcode.OK, "", "0:current"},
		{put(1), errcode.OK, "", "0:current 1:staged"},
		{put(1), errcode.OK, "", "0:current 1:staged"},
		{put(0), errcode.OK, "", "0:current 1:staged"},
		{put(2), errcode.OK, "", "0:current 1:staged 2:staged"},
		{retire(0), errcode.PolicyViolation, cluster.ConflictSigningKey, "0:current 1:staged 2:staged"},
		{activate(2), errcode.OK, "", "2:current 0:previous 1:staged"},
		{activate(2), errcode.OK, "", "2:current 0:previous 1:staged"},
		{activate(7), errcode.ResourceNotFound, "", "2:current 0:previous 1:staged"},
		{retire(7), errcode.ResourceNotFound, "", "2:current 0:previous 1:staged"},
		{retire(0), errcode.OK, "", "2:current 1:staged"},
		{activate(1), errcode.OK, "", "1:current 2:previous"},
		{activate(2), errcode.OK, "", "2:current 1:previous"},
		{cluster.PutSigningKey{Tenant: "t", Key: cluster.NewSigningKey{ID: key(1).ID, Seed: seed(5)}}, errcode.TopicExists, cluster.ConflictExists, "2:current 1:previous"},
		{cluster.PutSigningKey{Tenant: "t", Key: cluster.NewSigningKey{ID: "k", Seed: []byte("short")}}, errcode.Internal, "", "2:current 1:previous"},
		{cluster.PutSigningKey{Tenant: "t", Key: cluster.NewSigningKey{Seed: seed(5)}}, errcode.Internal, "", "2:current 1:previous"},
		{cluster.PutSigningKey{Tenant: "u", Key: key(5)}, errcode.ResourceNotFound, "", "2:current 1:previous"},
		{cluster.ActivateSigningKey{Tenant: "u", ID: key(1).ID}, errcode.ResourceNotFound, "", "2:current 1:previous"},
	} {
		res := s.next(c.cmd)
		if errcode.Of(res.Err) != c.kind || conflict(res.Err) != c.code {
			t.Errorf("step %d: %v, want %v %s", i, res.Err, c.kind, c.code)
		}
		if got := keysOf(s.image, "t"); got != c.want {
			t.Errorf("step %d: got %s, want %s", i, got, c.want)
		}
	}
	current, ok := s.image.Tenant("t").CurrentKey()
	if want := ed25519.NewKeyFromSeed(seed(2)).Public().(ed25519.PublicKey); !ok || !want.Equal(ed25519.PublicKey(current.Public)) {
		t.Errorf("current key %v, %t", current, ok)
	}
	back, err := DecodeSnapshot(EncodeSnapshot(s.image), nil)
	if err != nil || keysOf(back, "t") != keysOf(s.image, "t") {
		t.Errorf("after a snapshot: %v", err)
	}
	for n := 3; n < 3+cluster.MaxSigningKeys; n++ {
		res := s.next(put(n))
		if full := n-3 >= cluster.MaxSigningKeys-2; full != (conflict(res.Err) == cluster.ConflictTooManyKeys) {
			t.Errorf("key %d: %v", n, res.Err)
		}
	}
}

// TestFirstKey: a tenant from before there were keys gets its first one by staging and activating it.
func TestFirstKey(t *testing.T) {
	s := testState(t)
	if _, ok := s.image.Tenant("default").CurrentKey(); ok {
		t.Fatal("a tenant without keys has a current one")
	}
	k := cluster.KeyFromSeed(seed(0))
	s.next(cluster.PutSigningKey{Tenant: "default", Key: k})
	if _, ok := s.image.Tenant("default").CurrentKey(); ok {
		t.Error("a staged key signs")
	}
	if res := s.next(cluster.ActivateSigningKey{Tenant: "default", ID: k.ID}); res.Err != nil || keysOf(s.image, "default") != "0:current" {
		t.Errorf("%v: %s", res.Err, keysOf(s.image, "default"))
	}
}
