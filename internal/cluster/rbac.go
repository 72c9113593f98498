package cluster

import (
	"iter"
	"slices"
)

// Limits of access rules. The state machine enforces them.
const (
	MaxPolicies      = 10_000    // of one tenant
	MaxGroupings     = 10_000    // of one tenant
	MaxSubjectLength = 1024      // bytes of a subject, user or role
	MaxRuleBytes     = 128 << 20 // texts of the rules of all tenants
)

// Policy says that a subject (a principal, a role or a group) may do an action to an object of a tenant. The texts are those of package
// auth's grammar, canonical. Immutable.
type Policy struct {
	Tenant  string
	Subject string
	Object  string
	Action  string
}

// Bytes is what the rule counts for MaxRuleBytes.
func (p *Policy) Bytes() int { return len(p.Tenant) + len(p.Subject) + len(p.Object) + len(p.Action) }

func (p *Policy) compareKey(o *Policy) int {
	return compareNames(p.Tenant, o.Tenant, p.Subject, o.Subject, p.Object, o.Object, p.Action, o.Action)
}

// Grouping says that a user (a principal, a group or a role) has what a role's policies allow. Immutable.
type Grouping struct {
	Tenant string
	User   string
	Role   string
}

// Bytes is what the rule counts for MaxRuleBytes.
func (g *Grouping) Bytes() int { return len(g.Tenant) + len(g.User) + len(g.Role) }

func (g *Grouping) compareKey(o *Grouping) int {
	return compareNames(g.Tenant, o.Tenant, g.User, o.User, g.Role, o.Role)
}

// HasPolicy says that exactly this rule is stored.
func (m *Image) HasPolicy(p Policy) bool {
	_, there := m.policies.get(&p)
	return there
}

// PoliciesAfter iterates over the policies of a tenant that are behind one, sorted by subject, object and action. With an empty subject it
// begins at the first.
func (m *Image) PoliciesAfter(p Policy) iter.Seq[*Policy] {
	return takeUntil(m.policies.from(&p, false), func(q *Policy) bool { return q.Tenant == p.Tenant })
}

// PoliciesOf iterates over the policies of one subject.
func (m *Image) PoliciesOf(tenant, subject string) iter.Seq[*Policy] {
	return takeUntil(m.policies.from(&Policy{Tenant: tenant, Subject: subject}, true), func(q *Policy) bool {
		return q.Tenant == tenant && q.Subject == subject
	})
}

// HasGrouping says that exactly this pair is stored.
func (m *Image) HasGrouping(g Grouping) bool {
	_, there := m.groupings.get(&g)
	return there
}

// GroupingsAfter iterates over the groupings of a tenant that are behind one, sorted by user and role. With an empty user it begins at the
// first.
func (m *Image) GroupingsAfter(g Grouping) iter.Seq[*Grouping] {
	return takeUntil(m.groupings.from(&g, false), func(h *Grouping) bool { return h.Tenant == g.Tenant })
}

// RolesOf iterates over the groupings of one user.
func (m *Image) RolesOf(tenant, user string) iter.Seq[*Grouping] {
	return takeUntil(m.groupings.from(&Grouping{Tenant: tenant, User: user}, true), func(h *Grouping) bool {
		return h.Tenant == tenant && h.User == user
	})
}

// SubjectsOf returns all subjects whose policies a principal has: itself, the groups that it is in, and the roles of each of them, those of
// roles included. Each is there once; circles end.
func (m *Image) SubjectsOf(tenant, principal string, groups ...string) []string {
	subjects := make([]string, 0, 1+len(groups))
	seen := map[string]bool{}
	add := func(s string) {
		if s != "" && !seen[s] {
			seen[s] = true
			subjects = append(subjects, s)
		}
	}
	add(principal)
	for _, g := range groups {
		add(g)
	}
	for i := 0; i < len(subjects); i++ {
		for g := range m.RolesOf(tenant, subjects[i]) {
			add(g.Role)
		}
	}
	return subjects
}

// RuleBytes is the size of the policies and groupings of all tenants.
func (m *Image) RuleBytes() int { return m.ruleBytes }

// Policies iterates over the policies of all tenants in their order.
func (m *Image) Policies() iter.Seq[*Policy] { return m.policies.each() }

// PolicyCount is the number of policies over all tenants.
func (m *Image) PolicyCount() int { return m.policies.n }

// Groupings iterates over the groupings of all tenants in their order.
func (m *Image) Groupings() iter.Seq[*Grouping] { return m.groupings.each() }

// GroupingCount is the number of groupings over all tenants.
func (m *Image) GroupingCount() int { return m.groupings.n }

// PutPolicy adds a policy; one that is there stays.
func (b *Builder) PutPolicy(p Policy) {
	if !b.m.HasPolicy(p) {
		b.m.policies.put(b.owner, &p)
		b.m.ruleBytes += p.Bytes()
	}
}

// DeletePolicy removes a policy, if it is there.
func (b *Builder) DeletePolicy(p Policy) {
	if b.m.HasPolicy(p) {
		b.m.policies.remove(b.owner, &p)
		b.m.ruleBytes -= p.Bytes()
	}
}

// PutGrouping adds a grouping; one that is there stays.
func (b *Builder) PutGrouping(g Grouping) {
	if !b.m.HasGrouping(g) {
		b.m.groupings.put(b.owner, &g)
		b.m.ruleBytes += g.Bytes()
	}
}

// DeleteGrouping removes a grouping, if it is there.
func (b *Builder) DeleteGrouping(g Grouping) {
	if b.m.HasGrouping(g) {
		b.m.groupings.remove(b.owner, &g)
		b.m.ruleBytes -= g.Bytes()
	}
}

// deleteRules removes the policies and groupings of a tenant.
func (b *Builder) deleteRules(tenant string) {
	for _, p := range slices.Collect(b.m.PoliciesAfter(Policy{Tenant: tenant})) {
		b.DeletePolicy(*p)
	}
	for _, g := range slices.Collect(b.m.GroupingsAfter(Grouping{Tenant: tenant})) {
		b.DeleteGrouping(*g)
	}
}

// PutPolicy stores a policy. One that is there already is success, and Unchanged.
type PutPolicy struct{ Policy Policy }

// DeletePolicy removes a policy that must be there.
type DeletePolicy struct{ Policy Policy }

// PutGrouping stores a grouping. One that is there already is success, and Unchanged.
type PutGrouping struct{ Grouping Grouping }

// DeleteGrouping removes a grouping that must be there.
type DeleteGrouping struct{ Grouping Grouping }

// PausePlacement stores whether the control plane leaves every shard where it is. The same again is success, and Unchanged.
type PausePlacement struct{ Paused bool }

func (PutPolicy) command()      {}
func (DeletePolicy) command()   {}
func (PutGrouping) command()    {}
func (DeleteGrouping) command() {}
func (PausePlacement) command() {}
