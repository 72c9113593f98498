package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

// ErrServerClosed is what Serve returns after Close.
var ErrServerClosed = errors.New("api: closed")

// What a client that is slow or sends nothing can hold.
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = 30 * time.Second
	answerTimeout  = time.Minute
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	maxBodies      = 64 // read and worked on at once; more wait
)

// Server answers the REST API and the bootstrap listener. New starts nothing; Serve and ServeBootstrap answer until Close.
type Server struct {
	opts      Options
	logger    *zap.Logger
	peerLog   *zap.Logger // sampled: for what a client can cause at will
	metrics   *metrics
	api       *router
	bootstrap *router
	bodies    chan struct{} // one taken for each body that is held
	draining  atomic.Bool
	ready     readiness

	httpAPI, httpBootstrap *http.Server
}

// New makes a server.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, logger: opts.Logger.Named("api"), peerLog: sampled(opts.Logger.Named("api")), metrics: newMetrics(opts.Registerer),
		api: newRouter(apiRoutes), bootstrap: newRouter(bootstrapRoutes(opts.Bootstrap)), bodies: make(chan struct{}, maxBodies),
	}
	s.httpAPI = s.newHTTP(s.api)
	s.httpBootstrap = s.newHTTP(s.bootstrap)
	for h, conf := range map[*http.Server]*tls.Config{s.httpAPI: opts.TLS, s.httpBootstrap: opts.Bootstrap.TLS} {
		if conf != nil {
			h.TLSConfig = conf.Clone()
			h.TLSConfig.NextProtos = []string{"http/1.1"}
		}
	}
	return s, nil
}

// sampled passes on the first few entries of one message in a second, and a trickle of the rest.
func sampled(l *zap.Logger) *zap.Logger {
	return l.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, 5, 1000)
	}))
}

func (s *Server) newHTTP(t *router) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(t, w, r) }),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, Protocols: protocols, DisableGeneralOptionsHandler: true,
		ErrorLog: zap.NewStdLog(s.logger.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
	}
}

// Serve answers the API on ln, over TLS when it is configured, and returns ErrServerClosed after Close.
func (s *Server) Serve(ln net.Listener) error {
	ln = limitListener(ln, s.opts.MaxConnections)
	if s.httpAPI.TLSConfig != nil {
		return closedError(s.httpAPI.ServeTLS(ln, "", ""))
	}
	return closedError(s.httpAPI.Serve(ln))
}

// ServeBootstrap answers the bootstrap routes on ln, which must not be reachable from other machines.
func (s *Server) ServeBootstrap(ln net.Listener) error {
	ln = limitListener(ln, s.opts.MaxConnections)
	if s.httpBootstrap.TLSConfig != nil {
		return closedError(s.httpBootstrap.ServeTLS(ln, "", ""))
	}
	return closedError(s.httpBootstrap.Serve(ln))
}

func closedError(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return ErrServerClosed
	}
	return err
}

// Drain makes readiness fall, so that callers look for another member. Calls are still answered.
func (s *Server) Drain() { s.draining.Store(true) }

// Close stops listening, waits for the calls that run, and when ctx ends cuts them off. It returns nil when none was. It may be called
// again.
func (s *Server) Close(ctx context.Context) error {
	s.Drain()
	var errs [2]error
	var wg sync.WaitGroup
	for i, h := range []*http.Server{s.httpAPI, s.httpBootstrap} {
		wg.Go(func() {
			if errs[i] = h.Shutdown(ctx); errs[i] != nil {
				errs[i] = fmt.Errorf("api: calls were cut off: %w", errors.Join(errs[i], h.Close()))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// call is one request on its way.
type call struct {
	server   *Server
	route    *route
	params   map[string]string // by the names in the route's path
	request  *http.Request
	writer   http.ResponseWriter
	ctx      context.Context //nolint:containedctx // of this request alone
	image    *cluster.Image  // as it was when the caller was known; has the tenant in the path, if the call is its own
	identity *auth.Identity  // nil on open routes
	release  func()          // gives back what the body took; nil: nothing
}

// answer is what a call returns: a status, and what goes out as JSON; nil: nothing does.
type answer struct {
	status int
	body   any
}

func ok(body any) answer      { return answer{http.StatusOK, body} }
func created(body any) answer { return answer{http.StatusCreated, body} }
func done() answer            { return answer{status: http.StatusNoContent} }

// serve answers one request.
func (s *Server) serve(t *router, w http.ResponseWriter, r *http.Request) {
	began := s.opts.Now()
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.WriteTimeout)
	defer cancel()
	template := noRoute
	rt, params, methods, err := t.find(r)
	var a answer
	if err == nil {
		template = rt.path
		c := &call{server: s, route: rt, params: params, request: r, writer: w, ctx: ctx}
		a, err = s.answer(c)
		if c.release != nil {
			defer c.release()
		}
	}
	if err != nil {
		e := refusalOf(err)
		if e.status >= http.StatusInternalServerError {
			s.peerLog.Warn("call failed", zap.String("method", r.Method), zap.String("route", template), zap.Int("status", e.status), zap.Error(err))
		}
		if methods != nil {
			w.Header().Set("Allow", strings.Join(methods, ", "))
		}
		if e.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		a = answer{e.status, errorBody{Code: e.code, Message: e.message, Index: indexOf(e)}}
	}
	s.write(w, a)
	s.metrics.observe(template, a.status, s.opts.Now().Sub(began))
}

func indexOf(e *apiError) *int {
	if e.index < 0 {
		return nil
	}
	return &e.index
}

// answer takes the checks that every route has and hands the call over.
func (s *Server) answer(c *call) (answer, error) {
	if err := s.authenticate(c); err != nil {
		return answer{}, err
	}
	c.image = s.opts.Controller.Image()
	if id := c.identity; id != nil && !c.image.HasTenant(id.Tenant, id.Incarnation) {
		return answer{}, s.reject(rejectInvalid, id.Tenant, "it went since its keys were asked")
	}
	return c.route.handle(c)
}

// write sends an answer. What cannot be written has no reader any more.
func (s *Server) write(w http.ResponseWriter, a answer) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(a.body); err != nil {
		s.logger.Error("answer without a JSON form", zap.Error(err))
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(text.Len()))
	w.WriteHeader(a.status)
	_, _ = w.Write(text.Bytes()) // the client left; nobody is told
}

// bodySlot waits for room for a body and returns what gives it back.
func (s *Server) bodySlot(ctx context.Context) (func(), error) {
	select {
	case s.bodies <- struct{}{}:
		return func() { <-s.bodies }, nil
	case <-ctx.Done():
		return nil, unavailable()
	}
}

// propose has a command carried out. A refusal of the whole is its error; items are the caller's to look at.
func (c *call) propose(cmd cluster.Command) (cluster.Result, error) {
	res, err := c.server.opts.Controller.Propose(c.ctx, cmd)
	if err == nil {
		err = res.Err
	}
	return res, err
}

// limitListener closes connections above a number on arrival.
func limitListener(ln net.Listener, limit int) net.Listener {
	return &limited{Listener: ln, limit: int64(limit)}
}

type limited struct {
	net.Listener
	limit int64
	open  atomic.Int64
}

// Accept returns the next connection that there is room for.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.limit {
			return &limitedConn{Conn: conn, open: &l.open}, nil
		}
		l.open.Add(-1)
		_ = conn.Close() // nothing was promised to it
	}
}

type limitedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

// CloseWrite ends what is sent, if the connection can: net/http does that after an answer to a request that it does not read to its end, so
// that the answer is not lost in a reset.
func (c *limitedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// Close closes the connection and makes room.
func (c *limitedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
