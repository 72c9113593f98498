package kafkaproto

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/felixlog/felix/internal/buf"
)

const (
	sizeBytes = 4 // of a frame's length prefix
	// minRequestBytes is the smallest frame that can hold a request header.
	minRequestBytes = 8
	// readAhead is what one read takes beyond the request at hand: most requests are smaller, and come with one system call.
	readAhead = 4 << 10
	// unproven is how much is set aside for a request before its bytes have arrived, on a connection that has not yet sent a
	// large one.
	unproven = 64 << 10
	// wakeBytes is how much of a large request the reader waits for at a time.
	wakeBytes = 256 << 10
	// A request must arrive within requestTime plus a second for each requestRate bytes of it.
	requestTime = 30 * time.Second
	requestRate = 16 << 10
)

var (
	// errQuiet says that nothing arrived for settleTime and the reader should go on with a fresh stack.
	errQuiet     = errors.New("quiet")
	errFrameSize = errors.New("frame size out of range")
	errHandshake = errors.New("the TLS handshake failed")
)

// readBuffer is what one read of the socket fills. A connection has one only while it has unread bytes.
type readBuffer struct{ b [readAhead]byte }

var readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}

// input is the reading half of a connection. It belongs to the reading goroutine.
type input struct {
	c     *conn
	ahead *readBuffer // nil while nothing is unread
	r, w  int         // ahead.b[r:w] is unread
	into  []byte      // where the present read goes; nil: into ahead

	fn  func(fd uintptr) bool // read, as RawConn wants it
	n   int                   // result of the present read
	err error

	shaken bool // the TLS handshake is done

	mark int // SO_RCVLOWAT as set; 0: never

	lease  lease
	proven int       // the largest request that arrived whole
	due    time.Time // when the present request must have arrived; zero between requests
}

func (in *input) init(c *conn) {
	in.c = c
	in.fn = in.read
}

// read runs inside RawConn.Read: one read of the socket, false when there is nothing to read yet. A buffer is taken only once
// there is something for it.
func (in *input) read(fd uintptr) bool {
	for {
		target := in.into
		if target == nil {
			if in.ahead == nil {
				in.ahead = readBuffers.Get().(*readBuffer)
			}
			target = in.ahead.b[in.w:]
		}
		in.n, in.err = readSocket(int(fd), target)
		if errors.Is(in.err, unix.EINTR) {
			continue
		}
		if errors.Is(in.err, unix.EAGAIN) {
			in.setMark(fd, len(in.into))
			in.dropEmpty()
			return false
		}
		return true
	}
}

// setMark tells the kernel how many bytes are worth waking up for (SO_RCVLOWAT), before the reader goes to sleep: of a large
// request, many at a time. Waking costs more than reading what arrived meanwhile. A mark never exceeds what the request still
// lacks, and at a full window or the end of the stream the kernel wakes in any case.
func (in *input) setMark(fd uintptr, want int) {
	mark := 1
	if want >= wakeBytes/4 {
		mark = min(want, wakeBytes)
	}
	if mark == in.mark || mark == 1 && in.mark == 0 {
		return
	}
	if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, mark) == nil {
		in.mark = mark
	}
}

// fetch reads at least one byte into target, or into the read-ahead buffer when target is nil. While it waits, it looks at the
// connection's deadlines.
func (in *input) fetch(target []byte) (int, error) {
	in.into = target
	for {
		n, err := in.readOnce()
		switch {
		case n > 0:
			return n, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := in.c.overdue(); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, err
		default:
			return 0, errEnd
		}
	}
}

func (in *input) readOnce() (int, error) {
	if err := in.c.arm(); err != nil {
		return 0, err
	}
	if in.c.raw != nil {
		in.n, in.err = 0, nil
		if err := in.c.raw.Read(in.fn); err != nil {
			return 0, err
		}
		if in.err != nil {
			return 0, in.err
		}
		if in.n <= 0 {
			return 0, errEnd
		}
		if in.into == nil {
			in.w += in.n
		}
		return in.n, nil
	}
	return in.readStream()
}

