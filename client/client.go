package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
)

// NoOffset stands for an offset that there is none of: on an ephemeral stream, and in an answer that was given before the write.
const NoOffset int64 = -1

// Stream names a stream of the client's tenant.
type Stream struct {
	// Namespace is "default" if it is empty.
	Namespace string
	Name      string
}

// String is namespace and name with a dot between them, as Kafka clients know the stream; the default namespace is left out.
func (s Stream) String() string {
	if s.Namespace == "" || s.Namespace == "default" {
		return s.Name
	}
	return s.Namespace + "." + s.Name
}

func (s Stream) normal() Stream {
	setDefault(&s.Namespace, "default")
	return s
}

// offsetOf is an offset that a server names. One that no log reaches is cut to the largest.
func offsetOf(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// Client holds the connections to a cluster, which may be one server. All methods may be called concurrently.
type Client struct {
	cfg  Config
	tls  *tls.Config
	quic *quic.Config

	life context.Context //nolint:containedctx // of all goroutines, ended by Close
	end  context.CancelCauseFunc

	mu      sync.Mutex
	closed  bool                // guarded by mu
	slots   map[slotKey]*slot   // guarded by mu
	servers []string            // guarded by mu: addresses to enter the cluster by; the configured ones first
	entry   int                 // guarded by mu: the one of servers that worked last
	routes  map[Stream]*route   // guarded by mu: what is known of streams, at most maxRoutes
	users   map[closer]struct{} // guarded by mu: publishers and subscriptions
	newest  map[string]*conn    // guarded by mu: by address, the connection that was made last, unless it has ended
	lastID  uint64              // guarded by mu: of requests
}

// closer is a publisher or a subscription.
type closer interface{ abort() }

// role separates connections by what they carry, so that a flood of events does not stand in the way of acknowledgements.
type role uint8

const (
	requests role = iota
	events
)

// slotKey names a place for a connection.
type slotKey struct {
	addr  string
	role  role
	index int
}

// slot is a place for one connection. Whoever holds lock may dial.
type slot struct {
	lock   chan struct{} // holds one value while it is free
	cn     *conn         // guarded by lock
	failed atomic.Uint64 // attempts to dial that have failed by themselves
	err    error         // guarded by lock: of the last such attempt
}

// maxRoutes bounds the streams of which shards and owners are remembered; beyond it the memory is begun anew.
const maxRoutes = 10_000

// Connect connects to the first of cfg.Addrs that answers, authenticates, and learns the other servers of the cluster. It tries each
// address once; ctx ends that earlier.
//
// Errors: those of cfg; *ConnectionError with the last address if none answers; ErrUnauthenticated if the token is refused.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	secure, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, tls: secure, quic: cfg.quic(), slots: map[slotKey]*slot{}, servers: slices.Clone(cfg.Addrs), routes: map[Stream]*route{},
		users: map[closer]struct{}{}, newest: map[string]*conn{},
	}
	c.life, c.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := c.discover(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends all publishers, subscriptions and connections and waits until their goroutines have ended. Records that are not answered
// fail: close publishers first to wait for them. It may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	users := make([]closer, 0, len(c.users))
	for u := range c.users {
		users = append(users, u)
	}
	c.mu.Unlock()
	c.end(ErrClosed)
	for _, u := range users {
		u.abort()
	}
	c.mu.Lock()
	slots := c.slots
	c.slots = map[slotKey]*slot{}
	c.mu.Unlock()
	for _, s := range slots {
		<-s.lock
		if s.cn != nil {
			s.cn.close()
		}
		s.lock <- struct{}{}
	}
	return nil
}

// join makes u end with the client.
func (c *Client) join(u closer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.users[u] = struct{}{}
	return nil
}

func (c *Client) leave(u closer) {
	c.mu.Lock()
	delete(c.users, u)
	c.mu.Unlock()
}

// requestID is a new one; ids are unique to the client.
func (c *Client) requestID() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return c.lastID
}

// bounded gives a call the configured time, and ends it when the client is closed.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { end(ErrClosed) })
	return ctx, func() {
		stop()
		end(nil)
		cancel()
	}
}

// slot finds a place for a connection.
func (c *Client) slot(k slotKey) (*slot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	s := c.slots[k]
	if s == nil {
		s = &slot{lock: make(chan struct{}, 1)}
		s.lock <- struct{}{}
		c.slots[k] = s
	}
	return s, nil
}

