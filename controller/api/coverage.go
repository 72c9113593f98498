package api

import "maps"

// coverage says of roles whether every policy of one lies inside a scope, those of the role's own roles included: they come with it. It looks
// at each role and grouping once however many roles are asked for, as chains and circles of roles share most of what they come to.
type coverage struct {
	scope scope
	known map[string]findings // by role; final between calls
}

// findings are about the policies of a role and of all that it comes to.
type findings uint8

const (
	foundSome    findings = 1 << iota // there is one at least
	foundOutside                      // one of them lies outside the scope
)

func (s scope) coverage() *coverage { return &coverage{scope: s, known: map[string]findings{}} }

// coversRole asks for one role. A role without policies, which may get any, takes the whole tenant. It ends with the context's error when
// the caller is gone.
func (v *coverage) coversRole(role string) (bool, error) {
	f, there := v.known[role]
	if !there {
		if err := v.explore(role); err != nil {
			return false, err
		}
		f = v.known[role]
	}
	return f&foundOutside == 0 && (f&foundSome != 0 || v.scope.whole), nil
}

// explore finds out about a role and all roles that it comes to and that are not known: what each has itself, and then, against the
// direction of the groupings, what comes with it. A finding goes over a grouping once.
func (v *coverage) explore(role string) error {
	c := v.scope.call
	tenant := c.params["tenant"]
	found, users := []string{role}, map[string][]string{}
	own := map[string]findings{role: 0} // of those found now: nothing is known of them before the end
	for i := 0; i < len(found); i++ {
		if err := c.request.Context().Err(); err != nil {
			return err
		}
		subject := found[i]
		f := v.ownFindings(tenant, subject)
		for g := range c.image.RolesOf(tenant, subject) {
			if before, there := v.known[g.Role]; there {
				f |= before
				continue
			}
			if _, there := own[g.Role]; !there {
				own[g.Role] = 0
				found = append(found, g.Role)
			}
			users[g.Role] = append(users[g.Role], subject)
		}
		own[subject] = f
	}
	for changed := found; len(changed) > 0; {
		last := len(changed) - 1
		r := changed[last]
		changed = changed[:last]
		for _, u := range users[r] {
			if f := own[u] | own[r]; f != own[u] {
				own[u] = f
				changed = append(changed, u)
			}
		}
	}
	maps.Copy(v.known, own)
	return nil
}

// ownFindings are about the policies of a subject alone.
func (v *coverage) ownFindings(tenant, subject string) (f findings) {
	for p := range v.scope.call.image.PoliciesOf(tenant, subject) {
		f |= foundSome
		if !v.scope.coversPolicy(p) {
			return f | foundOutside
		}
	}
	return f
}
