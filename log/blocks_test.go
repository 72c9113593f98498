package log

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// TestReadLimits reads with every combination of range and size from a log with small and large batches, and compares.
func TestReadLimits(t *testing.T) {
	for _, interval := range []int{1, 300, 100_000} {
		e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 3000, interval }))
		l := e.open()
		m := newModel()
		for i := range 24 {
			size := 30
			if i%5 == 0 {
				size = 1500
			}
			if err := m.append(l, spec{records: 1 + i%3, size: size / (1 + i%3)}.input(t)); err != nil {
				t.Fatal(err)
			}
		}
		for _, from := range m.batches {
			for _, limit := range m.batches {
				for _, maxBytes := range []int{0, 1, 120, 1600, 2000, 1 << 20} {
					for _, whole := range []bool{false, true} {
						compareRead(t, l, m, from.base, limit.next, maxBytes, whole)
					}
				}
			}
		}
	}
}

// compareRead compares one read with the model. A read may end early at the end of a piece, but never before the first batch.
func compareRead(t *testing.T, l *Log, m *model, from, limit ids.Offset, maxBytes int, whole bool) {
	t.Helper()
	chunks, n, err := l.Read(from, limit, maxBytes, whole, nil)
	if err != nil {
		t.Fatalf("from %d to %d, %d bytes: %v", from, limit, maxBytes, err)
	}
	var got, want []byte
	for _, c := range chunks {
		got = append(got, c.Data...)
		c.Ref.Release()
	}
	for _, b := range m.batches {
		if b.base < from {
			continue
		}
		if b.next > limit || len(want)+len(b.bytes) > maxBytes && (!whole || len(want) > 0) {
			break
		}
		want = append(want, b.bytes...)
	}
	if n != len(got) || !bytes.HasPrefix(want, got) || len(got) == 0 && len(want) > 0 {
		t.Fatalf("from %d to %d, %d bytes, first whole %v: got %d bytes (said %d), want %d", from, limit, maxBytes, whole, len(got), n, len(want))
	}
}

// TestReadStopsBeforeDamage gives out what is good before a damaged batch, and the damage to whoever comes to it.
func TestReadStopsBeforeDamage(t *testing.T) {
	for _, interval := range []int{1, 100_000} {
		for _, where := range []int{60, 5} { // in the records, in the header
			disk := vfs.NewMem()
			e := newEnv(t, disk, withConfig(func(c *Config) { c.IndexIntervalBytes = interval }))
			l := e.open()
			want := appendMany(t, l, 10)
			name := segmentFiles(t, disk)[0]
			b := readFile(t, disk, name)
			at := segmentHeaderBytes
			for _, batch := range want[:6] {
				at += len(batch)
			}
			b[at+where] ^= 1
			writeBack(t, disk, name, b)
			h, err := recordbatch.ParseHeader(want[6])
			if err != nil {
				t.Fatal(err)
			}
			got, err := readAll(l, 0, 1<<20)
			var d *DamageError
			if !errors.As(err, &d) || d.Position != int64(at) {
				t.Fatalf("interval %d: %v", interval, err)
			}
			wantBatches(t, got, want[:6])
			// What lies behind is readable for those who begin there, if the index leads there.
			if got, err := readAll(l, ids.Offset(h.NextOffset()), 1<<20); interval == 1 && (err != nil || len(got) != 3) {
				t.Errorf("behind the damage: %d batches, %v", len(got), err)
			}
		}
	}
}

// TestReadAfterTruncatedFile: a file that somebody cut is damage, not an end.
func TestReadAfterTruncatedFile(t *testing.T) {
	disk := vfs.NewMem()
	l := newEnv(t, disk).open()
	appendMany(t, l, 5)
	name := segmentFiles(t, disk)[0]
	writeBack(t, disk, name, readFile(t, disk, name)[:300])
	var d *DamageError
	if _, err := readAll(l, 0, 1<<20); !errors.As(err, &d) || d.Position != 300 {
		t.Errorf("%v", err)
	}
}

