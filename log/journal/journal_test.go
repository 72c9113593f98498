package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "data/journal"

func shard(n int) ids.ShardID {
	return ids.ShardID{Topic: ids.TopicID{byte(n % 3), 1}, Partition: int32(n)}
}

func newDisk(t testing.TB) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	if err := errors.Join(disk.MkdirAll("data", 0o755), disk.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	return disk
}

func open(t testing.TB, fs vfs.FS, opts Options) *Journal {
	t.Helper()
	j, err := Open(fs, dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func newest(t testing.TB, fs vfs.FS) string {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/" + entries[len(entries)-1].Name
}

func write(t testing.TB, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestEverythingIsRemembered(t *testing.T) {
	disk := newDisk(t)
	j := open(t, disk, Options{})
	if !j.Fresh() || j.TakeClean() {
		t.Error("a new journal is not fresh, or clean")
	}
	if diff := cmp.Diff(Entry{PromiseEpoch: -1, MarkKnown: true}, j.Get(shard(1))); diff != "" {
		t.Errorf("an absent entry (-want +got):\n%s", diff)
	}
	j.SetMark(shard(1), Mark{End: 100, Segment: 50, Bytes: 4000, Headers: 7})
	j.RaiseStart(shard(1), 10)
	err := errors.Join(
		j.SetStart(shard(2), 33), j.SetFloor(shard(2), 44), j.SetPromise(shard(3), 5, "node-a"), j.SetPromise(shard(3), 6, "node-b"),
		j.RewindMark(shard(4), Mark{End: 9, Segment: 0, Bytes: 99, Headers: 1}), j.SetStart(shard(6), 1), j.Forget(shard(6).Topic),
	)
	if err != nil {
		t.Fatal(err)
	}
	// Shards 3 and 6 are of the topic that was forgotten.
	want := map[int]Entry{
		1: {Mark: 100, MarkSegment: 50, MarkBytes: 4000, MarkHeaders: 7, MarkKnown: true, Start: 10, PromiseEpoch: -1},
		2: {MarkKnown: true, Start: 33, Floor: 44, PromiseEpoch: -1},
		3: {MarkKnown: true, PromiseEpoch: -1},
		4: {Mark: 9, MarkBytes: 99, MarkHeaders: 1, MarkKnown: true, PromiseEpoch: -1},
		6: {MarkKnown: true, PromiseEpoch: -1},
	}
	check := func(when string, get func(ids.ShardID) Entry) {
		t.Helper()
		for n, e := range want {
			if diff := cmp.Diff(e, get(shard(n))); diff != "" {
				t.Errorf("%s: shard %d (-want +got):\n%s", when, n, diff)
			}
		}
	}
	check("first", j.Get)
	if err := j.SetPromise(shard(3), 7, "node-c"); err != nil {
		t.Fatal(err)
	}
	want[3] = Entry{MarkKnown: true, PromiseEpoch: 7, PromiseLeader: "node-c"}
	for round := range 3 {
		if err := errors.Join(j.Close(), j.Close()); err != nil {
			t.Fatal(err)
		}
		view, err := Load(disk, dir)
		if err != nil || !view.Found || view.Cut != 0 || view.Clean {
			t.Fatalf("%+v, %v", view, err)
		}
		check("loaded", view.Get)
		j = open(t, disk, Options{})
		check(fmt.Sprint("round ", round), j.Get)
		if j.Fresh() {
			t.Error("an old journal is fresh")
		}
		j.mu.Lock()
		j.busy = true
		j.mu.Unlock()
		if err := j.checkpoint(); err != nil {
			t.Fatal(err)
		}
		j.mu.Lock()
		j.busy = false
		j.mu.Unlock()
		check("after a checkpoint", j.Get)
	}
	if err := j.SetPromise(shard(1), 1, ids.NodeID(strings.Repeat("x", 256))); errcode.Of(err) != errcode.InvalidRequest {
		t.Errorf("a node id that is too long: %v", err)
	}
}

func TestClean(t *testing.T) {
	disk := newDisk(t)
	j := open(t, disk, Options{})
	j.SetMark(shard(1), Mark{End: 5})
	if err := errors.Join(j.SetClean(), j.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // looking takes nothing
		if v, err := Load(disk, dir); err != nil || !v.Clean {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	j = open(t, disk, Options{})
	if !j.TakeClean() {
		t.Error("a clean stop is not known")
	}
	if j.TakeClean() {
		t.Error("it can be taken twice")
	}
	if e := j.Get(shard(1)); e.Mark != 5 {
		t.Errorf("%+v", e)
	}
	crashed := open(t, disk.CrashImage(rand.New(rand.NewPCG(1, 1))), Options{})
	if crashed.TakeClean() {
		t.Error("a crash after a clean start reads as clean")
	}
	if err := errors.Join(j.SetClean(), j.SetFloor(shard(2), 3), j.Close()); err != nil {
		t.Fatal(err)
	}
	if open(t, disk, Options{}).TakeClean() {
		t.Error("a change after the clean stop leaves it clean")
	}
}

// TestMarksAreLazy: marks outlive the process once written, and cost no sync.
func TestMarksAreLazy(t *testing.T) {
	disk := newDisk(t)
	j := open(t, disk, Options{})
	syncs := 0
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpDatasync || op.Kind == vfs.OpSync {
			syncs++
		}
	})
	for i := range 100 {
		j.SetMark(shard(i%10), Mark{End: ids.Offset(i)})
	}
	if err := errors.Join(j.WriteMarks(), j.WriteMarks()); err != nil {
		t.Fatal(err)
	}
	if syncs != 0 {
		t.Errorf("%d syncs", syncs)
	}
	killed := open(t, disk.ProcessKillImage(), Options{})
	for i := range 10 {
		if e := killed.Get(shard(i)); e.Mark != ids.Offset(90+i) {
			t.Errorf("shard %d: %+v", i, e)
		}
	}
	size := j.size
	j.SetMark(shard(1), Mark{End: 91}) // what the file says already
	if err := j.WriteMarks(); err != nil || j.size != size {
		t.Errorf("%v, %d bytes more", err, j.size-size)
	}
	// A lazy mark never overtakes one that was rewound.
	j.SetMark(shard(1), Mark{End: 500})
	if err := errors.Join(j.RewindMark(shard(1), Mark{End: 20}), j.WriteMarks()); err != nil {
		t.Fatal(err)
	}
	if e := open(t, disk.ProcessKillImage(), Options{}).Get(shard(1)); e.Mark != 20 {
		t.Errorf("%+v", e)
	}
}

func TestMarksUnknown(t *testing.T) {
	disk := newDisk(t)
	j := open(t, disk, Options{MarksUnknown: true})
	if j.Get(shard(1)).MarkKnown {
		t.Error("the mark of a shard that a lost journal knew is known")
	}
	j.SetMark(shard(2), Mark{})
	if err := errors.Join(j.SetStart(shard(3), 5), j.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		j = open(t, disk, Options{})
		if j.Get(shard(1)).MarkKnown || j.Get(shard(3)).MarkKnown || !j.Get(shard(2)).MarkKnown {
			t.Errorf("%+v %+v %+v", j.Get(shard(1)), j.Get(shard(3)), j.Get(shard(2)))
		}
		j.busy = true
		if err := j.checkpoint(); err != nil {
			t.Fatal(err)
		}
		j.busy = false
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGroupCommit: changes that come at the same time share syncs.
func TestGroupCommit(t *testing.T) {
	disk := newDisk(t)
	j := open(t, disk, Options{})
	gate := make(chan struct{})
	var once sync.Once
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpDatasync {
			once.Do(func() { <-gate })
		}
	})
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := j.SetFloor(shard(i), ids.Offset(i+1)); err != nil {
				t.Error(err)
			}
		})
	}
	for queued := 0; queued < n-1; { // the first is at its sync, all others wait
		j.mu.Lock()
		queued = 0
		if j.next != nil {
			queued = len(j.next.records)
		}
		j.mu.Unlock()
	}
	close(gate)
	wg.Wait()
	if j.syncs != 2 {
		t.Errorf("%d syncs for %d changes", j.syncs, n)
	}
	for i := range n {
		if e := j.Get(shard(i)); e.Floor != ids.Offset(i+1) {
			t.Errorf("shard %d: %+v", i, e)
		}
	}
}

