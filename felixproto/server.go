package felixproto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/felixlog/felix/cache"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/udp"
)

// Protocol is the id that clients offer in the handshake (ALPN).
const Protocol = "felix/1"

// Server speaks the native protocol on any number of sockets.
type Server struct {
	opts    Options
	logger  *zap.Logger
	peerLog *zap.Logger // sampled: for what a client can cause at will
	metrics *metrics
	hubs    hubs
	states  *cache.States

	delivery deliveryBudget // frames that wait to be written to subscribers
	history  history        // of those what readers of history have
	pages    chan struct{}  // has a token for each page of history that is being read
	windows  byteBudget     // what connections' flow control windows have grown by
	reading  *frameBudget   // frames that are being read, beyond what every stream may hold

	subscriptionIDs atomic.Uint64
	connectionIDs   atomic.Uint64

	goodbye  time.Duration // see conn.finish
	draining atomic.Bool   // no new connections, streams or subscriptions
	tasks    tasks

	mu         sync.Mutex
	listeners  map[*listener]struct{} // guarded by mu
	conns      map[*conn]struct{}     // guarded by mu
	admitted   int                    // guarded by mu: connections, those still in the handshake included
	byAddress  map[netip.Addr]int     // guarded by mu
	sweeping   bool                   // guarded by mu
	stopSweeps chan struct{}          // closed by Close
	closed     chan struct{}          // closed when nothing runs any more
}

// listener is one socket.
type listener struct {
	transport *quic.Transport
	quic      *quic.Listener
}

// New makes a server. It starts nothing: see Serve.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	logger := opts.Logger.Named("felixproto")
	s := &Server{
		opts: opts, logger: logger,
		peerLog: logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(core, time.Second, 5, 1000)
		})),
		hubs:       hubs{byShard: map[ids.ShardID]*hub{}},
		states:     cache.NewStates(cache.Options{MaxBytes: opts.MemoryBudget, MaxDecodedBytes: opts.MaxDecodedBytes}),
		delivery:   deliveryBudget{limit: opts.MemoryBudget / 2},
		windows:    byteBudget{limit: opts.MemoryBudget / 4},
		reading:    newFrameBudget(opts.MemoryBudget / 4),
		listeners:  map[*listener]struct{}{},
		conns:      map[*conn]struct{}{},
		byAddress:  map[netip.Addr]int{},
		stopSweeps: make(chan struct{}),
		closed:     make(chan struct{}),
		pages:      make(chan struct{}, pagesRead),
		goodbye:    defaultGoodbye,
	}
	s.history = newHistory(&s.delivery)
	s.metrics = newMetrics(opts.Registerer, s)
	// Subscription ids are unique in the life of a process; clients tell them from those of another by the connection.
	s.subscriptionIDs.Store(1)
	return s, nil
}

// Listen binds a UDP address.
func Listen(ctx context.Context, addr string, receiveBuffer, sendBuffer int) (*net.UDPConn, error) {
	network := "udp"
	if at, err := netip.ParseAddrPort(addr); err == nil && at.Addr().Is4() {
		network = "udp4"
	}
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	socket, ok := pc.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("felixproto: %s is no UDP address", addr), pc.Close())
	}
	// The system grants what it may; less only means more lost datagrams under load.
	_, _ = socket.SetReadBuffer(receiveBuffer), socket.SetWriteBuffer(sendBuffer)
	return socket, nil
}

