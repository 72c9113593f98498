package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

// bootstrapHeader carries the shared secret of the bootstrap listener.
const bootstrapHeader = "X-Felix-Bootstrap-Token"

// Outcomes and reasons of bootstrap calls, as the metric calls them.
const (
	outcomeOK         = "ok"
	outcomeRefused    = "refused"
	rejectNoToken     = "no_token_configured"
	reasonOK          = "ok"
	reasonInvalidBody = "invalid_request"
)

type tokenBody struct {
	Token     string `json:"felix_token"`
	ExpiresIn int64  `json:"expires_in"` // seconds
	Type      string `json:"token_type"`
}

// devToken mints a token of any principal for whoever has the bootstrap token. What it allows is every right of a development principal, as
// far as the request does not narrow it. It is signed by the tenant's own key and verified as every other token is.
func devToken(c *call) (answer, error) {
	return c.bootstrap("development token minted", c.mintDevToken)
}

// initializeTenant makes a tenant one that people can use, once: see cluster.InitializeTenant.
func initializeTenant(c *call) (answer, error) {
	return c.bootstrap("tenant initialized", c.initialize)
}

// bootstrap does a call for whoever has the bootstrap token.
func (c *call) bootstrap(what string, do func() (answer, error)) (answer, error) {
	if reason := c.server.opts.Bootstrap.check(c.request.Header); reason != "" {
		c.server.metrics.bootstrap.WithLabelValues(outcomeRefused, reason).Inc()
		c.server.peerLog.Info("bootstrap call turned away", zap.String("reason", reason), zap.String("tenant", clip(c.params["tenant"])))
		return answer{}, refuse(http.StatusUnauthorized, codeUnauthenticated, "the bootstrap token was not accepted: send %s", bootstrapHeader)
	}
	a, err := do()
	if err != nil {
		reason := reasonInvalidBody
		if refusalOf(err).code == cluster.ConflictInitialized {
			reason = cluster.ConflictInitialized
		}
		c.server.metrics.bootstrap.WithLabelValues(outcomeRefused, reason).Inc()
		return answer{}, err
	}
	c.server.metrics.bootstrap.WithLabelValues(outcomeOK, reasonOK).Inc()
	c.server.logger.Info(what, zap.String("tenant", c.params["tenant"]))
	return a, nil
}

type initializedBody struct {
	TenantID string `json:"tenant_id"`
	KeyID    string `json:"kid"`
	KeySet   string `json:"jwks_url"`
}

// adminRole is the role that the first administrators of a tenant get, and adminRights what it allows on the tenant.
const adminRole = "role:tenant-admin"

var adminRights = []auth.Action{auth.TenantManage, auth.RBACView, auth.RBACPolicyManage, auth.RBACAssignmentManage}

func (c *call) initialize() (answer, error) {
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	cmd := cluster.InitializeTenant{Name: c.params["tenant"], Key: newKey()}
	if err := cluster.ValidateName("tenant", cmd.Name); err != nil {
		return answer{}, err
	}
	if cmd.DisplayName, err = displayName(b); err != nil {
		return answer{}, err
	}
	if strings.TrimSpace(cmd.DisplayName) == "" {
		return answer{}, invalid("display_name is missing")
	}
	if err := checkIssuers(b); err != nil {
		return answer{}, err
	}
	if err := firstRules(b, &cmd); err != nil {
		return answer{}, err
	}
	if _, err := c.propose(cmd); err != nil {
		return answer{}, err
	}
	t := c.server.opts.Controller.Image().Tenant(cmd.Name)
	if t == nil {
		return answer{}, notFound("tenant %s was deleted at once", cmd.Name)
	}
	k, _ := t.CurrentKey()
	return ok(initializedBody{t.Name, k.ID, c.server.opts.Bootstrap.APIURL + "/v1/tenants/" + url.PathEscape(t.Name) + "/.well-known/jwks.json"}), nil
}

// checkIssuers refuses identity providers: a tenant would be initialized, for ever, without those that it asked for.
func checkIssuers(b body) error {
	issuers, err := b.objects("idp_issuers")
	if err != nil {
		return err
	}
	for i, issuer := range issuers {
		if name, err := issuer.text("issuer", ""); err != nil || strings.TrimSpace(name) == "" || strings.Contains(name, "#") {
			return invalid("item %d of idp_issuers has no issuer, or one with a #", i)
		}
	}
	if len(issuers) > 0 {
		return invalid("idp_issuers: this release exchanges no tokens of identity providers; leave it out")
	}
	return nil
}

