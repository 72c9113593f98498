package ring

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// batch builds a batch of n records of size bytes in a buffer of its own.
func batch(t testing.TB, pool *buf.Pool, n, size int, timestamp int64, p *recordbatch.Producer) (log.AppendInput, *buf.Ref) {
	t.Helper()
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{LeaderEpoch: -1, Producer: p})
	for i := range n {
		b.Append(timestamp+int64(i), nil, make([]byte, size))
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ref := pool.Get(len(out))
	copy(ref.Bytes(), out)
	h, err := recordbatch.ParseHeader(out)
	if err != nil {
		t.Fatal(err)
	}
	return log.AppendInput{Batch: ref.Bytes(), Owner: ref, Header: h}, ref
}

func mustAppend(t testing.TB, r *Ring, in log.AppendInput, ref *buf.Ref) log.AppendResult {
	t.Helper()
	res, err := r.Append(in)
	ref.Release()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func newTestRing(o Options) (*Ring, *buf.Pool) {
	pool := buf.NewPool(1 << 20)
	o.Pool = pool
	if o.Budget == nil {
		o.Budget = NewBudget(0)
	}
	return New(o), pool
}

// offsets reads everything and returns the base offset of each batch.
func offsets(t testing.TB, r *Ring, from ids.Offset) []ids.Offset {
	t.Helper()
	chunks, _, err := r.Read(from, r.Bounds().End, 1<<30, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []ids.Offset
	for _, c := range chunks {
		h, one, rest, err := recordbatch.Next(c.Data)
		if err != nil || len(rest) != 0 {
			t.Fatalf("chunk of %d bytes, %d behind it: %v", len(one), len(rest), err)
		}
		out = append(out, ids.Offset(h.BaseOffset))
		c.Ref.Release()
	}
	return out
}

func TestAppendAndRead(t *testing.T) {
	r, pool := newTestRing(Options{})
	if b := r.Bounds(); b.Start != 0 || b.End != 0 || !b.NeverWritten || b.Epoch != ids.NoEpoch {
		t.Errorf("empty: %+v", b)
	}
	for i := range 5 {
		in, ref := batch(t, pool, 3, 100, 1000, nil)
		in.Epoch = 4
		if res := mustAppend(t, r, in, ref); res.Base != ids.Offset(3*i) || res.Next != ids.Offset(3*i+3) {
			t.Fatalf("append %d: %+v", i, res)
		}
	}
	if b := r.Bounds(); b.Start != 0 || b.End != 15 || b.DurableEnd != 15 || b.Epoch != 4 || b.NeverWritten {
		t.Errorf("bounds %+v", b)
	}
	if got := fmt.Sprint(offsets(t, r, 4)); got != "[3 6 9 12]" {
		t.Errorf("from inside a batch: %s", got)
	}
	chunks, n, err := r.Read(0, 7, 1<<20, true, nil)
	if err != nil || len(chunks) != 2 || n == 0 {
		t.Errorf("below 7: %d chunks, %d bytes, %v", len(chunks), n, err)
	}
	for _, c := range chunks {
		c.Ref.Release()
	}
	if chunks, n, err = r.Read(0, 15, 1, false, nil); err != nil || len(chunks) != 0 || n != 0 {
		t.Errorf("one byte: %d chunks, %d bytes, %v", len(chunks), n, err)
	}
	if chunks, n, err = r.Read(15, 15, 1, true, nil); err != nil || len(chunks) != 0 || n != 0 {
		t.Errorf("at the end: %d chunks, %d bytes, %v", len(chunks), n, err)
	}
	if _, _, err = r.Read(16, 20, 1, true, nil); errcode.Of(err) != errcode.OffsetOutOfRange {
		t.Errorf("past the end: %v", err)
	}
	if a := r.Available(3, 15, 1<<20); a < 4*100 || a != r.Available(5, 15, 1<<20) {
		t.Errorf("available %d", a)
	}
	in, ref := batch(t, pool, 1, 1, 0, nil)
	in.Epoch = 3
	if _, err := r.Append(in); errcode.Of(err) != errcode.FencedEpoch {
		t.Errorf("an older epoch: %v", err)
	}
	ref.Release()
}

func TestBounds(t *testing.T) {
	tests := []struct {
		name       string
		o          Options
		size, n    int
		wantOldest ids.Offset
	}{
		{"by_batches", Options{Batches: 4}, 100, 10, 6},
		{"one_batch", Options{Batches: 1}, 100, 10, 9},
		{"by_bytes", Options{Bytes: 3 * (1024 + entryOverhead)}, 900, 10, 7},
		{"newest_stays_however_large", Options{Bytes: 10}, 900, 10, 9},
		{"by_the_budget_of_all", Options{Budget: NewBudget(2 * (1024 + entryOverhead))}, 900, 10, 8},
		{"newest_stays_whatever_the_budget", Options{Budget: NewBudget(1)}, 900, 10, 9},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r, pool := newTestRing(tc.o)
			for range tc.n {
				in, ref := batch(t, pool, 1, tc.size, 1000, nil)
				mustAppend(t, r, in, ref)
			}
			if b := r.Bounds(); b.Start != tc.wantOldest || b.End != ids.Offset(tc.n) {
				t.Fatalf("bounds %+v, want to begin at %d", b, tc.wantOldest)
			}
			// A reader that fell behind is told where to go on.
			_, _, err := r.Read(tc.wantOldest-1, r.Bounds().End, 1, true, nil)
			var behind *errcode.RangeError
			if !errors.As(err, &behind) || !behind.TooOld() || behind.Start != int64(tc.wantOldest) {
				t.Errorf("below the oldest: %v", err)
			}
			if got := offsets(t, r, tc.wantOldest); len(got) != tc.n-int(tc.wantOldest) || got[0] != tc.wantOldest {
				t.Errorf("read %v", got)
			}
			if err := r.Close(true); err != nil || r.opts.Budget.Used() != 0 {
				t.Errorf("%d bytes are left in the budget, %v", r.opts.Budget.Used(), err)
			}
		})
	}
}

