package log

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

func isSync(op vfs.Op) bool { return op.Kind == vfs.OpDatasync || op.Kind == vfs.OpSync }

// logSync matches syncs of segment files.
func logSync(op vfs.Op) bool { return isSync(op) && path.Ext(op.Path) == segmentSuffix }

func TestSyncMovesTheDurableEnd(t *testing.T) {
	e := newEnv(t, vfs.NewMem())
	l := e.open()
	mustAppend(t, l, spec{records: 3})
	if b := l.Bounds(); b.DurableEnd != 0 {
		t.Errorf("durable before a sync: %+v", b)
	}
	if end, err := l.SyncNow(); err != nil || end != 3 {
		t.Errorf("SyncNow = %d, %v", end, err)
	}
	if b := l.Bounds(); b.DurableEnd != 3 {
		t.Errorf("%+v", b)
	}
	if len(e.durable) != 1 || e.durable[0] != (durableReport{3, nil}) {
		t.Errorf("reported %v", e.durable)
	}
	if got := e.journal.Get(testShard); got.Mark != 3 || got.MarkSegment != 0 || got.MarkBytes != l.Bounds().SizeBytes {
		t.Errorf("mark %+v", got)
	}
	if _, err := l.SyncNow(); err != nil || len(e.durable) != 1 {
		t.Errorf("a sync of nothing: %v, reported %v", err, e.durable)
	}
}

// TestFailedSyncStopsTheLog: whichever sync fails, no later append or sync succeeds, reads go on, and what a sync covered before is
// there after a crash.
func TestFailedSyncStopsTheLog(t *testing.T) {
	mem := vfs.NewMem()
	disk := vfs.NewFault(mem)
	e := newEnv(t, disk)
	l := e.open()
	first := spec{}.input(t)
	if _, err := l.Append(first); err != nil {
		t.Fatal(err)
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, spec{})
	disk.Add(vfs.Rule{Match: logSync, Nth: 1, Err: syscall.EIO})
	if _, err := l.SyncNow(); errcode.Of(err) != errcode.StorageFailed || !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("the failing sync: %v", err)
	}
	last := e.durable[len(e.durable)-1]
	if last.end != 1 || errcode.Of(last.err) != errcode.StorageFailed {
		t.Errorf("reported %+v", last)
	}
	// The disk is well again, which proves nothing.
	if _, err := l.SyncNow(); !errors.Is(err, ErrFailed) {
		t.Errorf("a later sync: %v", err)
	}
	if _, err := l.Append(spec{}.input(t)); !errors.Is(err, ErrFailed) || errcode.Of(err) != errcode.StorageFailed {
		t.Errorf("a later append: %v", err)
	}
	if err := l.AdvanceStart(2); !errors.Is(err, ErrFailed) {
		t.Errorf("a later start: %v", err)
	}
	if _, err := l.Maintain(t.Context()); !errors.Is(err, ErrFailed) {
		t.Errorf("a later pass: %v", err)
	}
	if err := l.TruncateTo(0); !errors.Is(err, ErrFailed) {
		t.Errorf("a later truncation: %v", err)
	}
	if b := l.Bounds(); b.DurableEnd != 1 || b.End != 2 {
		t.Errorf("%+v", b)
	}
	if got := mustReadAll(t, l, 0); len(got) != 2 {
		t.Errorf("%d batches can be read", len(got))
	}
	if err := l.Close(true); !errors.Is(err, ErrFailed) {
		t.Errorf("a clean close: %v", err)
	}
	l = newEnv(t, mem.CrashImage(rand.New(rand.NewPCG(1, 1)))).open()
	got := mustReadAll(t, l, 0)
	if len(got) == 0 {
		t.Fatal("a synced batch is lost")
	}
	wantBatches(t, got[:1], [][]byte{first.Batch})
}

