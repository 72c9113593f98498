package log

import (
	"errors"
	"io/fs"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/journal"
	"github.com/felixlog/felix/log/recordbatch"
)

// AdvanceStart moves the log start offset up to to (DeleteRecords): what is below cannot be read any more. It is durable on return;
// the files go with the next pass of Maintain. An offset at or below the present start changes nothing.
//
// Errors: *errcode.RangeError if to is above the log end; StorageFailed or Overloaded if it could not be made durable.
func (l *Log) AdvanceStart(to ids.Offset) error {
	start, end := l.start.Load(), l.end.Load()
	if int64(to) > end {
		return &errcode.RangeError{Requested: int64(to), Start: start, End: end}
	}
	if int64(to) <= start {
		l.mu.Lock()
		lingering := len(l.doomed) > 0
		l.mu.Unlock()
		if !lingering {
			return nil
		}
		// Retention has moved the start, but files below it could not be removed yet: the next opening would find them.
		return l.shared.Journal.SetStart(l.shard, ids.Offset(start))
	}
	// A start above what a crash leaves would be a log without an end.
	if l.durable.Load() < int64(to) {
		if err := l.Sync(); err != nil {
			return err
		}
	}
	if err := l.shared.Journal.SetStart(l.shard, to); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raiseStartLocked(to, l.view.Load().segments)
	return nil
}

// raiseStartLocked publishes a log start and the segments that are left.
func (l *Log) raiseStartLocked(to ids.Offset, segments []*segment) {
	if int64(to) > l.start.Load() {
		l.start.Store(int64(to))
	}
	v := l.view.Load()
	l.publishLocked(segments, v.epochs.from(ids.Offset(l.start.Load())))
}

// TruncateTo removes the records at and above end, and the whole batch if end lies inside one. It is durable on return. The caller
// is the one who appends; readers may run alongside, below the new end.
//
// Errors: *errcode.RangeError if end is below the log start; StorageFailed if it could not be carried out, which stops the log.
func (l *Log) TruncateTo(end ids.Offset) error {
	l.takeTurn()
	defer l.turn.Unlock()
	l.mu.Lock()
	err := l.usableLocked()
	v := l.view.Load()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if start := l.start.Load(); int64(end) < start {
		return &errcode.RangeError{Requested: int64(end), Start: start, End: l.end.Load()}
	}
	if int64(end) >= l.end.Load() || len(v.segments) == 0 {
		return nil
	}
	mark, err := l.cutPoint(v, end)
	if err != nil {
		return err
	}
	if err := l.cut(v, mark); err != nil {
		l.fail(err)
		return errcode.Newf(errcode.StorageFailed, "%w: truncate: %w", ErrFailed, err)
	}
	return nil
}

// cutPoint finds where the batches below end stop, as a mark.
func (l *Log) cutPoint(v *view, end ids.Offset) (journal.Mark, error) {
	s := v.segments[v.find(end)]
	m := journal.Mark{End: s.base, Segment: s.base, Bytes: segmentHeaderBytes}
	x := newIndex()
	c := chain{next: s.base, epoch: ids.NoEpoch, gaps: s.compacted}
	done := errors.New("found")
	err := l.withFile(s, func(f fileIO) error {
		_, bad, err := scanFile(f, s.size.Load(), &c, func(pos int64, h *recordbatch.Header, batch []byte) error {
			if ids.Offset(h.NextOffset()) > end {
				return done
			}
			x.add(h.BaseOffset-int64(s.base), pos, batch, h, 1<<30)
			m.End, m.Bytes, m.Headers = ids.Offset(h.NextOffset()), pos+int64(len(batch)), x.total
			return nil
		})
		if bad != nil {
			return l.damageIn(s, bad.suspect, "%v", bad.reason)
		}
		return err
	})
	if err != nil && !errors.Is(err, done) {
		return m, l.readError(end, err)
	}
	if s.compacted {
		m.End = end
	}
	return m, nil
}

// cut removes everything behind a mark: the mark is rewound first, durably, then go snapshots and segments, the newest first, then
// the state is made anew from the files.
//
// The order is what makes a crash harmless. With the mark rewound, whatever is left behind it is unpromised, and may stay or go. A
// snapshot from behind the cut must be gone before anything is written there: it would speak of batches that another history has at
// the same offsets. Segments go from the end, so that what is left never has a hole.
//
// gen tells a sync that is under way that its result says nothing of what is appended from now on.
func (l *Log) cut(v *view, m journal.Mark) error {
	if l.durable.Load() > int64(m.End) || l.shared.Journal.Get(l.shard).Mark > m.End {
		if err := l.shared.Journal.RewindMark(l.shard, m); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.gen++
	l.unsynced, l.seals = nil, nil
	l.mu.Unlock()
	// Readers hold no lock: one that meets a file in between, or files that its list of segments does not speak of, looks again.
	l.cuts.Add(1)
	defer l.cuts.Add(1)
	l.shared.Tail.drop(l.tail, m.End)
	if err := l.removeSnapshotsAbove(m.End); err != nil {
		return err
	}
	for i := len(v.segments) - 1; i >= 0 && v.segments[i].base > m.Segment; i-- {
		if err := l.removeFiles(v.segments[i].base); err != nil {
			return err
		}
	}
	if err := l.removeFile(offsetName(l.dir, m.Segment, indexSuffix)); err != nil {
		return err
	}
	if err := l.act(action{kind: actTruncate, file: offsetName(l.dir, m.Segment, segmentSuffix), size: m.Bytes}); err != nil {
		return err
	}
	r, err := recoverLog(l.recoveryInput())
	if err != nil {
		return err
	}
	err = l.adoptRecovered(r)
	for _, s := range v.segments {
		l.shared.Files.retire(&s.h) // the recovered ones have handles of their own
	}
	return err
}

func (l *Log) removeSnapshotsAbove(end ids.Offset) error {
	entries, err := l.shared.FS.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if off, ok := parseOffsetName(e.Name, producersSuffix); ok && off > end {
			if err := l.removeFile(l.dir + "/" + e.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeFiles removes a segment's index and then the segment, durably.
func (l *Log) removeFiles(base ids.Offset) error {
	if err := l.remove(offsetName(l.dir, base, indexSuffix)); err != nil {
		return err
	}
	return l.removeFile(offsetName(l.dir, base, segmentSuffix))
}

// removeFile removes one file, durably. One that is not there is no error.
func (l *Log) removeFile(name string) error {
	if err := l.remove(name); err != nil {
		return err
	}
	return l.shared.FS.SyncDir(l.dir)
}

func (l *Log) remove(name string) error {
	if err := l.shared.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
