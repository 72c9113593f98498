package vfs

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// osWhole is a directory's descriptor. The kernel tells it of errors since it was opened.
type osWhole struct {
	fd  atomic.Int32
	dir string
}

// OpenWhole implements WholeFS. Kernels before 5.8 do not report errors from syncfs, so it is not used there.
func (OS) OpenWhole(dir string) (Whole, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil || !atLeast(name.Release[:], 5, 8) {
		return nil, ErrNotWhole
	}
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, wrapWhole("open", dir, err)
	}
	w := &osWhole{dir: dir}
	w.fd.Store(int32(fd))
	return w, nil
}

// Sync implements Whole.
func (w *osWhole) Sync() error {
	return wrapWhole("syncfs", w.dir, retry(func() error { return unix.Syncfs(int(w.fd.Load())) }))
}

// Close implements Whole.
func (w *osWhole) Close() error {
	return wrapWhole("close", w.dir, unix.Close(int(w.fd.Swap(-1))))
}

// atLeast compares a kernel release ("6.1.0-13-amd64") with a version.
func atLeast(release []byte, major, minor int) bool {
	var got [2]int
	at := 0
	for _, c := range release {
		if c >= '0' && c <= '9' {
			got[at] = got[at]*10 + int(c-'0')
			continue
		}
		if at++; at == len(got) {
			break
		}
	}
	return got[0] > major || got[0] == major && got[1] >= minor
}

// wrapWhole gives an error its directory.
func wrapWhole(op, dir string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: dir, Err: err}
}
