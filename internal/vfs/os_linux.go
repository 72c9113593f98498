package vfs

import "golang.org/x/sys/unix"

func fsync(fd int) error     { return unix.Fsync(fd) }
func fdatasync(fd int) error { return unix.Fdatasync(fd) }

func preallocate(fd int, off, n int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n)
}
