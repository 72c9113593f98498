// Package journal is the one small file in which a node keeps what must be remembered about every shard copy beside its
// segments: the durable mark, the explicit log start offset, the floor of retention, and the promise (the highest leader epoch
// accepted, and from whom). One file for all shards, so that ten thousand of them cost one sync and not ten thousand.
//
// # Invariants
//
//   - SetStart, SetFloor, SetPromise, RewindMark, Forget, SetClean and a consumed TakeClean are on disk and synced when they
//     return nil. Callers that come at the same time share one sync (group commit).
//   - A mark is written after the sync that it speaks of, and never synced itself: it may be behind what is on disk, never
//     ahead. RewindMark is the exception in both: it comes first, and is synced.
//   - An entry that is absent reads as zero. An entry that is damaged refuses to open: zero would accept any leader.
//   - The newest complete file is the state; older ones are removed. A file is rewritten (a checkpoint) once it has grown.
//
// # Recovery
//
// Every record carries the length of the file that was known to be synced when it was written, and each sync is followed by a
// note that says so. Damage below the largest such length is an error with file and position. Damage above it is what a crash
// left of writes that nobody was told of, and is cut off.
//
// # Locks
//
// Journal.mu alone. It is never held across a write or a sync: the goroutine that finds nobody writing takes the whole batch,
// unlocks, writes it, and wakes the others.
//
// # Sources
//
// The cluster rules, sections 2.3, 2.4 and 2.7; FORMAT.md of package log for the layout.
//
// # Non-obvious
//
//   - A failed sync latches the journal for good, because the kernel may drop the pages and report success the next time.
//     A failed write does not: the file is cut back to its last record and the caller gets Overloaded.
//   - State changes when a record is on disk, not when it is queued, so that a refused write leaves no trace in Get.
//   - A journal that was made new beside existing shards knows nothing, which is not the same as knowing that nothing was
//     synced. Entry.MarkKnown tells the two apart, and recovery is stricter without it.
package journal
