package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/vfs"
)

// each runs a test over every implementation, with a directory of its own.
func each(t *testing.T, test func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Helper()
	for _, impl := range []struct {
		name string
		fs   func() vfs.FS
	}{
		{"os", func() vfs.FS { return vfs.OS{} }},
		{"mem", func() vfs.FS { return vfs.NewMem() }},
		{"fault", func() vfs.FS { return vfs.NewFault(vfs.NewMem()) }},
	} {
		t.Run(impl.name, func(t *testing.T) {
			dir, fsys := t.TempDir(), impl.fs()
			if err := fsys.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			test(t, fsys, dir)
		})
	}
}

func mustOpen(t *testing.T, fsys vfs.FS, name string, flag int) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, flag, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return f
}

func mustWrite(t *testing.T, f vfs.File, off int64, data string) {
	t.Helper()
	if n, err := f.WriteAt([]byte(data), off); n != len(data) || err != nil {
		t.Fatalf("WriteAt = %d, %v", n, err)
	}
}

func content(t *testing.T, f vfs.File) string {
	t.Helper()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) != size || err != nil {
		t.Fatalf("ReadAt = %d, %v; size is %d", n, err, size)
	}
	return string(b)
}

func contentOf(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	return content(t, mustOpen(t, fsys, name, os.O_RDONLY))
}

func names(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range list {
		if e.IsDir {
			e.Name += "/"
		}
		out = append(out, e.Name)
	}
	return out
}

func TestFileReadWrite(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		f := mustOpen(t, fsys, filepath.Join(dir, "f"), os.O_RDWR|os.O_CREATE)
		mustWrite(t, f, 0, "hello")
		mustWrite(t, f, 7, "world")
		if got, want := content(t, f), "hello\x00\x00world"; got != want {
			t.Errorf("content %q, want %q", got, want)
		}
		b := make([]byte, 10)
		if n, err := f.ReadAt(b, 7); n != 5 || !errors.Is(err, io.EOF) || string(b[:n]) != "world" {
			t.Errorf("read over the end: %d %v %q", n, err, b[:n])
		}
		if n, err := f.ReadAt(b, 12); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read at the end: %d %v", n, err)
		}
		if n, err := f.ReadAt(nil, 3); n != 0 || err != nil {
			t.Errorf("empty read: %d %v", n, err)
		}
		if n, err := f.WriteAt(nil, 100); n != 0 || err != nil {
			t.Errorf("empty write: %d %v", n, err)
		}
		if err := f.Truncate(3); err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(5); err != nil {
			t.Fatal(err)
		}
		if got, want := content(t, f), "hel\x00\x00"; got != want {
			t.Errorf("content after truncation %q, want %q", got, want)
		}
		if err := f.Preallocate(0, 1<<16); err != nil {
			t.Error(err)
		}
		if err := f.Preallocate(0, 0); err != nil {
			t.Error(err)
		}
		if err := errors.Join(f.Sync(), f.Datasync()); err != nil {
			t.Error(err)
		}
		if size, err := f.Size(); size != 5 || err != nil {
			t.Errorf("Size after preallocation = %d, %v", size, err)
		}
		if _, err := f.ReadAt(b, -1); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("read at -1: %v", err)
		}
		if _, err := f.WriteAt(b, -1); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("write at -1: %v", err)
		}
		if err := f.Truncate(-1); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("truncate to -1: %v", err)
		}
	})
}

func TestFileClosed(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		f := mustOpen(t, fsys, filepath.Join(dir, "f"), os.O_RDWR|os.O_CREATE)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1)
		for name, call := range map[string]func() error{
			"close":    f.Close,
			"read":     func() error { _, err := f.ReadAt(b, 0); return err },
			"write":    func() error { _, err := f.WriteAt(b, 0); return err },
			"size":     func() error { _, err := f.Size(); return err },
			"truncate": func() error { return f.Truncate(0) },
			"sync":     f.Sync,
			"datasync": f.Datasync,
			"allocate": func() error { return f.Preallocate(0, 1) },
		} {
			if err := call(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("%s of a closed file: %v", name, err)
			}
		}
	})
}

