package api

import (
	"slices"

	"github.com/felixlog/felix/auth"
)

// narrowing is what a request for a token asks to leave out. It takes away and never adds.
type narrowing struct {
	actions     []auth.Action // kept; nil with byAction false: all
	byAction    bool
	resources   []auth.Object // to which every right is cut; nil with byResource false: not cut
	byResource  bool
	permissions []auth.Permission // exactly these; with byPair
	byPair      bool
}

// narrowingOf reads the narrowing fields. What names nothing (an unknown action, no valid object) contributes nothing.
func narrowingOf(b body) (narrowing, error) {
	var n narrowing
	requested, byAction, err := b.texts("requested")
	if err != nil {
		return n, err
	}
	resources, byResource, err := b.texts("resources")
	if err != nil {
		return n, err
	}
	pairs, byPair, err := b.texts("permissions")
	if err != nil {
		return n, err
	}
	if byPair && (!byAction || len(requested) > 0 || byResource) {
		return n, invalid(`permissions needs "requested": [] beside it, and no resources`)
	}
	n.byPair, n.byResource, n.byAction = byPair, byResource, byAction && !byPair
	for _, s := range requested {
		if a, err := auth.ParseAction(s); err == nil {
			n.actions = append(n.actions, a)
		}
	}
	for _, s := range resources {
		if o, err := auth.ParseObject(s); err == nil {
			n.resources = append(n.resources, o)
		}
	}
	for _, s := range pairs {
		if p, err := auth.ParsePermission(s); err == nil {
			n.permissions = append(n.permissions, p)
		}
	}
	return n, nil
}

// narrow returns what is left of rights, which were expanded before.
func (n *narrowing) narrow(rights []auth.Permission) []auth.Permission {
	var out []auth.Permission
	seen := map[auth.Permission]bool{}
	add := func(p auth.Permission) {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	for _, r := range rights {
		switch {
		case n.byPair:
			for _, p := range n.permissions {
				if p.Action == r.Action {
					cut(r, p.Object, add)
				}
			}
		case n.byAction && !slices.Contains(n.actions, r.Action):
		case n.byResource:
			for _, o := range n.resources {
				cut(r, o, add)
			}
		default:
			add(r)
		}
	}
	return out
}

// cut adds the part of a right that an object covers: the right itself when it covers all of it, the right on the object when that lies
// inside, and on what is inside both when the object is a namespace below a wildcard.
func cut(r auth.Permission, o auth.Object, add func(auth.Permission)) {
	switch {
	case contains(o, r.Object):
		add(r)
	case contains(r.Object, o) && r.Object.Kind == o.Kind:
		add(auth.Permission{Action: r.Action, Object: o})
	case contains(r.Object, o):
		// An object of another kind inside the right's: the action may exist for it, as cache.read does for a key.
		if p, err := auth.ParsePermission(r.Action.String() + ":" + o.String()); err == nil {
			add(p)
		}
	case o.Kind == auth.NamespaceObject && r.Object.Tenant == o.Tenant && r.Object.Namespace == auth.Any &&
		(r.Object.Kind == auth.StreamObject || r.Object.Kind == auth.CacheObject):
		inside := r.Object
		inside.Namespace = o.Namespace
		add(auth.Permission{Action: r.Action, Object: inside})
	}
}

// contains says that everything that b names lies inside a: tenant above namespace above stream and cache above group and key. What is of
// the cluster contains nothing but itself.
func contains(a, b auth.Object) bool {
	if a == b {
		return true
	}
	if a.Kind == auth.ClusterObject || a.Kind == auth.NodeObject || a.Tenant != b.Tenant || b.Kind == auth.ClusterObject || b.Kind == auth.NodeObject {
		return false
	}
	namespace := a.Namespace == auth.Any || a.Namespace == b.Namespace
	name := namespace && (a.Namespace == auth.Any || a.Name == auth.Any || a.Name == b.Name)
	switch a.Kind {
	case auth.TenantObject:
		return true
	case auth.NamespaceObject:
		return namespace && b.Kind != auth.TenantObject
	case auth.StreamObject:
		return name && (b.Kind == auth.StreamObject || b.Kind == auth.GroupObject)
	case auth.CacheObject:
		return name && (b.Kind == auth.CacheObject || b.Kind == auth.KeyObject)
	case auth.GroupObject:
		return b.Kind == auth.GroupObject && name && (a.Leaf == auth.Any || a.Leaf == b.Leaf)
	case auth.KeyObject:
		return b.Kind == auth.KeyObject && name && a.Prefix && len(b.Leaf) >= len(a.Leaf) && b.Leaf[:len(a.Leaf)] == a.Leaf
	default:
		return false
	}
}
