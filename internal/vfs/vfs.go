package vfs

import (
	"io"
	"os"
)

// FS is a file system. Names are slash-separated paths; an implementation does not change the working directory. All methods
// may be called concurrently. Changes of names (OpenFile with os.O_CREATE, Remove, RemoveAll, Rename, MkdirAll) are visible at
// once and durable after SyncDir of each directory that they touched.
type FS interface {
	// OpenFile opens the named file with the given os.O_* flags; perm is used when it is created. os.O_APPEND is refused with
	// EINVAL. It is not for directories.
	OpenFile(name string, flag int, perm os.FileMode) (File, error)
	// Remove removes a file or an empty directory. An open File stays usable until it is closed.
	Remove(name string) error
	// RemoveAll removes name and everything below it. A name that does not exist is no error. On an error a part may be gone.
	RemoveAll(name string) error
	// Rename gives the file or directory oldName the name newName, atomically replacing a file that has it. A
	// directory is never replaced, not even an empty one.
	Rename(oldName, newName string) error
	// MkdirAll makes a directory and those above it. One that exists is no error.
	MkdirAll(name string, perm os.FileMode) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]DirEntry, error)
	// Stat describes a file or a directory.
	Stat(name string) (Info, error)
	// SyncDir makes the entries of a directory durable: after it, what was created in it is found after a power loss, and what
	// was removed from it is gone.
	SyncDir(name string) error
}

// File is an open file with positional IO only; there is no current offset. All methods but Close may be called concurrently;
// Close only when no other call is running or will come.
type File interface {
	// ReaderAt: fewer bytes than len(p) come with an error, io.EOF at the end of the file.
	io.ReaderAt
	// WriterAt: fewer bytes than len(p) come with an error. Writing past the end extends the file; a gap reads as zeros.
	io.WriterAt
	// Closer: a second Close returns an error that matches os.ErrClosed. Close syncs nothing.
	io.Closer

	// Size returns the size of the file in bytes.
	Size() (int64, error)
	// Truncate sets the size: it cuts the file off, or extends it with zeros.
	Truncate(size int64) error
	// Sync makes data and metadata of the file durable, but not its name: see FS.SyncDir. After an error nothing is known of
	// what is on disk, and a later Sync that succeeds proves nothing about the earlier writes.
	Sync() error
	// Datasync is Sync without the metadata that is not needed to read the data back: the size is made durable, times are not.
	Datasync() error
	// Preallocate reserves disk blocks for [off, off+n) without changing the size. It is a hint: where the file system cannot,
	// it does nothing and returns nil. ENOSPC is returned.
	Preallocate(off, n int64) error
}

// DirEntry is one name in a directory.
type DirEntry struct {
	// Name is the last element of the path.
	Name string
	// IsDir says that it is a directory.
	IsDir bool
}

// Info describes a file or a directory.
type Info struct {
	// Size in bytes; of no meaning for a directory.
	Size int64
	// IsDir says that it is a directory.
	IsDir bool
}
