// Package log is one copy of one shard on disk: segments of record batches, as the producers sent them, and what follows from them.
// It knows nothing of replicas, leaders or the high watermark; it is told a floor that retention must not pass.
//
// # What is where
//
//   - log.go, append.go, read.go, blocks.go, times.go, truncate.go: what callers do. options.go, config.go: what they say first.
//   - segment.go, index.go, indexfile.go, loadindex.go: one file of batches and its sparse index. epochs.go: the leader-epoch table.
//     producers.go, snapshot.go: the state of idempotent producers.
//   - recover.go, recoverscan.go, recoverjudge.go, recoverproducers.go, scan.go: what files add up to; they only read. repair.go
//     carries out what recovery decided. inspect.go shows it.
//   - sync.go: how one log is synced. syncer.go: who does it, for all logs. seal.go: what a rolled segment gets. dirs.go: directories.
//   - retention.go, compact.go, compactwriter.go, offsetmap.go, pace.go: Maintain. files.go: open files. tail.go: the hot tail.
//
// FORMAT.md draws the files. Package journal keeps what is not in the segments.
//
// # Invariants
//
//   - start <= durable end <= end. Offsets are dense, except in compacted segments. Leader epochs never fall from batch to batch.
//   - A batch is whole in one segment, in one place, and visible to readers only when it is whole in the page cache.
//   - What an append wrote is either a whole batch that counts, or is cut off before the append returns, or the log is stopped.
//   - The durable mark is recorded after the syncs that it speaks of: of every segment up to it, in order, and of their names.
//   - A sync that failed, of whatever, stops the log for good: ErrFailed. Nothing is synced or appended after it.
//   - Only what lies at or past the durable mark is ever cut by recovery; where there is no mark, only what a crash leaves.
//   - No batch is given out of a file before its header, its checksum, its place in the order of offsets and its epoch were verified.
//   - Retention and compaction do not touch what reaches past the floor, and never the active segment.
//
// # Who owns what
//
// Append, TruncateTo and AdvanceStart have one caller at a time, the shard's owner. Readers use what is published in atomics: the list
// of segments with the epochs (view), start, end, and of each segment its size, end and index; they take no lock of the log.
// An idle log has no goroutine, no timer and, once the cache needs it, no open file.
//
// # Locks, in this order
//
//  1. Log.turn: whose turn it is to change files beside appending. It guards no state and is held across IO, for as long as a
//     compaction takes; takeTurn makes that give up.
//  2. Log.mu: the state of the log. Held across page-cache writes of an append and the making of a segment's file, and never across a
//     sync, a read or a callback.
//  3. Leaves, taken with Log.mu held and never together: syncState.mu, Syncer.mu, TailCache.mu, FileCache.mu, dirSyncs.mu,
//     loadedIndexes.mu, the journal's.
//
// FileCache.opening is held across the open call of a file, by those who want that file, and before FileCache.mu.
//
// # Sources
//
// The cluster rules, section 2 (durability); spec/kafka.md 3.5, 4.5, 4.6; KIP-98, KIP-101, KIP-360, KIP-534; Kafka's log cleaner.
//
// # Non-obvious
//
//   - A batch's own checksum leaves out its first 21 bytes. Index entries carry a checksum over these, the durable mark one over all of
//     them in the active segment; without it a flipped bit in the leader epoch of the last batch breaks no rule.
//   - The mark in the journal is not synced, so after a crash of the machine it may be far behind. That makes recovery read more and
//     forgive more, never lose what was acknowledged: the damage that a crash does begins behind the last sync.
//   - A roll happens under Log.mu, so it must not sync: sealing is left to the syncer, and recovery scans every segment that
//     reaches past the mark, not only the newest.
//   - A reader may hold a segment whose file was replaced by compaction. It keeps the old file, which compaction holds open until the
//     list has changed; a reader that opens it later finds that its segment is not in the list, and starts over.
//   - The handle cache closes files at any time, but not one with unsynced bytes in periodic mode: Linux tells of a failed writeback
//     to those who have the file open.
//   - Small batches are copied into an arena for the hot tail. Keeping their request's buffer instead would hold a megabyte for a
//     hundred bytes.
//   - A thousand syncs of a thousand files are a thousand commits of the file system's journal, and every append waits for each.
//     With many dirty logs the periodic pass syncs the file system once instead; if that fails, each log asks for itself.
//   - A snapshot of the producers is taken at the roll, under the lock, and written later: by then the producers have moved on. None is
//     taken at a clean close: the active segment is scanned at the next start anyway, and ten thousand logs would be ten thousand files.
//   - A compaction has the turn for as long as it takes, so the syncer must not wait for it: sealInBackground.
//   - An append that failed and was cut off again leaves a file to be synced, although nothing was added to it.
//   - After a crash the newest segment that is left may be a compacted one. It is rolled before the next append.
//   - TruncateTo makes the state anew with the code of recovery, so there is one way to get from files to state.
package log
