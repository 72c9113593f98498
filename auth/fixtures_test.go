package auth

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"
)

// start is the time of the tests' clocks.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newSigner makes the n-th of the tests' keys.
func newSigner(t testing.TB, id string, n byte) *Signer {
	t.Helper()
	s, err := NewSigner(id, bytes.Repeat([]byte{n}, ed25519.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fixedKeys is a KeySource that knows some tenants; what it was asked for is counted.
type fixedKeys struct {
	keys  map[string][]Key
	err   error
	asked int
}

func (k *fixedKeys) Keys(_ context.Context, tenant string) ([]Key, error) {
	k.asked++
	if k.err != nil {
		return nil, k.err
	}
	keys, ok := k.keys[tenant]
	if !ok {
		return nil, ErrUnknownTenant
	}
	return keys, nil
}

// newVerifier makes a verifier with the clock at *now.
func newVerifier(t testing.TB, audience string, keys KeySource, now *time.Time) *Verifier {
	t.Helper()
	v, err := NewVerifier(VerifierOptions{Audience: audience, Keys: keys, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// permissions parses a list that must parse.
func permissions(t testing.TB, list ...string) []Permission {
	t.Helper()
	out, err := ParsePermissions(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// goodClaims are those of a token that a broker of tenant t1 takes.
func goodClaims(t testing.TB) Claims {
	return Claims{
		Tenant: "t1", Principal: "p:alice", Audience: AudienceBroker,
		Permissions: permissions(t, "stream.publish:stream:t1/payments/orders"),
		Issued:      start, Expires: start.Add(15 * time.Minute),
	}
}

func mint(t testing.TB, c Claims, by *Signer) string {
	t.Helper()
	token, err := Mint(c, by)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// part encodes one part of a token.
func part(t testing.TB, v any) string {
	t.Helper()
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// handmade signs any header and claims (a text is taken as it is) with the signer's key, whatever they say.
func handmade(t testing.TB, header, claims any, by *Signer) string {
	t.Helper()
	signed := part(t, header) + "." + part(t, claims)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(by.key, []byte(signed)))
}

// rawClaims are goodClaims as a map, for tests that spoil one of them.
func rawClaims(spoil func(map[string]any)) map[string]any {
	c := map[string]any{
		"iss": Issuer, "aud": AudienceBroker, "sub": "p:alice", "tid": "t1", "iat": start.Unix(), "exp": start.Add(15 * time.Minute).Unix(),
		"perms": []string{"stream.publish:stream:t1/payments/orders"},
	}
	if spoil != nil {
		spoil(c)
	}
	return c
}

var goodHeader = map[string]any{"alg": "EdDSA", "typ": "JWT", "kid": "k1"}

// hs256 signs with the public key as the secret of an HMAC, as a verifier that lets the token choose the algorithm would take.
func hs256(t testing.TB, by *Signer) string {
	t.Helper()
	signed := part(t, map[string]any{"alg": "HS256", "typ": "JWT", "kid": "k1"}) + "." + part(t, rawClaims(nil))
	mac := hmac.New(sha256.New, by.Key().Public)
	_, _ = mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
