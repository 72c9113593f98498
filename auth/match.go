package auth

import "strings"

// Grants are the rights of one identity, compiled for asking. They are immutable; all methods may run concurrently, on nil too, which
// allows nothing.
//
// A question names objects by their parts, which may be any text: a part matches a grant's when both are equal, or when the grant has
// the wildcard there.
type Grants struct {
	tenant     string
	list       []Permission
	onTenant   actionSet
	onCluster  actionSet
	namespaces [actionEnd]*scope // by namespace; the name is unused
	streams    [actionEnd]*scope
	caches     [actionEnd]*scope
	groups     [actionEnd][]Object
	keys       [actionEnd][]Object
	nodes      map[string]actionSet
}

type actionSet uint32

func (s actionSet) has(a Action) bool { return a < actionEnd && s&(1<<a) != 0 }

// scope is what one action reaches in one tenant: everything, whole namespaces, single names.
type scope struct {
	all        bool
	namespaces map[string]bool
	names      map[scopeName]bool
}

type scopeName struct{ namespace, name string }

func (s *scope) covers(namespace, name string) bool {
	return s != nil && (s.all || s.namespaces[namespace] || s.names[scopeName{namespace, name}])
}

func (s *scope) any() bool { return s != nil }

// whole reports whether the scope is the whole tenant.
func (s *scope) whole() bool { return s != nil && s.all }

func (s *scope) add(namespace, name string) {
	switch {
	case namespace == Any:
		s.all = true
	case name == Any:
		if s.namespaces == nil {
			s.namespaces = map[string]bool{}
		}
		s.namespaces[namespace] = true
	default:
		if s.names == nil {
			s.names = map[scopeName]bool{}
		}
		s.names[scopeName{namespace, name}] = true
	}
}

// NewGrants compiles the permissions of a principal of tenant, as they stand: what Expand adds must have been added. Permissions on
// objects of other tenants confer nothing. The slice is kept and must not be written to.
func NewGrants(tenant string, list []Permission) *Grants {
	g := &Grants{tenant: tenant, list: list}
	for _, p := range list {
		o := p.Object
		if p.check() != nil || o.Tenant != tenant && o.Kind != ClusterObject && o.Kind != NodeObject {
			continue
		}
		switch o.Kind {
		case TenantObject:
			g.onTenant |= 1 << p.Action
		case NamespaceObject:
			in(&g.namespaces[p.Action]).add(o.Namespace, Any)
		case StreamObject:
			in(&g.streams[p.Action]).add(o.Namespace, o.Name)
		case CacheObject:
			in(&g.caches[p.Action]).add(o.Namespace, o.Name)
		case KeyObject:
			g.keys[p.Action] = append(g.keys[p.Action], o)
		case GroupObject:
			g.groups[p.Action] = append(g.groups[p.Action], o)
		case ClusterObject:
			g.onCluster |= 1 << p.Action
		case NodeObject:
			if g.nodes == nil {
				g.nodes = map[string]actionSet{}
			}
			g.nodes[o.Name] |= 1 << p.Action
		}
	}
	return g
}

func in(s **scope) *scope {
	if *s == nil {
		*s = &scope{}
	}
	return *s
}

// Permissions returns the rights as they were given. Shared: do not write to it.
func (g *Grants) Permissions() []Permission {
	if g == nil {
		return nil
	}
	return g.list
}

// of says that questions about a tenant can have a yes at all.
func (g *Grants) of(tenant string, a Action) bool {
	return g != nil && a < actionEnd && tenant != "" && tenant == g.tenant
}

// Allowed reports whether a may be done to a stream. With an empty stream the namespace is meant, with both empty the tenant; actions
// that are granted on streams alone are allowed on neither.
func (g *Grants) Allowed(a Action, tenant, namespace, stream string) bool {
	switch {
	case stream != "":
		return g.of(tenant, a) && g.streams[a].covers(namespace, stream)
	case namespace != "":
		return g.AllowedNamespace(a, tenant, namespace)
	default:
		return g.AllowedTenant(a, tenant)
	}
}

// AllowedTenant reports whether a may be done to the tenant itself.
func (g *Grants) AllowedTenant(a Action, tenant string) bool {
	return g.of(tenant, a) && g.onTenant.has(a)
}

