package auth

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// KeySource gives the published keys of tenants. Implementations are safe for concurrent use.
type KeySource interface {
	// Keys returns the keys of a tenant, the one that signs first. The slice is not written to by either side. ErrUnknownTenant
	// (or an error that wraps it) says that there is no such tenant; other errors say that the keys cannot be had now.
	Keys(ctx context.Context, tenant string) ([]Key, error)
}

// Identity is what a token proves. It is immutable, shared, and prints without the token.
type Identity struct {
	Tenant      string
	Incarnation uint64 // of the tenant whose key verified the token: what was opened with it ends with that tenant
	Principal   string // sub
	Actor       string // act.sub, who acts for the principal; empty for nobody
	Audience    string
	Grants      *Grants
	Issued      time.Time
	Expires     time.Time // whoever opened something in time may go on after it
	// Token is the token itself, for requests that are forwarded with it. A secret: never in a log, an answer or a file.
	Token string `json:"-"`
}

// String is who it is, without the token.
func (i Identity) String() string {
	s := i.Tenant + "/" + i.Principal
	if i.Actor != "" {
		s += " by " + i.Actor
	}
	return s
}

// GoString is String.
func (i Identity) GoString() string { return i.String() }

// VerifierOptions say what a verifier accepts.
type VerifierOptions struct {
	// Audience is the verifier's own; a token for another is refused. Required.
	Audience string
	// Keys are the tenants' key sets. Required.
	Keys KeySource
	// Revoked reports whether tokens of a principal that were issued at a time are revoked. Asked about the actor too, at every
	// Verify. nil: nobody is.
	Revoked func(tenant, principal string, issued time.Time) bool
	// CacheBytes bounds the memory of remembered verifications; 0 is 16 MiB, negative is off.
	CacheBytes int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const defaultCacheBytes = 16 << 20

func (o VerifierOptions) withDefaults() VerifierOptions {
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o VerifierOptions) validate() error {
	if o.Audience != AudienceBroker && o.Audience != AudienceControlPlane {
		return fmt.Errorf("auth: audience %q", o.Audience)
	}
	if o.Keys == nil {
		return errors.New("auth: a verifier needs keys")
	}
	return nil
}

// Verifier checks tokens for one audience. All methods may run concurrently.
type Verifier struct {
	opts  VerifierOptions
	cache *tokenCache
}

// NewVerifier makes a verifier. It starts nothing.
func NewVerifier(opts VerifierOptions) (*Verifier, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &Verifier{opts: opts, cache: newTokenCache(opts.CacheBytes)}, nil
}

// Verify checks a token against a tenant: the one that the client named next to it, or the one in the path that it asked for. The
// order is that of the security rules, section 2.2, and ends at the first failure. ctx bounds the wait for keys.
//
// Every error is a *RefusedError of kind errcode.AuthenticationFailed, whose sentence is the same whatever was wrong; ReasonOf and
// DetailOf are for the log.
//
// A token that was verified is remembered until it expires and while the key that verified it is among its tenant's, and the tenant the
// same.
func (v *Verifier) Verify(ctx context.Context, tenant, token string) (*Identity, error) {
	if len(token) > MaxTokenBytes || len(tenant) > maxName {
		_, bad := parseToken(token)
		if bad == nil {
			bad = refused(ReasonUnknownTenant, errors.New("no id of a tenant"))
		}
		return nil, bad
	}
	now, id := v.opts.Now(), cacheID(tenant, token)
	if e, ok := v.cache.get(id, now); ok {
		keys, bad := v.keys(ctx, tenant)
		if bad != nil {
			return nil, bad
		}
		if slices.ContainsFunc(keys, func(k Key) bool { return k.Incarnation == e.identity.Incarnation && e.key.Equal(k.Public) }) {
			return e.identity, v.notRevoked(e.identity)
		}
		v.cache.drop(id)
	}
	p, bad := parseToken(token)
	if bad != nil {
		return nil, bad
	}
	keys, bad := v.keys(ctx, tenant)
	if bad != nil {
		return nil, bad
	}
	key, ok := p.verifies(keys)
	if !ok {
		return nil, refused(ReasonSignature, nil)
	}
	identity, bad := v.accept(p, tenant, token, now)
	if bad != nil {
		return nil, bad
	}
	identity.Incarnation = key.Incarnation
	if err := v.notRevoked(identity); err != nil {
		return nil, err
	}
	v.cache.put(id, cached{identity: identity, key: key.Public})
	return identity, nil
}

// keys are step 2 and 3: the tenant named, and its published keys.
func (v *Verifier) keys(ctx context.Context, tenant string) ([]Key, *RefusedError) {
	if !isTenantID(tenant) {
		return nil, refused(ReasonUnknownTenant, errors.New("no id of a tenant"))
	}
	keys, err := v.opts.Keys.Keys(ctx, tenant)
	switch {
	case errors.Is(err, ErrUnknownTenant):
		return nil, refused(ReasonUnknownTenant, err)
	case err != nil:
		return nil, refused(ReasonKeysUnavailable, err)
	case len(keys) == 0:
		return nil, refused(ReasonSignature, errors.New("the tenant has no keys"))
	}
	return keys, nil
}

// accept is what follows the signature: who issued it for what and when, for which tenant, and with which rights.
func (v *Verifier) accept(p *parsed, tenant, token string, now time.Time) (*Identity, *RefusedError) {
	c := &p.claims
	if c.Issuer != Issuer {
		return nil, refused(ReasonIssuer, nil)
	}
	if c.Audience != v.opts.Audience {
		return nil, refused(ReasonAudience, nil)
	}
	expires, issued := time.Unix(c.Expires, 0), time.Unix(c.Issued, 0)
	if !now.Before(expires.Add(Leeway)) {
		return nil, refused(ReasonExpired, fmt.Errorf("at %s", expires.UTC().Format(time.RFC3339)))
	}
	latest := now.Add(Leeway)
	if c.NotBefore != nil && time.Unix(*c.NotBefore, 0).After(latest) {
		return nil, refused(ReasonNotYetValid, errors.New("nbf"))
	}
	if issued.After(latest) {
		return nil, refused(ReasonNotYetValid, errors.New("iat"))
	}
	if c.Tenant != tenant {
		return nil, refused(ReasonTenant, nil)
	}
	permissions, err := ParsePermissions(c.Permissions)
	if err != nil {
		return nil, refused(ReasonPermissions, err)
	}
	id := &Identity{
		Tenant: c.Tenant, Principal: c.Principal, Audience: c.Audience, Grants: NewGrants(c.Tenant, permissions),
		Issued: issued, Expires: expires, Token: token,
	}
	if c.Act != nil {
		id.Actor = c.Act.Principal
	}
	return id, nil
}

func (v *Verifier) notRevoked(id *Identity) error {
	revoked := v.opts.Revoked
	if revoked == nil || !revoked(id.Tenant, id.Principal, id.Issued) && (id.Actor == "" || !revoked(id.Tenant, id.Actor, id.Issued)) {
		return nil
	}
	return refused(ReasonRevoked, nil)
}

// cacheID is what a verification is remembered by: a digest, so that the cache's keys are no secrets.
func cacheID(tenant, token string) (id [sha256.Size]byte) {
	h := sha256.New()
	_, _ = h.Write([]byte(tenant)) // a hash does not fail
	_, _ = h.Write([]byte{0})      // no id of a tenant holds one
	_, _ = h.Write([]byte(token))
	h.Sum(id[:0])
	return id
}

// cached is a verification that is remembered.
type cached struct {
	identity *Identity
	key      ed25519.PublicKey // that verified it
}
