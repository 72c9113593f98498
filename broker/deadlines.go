package broker

import (
	"sync"
	"time"
)

// deadlines are publications in the order of their deadlines: all that are in one list wait about equally long. Not safe for concurrent
// use.
type deadlines struct{ first, last *Publication }

// add puts p in its place: near the end, from where it is looked for.
func (l *deadlines) add(p *Publication, deadline time.Time) {
	before := l.last
	for before != nil && before.deadline.After(deadline) {
		before = before.sooner
	}
	p.deadline, p.timed, p.sooner = deadline, true, before
	if before == nil {
		p.later, l.first = l.first, p
	} else {
		p.later, before.later = before.later, p
	}
	if p.later == nil {
		l.last = p
	} else {
		p.later.sooner = p
	}
}

// remove takes p out, if it is in.
func (l *deadlines) remove(p *Publication) {
	if !p.timed {
		return
	}
	if p.sooner == nil {
		l.first = p.later
	} else {
		p.sooner.later = p.later
	}
	if p.later == nil {
		l.last = p.sooner
	} else {
		p.later.sooner = p.sooner
	}
	p.later, p.sooner, p.timed = nil, nil, false
}

// commitWaits are the publications of all shards that wait for their commit, those that wait equally long. They share one timer, which
// rests while there are none.
//
// A wait is given up without the lock, since a replica may be held up by its disk. Meanwhile the publication is the timer's: whoever
// else would end it leaves that to the timer, so that it is not in use again while the timer still looks at it.
type commitWaits struct {
	limit time.Duration
	err   error // what is told at the limit
	now   func() time.Time
	done  func(p *Publication, err error)

	mu    sync.Mutex
	list  deadlines   // guarded by mu
	timer *time.Timer // guarded by mu; nil until used
	armed bool        // guarded by mu
	ended bool        // guarded by mu
}

// add has p given up at the limit.
func (w *commitWaits) add(p *Publication) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.expiring, p.ended = false, false
	w.list.add(p, w.now().Add(w.limit))
	if !w.armed {
		w.armLocked(w.limit)
	}
}

// remove takes p out when its wait has come to an end, with err. It reports whether the caller is to answer; otherwise the timer does.
func (w *commitWaits) remove(p *Publication, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.expiring {
		p.ended, p.endErr = true, err
		return false
	}
	w.list.remove(p)
	return true
}

func (w *commitWaits) armLocked(d time.Duration) {
	if w.ended {
		return
	}
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.expire)
	} else {
		w.timer.Reset(d)
	}
}

// expire gives up the waits that are due.
func (w *commitWaits) expire() {
	var due []*Publication
	w.mu.Lock()
	now := w.now()
	for p := w.list.first; p != nil && !p.deadline.After(now); p = w.list.first {
		w.list.remove(p)
		p.expiring = true
		due = append(due, p)
	}
	w.armed = false
	if p := w.list.first; p != nil {
		w.armLocked(max(p.deadline.Sub(now), time.Millisecond))
	}
	w.mu.Unlock()
	for _, p := range due {
		cancelled := p.Shard.CancelWait(&p.waiter)
		w.mu.Lock()
		p.expiring = false
		ended, err := p.ended, p.endErr
		w.mu.Unlock()
		switch {
		case cancelled:
			w.done(p, w.err)
		case ended:
			w.done(p, err)
		default: // its Notify is about to run
		}
	}
}

// end stops the timer for good. Whoever still waits is told by its replica.
func (w *commitWaits) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
