package broker

import "github.com/felixlog/felix/internal/cluster"

// Action is a right on a stream or namespace (security rules, section 4.2).
type Action uint8

// The actions that this package's verbs ask for.
const (
	StreamPublish Action = iota
	StreamSubscribe
	StreamManage
	NamespaceManage
	TenantManage // client quotas
	GroupConsume // be a member of a group, read and commit its offsets, see it in lists
	GroupManage  // delete a group, or offsets of it
)

var actionNames = [...]string{
	"stream.publish", "stream.subscribe", "stream.manage", "ns.manage", "tenant.manage", "group.consume", "group.manage",
}

// String is the action as it is written in policies.
func (a Action) String() string { return actionNames[a] }

// Rights decides what a caller may do inside its tenant. Implementations are immutable and safe for concurrent use.
type Rights interface {
	// Allowed reports whether action may be done to the stream; stream is empty for actions on the namespace itself, both are for
	// actions on the tenant. For actions on groups of Kafka clients, which belong to no stream, namespace is empty and stream is the
	// group id.
	Allowed(action Action, namespace, stream string) bool
}

// Caller is an authenticated connection's identity. The zero Caller has no tenant and may do nothing.
type Caller struct {
	Tenant    string // whose namespaces and streams the caller sees
	Principal string // who it is, for logs; never a secret
	// Incarnation is the tenant's, as of the login: see cluster.Tenant. Who logged in to a tenant that was deleted since is no caller of the
	// one that has its name now.
	Incarnation uint64
	// Rights inside the tenant; nil means all of them, as the anonymous tenant of a single node has.
	Rights Rights
}

// Known reports whether the caller has a tenant at all.
func (c *Caller) Known() bool { return c != nil && c.Tenant != "" }

// Allowed reports whether the caller may do action to a stream of its tenant.
func (c *Caller) Allowed(action Action, namespace, stream string) bool {
	return c.Known() && (c.Rights == nil || c.Rights.Allowed(action, namespace, stream))
}

// AllowedGroup reports whether the caller may do action to a group of its tenant that Kafka clients made.
func (c *Caller) AllowedGroup(action Action, group string) bool { return c.Allowed(action, "", group) }

// guarded is a command that is refused once the caller's tenant is another one than at the login.
func (c *Caller) guarded(cmd cluster.Command) cluster.Command {
	return cluster.Guarded{Tenant: c.Tenant, Incarnation: c.Incarnation, Command: cmd}
}
