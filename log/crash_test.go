package log

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

// moment is a disk and what must be found on it.
type moment struct {
	op    vfs.Op
	disk  *vfs.Mem
	model *model
	lost  ids.Offset // what lies above may be gone
}

// TestCrashAfterEveryCall stops the machine, and the process, after every call that changes the disk. After a crash of the machine
// everything that a sync covered is there; after one of the process everything that was appended. Nothing is there that was not
// written, and recovery may itself be interrupted.
func TestCrashAfterEveryCall(t *testing.T) {
	for _, mode := range []SyncMode{SyncNone, SyncPeriodic, SyncOnCommit} {
		t.Run(mode.String(), func(t *testing.T) {
			disk := vfs.NewMem()
			m := newModel()
			var moments []moment
			seed := uint64(0)
			disk.SetHook(func(op vfs.Op) {
				at := m.clone()
				moments = append(moments, moment{op, disk.ProcessKillImage(), at, at.end})
				for range 4 {
					seed++
					moments = append(moments, moment{op, disk.CrashImage(rand.New(rand.NewPCG(1, seed))), at, at.synced})
				}
			})
			if err := script(t, disk, m, mode); err != nil {
				t.Fatal(err)
			}
			disk.SetHook(nil)
			if len(moments) < 500 {
				t.Fatalf("only %d moments", len(moments))
			}
			for i := range moments {
				if err := recoverFrom(t, &moments[i], mode, i%7 == 0); err != nil {
					t.Fatalf("moment %d, after %v %s at %d, lost from %d on: %v", i, moments[i].op.Kind, moments[i].op.Path, moments[i].op.Off, moments[i].lost, err)
				}
			}
		})
	}
}

// recoverFrom opens a log over what a crash left, twice, and appends.
func recoverFrom(t *testing.T, at *moment, mode SyncMode, again bool) error {
	t.Helper()
	if again {
		if err := interruptRecovery(t, at, mode); err != nil {
			return err
		}
	}
	e, err := tryEnv(t, at.disk, withMode(mode))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	l, err := e.tryOpen()
	if err != nil {
		return err
	}
	if err := at.model.check(l, at.lost); err != nil {
		return err
	}
	m := at.model.clone()
	b := l.Bounds()
	m.cut(b.End)
	m.startMax = max(m.startMax, b.Start)
	if m.end != b.End { // the batch that was under way has made it
		got, err := readAll(l, m.end, 1<<20)
		if err != nil || len(got) != 1 {
			return fmt.Errorf("%d batches from %d on: %w", len(got), m.end, err)
		}
		m.batches = append(m.batches, modelBatch{m.end, b.End, got[0]})
		m.end = b.End
	}
	m.pending = nil
	if err := m.append(l, spec{epoch: 1 << 20, size: 50}.input(t)); err != nil {
		return err
	}
	m.sync(l)
	if m.synced != m.end {
		return fmt.Errorf("synced to %d of %d", m.synced, m.end)
	}
	if err := e.journal.Close(); err != nil {
		return err
	}
	crashed := at.disk.CrashImage(rand.New(rand.NewPCG(2, uint64(b.End))))
	l, err = newEnv(t, crashed, withMode(mode)).tryOpen()
	if err != nil {
		return fmt.Errorf("after an append and another crash: %w", err)
	}
	return m.check(l, m.end)
}

// interruptRecovery crashes after every call that recovery makes, and recovers from that.
func interruptRecovery(t *testing.T, at *moment, mode SyncMode) error {
	t.Helper()
	work := at.disk.ProcessKillImage()
	var inner []*vfs.Mem
	seed := uint64(0)
	work.SetHook(func(vfs.Op) {
		seed++
		inner = append(inner, work.ProcessKillImage(), work.CrashImage(rand.New(rand.NewPCG(3, seed))))
	})
	e, err := tryEnv(t, work, withMode(mode))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if _, err = e.tryOpen(); err != nil {
		return err
	}
	work.SetHook(nil)
	for i, disk := range inner {
		e, err := tryEnv(t, disk, withMode(mode))
		if err != nil {
			return fmt.Errorf("journal after an interrupted recovery: %w", err)
		}
		l, err := e.tryOpen()
		if err != nil {
			return fmt.Errorf("after an interrupted recovery (%d): %w", i, err)
		}
		lost := at.lost
		if i%2 == 1 { // a crash of the machine, after one of the process perhaps
			lost = at.model.synced
		}
		if err := at.model.check(l, lost); err != nil {
			return fmt.Errorf("after an interrupted recovery (%d): %w", i, err)
		}
	}
	return nil
}