func TestOpenFlags(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		if _, err := fsys.OpenFile(name, os.O_RDWR, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("missing: %v", err)
		}
		f := mustOpen(t, fsys, name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
		mustWrite(t, f, 0, "abc")
		if _, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); !errors.Is(err, fs.ErrExist) {
			t.Errorf("exclusive: %v", err)
		}
		if _, err := fsys.OpenFile(name, os.O_RDWR|os.O_APPEND, 0); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("append: %v", err)
		}
		if _, err := fsys.OpenFile(filepath.Join(name, "g"), os.O_RDWR|os.O_CREATE, 0o644); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("below a file: %v", err)
		}
		if _, err := fsys.OpenFile(dir, os.O_RDWR, 0); !errors.Is(err, syscall.EISDIR) {
			t.Errorf("directory: %v", err)
		}
		r := mustOpen(t, fsys, name, os.O_RDONLY)
		if _, err := r.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.EBADF) {
			t.Errorf("write to a read-only file: %v", err)
		}
		w := mustOpen(t, fsys, name, os.O_WRONLY)
		if _, err := w.ReadAt(make([]byte, 1), 0); !errors.Is(err, syscall.EBADF) {
			t.Errorf("read of a write-only file: %v", err)
		}
		mustOpen(t, fsys, name, os.O_RDWR|os.O_CREATE)
		if got := content(t, r); got != "abc" {
			t.Errorf("opening again changed the content to %q", got)
		}
		mustOpen(t, fsys, name, os.O_RDWR|os.O_TRUNC)
		if got := content(t, r); got != "" {
			t.Errorf("content after O_TRUNC: %q", got)
		}
	})
}

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		p := func(name string) string { return filepath.Join(dir, name) }
		if err := errors.Join(fsys.MkdirAll(p("a/b"), 0o755), fsys.MkdirAll(p("a/b"), 0o755)); err != nil {
			t.Fatal(err)
		}
		x := mustOpen(t, fsys, p("a/x"), os.O_RDWR|os.O_CREATE)
		mustWrite(t, x, 0, "x")
		mustWrite(t, mustOpen(t, fsys, p("y"), os.O_RDWR|os.O_CREATE), 0, "y")
		if diff := cmp.Diff([]string{"b/", "x"}, names(t, fsys, p("a"))); diff != "" {
			t.Error(diff)
		}
		for _, c := range []struct {
			name string
			got  error
			want error
		}{
			{"mkdir below a file", fsys.MkdirAll(p("y/z"), 0o755), syscall.ENOTDIR},
			{"mkdir over a file", fsys.MkdirAll(p("y"), 0o755), syscall.ENOTDIR},
			{"remove missing", fsys.Remove(p("nothing")), fs.ErrNotExist},
			{"remove non-empty", fsys.Remove(p("a")), syscall.ENOTEMPTY},
			{"rename missing", fsys.Rename(p("nothing"), p("z")), fs.ErrNotExist},
			{"rename into a missing directory", fsys.Rename(p("y"), p("nothing/z")), fs.ErrNotExist},
			{"rename directory into itself", fsys.Rename(p("a"), p("a/b/c")), syscall.EINVAL},
			{"rename directory over file", fsys.Rename(p("a"), p("y")), syscall.ENOTDIR},
			{"rename directory over a full one", fsys.Rename(p("a/b"), p("a")), fs.ErrExist},
			{"sync missing directory", fsys.SyncDir(p("nothing")), fs.ErrNotExist},
			{"sync file as directory", fsys.SyncDir(p("y")), syscall.ENOTDIR},
			{"remove all of nothing", fsys.RemoveAll(p("nothing/at/all")), nil},
			{"rename onto itself", fsys.Rename(p("y"), p("y")), nil},
			{"rename over a file", fsys.Rename(p("a/x"), p("y")), nil},
			{"sync directory", fsys.SyncDir(p("a")), nil},
		} {
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
			}
		}
		if err := fsys.Rename(p("y"), p("a")); err == nil {
			t.Error("renamed a file over a directory")
		}
		if got := contentOf(t, fsys, p("y")); got != "x" {
			t.Errorf("content after rename: %q", got)
		}
		if info, err := fsys.Stat(p("y")); err != nil || info.Size != 1 || info.IsDir {
			t.Errorf("Stat of a file: %+v, %v", info, err)
		}
		if info, err := fsys.Stat(p("a")); err != nil || !info.IsDir {
			t.Errorf("Stat of a directory: %+v, %v", info, err)
		}
		if _, err := fsys.Stat(p("a/x")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat of a missing file: %v", err)
		}
		if _, err := fsys.ReadDir(p("nothing")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("ReadDir of a missing directory: %v", err)
		}
		if _, err := fsys.ReadDir(p("y")); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("ReadDir of a file: %v", err)
		}
		if err := fsys.Remove(p("y")); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, x, 1, "!") // the removed file lives until its last Close
		if got := content(t, x); got != "x!" {
			t.Errorf("content of the removed file: %q", got)
		}
		if err := fsys.RemoveAll(p("a")); err != nil {
			t.Fatal(err)
		}
		if got := names(t, fsys, dir); len(got) != 0 {
			t.Errorf("left over: %v", got)
		}
	})
}

