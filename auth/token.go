package auth

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/felixlog/felix/internal/errcode"
)

// Issuer is who issues Felix tokens.
const Issuer = "felix-auth"

// The audiences. Each side refuses the other's: a node keeps its clients' tokens to forward requests, and none of them may act on the
// control plane.
const (
	AudienceBroker       = "felix-broker"
	AudienceControlPlane = "felix-controlplane"
)

const (
	// MaxTokenBytes is the largest token; a larger one is malformed.
	MaxTokenBytes = 16 << 10
	// Leeway is how far clocks may differ.
	Leeway = time.Minute
	// maxPrincipal bounds sub and act.sub, in bytes.
	maxPrincipal = 512
	// maxTime is the last second of the year 9999: times beyond it are no times.
	maxTime = 253402300799
)

// Key is one published key of a tenant.
type Key struct {
	ID     string // kid: a hint for the order of trying, never a filter
	Public ed25519.PublicKey
	// Incarnation is that of the tenant as it has the key: an id that a deleted tenant had may be another one's now.
	Incarnation uint64
}

// KeyID is the id under which a key is published when nobody chooses another: the head of the digest of its public half.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// DevelopmentKeyPrefix begins the ids of keys of the development profile, so that the metadata itself says which keys end with it.
const DevelopmentKeyPrefix = "dev-"

// DevelopmentKeyID is the id under which a node in the development profile publishes its key.
func DevelopmentKeyID(public ed25519.PublicKey) string { return DevelopmentKeyPrefix + KeyID(public) }

// Signer signs tokens with one key of a tenant. It prints as its id.
type Signer struct {
	id  string
	key ed25519.PrivateKey
}

// NewSigner makes a signer of the 32-byte seed of an Ed25519 key; an empty id is KeyID. Error: errcode.InvalidRequest for a seed of
// another length.
func NewSigner(id string, seed []byte) (*Signer, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, errcode.Newf(errcode.InvalidRequest, "a signing seed has %d bytes, not %d", ed25519.SeedSize, len(seed))
	}
	s := &Signer{id: id, key: ed25519.NewKeyFromSeed(seed)}
	if id == "" {
		s.id = KeyID(s.Key().Public)
	}
	return s, nil
}

// Key is the half that verifiers need.
func (s *Signer) Key() Key {
	return Key{ID: s.id, Public: s.key.Public().(ed25519.PublicKey)}
}

// String names the key and keeps it to itself.
func (s Signer) String() string { return "signing key " + s.id }

// GoString is String.
func (s Signer) GoString() string { return s.String() }

// Claims are what a token to be minted says.
type Claims struct {
	Tenant      string
	Principal   string // sub
	Actor       string // act.sub: who acts for the principal; empty for nobody
	Audience    string
	Permissions []Permission // as granted; Mint expands them
	Exact       bool         // Permissions were expanded and narrowed since: Mint leaves them as they are
	Issued      time.Time
	NotBefore   time.Time // zero: from Issued on
	Expires     time.Time
}

// Mint makes a token of claims. Times are cut to whole seconds. Errors: errcode.InvalidRequest for claims that a verifier would refuse,
// or that make a token of more than MaxTokenBytes.
func Mint(c Claims, by *Signer) (string, error) {
	t := wireClaims{
		Issuer: Issuer, Audience: c.Audience, Principal: c.Principal, Tenant: c.Tenant,
		Issued: c.Issued.Unix(), Expires: c.Expires.Unix(), Permissions: []string{},
	}
	if c.Actor != "" {
		t.Act = &actor{c.Actor}
	}
	if !c.NotBefore.IsZero() {
		seconds := c.NotBefore.Unix()
		t.NotBefore = &seconds
	}
	permissions := c.Permissions
	if !c.Exact {
		permissions = Expand(permissions)
	}
	for _, p := range permissions {
		if err := p.check(); err != nil {
			return "", err
		}
		t.Permissions = append(t.Permissions, p.String())
	}
	if err := t.mintable(); err != nil {
		return "", errcode.Newf(errcode.InvalidRequest, "mint a token: %w", err)
	}
	unsigned := jwt.NewWithClaims(jwt.SigningMethodEdDSA, &t)
	unsigned.Header["kid"] = by.id
	token, err := unsigned.SignedString(by.key)
	if err != nil {
		return "", errcode.Newf(errcode.Internal, "mint a token: %w", err)
	}
	if len(token) > MaxTokenBytes {
		return "", errcode.Newf(errcode.InvalidRequest, "mint a token: it would have %d bytes, at most %d are allowed", len(token), MaxTokenBytes)
	}
	return token, nil
}

