package kafkaproto

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	// maxPending is how many requests of one connection may be unanswered before no more are read.
	maxPending = 256
	// maxOwed is how many bytes of answers may wait for the socket before no more requests are read.
	maxOwed = 4 << 20
	// settleTime is how long a connection must be quiet before its goroutine is replaced by one with a fresh stack.
	settleTime = 5 * time.Second
	// rearmTime is how far a read deadline may be off: re-arming it for every request would cost more than it is worth.
	rearmTime = time.Second
)

var (
	errProtocol    = errors.New("request that the protocol has no error for")
	errIdle        = errors.New("idle")
	errAuthTimeout = errors.New("not authenticated in time")
	errStalled     = errors.New("request incomplete for too long")
	errEnd         = errors.New("closed by the client")
)

// conn is one connection. One goroutine reads requests and runs their handlers; answers may be completed by any goroutine,
// and leave in the order of their requests.
//
// The struct is what an idle connection costs beside its socket and a small stack, so it has no buffers.
type conn struct {
	srv  *Server
	nc   net.Conn
	raw  syscall.RawConn // nil under TLS: then writes that may block are left to a goroutine
	addr netip.Addr

	next, prev *conn // guarded by srv.mu

	// Owned by the reading goroutine.
	caller   Caller // the zero Caller until authenticated
	ready    bool   // authenticated, or nobody has to
	sasl     *saslState
	in       input
	armed    time.Time // the read deadline that is set; zero when none
	active   time.Time // when the last request was read
	started  time.Time
	mutedTil time.Time

	tenant  atomic.Pointer[tenantMark] // whose connection it is; nil before authentication
	closed  atomic.Bool
	ending  atomic.Bool // no more requests are read: the server closes, or an answer was the last
	settled bool        // the goroutine's stack is fresh; reading goroutine
	trail   trail
	ahead   atomic.Pointer[ahead]

	mu      sync.Mutex
	room    sync.Cond // signalled when pending or owed fall; the reader waits on it, or a handler in its place
	first   *slot     // guarded by mu: requests in order of arrival, answered or not
	last    *slot
	pending int  // guarded by mu: length of that list
	owed    int  // guarded by mu: bytes of completed answers that are not written
	writing bool // guarded by mu: somebody writes the finished prefix; nobody else may
	corked  bool // guarded by mu: the reader has more requests at hand and writes after them
	corking bool // what the reader last set corked to
}

// slot is the place of one request in the order of answers.
type slot struct {
	next *slot
	resp *response // nil: nothing to write
	done bool
	// wait is who completes the slot later, nil when a handler is at it.
	wait waitingRequest
}

// waitingRequest is a request whose handler has returned and which somebody else completes.
type waitingRequest interface {
	// retain and release keep the object from being reused while a connection that is going away tells it.
	retain()
	release()
	// hurry makes the request be answered soon with what there is: the server is closing.
	hurry()
	// abandon ends the request: nobody reads its answer any more.
	abandon()
}

var slots = sync.Pool{New: func() any { return new(slot) }}

func newConn(s *Server, nc net.Conn, addr netip.Addr) *conn {
	c := &conn{srv: s, addr: addr, started: time.Now()}
	c.room.L = &c.mu
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 20 * time.Second, Count: 6})
	}
	if s.opts.TLSConfig != nil {
		nc = tls.Server(&patientConn{Conn: nc, c: c}, s.opts.TLSConfig)
	} else if rc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = rc.SyscallConn()
	}
	c.nc = nc
	c.in.init(c)
	if s.opts.Anonymous != nil {
		c.caller, c.ready = *s.opts.Anonymous, true
		c.mark(s.anonymousMark())
	}
	c.active = c.started
	return c
}

// serve reads requests until the connection ends.
func (c *conn) serve() {
	for {
		again, err := c.serveNext()
		if err != nil {
			c.finishReading(err)
			return
		}
		if again {
			c.trail = trail{} // it may be the last to know of a shard
			// Quiet for a while: go on with a fresh stack. A handler may have grown this one to many times what
			// waiting needs, and the collector would give it back only in its own time.
			c.srv.wg.Go(c.serve)
			return
		}
	}
}

// serveNext reads and handles one request. It returns true when the caller should go on with a fresh stack.
func (c *conn) serveNext() (fresh bool, err error) {
	if err := c.waitTurn(); err != nil {
		return false, err
	}
	size, err := c.readSize()
	switch {
	case errors.Is(err, errQuiet):
		return true, nil
	case err != nil:
		return false, err
	}
	c.settled = false
	if a, h, body, ok := c.streams(size); ok {
		err = c.streamProduce(a, h, body)
	} else {
		err = c.handleWhole(size)
	}
	c.srv.requests.free(&c.in.lease)
	if c.corking && !c.in.holdsRequest() {
		c.uncork()
	}
	return false, err
}

