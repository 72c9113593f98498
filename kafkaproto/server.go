package kafkaproto

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ErrServerClosed is returned by Serve after Close.
var ErrServerClosed = errors.New("kafkaproto: server closed")

// Server speaks the Kafka protocol on any number of listeners.
type Server struct {
	opts    Options
	logger  *zap.Logger
	peerLog *zap.Logger // sampled: for what a client can cause at will
	node    node
	names   names
	apis    *apiTable
	metrics *metrics

	requests *budget // memory of requests that are being read or handled
	answers  *budget // memory of answers that are being written

	sessions *fetchSessions
	creating creations
	wakes    wakeBurst

	// life ends when Close is over or begins to force connections shut: handlers that wait stop waiting.
	life *lifetime
	// serving ends when Close has told every connection: readers that rest stop resting.
	serving *lifetime

	anonymous      atomic.Pointer[tenantMark] // of connections without a login; nil before the first
	tenantsDeleted atomic.Uint64              // as of the image that Apply was told of last

	closing atomic.Bool // no new connections, no new requests
	wg      sync.WaitGroup

	mu        sync.Mutex
	listeners map[net.Listener]struct{} // guarded by mu
	conns     connList                  // guarded by mu
	byAddress map[netip.Addr]int        // guarded by mu; no entry for loopback
}

// New makes a server. It starts nothing: see Serve.
func New(opts Options) (*Server, error) {
	if opts.Broker == nil {
		return nil, errors.New("kafkaproto: no broker")
	}
	return newServer(opts, onBroker{opts.Broker})
}

// newServer is New over any node, for tests.
func newServer(opts Options, n node) (*Server, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	logger := opts.Logger.Named("kafkaproto")
	s := &Server{
		opts:      opts,
		logger:    logger,
		peerLog:   sampledLogger(logger),
		node:      n,
		names:     names{defaultNamespace: opts.DefaultNamespace},
		apis:      newAPITable(servedAPIs(opts.Groups != nil)...),
		requests:  newBudget(opts.MemoryBudgetBytes / 2),
		answers:   newBudget(opts.MemoryBudgetBytes / 2),
		sessions:  newFetchSessions(opts.MaxFetchSessions, opts.Now),
		life:      newLifetime(),
		serving:   newLifetime(),
		listeners: map[net.Listener]struct{}{},
		byAddress: map[netip.Addr]int{},
	}
	s.wakes.began = time.Now()
	s.metrics = newMetrics(opts.Registerer, s.apis, s.sessions.len)
	return s, nil
}

// sampledLogger passes on the first few entries of one message in a second, and a trickle of the rest.
func sampledLogger(l *zap.Logger) *zap.Logger {
	return l.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, 5, 1000)
	}))
}

// Serve accepts connections on ln until Close, and then returns ErrServerClosed; any other error is ln's. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	if !s.track(ln) {
		_ = ln.Close()
		return ErrServerClosed
	}
	defer s.untrack(ln)
	var pause time.Duration
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			s.admit(nc)
		case s.closing.Load():
			return ErrServerClosed
		case isTemporary(err):
			// Out of descriptors, most likely: what is open goes on, and accepting is tried again soon.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.logger.Warn("accept", zap.Error(err), zap.Duration("pause", pause))
			if !s.rest(pause) {
				return ErrServerClosed
			}
		default:
			return fmt.Errorf("accept: %w", err)
		}
	}
}

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// rest waits for d, or reports false when the server is being closed and every connection knows.
func (s *Server) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.serving.Done():
		return false
	}
}

func (s *Server) track(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.listeners[ln] = struct{}{}
	return true
}

func (s *Server) untrack(ln net.Listener) {
	s.mu.Lock()
	delete(s.listeners, ln)
	s.mu.Unlock()
	_ = ln.Close()
}

// admit starts serving nc, or closes it when one of the connection caps is reached.
func (s *Server) admit(nc net.Conn) {
	addr := remoteAddr(nc)
	c := newConn(s, nc, addr)
	s.mu.Lock()
	var refused refusal
	switch {
	case s.closing.Load():
		refused = refusedClosing
	case s.overAddressLimitLocked(addr):
		refused = refusedPerAddress
	case s.conns.n >= s.opts.MaxConnections:
		refused = refusedConnections
	}
	if refused != refusedNot {
		s.mu.Unlock()
		s.metrics.refuse(refused)
		_ = nc.Close()
		return
	}
	s.conns.add(c)
	if !addr.IsLoopback() {
		s.byAddress[addr]++
	}
	s.wg.Go(c.serve)
	s.mu.Unlock()
	s.metrics.connected.Inc()
	s.metrics.connections.Inc()
}

func (s *Server) overAddressLimitLocked(addr netip.Addr) bool {
	limit := s.opts.MaxConnectionsPerAddress
	return limit > 0 && !addr.IsLoopback() && s.byAddress[addr] >= limit
}

// forget ends the accounting of a connection that is closed.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	s.conns.remove(c)
	if !c.addr.IsLoopback() {
		if s.byAddress[c.addr]--; s.byAddress[c.addr] <= 0 {
			delete(s.byAddress, c.addr)
		}
	}
	s.mu.Unlock()
	s.metrics.connections.Dec()
}

// remoteAddr is the peer's address without port; an IPv4 address in IPv6 form counts as IPv4.
func remoteAddr(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// Close stops accepting and reading, lets every request that was read be answered (waiting fetches at once, with what there
// is), and closes the connections. When ctx ends first, what is left is cut off and its number is in the error. Close
// returns when nothing of the server runs any more; calling it again waits too.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing.Store(true)
	for ln := range s.listeners {
		_ = ln.Close()
	}
	all := s.conns.all()
	s.mu.Unlock()
	for _, c := range all {
		c.endSoon()
	}
	s.serving.end()
	done := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() {
		s.wg.Wait()
		close(done)
	})
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		s.mu.Lock()
		left := s.conns.all()
		s.mu.Unlock()
		err = fmt.Errorf("kafkaproto: %d connections cut off with requests unanswered: %w", len(left), context.Cause(ctx))
		s.life.end()
		for _, c := range left {
			c.shut(ErrServerClosed)
		}
	}
	waiter.Wait()
	s.life.end()
	return err
}

// connList is the connections being served, an intrusive list: a map would cost more than the rest of an idle connection's
// accounting.
type connList struct {
	first *conn
	n     int
}

func (l *connList) add(c *conn) {
	c.next, c.prev = l.first, nil
	if l.first != nil {
		l.first.prev = c
	}
	l.first = c
	l.n++
}

func (l *connList) remove(c *conn) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.next, c.prev = nil, nil
	l.n--
}

func (l *connList) all() []*conn {
	out := make([]*conn, 0, l.n)
	for c := l.first; c != nil; c = c.next {
		out = append(out, c)
	}
	return out
}