// wireClaims are the claims as they are written. RegisteredClaims is embedded for the methods that the library asks for; its values
// are not used.
type wireClaims struct {
	jwt.RegisteredClaims `json:"-"`

	Issuer      string   `json:"iss"`
	Audience    string   `json:"aud"`
	Principal   string   `json:"sub"`
	Tenant      string   `json:"tid"`
	Issued      int64    `json:"iat"`
	NotBefore   *int64   `json:"nbf,omitempty"`
	Expires     int64    `json:"exp"`
	Permissions []string `json:"perms"`
	Act         *actor   `json:"act,omitempty"`
}

type actor struct {
	Principal string `json:"sub"`
}

func (c *wireClaims) mintable() error {
	switch {
	case !isTenantID(c.Tenant):
		return errors.New("the tenant is no name")
	case c.Audience != AudienceBroker && c.Audience != AudienceControlPlane:
		return fmt.Errorf("the audience is neither %s nor %s", AudienceBroker, AudienceControlPlane)
	case c.Expires <= c.Issued:
		return errors.New("it would end before it begins")
	case len(c.Permissions) > MaxPermissions:
		return fmt.Errorf("it would hold %d permissions, at most %d are allowed", len(c.Permissions), MaxPermissions)
	}
	return c.check()
}

// UnmarshalJSON reads the claims strictly: exact names, none twice, UTF-8, whole numbers of seconds, and every claim that must be there.
// Claims that are not known are ignored.
func (c *wireClaims) UnmarshalJSON(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("claims are not UTF-8")
	}
	fields, err := objectFields(b)
	if err != nil {
		return err
	}
	must := func(name string, into any) {
		if err == nil {
			err = claim(fields, name, into)
		}
	}
	may := func(name string, into any) {
		if _, ok := fields[name]; ok {
			must(name, into)
		}
	}
	must("iss", &c.Issuer)
	must("aud", &c.Audience)
	must("sub", &c.Principal)
	must("tid", &c.Tenant)
	must("iat", &c.Issued)
	must("exp", &c.Expires)
	must("perms", &c.Permissions)
	var notBefore int64
	if may("nbf", &notBefore); fields["nbf"] != nil {
		c.NotBefore = &notBefore
	}
	var act map[string]json.RawMessage
	if may("act", &act); fields["act"] != nil {
		c.Act = &actor{}
		if err == nil {
			err = claim(act, "sub", &c.Act.Principal)
		}
	}
	if err != nil {
		return err
	}
	return c.check()
}

// check refuses values that no verifier needs to compare with anything to know that they are wrong.
func (c *wireClaims) check() error {
	if err := checkPrincipal(c.Principal); err != nil {
		return fmt.Errorf("sub: %w", err)
	}
	if c.Act != nil {
		if err := checkPrincipal(c.Act.Principal); err != nil {
			return fmt.Errorf("act: %w", err)
		}
	}
	times := []int64{c.Issued, c.Expires}
	if c.NotBefore != nil {
		times = append(times, *c.NotBefore)
	}
	for _, t := range times {
		if t < 0 || t > maxTime {
			return errors.New("a time is out of range")
		}
	}
	return nil
}

func checkPrincipal(s string) error {
	switch {
	case s == "":
		return errors.New("the principal is empty")
	case len(s) > maxPrincipal:
		return errors.New("the principal is too long")
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("the principal has a control character or is not UTF-8")
	}
	return nil
}

// claim decodes one claim that must be there and not be null.
func claim(fields map[string]json.RawMessage, name string, into any) error {
	raw, ok := fields[name]
	if !ok || string(raw) == "null" {
		return fmt.Errorf("%s is missing", name)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s is of another type", name)
	}
	return nil
}

// objectFields reads a JSON object whose names are all different.
func objectFields(b []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, errors.New("not a JSON object")
		}
		name, _ := t.(string) // a name is always a string here
		if _, twice := fields[name]; twice {
			return nil, errors.New("a name appears twice")
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, errors.New("not a JSON object")
		}
		fields[name] = raw
	}
	return fields, nil
}

