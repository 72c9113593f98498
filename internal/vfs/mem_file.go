package vfs

import (
	"io"
	"os"
	"sync/atomic"
	"syscall"
)

// memNode is a file or a directory. Everything is guarded by Mem.mu.
type memNode struct {
	dir bool

	// Of a directory: what a reader sees, and what a power loss leaves for certain.
	entries       map[string]*memNode
	syncedEntries map[string]*memNode

	// Of a file: what a reader sees, what a power loss leaves for certain, and the changes from the second to the first.
	data    []byte
	synced  []byte
	pending []dataOp
}

// dataOp is one change of a file that is not durable yet: a write of bytes at off, or, with bytes nil, a truncation to off.
// The bytes are never changed, so images share them.
type dataOp struct {
	bytes []byte
	off   int64
}

func newMemDir() *memNode {
	return &memNode{dir: true, entries: map[string]*memNode{}, syncedEntries: map[string]*memNode{}}
}

func (n *memNode) truncate(size int64) {
	n.data = resized(n.data, size)
	n.pending = append(n.pending, dataOp{off: size})
}

func (n *memNode) write(p []byte, off int64) {
	own := append(make([]byte, 0, len(p)), p...)
	n.data = overwrite(n.data, own, off)
	n.pending = append(n.pending, dataOp{bytes: own, off: off})
}

// sync makes the content durable.
func (n *memNode) sync() {
	for _, op := range n.pending {
		if op.bytes == nil {
			n.synced = resized(n.synced, op.off)
		} else {
			n.synced = overwrite(n.synced, op.bytes, op.off)
		}
	}
	n.pending = nil
}

// loseWrites is what a failed fsync does to a page cache: the pages stay readable and count as clean, so nothing will ever
// write them. Sizes are metadata and survive.
func (n *memNode) loseWrites() {
	n.pending = []dataOp{{off: int64(len(n.data))}}
}

// resized returns b cut off or extended with zeros.
func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

// overwrite returns b with p at off, extended as needed.
func overwrite(b, p []byte, off int64) []byte {
	if end := off + int64(len(p)); end > int64(len(b)) {
		b = resized(b, end)
	}
	copy(b[off:], p)
	return b
}

// memFile is an open handle.
type memFile struct {
	fs                 *Mem
	node               *memNode
	name               string
	readable, writable bool
	closed             atomic.Bool
}

// check returns an error if the handle is closed or was not opened for this.
func (f *memFile) check(allowed bool) error {
	if f.closed.Load() {
		return os.ErrClosed
	}
	if !allowed {
		return syscall.EBADF
	}
	return nil
}

func (f *memFile) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: f.name, Err: err}
}

// ReadAt implements io.ReaderAt.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	err := f.check(f.readable)
	if err == nil && off < 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, f.wrap("read", err)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.check(f.writable)
	if err == nil && off < 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, f.wrap("write", err)
	}
	if len(p) == 0 {
		return 0, nil
	}
	f.fs.mu.Lock()
	f.node.write(p, off)
	f.fs.mu.Unlock()
	f.fs.done(Op{Kind: OpWrite, Path: f.name, Off: off, Len: int64(len(p))}, nil)
	return len(p), nil
}

// Close implements io.Closer.
func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return f.wrap("close", os.ErrClosed)
	}
	return nil
}

// Size implements File.
func (f *memFile) Size() (int64, error) {
	if err := f.check(true); err != nil {
		return 0, f.wrap("stat", err)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), nil
}

// Truncate implements File.
func (f *memFile) Truncate(size int64) error {
	err := f.check(f.writable)
	if err == nil && size < 0 {
		err = syscall.EINVAL
	}
	if err == nil {
		f.fs.mu.Lock()
		f.node.truncate(size)
		f.fs.mu.Unlock()
	}
	f.fs.done(Op{Kind: OpTruncate, Path: f.name, Off: size}, err)
	return f.wrap("truncate", err)
}

// Sync implements File.
func (f *memFile) Sync() error { return f.sync(OpSync, "fsync") }

// Datasync implements File. It does what Sync does: there is no metadata here that is not needed to read the data back.
func (f *memFile) Datasync() error { return f.sync(OpDatasync, "fdatasync") }

func (f *memFile) sync(kind OpKind, name string) error {
	err := f.check(true)
	if err == nil {
		f.fs.mu.Lock()
		f.node.sync()
		f.fs.mu.Unlock()
	}
	f.fs.done(Op{Kind: kind, Path: f.name}, err)
	return f.wrap(name, err)
}

// Preallocate implements File: there is nothing to reserve.
func (f *memFile) Preallocate(int64, int64) error {
	return f.wrap("fallocate", f.check(f.writable))
}

// loseUnsynced implements unsyncedLoser.
func (f *memFile) loseUnsynced() {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.loseWrites()
}
