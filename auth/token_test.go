package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

func TestMintAndVerify(t *testing.T) {
	signer, now := newSigner(t, "k1", 1), start
	v := newVerifier(t, AudienceBroker, &fixedKeys{keys: map[string][]Key{"t1": {signer.Key()}}}, &now)
	c := goodClaims(t)
	c.Actor = "p:gateway"
	token := mint(t, c, signer)
	id, err := v.Verify(t.Context(), "t1", token)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{id.Tenant, id.Principal, id.Actor, id.Audience, id.Issued.Unix(), id.Expires.Unix(), id.Token == token}
	want := []any{"t1", "p:alice", "p:gateway", AudienceBroker, start.Unix(), start.Add(15 * time.Minute).Unix(), true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !id.Grants.Allowed(StreamPublish, "t1", "payments", "orders") || id.Grants.Allowed(StreamSubscribe, "t1", "payments", "orders") {
		t.Error("the grants are not those of the token")
	}
	u, err := Look(token)
	if err != nil {
		t.Fatal(err)
	}
	if u.Tenant != "t1" || u.KeyID != "k1" || u.Actor != "p:gateway" || !u.NotBefore.IsZero() || len(u.Permissions) != 1 {
		t.Errorf("got %+v", u)
	}
	again, err := v.Verify(t.Context(), "t1", token)
	if err != nil || again != id {
		t.Errorf("got %p, %v, want the identity that is remembered", again, err)
	}
}

// TestBadTokens are the rows of the security rules about tokens (section 13.1), by their numbers, and their neighbours.
func TestBadTokens(t *testing.T) {
	ours, theirs := newSigner(t, "k1", 1), newSigner(t, "k1", 2)
	second := newSigner(t, "k2", 3)
	good := mint(t, goodClaims(t), ours)
	signature := good[strings.LastIndexByte(good, '.')+1:]
	spoiled := func(spoil func(map[string]any)) string { return handmade(t, goodHeader, rawClaims(spoil), ours) }
	with := func(name string, value any) string { return spoiled(func(c map[string]any) { c[name] = value }) }
	without := func(name string) string { return spoiled(func(c map[string]any) { delete(c, name) }) }
	header := func(name string, value any) string {
		h := map[string]any{"alg": "EdDSA", "typ": "JWT", "kid": "k1"}
		h[name] = value
		return handmade(t, h, rawClaims(nil), ours)
	}
	at := func(d time.Duration) int64 { return start.Add(d).Unix() }
	many := make([]string, MaxPermissions+1)
	for i := range many {
		many[i] = "a"
	}

	tests := []struct {
		name, tenant, token string
		want                Reason
	}{
		{"good", "t1", good, ReasonNone},
		{"row_21_slash", "t1/..", good, ReasonUnknownTenant},
		{"row_21_encoded_dots", "%2e%2e", good, ReasonUnknownTenant},
		{"row_21_long", strings.Repeat("t", 10<<10), good, ReasonUnknownTenant},
		{"row_21_nul", "t1\x00", good, ReasonUnknownTenant},
		{"row_21_empty", "", good, ReasonUnknownTenant},
		{"row_22_unknown_tenant", "t9", good, ReasonUnknownTenant},
		{"row_24_none", "t1", header("alg", "none"), ReasonAlgorithm},
		{"row_24_none_unsigned", "t1", part(t, map[string]any{"alg": "none"}) + "." + part(t, rawClaims(nil)) + ".", ReasonAlgorithm},
		{"row_24_other_case", "t1", header("alg", "eddsa"), ReasonAlgorithm},
		{"row_25_hmac_with_the_public_key", "t1", hs256(t, ours), ReasonAlgorithm},
		{"row_26_rs256", "t1", header("alg", "RS256"), ReasonAlgorithm},
		{"row_26_es256", "t1", header("alg", "ES256"), ReasonAlgorithm},
		{"row_28_61_seconds_late", "t1", with("exp", at(-61*time.Second)), ReasonExpired},
		{"row_28_59_seconds_late", "t1", with("exp", at(-59*time.Second)), ReasonNone},
		{"row_29_nbf", "t1", with("nbf", at(2*time.Minute)), ReasonNotYetValid},
		{"row_29_nbf_in_leeway", "t1", with("nbf", at(time.Minute)), ReasonNone},
		{"row_29_iat", "t1", with("iat", at(2*time.Minute)), ReasonNotYetValid},
		{"row_29_iat_in_leeway", "t1", with("iat", at(time.Minute)), ReasonNone},
		{"row_30_other_audience", "t1", with("aud", AudienceControlPlane), ReasonAudience},
		{"row_30_two_audiences", "t1", with("aud", []string{AudienceBroker, AudienceControlPlane}), ReasonMalformed},
		{"row_31_other_tenants_token", "t2", good, ReasonSignature},
		{"row_31_other_tenant_same_key", "t3", good, ReasonTenant},
		{"row_32_unknown_action", "t1", with("perms", []string{"stream.publish:stream:t1/a/b", "stream.fly:stream:t1/a/b"}), ReasonPermissions},
		{"row_33_perms_no_array", "t1", with("perms", "stream.publish:stream:t1/a/b"), ReasonMalformed},
		{"row_33_perms_null", "t1", with("perms", nil), ReasonMalformed},
		{"row_33_perms_missing", "t1", without("perms"), ReasonMalformed},
		{"row_33_perms_of_numbers", "t1", with("perms", []int{1}), ReasonMalformed},
		{"row_33_perms_of_null", "t1", with("perms", []any{nil}), ReasonPermissions},
		{"row_33_malformed_object", "t1", with("perms", []string{"stream.publish:stream:t1/*/orders"}), ReasonPermissions},
		{"row_33_action_on_another_object", "t1", with("perms", []string{"stream.publish:cache:t1/a/b"}), ReasonPermissions},
		{"perms_empty", "t1", with("perms", []string{}), ReasonNone},
		{"perms_too_long", "t1", with("perms", []string{"cache.read:cache:t1/a/b/" + strings.Repeat("k", MaxPermissionLength)}), ReasonPermissions},
		{"row_34_unknown_kid", "t1", header("kid", "k77"), ReasonNone},
		{"row_34_no_text_for_kid", "t1", header("kid", 7), ReasonNone},
		{"row_34_verify_only_key", "t1", mint(t, goodClaims(t), second), ReasonNone},
		{"row_35_token_of_a_provider", "t1", handmade(t, map[string]any{"alg": "RS256", "kid": "x"},
			map[string]any{"iss": "https://idp.example", "sub": "u", "aud": "felix", "exp": at(time.Hour)}, ours), ReasonAlgorithm},
		{"key_of_somebody_else", "t1", mint(t, goodClaims(t), theirs), ReasonSignature},
		{"tenant_without_keys", "t4", good, ReasonSignature},

		{"other_issuer", "t1", with("iss", "felix"), ReasonIssuer},
		{"issuer_first", "t1", spoiled(func(c map[string]any) { c["iss"], c["aud"], c["exp"] = "x", "y", at(-time.Hour) }), ReasonIssuer},
		{"audience_before_time", "t1", spoiled(func(c map[string]any) { c["aud"], c["exp"] = "y", at(-time.Hour) }), ReasonAudience},
		{"time_before_tenant", "t1", spoiled(func(c map[string]any) { c["tid"], c["exp"] = "y", at(-time.Hour) }), ReasonExpired},
		{"tenant_before_permissions", "t1", spoiled(func(c map[string]any) { c["tid"], c["perms"] = "y", []string{"x"} }), ReasonTenant},
		{"exp_missing", "t1", without("exp"), ReasonMalformed},
		{"iat_missing", "t1", without("iat"), ReasonMalformed},
		{"exp_with_a_fraction", "t1", with("exp", 1.5e9+0.5), ReasonMalformed},
		{"exp_as_text", "t1", with("exp", "1700000000"), ReasonMalformed},
		{"exp_negative", "t1", with("exp", -1), ReasonMalformed},
		{"exp_beyond_time", "t1", with("exp", json.Number("9223372036854775807")), ReasonMalformed},
		{"exp_beyond_numbers", "t1", with("exp", json.Number("9223372036854775808")), ReasonMalformed},
		{"sub_empty", "t1", with("sub", ""), ReasonMalformed},
		{"sub_with_a_line_break", "t1", with("sub", "a\nb"), ReasonMalformed},
		{"sub_too_long", "t1", with("sub", strings.Repeat("s", maxPrincipal+1)), ReasonMalformed},
		{"act_no_object", "t1", with("act", "p:x"), ReasonMalformed},
		{"act_without_sub", "t1", with("act", map[string]any{}), ReasonMalformed},
		{"unknown_claim", "t1", with("may_act", map[string]any{"sub": "x"}), ReasonNone},
		{"claim_in_another_case", "t1", spoiled(func(c map[string]any) { delete(c, "perms"); c["Perms"] = []string{} }), ReasonMalformed},
		{"claim_twice", "t1", handmade(t, goodHeader, `{"iss":"felix-auth","iss":"felix-auth"}`, ours), ReasonMalformed},
		{"claims_not_utf8", "t1", handmade(t, goodHeader, "{\"sub\":\"\xff\"}", ours), ReasonMalformed},
		{"claims_no_object", "t1", handmade(t, goodHeader, `[]`, ours), ReasonMalformed},
		{"claims_null", "t1", handmade(t, goodHeader, `null`, ours), ReasonIssuer},
		{"critical_extension", "t1", header("crit", []string{"b64"}), ReasonMalformed},
		{"other_type", "t1", header("typ", "at+jwt"), ReasonMalformed},
		{"type_in_another_case", "t1", header("typ", "jwt"), ReasonNone},
		{"alg_no_text", "t1", header("alg", 1), ReasonMalformed},
		{"empty", "t1", "", ReasonMalformed},
		{"dots", "t1", "..", ReasonMalformed},
		{"four_parts", "t1", good + ".", ReasonMalformed},
		{"padded", "t1", good + "=", ReasonMalformed},
		{"line_break", "t1", good[:10] + "\n" + good[10:], ReasonMalformed},
		{"no_signature", "t1", strings.TrimSuffix(good, signature), ReasonSignature},
		{"too_large", "t1", good + strings.Repeat("A", MaxTokenBytes), ReasonMalformed},
		{"too_large_and_no_tenant", "t1/", good + strings.Repeat("A", MaxTokenBytes), ReasonMalformed},
		{"too_many_permissions", "t1", with("perms", many), ReasonMalformed}, // it is larger than a token may be, too
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := start
			v := newVerifier(t, AudienceBroker, &fixedKeys{keys: map[string][]Key{
				"t1": {ours.Key(), second.Key()}, "t2": {theirs.Key()}, "t3": {ours.Key()}, "t4": {},
			}}, &now)
			id, err := v.Verify(t.Context(), tt.tenant, tt.token)
			if got := ReasonOf(err); got != tt.want {
				t.Fatalf("got %v (%s), want %v", got, DetailOf(err), tt.want)
			}
			if tt.want == ReasonNone {
				if err != nil || id == nil {
					t.Errorf("got %v, %v, want an identity", id, err)
				}
				return
			}
			if id != nil || errcode.Of(err) != errcode.AuthenticationFailed || err.Error() != "the token was refused" {
				t.Errorf("got %v and %v of kind %v, want no identity and the public sentence", id, err, errcode.Of(err))
			}
		})
	}
}

