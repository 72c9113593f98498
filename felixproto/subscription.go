package felixproto

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/zap"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// subscription is one reader of one shard: a unidirectional stream, what waits to be written on it, and its place.
//
// It begins in the log. What lies between its start and the present it reads itself, a page at a time and as fast as the client takes it,
// so nothing of it is ever dropped; where it meets the shard's hub it becomes live. From then on the hub fills its queue, and what the
// queue has no room for is dropped: on a durable stream that is the end, told to the client behind what was queued.
type subscription struct {
	s        *Server
	conn     *conn
	owner    *account
	topic    *cluster.Topic
	shard    *broker.Shard
	shardID  ids.ShardID
	id       uint64 // on its connection
	serial   uint64 // on this server
	began    time.Time
	out      *quic.SendStream
	offsets  bool // events carry offsets: a durable stream, and the client knows them
	skips    bool // and what lies between them
	stamped  bool // and times
	lagFrame bool // the client is told when it fell behind
	capacity int  // of the queue, in published batches
	tenant   *tenantMetrics

	// next is the place: every event below it was read from the log. Owned by run until the subscription is live, fixed from then on.
	next ids.Offset

	// mu is taken under hub.mu, never the other way.
	mu      sync.Mutex
	hub     *hub       // guarded by mu: nil until the subscription is live, and then for ever the same
	queue   []*frame   // guarded by mu
	slots   int        // guarded by mu: published batches in queue
	bytes   int        // guarded by mu: payload bytes in queue
	writing bool       // guarded by mu: run is on its way, and sees what is queued
	closed  bool       // guarded by mu: nothing is queued any more
	lagged  bool       // guarded by mu: a frame was dropped, and on a durable stream nothing follows it
	resume  ids.Offset // guarded by mu: the first dropped offset
	why     error      // guarded by mu: the shard is not served here any more
	dropped uint64     // guarded by mu: records

	// position is one past the last event written; owned by run. reached is the same for others to look at.
	position ids.Offset
	reached  atomic.Int64
}

// offer queues a frame, or drops it. False: the hub should offer nothing more. The frame's reference stays the caller's.
func (sub *subscription) offer(f *frame) (more bool) {
	if f.next() <= sub.next {
		return true // read from the log before the subscription joined
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.closed {
		return false
	}
	if sub.lagged && sub.ends() {
		return false
	}
	if !sub.roomLocked(f) {
		sub.dropLocked(f)
		more = !sub.ends()
		if !more && !sub.writing {
			// The notice goes out even if nothing is ever published again.
			sub.startLocked()
		}
		return more
	}
	sub.queue = append(sub.queue, f.retain())
	sub.slots += f.slots
	sub.bytes += f.payload
	sub.s.metrics.enqueued.Add(float64(f.count))
	if !sub.writing {
		sub.startLocked()
	}
	return true
}

// enter makes sub live in h, unless it is closed. h.mu is held.
func (sub *subscription) enter(h *hub) bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.closed {
		return false
	}
	sub.hub = h
	return true
}

// ends says that the first drop is the end: the stream is durable and the client can be told.
func (sub *subscription) ends() bool { return sub.lagFrame }

// roomLocked reports whether a frame may be queued. An empty queue takes any frame: whoever reads gets everything.
func (sub *subscription) roomLocked(f *frame) bool {
	if len(sub.queue) == 0 {
		return true
	}
	return sub.slots+f.slots <= sub.capacity && sub.bytes+f.payload <= sub.s.opts.QueueBytes && !sub.s.delivery.over()
}

func (sub *subscription) dropLocked(f *frame) {
	if !sub.lagged {
		sub.lagged = true
		sub.resume = max(f.base, sub.next)
		sub.s.peerLog.Info("subscriber fell behind", zap.String("tenant", sub.topic.Tenant), zap.String("stream", sub.topic.FullName()),
			zap.Int32("shard", sub.shardID.Partition), zap.Uint64("subscription", sub.id), zap.Int64("offset", int64(sub.resume)))
	}
	sub.dropped += uint64(f.count)
	sub.s.metrics.droppedEvents.Add(float64(f.count))
}

