package auth

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/felixlog/felix/internal/errcode"
)

// Limits of what a token may hold. Larger is malformed.
const (
	MaxPermissions      = 4096
	MaxPermissionLength = 1024 // bytes of one permission string
	maxName             = 128  // tenant, namespace, cache, node
	maxStreamName       = 249
	maxGroupName        = 255
)

// Action is a right. The zero Action is none and is never allowed.
type Action uint8

// The actions (security rules, section 4.2). This package knows all of them on either side: an action that it does not know refuses
// the token.
const (
	_ Action = iota
	StreamPublish
	StreamSubscribe
	StreamManage
	CacheRead
	CacheWrite
	CacheManage
	GroupConsume
	GroupManage
	NamespaceManage
	TenantManage
	RBACView
	RBACPolicyManage
	RBACAssignmentManage
	NodeView
	NodeManage
	TokenDelegate
	actionEnd
)

// tenantSide are the objects that can be given to others; a key is not among them (its grants are for reading and writing alone).
const tenantSide = kindSet(1<<TenantObject | 1<<NamespaceObject | 1<<StreamObject | 1<<CacheObject | 1<<GroupObject)

// actions says how each action is written, and what it can be granted on.
var actions = [actionEnd]struct {
	name string
	on   kindSet
}{
	StreamPublish:        {"stream.publish", 1 << StreamObject},
	StreamSubscribe:      {"stream.subscribe", 1 << StreamObject},
	StreamManage:         {"stream.manage", 1 << StreamObject},
	CacheRead:            {"cache.read", 1<<CacheObject | 1<<KeyObject},
	CacheWrite:           {"cache.write", 1<<CacheObject | 1<<KeyObject},
	CacheManage:          {"cache.manage", 1 << CacheObject},
	GroupConsume:         {"group.consume", 1<<StreamObject | 1<<GroupObject},
	GroupManage:          {"group.manage", 1<<StreamObject | 1<<GroupObject},
	NamespaceManage:      {"ns.manage", 1 << NamespaceObject},
	TenantManage:         {"tenant.manage", 1<<TenantObject | 1<<ClusterObject},
	RBACView:             {"rbac.view", tenantSide},
	RBACPolicyManage:     {"rbac.policy.manage", tenantSide},
	RBACAssignmentManage: {"rbac.assignment.manage", tenantSide},
	NodeView:             {"node.view", 1 << ClusterObject},
	NodeManage:           {"node.manage", 1<<ClusterObject | 1<<NodeObject},
	TokenDelegate:        {"token.delegate", 1 << TenantObject},
}

// String is the action as it is written in policies and tokens; "" for none.
func (a Action) String() string {
	if a >= actionEnd {
		return ""
	}
	return actions[a].name
}

// ParseAction reads an action. Error: errcode.InvalidRequest.
func ParseAction(s string) (Action, error) {
	for a := StreamPublish; a < actionEnd; a++ {
		if actions[a].name == s {
			return a, nil
		}
	}
	return 0, errcode.Newf(errcode.InvalidRequest, "unknown action %q", clip(s))
}

// ObjectKind is what an object names.
type ObjectKind uint8

// The kinds of objects.
const (
	TenantObject ObjectKind = iota
	NamespaceObject
	StreamObject
	CacheObject
	KeyObject // one key of a cache, or the keys with a prefix
	GroupObject
	ClusterObject
	NodeObject
)

type kindSet uint16

func (s kindSet) has(k ObjectKind) bool { return s&(1<<k) != 0 }

// kindWords are the words before the first colon of an object; a key is written as a cache.
var kindWords = map[string]ObjectKind{
	"tenant": TenantObject, "namespace": NamespaceObject, "stream": StreamObject, "cache": CacheObject, "group": GroupObject,
	"cluster": ClusterObject, "node": NodeObject,
}

// Any stands for every name of its segment. It is no legal name, so a field that holds it is the wildcard.
const Any = "*"

// Object is what a permission is about. Fields that its kind does not have are empty. Objects are comparable.
type Object struct {
	Kind      ObjectKind
	Tenant    string // never Any
	Namespace string // Any in namespace:t/*, stream:t/*/* and cache:t/*/* only
	Name      string // stream, cache or node; Any where it is the wildcard
	Leaf      string // group (Any for all groups) or cache key
	Prefix    bool   // of a key: Leaf is what the keys begin with
}

// String is the object as it is written in policies and tokens.
func (o Object) String() string {
	switch o.Kind {
	case TenantObject:
		return "tenant:" + o.Tenant
	case NamespaceObject:
		return "namespace:" + o.Tenant + "/" + o.Namespace
	case StreamObject:
		return "stream:" + o.Tenant + "/" + o.Namespace + "/" + o.Name
	case CacheObject:
		return "cache:" + o.Tenant + "/" + o.Namespace + "/" + o.Name
	case KeyObject:
		s := "cache:" + o.Tenant + "/" + o.Namespace + "/" + o.Name + "/" + o.Leaf
		if o.Prefix {
			s += Any
		}
		return s
	case GroupObject:
		return "group:" + o.Tenant + "/" + o.Namespace + "/" + o.Name + "/" + o.Leaf
	case ClusterObject:
		return "cluster:" + Any
	case NodeObject:
		return "node:" + o.Name
	default:
		return ""
	}
}

