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
	"slices"
	"time"
)

const (
	// developmentCertAge is how long a generated server certificate lasts. It is made anew at each start.
	developmentCertAge = 365 * day
	// developmentCAAge is how long its authority does. It is kept, so that clients need to be given it once, and made anew when it
	// could end before a certificate of today.
	developmentCAAge = 10 * 365 * day
)

// serverTLS builds the TLS configuration of the client listeners: the configured certificate, or else one generated for hosts (the
// names and addresses that it answers to), whose authority lies in <data-dir>/dev/ca.pem.
func serverTLS(c *Config, hosts []string, now time.Time) (*tls.Config, error) {
	certFile, keyFile := certificatePaths(c)
	if c.TLS.CertFile == "" {
		dev := developmentCertOf(c)
		if err := dev.issue(hosts, now); err != nil {
			return nil, fmt.Errorf("generate a certificate: %w", err)
		}
		if err := exportAuthority(dev.ca(), c.TLS.ExportFile); err != nil {
			return nil, err
		}
	}
	return configureTLS(c, certFile, keyFile)
}

// exportAuthority copies the authority of a generated certificate to where the configuration asks for it, if it does.
func exportAuthority(caFile, to string) error {
	if to == "" {
		return nil
	}
	text, err := os.ReadFile(caFile)
	if err == nil {
		err = writeSynced(to, text)
	}
	if err == nil {
		err = os.Chmod(to, 0o644) // a certificate is for everybody, and here it is for others than the node's user
	}
	if err != nil {
		return fmt.Errorf("tls.cert_export: %w", err)
	}
	return nil
}

// certificatePaths are the files of the certificate that the client listeners show.
func certificatePaths(c *Config) (certFile, keyFile string) {
	if c.TLS.CertFile != "" {
		return c.TLS.CertFile, c.TLS.KeyFile
	}
	dev := developmentCertOf(c)
	return dev.cert(), dev.key()
}

func developmentCertOf(c *Config) developmentCert { return developmentCert{dir: developmentDir(c)} }

// checkCertificates looks at the files of the configured certificates that the node will serve, and writes nothing.
func checkCertificates(c *Config) error {
	if c.TLS.CertFile != "" && (c.NativeListen != "" || c.Kafka.Listen != "" && c.Kafka.TLS) {
		if _, err := configureTLS(c, c.TLS.CertFile, c.TLS.KeyFile); err != nil {
			return err
		}
	}
	if c.TLS.APICertFile != "" && c.APIListen != "" {
		if _, err := tls.LoadX509KeyPair(c.TLS.APICertFile, c.TLS.APIKeyFile); err != nil {
			return fmt.Errorf("api_tls_cert and api_tls_key: %w", err)
		}
	}
	if c.API.Bootstrap {
		if _, err := c.API.bootstrapTLS(); err != nil {
			return err
		}
	}
	return nil
}

// configureTLS reads the files.
func configureTLS(c *Config, certFile, keyFile string) (*tls.Config, error) {
	conf, err := readTLS(certFile, keyFile, c.TLS.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("tls.cert, tls.key and tls.client_ca: %w", err)
	}
	return conf, nil
}

// readTLS reads a certificate and its key, and the authority whose certificate clients must show ("": they need none).
func readTLS(certFile, keyFile, clientCAFile string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	out := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clientCAFile != "" {
		text, err := os.ReadFile(clientCAFile)
		if err != nil {
			return nil, err
		}
		out.ClientCAs = x509.NewCertPool()
		if !out.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", clientCAFile)
		}
		out.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return out, nil
}

// developmentCert is a generated authority, which is kept, and the server certificate that it signed last, in one directory. Whoever
// reads the authority's key can pose as this server to those who trust it: like everything there it is for the node's user alone.
type developmentCert struct{ dir string }

func (d developmentCert) ca() string    { return filepath.Join(d.dir, "ca.pem") }
func (d developmentCert) caKey() string { return filepath.Join(d.dir, "ca.key") }
func (d developmentCert) cert() string  { return filepath.Join(d.dir, "server.pem") }
func (d developmentCert) key() string   { return filepath.Join(d.dir, "server.key") }

// issue makes a new server certificate for hosts, signed by the authority that is there, or by a new one if that cannot be read or ends
// too soon.
func (d developmentCert) issue(hosts []string, now time.Time) error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	ca, err := d.authority(now)
	if err != nil {
		return err
	}
	cert, key, err := ca.issue(hosts, now)
	if err != nil {
		return err
	}
	return errors.Join(replaceFile(d.key(), key), replaceFile(d.cert(), cert))
}

// authority reads the authority, or makes one.
func (d developmentCert) authority(now time.Time) (*authority, error) {
	pair, err := tls.LoadX509KeyPair(d.ca(), d.caKey())
	if err == nil {
		key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
		if ok && pair.Leaf.IsCA && now.After(pair.Leaf.NotBefore) && now.Add(developmentCertAge).Before(pair.Leaf.NotAfter) {
			return &authority{cert: pair.Leaf, key: key}, nil
		}
	}
	ca, err := newAuthority(now)
	if err != nil {
		return nil, err
	}
	keyText, err := pemKey(ca.key)
	if err != nil {
		return nil, err
	}
	// The key first: an authority without its key would be given to clients and never sign again.
	return ca, errors.Join(writeSynced(d.caKey(), keyText), writeSynced(d.ca(), pemBlock("CERTIFICATE", ca.cert.Raw)))
}

// authority signs generated certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "Felix development authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(developmentCAAge),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// issue makes a server certificate for names and addresses, as PEM. It is no authority itself: some clients refuse one that is.
func (a *authority) issue(hosts []string, now time.Time) (cert, key []byte, err error) {
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: "Felix development server"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(developmentCertAge), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &leafKey.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = pemKey(leafKey)
	return pemBlock("CERTIFICATE", der), key, err
}

func pemKey(key any) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pemBlock("PRIVATE KEY", der), err
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// certificateHosts are the names that a client on this machine may dial, and those of the addresses that clients are told.
func certificateHosts(told ...string) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	for _, addr := range told {
		host, _, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
