package main

import (
	"sync"

	"golang.org/x/sys/unix"
)

// warmMemory has the machine hold n bytes of memory that is really there, and returns what gives them back: the page cache that is
// filled next takes them. A virtual machine whose host hands memory out lazily, and takes back what is free, makes writers of files pay
// for that otherwise, several times what the write costs.
func warmMemory(n int) (release func(), err error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // refused: it only takes longer
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	return sync.OnceFunc(func() { _ = unix.Munmap(b) }), nil
}