// TestReaderKeepsWhatItHolds: chunks stay valid when the ring has gone over them.
func TestReaderKeepsWhatItHolds(t *testing.T) {
	r, pool := newTestRing(Options{Batches: 2})
	in, ref := batch(t, pool, 1, 700, 1000, nil)
	mustAppend(t, r, in, ref)
	chunks, _, err := r.Read(0, 1, 1, true, nil)
	if err != nil || len(chunks) != 1 {
		t.Fatal(err)
	}
	for range 5 {
		in, ref := batch(t, pool, 1, 700, 1000, nil)
		mustAppend(t, r, in, ref)
	}
	if h, _, _, err := recordbatch.Next(chunks[0].Data); err != nil || h.BaseOffset != 0 || h.RecordCount != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	kept := pool.Kept()
	chunks[0].Ref.Release()
	if pool.Kept() <= kept {
		t.Error("the buffer did not go back")
	}
}

// TestLooseBuffersAreCopied: a small batch does not keep a large buffer.
func TestLooseBuffersAreCopied(t *testing.T) {
	r, pool := newTestRing(Options{})
	in, small := batch(t, pool, 1, 100, 1000, nil)
	large := pool.Get(1 << 20)
	n := copy(large.Bytes(), in.Batch)
	small.Release()
	in.Batch, in.Owner = large.Bytes()[:n], large
	mustAppend(t, r, in, large)
	if held := r.opts.Budget.Used(); held > 4096 {
		t.Errorf("%d bytes are held for a batch of %d", held, n)
	}
	if got := offsets(t, r, 0); len(got) != 1 {
		t.Errorf("read %v", got)
	}
}

func TestTimes(t *testing.T) {
	r, pool := newTestRing(Options{})
	for i := range 3 {
		in, ref := batch(t, pool, 3, 10, int64(1000*(i+1)), nil) // 1000 1001 1002, 2000 …
		mustAppend(t, r, in, ref)
	}
	for _, c := range []struct {
		ts   int64
		want ids.Offset
		ok   bool
	}{{0, 0, true}, {1001, 1, true}, {1003, 3, true}, {3002, 8, true}, {3003, 0, false}} {
		found, ok, err := r.OffsetForTime(c.ts, 9)
		if err != nil || ok != c.ok || found.Offset != c.want {
			t.Errorf("at %d: %+v %v %v", c.ts, found, ok, err)
		}
	}
	if _, ok, _ := r.OffsetForTime(3000, 6); ok {
		t.Error("found past the limit")
	}
	if found, ok, err := r.MaxTimestamp(9); err != nil || !ok || found.Offset != 8 || found.Timestamp != 3002 {
		t.Errorf("largest: %+v %v %v", found, ok, err)
	}
	if _, ok, err := New(Options{Budget: NewBudget(0), Pool: pool}).MaxTimestamp(9); ok || err != nil {
		t.Errorf("of an empty ring: %v %v", ok, err)
	}
}

