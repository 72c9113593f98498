package log

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReadersBesideEverything reads, looks up and estimates from several goroutines while one appends and others sync, delete, move the
// start and compact.
func TestReadersBesideEverything(t *testing.T) {
	for _, compact := range []bool{false, true} {
		e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) {
			c.SegmentBytes, c.RetentionBytes, c.Compact, c.Delete = 3000, 12000, compact, !compact
		}), func(e *env) { e.shared.Syncer = NewSyncer(SyncPeriodic, time.Millisecond, 2) },
			withShared(func(s *Shared) { s.Tail = NewTailCache(5000, s.Pool, nil) }))
		e.shared.Syncer.Start()
		l := e.open()
		var done atomic.Bool
		var wg sync.WaitGroup
		for g := range 3 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(g), 5))
				for !done.Load() {
					readSome(t, l, rnd, compact)
				}
			})
		}
		wg.Go(func() {
			for !done.Load() {
				if _, err := l.Maintain(t.Context()); err != nil {
					t.Errorf("maintain: %v", err)
				}
				if _, err := l.SyncNow(); err != nil {
					t.Errorf("sync: %v", err)
				}
				l.Producers(func(ProducerState) bool { return true })
			}
		})
		for i := range 3000 {
			in := keyed(t, recordbatch.BuilderOptions{Producer: &recordbatch.Producer{ID: int64(i % 5), BaseSequence: int32(i / 5)}}, int64(1000+i),
				fmt.Sprint("key", i%17), fmt.Sprint("value", i))
			in.Epoch = ids.LeaderEpoch(i / 500)
			if _, err := l.Append(in); err != nil {
				t.Errorf("append: %v", err)
				break
			}
			l.SetFloor(l.Bounds().End)
			if i%400 == 399 {
				if err := l.AdvanceStart(l.Bounds().Start + 3); err != nil {
					t.Errorf("advance: %v", err)
				}
			}
		}
		done.Store(true)
		wg.Wait()
		if err := l.Close(true); err != nil {
			t.Error(err)
		}
		e.shared.Syncer.Close()
	}
}

// readSome makes a few calls of a reader and checks what can be checked while everything moves.
func readSome(t *testing.T, l *Log, rnd *rand.Rand, gaps bool) {
	b := l.Bounds()
	if b.Start > b.End || b.DurableEnd > b.End {
		t.Errorf("%+v", b)
	}
	from := b.Start + ids.Offset(rnd.Int64N(int64(b.End-b.Start)+1))
	chunks, _, err := l.Read(from, b.End, 1+rnd.IntN(6000), true, nil)
	if err != nil {
		if errcode.Of(err) != errcode.OffsetOutOfRange {
			t.Errorf("read: %v", err)
		}
		return
	}
	next := int64(-1)
	for _, c := range chunks {
		for rest := c.Data; len(rest) > 0; {
			h, batch, tail, err := recordbatch.Next(rest)
			if err != nil || recordbatch.CheckCRC(batch) != nil {
				t.Errorf("read gives out damage: %v", err)
				return
			}
			if next >= 0 && h.BaseOffset != next && !(gaps && h.BaseOffset > next) {
				t.Errorf("batch at %d after one that ends at %d", h.BaseOffset, next)
			}
			next, rest = h.NextOffset(), tail
		}
		c.Ref.Release()
	}
	l.Available(from, b.End, 10_000)
	if _, _, err := l.OffsetForTime(1000+rnd.Int64N(3000), b.End); err != nil && errcode.Of(err) != errcode.OffsetOutOfRange {
		t.Errorf("look-up: %v", err)
	}
	l.EndOfEpoch(ids.LeaderEpoch(rnd.IntN(6)))
}

// TestSyncerClosesWithWorkLeft: what nobody came to sync is synced by the close of its log.
func TestSyncerClosesWithWorkLeft(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withMode(SyncOnCommit))
	l := e.open()
	mustAppend(t, l, spec{})
	l.RequestSync() // not started: it stays in the queue
	e.shared.Syncer.Close()
	e.shared.Syncer.Start() // too late
	if err := l.Close(true); err != nil {
		t.Fatal(err)
	}
}
