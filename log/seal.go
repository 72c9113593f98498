package log

import (
	"errors"
	"io/fs"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/ids"
)

// keptSnapshots is how many producer snapshots of a log are kept: the newest, and one in case it is damaged.
const keptSnapshots = 2

// pendingSeal is a segment that is not active any more and whose index and snapshot are still to be written. Until then its index is
// in memory, and a crash costs the next opening a scan.
type pendingSeal struct {
	segment  *segment
	end      ids.Offset
	snapshot []byte // the producers as they are at end
}

// sealPending writes index and snapshot of the segments that were rolled and are synced by now. Without space it leaves them for
// later: the index stays in memory, and recovery can do without the files.
func (l *Log) sealPending() error {
	if !l.hasSeals() {
		return nil
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	return l.sealInTurn()
}

// sealInBackground is sealPending for the syncer: if somebody has the turn, perhaps a compaction for minutes, it leaves the work to him.
func (l *Log) sealInBackground() error {
	if !l.hasSeals() || !l.turn.TryLock() {
		return nil
	}
	defer l.turn.Unlock()
	return l.sealInTurn()
}

func (l *Log) hasSeals() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seals) > 0 && l.usableLocked() == nil
}

// sealInTurn does the work of sealPending. The caller has the turn.
func (l *Log) sealInTurn() error {
	for {
		l.mu.Lock()
		if err := l.usableLocked(); err != nil {
			l.mu.Unlock()
			return err
		}
		if len(l.seals) == 0 || l.seals[0].segment.unsynced() {
			l.mu.Unlock()
			return nil
		}
		seal := l.seals[0]
		v := l.view.Load()
		l.mu.Unlock()
		if err := l.seal(&seal, v.epochs); err != nil {
			return err
		}
		l.mu.Lock()
		seal.segment.sealed = true
		l.seals = l.seals[1:]
		if len(l.seals) == 0 {
			l.seals = nil
		}
		l.mu.Unlock()
		l.shared.indexes.keep(seal.segment)
	}
}

// seal writes the files of one seal. The caller has the turn, so the segment can neither go nor be cut meanwhile.
//
// The snapshot comes first: without the index a segment is scanned, which finds its producers again, but a snapshot that is missing
// beside an index that is there has the opening read more than it would have to.
func (l *Log) seal(p *pendingSeal, epochs epochTable) error {
	if err := l.writeHint(offsetName(l.dir, p.end, producersSuffix), p.snapshot); err != nil {
		return err
	}
	if err := l.writeIndex(p.segment, epochs); err != nil {
		return err
	}
	if size := p.segment.size.Load(); p.segment.reserved > size {
		// Gives back what was reserved behind the end. A failure costs space, and retention gives that back too.
		_ = l.withFile(p.segment, func(f fileIO) error { return f.Truncate(size) })
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	return l.dropSnapshots(p.end)
}

// writeIndex writes the index file of a segment whose index is in memory.
func (l *Log) writeIndex(s *segment, epochs epochTable) error {
	x := s.idx.Load()
	if x == nil {
		return nil
	}
	head := indexHead{
		identity: s.identity, base: s.base, end: s.endOffset(), fileBytes: s.size.Load(), largest: s.largest.Load(),
		first: s.first, block: x.block, total: x.total, epochs: epochs.between(s.base, s.endOffset()),
	}
	return l.writeHint(offsetName(l.dir, s.base, indexSuffix), appendIndexFile(nil, head, x.view()))
}

// writeHint writes a file that recovery can do without, and syncs it. A sync that fails stops the log all the same: the disk is not
// to be trusted.
func (l *Log) writeHint(name string, b []byte) error {
	syncFailed, err := writeFile(l.shared.FS, name, b, true)
	if syncFailed {
		l.fail(err)
	}
	return err
}

// syncDir syncs the log's directory; a failure stops the log.
func (l *Log) syncDir() error {
	err := l.shared.FS.SyncDir(l.dir)
	if err != nil {
		l.fail(err)
	}
	return err
}

// fail stops the log after a failed sync outside of runSync, and reports it.
func (l *Log) fail(err error) {
	l.mu.Lock()
	first := l.failed == nil
	err = l.failLocked(err)
	report := first && l.onDurable != nil && l.appended
	durable := ids.Offset(l.durable.Load())
	l.mu.Unlock()
	if first {
		l.shared.Metrics.SyncFailures.Inc()
		l.logger().Error("sync failed: the log is stopped", zap.Error(err))
		l.noteSyncFailed()
	}
	if report {
		l.onDurable(durable, err)
	}
}

// noteSyncFailed tells the next process that what is above the mark may not be what a sync would write: see rewriteUnsynced.
func (l *Log) noteSyncFailed() {
	if err := l.shared.Journal.NoteSyncFailed(l.shard); err != nil {
		l.logger().Warn("the journal does not take note of a failed sync", zap.Error(err))
	}
}

// dropSnapshots removes producer snapshots but the newest ones at or below newest. A failure is of no consequence.
func (l *Log) dropSnapshots(newest ids.Offset) error {
	entries, err := l.shared.FS.ReadDir(l.dir)
	if err != nil {
		return err
	}
	kept := 0
	for i := len(entries) - 1; i >= 0; i-- {
		off, ok := parseOffsetName(entries[i].Name, producersSuffix)
		if !ok {
			continue
		}
		if kept++; kept <= keptSnapshots && off <= newest {
			continue
		}
		if err := l.shared.FS.Remove(l.dir + "/" + entries[i].Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
