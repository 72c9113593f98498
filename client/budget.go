package client

import (
	"context"
	"sync"
)

// budget bounds the bytes of records that are not answered. Whoever finds no room waits in line: a large record is not overtaken for
// ever by small ones.
type budget struct {
	limit int

	mu      sync.Mutex
	used    int             // guarded by mu: bytes
	records int             // guarded by mu: records whose outcome is not told
	line    []*claim        // guarded by mu: those who wait, first come first
	empty   []chan struct{} // guarded by mu: those who wait until there is no record
}

// claim is somebody's wait for room.
type claim struct {
	bytes int
	ready chan struct{}
}

// acquire takes bytes for one call's records, and waits for room as long as ctx lasts or closed is open. A claim larger than the whole
// budget gets it all to itself.
func (b *budget) acquire(ctx context.Context, closed <-chan struct{}, bytes int) error {
	b.mu.Lock()
	if len(b.line) == 0 && b.fitsLocked(bytes) {
		b.used += bytes
		b.records++
		b.mu.Unlock()
		return nil
	}
	cl := &claim{bytes: bytes, ready: make(chan struct{})}
	b.line = append(b.line, cl)
	b.mu.Unlock()
	var err error
	select {
	case <-cl.ready:
		b.mu.Lock()
		b.records++
		b.mu.Unlock()
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-closed:
		err = ErrClosed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, waiting := range b.line {
		if waiting == cl {
			b.line = append(b.line[:i], b.line[i+1:]...)
			b.admitLocked()
			return err
		}
	}
	// Room came at the same moment.
	b.used -= bytes
	b.admitLocked()
	return err
}

func (b *budget) fitsLocked(bytes int) bool { return b.used == 0 || b.used+bytes <= b.limit }

// release gives back what answered records took. Their outcomes are told after that, so that whoever is told finds room for more.
func (b *budget) release(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= bytes
	b.admitLocked()
}

// answered says that the outcomes of so many records are told.
func (b *budget) answered(records int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records -= records
	if b.records == 0 {
		for _, ch := range b.empty {
			close(ch)
		}
		b.empty = nil
	}
}

func (b *budget) admitLocked() {
	n := 0
	for ; n < len(b.line) && b.fitsLocked(b.line[n].bytes); n++ {
		b.used += b.line[n].bytes
		close(b.line[n].ready)
	}
	if n > 0 {
		b.line = append(b.line[:0], b.line[n:]...)
	}
}

// wait waits until the outcome of every record is told.
func (b *budget) wait(ctx context.Context) error {
	b.mu.Lock()
	if b.records == 0 {
		b.mu.Unlock()
		return nil
	}
	ch := make(chan struct{})
	b.empty = append(b.empty, ch)
	b.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
