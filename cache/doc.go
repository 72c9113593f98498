// Package cache holds what is read by key: projections of shards, rebuilt from their records.
//
//	commit.go  what a commit changes, as it is stored in its record
//	state.go   the keyed state of a stream's entities: the view of its commits
//
// # Invariants
//
//   - A projection is a function of the committed records below an offset; it is dropped and rebuilt, never repaired.
//   - An answer reflects every commit at or below its offset and none above.
//   - What a projection holds counts against a bound; a shard whose state does not fit is refused, not answered in part.
//
// # Locks
//
// States.mu, then view.mu. A view's lock is held while its shard is read: readers of one shard's state wait for its replay together.
package cache
