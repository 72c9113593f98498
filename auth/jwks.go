package auth

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/felixlog/felix/internal/errcode"
)

// Limits of a key set that is read.
const (
	MaxKeySetBytes = 256 << 10
	maxKeysInSet   = 256
)

// webKey is one key as RFC 8037 writes it.
type webKey struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
	ID        string `json:"kid"`
	X         string `json:"x"`
}

// AppendKeySet appends the published form of a tenant's keys (JWKS), in their order.
func AppendKeySet(dst []byte, keys []Key) []byte {
	set := struct {
		Keys []webKey `json:"keys"`
	}{Keys: []webKey{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, webKey{
			Type: "OKP", Curve: "Ed25519", Algorithm: "EdDSA", Use: "sig", ID: k.ID, X: base64.RawURLEncoding.EncodeToString(k.Public),
		})
	}
	text, err := json.Marshal(set)
	if err != nil {
		return dst // texts marshal
	}
	return append(dst, text...)
}

// ParseKeySet reads what AppendKeySet writes. Keys of another kind or algorithm are left out: nothing here could use them. Error:
// errcode.InvalidRequest for what is no key set, or has a key of our kind that is none.
func ParseKeySet(text []byte) ([]Key, error) {
	bad := func(format string, args ...any) ([]Key, error) {
		return nil, errcode.Newf(errcode.InvalidRequest, "key set: "+format, args...)
	}
	if len(text) > MaxKeySetBytes {
		return bad("%d bytes, at most %d are read", len(text), MaxKeySetBytes)
	}
	var set struct {
		Keys []webKey `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return bad("not a JSON object with keys")
	}
	if len(set.Keys) > maxKeysInSet {
		return bad("%d keys, at most %d are read", len(set.Keys), maxKeysInSet)
	}
	var out []Key
	for i, k := range set.Keys {
		if k.Type != "OKP" || k.Curve != "Ed25519" || k.Algorithm != "" && k.Algorithm != "EdDSA" || k.Use != "" && k.Use != "sig" {
			continue
		}
		x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
		if err == nil && len(x) != ed25519.PublicKeySize {
			err = fmt.Errorf("x has %d bytes", len(x))
		}
		if err != nil {
			return bad("key %d: %w", i, err)
		}
		out = append(out, Key{ID: k.ID, Public: x})
	}
	return out, nil
}