// startLocked has run write what is queued.
func (sub *subscription) startLocked() {
	sub.writing = true
	sub.s.wg.Go(sub.run)
}

// run reads the log up to the present and writes what is queued, until there is nothing more to do.
func (sub *subscription) run() {
	err := sub.replay()
	if err == nil {
		err = sub.drain()
	}
	if err != nil {
		sub.fail(err)
	}
}

func (sub *subscription) live() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.hub != nil
}

// replay writes the log from the subscription's place on until it has joined the hub.
func (sub *subscription) replay() error {
	if sub.live() {
		return nil
	}
	c := sub.s.cutter(nil, sub.shardID)
	c.stamped = sub.stamped
	c.begin(sub.next)
	for {
		joined, err := sub.s.join(sub)
		if joined || err != nil {
			return err
		}
		frames, err := sub.s.page(sub.shard, &c, pageBytes)
		var out *errcode.RangeError
		if !sub.topic.Durable && asRange(err, &out) && out.TooOld() {
			// The ring went round: drops of an ephemeral stream are silent.
			sub.s.metrics.overrun.Inc()
			c.begin(ids.Offset(out.Start))
			sub.next = c.next
			continue
		}
		if len(frames) == 0 {
			runtime.Gosched() // the hub is just looking
		}
		if err == nil {
			err = sub.write(frames)
		}
		for _, f := range frames {
			f.release()
		}
		if err != nil {
			return err
		}
		sub.next = c.next
	}
}

// drain writes what the hub has queued until the queue is empty.
func (sub *subscription) drain() error {
	var frames []*frame
	for {
		frames = sub.take(frames[:0])
		if len(frames) == 0 {
			return nil
		}
		err := sub.write(frames)
		for i, f := range frames {
			f.release()
			frames[i] = nil
		}
		if err != nil {
			return err
		}
	}
}

// take removes from the queue what goes into one write. Nothing left: run must end; the last frame was written if there is one.
func (sub *subscription) take(dst []*frame) []*frame {
	sub.mu.Lock()
	n, size := 0, 0
	for n < len(sub.queue) && (n == 0 || size+sub.queue[n].payload <= sub.s.opts.WriteBytes) {
		f := sub.queue[n]
		size += f.payload
		sub.slots -= f.slots
		n++
	}
	sub.bytes -= size
	dst = append(dst, sub.queue[:n]...)
	rest := copy(sub.queue, sub.queue[n:])
	clear(sub.queue[rest:])
	sub.queue = sub.queue[:rest]
	if n > 0 {
		sub.mu.Unlock()
		return dst
	}
	sub.queue = nil // an idle subscription holds none
	lagged, resume, why := sub.lagged && sub.ends(), sub.resume, sub.why
	sub.writing = lagged || why != nil
	sub.mu.Unlock()
	switch {
	case lagged:
		sub.finish(&wire.SubscriptionLagged{SubscriptionID: sub.id, ResumeFrom: uint64(resume)})
	case why != nil:
		sub.fail(why)
	}
	return dst
}

// write sends frames as the client knows them. It waits as long as the client's flow control makes it.
func (sub *subscription) write(frames []*frame) error {
	if len(frames) == 0 {
		return nil
	}
	total := 0
	for _, f := range frames {
		total += maxEventHead + len(sub.form(f).Bytes())
	}
	ref := sub.s.opts.Pool.Get(min(total, sub.s.opts.WriteBytes))
	defer ref.Release()
	b := ref.Bytes()[:0]
	for _, f := range frames {
		from := max(f.base, sub.next)
		events, count := f.events(from, sub.stamped)
		if len(b)+maxEventHead+len(events) > cap(b) {
			if err := sub.send(b); err != nil {
				return err
			}
			b = b[:0]
		}
		b = sub.appendHead(b, f, from, count, len(events))
		sub.position = f.next()
		sub.reached.Store(int64(sub.position))
		if len(b)+len(events) > cap(b) {
			// Large events are not copied once more: the library takes them from where they lie.
			if err := errors.Join(sub.send(b), sub.send(events)); err != nil {
				return err
			}
			b = b[:0]
		} else {
			b = append(b, events...)
		}
		sub.tenant.delivered(count, len(events))
	}
	return sub.send(b)
}

