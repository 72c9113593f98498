package log

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

func TestTailReads(t *testing.T) {
	pool := buf.NewPool(1 << 20)
	c := NewTailCache(1<<20, pool, nil)
	var log tailLog
	for i := range ids.Offset(10) {
		c.insert(&log, 10+i*2, 12+i*2, 0, bytes.Repeat([]byte{byte(i)}, 100), nil)
	}
	tests := []struct {
		name        string
		from, limit ids.Offset
		maxBytes    int
		firstWhole  bool
		first, n    int // batches
		miss        bool
	}{
		{name: "all", from: 10, limit: 30, maxBytes: 1 << 20, first: 0, n: 10},
		{name: "inside_a_batch", from: 13, limit: 30, maxBytes: 1 << 20, first: 1, n: 9},
		{name: "below", from: 9, limit: 30, maxBytes: 1 << 20, miss: true},
		{name: "at_the_end", from: 30, limit: 30, maxBytes: 1 << 20, miss: true},
		{name: "limit_inside_a_batch", from: 10, limit: 17, maxBytes: 1 << 20, first: 0, n: 3},
		{name: "bytes", from: 10, limit: 30, maxBytes: 350, first: 0, n: 3},
		{name: "too_few_bytes", from: 10, limit: 30, maxBytes: 99, first: 0, n: 0},
		{name: "first_whole", from: 12, limit: 30, maxBytes: 1, firstWhole: true, first: 1, n: 1},
		{name: "first_whole_beyond_limit", from: 12, limit: 13, maxBytes: 1, firstWhole: true, first: 1, n: 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			chunks, n, ok := c.read(&log, tc.from, tc.limit, tc.maxBytes, tc.firstWhole, nil)
			if ok == tc.miss {
				t.Fatalf("found: %v", ok)
			}
			var got, want []byte
			for _, ch := range chunks {
				got = append(got, ch.Data...)
				ch.Ref.Release()
			}
			for i := range tc.n {
				want = append(want, bytes.Repeat([]byte{byte(tc.first + i)}, 100)...)
			}
			if !bytes.Equal(got, want) || n != len(want) {
				t.Errorf("%d bytes, said %d, want %d", len(got), n, len(want))
			}
			if tc.n > 1 && len(chunks) != 1 {
				t.Errorf("%d chunks for batches that lie side by side", len(chunks))
			}
			if span, ok := c.span(&log, tc.from, tc.limit, 1<<20); ok == tc.miss || ok && tc.maxBytes == 1<<20 && span != n {
				t.Errorf("span %d, %v", span, ok)
			}
		})
	}
}

// TestTailKeepsBuffers: a large batch is not copied, its buffer is kept, charged once, and let go.
func TestTailKeepsBuffers(t *testing.T) {
	pool := buf.NewPool(1 << 30)
	c := NewTailCache(4<<20, pool, nil)
	var a, b tailLog
	owner := pool.Get(1 << 20)
	c.insert(&a, 0, 1, 0, owner.Bytes()[:400<<10], owner)
	c.insert(&b, 0, 1, 0, owner.Bytes()[400<<10:900<<10], owner)
	owner.Release()
	if used := c.Bytes(); used < 1<<20 || used > 1<<20+4096 {
		t.Errorf("%d bytes are charged for a buffer of one MiB", used)
	}
	chunks, n, ok := c.read(&a, 0, 1, 1<<20, true, nil)
	if !ok || n != 400<<10 || &chunks[0].Data[0] != &owner.Bytes()[0] {
		t.Fatal("the batch was copied")
	}
	for i := range ids.Offset(10) {
		more := pool.Get(1 << 20)
		c.insert(&b, 1+i, 2+i, 0, more.Bytes(), more)
		more.Release()
	}
	if c.Bytes() > 4<<20 {
		t.Errorf("%d bytes are held", c.Bytes())
	}
	if _, _, ok := c.read(&a, 0, 1, 1<<20, true, nil); ok {
		t.Error("the oldest entry is still there")
	}
	if kept := pool.Kept(); kept == 0 {
		t.Error("no buffer came back to the pool")
	}
	before := pool.Kept()
	chunks[0].Ref.Release()
	if pool.Kept() == before {
		t.Error("the last reader's release did not give the buffer back")
	}
	c.forget(&a)
	c.forget(&b)
	if c.Bytes() != 0 {
		t.Errorf("%d bytes of no log", c.Bytes())
	}
	c.insert(&a, 5, 6, 0, []byte("late"), nil)
	if _, ok := a.find(5); ok {
		t.Error("a forgotten log takes entries")
	}
}

