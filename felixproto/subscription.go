package felixproto

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/zap"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// subscription is one reader of one shard: a unidirectional stream, what waits to be written on it, and its place.
//
// It begins in the log. What lies between its start and the present it reads itself, a page at a time and as fast as the client takes it,
// so nothing of it is ever dropped; where it meets the shard's hub it becomes live, and the hub fills its queue. What the queue has no
// room for the log still has: when the queue is written the subscription reads on from there, and becomes live again. Only if the client
// takes nothing for about three seconds while its queue is full is it dropped; a client that reads slowly makes room in steps of what its
// flow control announces. On a durable stream that is the end, told to the client behind what was queued. An ephemeral stream has no log,
// and drops at once.
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

	// moved counts the writes that went through; blocked says that one is under way.
	moved   atomic.Uint64
	blocked atomic.Bool

	// mu is taken under hub.mu, never the other way.
	mu      sync.Mutex
	hub     *hub       // guarded by mu: nil until the subscription is live, and then for ever the same
	next    ids.Offset // guarded by mu, written by run alone: every event below it was read from the log
	queue   []*frame   // guarded by mu
	slots   int        // guarded by mu: published batches in queue
	bytes   int        // guarded by mu: payload bytes in queue
	writing bool       // guarded by mu: run is on its way, and sees what is queued
	closed  bool       // guarded by mu: nothing is queued any more
	lagged  bool       // guarded by mu: a frame was dropped, and on a durable stream nothing follows it
	resume  ids.Offset // guarded by mu: the first dropped offset
	why     error      // guarded by mu: the shard is not served here any more
	dropped uint64     // guarded by mu: records
	// behind says that the queue had no room for what lies between missed and passed, overflow records. When the queue is written they
	// are read from the log, unless the client takes nothing for too long: looks is how often that was seen in a row, seen what moved
	// was then, and stalled that it was so for too long.
	behind         bool        // guarded by mu
	missed, passed ids.Offset  // guarded by mu
	overflow       int         // guarded by mu
	looks          int         // guarded by mu
	seen           uint64      // guarded by mu
	stalled        bool        // guarded by mu
	timer          *time.Timer // guarded by mu: for look; nil until used
	direct         int         // guarded by mu: bytes given to the library without waiting, since a write that waited

	// position is one past the last event written; owned by run, and by who holds mu while run is not on its way. reached is the same for
	// others to look at. items is for write to use again, and run's own.
	position ids.Offset
	items    []outgoingFrame
	reached  atomic.Int64
}

// A subscriber is taken for stalled when its queue has been full and nothing could be written to it for so many looks in a row. Looks
// are taken one after the other, so that a busy machine is not taken for a stalled reader.
const (
	stallLooks = 12
	stallLook  = 250 * time.Millisecond
)

// offer queues a frame, or drops it. False: the hub should offer nothing more. The frame's reference stays the caller's.
func (sub *subscription) offer(f *frame) (more bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	from := max(f.base, sub.next)
	count := int(f.next() - from)
	switch {
	case sub.closed, sub.lagged && sub.ends():
		return false
	case count <= 0:
		return true // read from the log
	case sub.behind:
		sub.passed = f.next()
		sub.overflow += count
		return true
	case sub.directLocked(f, from):
		return true
	case sub.roomLocked(f):
		sub.queue = append(sub.queue, f.retain())
		sub.slots += f.slots
		sub.bytes += f.payload
		sub.s.metrics.enqueued.Add(float64(count))
		if !sub.writing {
			sub.startLocked()
		}
		return true
	}
	sub.stalled = sub.stalled && sub.moved.Load() == sub.seen
	if sub.topic.Durable && !sub.stalled {
		sub.fallBehindLocked(from, f.next(), count)
		return true
	}
	sub.dropLocked(from, count)
	return !sub.ends()
}

// fallBehindLocked notes that the queue has no room for records that the log has. Whether the client reads shows in a while.
func (sub *subscription) fallBehindLocked(from, next ids.Offset, count int) {
	sub.behind, sub.missed, sub.passed, sub.overflow = true, from, next, count
	sub.looks, sub.seen = 0, sub.moved.Load()
	if sub.timer == nil {
		sub.timer = time.AfterFunc(stallLook, sub.look)
	} else {
		sub.timer.Reset(stallLook)
	}
}

