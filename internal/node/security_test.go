package node

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/errcode"
)

func TestStaticVerifier(t *testing.T) {
	v := newStaticVerifier([]Credential{{"acme", "secret"}, {"other", "word"}})
	tests := []struct {
		name, user, password string
		want                 bool
	}{
		{"right", "acme", "secret", true},
		{"second", "other", "word", true},
		{"wrong", "acme", "word", false},
		{"empty", "acme", "", false},
		{"unknown", "nobody", "secret", false},
		{"unknown_empty", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := v.VerifyPlain(t.Context(), tt.user, tt.password)
			if (err == nil) != tt.want {
				t.Fatalf("got %v, want success %v", err, tt.want)
			}
			if !tt.want {
				if errcode.Of(err) != errcode.AuthenticationFailed {
					t.Errorf("got kind %v, want AuthenticationFailed", errcode.Of(err))
				}
				return
			}
			if id.Caller.Tenant != tt.user || !id.Expires.IsZero() {
				t.Errorf("got %+v, want tenant %s without an end", id, tt.user)
			}
		})
	}
}

// verifyServer checks the server certificate of conf for a host, trusting the authority in caFile, as a client would.
func verifyServer(t *testing.T, conf *tls.Config, caFile, host string, now time.Time) error {
	t.Helper()
	text, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatal("no authority in the file")
	}
	_, err = conf.Certificates[0].Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
	return err
}

func TestGeneratedCertificate(t *testing.T) {
	c := &Config{DataDir: t.TempDir()}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hosts := certificateHosts("felix.example:9092")
	first, err := serverTLS(c, hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(c.DataDir, "dev", "ca.pem")
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "felix.example"} {
		if err := verifyServer(t, first, ca, host, now); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if err := verifyServer(t, first, ca, "elsewhere.example", now); err == nil {
		t.Error("a host that is not ours verifies")
	}

	if leaf := first.Certificates[0].Leaf; leaf.IsCA || !leaf.BasicConstraintsValid {
		t.Error("the server's certificate is an authority itself")
	}

	// The certificate is new at each start, and the authority that clients were given stays.
	given, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	later := now.Add(8 * 365 * day)
	again, err := serverTLS(c, certificateHosts("other.example:9092"), later)
	if err != nil {
		t.Fatal(err)
	}
	if again.Certificates[0].Leaf.Equal(first.Certificates[0].Leaf) {
		t.Error("the certificate of the start before is shown again")
	}
	if err := verifyServer(t, again, ca, "other.example", later); err != nil {
		t.Errorf("the new advertised host: %v", err)
	}
	if err := verifyServer(t, again, ca, "felix.example", later); err == nil {
		t.Error("the advertised host of before verifies still")
	}
	if kept, err := os.ReadFile(ca); err != nil || string(kept) != string(given) {
		t.Errorf("the authority changed, %v", err)
	}

	// An authority that would end before the certificate, or whose key is gone, is made anew.
	late := now.Add(developmentCAAge - developmentCertAge)
	for _, step := range []struct {
		name  string
		spoil func() error
	}{
		{"near_its_end", func() error { return nil }},
		{"no_key", func() error { return os.Remove(filepath.Join(c.DataDir, "dev", "ca.key")) }},
		{"garbage", func() error { return os.WriteFile(ca, []byte("x"), 0o600) }},
	} {
		if err := step.spoil(); err != nil {
			t.Fatal(step.name, err)
		}
		fresh, err := serverTLS(c, hosts, late)
		if err != nil {
			t.Fatal(step.name, err)
		}
		text, err := os.ReadFile(ca)
		if err != nil || string(text) == string(given) {
			t.Errorf("%s: the authority stays, %v", step.name, err)
		}
		if err := verifyServer(t, fresh, ca, "localhost", late); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		given = text
	}
	for _, name := range []string{"server.key", "ca.key", "ca.pem", "server.pem"} {
		info, err := os.Stat(filepath.Join(c.DataDir, "dev", name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v for %s, want mode 0600", info.Mode(), err, name)
		}
	}
}

func TestCertificateExport(t *testing.T) {
	dir := t.TempDir()
	c := &Config{DataDir: dir, TLS: TLSConfig{ExportFile: filepath.Join(dir, "given.pem")}}
	now := time.Now()
	conf, err := serverTLS(c, certificateHosts(), now)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifyServer(t, conf, c.TLS.ExportFile, "localhost", now); err != nil {
		t.Errorf("with what was exported: %v", err)
	}
	if info, err := os.Stat(c.TLS.ExportFile); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("others cannot read the certificate that was written for them: %v, %v", info.Mode(), err)
	}
	c.TLS.ExportFile = filepath.Join(dir, "none", "given.pem")
	if _, err := serverTLS(c, certificateHosts(), now); err == nil || !strings.Contains(err.Error(), "tls.cert_export") {
		t.Errorf("got %v, want a refusal to start", err)
	}
}

func TestGivenCertificate(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	authority, err := newAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	ca := pemBlock("CERTIFICATE", authority.cert.Raw)
	cert, key, err := authority.issue([]string{"localhost"}, now)
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string, text []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	caFile, certFile, keyFile := path("ca.pem", ca), path("cert.pem", cert), path("key.pem", key)
	good := TLSConfig{CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile}
	conf, err := serverTLS(&Config{DataDir: dir, TLS: good}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if conf.ClientAuth != tls.RequireAndVerifyClientCert || conf.MinVersion != tls.VersionTLS12 {
		t.Errorf("got client auth %v and minimum version %x", conf.ClientAuth, conf.MinVersion)
	}
	if _, err := os.Stat(filepath.Join(dir, "dev")); !os.IsNotExist(err) {
		t.Errorf("a certificate was generated beside a given one: %v", err)
	}
	tests := []struct {
		name, want string
		tls        TLSConfig
	}{
		{"missing", "tls.cert", TLSConfig{CertFile: filepath.Join(dir, "none"), KeyFile: keyFile}},
		{"not_a_pair", "tls.cert", TLSConfig{CertFile: certFile, KeyFile: certFile}},
		{"no_client_ca", "tls.client_ca", TLSConfig{CertFile: certFile, KeyFile: keyFile, ClientCAFile: filepath.Join(dir, "none")}},
		{"empty_client_ca", "holds no certificate", TLSConfig{CertFile: certFile, KeyFile: keyFile, ClientCAFile: keyFile}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := serverTLS(&Config{DataDir: dir, TLS: tt.tls}, nil, now); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestBadCertificateLeavesNothing: a wrong path is told before directories are made.
func TestBadCertificateLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := loadTest(t, dir, "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret", "FELIX_TLS_CERT=/none.pem", "FELIX_TLS_KEY=/none.key").Config
	if _, err := Open(t.Context(), c, Options{Logger: zap.NewNop()}); err == nil || !strings.Contains(err.Error(), "tls.cert") {
		t.Errorf("got %v, want a refusal of tls.cert", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
}

// TestDataIsNobodyElses: records and metadata are readable by the node's user alone, whatever the directory above allows.
func TestDataIsNobodyElses(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, dir, "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret") // with a generated certificate
	if _, err := os.Stat(filepath.Join(dir, "dev", "server.key")); err != nil {
		t.Error(err)
	}
	if err := n.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	stopped, segment := stoppedNode(t)
	if _, err := os.Stat(segment); err != nil {
		t.Error(err)
	}
	for _, root := range []string{dir, stopped} {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || path == root {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