// ParseObject reads an object. What it takes is canonical: String gives the same text back. Error: errcode.InvalidRequest with a
// sentence that says what is wrong.
func ParseObject(s string) (Object, error) {
	if len(s) > MaxPermissionLength {
		return Object{}, errcode.Newf(errcode.InvalidRequest, "object of %d bytes, at most %d are allowed", len(s), MaxPermissionLength)
	}
	bad := func(why string) (Object, error) {
		return Object{}, errcode.Newf(errcode.InvalidRequest, "object %q: %s", clip(s), why)
	}
	word, rest, ok := strings.Cut(s, ":")
	kind, known := kindWords[word]
	if !ok || !known {
		return bad("it does not begin with tenant:, namespace:, stream:, cache:, group:, cluster: or node:")
	}
	o, why := Object{Kind: kind}, ""
	switch kind {
	case TenantObject:
		o.Tenant = rest
		why = checkNames(rest)
	case NamespaceObject:
		why = o.parseNamespace(rest)
	case StreamObject:
		why = o.parseLeaf(rest)
	case CacheObject:
		why = o.parseCache(rest)
	case GroupObject:
		why = o.parseGroup(rest)
	case ClusterObject:
		if rest != Any {
			why = "cluster:* is the only spelling"
		}
	case NodeObject:
		o.Name = rest
		why = checkNames(rest)
	case KeyObject: // no word names it: parseCache makes one of a cache
	}
	if why != "" {
		return bad(why)
	}
	return o, nil
}

func (o *Object) parseNamespace(rest string) string {
	parts := strings.Split(rest, "/")
	if len(parts) != 2 {
		return "namespace:TENANT/NAMESPACE has two parts"
	}
	o.Tenant, o.Namespace = parts[0], parts[1]
	if o.Namespace == Any {
		return checkNames(o.Tenant)
	}
	return checkNames(o.Tenant, o.Namespace)
}

// parseLeaf reads tenant/namespace/name, with * for the name or for the last two.
func (o *Object) parseLeaf(rest string) string {
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return "TENANT/NAMESPACE/NAME has three parts"
	}
	o.Tenant, o.Namespace, o.Name = parts[0], parts[1], parts[2]
	if o.Namespace == Any {
		if o.Name != Any {
			// It would be a grant across namespaces that looks like one on a single name.
			return "a wildcard stands above a name"
		}
		return checkNames(o.Tenant)
	}
	if o.Name == Any {
		return checkNames(o.Tenant, o.Namespace)
	}
	return checkNames(o.Tenant, o.Namespace, o.Name)
}

// parseCache reads a cache, or one key of it: everything after the third slash, with a star at its end for a prefix.
func (o *Object) parseCache(rest string) string {
	parts := strings.SplitN(rest, "/", 4)
	if len(parts) < 4 {
		return o.parseLeaf(rest)
	}
	o.Kind = KeyObject
	o.Tenant, o.Namespace, o.Name, o.Leaf = parts[0], parts[1], parts[2], parts[3]
	if why := checkNames(o.Tenant, o.Namespace, o.Name); why != "" {
		return "above a key: " + why
	}
	if key, ok := strings.CutSuffix(o.Leaf, Any); ok {
		o.Leaf, o.Prefix = key, true
	}
	switch {
	case o.Leaf == "":
		return "the key is empty; all keys are the cache itself"
	case strings.Contains(o.Leaf, Any):
		return "a star stands inside a key"
	case !utf8.ValidString(o.Leaf):
		return "the key is not UTF-8"
	}
	return ""
}

// parseGroup reads tenant/namespace/stream/group, with * for the group or for stream and group.
func (o *Object) parseGroup(rest string) string {
	parts := strings.Split(rest, "/")
	if len(parts) != 4 {
		return "group:TENANT/NAMESPACE/STREAM/GROUP has four parts"
	}
	o.Tenant, o.Namespace, o.Name, o.Leaf = parts[0], parts[1], parts[2], parts[3]
	if why := checkNames(o.Tenant, o.Namespace); why != "" {
		return why
	}
	if o.Name == Any {
		if o.Leaf != Any {
			return "a wildcard stands above a name"
		}
		return ""
	}
	if why := checkNames(o.Name); why != "" {
		return why
	}
	if o.Leaf == Any {
		return ""
	}
	return checkGroup(o.Leaf)
}