// readStream is readOnce over TLS, where waiting means sitting in Read: with a few bytes on the stack until there is something.
func (in *input) readStream() (int, error) {
	if !in.shaken {
		if err := in.c.shakeHands(); err != nil {
			return 0, err
		}
		in.shaken = true
	}
	if in.into != nil || in.ahead != nil {
		target := in.into
		if target == nil {
			target = in.ahead.b[in.w:]
		}
		n, err := in.c.nc.Read(target)
		if in.into == nil {
			in.w += n
		}
		return n, endOf(n, err)
	}
	var first [sizeBytes]byte
	n, err := in.c.nc.Read(first[:])
	if n > 0 {
		in.ahead = readBuffers.Get().(*readBuffer)
		in.r, in.w = 0, copy(in.ahead.b[:], first[:n])
	}
	return n, endOf(n, err)
}

// shakeHands does the TLS handshake within the time to authenticate. A handshake that has failed for a deadline stays failed, so it
// must not meet the reader's ticks.
func (c *conn) shakeHands() error {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	c.armed = c.started.Add(c.srv.opts.AuthTimeout)
	if err := t.SetDeadline(c.armed); err != nil {
		return err
	}
	if c.ending.Load() {
		return errEnd
	}
	if err := t.HandshakeContext(c.srv.life); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && !c.ending.Load() {
			c.srv.metrics.refuse(refusedAuthTimeout)
			return errAuthTimeout
		}
		return errHandshake
	}
	return t.SetWriteDeadline(time.Time{})
}

func endOf(n int, err error) error {
	switch {
	case n > 0:
		return nil
	case errors.Is(err, io.EOF):
		return errEnd
	default:
		return err
	}
}

// dropEmpty gives the read-ahead buffer back if nothing in it is unread.
func (in *input) dropEmpty() {
	if in.ahead != nil && in.r == in.w {
		readBuffers.Put(in.ahead)
		in.ahead, in.r, in.w = nil, 0, 0
	}
}

// drop gives it back whatever is in it.
func (in *input) drop() {
	in.r = in.w
	in.dropEmpty()
}

// holdsRequest reports whether a whole request is in the read-ahead buffer.
func (in *input) holdsRequest() bool {
	have := in.w - in.r
	return have > sizeBytes && have-sizeBytes >= int(binary.BigEndian.Uint32(in.ahead.b[in.r:]))
}

// readSize waits for a request and takes its length prefix off the input.
func (c *conn) readSize() (int, error) {
	in := &c.in
	if err := in.fill(sizeBytes); err != nil {
		return 0, err
	}
	size := int(int32(binary.BigEndian.Uint32(in.ahead.b[in.r:])))
	if err := c.checkSize(size); err != nil {
		return 0, err
	}
	in.r += sizeBytes
	return size, nil
}

// fill reads until n bytes, at most readAhead, are unread in the read-ahead buffer.
func (in *input) fill(n int) error {
	for in.w-in.r < n {
		if in.r > 0 && in.ahead != nil {
			in.w = copy(in.ahead.b[:], in.ahead.b[in.r:in.w])
			in.r = 0
		}
		if in.w == 0 {
			in.dropEmpty()
		}
		if _, err := in.fetch(nil); err != nil {
			return err
		}
	}
	return nil
}

// readFrame reads the rest of a request of size bytes into a buffer of its own, which the caller releases; what it takes from the
// budget is in the lease. No memory is set aside on the strength of the length alone: see frameBuffer and readBody.
func (c *conn) readFrame(size int) (*buf.Ref, error) {
	in := &c.in
	have := min(in.w-in.r, size)
	ref, err := c.frameBuffer(size, have)
	if err != nil {
		return nil, err
	}
	if have > 0 {
		copy(ref.Bytes(), in.ahead.b[in.r:in.r+have])
		in.r += have
	}
	in.dropEmpty()
	if have < size {
		if ref, err = c.readBody(ref, have, size); err != nil {
			return nil, err
		}
	}
	in.proven = max(in.proven, size)
	c.active = time.Now()
	return ref, nil
}

