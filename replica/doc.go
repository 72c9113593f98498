// Package replica is one copy of one shard: it decides what is committed, who leads, and who may wait for what.
//
// It owns the high watermark, the leader epoch and the waiters of a shard. Nothing else does: the log below knows bytes and
// offsets, the broker above knows names and front ends. A replica set has one member for now; positions of followers enter
// the same machine through progress, so replication is added inside this package.
//
// Parts:
//
//	machine.go   the pure step function: inputs (append, durable, leadership, failure), no clock, lock, goroutine or IO
//	progress.go  how far each member of the replica set is known to hold the log
//	quorum.go    the committed position that follows from those
//	waiters.go   who waits for which offset
//	replica.go   drives the machine under the shard's lock, on whichever goroutine brings the input
//	ports.go     what it asks of the copy below, on disk or in memory
//
// Invariants:
//   - log start <= high watermark <= log end, and the high watermark never falls within one leadership.
//   - a record is committed when enough of the replica set holds it, where "holds" follows the sync mode: written for none and
//     periodic, synced for on_commit. So under on_commit no reader and no acknowledgement is ahead of the device.
//   - after a failed sync the copy is stopped: nothing at or above the durable end is acknowledged or served any more.
//   - a waiter is notified exactly once, outside the lock, or removed by CancelWait.
//   - the leader epoch only rises.
//
// Locks: Replica.mu only. The log's page-cache write happens under it (design decision 3); syncs, reads and notifications never.
//
// Sources: cluster rules sections 2 and 3; KIP-101 for leader epochs; design sections 4 and 10.
//
// Non-obvious:
//   - Notify runs on the goroutine that moved the high watermark, often another client's: it must not block.
package replica
