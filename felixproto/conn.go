package felixproto

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/zap"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
)

// conn is one client's connection.
type conn struct {
	s  *Server
	q  *quic.Conn
	id uint64

	authenticated atomic.Bool
	deadline      *time.Timer // closes a connection that does not authenticate; nil when that may take for ever
	// unknown has a token for each stream that may be read before it has authenticated.
	unknown chan struct{}

	// streams are the goroutines that read streams, but for those that came while the connection was being finished: they are told to
	// go elsewhere.
	streams sync.WaitGroup

	mu        sync.Mutex
	room      *sync.Cond                 // under mu: bytes were given back
	finishing bool                       // guarded by mu
	ended     bool                       // guarded by mu: no new streams or subscriptions
	open      map[*stream]struct{}       // guarded by mu
	left      time.Time                  // guarded by mu: when the last stream ended that has
	subs      map[*subscription]struct{} // guarded by mu
	accounts  map[accountKey]*account    // guarded by mu
	bytes     int                        // guarded by mu: unanswered publish bytes of all accounts
	reserved  map[uint64]struct{}        // guarded by mu: ids of subscriptions, those being opened included
}

// accountKey is an identity on a connection: a gateway may have many.
type accountKey struct{ tenant, principal string }

// account is what one identity uses of a connection. Fields are guarded by conn.mu.
type account struct {
	key           accountKey
	sessions      int // streams that it authenticated
	subscriptions int
	bytes         int // of publishes that are not answered
}

// session is what a stream has authenticated as. Immutable.
type session struct {
	account  *account
	identity *auth.Identity
	caller   *broker.Caller
}

func newConn(s *Server, q *quic.Conn) *conn {
	c := &conn{
		s: s, q: q, id: s.connectionIDs.Add(1),
		unknown:  make(chan struct{}, s.opts.PreAuthStreams),
		open:     map[*stream]struct{}{},
		subs:     map[*subscription]struct{}{},
		accounts: map[accountKey]*account{},
		reserved: map[uint64]struct{}{},
	}
	c.room = sync.NewCond(&c.mu)
	return c
}

// start begins to serve. Server.mu is held, so that Close either sees the connection or refuses it.
func (c *conn) start() {
	if a, ok := c.q.Context().Value(connKey{}).(*admission); ok {
		a.conn.Store(c)
	}
	c.s.metrics.connections.Inc()
	c.s.metrics.connected.Inc()
	if t := c.s.opts.AuthTimeout; t > 0 {
		c.deadline = time.AfterFunc(t, c.expire)
	}
	c.s.tasks.start(c.acceptStreams)
	c.s.tasks.start(c.acceptUniStreams)
}

// expire closes a connection that has not authenticated in time.
func (c *conn) expire() {
	if c.authenticated.Load() {
		return
	}
	c.s.metrics.authTimeout.Inc()
	_ = c.q.CloseWithError(closeUnauthorised, closeUnauthoriseds)
}

// known notes that a stream has authenticated.
func (c *conn) known() {
	if c.authenticated.Swap(true) {
		return
	}
	if c.deadline != nil {
		c.deadline.Stop()
	}
}

// acceptStreams takes the client's bidirectional streams until the connection ends, and cleans up behind it.
func (c *conn) acceptStreams() {
	defer c.end()
	for {
		q, err := c.q.AcceptStream(c.q.Context())
		if err != nil {
			return
		}
		c.run(newStream(c, q, q))
	}
}

func (c *conn) acceptUniStreams() {
	for {
		q, err := c.q.AcceptUniStream(c.q.Context())
		if err != nil {
			return
		}
		c.run(newStream(c, q, nil))
	}
}

// run reads a stream in a goroutine of its own. The client's stream credit bounds how many there are. While too many have not
// authenticated no further stream is taken, so they are served in the order in which they came.
func (c *conn) run(st *stream) {
	select {
	case c.unknown <- struct{}{}:
	case <-c.q.Context().Done():
		return
	}
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		<-c.unknown
		st.abort()
		return
	}
	c.open[st] = struct{}{}
	counted := !c.finishing
	if counted {
		c.streams.Add(1)
	}
	c.mu.Unlock()
	started := c.s.tasks.start(func() {
		st.run()
		c.leave(st, counted)
	})
	if !started { // the server is closed, and so is the connection
		<-c.unknown
		st.abort()
		c.leave(st, counted)
	}
}

// leave forgets a stream that is over.
func (c *conn) leave(st *stream, counted bool) {
	c.mu.Lock()
	delete(c.open, st)
	c.left = time.Now()
	c.mu.Unlock()
	if counted {
		c.streams.Done()
	}
}

// end runs once the connection is over.
func (c *conn) end() {
	if c.deadline != nil {
		c.deadline.Stop()
	}
	c.mu.Lock()
	c.ended = true
	subs := make([]*subscription, 0, len(c.subs))
	for sub := range c.subs {
		subs = append(subs, sub)
	}
	c.mu.Unlock()
	for _, sub := range subs {
		sub.close()
	}
	c.s.forget(c)
	c.s.metrics.connections.Dec()
	c.s.peerLog.Debug("connection ended", zap.Uint64("connection", c.id), zap.Stringer("peer", c.q.RemoteAddr()), zap.Error(context.Cause(c.q.Context())))
}

// defaultGoodbye is how long a finished connection waits for its client to close it, and how long ago its last stream must have ended for it not
// to wait: an answer that is followed at once by the close may be lost.
const defaultGoodbye = 250 * time.Millisecond