// TestProducersDieWithTheRing: row S-73. What is known of a producer is memory, gone when leadership goes.
func TestProducersDieWithTheRing(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	r, pool := newTestRing(Options{Batches: 2, ProducerExpiry: time.Hour, Now: func() time.Time { return now }})
	const id = log.NativeProducer | 9
	send := func(seq uint64) (log.AppendResult, error) {
		in, ref := batch(t, pool, 2, 10, 1000, &recordbatch.Producer{ID: id, BaseSequence: log.NativeSequence(seq)})
		in.Sequence = seq
		defer ref.Release()
		return r.Append(in)
	}
	for seq := range uint64(5) {
		if res, err := send(seq); err != nil || res.Duplicate || res.Base != ids.Offset(2*seq) {
			t.Fatalf("sequence %d: %+v, %v", seq, res, err)
		}
	}
	if res, err := send(1); err != nil || !res.Duplicate || res.Base != 2 || res.Next != 4 {
		t.Errorf("a re-send of a batch that the ring has gone over: %+v, %v", res, err)
	}
	known := 0
	r.Producers(func(p log.ProducerState) bool { known++; return p.ID == id })
	if known != 1 {
		t.Errorf("%d producers", known)
	}
	unknown := func(err error) bool {
		var s *errcode.SequenceError
		return errors.As(err, &s) && s.Reason == errcode.SequenceUnknownProducer
	}
	r.Reset()
	if b := r.Bounds(); b.Start != 10 || b.End != 10 {
		t.Errorf("after a reset %+v", b)
	}
	if _, err := send(5); !unknown(err) {
		t.Errorf("after a reset: %v", err)
	}
	if _, err := send(0); err != nil {
		t.Error(err)
	}
	now = now.Add(2 * time.Hour)
	if _, err := send(1); !unknown(err) {
		t.Errorf("after its expiry: %v", err)
	}
	if err := r.Delete(); err != nil {
		t.Fatal(err)
	}
	if _, err := send(0); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestAdvanceStart(t *testing.T) {
	r, pool := newTestRing(Options{})
	for range 3 {
		in, ref := batch(t, pool, 4, 10, 1000, nil)
		mustAppend(t, r, in, ref)
	}
	if err := r.AdvanceStart(6); err != nil || r.Bounds().Start != 6 {
		t.Errorf("%+v, %v", r.Bounds(), err)
	}
	if got := fmt.Sprint(offsets(t, r, 6)); got != "[4 8]" {
		t.Errorf("read %s", got)
	}
	if err := r.AdvanceStart(13); errcode.Of(err) != errcode.OffsetOutOfRange {
		t.Errorf("past the end: %v", err)
	}
	if err := r.AdvanceStart(12); err != nil || r.opts.Budget.Used() != 0 {
		t.Errorf("%d bytes left, %v", r.opts.Budget.Used(), err)
	}
}

// TestReadersBesideAppends lets readers follow a ring that is small: what they read is contiguous, or they are told to skip.
func TestReadersBesideAppends(t *testing.T) {
	r, pool := newTestRing(Options{Batches: 8})
	const n = 2000
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for at := ids.Offset(0); at < n; {
				chunks, _, err := r.Read(at, n, 4096, true, nil)
				var behind *errcode.RangeError
				if errors.As(err, &behind) {
					at = ids.Offset(behind.Start)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, c := range chunks {
					h, err := recordbatch.ParseHeader(c.Data)
					if err != nil || ids.Offset(h.BaseOffset) != at {
						t.Errorf("at %d: %+v, %v", at, h, err)
					}
					at = ids.Offset(h.NextOffset())
					c.Ref.Release()
				}
			}
		})
	}
	for range n {
		in, ref := batch(t, pool, 1, 100, 1000, nil)
		mustAppend(t, r, in, ref)
	}
	wg.Wait()
}

func BenchmarkAppend(b *testing.B) {
	r, pool := newTestRing(Options{})
	in, first := batch(b, pool, 1, 100, 1000, nil)
	raw := append([]byte(nil), in.Batch...)
	first.Release()
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		ref := pool.Get(len(raw))
		copy(ref.Bytes(), raw)
		in.Batch, in.Owner = ref.Bytes(), ref
		if _, err := r.Append(in); err != nil {
			b.Fatal(err)
		}
		ref.Release()
	}
}
