package log

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// keySim is a random life of a compacted log: appends of keyed records and tombstones, compaction, retention by start, truncation,
// restarts and crashes, against the list of everything that was written.
type keySim struct {
	t    *testing.T
	rnd  *rand.Rand
	disk *vfs.Mem
	e    *env
	l    *Log
	h    history
	// clean is the end of what may have been compacted: records above it are all there.
	clean  int64
	synced int64
	start  int64
	now    time.Time
}

func TestSimCompacted(t *testing.T) {
	seed := uint64(simNumber("FELIX_SIM_SEED", 1))
	steps := simNumber("FELIX_SIM_STEPS", 1500)
	for run := range uint64(4) {
		s := &keySim{t: t, rnd: rand.New(rand.NewPCG(seed, 100+run)), disk: vfs.NewMem(), now: time.UnixMilli(1_700_000_000_000)}
		s.open()
		for i := range steps / 4 {
			if err := s.step(); err != nil {
				t.Fatalf("seed %d, run %d, step %d: %v", seed, run, i, err)
			}
		}
		if err := s.l.Close(true); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *keySim) open() {
	s.e = newEnv(s.t, s.disk, withConfig(compacting), withConfig(func(c *Config) { c.MinCleanableRatio = s.rnd.Float64() / 2 }),
		func(e *env) { e.now = s.now })
	s.l = s.e.open()
}

func (s *keySim) step() error {
	switch n := s.rnd.IntN(100); {
	case n < 60:
		return s.append()
	case n < 70:
		if end, err := s.l.SyncNow(); err == nil {
			s.synced = int64(end)
		}
		s.l.syncInBackground()
		return nil
	case n < 84:
		s.l.SetFloor(ids.Offset(s.synced))
		s.clean = max(s.clean, s.synced)
		if _, err := s.l.Maintain(s.t.Context()); err != nil {
			return err
		}
	case n < 87:
		to := s.start + s.rnd.Int64N(int64(s.l.Bounds().End)-s.start+1)/4
		if err := s.l.AdvanceStart(ids.Offset(to)); err != nil {
			return err
		}
		s.start = to
		s.synced = max(s.synced, to)
	case n < 90:
		s.now = s.now.Add(30 * time.Minute)
		s.e.now = s.now
		return nil
	case n < 96:
		if err := s.l.Close(s.rnd.IntN(2) == 0); err != nil {
			return err
		}
		if err := s.e.journal.Close(); err != nil {
			return err
		}
		s.open()
	default:
		_ = s.l.Close(false)
		s.disk = s.disk.CrashImage(s.rnd)
		s.open()
		end := int64(s.l.Bounds().End)
		if end < s.synced {
			return fmt.Errorf("log ends at %d, synced to %d", end, s.synced)
		}
		s.h.all = s.h.all[:min(end, int64(len(s.h.all)))]
	}
	return s.check()
}

func (s *keySim) append() error {
	end := int64(len(s.h.all))
	if got := int64(s.l.Bounds().End); got != end {
		return fmt.Errorf("log ends at %d, want %d", got, end)
	}
	var pairs []string
	for i := range 1 + s.rnd.Int64N(4) {
		k, v := fmt.Sprint("key", s.rnd.IntN(12)), strings.Repeat(fmt.Sprint(end+i, "."), 1+s.rnd.IntN(15))
		if s.rnd.IntN(5) == 0 {
			v = ""
		}
		pairs = append(pairs, k, v)
		s.h.all = append(s.h.all, kept{end + i, 1000 + i, k, v, v == ""})
	}
	in := keyed(s.t, recordbatch.BuilderOptions{Codec: recordbatch.Codec(s.rnd.IntN(5))}, 1000, pairs...)
	in.Epoch = max(0, s.l.Bounds().Epoch) + ids.LeaderEpoch(s.rnd.IntN(30)/29)
	_, err := s.l.Append(in)
	return err
}

// check reads everything and compares: what is read was written, in order; and what no newer record replaced is there.
func (s *keySim) check() error {
	b := s.l.Bounds()
	if int64(b.Start) != s.start {
		return fmt.Errorf("log starts at %d, want %d", b.Start, s.start)
	}
	got, err := records(s.l, b.Start, 1+s.rnd.IntN(3000))
	if err != nil {
		return err
	}
	newest := map[string]int64{}
	for _, r := range s.h.all {
		newest[r.Key] = r.Offset
	}
	i := 0
	for i < len(got) && got[i].Offset < s.start {
		i++ // of the batch that the start lies in
	}
	for _, want := range s.h.all {
		if want.Offset < s.start {
			continue
		}
		if i < len(got) && got[i].Offset == want.Offset {
			if got[i] != want {
				return fmt.Errorf("record %+v, was %+v", got[i], want)
			}
			i++
			continue
		}
		if want.Offset >= s.clean || newest[want.Key] == want.Offset && !want.Null {
			return fmt.Errorf("record %+v is missing (clean up to %d)", want, s.clean)
		}
	}
	if i != len(got) {
		return fmt.Errorf("record %+v was never written, or out of order", got[i])
	}
	return nil
}

// TestReadersBesideTruncation reads below the high watermark while the log is cut back to it and written again, over and over.
func TestReadersBesideTruncation(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes = 1500 }), withShared(func(s *Shared) {
		s.Tail = NewTailCache(3000, s.Pool, nil)
	}))
	l := e.open()
	m := newModel()
	for range 20 {
		if err := m.append(l, spec{size: 100}.input(t)); err != nil {
			t.Fatal(err)
		}
	}
	mark := m.end
	var done atomic.Bool
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for !done.Load() {
				from := ids.Offset(rnd.Int64N(int64(mark)))
				chunks, n, err := l.Read(from, mark, 1+rnd.IntN(3000), true, nil)
				if err != nil || n == 0 {
					t.Errorf("from %d: %d bytes, %v", from, n, err)
					return
				}
				h, err := recordbatch.ParseHeader(chunks[0].Data)
				if err != nil || ids.Offset(h.BaseOffset) != from {
					t.Errorf("from %d: batch at %d, %v", from, h.BaseOffset, err)
				}
				for _, c := range chunks {
					c.Ref.Release()
				}
			}
		})
	}
	for i := range 60 {
		for range 1 + i%12 {
			mustAppend(t, l, spec{size: 100 + i, epoch: ids.LeaderEpoch(i)})
		}
		if err := l.TruncateTo(mark); err != nil {
			t.Error(err)
			break
		}
	}
	done.Store(true)
	wg.Wait()
	if err := m.check(l, mark); err != nil {
		t.Error(err)
	}
	if _, _, err := l.Read(mark+1, mark+2, 10, true, nil); errcode.Of(err) != errcode.OffsetOutOfRange {
		t.Errorf("reading what was cut: %v", err)
	}
}