// TestCheckpoint: the file is rewritten when it has grown, and old ones go.
func TestCheckpoint(t *testing.T) {
	disk := newDisk(t)
	j := open(t, disk, Options{CheckpointBytes: 2000})
	for i := range 500 {
		j.SetMark(shard(i%7), Mark{End: ids.Offset(i)})
		if err := j.SetStart(shard(i%7), ids.Offset(i)); err != nil {
			t.Fatal(err)
		}
	}
	if j.seq < 5 || j.size > 10_000 {
		t.Errorf("file %d of %d bytes", j.seq, j.size)
	}
	entries, err := disk.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, disk, Options{})
	for i := 493; i < 500; i++ {
		if e := j.Get(shard(i % 7)); e.Start != ids.Offset(i) || e.Mark != ids.Offset(i) {
			t.Errorf("shard %d: %+v", i%7, e)
		}
	}
}

// life makes some changes, and reports each one that a call has promised.
func life(fs vfs.FS, promised func(n int, floor ids.Offset)) error {
	j, _ := Open(fs, dir, Options{CheckpointBytes: 700})
	if j == nil {
		return nil // nothing was promised
	}
	for i := range 25 {
		j.SetMark(shard(i%4), Mark{End: ids.Offset(i), Bytes: 48})
		if i%5 == 4 {
			_ = j.WriteMarks()
		}
		floor := j.Get(shard(i%4)).Floor + 1
		err := j.SetFloor(shard(i%4), floor)
		switch k := errcode.Of(err); {
		case err == nil:
			if got := j.Get(shard(i % 4)).Floor; got != floor {
				return fmt.Errorf("floor is %d after %d was set", got, floor)
			}
			promised(i%4, floor)
		case k != errcode.Overloaded && k != errcode.StorageFailed:
			return fmt.Errorf("kind %v: %w", k, err)
		case k == errcode.Overloaded && j.Get(shard(i%4)).Floor == floor:
			return errors.New("a refused change shows")
		}
	}
	_ = j.SetClean()
	_ = j.Close()
	return nil
}