// maxEventHead bounds what appendHead appends.
const maxEventHead = 64

func (sub *subscription) form(f *frame) *buf.Ref {
	if sub.stamped {
		return f.stamped
	}
	return f.body
}

// appendHead appends what comes before the events of one frame.
func (sub *subscription) appendHead(b []byte, f *frame, from ids.Offset, count, size int) []byte {
	var head wire.EventHead
	if sub.offsets {
		head.Flags |= wire.FlagOffsets
		head.BaseOffset = uint64(from)
		if sub.skips {
			head.Flags |= wire.FlagSkipped
			head.SkippedBefore = uint64(sub.skipped(f, from))
		}
	}
	if sub.stamped {
		head.Flags |= wire.FlagTimestamps
	}
	start := len(b)
	b = wire.BeginEventFrame(b, &head)
	binary.BigEndian.PutUint32(b[len(b)-4:], uint32(count))
	binary.BigEndian.PutUint32(b[start+8:], uint32(len(b)-start-wire.HeaderSize+size))
	return b
}

// skipped counts the offsets without an event below from. As long as nothing was dropped that is all there is between two events; after
// a drop only the cutter knows.
func (sub *subscription) skipped(f *frame, from ids.Offset) int64 {
	if from == f.base && sub.gap() {
		return f.skipped
	}
	return int64(from - sub.position)
}

func (sub *subscription) gap() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.lagged
}

func (sub *subscription) send(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := sub.out.Write(b)
	return err
}

// finish writes the last frame and ends the stream.
func (sub *subscription) finish(last wire.Message) {
	err := sub.send(wire.AppendMessage(nil, last))
	if err == nil {
		err = sub.out.Close()
	}
	if err != nil {
		sub.fail(err)
		return
	}
	sub.close()
}

// abandon ends a live subscription whose shard is not served here any more, behind what is queued.
func (sub *subscription) abandon(why error) {
	sub.mu.Lock()
	sub.why = why
	if !sub.writing && !sub.closed {
		sub.startLocked()
	}
	sub.mu.Unlock()
}

// fail ends the stream without a last frame: the client takes that for a lost connection and comes again, or finds out why it may not.
func (sub *subscription) fail(err error) {
	var gone *quic.StreamError
	if !errors.As(err, &gone) && sub.conn.q.Context().Err() == nil {
		sub.s.peerLog.Info("subscription ended", zap.String("tenant", sub.topic.Tenant), zap.String("stream", sub.topic.FullName()),
			zap.Int32("shard", sub.shardID.Partition), zap.Uint64("subscription", sub.id), zap.String("kind", errcode.Of(err).String()), zap.Error(err))
	}
	sub.out.CancelWrite(0)
	sub.close()
}

// close forgets the subscription: its queue, its place in the hub and in the connection's counts. It may be called more than once.
func (sub *subscription) close() {
	sub.mu.Lock()
	if sub.closed {
		sub.mu.Unlock()
		return
	}
	sub.closed = true
	queue, h := sub.queue, sub.hub
	sub.queue = nil
	sub.mu.Unlock()
	for _, f := range queue {
		f.release()
	}
	if h != nil {
		h.leave(sub)
	} else {
		sub.s.sweepHub(sub.shardID)
	}
	sub.conn.forget(sub)
	sub.s.metrics.disconnected.Inc()
}

// watch closes the subscription when the client stops reading it or the connection ends, also while nothing is written.
func (sub *subscription) watch() {
	context.AfterFunc(sub.out.Context(), func() {
		if !errors.Is(context.Cause(sub.out.Context()), quic.ErrStreamClosed) {
			sub.out.CancelWrite(streamNoError) // the library keeps a stream that its peer has stopped until we have done with it too
		}
		sub.close()
	})
}
