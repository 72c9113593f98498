package kafkaproto

import (
	"errors"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/cluster"
)

// errTenantGone ends the connections of a tenant that was deleted. Who comes back has to log in again: to nothing, or to the tenant that has
// the name now.
var errTenantGone = errors.New("the tenant was deleted")

// tenantMark is a tenant as it was known at a login. Immutable.
type tenantMark struct {
	name        string
	incarnation uint64
}

func (t *tenantMark) in(img *cluster.Image) bool { return img.HasTenant(t.name, t.incarnation) }

// mark notes whose connection it is. Reading goroutine.
func (c *conn) mark(t *tenantMark) {
	c.caller.Incarnation = t.incarnation
	c.tenant.Store(t)
}

// anonymousMark is the tenant of connections that nobody logs in on, as it is now: whoever reaches the listener is let in to it, so they are
// let in to one that was made anew too. It is made once for all of them.
func (s *Server) anonymousMark() *tenantMark {
	name, incarnation := s.opts.Anonymous.Tenant, uint64(0)
	if t := s.node.Image().Tenant(name); t != nil {
		incarnation = t.Incarnation
	}
	have := s.anonymous.Load()
	if have == nil || have.incarnation != incarnation {
		have = &tenantMark{name, incarnation}
		s.anonymous.Store(have)
	}
	return have
}

// tenantGone reports whether the tenant that the connection logged in to was deleted. Reading goroutine.
func (c *conn) tenantGone() bool {
	t := c.tenant.Load()
	return t != nil && !t.in(c.srv.node.Image())
}

// Apply tells the server of an image that has been published: connections of tenants that are gone are closed at once, with what waits on
// them. Requests that come before it is called find their tenant gone by themselves.
func (s *Server) Apply(img *cluster.Image) {
	deleted := img.TenantsDeleted()
	if s.tenantsDeleted.Swap(deleted) == deleted {
		return
	}
	s.mu.Lock()
	all := s.conns.all()
	s.mu.Unlock()
	closed := 0
	for _, c := range all {
		if t := c.tenant.Load(); t != nil && !t.in(img) {
			c.shut(errTenantGone)
			closed++
		}
	}
	if closed > 0 {
		s.logger.Info("connections of deleted tenants closed", zap.Int("connections", closed))
	}
}