// connection gives the connection of a place, a new one if there is none that lives.
func (c *Client) connection(ctx context.Context, k slotKey) (*conn, error) {
	s, err := c.slot(k)
	if err != nil {
		return nil, err
	}
	failed := s.failed.Load()
	select {
	case <-s.lock:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { s.lock <- struct{}{} }()
	if s.cn != nil && s.cn.alive() {
		return s.cn, nil
	}
	if s.cn != nil {
		s.cn.close()
		s.cn = nil
	}
	if c.life.Err() != nil {
		return nil, ErrClosed
	}
	if s.failed.Load() != failed {
		return nil, s.err // those who waited for the same attempt share its failure; each with one of its own would take too long
	}
	s.cn, err = c.dial(ctx, k.addr)
	if err != nil && ctx.Err() == nil {
		s.err = err
		s.failed.Add(1)
	}
	return s.cn, err
}

// enter gives a connection to addr, or to any server of the cluster if addr is empty or cannot be reached: an owner's address may be one
// that this client cannot use, and whoever is asked instead forwards or says so.
func (c *Client) enter(ctx context.Context, addr string, r role, index int) (*conn, error) {
	if addr != "" {
		cn, err := c.connection(ctx, slotKey{addr, r, index})
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return cn, err
		}
	}
	c.mu.Lock()
	servers, first := slices.Clone(c.servers), c.entry
	c.mu.Unlock()
	var last error
	for i := range servers {
		at := (first + i) % len(servers)
		cn, err := c.connection(ctx, slotKey{servers[at], r, index})
		if err == nil {
			c.mu.Lock()
			c.entry = at
			c.mu.Unlock()
			return cn, nil
		}
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			// The next call begins behind it, else one whose time is over here would never get to those that live.
			c.leaveEntry(at)
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return nil, err
		}
		last = err
	}
	return nil, last
}

// leaveEntry has the cluster entered by the next server, if it is entered by that one now.
func (c *Client) leaveEntry(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entry == at {
		c.entry = (at + 1) % len(c.servers)
	}
}

// avoid has the cluster entered by another server after err, if that says that the present one is stopping, is lost, or does not answer.
func (c *Client) avoid(err error) {
	draining := errors.Is(err, ErrDraining)
	var lost *ConnectionError
	if !draining && !errors.As(err, &lost) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if draining || c.servers[c.entry] == lost.Addr {
		c.entry = (c.entry + 1) % len(c.servers)
	}
}

// discover learns the servers of the cluster. A server that does not tell them is no error.
func (c *Client) discover(ctx context.Context) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var (
		servers []Server
		err     error
	)
	for range c.cfg.Addrs {
		if servers, err = c.topology(ctx); !errors.Is(err, errSilent) || ctx.Err() != nil {
			break
		}
		c.avoid(err)
	}
	if errors.Is(err, ErrUnsupported) {
		return nil
	}
	for _, s := range servers {
		c.remember(s.Addr)
	}
	return err
}

// remember adds an address to enter the cluster by. Those that are no IP address and port are left out: names mean something else
// elsewhere.
func (c *Client) remember(addr string) {
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.servers) < maxServers && !slices.Contains(c.servers, addr) {
		c.servers = append(c.servers, addr)
	}
}

// maxServers bounds what a server can make a client remember.
const maxServers = 1000

// Server is a server of the cluster.
type Server struct {
	NodeID string
	// Addr is its address for clients, host:port.
	Addr string
}

// Servers lists the servers of the cluster that clients may go to: those that have told an address and are not being drained. A server
// that was not told how clients reach it lists none.
func (c *Client) Servers(ctx context.Context) ([]Server, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var out []Server
	err := c.retry(ctx, true, func() (err error) {
		out, err = c.topology(ctx)
		return err
	})
	return out, err
}

func (c *Client) topology(ctx context.Context) ([]Server, error) {
	cn, err := c.enter(ctx, "", requests, 0)
	if err != nil {
		return nil, err
	}
	view, err := ask[*wire.TopologyView](ctx, cn, &wire.Topology{})
	if err != nil {
		return nil, err
	}
	out := make([]Server, len(view.Brokers))
	for i, b := range view.Brokers {
		out[i] = Server{NodeID: b.NodeID, Addr: b.Addr}
	}
	return out, nil
}

// unknownFor is how long a stream that is not known may become known: servers learn of new streams with a delay.
const unknownFor = 5 * time.Second

// retry calls f until it succeeds, fails for good, or ctx ends; then the error is ctx's and the last one of f. again says that applying f twice does
// no harm.
func (c *Client) retry(ctx context.Context, again bool, f func() error) error {
	var (
		b       = c.backoff()
		unknown time.Time // since when not_found was answered
		last    error
	)
	for {
		err := f()
		if ctx.Err() != nil && last != nil && err != nil {
			return fmt.Errorf("%w, after %w", err, last)
		}
		if err == nil || ctx.Err() != nil || !retryable(err, again) {
			return err
		}
		last = err
		c.avoid(err)
		if errors.Is(err, ErrNotFound) {
			if unknown.IsZero() {
				unknown = time.Now()
			} else if time.Since(unknown) > unknownFor {
				return err
			}
		}
		if wait := b.wait(ctx, err); wait != nil {
			return fmt.Errorf("%w, after %w", wait, err)
		}
	}
}