func (c *conn) checkSize(size int) error {
	limit, reason := c.srv.opts.MaxRequestBytes, refusedFrameSize
	if !c.ready {
		limit, reason = c.srv.opts.MaxUnauthenticatedBytes, refusedUnauthenticatedFrameSize
	}
	if size >= minRequestBytes && size <= limit || c.sasl.expectsRawToken() && size >= 0 && size <= limit {
		return nil
	}
	c.srv.metrics.refuse(reason)
	return errFrameSize
}

// frameBuffer takes the first buffer for a request of size bytes of which have are here.
func (c *conn) frameBuffer(size, have int) (*buf.Ref, error) {
	room := max(readAhead, 2*have)
	if c.ready {
		room = max(unproven, 4*c.in.proven)
	}
	return c.takeBuffer(min(size, room))
}

func (c *conn) takeBuffer(n int) (*buf.Ref, error) {
	if err := c.srv.requests.take(c.srv.life, &c.in.lease, int64(n)); err != nil {
		return nil, err
	}
	return c.srv.opts.Pool.Get(n), nil
}

// readBody reads the rest of a request, of which the first n bytes are in ref. The buffer doubles as bytes arrive. ref is
// released on error.
func (c *conn) readBody(ref *buf.Ref, n, size int) (*buf.Ref, error) {
	in := &c.in
	now := time.Now()
	in.due = now.Add(requestTime + time.Duration(size/requestRate)*time.Second)
	c.srv.requests.began(&in.lease, now, c.cutStalled)
	defer func() {
		in.due = time.Time{}
		c.srv.requests.arrived(&in.lease)
	}()
	for n < size {
		if n == len(ref.Bytes()) {
			larger, err := c.takeBuffer(min(size, 2*n))
			if err != nil {
				ref.Release()
				return nil, err
			}
			copy(larger.Bytes(), ref.Bytes())
			ref.Release()
			ref = larger
			c.srv.requests.giveBack(&in.lease, int64(n))
		}
		got, err := in.fetch(ref.Bytes()[n:])
		if err != nil {
			ref.Release()
			return nil, err
		}
		n += got
	}
	return ref, nil
}

func (c *conn) cutStalled() { c.shut(errStalled) }

// arm sees to it that a read wakes up in time for the next of the connection's deadlines. It does not set one for each read: a
// deadline is a tick at which overdue looks at what is due.
func (c *conn) arm() error {
	now := time.Now()
	next := c.nextDue(now)
	if c.armed.After(now) && !c.armed.After(next.Add(rearmTime)) {
		return nil
	}
	c.armed = next
	if err := c.nc.SetReadDeadline(next); err != nil {
		return err
	}
	if c.ending.Load() {
		return errEnd
	}
	return nil
}

// nextDue is when the connection should be looked at next.
func (c *conn) nextDue(now time.Time) time.Time {
	next := now.Add(settleTime)
	if c.settled {
		next = c.active.Add(c.srv.opts.IdleTimeout)
		if !next.After(now) {
			next = now.Add(c.srv.opts.IdleTimeout) // answers are owed, so it is not idle
		}
	}
	if !c.ready {
		if due := c.started.Add(c.srv.opts.AuthTimeout); due.Before(next) {
			next = due
		}
	}
	return next
}

// overdue is called when a deadline passed while the reader waited. It returns why the connection should end, errQuiet to go on
// with a fresh stack, or nil to wait on.
func (c *conn) overdue() error {
	now := time.Now()
	switch {
	case c.ending.Load():
		return errEnd
	case !c.ready && now.Sub(c.started) >= c.srv.opts.AuthTimeout:
		c.srv.metrics.refuse(refusedAuthTimeout)
		return errAuthTimeout
	case !c.in.due.IsZero():
		if now.After(c.in.due) {
			return errStalled
		}
		return nil
	case c.in.w > 0: // part of a length prefix: as good as nothing
		if now.Sub(c.active) >= c.srv.opts.IdleTimeout {
			return errIdle
		}
		return nil
	}
	quiet := now.Sub(c.active)
	switch {
	case quiet >= c.srv.opts.IdleTimeout && c.owesNothing():
		return errIdle
	case quiet >= settleTime && !c.settled:
		c.settled = true
		return errQuiet
	default:
		return nil
	}
}

func (c *conn) owesNothing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first == nil && !c.writing
}
