package felixproto

import (
	"sync"

	"go.uber.org/zap"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// hub feeds the live subscriptions of one shard: it reads what became committed once, cuts it into frames once, and hands those to every
// queue. There is one for a shard with at least one live subscription here.
//
// It keeps no records of its own: when it is told that the high watermark moved it reads the log from where it stands, so nothing can be
// lost before a subscription's own queue, however late it comes. While nothing is published it has no goroutine.
type hub struct {
	s      *Server
	shard  *broker.Shard
	id     ids.ShardID
	tenant string
	// inline: the reading is done by whoever moved the high watermark, before a ring can overwrite what was published.
	inline bool

	waiter broker.Waiter // registered by run alone

	mu      sync.Mutex
	subs    []*subscription // guarded by mu
	next    ids.Offset      // guarded by mu, moved by run alone: what is below it was given to subs
	running bool            // guarded by mu: run is on its way and will look again before it ends
	again   bool            // guarded by mu: it was woken meanwhile
	waiting bool            // guarded by mu: waiter is registered
	gone    bool            // guarded by mu: taken off the server; no subscription may join
	// stamping says that what run cuts now has times, and wantStamps that it should from its next look on. Both are guarded by mu.
	stamping, wantStamps bool

	cut cutter // of run
}

// hubs are the hubs of a server.
type hubs struct {
	mu      sync.Mutex
	byShard map[ids.ShardID]*hub // guarded by mu
}

// join makes sub live at its place, or reports false when records between its place and the hub's must be read from the log first. It
// fails when the shard is not served here any more.
//
// A hub that stands before the subscription's place is fine: it comes by there, and sub leaves out what it has had.
func (s *Server) join(sub *subscription) (joined bool, err error) {
	for {
		h := s.hubOf(sub)
		h.mu.Lock()
		if h.gone {
			h.mu.Unlock()
			continue
		}
		h.catchUpLocked()
		if h.next > sub.next || sub.stamped && !h.stampsLocked() {
			h.mu.Unlock()
			return false, nil
		}
		if !sub.enter(h) {
			h.mu.Unlock()
			return false, errClosed
		}
		h.subs = append(h.subs, sub)
		start := !h.running && !h.waiting
		h.running = h.running || start
		h.mu.Unlock()
		if start {
			// The first look registers the waiter.
			h.start()
		}
		return true, nil
	}
}

// catchUpLocked moves a hub that nobody listens to and that stands still to the present: what lies between is for subscriptions to read
// from the log, at their own pace.
func (h *hub) catchUpLocked() {
	if len(h.subs) > 0 || h.running {
		return
	}
	if mark := h.shard.Bounds().HighWatermark; mark > h.next {
		h.next = mark
		h.cut.begin(mark)
	}
}

// sweepHub takes the hub of a shard off the server if nobody is left who would: a subscription may end before it has joined.
func (s *Server) sweepHub(id ids.ShardID) {
	s.hubs.mu.Lock()
	defer s.hubs.mu.Unlock()
	h := s.hubs.byShard[id]
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running {
		h.retireLocked()
	}
}

// stampsLocked reports whether every frame that h has not given out yet has times, and asks for them otherwise: what is being cut right
// now may not have any.
func (h *hub) stampsLocked() bool {
	h.wantStamps = true
	if !h.running {
		h.stamping = true
	}
	return h.stamping
}

// hubOf returns the hub of a subscription's shard, made if there is none.
func (s *Server) hubOf(sub *subscription) *hub {
	s.hubs.mu.Lock()
	defer s.hubs.mu.Unlock()
	h := s.hubs.byShard[sub.shardID]
	if h == nil {
		h = &hub{s: s, shard: sub.shard, id: sub.shardID, tenant: sub.topic.Tenant, inline: !sub.topic.Durable}
		h.next = sub.shard.Bounds().HighWatermark
		h.cut = s.cutter(&s.delivery, sub.shardID)
		h.cut.begin(h.next)
		h.waiter.Notify = h.wake
		s.hubs.byShard[sub.shardID] = h
	}
	return h
}

// leave takes sub off its hub, and the hub off the server when it was the last.
func (h *hub) leave(sub *subscription) {
	h.s.hubs.mu.Lock()
	defer h.s.hubs.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(sub)
	h.retireLocked()
}

func (h *hub) removeLocked(sub *subscription) {
	for i, other := range h.subs {
		if other == sub {
			last := len(h.subs) - 1
			h.subs[i], h.subs[last] = h.subs[last], nil
			h.subs = h.subs[:last]
			return
		}
	}
}

// retire is called by run when it found no subscription. It reports whether the hub is off the server, and then run must end.
func (h *hub) retire() bool {
	h.s.hubs.mu.Lock()
	defer h.s.hubs.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retireLocked()
	h.running = !h.gone
	return h.gone
}

// retireLocked takes a hub without subscriptions off the server. Server.hubs.mu is held too.
func (h *hub) retireLocked() {
	if len(h.subs) > 0 || h.gone {
		return
	}
	h.gone = true
	delete(h.s.hubs.byShard, h.id)
	if h.waiting && h.shard.CancelWait(&h.waiter) {
		h.waiting = false
	}
}

// wake is told that the high watermark moved, or why it never will again.
func (h *hub) wake(err error) {
	h.mu.Lock()
	h.waiting = false
	if err != nil {
		h.mu.Unlock()
		h.end(err)
		return
	}
	if h.running {
		h.again = true
		h.mu.Unlock()
		return
	}
	h.running = true
	h.mu.Unlock()
	if h.inline {
		h.run()
		return
	}
	// Not here: this goroutine has an acknowledgement to send. The runtime takes the new one up as soon as this one rests.
	h.start()
}

// start starts run, unless the server is closed.
func (h *hub) start() { h.s.tasks.start(h.run) }

// run hands out what is committed, and registers for more when there is none.
func (h *hub) run() {
	for {
		h.mu.Lock()
		h.stamping = h.wantStamps
		h.cut.stamped = h.stamping
		h.mu.Unlock()
		frames, err := h.read()
		if err != nil {
			h.end(err)
			return
		}
		h.mu.Lock()
		h.deliverLocked(frames)
		h.next = h.cut.next
		if len(h.subs) == 0 {
			h.mu.Unlock()
			if h.retire() {
				return
			}
			continue // somebody joined meanwhile
		}
		if len(frames) > 0 || h.again || h.shard.Bounds().HighWatermark > h.next {
			h.again = false
			h.mu.Unlock()
			continue
		}
		h.running = false
		// Whoever moves the high watermark between this line and the registration is seen by Wait itself.
		h.waiter.Until = h.next + 1
		waiting, err := h.shard.Wait(&h.waiter)
		h.waiting = waiting
		again := !waiting && err == nil
		h.running = again
		h.mu.Unlock()
		switch {
		case err != nil:
			h.end(err)
			return
		case !again:
			return
		}
	}
}

// pageBytes is how much of a log is read at once for delivery.
const pageBytes = 256 << 10

// read cuts the next page of the log. No frames and no error: there is nothing to read.
func (h *hub) read() ([]*frame, error) {
	frames, err := h.s.page(h.shard, &h.cut, pageBytes)
	var out *errcode.RangeError
	if h.inline && asRange(err, &out) && out.TooOld() {
		// A ring that went round. On a durable stream this ends the subscriptions: they come again and are told what is gone.
		h.s.metrics.overrun.Inc()
		h.cut.next = ids.Offset(out.Start)
		return nil, nil
	}
	return frames, err
}

// deliverLocked gives the frames to every subscription, and its own references back.
func (h *hub) deliverLocked(frames []*frame) {
	for _, f := range frames {
		for i := 0; i < len(h.subs); i++ {
			sub := h.subs[i]
			if !sub.offer(f) {
				h.removeLocked(sub)
				i--
			}
		}
		f.release()
	}
}

// end ends every subscription: the shard is not served here any more.
func (h *hub) end(why error) {
	h.s.hubs.mu.Lock()
	h.mu.Lock()
	subs := h.subs
	h.subs = nil
	h.running = false
	h.retireLocked()
	h.mu.Unlock()
	h.s.hubs.mu.Unlock()
	for _, sub := range subs {
		sub.abandon(why)
	}
	if len(subs) > 0 {
		h.s.logger.Info("subscriptions ended", zap.String("tenant", h.tenant), zap.Stringer("shard", h.id), zap.Int("subscriptions", len(subs)), zap.Error(why))
	}
}

// page reads at most maxBytes of a shard from where c stands, at least one batch, and cuts it. It gives nothing at the high watermark.
func (s *Server) page(shard *broker.Shard, c *cutter, maxBytes int) ([]*frame, error) {
	for {
		from := c.next
		chunks, _, err := shard.Read(from, maxBytes, true, nil)
		var frames []*frame
		for _, chunk := range chunks {
			if err == nil {
				frames = c.cut(frames, chunk.Data)
			}
			chunk.Ref.Release()
		}
		// A page of batches without events is stepped over.
		if err != nil || len(frames) > 0 || c.next == from || c.stopped() {
			return frames, err
		}
	}
}
