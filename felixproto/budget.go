package felixproto

import (
	"context"
	"sync"
)

// byteBudget is memory that all connections of a server share. Who wants more than there is may wait, in the order of asking.
type byteBudget struct {
	limit int64

	mu    sync.Mutex
	used  int64 // guarded by mu
	queue []*budgetWait
}

type budgetWait struct {
	n       int64
	granted chan struct{}
}

// take takes n bytes, or reports that there are not so many.
func (b *byteBudget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 || !b.fitsLocked(n) {
		return false
	}
	b.used += n
	return true
}

// fitsLocked: whoever wants more than all there is gets it once nobody else has any.
func (b *byteBudget) fitsLocked(n int64) bool { return b.used+n <= b.limit || b.used == 0 }

// acquire takes n bytes, waiting for others to give theirs back until ctx ends.
func (b *byteBudget) acquire(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.queue) == 0 && b.fitsLocked(n) {
		b.used += n
		b.mu.Unlock()
		return nil
	}
	w := &budgetWait{n: n, granted: make(chan struct{})}
	b.queue = append(b.queue, w)
	b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.queue {
		if other == w {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.grantLocked() // the next may fit
			return context.Cause(ctx)
		}
	}
	// Granted while ctx ended.
	b.used -= n
	b.grantLocked()
	return context.Cause(ctx)
}

func (b *byteBudget) give(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.grantLocked()
}

func (b *byteBudget) grantLocked() {
	for len(b.queue) > 0 && b.fitsLocked(b.queue[0].n) {
		w := b.queue[0]
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.used += w.n
		close(w.granted)
	}
}

func (b *byteBudget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
