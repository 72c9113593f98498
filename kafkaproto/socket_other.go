//go:build !linux

package kafkaproto

import "golang.org/x/sys/unix"

// readSocket is read(2) on a non-blocking socket.
func readSocket(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

// writeSocket is write(2) on a non-blocking socket, of the first piece that is not empty. vectors is passed through.
func writeSocket(fd int, pieces [][]byte, vectors []unix.Iovec) (int, []unix.Iovec, error) {
	for _, p := range pieces {
		if len(p) > 0 {
			n, err := unix.Write(fd, p)
			return n, vectors, err
		}
	}
	return 0, vectors, nil
}