// TestReadErrors: an error of the disk is of kind StorageFailed and passes.
func TestReadErrors(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	l := newEnv(t, disk).open()
	want := appendMany(t, l, 5)
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpRead }, Nth: 1, Err: syscall.EIO})
	dst := []Chunk{{Data: []byte("mine")}}
	out, n, err := l.Read(0, 3, 1<<20, true, dst)
	if errcode.Of(err) != errcode.StorageFailed || n != 0 || len(out) != 1 || string(out[0].Data) != "mine" {
		t.Errorf("%v, %d bytes, %d chunks", err, n, len(out))
	}
	wantBatches(t, mustReadAll(t, l, 0), want)
}

// TestLargeBatches: batches larger than a piece of reading and of scanning.
func TestLargeBatches(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes = 64 << 20 }))
	l := e.open()
	var want [][]byte
	for i, size := range []int{100, readPiece + 1000, 50, 3 * scanBytes, scanBytes - 200, 10} {
		in := spec{size: size, timestamp: int64(1000 + i)}.input(t)
		if _, err := l.Append(in); err != nil {
			t.Fatal(err)
		}
		want = append(want, bytes.Clone(in.Batch))
	}
	for _, maxBytes := range []int{1, 1 << 20, 10 << 20} {
		got, err := readAll(l, 0, maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		wantBatches(t, got, want)
	}
	_, l = e.restart(l, false)
	wantBatches(t, mustReadAll(t, l, 0), want)
	if got, ok, err := l.OffsetForTime(1003, math.MaxInt64); !ok || err != nil || got.Offset != 3 {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
}

func TestAvailable(t *testing.T) {
	for _, tail := range []int64{-1, 1 << 20} {
		e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes = 2000 }), withShared(func(s *Shared) {
			s.Tail = NewTailCache(tail, s.Pool, nil)
		}))
		l := e.open()
		m := newModel()
		for range 30 {
			if err := m.append(l, spec{size: 100}.input(t)); err != nil {
				t.Fatal(err)
			}
		}
		size := len(m.batches[0].bytes)
		for from := range ids.Offset(31) {
			for limit := range ids.Offset(31) {
				n := l.Available(from, limit, 1<<30)
				exact := max(0, int(limit-from)) * size
				low, high := exact, exact
				if tail < 0 {
					high += 4 * 300 // a block on either side, and segment headers
				}
				if exact == 0 {
					high = 0
				}
				if n < low || n > high {
					t.Fatalf("tail %d, from %d to %d: %d bytes, want %d to %d", tail, from, limit, n, low, high)
				}
				if most := l.Available(from, limit, 70); most > 70 || most < min(exact, 70) {
					t.Fatalf("at most 70: %d", most)
				}
			}
		}
		if n := l.Available(0, 1<<40, 1<<30); n < 30*size {
			t.Errorf("a limit past the end: %d", n)
		}
		if err := l.AdvanceStart(5); err != nil {
			t.Fatal(err)
		}
		if n := l.Available(4, 30, 1<<30); n != 0 {
			t.Errorf("below the start: %d", n)
		}
	}
}

// TestIndexMemoryIsBounded: loaded indexes are dropped, the one loaded first goes first, and are loaded again.
func TestIndexMemoryIsBounded(t *testing.T) {
	var c loadedIndexes
	var all []*segment
	for i := range 5 {
		s := newSegment(ids.Offset(i))
		x := newIndex()
		prefix := make([]byte, headPrefix)
		for n := range int64(maxIndexMemory / entryMemory / 4) {
			h := recordbatch.Header{BaseOffset: n}
			x.add(n, segmentHeaderBytes+n*100, prefix, &h, 1)
		}
		c.add(s, x)
		c.add(s, newIndex()) // somebody was faster: of no effect
		all = append(all, s)
	}
	loaded := 0
	for _, s := range all {
		if s.idx.Load() != nil {
			loaded++
		}
	}
	if loaded == 0 || loaded > 4 || all[4].idx.Load() == nil || all[0].idx.Load() != nil || c.used > maxIndexMemory {
		t.Errorf("%d are loaded, %d bytes", loaded, c.used)
	}
	empty := newSegment(9)
	c.keep(empty) // has none
}

