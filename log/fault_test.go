package log

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// script is a life of a log: appends, rolls, syncs, seals, retention, a moved start, a truncation, a clean close and a new start. It
// stops with an error only where the log broke a promise; calls that a faulty disk makes fail go into the model.
func script(t testing.TB, fs vfs.FS, m *model, mode SyncMode) error {
	setups := []setup{withMode(mode), withConfig(func(c *Config) { c.SegmentBytes, c.RetentionBytes = 700, 1500 })}
	for life := range 2 {
		e, _ := tryEnv(t, fs, setups...)
		if e == nil {
			return nil // the journal cannot be opened: nothing was promised
		}
		l, err := e.tryOpen()
		if err != nil {
			if k := errcode.Of(err); k != errcode.StorageFailed {
				return fmt.Errorf("open fails with kind %v: %w", k, err)
			}
			continue
		}
		if err := m.check(l, m.end); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		if life > 0 || m.cutTo >= 0 {
			m.cut(l.Bounds().End) // what a truncation left is known now
			m.end = l.Bounds().End
		}
		if err := live(t, e, l, m); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		if err := e.journal.Close(); err != nil && !injected(err) {
			return err
		}
	}
	return nil
}

func live(t testing.TB, e *env, l *Log, m *model) error {
	sequence := int32(m.end)
	appendSome := func(n int) error {
		for i := range n {
			in := spec{
				records: 1 + i%2, size: 60, timestamp: int64(1000 + i), epoch: ids.LeaderEpoch(int(m.end) / 16),
				producer: &recordbatch.Producer{ID: 5, Epoch: int16(m.end / 8), BaseSequence: 0},
			}.input(t)
			in.Origin = OriginReplica // sequences are judged elsewhere
			in.Header.BaseOffset = int64(m.end)
			sequence += in.Header.RecordCount
			if err := m.append(l, in); err != nil {
				return err
			}
			if i%3 == 2 {
				m.sync(l)
			}
		}
		return nil
	}
	if err := appendSome(9); err != nil {
		return err
	}
	l.syncInBackground()
	l.SetFloor(l.Bounds().End)
	m.maintain(t.Context(), l)
	if err := appendSome(5); err != nil {
		return err
	}
	if n := len(m.batches); n > 2 {
		m.advance(l, m.batches[n-2].base)
	}
	if n := len(m.batches); n > 1 && m.batches[n-1].base >= m.startMax {
		m.truncate(l, m.batches[n-1].base)
	}
	if m.cutTo < 0 {
		if err := appendSome(3); err != nil {
			return err
		}
	}
	m.maintain(t.Context(), l)
	if !l.hasFailed() || m.cutTo < 0 {
		if err := m.check(l, m.end); err != nil {
			return fmt.Errorf("before the close: %w", err)
		}
	}
	if err := l.Close(true); err == nil {
		m.synced = m.end
	}
	return nil
}

// TestEveryIOFaultOnce fails each call to the file system once in turn, in three ways. Whatever fails, nothing that an append
// accepted is lost to the next process, and what a sync covered survives a crash of the machine; the log goes on or is stopped.
func TestEveryIOFaultOnce(t *testing.T) {
	for _, mode := range []SyncMode{SyncNone, SyncPeriodic, SyncOnCommit} {
		t.Run(mode.String(), func(t *testing.T) {
			probe := vfs.NewFault(vfs.NewMem())
			if err := script(t, probe, newModel(), mode); err != nil {
				t.Fatal(err)
			}
			calls := probe.Calls()
			if calls < 100 {
				t.Fatalf("the script makes only %d calls", calls)
			}
			rules := []vfs.Rule{{Err: syscall.EIO}}
			if mode == SyncPeriodic { // the other ways to fail do not depend on the mode
				rules = append(rules, vfs.Rule{Err: syscall.ENOSPC, ShortWrite: true, Match: takesSpace}, vfs.Rule{Err: syscall.EIO, Sticky: true})
			}
			for _, rule := range rules {
				for n := int64(1); n <= calls; n++ {
					rule.Nth = n
					if !failOnce(t, mode, rule) {
						break
					}
				}
			}
		})
	}
}

// takesSpace matches the calls that a full disk makes fail.
func takesSpace(op vfs.Op) bool {
	switch op.Kind {
	case vfs.OpOpen, vfs.OpMkdirAll, vfs.OpWrite, vfs.OpRename, vfs.OpPreallocate:
		return true
	default:
		return false
	}
}

// failOnce runs the script on a disk with one rule. It reports false when the rule did not come to anything.
func failOnce(t *testing.T, mode SyncMode, rule vfs.Rule) bool {
	t.Helper()
	mem := vfs.NewMem()
	faulty := vfs.NewFault(mem, rule)
	m := newModel()
	err := script(t, faulty, m, mode)
	where := func() string {
		return fmt.Sprintf("call %d (%v), %v, sticky %v", rule.Nth, faulty.Fired(), rule.Err, rule.Sticky)
	}
	if err != nil {
		t.Fatalf("%s: %v", where(), err)
	}
	if len(faulty.Fired()) == 0 {
		return false
	}
	e := newEnv(t, mem.ProcessKillImage())
	l := e.open()
	if err := m.check(l, m.end); err != nil {
		t.Fatalf("%s: after a restart: %v", where(), err)
	}
	if _, err := l.Append(spec{epoch: 1 << 20}.input(t)); err != nil {
		t.Fatalf("%s: append after a restart: %v", where(), err)
	}
	if err := l.Close(true); err != nil {
		t.Fatalf("%s: close after a restart: %v", where(), err)
	}
	return true
}
