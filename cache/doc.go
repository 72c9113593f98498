// Package cache holds what is read by key: projections of shards, rebuilt from their records.
//
//	commit.go  what a commit changes, as it is stored in its record
//	state.go   the keyed state of a stream's entities: the view of its commits
//
// # Invariants
//
//   - A projection is a function of the committed records below an offset; it is dropped and rebuilt, never repaired.
//   - An answer reflects every commit at or below its offset and none above.
//   - What a projection holds counts against a bound, and against its tenant's share of that; a shard whose state does not fit is refused,
//     not answered in part.
//   - A shard is read by one goroutine for all who ask about it, not for one of them: whoever leaves takes nothing from the others.
//
// # Locks
//
// view.mu, then States.mu. A view's lock is held for one batch at a time, never while a log is read.
package cache
