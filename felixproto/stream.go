package felixproto

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
)

// receiver is the reading side of a stream of either kind.
type receiver interface {
	io.Reader
	CancelRead(quic.StreamErrorCode)
	SetReadDeadline(time.Time) error
}

// stream is one stream that a client opened. Its goroutine reads requests and answers most of them on the spot; publishes are answered by
// whoever completes them, in order where the client asked for that.
type stream struct {
	c     *conn
	in    receiver
	out   *quic.Stream // nil: the client's unidirectional stream, which is never answered
	began time.Time

	inbox inbox
	// reading ends when no more requests are to be read: a frame that waits for memory waits no longer.
	reading     context.Context //nolint:containedctx // the life of one goroutine, ended from outside
	stopReading context.CancelFunc
	// What the first frame settles. Written by the reading goroutine before anything is answered.
	sess     *session
	flags    wire.Flags    // that the client understands
	features wire.Features // that it offered
	window   int           // of publishes that it may have unanswered, in order; 0: no order
	commit   bool          // it asked for answers after the write

	route route // of the last publish, of the reading goroutine

	mu       sync.Mutex
	wake     *sync.Cond       // under mu: something below changed
	pubs     int              // guarded by mu: publishes that are not done
	bytes    int              // guarded by mu: of those
	owed     int              // guarded by mu: answers to publishes that are not written
	ring     []*publication   // guarded by mu: those answers in order, from head on; nil without order
	head     uint64           // guarded by mu: the number of ring's first
	tail     uint64           // guarded by mu: the number that the next one gets
	pending  []byte           // guarded by mu: answers that the client's flow control holds up
	sending  int              // guarded by mu: bytes of them that are being written
	writing  bool             // guarded by mu: a goroutine writes pending
	broken   bool             // guarded by mu: nothing can be written any more
	stopping bool             // guarded by mu: no more requests are read
	scratch  [scratchAck]byte // guarded by mu
}

// scratchAck holds most answers to publishes.
const scratchAck = 128

const (
	// maxWaiting is how many publishes of a stream may be under way before it is read no further (streams, 5.6).
	maxWaiting = 1024
	// maxOwed is how many answers to publishes may be unwritten; one more publish is refused.
	maxOwed = 1024
	// maxWaitingBytes is what the publishes of a stream that are under way may hold before it is read no further.
	maxWaitingBytes = 16 << 20
	// smallAnswer is the most that is given to the library without waiting for the client.
	smallAnswer = 4 << 10
	// maxPending is how many bytes of answers may wait for the client before its requests are read no further.
	maxPending = 1 << 20
)

func newStream(c *conn, in receiver, out *quic.Stream) *stream {
	st := &stream{c: c, in: in, out: out}
	st.wake = sync.NewCond(&st.mu)
	st.reading, st.stopReading = context.WithCancel(c.q.Context())
	st.inbox = inbox{
		from: in, pool: c.s.opts.Pool, until: st.limitReading,
		begin: func() *largeFrame {
			return c.s.reading.begin(st.tenantName(), c.id, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })
		},
	}
	return st
}

// errStop ends a stream without an answer.
var errStop = errors.New("felixproto: stream ends")

// run reads the stream to its end.
func (st *stream) run() {
	st.began = st.c.s.opts.Now()
	ctx := st.c.q.Context()
	stop := context.AfterFunc(ctx, st.lost)
	defer stop()
	defer st.stopReading()
	err := st.read(ctx)
	st.inbox.close()
	if st.sess != nil {
		st.c.logout(st.sess.account)
	}
	st.end(err)
}

// read takes requests until there are no more. It gives back the place that conn.run has taken for an unknown stream.
func (st *stream) read(ctx context.Context) error {
	err := st.authenticate(ctx)
	<-st.c.unknown
	for err == nil {
		err = st.request(ctx)
	}
	return err
}

// request reads and serves one frame.
func (st *stream) request(ctx context.Context) error {
	st.inbox.settle() // what it holds is others' while this waits
	if !st.mayRead() {
		return errStop
	}
	h, payload, err := st.inbox.next(st.reading, st.c.s.opts.MaxFrame)
	if err != nil {
		return err
	}
	switch layout, _ := h.Flags.Layout(); layout {
	case wire.LayoutJSON:
		return st.message(ctx, payload)
	case wire.LayoutPublish:
		return st.binaryPublish(h.Flags, payload)
	default:
		return invalid("a frame that clients do not send")
	}
}

// largeFrameTime is how long a frame that takes memory from others may be on its way.
const largeFrameTime = 20 * time.Second

// limitReading bounds the time of a large frame; zero: no bound.
func (st *stream) limitReading(until time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.stopping {
		return
	}
	// An error says that the stream is gone, which reading it will say too.
	_ = st.in.SetReadDeadline(until)
}

// mayRead waits until the stream has room for another request. False: it is to be read no further.
func (st *stream) mayRead() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for !st.broken && !st.stopping && st.fullLocked() {
		st.wake.Wait()
	}
	return !st.broken && !st.stopping
}

