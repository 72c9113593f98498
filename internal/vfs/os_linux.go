package vfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func fsync(fd int) error     { return unix.Fsync(fd) }
func fdatasync(fd int) error { return unix.Fdatasync(fd) }

func preallocate(fd int, off, n int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n)
}

// cachedPiece bounds one call of preadCached, since nothing else runs on the processor meanwhile.
const cachedPiece = 512 << 10

// preadCached reads what the page cache holds of a file at off, from the front of b, and does not wait for the disk. Since it cannot
// block, the scheduler is not told: told, it would take the processor away from every call that lasts longer than its tick, as those
// of a large read do. 0 says nothing: not cached, at the end, or not supported. The caller reads the rest with pread.
func preadCached(fd int, b []byte, off int64) int {
	if off < 0 {
		return 0 // to the call, -1 is the file's own position
	}
	n := 0
	for n < len(b) {
		piece := b[n:min(len(b), n+cachedPiece)]
		v := unix.Iovec{Base: &piece[0]}
		v.SetLen(len(piece))
		at := uint64(off) + uint64(n)
		m, _, errno := unix.RawSyscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&v)), 1, uintptr(at), uintptr(at>>32), unix.RWF_NOWAIT)
		if errno != 0 || m == 0 {
			return n
		}
		n += int(m)
	}
	return n
}