// TestRollByOffsets: positions in the index are 32 bits, so a segment ends before its offsets do not fit.
func TestRollByOffsets(t *testing.T) {
	e := newEnv(t, vfs.NewMem())
	l := e.open()
	wide := func(span int32) AppendInput { // a batch that stands for many offsets, as compaction leaves them on a leader
		in := spec{}.input(t)
		h := in.Header
		h.LastOffsetDelta, h.BaseOffset = span-1, int64(l.Bounds().End)
		b := recordbatch.AppendHeader(nil, h)
		b = append(b, in.Batch[recordbatch.HeaderSize:]...)
		recordbatch.Recrc(b)
		return AppendInput{Batch: b, Header: h, Origin: OriginReplica}
	}
	for range 3 {
		if _, err := l.Append(wide(1 << 30)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.view.Load().segments); n != 2 {
		t.Errorf("%d segments", n)
	}
	_, l = e.restart(l, true)
	for _, at := range []ids.Offset{0, 1 << 30, 2 << 30, 3<<30 - 1} {
		got := mustReadAll(t, l, at)
		h, err := recordbatch.ParseHeader(got[0])
		if err != nil || ids.Offset(h.BaseOffset) != at&^(1<<30-1) {
			t.Errorf("at %d: batch at %d, %v", at, h.BaseOffset, err)
		}
	}
}
