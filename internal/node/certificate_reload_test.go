package node

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
)

func valueOf(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetGauge().GetValue() + out.GetCounter().GetValue()
}

// TestCertificateReload replaces the files of a running listener's certificate step by step, and looks what a handshake is shown.
func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writes := 0
	write := func(path string, text []byte) {
		t.Helper()
		writes++
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Duration(writes) * time.Minute) // clocks of file systems may be coarse
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	pair := func(at time.Time) (cert, key []byte) {
		t.Helper()
		ca, err := newAuthority(at)
		if err != nil {
			t.Fatal(err)
		}
		if cert, key, err = ca.issue([]string{"localhost"}, at); err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	cert1, key1 := pair(now)
	cert2, key2 := pair(now.Add(-time.Hour))
	expired, expiredKey := pair(now.Add(-2 * developmentCertAge))
	write(certFile, cert1)
	write(keyFile, key1)
	conf, err := serverTLS(&Config{DataDir: dir, TLS: TLSConfig{CertFile: certFile, KeyFile: keyFile}}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	m := newCertificateMetrics(prometheus.NewRegistry())
	f := &certificateFiles{certFile: certFile, keyFile: keyFile, logger: zap.NewNop(), now: func() time.Time { return now }, metrics: m}
	f.watch(conf)
	if len(conf.Certificates) != 0 {
		t.Error("clients that name no host are shown the first certificate for ever")
	}
	steps := []struct {
		name              string
		after             time.Duration
		change            func()
		second            bool // the second pair is shown
		reloads, failures float64
	}{
		{"at_the_start", time.Hour, nil, false, 0, 0},
		{"half_of_a_pair", time.Second, func() { write(certFile, cert2) }, false, 0, 1},
		{"told_once", time.Second, nil, false, 0, 1},
		{"both_halves", time.Second, func() { write(keyFile, key2) }, true, 1, 1},
		{"too_early_to_look", time.Second / 2, func() { write(certFile, cert1) }, true, 1, 1},
		{"half_again", time.Second, nil, true, 1, 2},
		{"the_same_again", time.Second, func() { write(certFile, cert2) }, true, 1, 2},
		{"missing", time.Second, func() { os.Remove(keyFile) }, true, 1, 3},
		{"still_missing", time.Second, nil, true, 1, 3},
		{"expired", time.Second, func() { write(certFile, expired); write(keyFile, expiredKey) }, true, 1, 4},
		{"garbage", time.Second, func() { write(certFile, []byte("no certificate")) }, true, 1, 5},
		{"the_first_again", time.Second, func() { write(certFile, cert1); write(keyFile, key1) }, false, 2, 5},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			now = now.Add(step.after)
			if step.change != nil {
				step.change()
			}
			got, err := conf.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})
			if err != nil {
				t.Fatal(err)
			}
			want, _ := tls.X509KeyPair(cert1, key1)
			if step.second {
				want, _ = tls.X509KeyPair(cert2, key2)
			}
			if !got.Leaf.Equal(want.Leaf) {
				t.Errorf("shown: the certificate that ends at %v, want %v", got.Leaf.NotAfter, want.Leaf.NotAfter)
			}
			if r, f := valueOf(t, m.reloads), valueOf(t, m.failures); r != step.reloads || f != step.failures {
				t.Errorf("%v reloads and %v failures, want %v and %v", r, f, step.reloads, step.failures)
			}
			if at := valueOf(t, m.expires); at != float64(want.Leaf.NotAfter.Unix()) {
				t.Errorf("the metric says %v, want %v", at, want.Leaf.NotAfter.Unix())
			}
		})
	}
}