// TestFailedWriteIsUndone: a full disk costs the publish and nothing else.
func TestFailedWriteIsUndone(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT} {
		mem := vfs.NewMem()
		disk := vfs.NewFault(mem)
		e := newEnv(t, disk, withConfig(func(c *Config) { c.SegmentBytes = 700 }))
		l := e.open()
		want := appendMany(t, l, 2)
		for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpOpen} {
			disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == kind && path.Ext(op.Path) == segmentSuffix }, Err: cause, ShortWrite: true})
			for range 3 { // the second one rolls, so the making of a segment fails too
				_, err := l.Append(spec{records: 2, size: 200}.input(t))
				if kind == vfs.OpOpen && err == nil {
					want = mustReadAll(t, l, 0)
					continue
				}
				if errcode.Of(err) != errcode.Overloaded || !errors.Is(err, ErrNothingWritten) || !errors.Is(err, cause) {
					t.Fatalf("%v of %v: %v", kind, cause, err)
				}
			}
			disk.Clear()
			wantBatches(t, mustReadAll(t, l, 0), want)
		}
		mustAppend(t, l, spec{records: 2, size: 200})
		want = mustReadAll(t, l, 0)
		if err := errors.Join(l.Close(true), e.journal.Close()); err != nil {
			t.Fatal(err)
		}
		wantBatches(t, mustReadAll(t, newEnv(t, mem.ProcessKillImage()).open(), 0), want)
	}
}

// TestWriteThatCannotBeUndone stops the log: what stands behind the last batch is not known.
func TestWriteThatCannotBeUndone(t *testing.T) {
	mem := vfs.NewMem()
	disk := vfs.NewFault(mem)
	l := newEnv(t, disk).open()
	want := appendMany(t, l, 2)
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpWrite || op.Kind == vfs.OpTruncate }, Err: syscall.EIO, ShortWrite: true})
	if _, err := l.Append(spec{size: 200}.input(t)); errcode.Of(err) != errcode.StorageFailed {
		t.Fatalf("%v", err)
	}
	disk.Clear()
	if _, err := l.Append(spec{}.input(t)); !errors.Is(err, ErrFailed) {
		t.Errorf("a later append: %v", err)
	}
	wantBatches(t, mustReadAll(t, newEnv(t, mem.ProcessKillImage()).open(), 0), want)
}

// TestGroupCommit: appends that come while a sync runs share the next one.
func TestGroupCommit(t *testing.T) {
	const producers = 16
	mem := vfs.NewMem()
	var syncs atomic.Int64
	gate := make(chan struct{})
	mem.SetHook(func(op vfs.Op) {
		if logSync(op) && syncs.Add(1) == 1 {
			<-gate // the first one takes until everybody has appended
		}
	})
	e := newEnv(t, mem, withMode(SyncOnCommit))
	l := e.open()
	var replica sync.Mutex // the owner's lock: one append at a time
	var appended atomic.Int64
	var wg sync.WaitGroup
	for range producers {
		in := spec{}.input(t)
		wg.Go(func() {
			replica.Lock()
			r, err := l.Append(in)
			replica.Unlock()
			if err != nil {
				t.Error(err)
			}
			if appended.Add(1) == producers {
				close(gate)
			}
			if end, err := l.SyncNow(); err != nil || end < r.Next {
				t.Errorf("synced to %d of %d: %v", end, r.Next, err)
			}
		})
	}
	wg.Wait()
	if n := syncs.Load(); n > 2 {
		t.Errorf("%d syncs for %d appends", n, producers)
	}
	if b := l.Bounds(); b.DurableEnd != producers {
		t.Errorf("%+v", b)
	}
	if len(l.sync.waiting) != 0 || l.sync.running {
		t.Errorf("%d wait, running %v", len(l.sync.waiting), l.sync.running)
	}
	if err := l.Close(true); err != nil {
		t.Fatal(err)
	}
}

// TestRequestSync: the syncer's goroutines do what is asked for, and report.
func TestRequestSync(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withMode(SyncOnCommit))
	reports := make(chan durableReport, 100)
	l, err := Open(Options{
		Shared: e.shared, Dir: testDir, Shard: testShard, Name: "n", Config: e.config,
		OnDurable: func(end ids.Offset, err error) { reports <- durableReport{end, err} },
	})
	if err != nil {
		t.Fatal(err)
	}
	e.shared.Syncer.Start()
	defer e.shared.Syncer.Close()
	for i := range ids.Offset(20) {
		mustAppend(t, l, spec{})
		l.RequestSync()
		for end := ids.Offset(-1); end <= i; {
			r := <-reports
			if r.err != nil {
				t.Fatal(r.err)
			}
			end = r.end
		}
	}
	if err := l.Close(true); err != nil {
		t.Fatal(err)
	}
	l.RequestSync() // of a closed log: nothing happens
}

