package auth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
)

func TestKeySetText(t *testing.T) {
	keys := []Key{newSigner(t, "k1", 1).Key(), newSigner(t, `k"2`, 2).Key()}
	text := AppendKeySet([]byte("x"), keys)[1:]
	const want = `{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","kid":"k1","x":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w"}`
	if !strings.HasPrefix(string(text), want) {
		t.Errorf("got %s, want it to begin with %s", text, want)
	}
	got, err := ParseKeySet(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Error(diff)
	}
	if text := string(AppendKeySet(nil, nil)); text != `{"keys":[]}` {
		t.Errorf("got %s for no keys", text)
	}
}

func TestParseKeySet(t *testing.T) {
	const x = `"x":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w"`
	tests := []struct {
		name, in string
		want     int // keys; -1: refused
	}{
		{"empty", `{"keys":[]}`, 0},
		{"nothing", `{}`, 0},
		{"short_form", `{"keys":[{"kty":"OKP","crv":"Ed25519",` + x + `}]}`, 1},
		{"other_algorithm", `{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"HS256",` + x + `}]}`, 0},
		{"other_use", `{"keys":[{"kty":"OKP","crv":"Ed25519","use":"enc",` + x + `}]}`, 0},
		{"rsa", `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`, 0},
		{"symmetric", `{"keys":[{"kty":"oct","k":"AQAB"}]}`, 0},
		{"short_key", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AQAB"}]}`, -1},
		{"no_base64", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"!"}]}`, -1},
		{"no_object", `[]`, -1},
		{"no_json", `{`, -1},
		{"too_many", `{"keys":[` + strings.Repeat(`{},`, maxKeysInSet) + `{}]}`, -1},
		{"too_large", `{"keys":[]}` + strings.Repeat(" ", MaxKeySetBytes), -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			keys, err := ParseKeySet([]byte(tt.in))
			if tt.want < 0 {
				if errcode.Of(err) != errcode.InvalidRequest {
					t.Errorf("got %v, %v, want a refusal", keys, err)
				}
				return
			}
			if err != nil || len(keys) != tt.want {
				t.Errorf("got %d keys, %v, want %d", len(keys), err, tt.want)
			}
		})
	}
}
