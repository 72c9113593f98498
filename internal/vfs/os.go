//go:build unix

package vfs

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// OS is the file system of the machine. The zero value is ready to use.
type OS struct{}

var _ FS = OS{}

// osFile is an open descriptor. There is no finalizer: a File that is dropped without Close leaks its descriptor.
type osFile struct {
	fd   atomic.Int32 // -1 once closed
	name string       // for errors
}

// OpenFile implements FS.
func (OS) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	if flag&os.O_APPEND != 0 {
		return nil, &os.PathError{Op: "open", Path: name, Err: unix.EINVAL}
	}
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(name, flag|unix.O_CLOEXEC, uint32(perm.Perm()))
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := &osFile{name: name}
	f.fd.Store(int32(fd))
	return f, nil
}

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// Rename implements FS.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// MkdirAll implements FS.
func (OS) MkdirAll(name string, perm os.FileMode) error { return os.MkdirAll(name, perm) }

// ReadDir implements FS.
func (OS) ReadDir(name string) ([]DirEntry, error) {
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	entries := make([]DirEntry, len(list))
	for i, e := range list {
		entries[i] = DirEntry{Name: e.Name(), IsDir: e.IsDir()}
	}
	return entries, nil
}

// Stat implements FS.
func (OS) Stat(name string) (Info, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: fi.Size(), IsDir: fi.IsDir()}, nil
}

// SyncDir implements FS.
func (OS) SyncDir(name string) error {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	err = retry(func() error { return fsync(fd) })
	if closeErr := unix.Close(fd); err == nil {
		err = closeErr
	}
	if err != nil {
		return &os.PathError{Op: "fsync", Path: name, Err: err}
	}
	return nil
}

// ReadAt implements io.ReaderAt.
func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n := preadCached(int(f.fd.Load()), p, off)
	for n < len(p) {
		m, err := unix.Pread(int(f.fd.Load()), p[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, f.wrap("read", err)
		case m == 0:
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pwrite(int(f.fd.Load()), p[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, f.wrap("write", err)
		case m == 0:
			// Linux does not do this for regular files; an endless loop would be worse than an error.
			return n, f.wrap("write", io.ErrShortWrite)
		}
		n += m
	}
	return n, nil
}

// Close implements io.Closer. EINTR is not retried: on Linux the descriptor is gone, and its number may be in use again.
func (f *osFile) Close() error {
	fd := f.fd.Swap(-1)
	if fd < 0 {
		return f.wrap("close", os.ErrClosed)
	}
	if err := unix.Close(int(fd)); err != nil && !errors.Is(err, unix.EINTR) {
		return f.wrap("close", err)
	}
	return nil
}

// Size implements File.
func (f *osFile) Size() (int64, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(f.fd.Load()), &st) }); err != nil {
		return 0, f.wrap("stat", err)
	}
	return st.Size, nil
}

// Truncate implements File.
func (f *osFile) Truncate(size int64) error {
	return f.wrap("truncate", retry(func() error { return unix.Ftruncate(int(f.fd.Load()), size) }))
}

// Sync implements File.
func (f *osFile) Sync() error {
	return f.wrap("fsync", retry(func() error { return fsync(int(f.fd.Load())) }))
}

// Datasync implements File.
func (f *osFile) Datasync() error {
	return f.wrap("fdatasync", retry(func() error { return fdatasync(int(f.fd.Load())) }))
}

// Preallocate implements File.
func (f *osFile) Preallocate(off, n int64) error {
	if n <= 0 {
		return nil
	}
	err := retry(func() error { return preallocate(int(f.fd.Load()), off, n) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return nil // a file system without fallocate, or a sandbox that forbids it
	}
	return f.wrap("fallocate", err)
}

// wrap gives err the operation and the file's name. A call on a closed file reaches the kernel as descriptor -1 and comes back
// as EBADF, which reads better as os.ErrClosed.
func (f *osFile) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.EBADF) && f.fd.Load() < 0 {
		err = os.ErrClosed
	}
	return &os.PathError{Op: op, Path: f.name, Err: err}
}

// retry repeats a system call that a signal interrupted. The Go runtime sends itself signals to preempt goroutines, and some
// file systems return EINTR in spite of SA_RESTART.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