// TestFlippedSignature is row 27: every single bit counts, those that the last character does not need too.
func TestFlippedSignature(t *testing.T) {
	signer, now := newSigner(t, "k1", 1), start
	v := newVerifier(t, AudienceBroker, &fixedKeys{keys: map[string][]Key{"t1": {signer.Key()}}}, &now)
	good := mint(t, goodClaims(t), signer)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := strings.LastIndexByte(good, '.') + 1; i < len(good); i++ {
		for bit := range 6 {
			b := []byte(good)
			b[i] = alphabet[strings.IndexByte(alphabet, b[i])^1<<bit]
			if _, err := v.Verify(t.Context(), "t1", string(b)); err == nil {
				t.Fatalf("character %d, bit %d: accepted", i, bit)
			}
		}
	}
}

// TestKeysAreNotAskedFor: what cannot be a token of the tenant costs its key source nothing (rows 21 and 24 to 26).
func TestKeysAreNotAskedFor(t *testing.T) {
	signer, now := newSigner(t, "k1", 1), start
	keys := &fixedKeys{keys: map[string][]Key{"t1": {signer.Key()}}}
	v := newVerifier(t, AudienceBroker, keys, &now)
	good := mint(t, goodClaims(t), signer)
	for _, in := range [][2]string{
		{"t/1", good},
		{"%2e%2e", good},
		{"", good},
		{strings.Repeat("t", 10<<10), good},
		{"t1", hs256(t, signer)},
		{"t1", handmade(t, map[string]any{"alg": "none"}, rawClaims(nil), signer)},
		{"t1", "a.b.c"},
	} {
		if _, err := v.Verify(t.Context(), in[0], in[1]); err == nil {
			t.Errorf("%.20q: accepted", in[0])
		}
	}
	if keys.asked != 0 {
		t.Errorf("keys were asked for %d times, want never", keys.asked)
	}
}

