package log

import (
	"sort"
	"sync"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
)

const (
	// DefaultTailBytes is the memory of the hot tail of a node.
	DefaultTailBytes = 16 << 20
	// tailCopyBytes is the size up to which a batch is copied into an arena instead of keeping its request's buffer alive.
	tailCopyBytes = 16 << 10
	// tailArenaBytes is the size of an arena.
	tailArenaBytes = 64 << 10
	// keptOrder is how many elements the order may have beside those of entries.
	keptOrder = 1024
	// tailEntryOverhead is what an entry costs beside its bytes.
	tailEntryOverhead = 96
)

// TailCache keeps the newest batches of all logs of a node in memory, so that readers at the end touch no file. One budget, first
// in, first out over all logs. Safe for concurrent use.
type TailCache struct {
	budget  int64
	pool    *buf.Pool
	metrics *Metrics

	mu    sync.Mutex
	used  int64
	order deque[*tailLog] // one element for each entry, oldest first; may name logs that have dropped theirs
	live  int             // entries
	arena *buf.Ref        // what small batches are copied into; its length is what is used of it
	last  *buf.Ref        // the holder of the newest entry, charged already
}

// tailLog is the part of the cache that belongs to one log. It is guarded by the cache's lock.
type tailLog struct {
	entries deque[tailEntry] // contiguous offsets, up to the log end
	dead    bool
}

// tailEntry is one batch.
type tailEntry struct {
	base, next ids.Offset
	data       []byte
	ref        *buf.Ref
	charge     int64
	pos        int64 // where the batch lies in its segment's file
}

// NewTailCache returns a cache of at most budget bytes; 0 chooses the default and a negative budget caches nothing. pool gives the
// arenas. metrics may be nil.
func NewTailCache(budget int64, pool *buf.Pool, metrics *Metrics) *TailCache {
	if budget == 0 {
		budget = DefaultTailBytes
	}
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	return &TailCache{budget: budget, pool: pool, metrics: metrics}
}

// insert is called by every append of every log, so it holds the lock for a few hundred nanoseconds and allocates nothing but what
// the queues need to grow. It adds a batch at the end of a log's part. owner holds the bytes; nil means that they are not ours to keep, and they are
// copied.
func (c *TailCache) insert(t *tailLog, base, next ids.Offset, pos int64, data []byte, owner *buf.Ref) {
	if c.budget < 0 || int64(len(data)) > c.budget/2 {
		c.drop(t, -1) // what follows would not be contiguous
		return
	}
	var freed [8]*buf.Ref
	n := 0
	c.mu.Lock()
	if t.dead {
		c.mu.Unlock()
		return
	}
	e := tailEntry{base: base, next: next, pos: pos, charge: tailEntryOverhead}
	switch {
	case len(data) <= tailCopyBytes && (owner == nil || 2*len(data) < owner.Cap()):
		e.data, e.ref = c.copyLocked(data)
		e.charge += int64(len(data))
	case owner == nil:
		e.ref = c.pool.Get(len(data))
		copy(e.ref.Bytes(), data)
		e.data = e.ref.Bytes()
		e.charge += int64(e.ref.Cap())
	default:
		e.data, e.ref = data, owner.Retain()
		if owner != c.last {
			e.charge += int64(owner.Cap()) // the first of its entries pays for the whole buffer that it keeps alive
			c.last = owner
		}
	}
	t.entries.push(e)
	c.order.push(t)
	c.live++
	c.used += e.charge
	for c.used > c.budget && c.order.len() > 0 {
		victim := c.order.pop()
		if victim.entries.len() == 0 {
			continue
		}
		old := victim.entries.pop()
		c.live--
		c.used -= old.charge
		if n == len(freed) {
			old.ref.Release() // a leaf lock; rare enough to be taken here
			continue
		}
		freed[n] = old.ref
		n++
	}
	c.metrics.TailBytes.Set(float64(c.used))
	c.mu.Unlock()
	for i := range n {
		freed[i].Release()
	}
}

// copyLocked copies a small batch into the arena.
func (c *TailCache) copyLocked(data []byte) ([]byte, *buf.Ref) {
	if c.arena == nil || c.arena.Cap()-len(c.arena.Bytes()) < len(data) {
		c.arena.Release()
		c.arena = c.pool.Get(tailArenaBytes)
		c.arena.Shrink(0)
	}
	used := len(c.arena.Bytes())
	c.arena.Shrink(used + len(data)) // within the capacity: Shrink sets the length
	room := c.arena.Bytes()[used:]
	copy(room, data)
	return room, c.arena.Retain()
}