// AllowedNamespace reports whether a may be done to a namespace itself.
func (g *Grants) AllowedNamespace(a Action, tenant, namespace string) bool {
	return g.of(tenant, a) && g.namespaces[a].covers(namespace, "")
}

// AllowedCache reports whether a may be done to a whole cache.
func (g *Grants) AllowedCache(a Action, tenant, namespace, cache string) bool {
	return g.of(tenant, a) && g.caches[a].covers(namespace, cache)
}

// AllowedCacheKey reports whether a may be done to one key: by a grant on the cache, on the key, or on a prefix of it.
func (g *Grants) AllowedCacheKey(a Action, tenant, namespace, cache, key string) bool {
	return g.AllowedCache(a, tenant, namespace, cache) || g.anyKey(a, tenant, namespace, cache, func(o Object) bool {
		return o.Leaf == key || o.Prefix && strings.HasPrefix(key, o.Leaf)
	})
}

// AllowedCachePrefix reports whether a may be done to all keys with a prefix, as a prefix watch asks: by a grant on the cache, or on a
// prefix that this one begins with. A grant on one key never does.
func (g *Grants) AllowedCachePrefix(a Action, tenant, namespace, cache, prefix string) bool {
	return g.AllowedCache(a, tenant, namespace, cache) || g.anyKey(a, tenant, namespace, cache, func(o Object) bool {
		return o.Prefix && strings.HasPrefix(prefix, o.Leaf)
	})
}

func (g *Grants) anyKey(a Action, tenant, namespace, cache string, match func(Object) bool) bool {
	if !g.of(tenant, a) {
		return false
	}
	for _, o := range g.keys[a] {
		if o.Namespace == namespace && o.Name == cache && match(o) {
			return true
		}
	}
	return false
}

// impliedBy is the action on a stream that carries a with it at use, 0 when none does.
func impliedBy(a Action) Action {
	switch a {
	case GroupConsume:
		return StreamSubscribe
	case GroupManage:
		return StreamManage
	default:
		return 0
	}
}

// AllowedGroup reports whether a (GroupConsume or GroupManage) may be done to one group of a stream: by a grant on the group; or by one
// on the stream, of the action or of the one that implies it, unless the identity holds a grant of the action on any group of that
// stream. Source: security rules, section 4.4.
func (g *Grants) AllowedGroup(a Action, tenant, namespace, stream, group string) bool {
	if !g.of(tenant, a) || stream == "" {
		return false
	}
	narrowed := false
	for _, o := range g.groups[a] {
		if o.Namespace != namespace || o.Name != stream && o.Name != Any {
			continue
		}
		if o.Leaf == group || o.Leaf == Any {
			return true
		}
		narrowed = true
	}
	return !narrowed && (g.streams[a].covers(namespace, stream) || g.streams[impliedBy(a)].covers(namespace, stream))
}

// AllowedKafkaGroup reports whether a may be done to a group of Kafka clients, which belongs to no stream: by a grant on a group of
// that name of any stream; or by one on any stream, unless the identity holds a grant of the action on any group at all. What its
// members read and commit is asked about stream by stream besides.
//
// To manage a group takes more, as it can hold offsets of every stream: a grant that names it, or one on all streams or on the groups of
// all streams of a namespace.
func (g *Grants) AllowedKafkaGroup(a Action, tenant, group string) bool {
	if !g.of(tenant, a) {
		return false
	}
	manage := a == GroupManage
	for _, o := range g.groups[a] {
		if o.Leaf == group || o.Leaf == Any && (!manage || o.Name == Any) {
			return true
		}
	}
	if len(g.groups[a]) > 0 {
		return false
	}
	if manage {
		return g.streams[a].whole() || g.streams[impliedBy(a)].whole()
	}
	return g.streams[a].any() || g.streams[impliedBy(a)].any()
}

// AllowedCluster reports whether a may be done to the cluster. Only a grant on cluster:* says so.
func (g *Grants) AllowedCluster(a Action) bool { return g != nil && g.onCluster.has(a) }

// AllowedNode reports whether a may be done to one node: by a grant on it, or on the cluster.
func (g *Grants) AllowedNode(a Action, node string) bool {
	return g != nil && (g.onCluster.has(a) || g.nodes[node].has(a))
}
