package log

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

// countingFS counts open files.
type countingFS struct {
	vfs.FS
	open, most atomic.Int64
}

type countedFile struct {
	vfs.File
	fs *countingFS
}

func (c *countingFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	n := c.open.Add(1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	return countedFile{f, c}, nil
}

func (f countedFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

// TestFilesAreBounded: many logs, few files.
func TestFilesAreBounded(t *testing.T) {
	const limit, logs = 20, 100
	fs := &countingFS{FS: vfs.NewMem()}
	e := newEnv(t, fs, withMode(SyncNone), withShared(func(s *Shared) { s.Files = NewFileCache(limit, nil) }))
	var all []*Log
	for i := range int32(logs) {
		all = append(all, e.openAt(fmt.Sprint("data/shards/topic/", i), i))
	}
	for round := range 3 {
		for _, l := range all {
			mustAppend(t, l, spec{})
		}
		for i, l := range all {
			if got := mustReadAll(t, l, 0); len(got) != round+1 {
				t.Fatalf("log %d has %d batches", i, len(got))
			}
		}
	}
	if most := fs.most.Load(); most > limit+4 { // the journal, and a file between its opening and another's closing
		t.Errorf("up to %d files were open", most)
	}
	if n := e.shared.Files.Open(); n > limit {
		t.Errorf("%d files are open", n)
	}
	for _, l := range all {
		if err := l.Close(true); err != nil {
			t.Fatal(err)
		}
	}
	if n := fs.open.Load(); n != 1 {
		t.Errorf("%d files are open beside the journal", n-1)
	}
}

// TestPinnedFiles: files with unsynced bytes stay open while there is room; more dirty logs than files are no reason to refuse any.
func TestPinnedFiles(t *testing.T) {
	fs := &countingFS{FS: vfs.NewMem()}
	e := newEnv(t, fs, withShared(func(s *Shared) { s.Files = NewFileCache(minMaxFiles, nil) }))
	var all []*Log
	pinned := 0
	for i := range int32(3 * minMaxFiles) {
		l := e.openAt(fmt.Sprint("data/shards/topic/", i), i)
		all = append(all, l)
		mustAppend(t, l, spec{})
		if l.pinned != nil {
			pinned++
		}
	}
	if pinned != minMaxFiles/2 || fs.most.Load() > minMaxFiles+4 {
		t.Errorf("%d files are pinned, up to %d were open", pinned, fs.most.Load())
	}
	e.shared.Syncer.syncDirty()
	for i, l := range all {
		if l.pinned != nil || l.Bounds().DurableEnd != 1 {
			t.Errorf("log %d: pinned %v, %+v", i, l.pinned != nil, l.Bounds())
		}
	}
	if n := e.shared.Files.pinned.Load(); n != 0 {
		t.Errorf("%d files are pinned after the sync", n)
	}
}

// TestFilesInUse: when all files are in use, opening another is refused, the syncer is told, and a release makes room.
func TestFilesInUse(t *testing.T) {
	disk := vfs.NewMem()
	told := 0
	c := NewFileCache(minMaxFiles, nil)
	c.pressure = func() { told++ }
	handles := make([]handle, overflowFactor*minMaxFiles+1)
	for i := range handles {
		writeBack(t, disk, offsetName("", ids.Offset(i), segmentSuffix), nil)
		_, err := c.acquire(&handles[i], disk, "", ids.Offset(i))
		if last := i == len(handles)-1; last != errors.Is(err, errTooManyFiles) {
			t.Fatalf("file %d: %v", i, err)
		}
	}
	if told == 0 {
		t.Error("the syncer was not told")
	}
	c.release(&handles[0])
	if _, err := c.acquire(&handles[len(handles)-1], disk, "", ids.Offset(len(handles)-1)); err != nil {
		t.Errorf("after a release: %v", err)
	}
}

// TestFileCacheConcurrent acquires, releases, evicts and retires from many goroutines: a file is never used after its close.
func TestFileCacheConcurrent(t *testing.T) {
	disk := vfs.NewMem()
	c := NewFileCache(minMaxFiles, nil)
	const files = 64
	var handles [files]handle
	for i := range handles {
		writeBack(t, disk, offsetName("", ids.Offset(i), segmentSuffix), []byte{byte(i)})
		handles[i].lane = uint8(i)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 3000 {
				n := (i*7 + g*13) % files
				h := &handles[n]
				f, err := c.acquire(h, disk, "", ids.Offset(n))
				if err != nil {
					if !errors.Is(err, ErrClosed) && !errors.Is(err, errTooManyFiles) {
						t.Error(err)
					}
					continue
				}
				var b [1]byte
				if _, err := f.ReadAt(b[:], 0); err != nil || b[0] != byte(n) {
					t.Errorf("file %d reads %d, %v", n, b[0], err)
				}
				c.release(h)
				if i == 2500 && g == 0 {
					c.retire(&handles[3])
				}
			}
		})
	}
	wg.Wait()
	if _, err := c.acquire(&handles[3], disk, "", 3); !errors.Is(err, ErrClosed) {
		t.Errorf("a retired handle opens: %v", err)
	}
	if n := c.Open(); n > minMaxFiles {
		t.Errorf("%d are open", n)
	}
}

// TestOpenFails: too many open files in the process is no failure of the disk.
func TestOpenFails(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	e := newEnv(t, disk, withMode(SyncNone), withShared(func(s *Shared) { s.Files = NewFileCache(minMaxFiles, nil) }))
	l := e.open()
	want := appendMany(t, l, 3)
	for i := range int32(4 * minMaxFiles) { // pushes the file out
		mustAppend(t, e.openAt(fmt.Sprint("data/shards/topic/", i+1), i+1), spec{})
	}
	disk.Add(vfs.Rule{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpOpen }, Err: syscall.EMFILE})
	if _, err := l.Append(spec{}.input(t)); errcode.Of(err) != errcode.Overloaded {
		t.Errorf("append: %v", err)
	}
	if _, _, err := l.Read(0, ids.Offset(1), 100, true, nil); errcode.Of(err) != errcode.StorageFailed {
		t.Errorf("read: %v", err)
	}
	if err := l.Sync(); err == nil || errors.Is(err, ErrFailed) {
		t.Errorf("sync: %v", err)
	}
	disk.Clear()
	if err := l.Sync(); err != nil {
		t.Errorf("sync: %v", err)
	}
	wantBatches(t, mustReadAll(t, l, 0), want)
}
