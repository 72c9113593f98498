package kafkaproto

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxVectors is how many pieces one writev takes (IOV_MAX).
	maxVectors = 1024
	// writeTick is how often a write that waits for its client is looked at.
	writeTick = stallLimit
	// writeRate is how many bytes a second a client must take while memory for answers is short.
	writeRate = 16 << 10
)

// errSlowReader is why a connection is closed that takes no answers while memory is short, or for the idle time-out.
var errSlowReader = errors.New("the client takes no answers")

// outgoing is a run of finished answers on its way out.
type outgoing struct {
	resps []*response
	vecs  net.Buffers
	kept  [][]byte // the array behind vecs, whose start moves as it is written
	bytes int      // of resps

	// For the attempt that does not block: fn runs inside RawConn.Write.
	fn      func(fd uintptr) bool
	err     error
	vectors []unix.Iovec // scratch of writeSocket
}

var outgoings = sync.Pool{New: func() any {
	o := new(outgoing)
	o.fn = o.attempt
	return o
}}

// complete fills a slot: r is the answer, nil when the request has none. If that makes the head of the line ready, the
// caller's goroutine writes what the socket takes without waiting; the rest is left to a goroutine. So complete never blocks on
// the client, and may be called by whoever makes a request finish, another client's reader included.
func (c *conn) complete(s *slot, r *response) {
	if r != nil {
		r.seal()
	}
	c.mu.Lock()
	if r != nil {
		c.owed += r.size()
	}
	s.resp, s.done, s.wait = r, true, nil
	ready := c.startWritingLocked()
	c.mu.Unlock()
	if ready {
		c.write()
	}
}

// cork holds finished answers back while the reader has more requests at hand. Reading goroutine.
func (c *conn) cork() {
	if c.corking {
		return
	}
	c.corking = true
	c.mu.Lock()
	c.corked = true
	c.mu.Unlock()
}

// uncork ends that. Reading goroutine.
func (c *conn) uncork() {
	if !c.corking {
		return
	}
	c.corking = false
	c.mu.Lock()
	c.corked = false
	c.mu.Unlock()
	c.push()
}

// push writes what is finished, if nobody does.
func (c *conn) push() {
	c.mu.Lock()
	ready := c.startWritingLocked()
	c.mu.Unlock()
	if ready {
		c.write()
	}
}

// startWritingLocked makes the caller the connection's writer, if there is something to write and no writer.
func (c *conn) startWritingLocked() bool {
	if c.writing || c.first == nil || !c.first.done || c.corked && !c.closed.Load() {
		return false
	}
	c.writing = true
	return true
}

// write writes finished answers until there are none or the socket is full. The caller is the connection's writer.
func (c *conn) write() {
	o := outgoings.Get().(*outgoing)
	for c.takeFinished(o) {
		switch {
		case c.closed.Load():
		case c.raw == nil || !c.writeNow(o):
			c.srv.wg.Go(func() { c.drain(o) })
			return
		}
		c.written(o)
	}
	outgoings.Put(o)
}

// drain is write for a full socket, on a goroutine of its own.
func (c *conn) drain(o *outgoing) {
	c.writeAll(o)
	c.written(o)
	for c.takeFinished(o) {
		c.writeAll(o)
		c.written(o)
	}
	outgoings.Put(o)
}

// takeFinished moves the finished answers at the head of the line to o. False: there are none, and the caller is the
// writer no longer.
func (c *conn) takeFinished(o *outgoing) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := c.first; s != nil && s.done; s = c.first {
		if s.resp != nil {
			o.resps = append(o.resps, s.resp)
			o.bytes += s.resp.size()
		}
		c.first = s.next
		if c.first == nil {
			c.last = nil
		}
		c.pending--
		c.srv.metrics.inFlight.Add(-1)
		*s = slot{}
		slots.Put(s)
	}
	if len(o.resps) == 0 {
		c.writing = false
		c.room.Signal()
		return false
	}
	o.vecs = o.kept[:0]
	for _, r := range o.resps {
		o.vecs = r.appendTo(o.vecs)
	}
	o.kept = o.vecs
	return true
}

