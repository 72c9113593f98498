package log

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// readFile and writeBack are the disk as a test tampers with it.
func readFile(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	b, err := readWhole(fs, name, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeBack(t testing.TB, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// copyDisk copies all files of a disk that a test is going to spoil.
func copyDisk(t testing.TB, from *vfs.Mem) *vfs.Mem {
	t.Helper()
	return from.ProcessKillImage()
}

// twoSegments makes a log of a few sealed segments and an active one, closed cleanly, with leader epochs that rise.
func twoSegments(t testing.TB, compact bool) (*vfs.Mem, [][]byte) {
	t.Helper()
	disk := vfs.NewMem()
	e := newEnv(t, disk, withConfig(func(c *Config) {
		c.SegmentBytes, c.Compact, c.DeleteRetention = 1200, compact, 1<<40
	}))
	l := e.open()
	var want [][]byte
	for i := range 14 {
		in := spec{
			records: 1 + i%2, size: 30, timestamp: int64(1000 + i), epoch: ids.LeaderEpoch(i / 4), key: string(rune('a' + i%3)),
			producer: &recordbatch.Producer{ID: 7, BaseSequence: int32(i + i/2)},
		}.input(t)
		if _, err := l.Append(in); err != nil {
			t.Fatal(err)
		}
		want = append(want, append([]byte(nil), in.Batch...))
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if compact {
		l.SetFloor(l.Bounds().End)
		if _, err := l.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		want = mustReadAll(t, l, 0)
	}
	if n := len(l.view.Load().segments); n < 2 {
		t.Fatalf("%d segments", n)
	}
	if err := l.Close(true); err != nil {
		t.Fatal(err)
	}
	if err := e.journal.Close(); err != nil {
		t.Fatal(err)
	}
	return disk, want
}

// segmentFiles returns the segment files of a disk in order.
func segmentFiles(t testing.TB, fs vfs.FS) []string {
	t.Helper()
	entries, err := fs.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name, segmentSuffix) {
			out = append(out, testDir+"/"+e.Name)
		}
	}
	return out
}

// TestFlippedBitIsFound flips one bit in every byte of every segment, the active one too. Opening or reading must report it with file
// and position, and no read may give out a batch that differs from what was written, or leave one out.
func TestFlippedBitIsFound(t *testing.T) {
	for _, compact := range []bool{false, true} {
		disk, want := twoSegments(t, compact)
		for _, name := range segmentFiles(t, disk) {
			good := readFile(t, disk, name)
			for at := range good {
				bad := append([]byte(nil), good...)
				bad[at] ^= 1 << (at % 8)
				spoiled := copyDisk(t, disk)
				writeBack(t, spoiled, name, bad)
				checkFound(t, spoiled, name, int64(at), want)
			}
		}
	}
}

func checkFound(t *testing.T, disk *vfs.Mem, name string, at int64, want [][]byte) {
	t.Helper()
	e := newEnv(t, disk)
	l, err := e.tryOpen()
	var got [][]byte
	if err == nil {
		got, err = readAll(l, 0, 700)
		defer l.Close(false)
	}
	var d *DamageError
	if !errors.As(err, &d) {
		t.Fatalf("%s: flip at byte %d: got %v after %d of %d batches, want a DamageError", name, at, err, len(got), len(want))
	}
	if d.File != name {
		t.Fatalf("%s: flip at byte %d is reported in %s", name, at, d.File)
	}
	if d.Position > at {
		t.Fatalf("%s: flip at byte %d is reported behind, at %d: %s", name, at, d.Position, d.Reason)
	}
	if at-d.Position > 1000 {
		t.Fatalf("%s: flip at byte %d is reported far before, at %d: %s", name, at, d.Position, d.Reason)
	}
	wantBatches(t, got, want[:len(got)])
}

// TestFlippedBitWhileOpen is the same for a log that is open: readers go to the file and must notice.
func TestFlippedBitWhileOpen(t *testing.T) {
	disk, want := twoSegments(t, false)
	for _, name := range segmentFiles(t, disk) {
		good := readFile(t, disk, name)
		for at := segmentHeaderBytes; at < len(good); at++ {
			spoiled := copyDisk(t, disk)
			e := newEnv(t, spoiled)
			l := e.open()
			bad := append([]byte(nil), good...)
			bad[at] ^= 1 << (at % 8)
			writeBack(t, spoiled, name, bad)
			got, err := readAll(l, 0, 500)
			var d *DamageError
			if !errors.As(err, &d) || d.File != name || d.Position > int64(at) {
				t.Fatalf("%s: flip at byte %d: got %v", name, at, err)
			}
			wantBatches(t, got, want[:len(got)])
			if err := l.Close(false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFlippedBitInIndex flips every byte of an index file: it is a hint, so everything must still be read.
func TestFlippedBitInIndex(t *testing.T) {
	disk, want := twoSegments(t, false)
	for _, name := range segmentFiles(t, disk) {
		name = strings.TrimSuffix(name, segmentSuffix) + indexSuffix
		good, err := readWhole(disk, name, 1<<20)
		if err != nil {
			continue // the active one has none
		}
		for at := 0; at <= len(good); at++ {
			bad := append([]byte(nil), good...)
			if at == len(good) {
				bad = bad[:len(bad)/2] // and a torn one
			} else {
				bad[at] ^= 1 << (at % 8)
			}
			spoiled := copyDisk(t, disk)
			writeBack(t, spoiled, name, bad)
			e := newEnv(t, spoiled)
			l := e.open()
			wantBatches(t, mustReadAll(t, l, 0), want)
			if err := l.Close(true); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFlippedBitInSnapshot: producer state comes out the same, from the batches.
func TestFlippedBitInSnapshot(t *testing.T) {
	disk, _ := twoSegments(t, false)
	entries, err := disk.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name, producersSuffix) {
			names = append(names, testDir+"/"+e.Name)
		}
	}
	if len(names) == 0 {
		t.Fatal("no snapshot")
	}
	want := producersOf(t, copyDisk(t, disk))
	for _, name := range names {
		good := readFile(t, disk, name)
		for at := range good {
			bad := append([]byte(nil), good...)
			bad[at] ^= 1 << (at % 8)
			spoiled := copyDisk(t, disk)
			writeBack(t, spoiled, name, bad)
			got := producersOf(t, spoiled)
			if len(got) != len(want) || got[0].LastSequence != want[0].LastSequence || got[0].Epoch != want[0].Epoch {
				t.Fatalf("flip at byte %d of %s: %+v, want %+v", at, name, got, want)
			}
		}
	}
}

func producersOf(t testing.TB, disk *vfs.Mem) []ProducerState {
	t.Helper()
	l := newEnv(t, disk).open()
	var out []ProducerState
	l.Producers(func(p ProducerState) bool { out = append(out, p); return true })
	if err := l.Close(false); err != nil {
		t.Fatal(err)
	}
	return out
}
