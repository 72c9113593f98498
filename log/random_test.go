package log

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// simNumber reads a number that make sim sets.
func simNumber(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestSimAgainstModel takes random steps and compares the log with a plain list after each of them.
func TestSimAgainstModel(t *testing.T) {
	seed := uint64(simNumber("FELIX_SIM_SEED", 1))
	steps := simNumber("FELIX_SIM_STEPS", 4000)
	for run := range uint64(6) {
		s := &sim{t: t, rnd: rand.New(rand.NewPCG(seed, run)), disk: vfs.NewMem(), m: newModel()}
		s.mode = SyncMode(s.rnd.IntN(3))
		s.tail = []int64{-1, 2000, 1 << 20}[s.rnd.IntN(3)]
		s.start()
		for i := range steps / 6 {
			if err := s.step(); err != nil {
				t.Fatalf("seed %d, run %d, step %d (%s): %v\nlast steps: %v", seed, run, i, s.last[len(s.last)-1], err, s.last)
			}
		}
		if err := s.l.Close(true); err != nil {
			t.Fatal(err)
		}
	}
}

type sim struct {
	t    *testing.T
	rnd  *rand.Rand
	disk *vfs.Mem
	mode SyncMode
	tail int64
	e    *env
	l    *Log
	m    *model
	last []string
}

func (s *sim) start() {
	s.e = newEnv(s.t, s.disk, withMode(s.mode), withConfig(func(c *Config) {
		c.SegmentBytes, c.RetentionBytes, c.IndexIntervalBytes = 2000, 9000, 1+s.rnd.IntN(600)
	}), withShared(func(sh *Shared) { sh.Tail = NewTailCache(s.tail, sh.Pool, nil) }))
	s.l = s.e.open()
}

func (s *sim) did(format string, args ...any) {
	if len(s.last) > 20 {
		s.last = s.last[1:]
	}
	s.last = append(s.last, fmt.Sprintf(format, args...))
}

func (s *sim) step() error {
	switch n := s.rnd.IntN(100); {
	case n < 60:
		return s.append()
	case n < 75:
		return s.read()
	case n < 80:
		s.did("sync")
		s.m.sync(s.l)
		s.l.syncInBackground()
	case n < 85:
		s.did("maintain")
		s.l.SetFloor(s.m.end - ids.Offset(s.rnd.IntN(3)))
		s.m.maintain(s.t.Context(), s.l)
	case n < 88:
		if len(s.m.batches) > 0 {
			to := s.m.batches[s.rnd.IntN(len(s.m.batches))].base
			s.did("advance to %d", to)
			s.m.advance(s.l, max(to, s.m.start))
		}
	case n < 92:
		if k := len(s.m.batches); k > 1 {
			to := s.m.batches[max(0, k-1-s.rnd.IntN(6))].base
			if to >= s.m.startMax {
				s.did("truncate to %d", to)
				s.m.truncate(s.l, to)
			}
		}
	case n < 96:
		return s.restart(s.rnd.IntN(2) == 0)
	default:
		return s.crash()
	}
	return s.m.check(s.l, s.m.end)
}

func (s *sim) append() error {
	in := spec{
		records: 1 + s.rnd.IntN(5), size: 8 + s.rnd.IntN(200), timestamp: 1 + s.rnd.Int64N(5000),
		epoch: s.l.Bounds().Epoch + ids.LeaderEpoch(s.rnd.IntN(20)/19),
		codec: recordbatch.Codec(s.rnd.IntN(5)),
	}
	in.epoch = max(0, in.epoch)
	s.did("append at %d, epoch %d", s.m.end, in.epoch)
	return s.m.append(s.l, in.input(s.t))
}

// read reads a random range and compares.
func (s *sim) read() error {
	b := s.l.Bounds()
	from := b.Start + ids.Offset(s.rnd.Int64N(int64(b.End-b.Start)+1))
	limit := b.End
	for _, mb := range s.m.batches {
		if mb.next > from && s.rnd.IntN(8) == 0 {
			limit = mb.next
			break
		}
	}
	maxBytes, whole := 1+s.rnd.IntN(4000), s.rnd.IntN(2) == 0
	s.did("read %d to %d, %d bytes, first whole %v", from, limit, maxBytes, whole)
	if n := s.l.Available(from, limit, 1<<30); n < 0 || (n == 0) != (from >= limit) {
		return fmt.Errorf("%d bytes available from %d to %d", n, from, limit)
	}
	chunks, n, err := s.l.Read(from, limit, maxBytes, whole, nil)
	if err != nil {
		return err
	}
	var got []byte
	for _, c := range chunks {
		got = append(got, c.Data...)
		c.Ref.Release()
	}
	var want []byte
	for _, mb := range s.m.batches {
		if mb.next <= from {
			continue
		}
		if mb.next > limit || len(want)+len(mb.bytes) > maxBytes && (!whole || len(want) > 0) {
			break
		}
		want = append(want, mb.bytes...)
	}
	if n != len(got) || string(got) != string(want[:min(len(want), len(got))]) {
		return fmt.Errorf("read %d bytes, said %d, that are not those of the model", len(got), n)
	}
	// A read may stop early at the end of a piece, but not before the first batch.
	if len(got) == 0 && len(want) > 0 {
		return fmt.Errorf("read nothing of %d bytes", len(want))
	}
	return nil
}

// restart opens the log again as the next process would.
func (s *sim) restart(clean bool) error {
	s.did("restart, clean %v", clean)
	if err := s.l.Close(clean); err != nil {
		return err
	}
	if err := s.e.journal.Close(); err != nil {
		return err
	}
	s.start()
	return s.m.check(s.l, s.m.end)
}

// crash stops the machine.
func (s *sim) crash() error {
	s.did("crash, synced to %d", s.m.synced)
	_ = s.l.Close(false)
	s.disk = s.disk.CrashImage(s.rnd)
	s.start()
	if err := s.m.check(s.l, s.m.synced); err != nil {
		return err
	}
	b := s.l.Bounds()
	s.m.cut(b.End)
	if s.m.end > b.End {
		s.m.end = b.End
	}
	s.m.startMax = max(s.m.start, b.Start)
	return nil
}
