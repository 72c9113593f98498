package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestSeedsAreNotShown: no verb and no encoder brings out a seed by way of what holds it.
func TestSeedsAreNotShown(t *testing.T) {
	seed := []byte(strings.Repeat("S", 32))
	k := KeyFromSeed(seed)
	tenant := Tenant{Name: "t", Keys: []SigningKey{k.Key(KeyCurrent)}}
	create := CreateTenant{Name: "t", Key: k}
	marks := []string{"SSS", "83 83", "0x53", "5353", "U1NT"}
	for _, v := range []any{tenant, &tenant, tenant.Keys, &tenant.Keys[0], k, create, PutSigningKey{Tenant: "t", Key: k}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
			text := fmt.Sprintf(verb, v)
			for _, m := range marks {
				if strings.Contains(text, m) {
					t.Errorf("%s of %T shows the seed: %s", verb, v, text)
				}
			}
		}
		if b, err := json.Marshal(v); err == nil {
			t.Errorf("%T has a JSON form: %s", v, b)
		}
	}
	if len(k.ID) != 16 || KeyFromSeed(seed).ID != k.ID {
		t.Errorf("id %q", k.ID)
	}
}

func TestStreamWords(t *testing.T) {
	for _, w := range []string{"Stream", "Queue"} {
		if k, err := ParseStreamKind(w); err != nil || k.String() != w {
			t.Errorf("%s: %v, %v", w, k, err)
		}
	}
	for _, w := range []string{"AtLeastOnce", "AtMostOnce"} {
		if d, err := ParseDelivery(w); err != nil || d.String() != w {
			t.Errorf("%s: %v, %v", w, d, err)
		}
	}
	for _, w := range []string{"modulo", "jump_hash"} {
		if r, err := ParseRouting(w); err != nil || r.String() != w {
			t.Errorf("%s: %v, %v", w, r, err)
		}
	}
	for _, w := range []string{"", "stream", "STREAM", "Cache"} {
		if _, err := ParseStreamKind(w); err == nil {
			t.Errorf("%q is a kind", w)
		}
	}
	if got := StreamKind(9).String(); got != "unknown" {
		t.Errorf("kind 9 is %q", got)
	}
}