// checkFloors opens a journal and compares with what was promised; each floor may be one further.
func checkFloors(fs vfs.FS, floors *[4]ids.Offset) error {
	j, err := Open(fs, dir, Options{})
	if err != nil {
		return err
	}
	for n, want := range floors {
		if got := j.Get(shard(n)).Floor; got != want && got != want+1 {
			return fmt.Errorf("floor of shard %d is %d, want %d", n, got, want)
		}
	}
	if err := j.SetFloor(shard(9), 9); err != nil {
		return err
	}
	return j.Close()
}

func TestFaults(t *testing.T) {
	probe := vfs.NewFault(newDisk(t))
	if err := life(probe, func(int, ids.Offset) {}); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= probe.Calls(); n++ {
		for _, rule := range []vfs.Rule{{Nth: n, Err: syscall.EIO}, {Nth: n, Err: syscall.ENOSPC, ShortWrite: true}, {Nth: n, Err: syscall.EIO, Sticky: true}} {
			disk := newDisk(t)
			faulty := vfs.NewFault(disk, rule)
			var floors [4]ids.Offset
			err := life(faulty, func(n int, floor ids.Offset) { floors[n] = floor })
			if err == nil {
				err = checkFloors(disk.ProcessKillImage(), &floors)
			}
			if err == nil {
				err = checkFloors(disk.CrashImage(rand.New(rand.NewPCG(1, uint64(n)))), &floors)
			}
			if err != nil {
				t.Fatalf("call %d %v, sticky %v: %v", n, faulty.Fired(), rule.Sticky, err)
			}
		}
	}
}

func TestCrashes(t *testing.T) {
	disk := newDisk(t)
	type moment struct {
		disk   *vfs.Mem
		floors [4]ids.Offset
	}
	var moments []moment
	var floors [4]ids.Offset
	n := uint64(0)
	disk.SetHook(func(vfs.Op) {
		moments = append(moments, moment{disk.ProcessKillImage(), floors})
		for range 5 {
			n++
			moments = append(moments, moment{disk.CrashImage(rand.New(rand.NewPCG(2, n))), floors})
		}
	})
	if err := life(disk, func(n int, floor ids.Offset) { floors[n] = floor }); err != nil {
		t.Fatal(err)
	}
	disk.SetHook(nil)
	for i, m := range moments {
		again := m.disk.ProcessKillImage()
		if err := checkFloors(m.disk, &m.floors); err != nil {
			t.Fatalf("moment %d: %v", i, err)
		}
		if i%5 == 0 { // and crashes while it is repaired
			var inner []*vfs.Mem
			again.SetHook(func(vfs.Op) { n++; inner = append(inner, again.CrashImage(rand.New(rand.NewPCG(3, n)))) })
			if _, err := Open(again, dir, Options{}); err != nil {
				t.Fatal(err)
			}
			again.SetHook(nil)
			for _, d := range inner {
				if err := checkFloors(d, &m.floors); err != nil {
					t.Fatalf("moment %d, repair interrupted: %v", i, err)
				}
			}
		}
	}
}

