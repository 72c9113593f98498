package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
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
	if reason := c.server.opts.Bootstrap.check(c.request.Header); reason != "" {
		c.server.metrics.bootstrap.WithLabelValues(outcomeRefused, reason).Inc()
		c.server.peerLog.Info("bootstrap call turned away", zap.String("reason", reason), zap.String("tenant", clip(c.params["tenant"])))
		return answer{}, refuse(http.StatusUnauthorized, codeUnauthenticated, "the bootstrap token was not accepted: send %s", bootstrapHeader)
	}
	a, err := c.mintDevToken()
	if err != nil {
		c.server.metrics.bootstrap.WithLabelValues(outcomeRefused, reasonInvalidBody).Inc()
		return answer{}, err
	}
	c.server.metrics.bootstrap.WithLabelValues(outcomeOK, reasonOK).Inc()
	c.server.logger.Info("development token minted", zap.String("tenant", c.params["tenant"]))
	return a, nil
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
		return answer{}, notFound("tenant %s has no key that signs", t.Name)
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
