// Package vfs is the file system as the log sees it: the one door through which all disk access of `log` and `replica` goes,
// so that a test can put a faulty or forgetful disk behind it.
//
// Three implementations:
//
//   - OS, the real thing: raw file descriptors and positional IO. A File is a 24-byte struct without finalizer, poller or seek
//     offset, since a node holds many thousands of them.
//   - Mem, in memory. It remembers for every file and directory what has been synced and what has not, and gives images of
//     itself: as a power loss would leave it (CrashImage) and as a killed process would (ProcessKillImage).
//   - Fault, a wrapper that counts the calls it sees and fails the chosen ones.
//
// # Invariants
//
//   - A WriteAt that returns nil wrote all of its bytes; one that returns an error may have written a prefix of them.
//   - A ReadAt that returns fewer bytes than asked for returns an error, io.EOF at the end of the file.
//   - Errors of the OS implementation are *os.PathError or *os.LinkError around the errno, and Mem returns the same shapes, so
//     errors.Is(err, fs.ErrNotExist) and errors.Is(err, syscall.ENOSPC) work with each.
//   - What a file holds is durable after its Sync or Datasync; that a file exists under its name is durable after SyncDir of the
//     directory. Mem takes this literally (POSIX): syncing a file does not make its name durable, although some file systems do
//     that too.
//
// # Ownership and locks
//
// A File may be used by any number of goroutines at once, except that nobody may be in another call when Close is called: a
// number of a closed descriptor is reused at once by the kernel, so the owner counts its readers first. Mem and Fault each have
// one lock, never held while they call the other one or a hook; their order is Fault before Mem.
//
// # Sources
//
// POSIX open, pread, pwrite, rename, fsync. The crash model is that of spec/cluster.md 10: any part of what was not synced
// may survive, in units of a sector.
//
// # Non-obvious
//
//   - O_APPEND is refused. On Linux pwrite ignores its offset on such a file, and everything here is positional.
//   - After a failed fsync the kernel may mark the dirty pages clean, so that the next fsync succeeds without having written
//     them. Fault tells Mem to behave just so; whoever retries a failed sync is found out by the next CrashImage.
//   - Preallocate does not change the size of the file. A log that was preallocated and then killed still ends where its last
//     write ended.
//   - Linux writes at most 0x7ffff000 bytes a call and may write less at any time (signals, a disk about to be full). The OS
//     implementation completes short writes and reports the error that ends them.
package vfs