func (st *stream) fullLocked() bool {
	limit := maxWaiting
	if st.window > 0 {
		limit = st.window
	}
	// An answer in order that waits for those before it counts until it is written.
	waiting := st.pubs
	if st.window > 0 {
		waiting = max(waiting, st.owed)
	}
	return waiting >= limit || st.bytes >= maxWaitingBytes || len(st.pending)+st.sending >= maxPending
}

// stop has no more requests read: the server is being closed.
func (st *stream) stop() {
	st.mu.Lock()
	st.stopping = true
	st.wake.Broadcast()
	st.mu.Unlock()
	st.stopReading()
	// A read that waits ends at once, with an error that end takes for the end of the stream.
	_ = st.in.SetReadDeadline(time.Unix(1, 0))
}

func (st *stream) isStopping() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.stopping
}

// lost notes that the connection is over.
func (st *stream) lost() {
	st.mu.Lock()
	st.broken = true
	st.pending = nil
	st.wake.Broadcast()
	st.mu.Unlock()
}

// abort resets both directions. Answers that are owed are lost, and the client sees that they are.
func (st *stream) abort() {
	st.in.CancelRead(streamProtocol)
	if st.out != nil {
		st.out.CancelWrite(streamProtocol)
	}
	st.lost()
}

// end answers what led to the end, where there is an answer, waits for what is owed, and ends the sending side. Reading is cancelled
// unless the client has ended it: a stream that nobody reads would hold its credit for ever.
func (st *stream) end(err error) {
	var bad *wire.DecodeError
	switch {
	case errors.As(err, &bad) && bad.Verdict == wire.AbortStream:
		st.c.s.metrics.malformed(bad.Fault.String())
		if bad.Fault != wire.FaultShortHeader && bad.Fault != wire.FaultTruncated {
			st.abort()
			return
		}
	case errors.As(err, &bad):
		st.c.s.metrics.malformed(bad.Fault.String())
		st.drain() // what is owed comes first
		st.refuse(err)
	case isRefusal(err):
		st.drain()
		st.refuse(err)
	}
	if !errors.Is(err, io.EOF) {
		st.in.CancelRead(streamNoError)
	}
	if st.out == nil {
		st.drain()
		return
	}
	if st.drain() {
		// An error says that the stream is gone, and so is who would like to know.
		_ = st.out.Close()
	}
}

// drain waits until nothing is under way and every answer is written. False: answers cannot be written any more.
func (st *stream) drain() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for !st.broken && (st.pubs > 0 || st.owed > 0 || st.writing) {
		st.wake.Wait()
	}
	return !st.broken
}

// send writes one answer, behind those before it. It never waits for the client.
func (st *stream) send(frame []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sendLocked(frame)
}

func (st *stream) sendLocked(frame []byte) {
	if st.out == nil || st.broken || len(frame) == 0 {
		return
	}
	// The library copies what it takes, up to whatever window the client claims: only small answers go that way, larger ones are counted
	// until they are sent.
	if !st.writing && len(frame) <= smallAnswer {
		err := st.out.TryWriteAll(frame)
		if err == nil {
			return
		}
		if !errors.Is(err, quic.ErrWouldBlock) {
			st.brokenLocked()
			return
		}
	}
	if !st.writing {
		st.writing = st.c.s.tasks.start(st.writePending)
		if !st.writing {
			st.brokenLocked()
			return
		}
	}
	st.pending = append(st.pending, frame...)
}

// brokenLocked notes that the client takes no answers.
func (st *stream) brokenLocked() {
	st.broken = true
	st.pending = nil
	st.wake.Broadcast()
}

// writePending writes what TryWriteAll had no credit for.
func (st *stream) writePending() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(st.pending) > 0 && !st.broken {
		b := st.pending
		st.pending = nil
		st.sending = len(b)
		st.mu.Unlock()
		_, err := st.out.Write(b)
		st.mu.Lock()
		st.sending = 0
		if err != nil {
			st.brokenLocked()
		}
		st.wake.Broadcast()
	}
	st.writing = false
	st.wake.Broadcast()
}

// overdue reports whether the answer that others wait for should have been written long ago (native decision N25).
func (st *stream) overdue(now time.Time) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.head == st.tail {
		return false
	}
	oldest := st.ring[st.head&uint64(len(st.ring)-1)]
	return now.Sub(oldest.at) > st.c.s.opts.AnswerTimeout+2*st.c.s.opts.RoomWait
}

func (st *stream) tenantName() string {
	if st.sess == nil {
		return ""
	}
	return st.sess.identity.Tenant
}

// refuse answers a request that failed, by the error message of the protocol.
func (st *stream) refuse(err error) {
	st.reply(&wire.Error{Failure: st.failure(err)})
}

// reply writes a message.
func (st *stream) reply(m wire.Message) {
	st.send(wire.AppendMessage(nil, m))
}