// filled notes that the log was read up to next, into frames that are about to be written. It reports whether the subscription has met
// its hub; gone says that what is in frames has been dropped meanwhile.
func (sub *subscription) filled(frames []*frame, next ids.Offset) (met, gone bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if !sub.behind {
		return false, true
	}
	for _, f := range frames {
		sub.s.metrics.enqueued.Add(float64(f.count))
		sub.overflow -= int(max(min(f.next(), sub.passed)-f.base, 0))
	}
	sub.missed, sub.next = next, next
	sub.behind = next < sub.passed
	return !sub.behind, false
}

// look sees whether the client of a subscription that is behind takes anything. If it does not, what was not read from the log is dropped.
func (sub *subscription) look() {
	sub.mu.Lock()
	if !sub.behind || sub.closed {
		sub.mu.Unlock()
		return
	}
	if moved := sub.moved.Load(); moved != sub.seen || !sub.blocked.Load() {
		sub.looks, sub.seen = 0, moved
	} else {
		sub.looks++
	}
	if sub.looks < stallLooks {
		sub.timer.Reset(stallLook)
		sub.mu.Unlock()
		return
	}
	sub.behind, sub.stalled = false, true
	sub.dropLocked(sub.missed, sub.overflow)
	h := sub.hub
	sub.mu.Unlock()
	if sub.ends() {
		h.leave(sub)
	}
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

func (sub *subscription) dropLocked(from ids.Offset, count int) {
	if !sub.lagged {
		sub.lagged = true
		sub.resume = from
		sub.s.peerLog.Info("subscriber fell behind", zap.String("tenant", sub.topic.Tenant), zap.String("stream", sub.topic.FullName()),
			zap.Int32("shard", sub.shardID.Partition), zap.Uint64("subscription", sub.id), zap.Int64("offset", int64(sub.resume)))
	}
	sub.dropped += uint64(count)
	sub.s.metrics.droppedEvents.Add(float64(count))
}

// startLocked has run write what is queued.
func (sub *subscription) startLocked() {
	sub.writing = true
	sub.start()
}

// start starts run. When the server is closed nothing is written any more: the connection's end closes the subscription.
func (sub *subscription) start() { sub.s.tasks.start(sub.run) }

// run reads the log up to the present and writes what is queued, until there is nothing more to do.
func (sub *subscription) run() {
	err := sub.replay()
	for err == nil {
		var behind bool
		if behind, err = sub.drain(); err == nil {
			if !behind {
				return
			}
			err = sub.catchUp()
		}
	}
	sub.fail(err)
}

func (sub *subscription) live() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.hub != nil
}

// drain writes what the hub has queued until the queue is empty. It reports whether the log has what the queue had no room for.
func (sub *subscription) drain() (behind bool, err error) {
	var frames []*frame
	for {
		frames, behind = sub.take(frames[:0])
		if len(frames) == 0 {
			return behind, nil
		}
		_, err := sub.write(frames, sub.next, 0)
		for i, f := range frames {
			f.release()
			frames[i] = nil
		}
		if err != nil {
			return false, err
		}
	}
}

// take removes from the queue what goes into one write. Nothing left: run must end, or with behind catch up; the last frame was written if
// there is one.
func (sub *subscription) take(dst []*frame) (frames []*frame, behind bool) {
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
		return dst, false
	}
	sub.queue, sub.direct = nil, 0 // an idle subscription holds none
	lagged, resume, why := sub.lagged && sub.ends(), sub.resume, sub.why
	behind = sub.behind && why == nil
	sub.writing = lagged || why != nil || behind
	sub.mu.Unlock()
	switch {
	case lagged:
		sub.finish(&wire.SubscriptionLagged{SubscriptionID: sub.id, ResumeFrom: uint64(resume)})
	case why != nil:
		sub.fail(why)
	}
	return dst, behind
}

// finish writes the last frame and ends the stream.
func (sub *subscription) finish(last wire.Message) {
	_, err := sub.out.Write(wire.AppendMessage(nil, last))
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
	if sub.timer != nil {
		sub.timer.Stop()
	}
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
