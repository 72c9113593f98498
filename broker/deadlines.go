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
// Its lock comes before those of replicas: a wait is given up with the lock held, so that a publication cannot be in use again between
// the look at its deadline and the end of its wait.
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

func (w *commitWaits) add(p *Publication) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list.add(p, w.now().Add(w.limit))
	if !w.armed {
		w.armLocked(w.limit)
	}
}

func (w *commitWaits) remove(p *Publication) {
	w.mu.Lock()
	w.list.remove(p)
	w.mu.Unlock()
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
	var due *Publication
	end := &due
	w.mu.Lock()
	now := w.now()
	for p := w.list.first; p != nil && !p.deadline.After(now); p = w.list.first {
		w.list.remove(p)
		if p.Shard.CancelWait(&p.waiter) { // else its Notify is about to run, and tells
			*end = p
			end = &p.next
		}
	}
	*end = nil
	w.armed = false
	if p := w.list.first; p != nil {
		w.armLocked(max(p.deadline.Sub(now), time.Millisecond))
	}
	w.mu.Unlock()
	for p := due; p != nil; {
		next := p.next
		p.next = nil
		w.done(p, w.err)
		p = next
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