// parsed is a token that was taken apart and is not verified yet.
type parsed struct {
	claims    wireClaims
	kid       string
	signed    string // what the signature is over
	signature []byte
}

var parser = jwt.NewParser(jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())

// parseToken takes a token apart: step 1 of the order of checks (security rules, section 2.2). Nothing that it returns may be believed
// before verifies said yes.
func parseToken(token string) (*parsed, *RefusedError) {
	if len(token) > MaxTokenBytes {
		return nil, refused(ReasonMalformed, fmt.Errorf("it has %d bytes", len(token)))
	}
	if !isCompact(token) {
		return nil, refused(ReasonMalformed, errors.New("it is not three parts of base64url"))
	}
	p := &parsed{}
	t, parts, err := parser.ParseUnverified(token, &p.claims)
	// The algorithm comes first: a token of another kind may well hold other claims.
	if t != nil && t.Header != nil {
		if alg, ok := t.Header["alg"].(string); ok && alg != jwt.SigningMethodEdDSA.Alg() {
			return nil, refused(ReasonAlgorithm, fmt.Errorf("alg is %q", clip(alg)))
		}
	}
	if err != nil {
		return nil, refused(ReasonMalformed, err)
	}
	if t.Method != jwt.SigningMethodEdDSA {
		return nil, refused(ReasonAlgorithm, errors.New("alg is not EdDSA"))
	}
	if p.kid, err = checkHeader(t.Header); err != nil {
		return nil, refused(ReasonMalformed, err)
	}
	if p.signature, err = parser.DecodeSegment(parts[2]); err != nil {
		return nil, refused(ReasonMalformed, err)
	}
	p.signed = token[:len(parts[0])+1+len(parts[1])]
	return p, nil
}

// isCompact says that a text is three parts of base64url characters. The decoder alone would let line breaks through.
func isCompact(token string) bool {
	dots := 0
	for i := range len(token) {
		switch c := token[i]; {
		case c == '.':
			dots++
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return dots == 2
}

// checkHeader refuses headers that would mean something which is not done here, and returns the key id.
func checkHeader(h map[string]any) (kid string, err error) {
	if _, ok := h["crit"]; ok {
		return "", errors.New("the header has extensions that must be understood")
	}
	if typ, ok := h["typ"]; ok {
		if s, isText := typ.(string); !isText || !strings.EqualFold(s, "JWT") {
			return "", errors.New("typ is not JWT")
		}
	}
	kid, _ = h["kid"].(string) // a hint; one that is no text is none
	return kid, nil
}

// verifies looks for the key that signed the token: the one that it names first, then all others.
func (p *parsed) verifies(keys []Key) (Key, bool) {
	try := func(k Key) bool { return jwt.SigningMethodEdDSA.Verify(p.signed, p.signature, k.Public) == nil }
	for _, k := range keys {
		if k.ID == p.kid && try(k) {
			return k, true
		}
	}
	for _, k := range keys {
		if k.ID != p.kid && try(k) {
			return k, true
		}
	}
	return Key{}, false
}

// Unverified is what a token says of itself, believed by nobody: for choosing whose keys to ask, and for showing a person what they hold.
type Unverified struct {
	Tenant, Principal, Actor, Audience string
	Permissions                        []string
	KeyID                              string
	Issued, NotBefore, Expires         time.Time // NotBefore is zero when the token has none
}

// Look takes a token apart without verifying it. Error: as Verify's for what is malformed.
func Look(token string) (Unverified, error) {
	p, bad := parseToken(token)
	if bad != nil {
		return Unverified{}, bad
	}
	c := &p.claims
	u := Unverified{
		Tenant: c.Tenant, Principal: c.Principal, Audience: c.Audience, Permissions: c.Permissions, KeyID: p.kid,
		Issued: time.Unix(c.Issued, 0), Expires: time.Unix(c.Expires, 0),
	}
	if c.Act != nil {
		u.Actor = c.Act.Principal
	}
	if c.NotBefore != nil {
		u.NotBefore = time.Unix(*c.NotBefore, 0)
	}
	return u, nil
}
