package api

import (
	"encoding/json"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

// publishedKeys are the keys of a tenant as verifiers take them, in their order.
func publishedKeys(t *cluster.Tenant) []auth.Key {
	keys := make([]auth.Key, len(t.Keys))
	for i, k := range t.Keys {
		keys[i] = auth.Key{ID: k.ID, Public: k.Public, Incarnation: t.Incarnation}
	}
	return keys
}

func keySet(c *call) (answer, error) {
	t := c.image.Tenant(c.params["tenant"])
	if t == nil {
		return answer{}, notFound("tenant %s does not exist", clip(c.params["tenant"]))
	}
	return ok(json.RawMessage(auth.AppendKeySet(nil, publishedKeys(t)))), nil
}

type keysBody struct {
	Current   string   `json:"current,omitempty"` // left out for a tenant that has none
	Verifying []string `json:"verifying"`
}

func listKeys(c *call) (answer, error) {
	if err := c.needTenant(); err != nil {
		return answer{}, err
	}
	b := keysBody{Verifying: []string{}}
	for _, k := range c.image.Tenant(c.params["tenant"]).Keys {
		if k.State == cluster.KeyCurrent {
			b.Current = k.ID
		} else {
			b.Verifying = append(b.Verifying, k.ID)
		}
	}
	return ok(b), nil
}

type keyBody struct {
	ID string `json:"kid"`
}

func stageKey(c *call) (answer, error) {
	if err := c.needTenant(); err != nil {
		return answer{}, err
	}
	k := newKey()
	if _, err := c.propose(cluster.PutSigningKey{Tenant: c.params["tenant"], Key: k}); err != nil {
		return answer{}, err
	}
	return created(keyBody{k.ID}), nil
}

func activateKey(c *call) (answer, error) {
	if err := c.needTenant(); err != nil {
		return answer{}, err
	}
	if _, err := c.propose(cluster.ActivateSigningKey{Tenant: c.params["tenant"], ID: c.params["kid"]}); err != nil {
		return answer{}, err
	}
	return done(), nil
}

func retireKey(c *call) (answer, error) {
	if err := c.needTenant(); err != nil {
		return answer{}, err
	}
	if _, err := c.propose(cluster.RetireSigningKey{Tenant: c.params["tenant"], ID: c.params["kid"]}); err != nil {
		return answer{}, err
	}
	return done(), nil
}
