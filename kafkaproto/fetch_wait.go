package kafkaproto

import (
	"sync/atomic"
	"time"
)

// How a fetch waits. Under its lock somebody claims it, once: the handler, a shard whose high watermark moved, the timer, or the
// connection that closes. Whoever has claimed it cancels what it is registered with and answers. Each registration, the timer
// and the handler hold a reference, so the object is reused only when none of them can call it any more.

// leastShare is what an answer takes of the memory for answers, if it has as much to send; with less to be had it waits.
const leastShare = 1 << 20

// A fetch of many partitions that waits for more than one record does not look at all of them for each record that comes: whoever
// appends one would pay for that, and with many partitions woken at once it would be the square of their number. It looks lookTime
// after the first, off the appender's goroutine, and spends no more than a lookShare-th of its time on that.
const (
	lookFrom  = 256 // partitions
	lookTime  = 5 * time.Millisecond
	lookShare = 10
)

// retryTime is how soon a fetch that found no memory for its answer looks again.
const retryTime = 10 * time.Millisecond

// start answers at once (true) or sets the fetch waiting. The slot learns of f before anybody could complete it, and the lock is
// held until all partitions are registered.
func (f *fetch) start() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claimLocked(!time.Now().Before(f.due)) {
		return true
	}
	f.parked = true
	f.conn.park(f.slot, f)
	if f.conn.ending.Load() {
		return f.claimLocked(true)
	}
	if f.looksLaterLocked() {
		f.look = true
		f.registerAllLocked()
		if f.look && f.claimLocked(false) {
			f.cancelWaitsLocked()
			return true
		}
		f.armTimerLocked()
		return false
	}
	for i := range f.parts {
		if f.watchLocked(&f.parts[i]) {
			return true
		}
	}
	f.armTimerLocked()
	return false
}

// looksLaterLocked reports whether a record that comes is not looked at when it comes; see lookFrom.
func (f *fetch) looksLaterLocked() bool {
	return len(f.parts) > lookFrom && (f.minBytes > 1 || f.short)
}

// registerAllLocked registers, after a look, the partitions that were woken before it. If anything came meanwhile, look stays set.
func (f *fetch) registerAllLocked() {
	if !f.look {
		return
	}
	f.look = false
	for i := range f.parts {
		if f.registerLocked(&f.parts[i]) {
			f.look = true
		}
	}
}

// claimLocked takes the answer on if there is enough to say, or in any case when final. Memory for the records is taken first: with
// none to be had a fetch is not ready, and a final one is answered without records.
func (f *fetch) claimLocked(final bool) bool {
	if f.answered {
		return false
	}
	available, most, ready := 0, 0, final || f.topError != nil || len(f.parts) == 0
	for i := range f.parts {
		p := &f.parts[i]
		switch {
		case p.err != nil || p.diverges:
			ready = true
		case available < f.maxBytes:
			available += p.available()
			most += max(p.maxBytes, 1)
		}
	}
	available = min(available, f.maxBytes)
	// A client may ask for more bytes than it allows to be sent: then what may be sent is enough.
	if !ready && available < min(f.minBytes, f.maxBytes, most) {
		return false
	}
	f.short = false
	if available > 0 {
		f.charge = f.srv.answers.takeUpTo(int64(available), leastShare)
		if f.charge == 0 && !final {
			f.short = true
			return false
		}
	}
	f.answered = true
	return true
}

// available is how many bytes p could send now, at least 1 if anything: the log's figure may be rough.
func (p *fetchPart) available() int {
	if n := p.shard.Available(p.offset, max(p.maxBytes, 1)); n > 0 {
		return n
	}
	if p.offset < p.shard.Bounds().HighWatermark {
		return 1
	}
	return 0
}

// watchLocked makes p's shard wake the fetch at the next record that p could return. It reports true if there was enough to answer
// by then, which the caller has to do.
func (f *fetch) watchLocked(p *fetchPart) bool {
	for f.registerLocked(p) {
		if f.claimLocked(false) {
			f.cancelWaitsLocked()
			return true
		}
	}
	return false
}

