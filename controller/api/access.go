package api

import (
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
)

// access is how the callers of a route are authenticated.
type access uint8

const (
	open       access = iota // by nothing
	byTenant                 // a token of the tenant in the path
	byToken                  // a token of any tenant: what is called belongs to none
	byOperator               // as byToken, where the path names a tenant that is acted on from outside
)

// Reasons of refusals, as the metric calls them.
const (
	rejectMissing   = "missing_token"
	rejectMalformed = "malformed_token"
	rejectInvalid   = "invalid_token"
	rejectTenant    = "tenant_mismatch"
	rejectForbidden = "forbidden"
)

// bearer takes the token out of a request: one header, one scheme, one token. reason is why there is none.
func bearer(h http.Header) (token, reason string) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", rejectMissing
	}
	scheme, rest, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(rest)
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t,") {
		return "", rejectMalformed
	}
	return token, ""
}

// authenticate says who calls. Every refusal is the same answer.
func (s *Server) authenticate(c *call) error {
	if c.route.access == open {
		return nil
	}
	token, reason := bearer(c.request.Header)
	if reason != "" {
		return s.reject(reason, c.params["tenant"], "")
	}
	tenant := c.params["tenant"]
	if c.route.access != byTenant {
		said, err := auth.Look(token)
		if err != nil {
			return s.reject(rejectMalformed, "", auth.DetailOf(err))
		}
		tenant = said.Tenant // it only chooses the keys
	}
	id, err := s.opts.Verifier.Verify(c.ctx, tenant, token)
	if err != nil {
		return s.rejected(tenant, token, err)
	}
	c.identity = id
	return nil
}

// rejected counts why a token was refused.
func (s *Server) rejected(tenant, token string, err error) error {
	reason := auth.ReasonOf(err)
	if reason == auth.ReasonKeysUnavailable {
		return unavailable()
	}
	if reason == auth.ReasonMalformed {
		return s.reject(rejectMalformed, tenant, auth.DetailOf(err))
	}
	if said, bad := auth.Look(token); bad == nil && said.Tenant != tenant && s.opts.Controller.Image().Tenant(tenant) != nil {
		return s.reject(rejectTenant, tenant, auth.DetailOf(err))
	}
	return s.reject(rejectInvalid, tenant, auth.DetailOf(err))
}

// reject turns a call away. The detail is for the log; it holds no part of the credential.
func (s *Server) reject(reason, tenant, detail string) error {
	s.metrics.rejected.WithLabelValues(reason).Inc()
	s.peerLog.Info("call turned away", zap.String("reason", reason), zap.String("tenant", clip(tenant)), zap.String("detail", detail))
	return unauthenticated()
}

// forbid refuses what the caller has no right to.
func (c *call) forbid(right auth.Action, object string) error {
	c.server.metrics.rejected.WithLabelValues(rejectForbidden).Inc()
	c.server.peerLog.Info("call forbidden", zap.String("tenant", c.identity.Tenant), zap.String("principal", c.identity.Principal),
		zap.Stringer("right", right), zap.String("object", object))
	return forbidden(right.String(), object)
}

// needCluster wants a right on the cluster.
func (c *call) needCluster(a auth.Action) error {
	if c.identity.Grants.AllowedCluster(a) {
		return nil
	}
	return c.forbid(a, "cluster:*")
}

// needOperator wants the right to manage tenants, for a call about the tenant in the path. Who lacks it learns whether the tenant exists
// only of their own.
func (c *call) needOperator() error {
	tenant := c.params["tenant"]
	if c.image.Tenant(tenant) == nil {
		return c.server.reject(rejectInvalid, tenant, "it does not exist")
	}
	if c.identity.Grants.AllowedCluster(auth.TenantManage) {
		return nil
	}
	if c.identity.Tenant != tenant {
		return c.server.reject(rejectTenant, tenant, "")
	}
	return c.forbid(auth.TenantManage, "cluster:*")
}

// needTenant wants the right to manage the tenant in the path.
func (c *call) needTenant() error {
	tenant := c.params["tenant"]
	if c.identity.Grants.AllowedTenant(auth.TenantManage, tenant) {
		return nil
	}
	return c.forbid(auth.TenantManage, "tenant:"+tenant)
}

// needNamespace wants the right to manage a namespace.
func (c *call) needNamespace(namespace string) error {
	tenant := c.params["tenant"]
	if namespace != "" && c.identity.Grants.AllowedNamespace(auth.NamespaceManage, tenant, namespace) {
		return nil
	}
	return c.forbid(auth.NamespaceManage, "namespace:"+tenant+"/"+clip(namespace))
}

// needStream wants the right to manage a stream.
func (c *call) needStream(namespace, stream string) error {
	tenant := c.params["tenant"]
	if stream != "" && c.identity.Grants.Allowed(auth.StreamManage, tenant, namespace, stream) {
		return nil
	}
	return c.forbid(auth.StreamManage, "stream:"+tenant+"/"+clip(namespace)+"/"+clip(stream))
}

// needSome wants a right on at least one object that the test accepts, for listings that show what the caller may manage and nothing else.
func (c *call) needSome(a auth.Action, what string, accepts func(auth.Object) bool) error {
	for _, p := range c.identity.Grants.Permissions() {
		if p.Action == a && p.Object.Tenant == c.params["tenant"] && accepts(p.Object) {
			return nil
		}
	}
	return c.forbid(a, what)
}

// clip bounds what an answer repeats of a name that may be anything.
func clip(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