func TestKeysUnavailable(t *testing.T) {
	now := start
	v := newVerifier(t, AudienceBroker, &fixedKeys{err: errors.New("connection refused")}, &now)
	_, err := v.Verify(t.Context(), "t1", mint(t, goodClaims(t), newSigner(t, "k1", 1)))
	if ReasonOf(err) != ReasonKeysUnavailable || errcode.Of(err) != errcode.AuthenticationFailed {
		t.Errorf("got %v of kind %v", DetailOf(err), errcode.Of(err))
	}
}

// TestRememberedToken: what is remembered ends with the token, with its key, and with its principal.
func TestRememberedToken(t *testing.T) {
	signer, other := newSigner(t, "k1", 1), newSigner(t, "k2", 2)
	token := mint(t, goodClaims(t), signer)
	now := start
	keys := &fixedKeys{keys: map[string][]Key{"t1": {signer.Key()}}}
	var revoked string
	v, err := NewVerifier(VerifierOptions{
		Audience: AudienceBroker, Keys: keys, Now: func() time.Time { return now },
		Revoked: func(_, principal string, _ time.Time) bool { return principal == revoked },
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, want Reason) {
		t.Helper()
		if _, err := v.Verify(t.Context(), "t1", token); ReasonOf(err) != want {
			t.Errorf("%s: got %v, want %v", name, DetailOf(err), want)
		}
	}
	check("first", ReasonNone)
	check("again", ReasonNone)
	keys.keys["t1"] = []Key{other.Key(), signer.Key()}
	check("the key verifies still", ReasonNone)
	keys.keys["t1"] = []Key{other.Key()}
	check("the key is retired", ReasonSignature)
	keys.keys["t1"] = []Key{signer.Key()}
	check("it is back", ReasonNone)
	revoked = "p:alice"
	check("the principal is revoked", ReasonRevoked)
	revoked = ""
	if _, err := v.Verify(t.Context(), "t2", token); ReasonOf(err) != ReasonUnknownTenant {
		t.Errorf("another tenant: got %v", DetailOf(err))
	}
	delete(keys.keys, "t1")
	check("the tenant is gone", ReasonUnknownTenant)
	keys.keys["t1"] = []Key{signer.Key()}
	now = start.Add(15*time.Minute + 59*time.Second)
	check("past its end, within the leeway", ReasonNone)
	now = start.Add(16 * time.Minute)
	check("past its end", ReasonExpired)
}

func TestRevokedActor(t *testing.T) {
	signer := newSigner(t, "k1", 1)
	c := goodClaims(t)
	c.Actor = "p:gateway"
	v, err := NewVerifier(VerifierOptions{
		Audience: AudienceBroker, Keys: &fixedKeys{keys: map[string][]Key{"t1": {signer.Key()}}}, Now: func() time.Time { return start },
		Revoked: func(_, principal string, issued time.Time) bool {
			return principal == "p:gateway" && !issued.After(start)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), "t1", mint(t, c, signer)); ReasonOf(err) != ReasonRevoked {
		t.Errorf("got %v, want revoked", DetailOf(err))
	}
	c.Issued = start.Add(time.Second)
	if _, err := v.Verify(t.Context(), "t1", mint(t, c, signer)); err != nil {
		t.Errorf("issued later: got %v", DetailOf(err))
	}
}

func TestMintRefuses(t *testing.T) {
	signer := newSigner(t, "", 1)
	if want := KeyID(signer.Key().Public); signer.Key().ID != want {
		t.Errorf("got key id %q, want %q", signer.Key().ID, want)
	}
	var large []string
	for i := range 600 {
		large = append(large, fmt.Sprintf("cache.read:cache:t1/namespace/cache-%d", i))
	}
	tests := []struct {
		name  string
		spoil func(*Claims)
	}{
		{"no_tenant", func(c *Claims) { c.Tenant = "" }},
		{"no_principal", func(c *Claims) { c.Principal = "" }},
		{"no_audience", func(c *Claims) { c.Audience = "" }},
		{"ends_first", func(c *Claims) { c.Expires = c.Issued }},
		{"before_time", func(c *Claims) { c.Issued = time.Time{} }},
		{"bad_permission", func(c *Claims) {
			c.Permissions = []Permission{{StreamPublish, Object{Kind: TenantObject, Tenant: "t1"}}}
		}},
		{"too_large", func(c *Claims) { c.Permissions = permissions(t, large...) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := goodClaims(t)
			tt.spoil(&c)
			if _, err := Mint(c, signer); errcode.Of(err) != errcode.InvalidRequest {
				t.Errorf("got %v, want a refusal of kind InvalidRequest", err)
			}
		})
	}
	if _, err := NewSigner("k", make([]byte, 31)); err == nil {
		t.Error("a short seed was taken")
	}
}

// TestNothingPrintsASecret: neither the ways to print a value nor the texts of errors hold a token, a signature or a seed.
func TestNothingPrintsASecret(t *testing.T) {
	signer, now := newSigner(t, "k1", 1), start
	v := newVerifier(t, AudienceBroker, &fixedKeys{keys: map[string][]Key{"t1": {signer.Key()}}}, &now)
	token := mint(t, goodClaims(t), signer)
	id, err := v.Verify(t.Context(), "t1", token)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	_, bad := v.Verify(t.Context(), "t2", token)
	_, flipped := v.Verify(t.Context(), "t1", token[:len(token)-4]+"AAAA")
	out := fmt.Sprintf("%v %+v %#v %s %v %+v %#v %s", id, id, id, *id, signer, *signer, signer, asJSON)
	out += DetailOf(bad) + bad.Error() + DetailOf(flipped) + fmt.Sprintf("%+v %#v", bad, flipped)
	seed := bytes.Repeat([]byte{1}, 32)
	for _, secret := range []string{token, token[strings.LastIndexByte(token, '.')+1:], string(seed), base64.StdEncoding.EncodeToString(seed)} {
		if strings.Contains(out, secret) {
			t.Errorf("%q holds a secret", out)
		}
	}
}

func TestVerifierOptions(t *testing.T) {
	for _, o := range []VerifierOptions{{Audience: AudienceBroker}, {Audience: "felix", Keys: &fixedKeys{}}} {
		if _, err := NewVerifier(o); err == nil {
			t.Errorf("%+v: accepted", o)
		}
	}
}

func TestTokenCacheIsBounded(t *testing.T) {
	signer, now := newSigner(t, "k1", 1), start
	v := newVerifier(t, AudienceBroker, &fixedKeys{keys: map[string][]Key{"t1": {signer.Key()}}}, &now)
	v.cache = newTokenCache(64 << 10)
	var first string
	for i := range 200 {
		c := goodClaims(t)
		c.Principal = fmt.Sprintf("p:%d", i)
		token := mint(t, c, signer)
		if i == 0 {
			first = token
		}
		for _, tok := range []string{token, first} {
			if _, err := v.Verify(t.Context(), "t1", tok); err != nil {
				t.Fatal(err)
			}
		}
		total := 0
		for _, generation := range []map[[32]byte]cached{v.cache.young, v.cache.old} {
			for _, e := range generation {
				total += costOf(e)
			}
		}
		if total > 64<<10 || v.cache.bytes > 32<<10 {
			t.Fatalf("after %d tokens the cache holds %d bytes", i, total)
		}
	}
	if _, ok := v.cache.get(cacheID("t1", first), now); !ok {
		t.Error("the token that is asked for all the time is forgotten")
	}
	v.cache = newTokenCache(-1)
	if _, err := v.Verify(t.Context(), "t1", first); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.cache.get(cacheID("t1", first), now); ok {
		t.Error("a cache that is off remembers")
	}
}

func BenchmarkVerifyRemembered(b *testing.B) {
	signer, now := newSigner(b, "k1", 1), start
	v := newVerifier(b, AudienceBroker, &fixedKeys{keys: map[string][]Key{"t1": {signer.Key()}}}, &now)
	token := mint(b, goodClaims(b), signer)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), "t1", token); err != nil {
			b.Fatal(err)
		}
	}
}

// TestIncarnation: an identity has the incarnation of the tenant whose key verified it, and what is remembered of a token is not taken for
// the next tenant of the name, even if that has the same key.
func TestIncarnation(t *testing.T) {
	signer := newSigner(t, "k1", 1)
	key := signer.Key()
	key.Incarnation = 5
	keys := &fixedKeys{keys: map[string][]Key{"t1": {key}}}
	now := start
	v := newVerifier(t, AudienceBroker, keys, &now)
	token := mint(t, goodClaims(t), signer)
	for _, incarnation := range []uint64{5, 9, 9} {
		keys.keys["t1"][0].Incarnation = incarnation
		for range 2 { // verified, and remembered
			id, err := v.Verify(t.Context(), "t1", token)
			if err != nil || id.Incarnation != incarnation {
				t.Errorf("got %+v, %v, want incarnation %d", id, err, incarnation)
			}
		}
	}
}