// checkNames says what is wrong with the first name that could not be one; "" when nothing is.
func checkNames(names ...string) string {
	for _, n := range names {
		switch {
		case n == "":
			return "a name is empty"
		case len(n) > maxStreamName:
			return "a name is too long"
		case n == "." || n == "..":
			return "a name is a dot or two"
		case !legal(n):
			return "a name has a character other than letters, digits, '.', '_' and '-'"
		}
	}
	return ""
}

// checkGroup says what is wrong with the name of a group in an object. Groups whose names hold /, * or : exist and cannot be named here.
func checkGroup(n string) string {
	switch {
	case n == "":
		return "the group is empty"
	case len(n) > maxGroupName:
		return "the group's name is too long"
	case strings.ContainsAny(n, "/*:"):
		return "a group whose name has a slash, a star or a colon cannot be named: grant it through the stream"
	case !utf8.ValidString(n) || strings.ContainsFunc(n, unicode.IsControl):
		return "the group's name has a control character or is not UTF-8"
	}
	return ""
}

func legal(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// isTenantID says that a text can be the id of a tenant; of others nothing is asked anywhere.
func isTenantID(s string) bool {
	return s != "" && len(s) <= maxName && legal(s) && s[0] != '.' && s[0] != '_' && s[0] != '-'
}

// Permission is one right on one object. Permissions are comparable.
type Permission struct {
	Action Action
	Object Object
}

// String is action:object, as tokens hold it.
func (p Permission) String() string { return p.Action.String() + ":" + p.Object.String() }

// ParsePermission reads action:object, split at the first colon. An action that the object's kind cannot have is an error, like
// an unknown one. Error: errcode.InvalidRequest with a sentence that says what is wrong.
func ParsePermission(s string) (Permission, error) {
	if len(s) > MaxPermissionLength {
		return Permission{}, errcode.Newf(errcode.InvalidRequest, "permission of %d bytes, at most %d are allowed", len(s), MaxPermissionLength)
	}
	word, rest, ok := strings.Cut(s, ":")
	if !ok {
		return Permission{}, errcode.Newf(errcode.InvalidRequest, "permission %q is not action:object", clip(s))
	}
	a, err := ParseAction(word)
	if err != nil {
		return Permission{}, err
	}
	o, err := ParseObject(rest)
	if err != nil {
		return Permission{}, err
	}
	p := Permission{a, o}
	return p, p.check()
}

// check refuses an action on a kind of object that it is not for.
func (p Permission) check() error {
	if p.Action == 0 || p.Action >= actionEnd || !actions[p.Action].on.has(p.Object.Kind) {
		return errcode.Newf(errcode.InvalidRequest, "%s cannot be granted on %q", p.Action, clip(p.Object.String()))
	}
	return nil
}

// ParsePermissions reads a list. The first that does not parse is the error, which names its place.
func ParsePermissions(list []string) ([]Permission, error) {
	if len(list) > MaxPermissions {
		return nil, errcode.Newf(errcode.InvalidRequest, "%d permissions, at most %d are allowed", len(list), MaxPermissions)
	}
	out := make([]Permission, len(list))
	for i, s := range list {
		p, err := ParsePermission(s)
		if err != nil {
			return nil, errcode.Newf(errcode.InvalidRequest, "permission %d: %w", i, err)
		}
		out[i] = p
	}
	return out, nil
}

// Expand adds what a right carries with it when a token is minted: tenant.manage of a tenant the management of its namespaces,
// streams and caches, and their use; ns.manage the same inside its namespaces. The rights given come first, in their order; none
// appears twice. What a stream right allows on groups is not expanded: that is decided at use, so that it holds for tokens already
// out. Source: security rules, section 4.3.
func Expand(list []Permission) []Permission {
	out := make([]Permission, 0, len(list))
	seen := make(map[Permission]bool, len(list))
	add := func(p Permission) {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	for _, p := range list {
		add(p)
	}
	for _, p := range list {
		o := p.Object
		switch {
		case p.Action == TenantManage && o.Kind == TenantObject:
			add(Permission{NamespaceManage, Object{Kind: NamespaceObject, Tenant: o.Tenant, Namespace: Any}})
			expandInto(o.Tenant, Any, add)
		case p.Action == NamespaceManage:
			expandInto(o.Tenant, o.Namespace, add)
		}
	}
	return out
}

// expandInto adds everything on the streams and caches of a namespace, or of all.
func expandInto(tenant, namespace string, add func(Permission)) {
	for _, a := range []Action{StreamManage, StreamPublish, StreamSubscribe} {
		add(Permission{a, Object{Kind: StreamObject, Tenant: tenant, Namespace: namespace, Name: Any}})
	}
	for _, a := range []Action{CacheManage, CacheRead, CacheWrite} {
		add(Permission{a, Object{Kind: CacheObject, Tenant: tenant, Namespace: namespace, Name: Any}})
	}
}

// clip bounds what an error repeats of a text that may be anything.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
