package cluster

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
)

// KeyState is what a tenant's signing key is used for. Every published key verifies. The numbers are stored.
type KeyState uint8

// The states, in the order of a key's life.
const (
	KeyStaged   KeyState = 1 // published, has not signed yet
	KeyCurrent  KeyState = 2 // signs
	KeyPrevious KeyState = 3 // has signed; what it signed still verifies
)

// String is for tables and logs.
func (s KeyState) String() string {
	switch s {
	case KeyStaged:
		return "staged"
	case KeyCurrent:
		return "current"
	case KeyPrevious:
		return "previous"
	default:
		return "unknown"
	}
}

// MaxSigningKeys bounds the keys of one tenant: a verifier tries each of them.
const MaxSigningKeys = 16

// SigningKey is one Ed25519 key of a tenant. Immutable. The seed never leaves the process: formatting and marshalling show the id alone.
type SigningKey struct {
	ID     string // the kid
	Public []byte // 32 bytes
	Seed   []byte // 32 bytes: ed25519.NewKeyFromSeed
	State  KeyState
}

// Format writes the id, whatever the verb: a seed must not reach a log by way of the struct that holds it.
func (k SigningKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "signing key "+k.ID) }

// MarshalJSON refuses.
func (k SigningKey) MarshalJSON() ([]byte, error) { return nil, errSecret }

var errSecret = errors.New("cluster: signing keys have no JSON form")

// NewSigningKey is a key to be stored for a tenant. The proposer draws the seed; everything else follows from it.
type NewSigningKey struct {
	ID   string
	Seed []byte
}

// Format writes the id, as SigningKey's.
func (k NewSigningKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "signing key "+k.ID) }

// MarshalJSON refuses.
func (k NewSigningKey) MarshalJSON() ([]byte, error) { return nil, errSecret }

// IsZero says that there is no key.
func (k NewSigningKey) IsZero() bool { return k.ID == "" && len(k.Seed) == 0 }

// KeyFromSeed names the key of a seed of 32 random bytes, which it keeps: by the head of the digest of the public key, as auth.KeyID
// does, so that one key never has two names.
func KeyFromSeed(seed []byte) NewSigningKey {
	sum := sha256.Sum256(publicOf(seed))
	return NewSigningKey{ID: base64.RawURLEncoding.EncodeToString(sum[:12]), Seed: seed}
}

func publicOf(seed []byte) []byte {
	return ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
}

// Key makes what is stored of k. Its seed must have 32 bytes.
func (k NewSigningKey) Key(state KeyState) SigningKey {
	return SigningKey{ID: k.ID, Public: publicOf(k.Seed), Seed: k.Seed, State: state}
}

// PutSigningKey publishes a key of a tenant without signing with it. The same key again is success.
type PutSigningKey struct {
	Tenant string
	Key    NewSigningKey
}

// ActivateSigningKey makes a published key the one that signs. The replaced one keeps verifying.
type ActivateSigningKey struct {
	Tenant string
	ID     string
}

// RetireSigningKey unpublishes a key that does not sign.
type RetireSigningKey struct {
	Tenant string
	ID     string
}

func (PutSigningKey) command()      {}
func (ActivateSigningKey) command() {}
func (RetireSigningKey) command()   {}

// CurrentKey is the key that signs; ok is false for a tenant that has none.
func (t *Tenant) CurrentKey() (k SigningKey, ok bool) {
	if len(t.Keys) == 0 || t.Keys[0].State != KeyCurrent {
		return SigningKey{}, false
	}
	return t.Keys[0], true
}

// Key returns a published key by id.
func (t *Tenant) Key(id string) (k SigningKey, ok bool) {
	i := t.keyIndex(id)
	if i < 0 {
		return SigningKey{}, false
	}
	return t.Keys[i], true
}

func (t *Tenant) keyIndex(id string) int {
	return slices.IndexFunc(t.Keys, func(k SigningKey) bool { return k.ID == id })
}

// WithKey returns t with a key added behind the others. It shares nothing that is written.
func (t Tenant) WithKey(k SigningKey) Tenant {
	t.Keys = append(slices.Clip(t.Keys), k)
	return t
}

// WithCurrentKey returns t with a published key signing, which puts it first, and the former one behind it.
func (t Tenant) WithCurrentKey(id string) Tenant {
	i := t.keyIndex(id)
	if i < 0 {
		return t
	}
	next := t.Keys[i]
	next.State = KeyCurrent
	rest := slices.Delete(slices.Clone(t.Keys), i, i+1)
	for j := range rest {
		if rest[j].State == KeyCurrent {
			rest[j].State = KeyPrevious
		}
	}
	t.Keys = slices.Insert(rest, 0, next)
	return t
}

// WithoutKey returns t without a key.
func (t Tenant) WithoutKey(id string) Tenant {
	if i := t.keyIndex(id); i >= 0 {
		t.Keys = slices.Delete(slices.Clone(t.Keys), i, i+1)
	}
	return t
}
