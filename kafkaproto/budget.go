package kafkaproto

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// budget is a bound on memory that many connections share. Those that find it used up wait in order of arrival.
//
// A request's buffer grows as its bytes arrive, so a connection may hold some and ask for more; if all holders did, none
// would ever finish. Two rules keep it moving: one connection at a time that already holds memory, or asks for more than there is
// at all, may go over the limit; and while anybody waits, requests that have been incomplete for longer than stallLimit are
// cut off, oldest first, so a client that sends its bytes slowly cannot hold the memory that others need.
type budget struct {
	limit  int64
	used   atomic.Int64
	queued atomic.Int32 // length of queue; read without mu by the fast paths

	// overdraft is who may be over the limit, nil for nobody. Written under mu.
	overdraft atomic.Pointer[lease]

	mu      sync.Mutex
	queue   []*budgetWait // oldest first
	reading leaseList     // leases of incomplete requests, oldest first
}

type budgetWait struct {
	lease *lease
	held  int64 // what lease held when it began to wait
	n     int64
	ready chan struct{} // closed when granted
}

// stallLimit is how long a request may stay incomplete while others wait for memory.
const stallLimit = 5 * time.Second

// lease is one request's share of a budget. It is embedded in the connection; its fields belong to the goroutine that reads.
type lease struct {
	held int64

	// Guarded by budget.mu.
	listed     bool
	since      time.Time
	cut        func() // closes the connection
	next, prev *lease
}

func newBudget(limit int64) *budget { return &budget{limit: limit} }

// tryTake takes n bytes if they are free and nobody waits.
func (b *budget) tryTake(n int64) bool {
	if b.queued.Load() > 0 {
		return false
	}
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.put(n)
	return false
}

// takeUpTo takes as much of want as is free, if that is all of it or least, and returns what it took, else 0. It does not wait. Of
// what is free one taker gets a quarter, unless that is less than least: so it takes many that hold on to theirs to leave nothing.
func (b *budget) takeUpTo(want, least int64) int64 {
	for {
		used := b.used.Load()
		free := b.limit - used
		n := min(want, max(free/4, least), free)
		if n < min(want, least) {
			return 0
		}
		if b.used.CompareAndSwap(used, used+n) {
			return n
		}
	}
}

// force takes n bytes whether they are free or not: for what turned out larger than was taken for it.
func (b *budget) force(n int64) { b.used.Add(n) }

// isShort reports whether nearly everything is taken.
func (b *budget) isShort() bool { return b.used.Load() > b.limit-b.limit/8 }

// put gives n bytes back.
func (b *budget) put(n int64) {
	if n == 0 {
		return
	}
	b.used.Add(-n)
	if b.queued.Load() > 0 {
		b.mu.Lock()
		b.grantLocked()
		b.mu.Unlock()
	}
}

// take adds n bytes to l, waiting until they are free or ctx ends.
func (b *budget) take(ctx context.Context, l *lease, n int64) error {
	if b.overdraft.Load() == l {
		// It is let through so that it finishes: in the queue it would wait for those that wait for it.
		b.force(n)
		l.held += n
		return nil
	}
	if b.tryTake(n) {
		l.held += n
		return nil
	}
	w := &budgetWait{lease: l, held: l.held, n: n, ready: make(chan struct{})}
	b.mu.Lock()
	reading := l.listed
	b.reading.remove(l) // it waits for us now, not for its client
	b.queue = append(b.queue, w)
	b.queued.Store(int32(len(b.queue)))
	b.grantLocked() // a put between tryTake and here saw no queue
	b.mu.Unlock()

	defer func() {
		if reading {
			b.began(l, time.Now(), l.cut)
		}
	}()
	timer := time.NewTimer(stallLimit)
	defer timer.Stop()
	for {
		select {
		case <-w.ready:
			l.held += n
			return nil
		case <-timer.C:
			b.cutStalled()
			timer.Reset(stallLimit)
		case <-ctx.Done():
			if b.leave(w) {
				return context.Cause(ctx)
			}
			<-w.ready
			l.held += n
			return nil
		}
	}
}

// leave takes w out of the queue, or reports false when it was granted already.
func (b *budget) leave(w *budgetWait) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, q := range b.queue {
		if q == w {
			b.queue = slices.Delete(b.queue, i, i+1)
			b.queued.Store(int32(len(b.queue)))
			b.grantLocked()
			return true
		}
	}
	return false
}

// grantLocked lets those through that fit, oldest first, and then one of those that would otherwise wait for each other.
func (b *budget) grantLocked() {
	for len(b.queue) > 0 && b.used.Load()+b.queue[0].n <= b.limit {
		b.grantAtLocked(0)
	}
	if len(b.queue) == 0 || b.overdraft.Load() != nil {
		return
	}
	for i, w := range b.queue {
		if w.held > 0 || w.n > b.limit {
			b.overdraft.Store(w.lease)
			b.grantAtLocked(i)
			return
		}
	}
}

func (b *budget) grantAtLocked(i int) {
	w := b.queue[i]
	b.queue = slices.Delete(b.queue, i, i+1)
	b.queued.Store(int32(len(b.queue)))
	b.used.Add(w.n)
	close(w.ready)
}

// giveBack returns n bytes of what l holds.
func (b *budget) giveBack(l *lease, n int64) {
	l.held -= n
	b.put(n)
}

// free gives back all that l holds.
func (b *budget) free(l *lease) {
	n := l.held
	if n == 0 {
		return
	}
	l.held = 0
	b.used.Add(-n)
	if b.queued.Load() == 0 && b.overdraft.Load() != l {
		return
	}
	b.mu.Lock()
	b.overdraft.CompareAndSwap(l, nil)
	b.grantLocked()
	b.mu.Unlock()
}

// began lists l as the lease of a request whose bytes are still arriving; cut closes its connection.
func (b *budget) began(l *lease, now time.Time, cut func()) {
	b.mu.Lock()
	l.since, l.cut = now, cut
	b.reading.add(l)
	b.mu.Unlock()
}

// arrived takes l off that list. It may be called without began.
func (b *budget) arrived(l *lease) {
	b.mu.Lock()
	b.reading.remove(l)
	b.mu.Unlock()
}

// cutStalled closes the connection whose request has been incomplete longest, if that is longer than stallLimit.
func (b *budget) cutStalled() {
	b.mu.Lock()
	var cut func()
	if l := b.reading.first; l != nil && time.Since(l.since) >= stallLimit {
		cut = l.cut
		b.reading.remove(l)
	}
	b.mu.Unlock()
	if cut != nil {
		cut()
	}
}

type leaseList struct{ first, last *lease }

func (q *leaseList) add(l *lease) {
	if l.listed {
		return
	}
	l.listed, l.prev, l.next = true, q.last, nil
	if q.last != nil {
		q.last.next = l
	} else {
		q.first = l
	}
	q.last = l
}

func (q *leaseList) remove(l *lease) {
	if !l.listed {
		return
	}
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		q.first = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	} else {
		q.last = l.prev
	}
	l.listed, l.next, l.prev = false, nil, nil
}