// handleWhole reads a request of size bytes into one buffer and handles it.
func (c *conn) handleWhole(size int) error {
	frame, err := c.readFrame(size)
	if err != nil {
		return err
	}
	if c.in.holdsRequest() {
		c.cork()
	}
	c.handle(frame)
	frame.Release()
	return nil
}

// waitTurn waits until another request may be read: not muted, and not too much unanswered or unwritten.
func (c *conn) waitTurn() error {
	if !c.mutedTil.IsZero() {
		c.uncork() // who is held for long is told so at once
		if d := time.Until(c.mutedTil); d > 0 && !c.srv.rest(d) {
			return ErrServerClosed
		}
		c.mutedTil = time.Time{}
	}
	c.mu.Lock()
	if c.crowdedLocked() {
		c.mu.Unlock()
		c.uncork()
		c.mu.Lock()
		for c.crowdedLocked() && !c.closed.Load() {
			c.room.Wait()
		}
	}
	c.mu.Unlock()
	if c.ending.Load() {
		return errEnd
	}
	return nil
}

func (c *conn) crowdedLocked() bool { return c.pending >= maxPending || c.owed >= maxOwed }

// mute makes the reader wait for d before the next request. Reading goroutine.
func (c *conn) mute(d time.Duration) {
	if d > 0 {
		c.mutedTil = time.Now().Add(d)
	}
}

// finishReading ends the connection after the reader stopped for err. When the end is ours it waits for the answers that are
// owed; when the client is gone or broke the protocol nobody waits for them.
func (c *conn) finishReading(err error) {
	ours := c.ending.Load() && !c.closed.Load()
	c.in.drop()
	c.srv.requests.free(&c.in.lease)
	if ours {
		c.hurryAll()
		c.uncork()
		c.mu.Lock()
		for (c.first != nil || c.writing) && !c.closed.Load() {
			c.room.Wait()
		}
		c.mu.Unlock()
		c.linger()
	}
	c.shut(err)
	c.mu.Lock()
	for c.writing {
		c.room.Wait()
	}
	c.mu.Unlock()
	c.srv.forget(c)
}

const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 256 << 10
)

// linger lets the last answer arrive: closing a socket with unread bytes resets it, and a reset may overtake the answer.
func (c *conn) linger() {
	tcp, ok := c.nc.(*net.TCPConn)
	if !ok || c.closed.Load() || c.srv.closing.Load() {
		return
	}
	if tcp.CloseWrite() != nil || tcp.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	var sink [512]byte
	for left := lingerBytes; left > 0; {
		n, err := tcp.Read(sink[:])
		if err != nil {
			return
		}
		left -= n
	}
}

// endSoon makes the connection stop reading, answer what is owed and close. Any goroutine.
func (c *conn) endSoon() {
	c.ending.Store(true)
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // wakes the reader; it sees ending before it arms another deadline
	c.hurryAll()
}

// hurryAll tells the requests that wait for something to answer with what there is.
func (c *conn) hurryAll() { c.tellWaiting(waitingRequest.hurry) }

func (c *conn) tellWaiting(tell func(waitingRequest)) {
	var all []waitingRequest
	c.mu.Lock()
	for s := c.first; s != nil; s = s.next {
		if s.wait != nil && !s.done {
			s.wait.retain()
			all = append(all, s.wait)
		}
	}
	c.mu.Unlock()
	for _, w := range all {
		tell(w)
		w.release()
	}
}

// shut closes the connection at once, for cause. What waits is abandoned, what is not written is dropped. Any goroutine.
func (c *conn) shut(cause error) {
	if c.closed.Swap(true) {
		return
	}
	c.ending.Store(true)
	if ce := c.srv.logger.Check(zap.DebugLevel, "connection closed"); ce != nil {
		ce.Write(zap.Stringer("remote", c.addr), zap.NamedError("cause", cause))
	}
	_ = c.nc.Close()
	c.tellWaiting(waitingRequest.abandon)
	c.dropAhead()
	c.push() // drops what is finished
	c.room.Signal()
}

// newSlot appends a slot for the request that is about to be handled.
func (c *conn) newSlot() *slot {
	s := slots.Get().(*slot)
	c.srv.metrics.inFlight.Add(1)
	c.mu.Lock()
	if c.last == nil {
		c.first = s
	} else {
		c.last.next = s
	}
	c.last = s
	c.pending++
	c.mu.Unlock()
	return s
}

// owesOnlyOne reports whether the request being handled is the only one that is unanswered or at hand. Reading goroutine.
func (c *conn) owesOnlyOne() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending == 1 && !c.corked
}

// park says that w will complete s. The caller looks at closed and ending afterwards: whoever set them before tells no one.
func (c *conn) park(s *slot, w waitingRequest) {
	c.mu.Lock()
	s.wait = w
	c.mu.Unlock()
}
