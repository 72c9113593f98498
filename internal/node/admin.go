package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// readiness is what /ready answers.
type readiness int32

// The states of a node, in the order it goes through them.
const (
	starting readiness = iota
	serving
	draining
)

// String is the body of the answer.
func (r readiness) String() string { return [...]string{"starting", "ready", "draining"}[r] }

// admin is the HTTP server of metrics and probes. It is up before the node serves and is the last to go, and it looks at nothing but
// the node's own state: a liveness probe that asks a dependency restarts a healthy process.
type admin struct {
	state   atomic.Int32 // readiness
	metrics *metrics
	server  *http.Server
	addr    string
	wg      sync.WaitGroup
}

const (
	// adminHeaderTimeout and adminIdleTimeout bound what a client that sends nothing can hold.
	adminHeaderTimeout = 5 * time.Second
	adminIdleTimeout   = time.Minute
	// adminMaxHeaderBytes is far more than a scrape or a probe sends.
	adminMaxHeaderBytes = 16 << 10
	// adminConcurrentScrapes bounds scrapes that run at once; more are answered 503.
	adminConcurrentScrapes = 4
)

func newAdmin(reg *prometheus.Registry, m *metrics, logger *zap.Logger, profiles bool) *admin {
	a := &admin{metrics: m}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		Registry: reg, MaxRequestsInFlight: adminConcurrentScrapes, ErrorLog: scrapeLog{logger},
	}))
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "live") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		state := readiness(a.state.Load())
		status := http.StatusServiceUnavailable
		if state == serving {
			status = http.StatusOK
		}
		answer(w, status, state.String())
	})
	if profiles {
		// On loopback alone: a profile shows addresses and names, and taking one costs time.
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	a.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: adminHeaderTimeout, IdleTimeout: adminIdleTimeout, MaxHeaderBytes: adminMaxHeaderBytes,
		ErrorLog: zap.NewStdLog(logger.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
	}
	return a
}

// scrapeLog gives promhttp's errors to the node's log.
type scrapeLog struct{ logger *zap.Logger }

// Println logs one failed scrape.
func (l scrapeLog) Println(v ...any) { l.logger.Warn("metrics scrape failed", zap.Any("reason", v)) }

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body + "\n")) // the prober left; nobody is told
}

// set moves the node to a state; the metric follows.
func (a *admin) set(state readiness) {
	a.state.Store(int32(state))
	if state == serving {
		a.metrics.ready.Set(1)
	} else {
		a.metrics.ready.Set(0)
	}
}

// serve answers on ln until close. Contexts of requests derive from ctx.
func (a *admin) serve(ctx context.Context, ln net.Listener, logger *zap.Logger) {
	a.addr = ln.Addr().String()
	a.server.BaseContext = func(net.Listener) context.Context { return ctx }
	a.wg.Go(func() {
		if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("metrics listener stopped", zap.Error(err))
		}
	})
}

// close ends the listener and its connections at once: a scrape that is cut off comes again.
func (a *admin) close() error {
	err := a.server.Close()
	a.wg.Wait()
	return err
}