// finish answers what was taken on and closes the connection. It reports false when ctx ended first.
func (c *conn) finish(ctx context.Context) bool {
	c.mu.Lock()
	c.finishing = true
	for st := range c.open {
		st.stop()
	}
	c.mu.Unlock()
	done := make(chan struct{})
	if !c.s.tasks.start(func() {
		c.streams.Wait()
		close(done)
	}) {
		close(done)
	}
	answered := true
	select {
	case <-done:
	case <-ctx.Done():
		answered = false
	}
	if answered && c.justLeft() {
		t := time.NewTimer(c.s.goodbye)
		defer t.Stop()
		select {
		case <-c.q.Context().Done():
		case <-ctx.Done():
		case <-t.C:
		}
	}
	_ = c.q.CloseWithError(closeShutdown, "shutting down")
	return answered
}

// justLeft reports whether a stream has ended so shortly ago that its answer may still be on its way.
func (c *conn) justLeft() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.left.IsZero() && time.Since(c.left) < c.s.goodbye
}

// sweep resets the streams that owe an answer for too long.
func (c *conn) sweep(now time.Time) {
	c.mu.Lock()
	var late []*stream
	for st := range c.open {
		if st.overdue(now) {
			late = append(late, st)
		}
	}
	c.mu.Unlock()
	for _, st := range late {
		c.s.metrics.overdue.Inc()
		c.s.logger.Error("answer overdue, stream closed", zap.Uint64("connection", c.id), zap.String("tenant", st.tenantName()))
		st.abort()
	}
}

// login makes the session of a stream that has authenticated.
func (c *conn) login(id *auth.Identity, caller *broker.Caller) *session {
	key := accountKey{id.Tenant, id.Principal}
	c.mu.Lock()
	a := c.accounts[key]
	if a == nil {
		a = &account{key: key}
		c.accounts[key] = a
	}
	a.sessions++
	c.mu.Unlock()
	c.known()
	return &session{account: a, identity: id, caller: caller}
}

// logout ends a session.
func (c *conn) logout(a *account) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.sessions--
	c.pruneLocked(a)
}

// pruneLocked forgets an account that uses nothing any more.
func (c *conn) pruneLocked(a *account) {
	if a.sessions == 0 && a.subscriptions == 0 && a.bytes == 0 && c.accounts[a.key] == a {
		delete(c.accounts, a.key)
	}
}

// reserve counts a subscription that is about to be opened and takes its id: the one that the client asks for, or one that is free.
func (c *conn) reserve(a *account, asked wire.Opt[uint64]) (id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, taken := c.reserved[asked.Value]
	switch {
	case c.ended:
		return 0, errClosed
	case a.subscriptions >= c.s.opts.Subscriptions:
		return 0, limitExceeded("too many subscriptions on this connection")
	case len(c.reserved) >= c.s.opts.SubscriptionsIn:
		return 0, limitExceeded("too many subscriptions on this connection across identities")
	case asked.Set && taken:
		return 0, invalid("the subscription id is in use on this connection")
	}
	id = asked.Value
	for taken = !asked.Set; taken; _, taken = c.reserved[id] {
		id = c.s.subscriptionIDs.Add(1)
	}
	a.subscriptions++
	c.reserved[id] = struct{}{}
	return id, nil
}

// unreserve gives back what reserve took.
func (c *conn) unreserve(a *account, id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.subscriptions--
	delete(c.reserved, id)
	c.pruneLocked(a)
}

// remember makes an opened subscription end with the connection. False: the connection has ended already.
func (c *conn) remember(sub *subscription) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.subs[sub] = struct{}{}
	return true
}

// forget ends the accounting of a subscription.
func (c *conn) forget(sub *subscription) {
	c.mu.Lock()
	delete(c.subs, sub)
	c.mu.Unlock()
	c.unreserve(sub.owner, sub.id)
	c.s.metrics.subscriptions.Dec()
}

// charge takes the bytes of a publish, unless an account or the connection has too many unanswered. One publish may always be on its
// way, however large.
func (c *conn) charge(a *account, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tooMuchLocked(a, n) {
		return false
	}
	a.bytes += n
	c.bytes += n
	return true
}

func (c *conn) tooMuchLocked(a *account, n int) bool {
	return a.bytes > 0 && a.bytes+n > c.s.opts.ConnBytes || c.bytes > 0 && c.bytes+n > c.s.opts.ConnTotalBytes
}

// refund gives them back.
func (c *conn) refund(a *account, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.bytes -= n
	c.bytes -= n
	c.pruneLocked(a)
	c.room.Broadcast()
}

func (c *conn) subscriptionList() []*subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*subscription, 0, len(c.subs))
	for sub := range c.subs {
		out = append(out, sub)
	}
	return out
}

// waitForRoom waits until a publish of n bytes may be tried again. False: it took too long, or the connection is over.
func (c *conn) waitForRoom(a *account, n int, most time.Duration) bool {
	t := time.AfterFunc(most, c.room.Broadcast)
	defer t.Stop()
	stop := context.AfterFunc(c.q.Context(), c.room.Broadcast)
	defer stop()
	began := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.tooMuchLocked(a, n) {
		if c.q.Context().Err() != nil || time.Since(began) >= most {
			return false
		}
		c.room.Wait()
	}
	return true
}

// checkCertificate asks that the client's certificate is the principal's, if it has presented one.
func (c *conn) checkCertificate(id *auth.Identity) error {
	certs := c.q.ConnectionState().TLS.PeerCertificates
	if len(certs) == 0 {
		return errNoCertificate
	}
	return id.CheckCertificate(certs[0])
}