// Serve takes connections on a socket until Close, and then returns ErrServerClosed; any other error is the socket's, or ctx's. It closes
// the socket.
func (s *Server) Serve(ctx context.Context, socket *net.UDPConn) error {
	// The library's advice about buffer sizes goes to the standard logger otherwise.
	if err := os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true"); err != nil {
		return errors.Join(err, socket.Close())
	}
	pc, err := udp.New(socket)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	l := &listener{transport: &quic.Transport{Conn: pc, ConnContext: s.admit}}
	if s.opts.ResetKey != ([32]byte{}) {
		l.transport.StatelessResetKey = (*quic.StatelessResetKey)(&s.opts.ResetKey)
	}
	if l.quic, err = l.transport.Listen(s.tlsConfig(), s.quicConfig()); err != nil {
		return errors.Join(err, socket.Close())
	}
	defer func() { _ = errors.Join(l.transport.Close(), socket.Close()) }()
	if !s.track(l) {
		return ErrServerClosed
	}
	defer s.untrack(l)
	for {
		q, err := l.quic.Accept(ctx)
		if err != nil {
			if s.draining.Load() {
				// The sockets stay until the connections are told.
				<-s.stopSweeps
				return ErrServerClosed
			}
			return fmt.Errorf("accept: %w", err)
		}
		s.serve(q)
	}
}

// tlsConfig chooses the protocol for each client: one that offers none is answered with none, since a TLS stack of QUIC refuses a
// server that insists (RFC 9001, 8.1).
func (s *Server) tlsConfig() *tls.Config {
	base := s.opts.TLS.Clone()
	base.MinVersion = tls.VersionTLS13
	base.NextProtos = []string{Protocol}
	silent := base.Clone()
	silent.NextProtos = nil
	conf := base.Clone()
	given := s.opts.TLS.GetConfigForClient
	conf.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		with, without := base, silent
		if given != nil {
			newer, err := given(hello)
			if err != nil {
				return nil, err
			}
			if newer != nil {
				with, without = newer.Clone(), newer.Clone()
				with.MinVersion, without.MinVersion = tls.VersionTLS13, tls.VersionTLS13
				with.NextProtos, without.NextProtos = []string{Protocol}, nil
			}
		}
		if len(hello.SupportedProtos) == 0 && !s.opts.RequireALPN {
			return without, nil
		}
		if !slices.Contains(hello.SupportedProtos, Protocol) {
			s.metrics.handshakeRefused.Inc()
		}
		return with, nil
	}
	return conf
}

func (s *Server) quicConfig() *quic.Config {
	o := &s.opts
	return &quic.Config{
		Versions:                       []quic.Version{quic.Version1},
		MaxIdleTimeout:                 o.IdleTimeout,
		KeepAlivePeriod:                o.KeepAlive,
		InitialStreamReceiveWindow:     uint64(o.StreamWindow),
		MaxStreamReceiveWindow:         uint64(o.MaxStreamWindow),
		InitialConnectionReceiveWindow: uint64(o.ConnectionWindow),
		MaxConnectionReceiveWindow:     uint64(o.MaxConnWindow),
		AllowConnectionWindowIncrease:  s.allowWindow,
		MaxIncomingStreams:             int64(o.MaxStreams),
		MaxIncomingUniStreams:          int64(o.MaxStreams),
	}
}

// connKey finds a connection's admission in its context.
type connKey struct{}

// admission counts a connection from its first packet on. It is given back when the connection's context ends.
type admission struct {
	addr netip.Addr
	// conn is set once the handshake is over.
	conn atomic.Pointer[conn]
	// grown is by how much the flow control window was allowed to grow.
	grown atomic.Int64
}

// admit decides about a connection before its handshake. An error is answered with CONNECTION_REFUSED.
func (s *Server) admit(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	a := &admission{addr: addressOf(info.RemoteAddr)}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load():
		return nil, errRefused
	case s.opts.MaxConnectionsPerAddress > 0 && s.byAddress[a.addr] >= s.opts.MaxConnectionsPerAddress:
		s.metrics.refused.WithLabelValues("per_ip_limit").Inc()
		return nil, errRefused
	case s.admitted >= s.opts.MaxConnections:
		s.metrics.refused.WithLabelValues("limit").Inc()
		return nil, errRefused
	}
	s.admitted++
	s.byAddress[a.addr]++
	ctx = context.WithValue(ctx, connKey{}, a)
	context.AfterFunc(ctx, func() { s.dismiss(a) })
	return ctx, nil
}

var errRefused = errors.New("felixproto: connection refused")