// TestPeriodicSync syncs what is dirty after an interval, only that, and nothing once all is clean.
func TestPeriodicSync(t *testing.T) {
	mem := vfs.NewMem()
	synced := make(chan string, 1000)
	mem.SetHook(func(op vfs.Op) {
		if logSync(op) {
			synced <- op.Path
		}
	})
	e := newEnv(t, mem, func(e *env) { e.shared.Syncer = NewSyncer(SyncPeriodic, time.Millisecond, 3) })
	e.shared.Syncer.Start()
	var logs []*Log
	for i := range int32(10) {
		l := e.openAt(fmt.Sprint("data/shards/topic/", i), i)
		logs = append(logs, l)
	}
	for round := range 3 {
		for i := 0; i < len(logs); i += 2 {
			mustAppend(t, logs[i], spec{})
		}
		seen := map[string]bool{}
		for len(seen) < 5 {
			seen[<-synced] = true
		}
		for i := 1; i < len(logs); i += 2 {
			if name := fmt.Sprint("data/shards/topic/", i, "/00000000000000000000.log"); seen[name] {
				t.Errorf("round %d: %s is synced without an append", round, name)
			}
		}
	}
	e.shared.Syncer.Close()
	if s := e.shared.Syncer; len(s.dirty) != 0 && s.armed {
		t.Error("something is dirty without an append")
	}
	for i, l := range logs {
		if b := l.Bounds(); b.DurableEnd != b.End {
			t.Errorf("log %d: %+v", i, b)
		}
		if err := l.Close(true); err != nil {
			t.Error(err)
		}
	}
	e.shared.Syncer.Close() // twice is fine
}

// TestDirectoriesAreSyncedOnce: the directories above many logs cost one sync, not one each.
func TestDirectoriesAreSyncedOnce(t *testing.T) {
	mem := vfs.NewMem()
	e := newEnv(t, mem)
	dirs := map[string]int{}
	mem.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpSyncDir {
			dirs[op.Path]++
		}
	})
	var logs []*Log
	for i := range int32(10) {
		l := e.openAt(fmt.Sprint("data/shards/topic/", i), i)
		mustAppend(t, l, spec{})
		logs = append(logs, l)
	}
	for _, l := range logs {
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"data/shards/topic", "data/shards", "data"} {
		if dirs[dir] != 1 {
			t.Errorf("%s was synced %d times", dir, dirs[dir])
		}
	}
	for i := range logs {
		if dir := fmt.Sprint("data/shards/topic/", i); dirs[dir] != 1 {
			t.Errorf("%s was synced %d times", dir, dirs[dir])
		}
	}
}

// TestSyncSpansTruncation: a sync that began before a truncation does not speak of what was appended after it.
func TestSyncSpansTruncation(t *testing.T) {
	mem := vfs.NewMem()
	e := newEnv(t, mem, withMode(SyncOnCommit))
	l := e.open()
	mustAppend(t, l, spec{})
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, spec{records: 5})
	var once sync.Once
	mem.SetHook(func(op vfs.Op) {
		if !logSync(op) {
			return
		}
		once.Do(func() { // while the sync of the five runs
			mem.SetHook(nil)
			if err := l.TruncateTo(1); err != nil {
				t.Error(err)
			}
			mustAppend(t, l, spec{records: 2})
		})
	})
	st := &l.sync
	st.running = true
	if err := l.runSync(); err != nil {
		t.Fatal(err)
	}
	l.endSync()
	if b := l.Bounds(); b.End != 3 || b.DurableEnd > 1 {
		t.Errorf("%+v", b)
	}
	if end, err := l.SyncNow(); err != nil || end != 3 {
		t.Errorf("%d, %v", end, err)
	}
}

