package log

import (
	"errors"
	"io/fs"
	"os"

	"go.uber.org/zap"
)

func (l *Log) recoveryInput() recoveryInput {
	s := l.shared
	return recoveryInput{
		fs: s.FS, dir: l.dir, name: l.name, entry: s.Journal.Get(l.shard), verifyAll: s.VerifyAllOnOpen,
		repairTail: s.RepairChecksumTail, interval: int64(l.cfg.IndexIntervalBytes), producers: s.MaxProducers,
		batches: s.ProducerBatches, now: s.nowMs(),
	}
}

// adoptRecovered carries out the repairs and makes what was recovered the state of the log. TruncateTo comes through here too, so
// it replaces whatever state there was.
//
// What was found beyond the mark is in the page cache for all that is known (the process was killed) and will be synced like any
// append. Under on_commit it is synced before anybody can read it: there, what is read is on the device.
func (l *Log) adoptRecovered(r *recovered) error {
	if err := l.repair(r); err != nil {
		return err
	}
	entry := l.shared.Journal.Get(l.shard)
	l.mu.Lock()
	l.producers = r.producers
	if r.noState {
		l.shared.Metrics.ProducersRebuilt.Inc()
	}
	l.start.Store(int64(r.start))
	l.end.Store(int64(r.end))
	l.floor.Store(max(l.floor.Load(), int64(r.start)))
	// Without a mark nothing is known to be synced, which is not the same as nothing being there.
	durable := r.start
	if entry.MarkKnown {
		durable = max(min(entry.Mark, r.end), r.start)
	}
	if len(r.segments) == 0 {
		durable = r.end
	}
	l.durable.Store(int64(durable))
	for _, s := range r.segments {
		switch {
		case s.sealed || entry.MarkKnown && s.base < entry.MarkSegment:
			s.synced = s.size.Load()
		case entry.MarkKnown && s.base == entry.MarkSegment: // of one behind it not even the header is known to be synced
			s.synced = min(entry.MarkBytes, s.size.Load())
		}
	}
	for _, old := range l.view.Load().segments { // of a log that is being truncated
		for _, s := range r.segments {
			if s.base == old.base {
				s.synced, s.doubtful = min(s.synced, old.synced), old.doubtful
			}
		}
	}
	if n := len(r.segments); n > 0 {
		l.active = r.segments[n-1]
		l.active.doubtful = true // the process before may have cut off a write that failed, and ended before it synced that
		for _, s := range r.segments[:n-1] {
			s.frozen.Store(true)
			l.addUnsyncedSegmentLocked(s)
		}
	}
	l.seals = r.seals
	l.publishLocked(r.segments, r.epochs)
	rewrite := entry.SyncFailed && l.active != nil
	dirty := rewrite || l.active != nil && (len(l.unsynced) > 0 || l.active.synced < l.active.size.Load())
	if l.active != nil {
		// The names that were found may be no more durable than the bytes. The first sync will see to it.
		l.dirtyDir = true
		l.madeDir = l.shared.dirs.made()
	}
	if dirty {
		l.markDirtyLocked()
	}
	l.mu.Unlock()
	l.writeRebuilt(r)
	if rewrite {
		if err := l.rewriteUnsynced(r.segments); err != nil {
			return err
		}
		return l.Sync()
	}
	if dirty && l.shared.Syncer.mode == SyncOnCommit {
		return l.Sync() // what is served under on_commit is on the device
	}
	if len(r.seals) > 0 {
		l.RequestSync()
	}
	return nil
}

// rewriteUnsynced writes again, as it reads it, everything above the mark of a log whose last process had a sync fail. Linux counts
// the pages of such a sync as clean, so no later sync would write them, and what is appended behind them would stand behind a hole.
func (l *Log) rewriteUnsynced(segments []*segment) error {
	l.logger().Warn("a sync had failed: unsynced records are written again", zap.Int64("from", l.durable.Load()))
	buffer := make([]byte, writeChunk)
	for i, s := range segments {
		if s.sealed && i < len(segments)-1 {
			continue
		}
		err := l.withFile(s, func(f fileIO) error {
			size := s.size.Load()
			for pos := min(s.synced, size); pos < size; {
				b := buffer[:min(int64(len(buffer)), size-pos)]
				if n, err := f.ReadAt(b, pos); n < len(b) {
					return err
				}
				if _, err := f.WriteAt(b, pos); err != nil {
					return err
				}
				pos += int64(len(b))
			}
			return f.Sync() // the length as well: it may be that of a truncation whose sync failed
		})
		if err != nil {
			return err
		}
	}
	return l.shared.FS.SyncDir(l.dir)
}

// writeRebuilt writes the indexes of sealed segments anew. They stay in memory where that fails; the next opening tries again.
func (l *Log) writeRebuilt(r *recovered) {
	for _, s := range r.rebuilt {
		l.shared.Metrics.IndexRebuilt.Inc()
		s.sealed = true
		if err := l.writeIndex(s, r.epochs); err != nil {
			l.logger().Warn("rebuilt index is not written", zap.Int64("segment", int64(s.base)), zap.Error(err))
			continue
		}
		l.shared.indexes.keep(s)
	}
}

// repair carries out the actions of a recovery, in order. Each is durable before the next, so that a crash leaves a state that
// recovery would have chosen on its way.
func (l *Log) repair(r *recovered) error {
	for _, a := range r.actions {
		l.logger().Warn("log is repaired", zap.String("file", a.file), zap.String("why", a.why), zap.Int64("size", a.size), zap.Int64("bytes_cut", a.lost))
		l.shared.Metrics.RecoveryTruncated.Add(float64(a.lost))
		if err := l.act(a); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) act(a action) error {
	if a.kind == actRemove {
		if err := l.shared.FS.Remove(a.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return l.shared.FS.SyncDir(l.dir)
	}
	f, err := l.shared.FS.OpenFile(a.file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := f.Truncate(a.size); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
