package node

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/kafkaproto"
)

// staticVerifier checks SASL PLAIN against the configured logins; the user name is the tenant. It holds digests and no passwords, and
// compares in constant time. An unknown tenant costs the same as a wrong password. Safe for concurrent use.
type staticVerifier struct {
	digests map[string][sha256.Size]byte
}

var _ kafkaproto.Verifier = (*staticVerifier)(nil)

// errWrongLogin is one sentence for an unknown user and for a wrong password, so that an answer does not tell which tenants exist.
var errWrongLogin = errcode.New(errcode.AuthenticationFailed, "user name or password is wrong")

func newStaticVerifier(users []Credential) *staticVerifier {
	v := &staticVerifier{digests: make(map[string][sha256.Size]byte, len(users))}
	for _, u := range users {
		v.digests[u.Tenant] = sha256.Sum256([]byte(u.Password))
	}
	return v
}

// VerifyPlain returns the caller with every right on the tenant that it named.
func (v *staticVerifier) VerifyPlain(_ context.Context, user, password string) (kafkaproto.Identity, error) {
	want, known := v.digests[user]
	got := sha256.Sum256([]byte(password))
	same := subtle.ConstantTimeCompare(got[:], want[:]) == 1
	if !known || !same {
		return kafkaproto.Identity{}, errWrongLogin
	}
	return kafkaproto.Identity{Caller: kafkaproto.Caller{Tenant: user, Principal: user}}, nil
}