// firstRules reads the rules that a tenant begins with, and adds those of its administrators.
func firstRules(b body, cmd *cluster.InitializeTenant) error {
	admins, _, err := b.texts("initial_admin_principals")
	switch {
	case err != nil:
		return err
	case len(admins) == 0:
		return invalid("initial_admin_principals names nobody")
	}
	for _, a := range adminRights {
		cmd.Policies = append(cmd.Policies, cluster.Policy{Subject: adminRole, Object: "tenant:" + cmd.Name, Action: a.String()})
	}
	for i, p := range admins {
		if strings.TrimSpace(p) == "" {
			return invalid("item %d of initial_admin_principals is empty", i)
		}
		cmd.Groupings = append(cmd.Groupings, cluster.Grouping{User: p, Role: adminRole})
	}
	policies, err := b.objects("policies")
	if err != nil {
		return err
	}
	for _, o := range policies {
		var p cluster.Policy
		if p.Subject, err = o.name("subject"); err != nil {
			return err
		}
		if p.Object, err = o.name("object"); err != nil {
			return err
		}
		if p.Action, err = o.name("action"); err != nil {
			return err
		}
		cmd.Policies = append(cmd.Policies, p)
	}
	groupings, err := b.objects("groupings")
	if err != nil {
		return err
	}
	for _, o := range groupings {
		var g cluster.Grouping
		if g.User, err = o.name("user"); err != nil {
			return err
		}
		if g.Role, err = o.name("role"); err != nil {
			return err
		}
		cmd.Groupings = append(cmd.Groupings, g)
	}
	return nil
}

// check compares the token of a call in constant time. It returns why the call is turned away, "" when it is not.
func (o *BootstrapOptions) check(h http.Header) string {
	values := h.Values(bootstrapHeader)
	switch {
	case o.Token == "":
		return rejectNoToken
	case len(values) == 0:
		return rejectMissing
	case len(values) > 1 || values[0] == "":
		return rejectMalformed
	}
	// Digests are compared: they have one length, whatever was sent.
	got := sha256.Sum256([]byte(values[0]))
	ok := 0
	for _, want := range []string{o.Token, o.Previous} {
		sum := sha256.Sum256([]byte(want))
		equal := subtle.ConstantTimeCompare(got[:], sum[:])
		if want != "" {
			ok |= equal
		}
	}
	if ok != 1 {
		return rejectInvalid
	}
	return ""
}

func (c *call) mintDevToken() (answer, error) {
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	claims := auth.Claims{Tenant: c.params["tenant"], Exact: true}
	if claims.Principal, err = b.name("principal"); err != nil {
		return answer{}, err
	}
	if claims.Audience, err = audience(b); err != nil {
		return answer{}, err
	}
	n, err := narrowingOf(b)
	if err != nil {
		return answer{}, err
	}
	t := c.image.Tenant(claims.Tenant)
	if t == nil {
		return answer{}, notFound("tenant %s does not exist", clip(claims.Tenant))
	}
	key, initialized := t.CurrentKey()
	if !initialized {
		return answer{}, notFound("tenant %s has no key that signs: initialize it", t.Name)
	}
	all, err := c.developmentRights(t.Name, claims.Principal)
	if err != nil {
		return answer{}, err
	}
	if claims.Permissions = n.narrow(auth.Expand(all)); len(claims.Permissions) == 0 {
		return answer{}, refuse(http.StatusForbidden, codeForbidden, "nothing is left of what the principal may do")
	}
	signer, err := auth.NewSigner(key.ID, key.Seed)
	if err != nil {
		return answer{}, err
	}
	ttl := c.server.opts.Bootstrap.TokenTTL
	claims.Issued = c.server.opts.Now()
	claims.Expires = claims.Issued.Add(ttl)
	token, err := auth.Mint(claims, signer)
	if err != nil {
		return answer{}, err
	}
	return ok(tokenBody{token, int64(ttl.Seconds()), "Bearer"}), nil
}

func audience(b body) (string, error) {
	a, err := b.text("audience", auth.AudienceBroker)
	if err == nil && a != auth.AudienceBroker && a != auth.AudienceControlPlane {
		err = invalid("audience must be %s or %s", auth.AudienceBroker, auth.AudienceControlPlane)
	}
	return a, err
}
