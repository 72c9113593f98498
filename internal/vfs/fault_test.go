package vfs_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/vfs"
)

// script makes one call of each kind and returns the first error.
func script(fsys vfs.FS) error {
	if err := fsys.MkdirAll("d", 0o755); err != nil {
		return err
	}
	f, err := fsys.OpenFile("d/f", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	b := []byte("0123456789")
	for _, call := range []func() error{
		func() error { return f.Preallocate(0, 100) },
		func() error { _, err := f.WriteAt(b, 0); return err },
		func() error { return f.Truncate(8) },
		func() error { _, err := f.ReadAt(b[:8], 0); return err },
		func() error { _, err := f.Size(); return err },
		f.Datasync, f.Sync, f.Close,
		func() error { return fsys.SyncDir("d") },
		func() error { _, err := fsys.Stat("d/f"); return err },
		func() error { _, err := fsys.ReadDir("d"); return err },
		func() error { return fsys.Rename("d/f", "d/g") },
		func() error { return fsys.Remove("d/g") },
		func() error { return fsys.RemoveAll("d") },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

func TestFaultEachCallOnce(t *testing.T) {
	healthy := vfs.NewFault(vfs.NewMem())
	if err := script(healthy); err != nil {
		t.Fatal(err)
	}
	kinds := map[vfs.OpKind]bool{}
	for n := int64(1); n <= healthy.Calls(); n++ {
		faulty := vfs.NewFault(vfs.NewMem(), vfs.Rule{Nth: n, Err: syscall.EIO})
		err := script(faulty)
		var pathErr *os.PathError
		if !errors.Is(err, syscall.EIO) || !errors.As(err, &pathErr) {
			t.Errorf("call %d: %v", n, err)
		}
		if faulty.Calls() != n {
			t.Errorf("call %d: the script went on to call %d", n, faulty.Calls())
		}
		fired := faulty.Fired()
		if len(fired) != 1 {
			t.Fatalf("call %d: fired %v", n, fired)
		}
		kinds[fired[0].Kind] = true
		if pathErr.Op != fired[0].Kind.String() || pathErr.Path != fired[0].Path {
			t.Errorf("call %d: error %v for %v", n, pathErr, fired[0])
		}
	}
	if want := int(vfs.OpPreallocate); len(kinds) != want {
		t.Errorf("%d kinds of calls failed, want all %d: %v", len(kinds), want, kinds)
	}
}

func TestFaultRules(t *testing.T) {
	fsys := vfs.NewFault(vfs.NewMem())
	a := mustOpen(t, fsys, "a", os.O_RDWR|os.O_CREATE)
	b := mustOpen(t, fsys, "b", os.O_RDWR|os.O_CREATE)
	writes := func(path string) func(vfs.Op) bool {
		return func(op vfs.Op) bool { return op.Kind == vfs.OpWrite && op.Path == path }
	}
	fsys.Add(vfs.Rule{Match: writes("a"), Nth: 2, Sticky: true, Err: syscall.ENOSPC})
	fsys.Add(vfs.Rule{Match: writes("b"), Nth: 2, Err: syscall.EIO})
	write := func(f vfs.File) error { _, err := f.WriteAt([]byte("x"), 0); return err }
	for i, want := range []struct{ a, b error }{
		{nil, nil},
		{syscall.ENOSPC, syscall.EIO},
		{syscall.ENOSPC, nil},
	} {
		if err := write(a); !errors.Is(err, want.a) {
			t.Errorf("write %d of a: %v", i+1, err)
		}
		if err := write(b); !errors.Is(err, want.b) {
			t.Errorf("write %d of b: %v", i+1, err)
		}
	}
	fsys.Clear()
	if err := write(a); err != nil {
		t.Errorf("after Clear: %v", err)
	}
	want := []vfs.Op{
		{Kind: vfs.OpWrite, Path: "a", Len: 1}, {Kind: vfs.OpWrite, Path: "b", Len: 1}, {Kind: vfs.OpWrite, Path: "a", Len: 1},
	}
	if diff := cmp.Diff(want, fsys.Fired()); diff != "" {
		t.Error(diff)
	}
}

func TestFaultShortWrite(t *testing.T) {
	mem := vfs.NewMem()
	fsys := vfs.NewFault(mem)
	f := mustOpen(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	isWrite := func(op vfs.Op) bool { return op.Kind == vfs.OpWrite }
	fsys.Add(vfs.Rule{Match: isWrite, Err: syscall.ENOSPC, ShortWrite: true})
	n, err := f.WriteAt([]byte("abcdef"), 0)
	if n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteAt = %d, %v", n, err)
	}
	if got := contentOf(t, mem, "f"); got != "abc" {
		t.Errorf("the file holds %q", got)
	}
}

func TestFaultFailedSyncLosesWrites(t *testing.T) {
	mem := vfs.NewMem()
	fsys := vfs.NewFault(mem)
	f := mustOpen(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	mustWrite(t, f, 0, "old")
	if err := errors.Join(f.Sync(), fsys.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f, 0, "new!")
	isSync := func(op vfs.Op) bool { return op.Kind == vfs.OpDatasync }
	fsys.Add(vfs.Rule{Match: isSync, Nth: 1, Err: syscall.EIO})
	if err := f.Datasync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := f.Datasync(); err != nil { // the lie
		t.Fatal(err)
	}
	if got := content(t, f); got != "new!" {
		t.Errorf("the page cache holds %q", got)
	}
	if got := contentOf(t, mem.CrashImage(rand.New(rand.NewPCG(1, 1))), "f"); got != "old\x00" {
		t.Errorf("the disk holds %q", got)
	}
}

func TestFaultCloseStillCloses(t *testing.T) {
	fsys := vfs.NewFault(vfs.NewMem())
	f := mustOpen(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	fsys.Add(vfs.Rule{Nth: 1, Err: syscall.EIO})
	if err := f.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close = %v", err)
	}
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Close = %v", err)
	}
}
