package controller

import (
	"bytes"
	"crypto/ed25519"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

const maxKeyIDLength = 64

// checkNewKey refuses what no proposer of ours makes: keys are never given by clients.
func checkNewKey(k cluster.NewSigningKey) error {
	switch {
	case k.ID == "" || len(k.ID) > maxKeyIDLength:
		return errcode.Newf(errcode.Internal, "the id of a signing key has 1 to %d characters", maxKeyIDLength)
	case len(k.Seed) != ed25519.SeedSize:
		return errcode.Newf(errcode.Internal, "the seed of signing key %s does not have %d bytes", k.ID, ed25519.SeedSize)
	}
	return nil
}

func putSigningKey(b *cluster.Builder, c cluster.PutSigningKey) cluster.Result {
	if err := checkNewKey(c.Key); err != nil {
		return cluster.Result{Err: err}
	}
	t, err := tenantOf(b.Current(), c.Tenant)
	if err != nil {
		return cluster.Result{Err: err}
	}
	if have, ok := t.Key(c.Key.ID); ok {
		if !bytes.Equal(have.Seed, c.Key.Seed) {
			return cluster.Result{Err: cluster.Conflictf(cluster.ConflictExists, "tenant %s has another signing key %s", t.Name, c.Key.ID)}
		}
		return cluster.Result{Unchanged: true}
	}
	if len(t.Keys) >= cluster.MaxSigningKeys {
		return cluster.Result{Err: cluster.Conflictf(cluster.ConflictTooManyKeys, "tenant %s has %d signing keys: retire one first", t.Name, len(t.Keys))}
	}
	b.PutTenant(t.WithKey(c.Key.Key(cluster.KeyStaged)))
	return cluster.Result{}
}

func activateSigningKey(b *cluster.Builder, c cluster.ActivateSigningKey) error {
	t, k, err := keyOf(b.Current(), c.Tenant, c.ID)
	if err != nil {
		return err
	}
	if k.State != cluster.KeyCurrent {
		b.PutTenant(t.WithCurrentKey(c.ID))
	}
	return nil
}

func retireSigningKey(b *cluster.Builder, c cluster.RetireSigningKey) error {
	t, k, err := keyOf(b.Current(), c.Tenant, c.ID)
	if err != nil {
		return err
	}
	if k.State == cluster.KeyCurrent {
		return cluster.Conflictf(cluster.ConflictSigningKey, "key %s signs for tenant %s: activate another one first", c.ID, t.Name)
	}
	b.PutTenant(t.WithoutKey(c.ID))
	return nil
}

func tenantOf(m *cluster.Image, name string) (*cluster.Tenant, error) {
	t := m.Tenant(name)
	if t == nil {
		return nil, errcode.Newf(errcode.ResourceNotFound, "tenant %.64q does not exist", name)
	}
	return t, nil
}

func keyOf(m *cluster.Image, tenant, id string) (*cluster.Tenant, cluster.SigningKey, error) {
	t, err := tenantOf(m, tenant)
	if err != nil {
		return nil, cluster.SigningKey{}, err
	}
	k, ok := t.Key(id)
	if !ok {
		return nil, k, errcode.Newf(errcode.ResourceNotFound, "tenant %s has no signing key %.64q", t.Name, id)
	}
	return t, k, nil
}

func (w *writer) newKey(k cluster.NewSigningKey) {
	w.text(k.ID)
	w.text(string(k.Seed))
}

func (r *reader) newKey() cluster.NewSigningKey {
	k := cluster.NewSigningKey{ID: r.text()}
	if seed := r.text(); seed != "" {
		k.Seed = []byte(seed)
	}
	return k
}

// minKey is the fewest bytes that a stored key takes.
const minKey = 1 + 1 + ed25519.SeedSize + 1

// keys are stored without their public halves, which follow from the seeds.
func (w *writer) keys(list []cluster.SigningKey) {
	w.count(len(list))
	for _, k := range list {
		w.newKey(cluster.NewSigningKey{ID: k.ID, Seed: k.Seed})
		w.byte(byte(k.State))
	}
}

func (r *reader) keys() []cluster.SigningKey {
	n := r.count(minKey)
	if n == 0 {
		return nil
	}
	t := cluster.Tenant{Keys: make([]cluster.SigningKey, 0, n)}
	for i := range n {
		k, state := r.newKey(), cluster.KeyState(r.byte())
		_, twice := t.Key(k.ID)
		known := state == cluster.KeyStaged || state == cluster.KeyPrevious || state == cluster.KeyCurrent && i == 0
		if r.err == nil && (checkNewKey(k) != nil || twice || !known) {
			r.fail("signing key that cannot be")
		}
		if r.err != nil {
			return nil
		}
		t.Keys = append(t.Keys, k.Key(state))
	}
	return t.Keys
}
