// Package buf is the reference-counted byte buffer that requests, the hot tail of a log, shipping and fan-out share.
//
// Why: memory touched for the first time costs 2 to 4 microseconds per 4 KiB, so buffers are reused by size class, and one
// copy of a producer's bytes serves the disk write, the readers of the tail and the followers.
//
// Invariants: a Ref's bytes do not change while more than one holder has it, except through a holder that the owner's
// contract names (the log stamps offset and leader epoch before it shares a batch). A Ref goes back to its pool when the
// last holder releases it; using it afterwards is a bug, which test builds catch by poisoning the bytes.
// The pool keeps at most its limit in bytes; what is over goes to the garbage collector.
//
// Concurrency: Pool and Ref are safe for concurrent use. Lock order: a Pool's class locks are leaves.
//
// Non-obvious:
//   - sync.Pool is not used: it assumes items of equal cost, is emptied by the collector exactly when memory is busy, and
//     storing a slice in it allocates.
//   - free lists are last in, first out, so that the warmest buffer is handed out next.
package buf