// TestIndexIsLoadedOnUse: after a restart, and again after it was dropped; a file that is gone is made anew.
func TestIndexIsLoadedOnUse(t *testing.T) {
	disk, want := twoSegments(t, false)
	l := newEnv(t, disk).open()
	first := l.view.Load().segments[0]
	if first.idx.Load() != nil {
		t.Error("the index of a sealed segment is in memory before anybody reads")
	}
	wantBatches(t, mustReadAll(t, l, 0), want)
	if first.idx.Load() == nil {
		t.Error("it is not kept")
	}
	first.idx.Store(nil)
	name := offsetName(testDir, first.base, indexSuffix)
	old := readFile(t, disk, name)
	if err := disk.Remove(name); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, mustReadAll(t, l, 0), want)
	if now := readFile(t, disk, name); !bytes.Equal(now, old) {
		t.Error("the rebuilt file differs")
	}
}

// TestSealWithoutSpace: a full disk leaves the index in memory, and it is written later.
func TestSealWithoutSpace(t *testing.T) {
	mem := vfs.NewMem()
	disk := vfs.NewFault(mem)
	e := newEnv(t, disk, withConfig(func(c *Config) { c.SegmentBytes = 700 }))
	l := e.open()
	want := appendMany(t, l, 4)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{producersSuffix, indexSuffix} {
		disk.Add(vfs.Rule{Match: func(op vfs.Op) bool {
			return op.Kind == vfs.OpWrite && len(op.Path) > len(suffix) && op.Path[len(op.Path)-len(suffix):] == suffix
		}, Err: syscall.ENOSPC})
		if err := l.sealPending(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: %v", suffix, err)
		}
		disk.Clear()
	}
	want = append(want, appendMany(t, l, 2)...)
	wantBatches(t, mustReadAll(t, l, 0), want)
	if n := len(l.seals); n == 0 {
		t.Fatal("nothing is left to seal")
	}
	if err := errors.Join(l.Sync(), l.sealPending()); err != nil {
		t.Fatal(err)
	}
	if n := len(l.seals); n != 0 {
		t.Errorf("%d segments are not sealed", n)
	}
	if err := errors.Join(l.Close(true), e.journal.Close()); err != nil {
		t.Fatal(err)
	}
	after := newEnv(t, mem).open()
	for _, s := range after.view.Load().segments[:len(after.view.Load().segments)-1] {
		if !s.sealed {
			t.Errorf("segment %d is not sealed", s.base)
		}
	}
}

// TestFailedSyncOfSeal: whatever is synced, a failure stops the log.
func TestFailedSyncOfSeal(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpSync, vfs.OpSyncDir} {
		disk := vfs.NewFault(vfs.NewMem())
		e := newEnv(t, disk, withConfig(func(c *Config) { c.SegmentBytes = 700 }))
		l := e.open()
		appendMany(t, l, 4)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == kind }, Nth: 1, Err: syscall.EIO})
		if err := l.sealPending(); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: %v", kind, err)
		}
		if _, err := l.Append(spec{}.input(t)); !errors.Is(err, ErrFailed) {
			t.Errorf("%v: the log goes on: %v", kind, err)
		}
		if last := e.durable[len(e.durable)-1]; !errors.Is(last.err, ErrFailed) {
			t.Errorf("%v: reported %+v", kind, last)
		}
	}
}

// TestSealLeavesTheTurn: the syncer does not wait for whoever has the turn.
func TestSealLeavesTheTurn(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes = 700 }))
	l := e.open()
	appendMany(t, l, 4)
	l.turn.Lock()
	l.syncInBackground()
	if len(l.seals) == 0 {
		t.Error("sealed without the turn")
	}
	l.turn.Unlock()
	if _, err := l.Maintain(t.Context()); err != nil || len(l.seals) != 0 {
		t.Errorf("%v, %d left", err, len(l.seals))
	}
}

// TestTwoSnapshotsAreKept: the newest, and one in case it is damaged.
func TestTwoSnapshotsAreKept(t *testing.T) {
	disk := vfs.NewMem()
	l := newEnv(t, disk).open()
	for i := range 6 {
		mustAppend(t, l, spec{producer: &recordbatch.Producer{ID: 1, BaseSequence: int32(i)}})
		roll(t, l)
	}
	var kept []string
	entries, err := disk.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		if _, ok := parseOffsetName(f.Name, producersSuffix); ok {
			kept = append(kept, f.Name)
		}
	}
	if want := fmt.Sprint([]string{"00000000000000000005.producers", "00000000000000000006.producers"}); fmt.Sprint(kept) != want {
		t.Errorf("kept %v", kept)
	}
}
