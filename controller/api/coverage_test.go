package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

// plainlyCovers is the rule itself: every policy of a role and of all that it comes to lies inside, and there is one, or the whole tenant is
// in scope.
func plainlyCovers(s scope, role string) bool {
	some := false
	for _, subject := range s.call.image.SubjectsOf(acme, role) {
		for p := range s.call.image.PoliciesOf(acme, subject) {
			if !s.coversPolicy(p) {
				return false
			}
			some = true
		}
	}
	return some || s.whole
}

// TestCoverage holds what is found out for many roles together against the rule, over graphs with chains, circles and shared roles, asked in
// any order.
func TestCoverage(t *testing.T) {
	const roles = 9
	in, err := auth.ParseObject("namespace:acme/ns")
	if err != nil {
		t.Fatal(err)
	}
	var outcomes [2]int
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		name := func() string { return fmt.Sprintf("r%d", rnd.IntN(roles)) }
		b := cluster.NewBuilder(cluster.NewImage(nil))
		b.PutTenant(cluster.Tenant{Name: acme})
		for range rnd.IntN(2 * roles) {
			b.PutGrouping(cluster.Grouping{Tenant: acme, User: name(), Role: name()})
		}
		for range rnd.IntN(5) {
			object := []string{"stream:acme/ns/s", "stream:acme/ns/*", "stream:acme/else/s"}[rnd.IntN(3)]
			b.PutPolicy(cluster.Policy{Tenant: acme, Subject: name(), Object: object, Action: "stream.publish"})
		}
		c := &call{
			params: map[string]string{"tenant": acme}, request: httptest.NewRequest(http.MethodGet, "/", http.NoBody), image: b.Build(1),
			identity: &auth.Identity{},
		}
		s := scope{call: c, objects: []auth.Object{in}, whole: rnd.IntN(2) == 0}
		together := s.coverage()
		for _, i := range append(rnd.Perm(roles), rnd.Perm(roles)...) {
			role := fmt.Sprintf("r%d", i)
			want := plainlyCovers(s, role)
			got, err := together.coversRole(role)
			alone, aloneErr := s.coverage().coversRole(role)
			if err != nil || aloneErr != nil || got != want || alone != want {
				t.Fatalf("seed %d: %s: together %t, %v, alone %t, %v, want %t", seed, role, got, err, alone, aloneErr, want)
			}
			if want {
				outcomes[1]++
			} else {
				outcomes[0]++
			}
		}
	}
	if min(outcomes[0], outcomes[1]) < 2000 {
		t.Errorf("the graphs show little: %v", outcomes)
	}
}

// TestCostOfAChainOfRoles: a listing of groupings costs what there is and not its square, however the roles hang together, and ends when its
// caller is gone.
func TestCostOfAChainOfRoles(t *testing.T) {
	r := newRig(t)
	token := r.token(acme, "rbac.view:tenant:acme")
	none := func(int) string { return "" }
	const few, many = 300, 8 * 300
	grow := func(from, to int) {
		for i := from; i < to; i++ {
			r.propose(cluster.PutGrouping{Grouping: cluster.Grouping{Tenant: acme, User: fmt.Sprintf("r%05d", i), Role: fmt.Sprintf("r%05d", i+1)}})
		}
	}
	const path = "/v1/tenants/acme/rbac/groupings"
	grow(0, few)
	before := r.bytesOf(http.StatusOK, http.MethodGet, path, token, none)
	grow(few, many)
	if after := r.bytesOf(http.StatusOK, http.MethodGet, path, token, none); after > 2*many/few*before {
		t.Errorf("%d groupings cost %d bytes, %d cost %d", few, before, many, after)
	}
	if n := len(r.do(http.MethodGet, path, token, "").list); n != many {
		t.Errorf("%d are listed, want %d", n, many)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r.s.httpAPI.Handler.ServeHTTP(w, request(http.MethodGet, path, token, "").WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("a caller that is gone is answered %d", w.Code)
	}
}
