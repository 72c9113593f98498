package api

import (
	"iter"
	"math"
	"slices"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

type policyBody struct {
	Subject string `json:"subject" about:"a principal, a role or a group"`
	Object  string `json:"object" about:"tenant:T, namespace:T/N, stream:T/N/S, cache:T/N/C, group:T/N/S/G, cluster:* or node:ID"`
	Action  string `json:"action"`
}

type groupingBody struct {
	User string `json:"user" about:"a principal, a group or a role"`
	Role string `json:"role"`
}

// scope is what a caller has one of the rights over rules on.
type scope struct {
	call    *call
	objects []auth.Object
	whole   bool // the tenant is among them
}

// scopeOf collects what the caller has a right on in the tenant of the path.
func (c *call) scopeOf(a auth.Action) scope {
	s := scope{call: c}
	for _, p := range c.identity.Grants.Permissions() {
		if p.Action == a && p.Object.Tenant == c.params["tenant"] {
			s.objects = append(s.objects, p.Object)
			s.whole = s.whole || p.Object.Kind == auth.TenantObject
		}
	}
	return s
}

// covers says that a right on an object may be looked at or given away within the scope. What is of the cluster lies inside nothing: it is
// for whoever has the whole tenant in scope and holds that very right.
func (s scope) covers(right auth.Permission) bool {
	o := right.Object
	if o.Kind == auth.ClusterObject || o.Kind == auth.NodeObject {
		grants := s.call.identity.Grants
		return s.whole && (grants.AllowedCluster(right.Action) || o.Kind == auth.NodeObject && grants.AllowedNode(right.Action, o.Name))
	}
	return slices.ContainsFunc(s.objects, func(have auth.Object) bool { return contains(have, o) })
}

func (s scope) coversPolicy(p *cluster.Policy) bool {
	right, err := auth.ParsePermission(p.Action + ":" + p.Object)
	return err == nil && s.covers(right)
}

// needView wants the right to see some rules.
func (c *call) needView() error {
	return c.needSome(auth.RBACView, "something of tenant "+c.params["tenant"], func(auth.Object) bool { return true })
}

// rulesPage is pageOf for the listings that are a bare list when neither limit nor cursor is given.
func (c *call) rulesPage(kind string, parts int) (p page, bare bool, err error) {
	if p, err = c.pageOf(kind, parts); err != nil {
		return p, false, err
	}
	query := c.request.URL.Query()
	if bare = !query.Has("limit") && !query.Has("cursor"); bare {
		p.limit = math.MaxInt
	}
	return p, bare, nil
}

// rules answers a listing of rules in the form that was asked for.
func rules[T any](p page, bare bool, from iter.Seq[T], key func(T) []string, item func(T) any) answer {
	list := fill(p, from, key, item)
	if bare {
		return ok(list.Items)
	}
	return ok(list)
}

func listPolicies(c *call) (answer, error) {
	if err := c.needView(); err != nil {
		return answer{}, err
	}
	p, bare, err := c.rulesPage("policies", 3)
	if err != nil {
		return answer{}, err
	}
	subject, err := c.query("subject")
	if err != nil {
		return answer{}, err
	}
	after := cluster.Policy{Tenant: c.params["tenant"]}
	if p.after != nil {
		after.Subject, after.Object, after.Action = p.after[0], p.after[1], p.after[2]
	}
	view := c.scopeOf(auth.RBACView)
	seen := filter(c.image.PoliciesAfter(after), func(q *cluster.Policy) bool {
		return (subject == "" || q.Subject == subject) && view.coversPolicy(q)
	})
	return rules(p, bare, seen, func(q *cluster.Policy) []string { return []string{q.Subject, q.Object, q.Action} },
		func(q *cluster.Policy) any { return policyBody{q.Subject, q.Object, q.Action} }), nil
}

// policy reads the rule of a body and wants the right to give or take it.
func (c *call) policy() (cluster.Policy, error) {
	p := cluster.Policy{Tenant: c.params["tenant"]}
	b, err := c.readBody()
	if err != nil {
		return p, err
	}
	if p.Object, err = b.name("object"); err != nil {
		return p, err
	}
	object, err := auth.ParseObject(p.Object)
	if err != nil {
		return p, err
	}
	if object.Tenant != "" && object.Tenant != p.Tenant {
		return p, invalid("object %s is not of tenant %s", clip(p.Object), p.Tenant)
	}
	if p.Action, err = b.name("action"); err != nil {
		return p, err
	}
	action, _ := auth.ParseAction(p.Action) // an unknown one is refused below, once the caller may know
	if !c.scopeOf(auth.RBACPolicyManage).covers(auth.Permission{Action: action, Object: object}) {
		return p, c.forbid(auth.RBACPolicyManage, clip(p.Object))
	}
	if _, err := auth.ParsePermission(p.Action + ":" + p.Object); err != nil {
		return p, err
	}
	p.Subject, err = b.name("subject")
	return p, err
}

func createPolicy(c *call) (answer, error) {
	p, err := c.policy()
	if err != nil {
		return answer{}, err
	}
	res, err := c.propose(cluster.PutPolicy{Policy: p})
	switch made := (policyBody{p.Subject, p.Object, p.Action}); {
	case err != nil:
		return answer{}, err
	case res.Unchanged:
		return ok(made), nil
	default:
		return created(made), nil
	}
}

func deletePolicy(c *call) (answer, error) {
	p, err := c.policy()
	if err != nil {
		return answer{}, err
	}
	if _, err := c.propose(cluster.DeletePolicy{Policy: p}); err != nil {
		return answer{}, err
	}
	return done(), nil
}

func listGroupings(c *call) (answer, error) {
	if err := c.needView(); err != nil {
		return answer{}, err
	}
	p, bare, err := c.rulesPage("groupings", 2)
	if err != nil {
		return answer{}, err
	}
	role, err := c.query("role")
	if err != nil {
		return answer{}, err
	}
	after := cluster.Grouping{Tenant: c.params["tenant"]}
	if p.after != nil {
		after.User, after.Role = p.after[0], p.after[1]
	}
	view := c.scopeOf(auth.RBACView).coverage()
	var gone error // the caller is
	seen := filter(c.image.GroupingsAfter(after), func(g *cluster.Grouping) bool {
		if gone != nil || role != "" && g.Role != role {
			return false
		}
		var visible bool
		visible, gone = view.coversRole(g.Role)
		return visible
	})
	a := rules(p, bare, seen, func(g *cluster.Grouping) []string { return []string{g.User, g.Role} },
		func(g *cluster.Grouping) any { return groupingBody{g.User, g.Role} })
	return a, gone
}

// grouping reads the pair of a body and wants the right to give or take it.
func (c *call) grouping() (cluster.Grouping, error) {
	g := cluster.Grouping{Tenant: c.params["tenant"]}
	b, err := c.readBody()
	if err != nil {
		return g, err
	}
	if g.Role, err = b.name("role"); err != nil {
		return g, err
	}
	covered, err := c.scopeOf(auth.RBACAssignmentManage).coverage().coversRole(g.Role)
	if err != nil {
		return g, err
	}
	if !covered {
		return g, c.forbid(auth.RBACAssignmentManage, "every policy of role "+clip(g.Role))
	}
	g.User, err = b.name("user")
	return g, err
}

func createGrouping(c *call) (answer, error) {
	g, err := c.grouping()
	if err != nil {
		return answer{}, err
	}
	res, err := c.propose(cluster.PutGrouping{Grouping: g})
	switch made := (groupingBody{g.User, g.Role}); {
	case err != nil:
		return answer{}, err
	case res.Unchanged:
		return ok(made), nil
	default:
		return created(made), nil
	}
}

func deleteGrouping(c *call) (answer, error) {
	g, err := c.grouping()
	if err != nil {
		return answer{}, err
	}
	if _, err := c.propose(cluster.DeleteGrouping{Grouping: g}); err != nil {
		return answer{}, err
	}
	return done(), nil
}

// rightsOf are what the policies of a principal allow, with those of the groups that it is in and of the roles of all of them; not expanded.
// ruled says that a policy or grouping names the principal or one of the groups at all.
func rightsOf(m *cluster.Image, tenant, principal string, groups ...string) (rights []auth.Permission, ruled bool) {
	subjects := m.SubjectsOf(tenant, principal, groups...)
	ruled = len(subjects) > 1+len(groups)
	seen := map[auth.Permission]bool{}
	for _, s := range subjects {
		for p := range m.PoliciesOf(tenant, s) {
			ruled = true
			right, err := auth.ParsePermission(p.Action + ":" + p.Object)
			if err == nil && !seen[right] {
				seen[right] = true
				rights = append(rights, right)
			}
		}
	}
	return rights, ruled
}

// developmentRights are what a development token of a principal allows before its request narrows it: what its rules say, and for one that
// no rule names, everything that development may. That adds nothing: whoever may ask for such tokens may name any principal.
func (c *call) developmentRights(tenant, principal string) ([]auth.Permission, error) {
	if rights, ruled := rightsOf(c.image, tenant, principal); ruled {
		return rights, nil
	}
	return c.server.opts.Bootstrap.Permissions(tenant)
}