// written gives back what o held, whether it was written or dropped.
func (c *conn) written(o *outgoing) {
	for i, r := range o.resps {
		r.release(c.srv.answers)
		o.resps[i] = nil
	}
	c.mu.Lock()
	c.owed -= o.bytes
	c.room.Signal()
	c.mu.Unlock()
	clear(o.kept[:cap(o.kept)])
	if cap(o.kept) > maxVectors {
		o.kept = nil
	}
	o.resps, o.vecs, o.bytes, o.err = o.resps[:0], nil, 0, nil
}

// writeNow writes as much of o as the socket takes at once and reports whether that was all. After an error it shuts the
// connection and reports true.
func (c *conn) writeNow(o *outgoing) bool {
	err := c.raw.Write(o.fn)
	if err == nil {
		err = o.err
	}
	switch {
	case err == nil:
		return len(o.vecs) == 0
	case errors.Is(err, unix.EAGAIN):
		return false
	default:
		c.fail(err)
		return true
	}
}

// attempt runs inside RawConn.Write. It returns true always, so that the runtime never waits for the socket here.
func (o *outgoing) attempt(fd uintptr) bool {
	for len(o.vecs) > 0 {
		var n int
		n, o.vectors, o.err = writeSocket(int(fd), o.vecs, o.vectors)
		if n > 0 {
			o.consume(n)
		}
		switch {
		case errors.Is(o.err, unix.EINTR):
		case o.err != nil:
			return true
		}
	}
	return true
}

func (o *outgoing) consume(n int) {
	for n > 0 {
		if head := len(o.vecs[0]); n >= head {
			n -= head
			o.vecs = o.vecs[1:]
		} else {
			o.vecs[0] = o.vecs[0][n:]
			n = 0
		}
	}
}

// writeAll writes o, waiting for the client.
func (c *conn) writeAll(o *outgoing) {
	if _, ok := c.nc.(*tls.Conn); ok {
		if _, err := o.vecs.WriteTo(c.nc); err != nil { // waits in patientConn
			c.fail(err)
		}
		return
	}
	p := c.newPatience()
	defer c.noWriteDeadline()
	for len(o.vecs) > 0 && !c.closed.Load() {
		err := c.nc.SetWriteDeadline(p.next())
		if err == nil {
			var n int64
			n, err = o.vecs.WriteTo(c.nc)
			err = p.judge(n, err)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// noWriteDeadline takes the deadline of a tick back: once it has passed, it would fail an attempt that does not wait at all.
func (c *conn) noWriteDeadline() { _ = c.nc.SetWriteDeadline(time.Time{}) }

// patience decides how long to wait for a client that takes its answers slowly, tick by tick. One that takes too little is given up
// when memory for answers is short, and one that takes nothing in any case after the idle time-out.
type patience struct {
	c        *conn
	progress time.Time
}

func (c *conn) newPatience() patience { return patience{c: c, progress: time.Now()} }

// next is when the present attempt to write should end.
func (p *patience) next() time.Time { return time.Now().Add(p.c.srv.opts.writeTick) }

// judge is given what an attempt wrote, and how it ended. It returns nil to go on.
func (p *patience) judge(n int64, err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	now := time.Now()
	if n > 0 {
		p.progress = now
	}
	least := int64(p.c.srv.opts.writeTick.Seconds() * writeRate)
	if now.Sub(p.progress) >= p.c.srv.opts.IdleTimeout || n < least && p.c.srv.answers.isShort() {
		return errSlowReader
	}
	return nil
}

// patientConn is the socket beneath TLS, which takes a write that timed out for the end of the connection: so the ticks are kept from
// it.
type patientConn struct {
	net.Conn

	c *conn
}

// Write implements net.Conn.
func (w *patientConn) Write(b []byte) (int, error) {
	if w.c.closed.Load() || !w.c.in.shaken {
		return w.Conn.Write(b) // within the deadline of the handshake, or of the closing alert
	}
	p := w.c.newPatience()
	defer func() { _ = w.Conn.SetWriteDeadline(time.Time{}) }()
	total := 0
	for total < len(b) {
		if err := w.Conn.SetWriteDeadline(p.next()); err != nil {
			return total, err
		}
		n, err := w.Conn.Write(b[total:])
		total += n
		if err := p.judge(int64(n), err); err != nil {
			return total, err
		}
	}
	return total, nil
}

// fail shuts the connection for err while the caller is its writer.
func (c *conn) fail(err error) { c.shut(err) }
