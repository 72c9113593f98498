package buf

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	minClassBits = 9  // 512 B: smaller requests share this class
	maxClassBits = 23 // 8 MiB: larger buffers are made to measure and never kept
	classCount   = maxClassBits - minClassBits + 1
)

// Ref is one buffer and its count of holders. The holder that got it from Pool.Get has one reference.
type Ref struct {
	data  []byte // len is what was asked for
	refs  atomic.Int32
	class int8 // -1: not pooled
	pool  *Pool
}

// Bytes are the buffer's bytes, valid until the caller's reference is released.
func (r *Ref) Bytes() []byte { return r.data }

// Cap is the memory the buffer holds, in bytes.
func (r *Ref) Cap() int { return cap(r.data) }

// Shrink lowers the length to n, which must not exceed the present one. Only the sole holder may call it.
func (r *Ref) Shrink(n int) { r.data = r.data[:n] }

// Retain adds a holder and returns r. The caller must hold a reference already. A nil r stays nil.
func (r *Ref) Retain() *Ref {
	if r != nil {
		r.refs.Add(1)
	}
	return r
}

// Release gives up one reference. The last one returns the buffer to its pool. A nil r is ignored.
func (r *Ref) Release() {
	if r == nil {
		return
	}
	switch n := r.refs.Add(-1); {
	case n == 0:
		if r.pool != nil {
			r.pool.put(r)
		}
	case n < 0:
		panic("buf: released more often than retained")
	}
}

// Wrap makes a Ref over bytes that no pool owns, with one holder.
func Wrap(b []byte) *Ref {
	r := &Ref{data: b, class: -1}
	r.refs.Store(1)
	return r
}

// Pool hands out buffers by size class: powers of two from 512 B to 8 MiB.
type Pool struct {
	limit   int64 // bytes kept at most
	kept    atomic.Int64
	classes [classCount]class
}

type class struct {
	mu   sync.Mutex
	free []*Ref
	_    [32]byte // keeps neighbouring classes off one cache line
}

// NewPool makes a pool that keeps at most limit bytes of unused buffers. 0 keeps none.
func NewPool(limit int64) *Pool { return &Pool{limit: limit} }

// Get returns a buffer of n bytes with one reference. Its content is arbitrary. n must not be negative.
func (p *Pool) Get(n int) *Ref {
	c := classOf(n)
	if c < 0 {
		r := &Ref{data: make([]byte, n), class: -1}
		r.refs.Store(1)
		return r
	}
	cl := &p.classes[c]
	cl.mu.Lock()
	if last := len(cl.free) - 1; last >= 0 {
		r := cl.free[last]
		cl.free[last] = nil
		cl.free = cl.free[:last]
		cl.mu.Unlock()
		p.kept.Add(-int64(cap(r.data)))
		r.data = r.data[:n]
		r.refs.Store(1)
		return r
	}
	cl.mu.Unlock()
	r := &Ref{data: make([]byte, n, 1<<(minClassBits+c)), class: int8(c), pool: p}
	r.refs.Store(1)
	return r
}

// Kept is the memory of unused buffers now, in bytes.
func (p *Pool) Kept() int64 { return p.kept.Load() }

func (p *Pool) put(r *Ref) {
	size := int64(cap(r.data))
	poison(r.data[:cap(r.data)])
	if p.kept.Add(size) > p.limit {
		p.kept.Add(-size)
		return
	}
	cl := &p.classes[r.class]
	cl.mu.Lock()
	cl.free = append(cl.free, r)
	cl.mu.Unlock()
}

// classOf returns the class whose buffers hold n bytes, or -1 when n is too large to pool.
func classOf(n int) int {
	if n <= 1<<minClassBits {
		return 0
	}
	c := bits.Len(uint(n-1)) - minClassBits
	if c >= classCount {
		return -1
	}
	return c
}
