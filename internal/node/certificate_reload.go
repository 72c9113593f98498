package node

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
)

// certificateLookInterval is the least time between two looks at a certificate's files.
const certificateLookInterval = time.Second

// certificateFiles serves the certificate in a pair of files, and the one that replaces it: a handshake looks whether the files
// changed, once a second at most, and reads them again if they did. A pair that cannot be served (half of it replaced so far, expired,
// not a pair) is reported once and the one before it stays.
type certificateFiles struct {
	certFile, keyFile string
	logger            *zap.Logger
	now               func() time.Time
	metrics           *certificateMetrics

	current atomic.Pointer[tls.Certificate]
	looking atomic.Bool  // one handshake looks, others go on with what there is
	looked  atomic.Int64 // when, in Unix nanoseconds

	cert, key os.FileInfo // as they were when they were read last; owned by who looks
}

type certificateMetrics struct {
	expires           prometheus.Gauge
	reloads, failures prometheus.Counter
}

func newCertificateMetrics(r prometheus.Registerer) *certificateMetrics {
	f := promauto.With(r)
	return &certificateMetrics{
		expires: f.NewGauge(prometheus.GaugeOpts{
			Name: "felix_tls_certificate_expiry_timestamp_seconds",
			Help: "When the certificate that the client listeners show ends, in Unix time; 0 without TLS.",
		}),
		reloads: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_tls_certificate_reloads_total", Help: "Times that changed certificate files were taken over without a restart.",
		}),
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "felix_tls_certificate_reload_failures_total",
			Help: "Times that changed certificate files could not be taken over; the certificate before them is still shown.",
		}),
	}
}

// watch makes conf serve its one certificate from the files that it was read from.
func (f *certificateFiles) watch(conf *tls.Config) {
	f.serve(&conf.Certificates[0])
	f.looked.Store(f.now().UnixNano())
	conf.Certificates, conf.GetCertificate = nil, f.get // with both, clients that name no host would never see another one
}

func (f *certificateFiles) serve(pair *tls.Certificate) {
	f.current.Store(pair)
	f.metrics.expires.Set(float64(pair.Leaf.NotAfter.Unix()))
}

// get is the GetCertificate of the listener's configuration.
func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if now := f.now().UnixNano(); now-f.looked.Load() >= int64(certificateLookInterval) && f.looking.CompareAndSwap(false, true) {
		f.looked.Store(now)
		f.look()
		f.looking.Store(false)
	}
	return f.current.Load(), nil
}

// look reads the files if they changed.
func (f *certificateFiles) look() {
	// Their state is taken first: what changes while they are read is seen at the next look.
	cert, err1 := os.Stat(f.certFile)
	key, err2 := os.Stat(f.keyFile)
	if sameFile(cert, f.cert) && sameFile(key, f.key) {
		return
	}
	f.cert, f.key = cert, key
	pair, err := tls.Certificate{}, errors.Join(err1, err2)
	if err == nil {
		pair, err = tls.LoadX509KeyPair(f.certFile, f.keyFile)
	}
	if err == nil && pair.Leaf.Equal(f.current.Load().Leaf) {
		return // touched, or the first look since the start
	}
	if now := f.now(); err == nil && (now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore)) {
		err = fmt.Errorf("the certificate is valid from %v to %v", pair.Leaf.NotBefore, pair.Leaf.NotAfter)
	}
	if err != nil {
		f.metrics.failures.Inc()
		f.logger.Error("changed certificate cannot be served, the one before stays", zap.String("tls_cert", f.certFile),
			zap.Time("ends", f.current.Load().Leaf.NotAfter), zap.Error(err))
		return
	}
	f.serve(&pair)
	f.metrics.reloads.Inc()
	f.logger.Info("certificate replaced", zap.String("tls_cert", f.certFile), zap.Time("ends", pair.Leaf.NotAfter))
}

// sameFile reports whether a file is as it was; one that is missing both times is.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
