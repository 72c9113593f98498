package controller

import (
	"errors"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// initializeTenant returns the builder to go on with, a fresh one when what b has is to be thrown away: all of the command or nothing.
func (s *state) initializeTenant(b *cluster.Builder, c cluster.InitializeTenant) (*cluster.Builder, error) {
	if err := initialize(b, &c); err != nil {
		return cluster.NewBuilder(s.image), err
	}
	return b, nil
}

func initialize(b *cluster.Builder, c *cluster.InitializeTenant) error {
	if b.Current().Tenant(c.Name) == nil {
		if err := applyCreateTenant(b, cluster.CreateTenant{Name: c.Name, DisplayName: c.DisplayName}).Err; err != nil {
			return err
		}
	}
	t := *b.Current().Tenant(c.Name)
	if t.Bootstrapped {
		return cluster.Conflictf(cluster.ConflictInitialized, "tenant %s was initialized already", t.Name)
	}
	if err := errors.Join(checkDisplayName(c.DisplayName), checkNewKey(c.Key)); err != nil {
		return err
	}
	if c.DisplayName != "" {
		t.DisplayName = c.DisplayName
	}
	if _, signs := t.CurrentKey(); !signs {
		if len(t.Keys) >= cluster.MaxSigningKeys {
			return cluster.Conflictf(cluster.ConflictTooManyKeys, "tenant %s has %d signing keys: retire one first", t.Name, len(t.Keys))
		}
		if _, twice := t.Key(c.Key.ID); twice {
			return errcode.Newf(errcode.Internal, "tenant %s has a key %s already", t.Name, c.Key.ID) // keys are drawn: a fault of ours
		}
		t = t.WithKey(c.Key.Key(cluster.KeyStaged)).WithCurrentKey(c.Key.ID)
	}
	t.Bootstrapped = true
	b.PutTenant(t)
	for _, p := range c.Policies {
		p.Tenant = t.Name
		if err := putPolicy(b, p).Err; err != nil {
			return err
		}
	}
	for _, g := range c.Groupings {
		g.Tenant = t.Name
		if err := putGrouping(b, g).Err; err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) initializeTenant(c *cluster.InitializeTenant) {
	w.text(c.Name)
	w.text(c.DisplayName)
	w.newKey(c.Key)
	w.count(len(c.Policies))
	for _, p := range c.Policies {
		w.policy(p)
	}
	w.count(len(c.Groupings))
	for _, g := range c.Groupings {
		w.grouping(g)
	}
}

// initializeTenant: an empty list is none.
func (r *reader) initializeTenant() cluster.Command {
	c := cluster.InitializeTenant{Name: r.text(), DisplayName: r.text(), Key: r.newKey()}
	if n := r.count(minPolicy); n > 0 {
		c.Policies = make([]cluster.Policy, n)
	}
	for i := range c.Policies {
		c.Policies[i] = r.policy()
	}
	if n := r.count(minGrouping); n > 0 {
		c.Groupings = make([]cluster.Grouping, n)
	}
	for i := range c.Groupings {
		c.Groupings[i] = r.grouping()
	}
	return c
}
