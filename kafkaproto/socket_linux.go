package kafkaproto

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The sockets are non-blocking, so reading and writing them only copies: the calls are made without telling the scheduler. Told of
// each, it would take the processor away from calls that last longer than its 20 microsecond tick, which at full speed is most of
// them, and spend a tenth of the server's time on ticking.

// socketPiece bounds one such call, since nothing else runs on the processor meanwhile, not even the collector.
const socketPiece = 512 << 10

// readSocket is read(2) on a non-blocking socket.
func readSocket(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	b = b[:min(len(b), socketPiece)]
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// writeSocket is writev(2) on a non-blocking socket, of as many pieces from the front as one call takes. vectors is scratch.
func writeSocket(fd int, pieces [][]byte, vectors []unix.Iovec) (int, []unix.Iovec, error) {
	vectors = vectors[:0]
	room := socketPiece
	for _, p := range pieces {
		if len(vectors) == maxVectors || room == 0 {
			break
		}
		if len(p) == 0 {
			continue
		}
		v := unix.Iovec{Base: &p[0]}
		v.SetLen(min(len(p), room))
		room -= min(len(p), room)
		vectors = append(vectors, v)
	}
	if len(vectors) == 0 {
		return 0, vectors, nil
	}
	n, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vectors[0])), uintptr(len(vectors)))
	clear(vectors) // the pieces are not ours to keep alive
	if errno != 0 {
		return 0, vectors, errno
	}
	return int(n), vectors, nil
}
