package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// developmentCertAge is how long a generated certificate lasts; it is made anew when less than renewBefore is left.
	developmentCertAge = 365 * day
	renewBefore        = 30 * day
)

// serverTLS builds the TLS configuration of the client listeners: the configured certificate, or else a generated one whose
// authority lies in <data-dir>/dev/ca.pem. hosts are the names and addresses that a generated certificate answers to.
func serverTLS(c *Config, hosts []string, now time.Time) (*tls.Config, error) {
	certFile, keyFile := certificatePaths(c)
	if c.TLS.CertFile == "" {
		if err := developmentCertOf(c).ensure(hosts, now); err != nil {
			return nil, fmt.Errorf("generate a certificate: %w", err)
		}
	}
	return configureTLS(c, certFile, keyFile)
}

// certificatePaths are the files of the certificate that the client listeners show.
func certificatePaths(c *Config) (certFile, keyFile string) {
	if c.TLS.CertFile != "" {
		return c.TLS.CertFile, c.TLS.KeyFile
	}
	dev := developmentCertOf(c)
	return dev.cert(), dev.key()
}

func developmentCertOf(c *Config) developmentCert {
	return developmentCert{dir: filepath.Join(c.DataDir, "dev")}
}

// checkCertificates looks at the files of the configured certificate, if the node will serve one, and writes nothing.
func checkCertificates(c *Config) error {
	if c.Kafka.Listen == "" || !c.Kafka.TLS || c.TLS.CertFile == "" {
		return nil
	}
	_, err := configureTLS(c, c.TLS.CertFile, c.TLS.KeyFile)
	return err
}

// configureTLS reads the files.
func configureTLS(c *Config, certFile, keyFile string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
	}
	out := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if c.TLS.ClientCAFile != "" {
		text, err := os.ReadFile(c.TLS.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.client_ca: %w", err)
		}
		out.ClientCAs = x509.NewCertPool()
		if !out.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls.client_ca: %s holds no certificate", c.TLS.ClientCAFile)
		}
		out.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return out, nil
}

// developmentCert is the generated authority and the server certificate that it signed, in one directory. The authority's key is not
// kept: a new certificate comes with a new authority.
type developmentCert struct{ dir string }

func (d developmentCert) ca() string   { return filepath.Join(d.dir, "ca.pem") }
func (d developmentCert) cert() string { return filepath.Join(d.dir, "server.pem") }
func (d developmentCert) key() string  { return filepath.Join(d.dir, "server.key") }

// ensure keeps the files that are there as long as they last and cover the hosts, and makes new ones otherwise.
func (d developmentCert) ensure(hosts []string, now time.Time) error {
	if d.usable(hosts, now) {
		return nil
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	ca, cert, key, err := generate(hosts, now)
	if err != nil {
		return err
	}
	return errors.Join(writeSynced(d.ca(), ca), writeSynced(d.key(), key), writeSynced(d.cert(), cert))
}

func (d developmentCert) usable(hosts []string, now time.Time) bool {
	pair, err := tls.LoadX509KeyPair(d.cert(), d.key())
	if err != nil {
		return false
	}
	authority, err := os.ReadFile(d.ca())
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for _, h := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: h, Roots: roots, CurrentTime: now.Add(renewBefore)}); err != nil {
			return false
		}
	}
	return true
}

// generate makes an authority and a server certificate signed by it, all as PEM.
func generate(hosts []string, now time.Time) (ca, cert, key []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	caTemplate := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "Felix development authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(developmentCertAge),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, caTemplate, caTemplate, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, nil, nil, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: "Felix development server"},
		NotBefore: caTemplate.NotBefore, NotAfter: caTemplate.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, h)
		}
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, caTemplate, &leafKey.PublicKey, caKey)
	if err != nil {
		return nil, nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return nil, nil, nil, err
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return block("CERTIFICATE", caDER), block("CERTIFICATE", leafDER), block("PRIVATE KEY", keyDER), nil
}

// certificateHosts are the names that a client on this machine may dial, and the advertised one.
func certificateHosts(advertised string) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(advertised); err == nil && host != "" && host != "localhost" && host != "127.0.0.1" && host != "::1" {
		hosts = append(hosts, host)
	}
	return hosts
}
