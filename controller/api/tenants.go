package api

import (
	"crypto/ed25519"
	"crypto/rand"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

// maxDisplayName bounds names that people are shown, in bytes.
const maxDisplayName = 256

type tenantBody struct {
	TenantID     string `json:"tenant_id"`
	DisplayName  string `json:"display_name"`
	Bootstrapped bool   `json:"bootstrapped,omitempty" about:"it was initialized"`
}

func tenantOf(t *cluster.Tenant) any { return tenantBody{t.Name, t.DisplayName, t.Bootstrapped} }

func listTenants(c *call) (answer, error) {
	if err := c.needCluster(auth.TenantManage); err != nil {
		return answer{}, err
	}
	p, err := c.pageOf("tenants", 1)
	if err != nil {
		return answer{}, err
	}
	return ok(fill(p, behind(c.image.Tenants(), p, func(t *cluster.Tenant) string { return t.Name }),
		func(t *cluster.Tenant) []string { return []string{t.Name} }, tenantOf)), nil
}

// behind iterates over what of a sorted list follows the start of a page whose keys are one name.
func behind[T any](list []T, p page, name func(T) string) iter.Seq[T] {
	if p.after != nil {
		i, found := slices.BinarySearchFunc(list, p.after[0], func(v T, after string) int { return strings.Compare(name(v), after) })
		if found {
			i++
		}
		list = list[i:]
	}
	return slices.Values(list)
}

func getTenant(c *call) (answer, error) {
	if err := c.needOperator(); err != nil {
		return answer{}, err
	}
	return ok(tenantOf(c.image.Tenant(c.params["tenant"]))), nil
}

func createTenant(c *call) (answer, error) {
	if err := c.needCluster(auth.TenantManage); err != nil {
		return answer{}, err
	}
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	cmd := cluster.CreateTenant{Key: newKey()}
	if cmd.Name, err = b.name("tenant_id"); err != nil {
		return answer{}, err
	}
	if cmd.DisplayName, err = displayName(b); err != nil {
		return answer{}, err
	}
	res, err := c.propose(cmd)
	if err != nil {
		return answer{}, err
	}
	if res.Unchanged {
		return answer{}, refuse(http.StatusConflict, codeExists, "tenant %s exists", cmd.Name)
	}
	return created(tenantBody{TenantID: cmd.Name, DisplayName: cmd.DisplayName}), nil
}

func displayName(b body) (string, error) {
	s, err := b.text("display_name", "")
	if err == nil && len(s) > maxDisplayName {
		err = invalid("display_name has more than %d bytes", maxDisplayName)
	}
	return s, err
}

// newKey draws a signing key.
func newKey() cluster.NewSigningKey {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails
	return cluster.KeyFromSeed(seed)
}

func deleteTenant(c *call) (answer, error) {
	if err := c.needOperator(); err != nil {
		return answer{}, err
	}
	if _, err := c.propose(cluster.DeleteTenant{Name: c.params["tenant"]}); err != nil {
		return answer{}, err
	}
	return done(), nil
}
