package controller

import (
	"iter"
	"unicode"
	"unicode/utf8"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// putPolicy stores a rule. Who may is the caller's to know; what is stored is what a verifier can read.
func putPolicy(b *cluster.Builder, p cluster.Policy) cluster.Result {
	if err := checkPolicy(&p); err != nil {
		return cluster.Result{Err: err}
	}
	m := b.Current()
	if _, err := tenantOf(m, p.Tenant); err != nil {
		return cluster.Result{Err: err}
	}
	if m.HasPolicy(p) {
		return cluster.Result{Unchanged: true}
	}
	if count(m.PoliciesAfter(cluster.Policy{Tenant: p.Tenant})) >= cluster.MaxPolicies {
		return refused(errcode.PolicyViolation, "tenant %s has %d policies, which is as many as are kept", p.Tenant, cluster.MaxPolicies)
	}
	if err := checkRuleBytes(m, p.Bytes()); err != nil {
		return cluster.Result{Err: err}
	}
	b.PutPolicy(p)
	return cluster.Result{}
}

func deletePolicy(b *cluster.Builder, p cluster.Policy) error {
	if !b.Current().HasPolicy(p) {
		return errcode.Newf(errcode.ResourceNotFound, "there is no such policy")
	}
	b.DeletePolicy(p)
	return nil
}

func putGrouping(b *cluster.Builder, g cluster.Grouping) cluster.Result {
	if err := checkGrouping(&g); err != nil {
		return cluster.Result{Err: err}
	}
	m := b.Current()
	if _, err := tenantOf(m, g.Tenant); err != nil {
		return cluster.Result{Err: err}
	}
	if m.HasGrouping(g) {
		return cluster.Result{Unchanged: true}
	}
	if count(m.GroupingsAfter(cluster.Grouping{Tenant: g.Tenant})) >= cluster.MaxGroupings {
		return refused(errcode.PolicyViolation, "tenant %s has %d groupings, which is as many as are kept", g.Tenant, cluster.MaxGroupings)
	}
	if err := checkRuleBytes(m, g.Bytes()); err != nil {
		return cluster.Result{Err: err}
	}
	b.PutGrouping(g)
	return cluster.Result{}
}

func deleteGrouping(b *cluster.Builder, g cluster.Grouping) error {
	if !b.Current().HasGrouping(g) {
		return errcode.Newf(errcode.ResourceNotFound, "there is no such grouping")
	}
	b.DeleteGrouping(g)
	return nil
}

func pausePlacement(b *cluster.Builder, paused bool) cluster.Result {
	if b.Current().PlacementPaused() == paused {
		return cluster.Result{Unchanged: true}
	}
	b.SetPlacementPaused(paused)
	return cluster.Result{}
}

// checkRuleBytes refuses a rule that the cluster has no room for.
func checkRuleBytes(m *cluster.Image, more int) error {
	if m.RuleBytes()+more > cluster.MaxRuleBytes {
		return errcode.Newf(errcode.PolicyViolation, "the access rules of all tenants take %d bytes, which is as many as are kept", m.RuleBytes())
	}
	return nil
}

func count[T any](from iter.Seq[T]) (n int) {
	for range from {
		n++
	}
	return n
}

// checkPolicy refuses what no token could hold. An object of the tenant side is one of the rule's own tenant.
func checkPolicy(p *cluster.Policy) error {
	if err := checkSubject("subject", p.Subject); err != nil {
		return err
	}
	right, err := auth.ParsePermission(p.Action + ":" + p.Object)
	if err != nil {
		return err
	}
	if t := right.Object.Tenant; t != "" && t != p.Tenant {
		return errcode.Newf(errcode.InvalidRequest, "object %.64q is not of tenant %s", p.Object, p.Tenant)
	}
	return nil
}

func checkGrouping(g *cluster.Grouping) error {
	if err := checkSubject("user", g.User); err != nil {
		return err
	}
	if err := checkSubject("role", g.Role); err != nil {
		return err
	}
	if g.User == g.Role {
		return errcode.Newf(errcode.InvalidRequest, "a role is not its own user")
	}
	return nil
}

// checkSubject bounds the name of a principal, group or role. Those of groups and principals come from elsewhere and may hold anything that
// can be shown.
func checkSubject(what, name string) error {
	switch {
	case name == "":
		return errcode.Newf(errcode.InvalidRequest, "%s is empty", what)
	case len(name) > cluster.MaxSubjectLength:
		return errcode.Newf(errcode.InvalidRequest, "%s has %d bytes, at most %d are allowed", what, len(name), cluster.MaxSubjectLength)
	case !utf8.ValidString(name):
		return errcode.Newf(errcode.InvalidRequest, "%s is not UTF-8", what)
	}
	for _, c := range name {
		if unicode.IsControl(c) {
			return errcode.Newf(errcode.InvalidRequest, "%s has a control character", what)
		}
	}
	return nil
}

// Fewest bytes of rules.
const (
	minPolicy   = 4
	minGrouping = 3
)

func (w *writer) policy(p cluster.Policy) {
	w.text(p.Tenant)
	w.text(p.Subject)
	w.text(p.Object)
	w.text(p.Action)
}

func (r *reader) policy() cluster.Policy {
	return cluster.Policy{Tenant: r.text(), Subject: r.text(), Object: r.text(), Action: r.text()}
}

func (w *writer) grouping(g cluster.Grouping) {
	w.text(g.Tenant)
	w.text(g.User)
	w.text(g.Role)
}

func (r *reader) grouping() cluster.Grouping {
	return cluster.Grouping{Tenant: r.text(), User: r.text(), Role: r.text()}
}

func (w *writer) rules(m *cluster.Image) {
	w.count(m.PolicyCount())
	for p := range m.Policies() {
		w.policy(*p)
	}
	w.count(m.GroupingCount())
	for g := range m.Groupings() {
		w.grouping(*g)
	}
}

func (r *reader) rules(build *cluster.Builder) {
	for range r.count(minPolicy) {
		p := r.policy()
		if r.err != nil {
			return
		}
		if checkPolicy(&p) != nil || build.Current().Tenant(p.Tenant) == nil || build.Current().HasPolicy(p) {
			r.fail("policy that cannot be")
			return
		}
		build.PutPolicy(p)
	}
	for range r.count(minGrouping) {
		g := r.grouping()
		if r.err != nil {
			return
		}
		if checkGrouping(&g) != nil || build.Current().Tenant(g.Tenant) == nil || build.Current().HasGrouping(g) {
			r.fail("grouping that cannot be")
			return
		}
		build.PutGrouping(g)
	}
}