// registerLocked registers p's waiter. It reports true when there is something to look at: records may have been committed since
// the last look, or the shard is not led here any more.
func (f *fetch) registerLocked(p *fetchPart) (look bool) {
	if p.err != nil || p.diverges || p.waiting {
		return false
	}
	before := p.bounds.HighWatermark
	p.bounds = p.shard.Bounds()
	p.waiter.Until = max(p.bounds.HighWatermark, p.offset) + 1
	f.refs.Add(1)
	waiting, err := p.shard.Wait(&p.waiter)
	if waiting {
		p.waiting = true
		return p.bounds.HighWatermark > before
	}
	f.refs.Add(-1)
	p.err = err
	return true
}

// armTimerLocked sets the timer for the time limit, or for the next look for memory if that comes first.
func (f *fetch) armTimerLocked() {
	d := time.Until(f.due)
	if f.short {
		d = min(d, retryTime)
	}
	if f.look {
		d = min(d, max(lookTime, lookShare*f.looked))
	}
	if f.timer != nil && f.timer.Stop() {
		f.refs.Add(-1)
	}
	f.refs.Add(1)
	if f.timer == nil {
		f.timer = time.AfterFunc(d, f.expire)
	} else {
		f.timer.Reset(d)
	}
}

// woken is the Notify of partition i's waiter: its high watermark passed Until, or never will for err.
func (f *fetch) woken(i int, err error) {
	f.mu.Lock()
	p := &f.parts[i]
	mine := false
	if p.waiting {
		p.waiting = false
		p.err = err
		if f.looksLaterLocked() {
			if !f.look {
				f.look = true
				f.armTimerLocked()
			}
		} else if mine = f.claimLocked(false); mine {
			f.cancelWaitsLocked()
		} else if mine = f.watchLocked(p); !mine && f.short && !f.answered {
			f.armTimerLocked()
		}
	}
	f.mu.Unlock()
	if mine {
		f.srv.wakes.answer(f)
	}
	f.release()
}

// expire is called at the time limit, and before it when memory for the answer was short or something came that was not looked at.
func (f *fetch) expire() {
	f.mu.Lock()
	now := time.Now()
	mine := f.claimLocked(!now.Before(f.due))
	switch {
	case mine:
		f.cancelWaitsLocked()
	case !f.answered:
		f.registerAllLocked()
		f.looked = time.Since(now)
		f.armTimerLocked()
	}
	f.mu.Unlock()
	if mine {
		f.answer()
	}
	f.release()
}

// cancelWaitsLocked ends all registrations and the timer.
func (f *fetch) cancelWaitsLocked() {
	for i := range f.parts {
		p := &f.parts[i]
		if !p.waiting {
			continue
		}
		p.waiting = false
		if p.shard.CancelWait(&p.waiter) {
			f.refs.Add(-1)
		}
	}
	if f.timer != nil && f.timer.Stop() {
		f.refs.Add(-1)
	}
}

func (f *fetch) retain() { f.refs.Add(1) }

// hurry answers with what there is.
func (f *fetch) hurry() {
	f.mu.Lock()
	mine := f.claimLocked(true)
	if mine {
		f.cancelWaitsLocked()
	}
	f.mu.Unlock()
	if mine {
		f.answer()
	}
}

// abandon ends the waiting: nobody reads the answer.
func (f *fetch) abandon() {
	f.mu.Lock()
	mine := !f.answered
	if mine {
		f.answered = true
		f.cancelWaitsLocked()
	}
	conn, slot := f.conn, f.slot
	f.mu.Unlock()
	if mine {
		conn.complete(slot, nil)
		f.release()
	}
}

// wakeBurst decides who answers a woken fetch. The goroutine that moved the high watermark does it itself, which saves waking
// another; but when one append wakes many fetches, all but the first few go to goroutines of their own, so that a producer does
// not pay for every consumer.
type wakeBurst struct {
	began time.Time
	last  atomic.Int64 // when the last such answer was done, since began
	run   atomic.Int32 // how many came right after one another
}

const (
	burstGap    = 10 * time.Microsecond
	burstInline = 4
)

func (w *wakeBurst) answer(f *fetch) {
	if int64(time.Since(w.began))-w.last.Load() > int64(burstGap) {
		w.run.Store(0)
	} else if w.run.Add(1) >= burstInline && !f.conn.closed.Load() {
		f.srv.wg.Go(f.answer)
		return
	}
	f.answer()
	w.last.Store(int64(time.Since(w.began)))
}
