package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/felixproto/wire"
)

// nativeLogin dials the native listener of a node as a stranger would, trusting the given authority alone, and sends one auth. It
// returns the answer.
func nativeLogin(t *testing.T, n *Node, caFile, tenant, token string) wire.Message {
	t.Helper()
	text, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	conn, err := quic.DialAddr(ctx, n.Addrs().Native, &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"felix/1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseWithError(0, "") }()
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a := &wire.Auth{TenantID: tenant, Token: token, ClientFlags: wire.Some(wire.KnownFlags)}
	a.SetFeatures(wire.FeatureErrorCodes)
	if _, err := stream.Write(wire.AppendMessage(nil, a)); err != nil {
		t.Fatal(err)
	}
	_ = stream.SetReadDeadline(time.Now().Add(testTimeout))
	_, payload, err := wire.ReadFrame(stream, nil, wire.DefaultMaxFrameBytes)
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.ParseReply(payload)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// spoilSignature changes one character of a token's signature to another that a signature can have.
func spoilSignature(token string) string {
	at, c := len(token)-2, byte('A')
	if token[at] == c {
		c = 'B'
	}
	return token[:at] + string(c) + token[at+1:]
}

// TestNativeLogin runs rows of the security rules (section 13.1) about tokens against a running node: with the token that the
// single-node profile keeps, and with what must be refused without a word about the reason.
func TestNativeLogin(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, dir)
	files := developmentFiles{filepath.Join(dir, "dev")}
	ca := developmentCert(files).ca()
	seed, _, err := files.seed()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := auth.NewSigner("another-name", seed) // row 34: the key's name is a hint
	if err != nil {
		t.Fatal(err)
	}
	other := withTenant(t, n, "other", 2)
	token := readToken(t, files.token())
	now := time.Now()
	all := "tenant.manage:tenant:default"
	tests := []struct {
		name, tenant, token string
		ok                  bool
	}{
		{"kept_by_the_profile", "default", token, true},
		{"row_34_unknown_kid", "default", mintTest(t, signer, auth.Claims{Tenant: "default"}, all), true},
		{"row_28_59_seconds", "default", mintTest(t, signer, auth.Claims{Tenant: "default", Issued: now.Add(-time.Hour), Expires: now.Add(-50 * time.Second)}), true},
		{"row_21_name", "%2e%2e", token, false},
		{"row_21_slash", "default/x", token, false},
		{"row_22_unknown_tenant", "nobody", token, false},
		{"row_27_signature", "default", spoilSignature(token), false},
		{"row_28_61_seconds", "default", mintTest(t, signer, auth.Claims{Tenant: "default", Issued: now.Add(-time.Hour), Expires: now.Add(-61 * time.Second)}), false},
		{"row_29_iat", "default", mintTest(t, signer, auth.Claims{Tenant: "default", Issued: now.Add(2 * time.Minute)}), false},
		{"row_30_audience", "default", readToken(t, files.apiToken()), false},
		{"row_31_other_tenant", "other", token, false},
		{"row_31_key_of_another_tenant", "default", mintTest(t, other, auth.Claims{Tenant: "default"}, all), false},
		{"no_token", "default", "secret", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := nativeLogin(t, n, ca, tt.tenant, tt.token)
			if _, ok := m.(*wire.AuthOK); ok != tt.ok {
				t.Fatalf("got %T, want success: %v", m, tt.ok)
			}
			if e, failed := m.(*wire.Error); failed && strings.Contains(e.Message, tt.token) {
				t.Error("the answer repeats the token")
			}
		})
	}
}