func TestTailDrop(t *testing.T) {
	c := NewTailCache(1<<20, buf.NewPool(1<<20), nil)
	var log tailLog
	for i := range ids.Offset(5) {
		c.insert(&log, i, i+1, 0, make([]byte, 50), nil)
	}
	c.drop(&log, 3)
	if _, ok := log.find(3); ok || log.entries.len() != 3 {
		t.Errorf("%d entries", log.entries.len())
	}
	c.insert(&log, 3, 9, 0, make([]byte, 50), nil)
	if _, n, ok := c.read(&log, 2, 9, 1000, true, nil); !ok || n != 100 {
		t.Errorf("%d bytes, %v", n, ok)
	}
	c.insert(&log, 9, 10, 0, make([]byte, 1<<20), nil) // larger than half the budget: nothing before it is contiguous any more
	if log.entries.len() != 0 || c.Bytes() != 0 {
		t.Errorf("%d entries, %d bytes", log.entries.len(), c.Bytes())
	}
	off := NewTailCache(-1, buf.NewPool(1<<20), nil)
	off.insert(&log, 10, 11, 0, []byte("x"), nil)
	if log.entries.len() != 0 {
		t.Error("a cache without a budget keeps something")
	}
}

// TestTailServesTheLog compares reads from memory with reads from files, under eviction by another log.
func TestTailServesTheLog(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	e := newEnv(t, vfs.NewMem(), withShared(func(s *Shared) { s.Tail = NewTailCache(20_000, s.Pool, nil) }))
	a, b := e.open(), e.openAt("data/shards/topic/1", 1)
	m := newModel()
	for range 600 {
		if rnd.IntN(3) == 0 {
			mustAppend(t, b, spec{size: rnd.IntN(3000)})
			continue
		}
		in := spec{records: 1 + rnd.IntN(3), size: rnd.IntN(1500)}.input(t)
		if rnd.IntN(2) == 0 {
			owner := e.shared.Pool.Get(len(in.Batch))
			copy(owner.Bytes(), in.Batch)
			in.Batch, in.Owner = owner.Bytes(), owner
		}
		if err := m.append(a, in); err != nil {
			t.Fatal(err)
		}
		in.Owner.Release()
		if rnd.IntN(10) == 0 {
			if err := m.check(a, m.end); err != nil {
				t.Fatal(err)
			}
		}
	}
	if used := e.shared.Tail.Bytes(); used > 20_000 {
		t.Errorf("%d bytes are held", used)
	}
	if err := a.Close(false); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(false); err != nil {
		t.Fatal(err)
	}
	if used := e.shared.Tail.Bytes(); used != 0 {
		t.Errorf("%d bytes of closed logs", used)
	}
}

func TestDeque(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	var d deque[int]
	var want []int
	for i := range 5000 {
		switch {
		case len(want) == 0 || rnd.IntN(5) < 3 && i < 4000:
			d.push(i)
			want = append(want, i)
		case rnd.IntN(2) == 0:
			if got := d.pop(); got != want[0] {
				t.Fatalf("pop gives %d, want %d", got, want[0])
			}
			want = want[1:]
		default:
			if got := d.popBack(); got != want[len(want)-1] {
				t.Fatalf("popBack gives %d, want %d", got, want[len(want)-1])
			}
			want = want[:len(want)-1]
		}
		if d.len() != len(want) {
			t.Fatalf("%d elements, want %d", d.len(), len(want))
		}
	}
	for len(want) > 0 {
		d.pop()
		want = want[1:]
	}
	if len(d.ring) > 2 {
		t.Error("an empty queue keeps its memory")
	}
}
