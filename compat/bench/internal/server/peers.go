package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// natsPackage is the command of the NATS server. Its version is in this module's go.mod.
const natsPackage = "github.com/nats-io/nats-server/v2"

// BuildNATS builds the NATS server at path. moduleDir is the folder of this module.
func BuildNATS(ctx context.Context, moduleDir, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, natsPackage)
	cmd.Dir, cmd.Env = moduleDir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the NATS server: %w: %s", err, out)
	}
	return nil
}

// TLSDir is a directory with ca.pem, cert.pem and key.pem for localhost.
type TLSDir string

// CA is the authority's certificate.
func (d TLSDir) CA() string { return filepath.Join(string(d), "ca.pem") }

// Cert is the server's certificate.
func (d TLSDir) Cert() string { return filepath.Join(string(d), "cert.pem") }

// Key is the server's key.
func (d TLSDir) Key() string { return filepath.Join(string(d), "key.pem") }

// NewTLSDir makes an authority and a server certificate, both for a day, of the kind that Felix's development profile has (P-256).
func NewTLSDir(dir string) (TLSDir, error) {
	d := TLSDir(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return d, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return d, err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "benchmarks"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return d, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key)
	if err != nil {
		return d, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return d, err
	}
	write := func(path, kind string, der []byte) error {
		return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	return d, errors.Join(write(d.CA(), "CERTIFICATE", caDER), write(d.Cert(), "CERTIFICATE", leafDER), write(d.Key(), "PRIVATE KEY", keyDER))
}

// natsArgs is the command line of a NATS server without anything but its core. A client may be as far behind as the load lets it.
func (in *Installation) natsArgs(cfg Config, s *Server) ([]string, error) {
	if in.NATSBinary == "" {
		return nil, errors.New("no NATS server")
	}
	conf := fmt.Sprintf("listen: \"%s\"\nmax_pending: 1GB\nmax_payload: 8MB\n", s.Addr)
	if cfg.Kind == NATSTLS {
		conf += fmt.Sprintf("tls { cert_file: %q, key_file: %q }\n", in.TLS.Cert(), in.TLS.Key())
	}
	path := filepath.Clean(cfg.DataDir) + ".conf"
	return []string{in.NATSBinary, "-c", path}, os.WriteFile(path, []byte(conf), 0o600)
}

func (in *Installation) relayArgs(cfg Config) []string {
	return []string{
		in.Self, "relay", "-listen", "127.0.0.1:0", "-cert", in.TLS.Cert(), "-key", in.TLS.Key(), "-ready-file", readyFile(cfg.DataDir),
		"-metrics", "127.0.0.1:0",
	}
}

// probePeer asks a server that does not speak Kafka whether it is there.
func (s *Server) probePeer(ctx context.Context) error {
	if s.Kind == Relay {
		_, err := os.Stat(readyFile(s.DataDir))
		return err
	}
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := d.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	// A NATS server speaks first.
	b := make([]byte, 4)
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	_, err = c.Read(b)
	if err == nil && !strings.HasPrefix("INFO", string(b)) {
		err = fmt.Errorf("it said %q", b)
	}
	return errors.Join(err, c.Close())
}
