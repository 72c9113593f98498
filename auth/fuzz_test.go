package auth

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzToken: whatever comes as a token, nothing panics; what verifies was signed by us over these very bytes, and reads the same twice.
func FuzzToken(f *testing.F) {
	signer := newSigner(f, "k1", 1)
	good := mint(f, goodClaims(f), signer)
	for _, seed := range []string{
		"", ".", "..", "a.b.c", good, good[:len(good)-1], good + "A", strings.ToUpper(good), hs256(f, signer),
		handmade(f, goodHeader, rawClaims(func(c map[string]any) { c["perms"] = 7 }), signer),
		handmade(f, goodHeader, `{"iss":"felix-auth","iss":1}`, signer),
		handmade(f, map[string]any{"alg": "none"}, rawClaims(nil), signer),
		handmade(f, `{"alg":"EdDSA","crit":["x"]}`, `{"a":{"a":{"a":[[[]]]}}}`, signer),
	} {
		f.Add(seed)
	}
	v, err := NewVerifier(VerifierOptions{
		Audience: AudienceBroker, Keys: &fixedKeys{keys: map[string][]Key{"t1": {signer.Key()}}}, Now: func() time.Time { return start }, CacheBytes: -1,
	})
	if err != nil {
		f.Fatal(err)
	}
	known := map[string]bool{good: true}
	f.Fuzz(func(t *testing.T, token string) {
		id, err := v.Verify(t.Context(), "t1", token)
		if (id == nil) == (err == nil) {
			t.Fatalf("got %v and %v", id, err)
		}
		if err != nil && token != "" && len(token) > 20 && strings.Contains(DetailOf(err), token) {
			t.Errorf("the refusal repeats the token")
		}
		if err == nil && !known[token] {
			// Only what the seeds hold was signed: everything else that verifies is a forgery.
			t.Errorf("%q verifies", token)
		}
		u, err := Look(token)
		if err == nil {
			if again, err := Look(token); err != nil || cmp.Diff(u, again) != "" {
				t.Errorf("reads differently the second time: %v", err)
			}
		}
	})
}

// FuzzPermission: what parses is written as it was read, is allowed where it says, and nowhere in another tenant.
func FuzzPermission(f *testing.F) {
	for _, seed := range []string{
		"", ":", "stream.publish:stream:t1/ns/orders", "tenant.manage:tenant:t1", "tenant.manage:cluster:*", "node.manage:node:n1",
		"cache.read:cache:t1/ns/c/room1/*", "group.consume:group:t1/ns/*/*", "stream.fly:stream:t1/a/b", "ns.manage:namespace:t1/*",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		p, err := ParsePermission(in)
		if err != nil {
			if len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if p.String() != in {
			t.Errorf("%q is written as %q", in, p)
		}
		o := p.Object
		g := NewGrants(o.Tenant, []Permission{p})
		if o.Kind == StreamObject && !g.Allowed(p.Action, o.Tenant, o.Namespace, o.Name) {
			t.Errorf("%q does not allow itself", in)
		}
		other := o.Tenant + "x"
		if g.Allowed(p.Action, other, o.Namespace, o.Name) || g.AllowedCache(p.Action, other, o.Namespace, o.Name) ||
			g.AllowedGroup(p.Action, other, o.Namespace, o.Name, o.Leaf) || g.AllowedTenant(p.Action, other) {
			t.Errorf("%q allows something in another tenant", in)
		}
		for _, e := range Expand([]Permission{p}) {
			if back, err := ParsePermission(e.String()); err != nil || back != e {
				t.Errorf("%q expands to %q, which reads as %v, %v", in, e, back, err)
			}
		}
	})
}

// FuzzObject: what parses is written as it was read, and a wildcard stands only where the grammar has one.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{
		"", "tenant:t1", "namespace:t1/*", "stream:t1/ns/orders", "stream:t1/*/*", "cache:t1/ns/c/k", "cache:t1/ns/c/k*", "group:t1/ns/s/g", "cluster:*",
		"node:n1", "stream:t1/*/orders", "tenant:*",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		o, err := ParseObject(in)
		if err != nil {
			return
		}
		if o.String() != in {
			t.Errorf("%q is written as %q", in, o)
		}
		if o.Kind == ClusterObject {
			return
		}
		if strings.Contains(o.Tenant, Any) || o.Namespace == Any && o.Name != Any && o.Kind != NamespaceObject || o.Kind == NodeObject && strings.Contains(o.Name, Any) {
			t.Errorf("%q has a wildcard where none may be: %+v", in, o)
		}
	})
}

// FuzzKeySet: what parses is written and read back equal.
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[]}`))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AQAB"}]}`))
	f.Add(AppendKeySet(nil, []Key{newSigner(f, "k1", 1).Key()}))
	f.Fuzz(func(t *testing.T, in []byte) {
		keys, err := ParseKeySet(in)
		if err != nil {
			return
		}
		text := AppendKeySet(nil, keys)
		again, err := ParseKeySet(text)
		if len(text) > MaxKeySetBytes {
			return // ids that grow when they are escaped
		}
		if err != nil || !bytes.Equal(text, AppendKeySet(nil, again)) {
			t.Errorf("%s reads as another set: %v", text, err)
		}
	})
}
