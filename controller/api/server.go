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
	bodyTimeout    = 10 * time.Second // for a body to arrive, from when it is read

	// Bodies that are read at once, in all and of one caller, by its account and by its address; more wait. So somebody whose bodies do not
	// arrive keeps none of the others from being read.
	maxReads           = 256
	maxReadsPerAccount = 16 // those that are worked on among them
	maxReadsPerAddress = 32
	maxWork            = 64 // bodies that are worked on at once, until the call has its answer; more wait
)

// Server answers the REST API and the bootstrap listener. New starts nothing; Serve and ServeBootstrap answer until Close.
type Server struct {
	opts      Options
	logger    *zap.Logger
	peerLog   *zap.Logger // sampled: for what a client can cause at will
	metrics   *metrics
	api       *router
	bootstrap *router
	reads     chan struct{} // one taken for each body that is read
	readers   *shares       // by account: who reads a body or works on it
	addresses *shares       // by address: who reads a body
	work      chan struct{} // one taken for each body that is worked on
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
		api: newRouter(apiRoutes), bootstrap: newRouter(bootstrapRoutes(opts.Bootstrap)), reads: make(chan struct{}, maxReads), readers: newShares(maxReadsPerAccount), addresses: newShares(maxReadsPerAddress), work: make(chan struct{}, maxWork),
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
	ln = limitListener(ln, s.opts.MaxConnections, s.opts.MaxConnectionsPerAddress)
	if s.httpAPI.TLSConfig != nil {
		return closedError(s.httpAPI.ServeTLS(ln, "", ""))
	}
	return closedError(s.httpAPI.Serve(ln))
}

// ServeBootstrap answers the bootstrap routes on ln, which must not be reachable from other machines.
func (s *Server) ServeBootstrap(ln net.Listener) error {
	ln = limitListener(ln, s.opts.MaxConnections, s.opts.MaxConnectionsPerAddress)
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
	releases []func()        // give back what the call took
}

// hold notes what is to be given back at the end of the call.
func (c *call) hold(release func()) { c.releases = append(c.releases, release) }

// giveBack gives back what was taken since there were so many.
func (c *call) giveBack(since int) {
	for len(c.releases) > since {
		last := len(c.releases) - 1
		c.releases[last]()
		c.releases = c.releases[:last]
	}
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

// answer takes the checks that every route has and hands the call over. A handler that panics has answered 500, and what it took is given
// back as of any other: before the answer is sent, or callers that are slow to read theirs would keep all others from working.
func (s *Server) answer(c *call) (a answer, err error) {
	defer c.giveBack(0)
	defer func() {
		if p := recover(); p != nil {
			s.logger.Error("call panicked", zap.String("method", c.request.Method), zap.String("route", c.route.path), zap.Any("panic", p), zap.StackSkip("stack", 1))
			a, err = answer{}, errPanic
		}
	}()
	if err := s.authenticate(c); err != nil {
		return answer{}, err
	}
	c.image = s.opts.Controller.Image()
	if id := c.identity; id != nil && !c.image.HasTenant(id.Tenant, id.Incarnation) {
		return answer{}, s.reject(rejectInvalid, id.Tenant, "it went since its keys were asked")
	}
	return c.route.handle(c)
}

// errPanic is answered as internal.
var errPanic = errors.New("api: the call panicked")

// write sends an answer. What cannot be written has no reader any more.
func (s *Server) write(w http.ResponseWriter, a answer) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	h.Set("Content-Type", "application/json")
	out := &answerWriter{w: w, status: a.status}
	if err := out.encode(a.body); err != nil {
		s.logger.Error("answer without a JSON form", zap.Error(err))
		if !out.began {
			h.Del("Content-Type")
			w.WriteHeader(http.StatusInternalServerError)
		}
		return
	}
	out.end()
}

// answerWriter sends the JSON form of an answer, a long listing in pieces: it never has the whole of one.
type answerWriter struct {
	w      http.ResponseWriter
	status int
	text   bytes.Buffer
	began  bool
}

// piece is how much text is gathered before it is sent.
const piece = 64 << 10

func (o *answerWriter) encode(body any) error {
	switch b := body.(type) {
	case listing:
		if err := o.items(`{"items":`, b.Items); err != nil {
			return err
		}
		if b.NextCursor != "" {
			o.text.WriteString(`,"next_cursor":`)
			if err := o.value(b.NextCursor); err != nil {
				return err
			}
		}
		o.text.WriteByte('}')
	case []any:
		if err := o.items("", b); err != nil {
			return err
		}
	default:
		if err := o.value(body); err != nil {
			return err
		}
	}
	o.text.WriteByte('\n')
	return nil
}

func (o *answerWriter) items(before string, list []any) error {
	o.text.WriteString(before)
	o.text.WriteByte('[')
	for i, item := range list {
		if i > 0 {
			o.text.WriteByte(',')
		}
		if err := o.value(item); err != nil {
			return err
		}
		if o.text.Len() >= piece {
			o.send()
		}
	}
	o.text.WriteByte(']')
	return nil
}

func (o *answerWriter) value(v any) error {
	e := json.NewEncoder(&o.text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	o.text.Truncate(o.text.Len() - 1) // the line end
	return nil
}

func (o *answerWriter) send() {
	if !o.began {
		o.began = true
		o.w.WriteHeader(o.status)
	}
	_, _ = o.w.Write(o.text.Bytes()) // the client left; nobody is told
	o.text.Reset()
}

func (o *answerWriter) end() {
	if !o.began {
		o.w.Header().Set("Content-Length", strconv.Itoa(o.text.Len()))
	}
	o.send()
}

// propose has a command carried out, if the caller's tenant is by then still the one whose key verified the token: a body may come in as
// slowly as the caller likes. A refusal of the whole is its error; items are the caller's to look at.
func (c *call) propose(cmd cluster.Command) (cluster.Result, error) {
	if id := c.identity; id != nil {
		cmd = cluster.Guarded{Tenant: id.Tenant, Incarnation: id.Incarnation, Command: cmd}
	}
	res, err := c.server.opts.Controller.Propose(c.ctx, cmd)
	if err == nil {
		err = res.Err
	}
	return res, err
}