// TestMemLikeOS does the same random calls on the machine's file system and in memory, and compares what comes back.
func TestMemLikeOS(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := t.TempDir()
			mem := vfs.NewMem()
			if err := mem.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			fromOS := randomCalls(seed, vfs.OS{}, dir)
			fromMem := randomCalls(seed, mem, dir)
			for i := range fromOS {
				if i >= len(fromMem) || fromOS[i] != fromMem[i] { // everything after the first difference follows from it
					t.Fatal(cmp.Diff(fromOS[:i+1], fromMem[:min(i+1, len(fromMem))]))
				}
			}
		})
	}
}

// randomCalls makes calls chosen by seed and returns what each of them answered.
func randomCalls(seed uint64, fsys vfs.FS, dir string) []string {
	rnd := rand.New(rand.NewPCG(seed, 1))
	all := []string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/b"}
	name := func() string { return filepath.Join(dir, all[rnd.IntN(len(all))]) }
	errno := func(err error) string {
		var no syscall.Errno
		switch {
		case err == nil:
			return "ok"
		case errors.As(err, &no):
			return no.Error()
		default:
			return err.Error()
		}
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for range 300 {
		n := name()
		rel, _ := filepath.Rel(dir, n)
		switch rnd.IntN(8) {
		case 0:
			say("mkdir %s: %s", rel, errno(fsys.MkdirAll(n, 0o755)))
		case 1:
			if rnd.IntN(4) == 0 {
				say("remove all %s: %s", rel, errno(fsys.RemoveAll(n)))
			}
		case 2:
			err := fsys.Remove(n)
			say("remove %s: %t", rel, err == nil)
		case 3:
			to := name()
			err := fsys.Rename(n, to)
			say("rename %s: %t", rel, err == nil)
		case 4:
			list, err := fsys.ReadDir(n)
			say("read dir %s: %v %s", rel, list, errno(err))
		default:
			f, err := fsys.OpenFile(n, os.O_RDWR|os.O_CREATE, 0o644)
			say("open %s: %s", rel, errno(err))
			if err != nil {
				continue
			}
			for range 4 {
				off, p := int64(rnd.IntN(3000)), make([]byte, rnd.IntN(1500))
				switch rnd.IntN(3) {
				case 0:
					for i := range p {
						p[i] = byte(rnd.Uint32())
					}
					n, err := f.WriteAt(p, off)
					say("write %d: %d %s", off, n, errno(err))
				case 1:
					say("truncate %d: %s", off, errno(f.Truncate(off)))
				default:
					n, err := f.ReadAt(p, off)
					say("read %d: %x %s", off, p[:n], errno(err))
				}
			}
			size, err := f.Size()
			say("size %d %s, close %s", size, errno(err), errno(f.Close()))
		}
	}
	return out
}