func TestSyncModeNames(t *testing.T) {
	for _, m := range []SyncMode{SyncNone, SyncPeriodic, SyncOnCommit} {
		if got, err := ParseSyncMode(m.String()); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseSyncMode("sometimes"); err == nil {
		t.Error("takes any word")
	}
	if SyncMode(9).String() != "unknown" {
		t.Error("names a mode that is none")
	}
}

// manyDirty makes more dirty logs than are synced one by one.
func manyDirty(t *testing.T, e *env) []*Log {
	t.Helper()
	var all []*Log
	for i := range int32(wholeFrom + 5) {
		l := e.openAt(fmt.Sprint("data/shards/topic/", i), i)
		mustAppend(t, l, spec{})
		all = append(all, l)
	}
	e.shared.Syncer.syncDirty() // the first time they are synced each by itself, and the file system is opened
	for _, l := range all {
		mustAppend(t, l, spec{})
	}
	return all
}

// TestManyLogsAreSyncedAsOne: thousands of dirty logs cost one sync of the file system, and survive like any.
func TestManyLogsAreSyncedAsOne(t *testing.T) {
	mem := vfs.NewMem()
	e := newEnv(t, mem)
	all := manyDirty(t, e)
	// One more that somebody syncs just then is left to him.
	busy := e.openAt("data/shards/topic/999", 999)
	mustAppend(t, busy, spec{})
	busy.sync.running = true
	var wholes, files int
	mem.SetHook(func(op vfs.Op) {
		switch {
		case op.Kind == vfs.OpSyncWhole:
			wholes++
		case logSync(op):
			files++
		}
	})
	e.shared.Syncer.syncDirty()
	mem.SetHook(nil)
	if wholes != 1 || files != 0 {
		t.Errorf("%d syncs of everything, %d of files", wholes, files)
	}
	if !busy.sync.again {
		t.Error("the busy log is not synced again")
	}
	busy.sync.running = false
	if err := e.journal.WriteMarks(); err != nil {
		t.Fatal(err)
	}
	image := mem.CrashImage(rand.New(rand.NewPCG(8, 8)))
	after := newEnv(t, image)
	for i, l := range all {
		if b := l.Bounds(); b.DurableEnd != 2 {
			t.Errorf("log %d: %+v", i, b)
		}
		l := after.openAt(fmt.Sprint("data/shards/topic/", i), int32(i))
		if got := mustReadAll(t, l, 0); len(got) != 2 {
			t.Errorf("log %d: %d batches after a crash", i, len(got))
		}
	}
	e.shared.Syncer.Close()
}

// TestFailedSyncOfEverything: each log is asked for itself then. Those without an error go on, those with one stop.
func TestFailedSyncOfEverything(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	e := newEnv(t, disk)
	all := manyDirty(t, e)
	bad := "data/shards/topic/7/00000000000000000000.log"
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpSyncWhole }, Nth: 1, Err: syscall.EIO})
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return logSync(op) && op.Path == bad }, Err: syscall.EIO})
	e.shared.Syncer.syncDirty()
	for i, l := range all {
		_, err := l.Append(spec{}.input(t))
		if (i == 7) != errors.Is(err, ErrFailed) {
			t.Errorf("log %d: %v", i, err)
		}
		if b := l.Bounds(); (i == 7) != (b.DurableEnd != 2) {
			t.Errorf("log %d: %+v", i, b)
		}
		if l.sync.running {
			t.Errorf("log %d: somebody still syncs", i)
		}
	}
}

// TestNoSyncOfEverything: where there is no such call, logs are synced one by one.
func TestNoSyncOfEverything(t *testing.T) {
	e := newEnv(t, &countingFS{FS: vfs.NewMem()})
	all := manyDirty(t, e)
	e.shared.Syncer.syncDirty()
	for i, l := range all {
		if b := l.Bounds(); b.DurableEnd != 2 {
			t.Errorf("log %d: %+v", i, b)
		}
	}
	if e.shared.Syncer.whole != nil || !e.shared.Syncer.noWhole {
		t.Error("something was opened")
	}
}

// TestUndoneWriteIsSynced: a partial batch that was cut off does not come back behind a roll, where it would be damage in the middle.
func TestUndoneWriteIsSynced(t *testing.T) {
	for seed := range uint64(40) {
		mem := vfs.NewMem()
		disk := vfs.NewFault(mem)
		e := newEnv(t, disk)
		l := e.open()
		want := appendMany(t, l, 2)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpWrite }, Nth: 1, Err: syscall.ENOSPC, ShortWrite: true})
		if _, err := l.Append(spec{size: 4000}.input(t)); errcode.Of(err) != errcode.Overloaded {
			t.Fatal(err)
		}
		roll(t, l)
		want = append(want, appendMany(t, l, 2)...)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		after := newEnv(t, mem.CrashImage(rand.New(rand.NewPCG(9, seed)))).open()
		wantBatches(t, mustReadAll(t, after, 0), want)
	}
}