// read adds whole batches from the one that contains from to dst. ok is false when the cache does not hold from.
func (c *TailCache) read(t *tailLog, from, limit ids.Offset, maxBytes int, firstWhole bool, dst []Chunk) (_ []Chunk, total int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := t.find(from)
	if !ok {
		return dst, 0, false
	}
	first := len(dst)
	for ; i < t.entries.len(); i++ {
		e := t.entries.at(i)
		if e.next > limit || total+len(e.data) > maxBytes && (!firstWhole || total > 0) {
			break
		}
		total += len(e.data)
		if n := len(dst); n > first && adjacent(dst[n-1].Data, e.data) && dst[n-1].Ref == e.ref {
			dst[n-1].Data = dst[n-1].Data[:len(dst[n-1].Data)+len(e.data)]
			continue
		}
		dst = append(dst, Chunk{Data: e.data, Ref: e.ref.Retain()})
	}
	return dst, total, true
}

// adjacent says that b lies in memory right behind a, in the same arena.
func adjacent(a, b []byte) bool {
	return cap(a)-len(a) >= len(b) && &a[:len(a)+1][len(a)] == &b[0]
}

// span returns the number of bytes from the batch that contains from to the end of the last batch at or below limit.
func (c *TailCache) span(t *tailLog, from, limit ids.Offset, most int) (n int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := t.find(from)
	if !ok {
		return 0, false
	}
	for ; i < t.entries.len() && n < most; i++ {
		e := t.entries.at(i)
		if e.next > limit {
			break
		}
		n += len(e.data)
	}
	return n, true
}

// find returns the number of the entry that contains off.
func (t *tailLog) find(off ids.Offset) (int, bool) {
	n := t.entries.len()
	if n == 0 || off < t.entries.at(0).base || off >= t.entries.at(n-1).next {
		return 0, false
	}
	return sort.Search(n, func(i int) bool { return t.entries.at(i).next > off }), true
}

// drop removes the entries of a log that reach past end; a negative end removes all.
func (c *TailCache) drop(t *tailLog, end ids.Offset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := t.entries.len(); n > 0 && t.entries.at(n-1).next > end; n-- {
		e := t.entries.popBack()
		c.live--
		c.used -= e.charge
		if e.ref == c.last {
			c.last = nil // its charge may be gone with the entry
		}
		e.ref.Release()
	}
	c.tidyLocked()
}

// tidyLocked takes elements without an entry out of the order, once they are the most of it: while the budget is not used up nothing
// else would, and logs that come and go would leave theirs for good.
func (c *TailCache) tidyLocked() {
	if c.order.len() <= 2*c.live+keptOrder {
		return
	}
	left := map[*tailLog]int{} // entries that have no element yet
	kept := make([]*tailLog, 0, c.live)
	for i := c.order.len() - 1; i >= 0; i-- {
		t := *c.order.at(i)
		n, seen := left[t]
		if !seen {
			n = t.entries.len()
		}
		left[t] = n - 1
		if n > 0 {
			kept = append(kept, t)
		}
	}
	c.order = deque[*tailLog]{}
	for i := len(kept) - 1; i >= 0; i-- {
		c.order.push(kept[i])
	}
}

// forget removes a log from the cache for good.
func (c *TailCache) forget(t *tailLog) {
	c.drop(t, -1)
	c.mu.Lock()
	t.dead = true
	c.mu.Unlock()
}

// Bytes returns the memory in use.
func (c *TailCache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// deque is a queue in a ring that grows, and that gives its memory back when it is empty.
type deque[T any] struct {
	ring []T
	head int
	n    int
}

func (d *deque[T]) len() int { return d.n }

func (d *deque[T]) at(i int) *T { return &d.ring[(d.head+i)&(len(d.ring)-1)] }

func (d *deque[T]) push(v T) {
	if d.n == len(d.ring) {
		grown := make([]T, max(2, 2*len(d.ring))) // a power of two, for the mask in at
		for i := range d.n {
			grown[i] = *d.at(i)
		}
		d.ring, d.head = grown, 0
	}
	d.n++
	*d.at(d.n - 1) = v
}

func (d *deque[T]) pop() T {
	var zero T
	v := *d.at(0)
	*d.at(0) = zero
	d.head = (d.head + 1) & (len(d.ring) - 1)
	d.n--
	d.shrink()
	return v
}

func (d *deque[T]) popBack() T {
	var zero T
	v := *d.at(d.n - 1)
	*d.at(d.n - 1) = zero
	d.n--
	d.shrink()
	return v
}

// shrink gives memory back: all of it when empty and more than the least.
func (d *deque[T]) shrink() {
	if d.n == 0 && len(d.ring) > 2 {
		d.ring, d.head = nil, 0
	}
}