// dismiss ends the accounting of a connection.
func (s *Server) dismiss(a *admission) {
	s.windows.give(a.grown.Swap(0))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted--
	if s.byAddress[a.addr]--; s.byAddress[a.addr] <= 0 {
		delete(s.byAddress, a.addr)
	}
}

// addressOf is a peer's address without port; an IPv4 address in IPv6 form counts as IPv4.
func addressOf(addr net.Addr) netip.Addr {
	if a, ok := addr.(*net.UDPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// allowWindow lets a connection's window grow once somebody has authenticated on it, and while there is memory for it.
func (s *Server) allowWindow(q *quic.Conn, delta uint64) bool {
	a, ok := q.Context().Value(connKey{}).(*admission)
	if !ok {
		return false
	}
	c := a.conn.Load()
	if c == nil || !c.authenticated.Load() || !s.windows.take(int64(delta)) {
		return false
	}
	a.grown.Add(int64(delta))
	if q.Context().Err() != nil {
		s.windows.give(a.grown.Swap(0)) // dismissed meanwhile
	}
	return true
}

func (s *Server) track(l *listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	if !s.sweeping {
		s.sweeping = true
		s.tasks.start(s.sweep)
	}
	return true
}

func (s *Server) sockets() []*listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.listeners))
}

func (s *Server) untrack(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

// serve begins to serve a connection whose handshake is over.
func (s *Server) serve(q *quic.Conn) {
	c := newConn(s, q)
	s.mu.Lock()
	refused := s.draining.Load()
	if !refused {
		s.conns[c] = struct{}{}
		c.start()
	}
	s.mu.Unlock()
	if refused {
		_ = q.CloseWithError(closeShutdown, "shutting down")
	}
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *Server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		out = append(out, c)
	}
	return out
}

// sweepInterval is how often the connections are looked over for answers that never came.
const sweepInterval = time.Second

// sweep closes streams that owe an answer for too long: behind it everything on such a stream would wait for ever. And it forgets the state
// of streams that were deleted.
func (s *Server) sweep() {
	t := time.NewTicker(sweepInterval)
	defer t.Stop()
	for {
		select {
		case <-s.stopSweeps:
			return
		case <-t.C:
			now := s.opts.Now()
			for _, c := range s.all() {
				c.sweep(now)
			}
			image := s.opts.Broker.Image()
			s.states.Retain(func(id ids.ShardID) bool { return image.TopicByID(id.Topic) != nil })
		}
	}
}

// Close takes no new connections or requests, answers what was taken on, ends the connections and returns when nothing of the server
// runs any more. When ctx ends first, the rest is cut off and the error says so.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.draining.Swap(true)
	s.mu.Unlock()
	if !first {
		<-s.closed
		return nil
	}
	var (
		ends sync.WaitGroup
		cut  atomic.Int64
	)
	for _, c := range s.all() {
		ends.Go(func() {
			if !c.finish(ctx) {
				cut.Add(1)
			}
		})
	}
	ends.Wait()
	close(s.stopSweeps)
	// Not with the lock: this waits for connections that are being admitted, and those for the lock.
	for _, l := range s.sockets() {
		_ = l.quic.Close()
	}
	s.states.Close()
	s.tasks.end()
	close(s.closed)
	if n := cut.Load(); n > 0 {
		return fmt.Errorf("felixproto: %d connections cut off with requests unanswered: %w", n, context.Cause(ctx))
	}
	return nil
}

func (s *Server) cutter(budget *deliveryBudget, shard ids.ShardID) cutter {
	o := &s.opts
	return cutter{
		pool: o.Pool, budget: budget, maxEvents: o.EventsPerFrame, maxBytes: o.BytesPerFrame, maxEvent: o.MaxRecord, maxDecoded: o.MaxDecodedBytes,
		encoded: s.metrics.encoded,
		lost: func(offset ids.Offset, err error) {
			s.metrics.undeliverable.Inc()
			s.logger.Error("record cannot be delivered to native readers", zap.Stringer("shard", shard), zap.Int64("offset", int64(offset)), zap.Error(err))
		},
	}
}