// TestDamage flips every byte of a journal, and cuts it everywhere. What was synced is either there or refused.
func TestDamage(t *testing.T) {
	disk := newDisk(t)
	j := open(t, disk, Options{})
	for i := range 6 {
		if err := j.SetPromise(shard(i), ids.LeaderEpoch(i), "node"); err != nil {
			t.Fatal(err)
		}
	}
	name := newest(t, disk)
	good, err := readFile(disk, name)
	if err != nil {
		t.Fatal(err)
	}
	note := len(good) - recordHeader // of the last sync: nobody was told of it
	check := func(what string, bad []byte) {
		t.Helper()
		spoiled := disk.ProcessKillImage()
		write(t, spoiled, name, bad)
		j, err := Open(spoiled, dir, Options{})
		var d *DamageError
		if errors.As(err, &d) {
			if d.File != name || errcode.Of(err) != errcode.StorageFailed || d.Position >= int64(len(good)) {
				t.Fatalf("%s: %v", what, err)
			}
			if left, rerr := readFile(spoiled, name); rerr != nil || !bytes.Equal(left, bad) {
				t.Fatalf("%s: a refused file was changed", what)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for i := range 6 {
			if e := j.Get(shard(i)); e.PromiseEpoch != ids.LeaderEpoch(i) || e.PromiseLeader != "node" {
				t.Fatalf("%s: promise of shard %d is %+v", what, i, e)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for at := range note {
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		check(fmt.Sprint("flip at byte ", at), bad)
	}
	for cut := note; cut < len(good); cut++ {
		check(fmt.Sprint("cut to ", cut), good[:cut])
	}
	for _, tail := range [][]byte{{0}, make([]byte, 700), bytes.Repeat([]byte{7}, 99)} {
		check("bytes behind the end", append(bytes.Clone(good), tail...))
	}
	newer := bytes.Clone(good)
	newer[9] = 2
	spoiled := disk.ProcessKillImage()
	write(t, spoiled, name, newer)
	if _, err := Open(spoiled, dir, Options{}); !errors.Is(err, errVersion) {
		t.Errorf("a newer version: %v", err)
	}
}

func TestFailedSyncLatches(t *testing.T) {
	disk := vfs.NewFault(newDisk(t))
	j := open(t, disk, Options{})
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpDatasync }, Nth: 1, Err: syscall.EIO})
	if err := j.SetFloor(shard(1), 5); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("%v", err)
	}
	if e := j.Get(shard(1)); e.Floor != 0 {
		t.Errorf("a change that failed shows: %+v", e)
	}
	if err := j.SetFloor(shard(1), 5); !errors.Is(err, ErrFailed) {
		t.Errorf("a later change: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := j.SetFloor(shard(1), 5); !errors.Is(err, ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

func FuzzJournalFile(f *testing.F) {
	disk := newDisk(f)
	j := open(f, disk, Options{})
	err := errors.Join(j.SetFloor(shard(1), 2), j.SetPromise(shard(1), 3, "n"), j.SetStart(shard(2), 9), j.RewindMark(shard(1), Mark{1, 2, 3, 4}), j.Forget(shard(2).Topic), j.SetClean())
	if err != nil {
		f.Fatal(err)
	}
	good, err := readFile(disk, newest(f, disk))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Fuzz(func(t *testing.T, b []byte) {
		if b = bytes.Clone(b); len(b)%3 != 0 {
			rechecksum(b) // or the checksums would stop nearly every input
		}
		st := newState(true)
		n, err := replay("f", b, j.seq, st)
		if err != nil {
			return
		}
		// The good part gives the same state by itself, and the state survives a rewrite.
		again := newState(true)
		if m, err := replay("f", b[:n], j.seq, again); err != nil || m != n {
			t.Fatalf("%d, %v", m, err)
		}
		rewritten := newState(true)
		k := &Journal{st: st}
		body := k.stateRecordsLocked()
		file := append(appendHeader(nil, fileHeader{seq: 1, checkpoint: headerBytes + int64(len(body))}), body...)
		if _, err := replay("g", file, 1, rewritten); err != nil {
			t.Fatal(err)
		}
		for id, sl := range st.slots {
			var got Entry
			if r := rewritten.slots[id]; r != nil {
				got = r.Entry
			} else {
				got = emptyEntry(rewritten.known)
			}
			if got != sl.Entry {
				t.Fatalf("%v: %+v, was %+v", id, got, sl.Entry)
			}
		}
	})
}

// rechecksum makes the checksums of a file right, as far as its lengths lead.
func rechecksum(b []byte) {
	if len(b) < headerBytes {
		return
	}
	binary.BigEndian.PutUint32(b[headerBytes-4:], crc32.Checksum(b[:headerBytes-4], castagnoli))
	for b = b[headerBytes:]; len(b) >= recordHeader; {
		n := recordHeader + int(binary.BigEndian.Uint16(b[4:]))
		if n > len(b) {
			return
		}
		binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:n], castagnoli))
		b = b[n:]
	}
}
