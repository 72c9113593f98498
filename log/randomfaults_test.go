package log

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/vfs"
)

// faultSim is a random life on a disk that fails now and then, in any call. A log that is stopped is started again, as an operator
// would; nothing that a call promised may be missing then.
type faultSim struct {
	t      *testing.T
	rnd    *rand.Rand
	mem    *vfs.Mem
	disk   *vfs.Fault
	mode   SyncMode
	e      *env
	l      *Log
	m      *model
	failed int // how often the log was stopped
	full   int // how often an append was refused
}

func TestSimWithFaults(t *testing.T) {
	seed := uint64(simNumber("FELIX_SIM_SEED", 1))
	steps := simNumber("FELIX_SIM_STEPS", 3000)
	stopped, full := 0, 0
	for run := range uint64(6) {
		s := &faultSim{t: t, rnd: rand.New(rand.NewPCG(seed, 200+run)), mem: vfs.NewMem(), m: newModel()}
		s.mode = SyncMode(run % 3)
		s.start()
		for i := range steps / 6 {
			if err := s.step(); err != nil {
				t.Fatalf("seed %d, run %d, step %d, failed calls %v: %v", seed, run, i, s.disk.Fired(), err)
			}
		}
		stopped, full = stopped+s.failed, full+s.full
	}
	if stopped == 0 || full == 0 {
		t.Errorf("%d logs were stopped, %d appends refused: the faults missed", stopped, full)
	}
}

// start opens the log on a disk that is well.
func (s *faultSim) start() {
	s.disk = vfs.NewFault(s.mem)
	s.e = newEnv(s.t, s.disk, withMode(s.mode), withConfig(func(c *Config) { c.SegmentBytes, c.RetentionBytes = 1500, 6000 }))
	s.l = s.e.open()
}

// spoil has one of the next calls fail.
func (s *faultSim) spoil() {
	kinds := []vfs.OpKind{
		vfs.OpWrite, vfs.OpWrite, vfs.OpOpen, vfs.OpDatasync, vfs.OpSync, vfs.OpSyncDir, vfs.OpRemove, vfs.OpTruncate, vfs.OpRead, vfs.OpReadDir,
	}
	kind := kinds[s.rnd.IntN(len(kinds))]
	err := []error{syscall.EIO, syscall.ENOSPC}[s.rnd.IntN(2)]
	s.disk.Clear()
	s.disk.Add(vfs.Rule{
		Match: func(op vfs.Op) bool { return op.Kind == kind }, Nth: 1 + s.rnd.Int64N(4), Err: err, ShortWrite: s.rnd.IntN(2) == 0,
	})
}

func (s *faultSim) step() error {
	switch n := s.rnd.IntN(100); {
	case n < 12:
		s.spoil()
	case n < 70:
		end := s.m.end
		err := s.m.append(s.l, spec{records: 1 + s.rnd.IntN(3), size: 8 + s.rnd.IntN(300), epoch: max(0, s.l.Bounds().Epoch)}.input(s.t))
		if err != nil {
			return err
		}
		if s.m.end == end && !s.l.hasFailed() {
			s.full++
		}
	case n < 80:
		s.m.sync(s.l)
		s.l.syncInBackground()
	case n < 86:
		s.l.SetFloor(s.m.end)
		s.m.maintain(s.t.Context(), s.l)
	case n < 90:
		if k := len(s.m.batches); k > 0 {
			s.m.advance(s.l, max(s.m.batches[s.rnd.IntN(k)].base, s.m.start))
		}
	case n < 94:
		if k := len(s.m.batches); k > 1 && s.m.batches[k-2].base >= s.m.startMax {
			s.m.truncate(s.l, s.m.batches[k-2].base)
		}
	case n < 97:
		return s.restart(false)
	default:
		return s.restart(true)
	}
	if s.l.hasFailed() {
		s.failed++
		if _, err := s.l.Append(spec{}.input(s.t)); errcode.Of(err) != errcode.StorageFailed {
			return fmt.Errorf("a stopped log appends: %w", err)
		}
		return s.restart(s.rnd.IntN(2) == 0)
	}
	if s.m.cutTo >= 0 { // refused before anything was cut
		s.m.cutTo = -1
	}
	return s.m.check(s.l, s.m.end)
}

// restart ends the process, or the machine, and begins again on what is left.
func (s *faultSim) restart(crash bool) error {
	_ = s.l.Close(s.rnd.IntN(2) == 0)
	lost := s.m.end
	if crash {
		s.mem, lost = s.mem.CrashImage(s.rnd), s.m.synced
	} else {
		s.mem = s.mem.ProcessKillImage()
	}
	s.start()
	if err := s.m.check(s.l, lost); err != nil {
		return fmt.Errorf("after a restart, crash %v: %w", crash, err)
	}
	b := s.l.Bounds()
	s.m.cut(b.End)
	s.m.end = min(s.m.end, b.End)
	s.m.start = max(s.m.start, min(b.Start, s.m.startMax))
	s.m.startMax = max(s.m.start, b.Start)
	s.m.synced = min(s.m.synced, b.End)
	return nil
}
