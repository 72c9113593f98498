package vfs

import "golang.org/x/sys/unix"

// fsync asks for F_FULLFSYNC: on this system fsync alone leaves the data in the drive's cache.
func fsync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}

func fdatasync(fd int) error { return fsync(fd) }

func preallocate(int, int64, int64) error { return nil }

// preadCached reads nothing: there is no such call here.
func preadCached(int, []byte, int64) int { return 0 }
