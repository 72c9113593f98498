package log

import (
	"errors"
	"math"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

const (
	// writeChunk bounds one write: larger ones take cold memory for the page cache and cost several times as much.
	writeChunk = 256 << 10
	// reserveFrom is the size from which disk space is reserved ahead, so that small logs stay small.
	reserveFrom = 1 << 20
	// maxReserve bounds one reservation.
	maxReserve = 32 << 20
)

// fileIO is what the log does with an open file.
type fileIO = vfs.File

// Origin says where a batch comes from.
type Origin uint8

// The origins.
const (
	// OriginClient is a producer: sequences are checked.
	OriginClient Origin = iota
	// OriginReplica is the shard's leader: the batch has its offset and epoch already.
	OriginReplica
	// OriginCoordinator is a coordinator of this node: its state, or markers. A batch may be larger than a segment, which then holds
	// nothing else: the largest group must be storable.
	OriginCoordinator
)

// AppendInput is one batch to append.
type AppendInput struct {
	// Batch is exactly one validated batch. Base offset and leader epoch are stamped in place, unless it comes from a replica;
	// the caller gives the bytes up.
	Batch []byte
	// Owner holds Batch. The log retains it if it keeps the bytes. Nil means that nobody does, and the log copies.
	Owner *buf.Ref
	// Epoch is the leader epoch to stamp; of a replicated batch, the one that it carries.
	Epoch  ids.LeaderEpoch
	Origin Origin
	// Header is the parsed header of Batch.
	Header recordbatch.Header
	// Sequence is all of a native producer's sequence; the header has its low 31 bits. Of other producers it says nothing.
	Sequence uint64
	// Conditional has the batch appended only if its first record gets the offset Expected.
	Conditional bool
	Expected    ids.Offset
}

// AppendResult says where a batch is.
type AppendResult struct {
	// Base is the offset of its first record, Next the offset behind its last.
	Base, Next ids.Offset
	// Duplicate says that the batch was a re-send: Base, Next and MaxTimestamp are the original's and nothing was written. Of a native
	// producer only the sequence was compared: whether the payloads are the same is found out by reading the original.
	Duplicate bool
	// MaxTimestamp is the largest timestamp of the batch, in milliseconds.
	MaxTimestamp int64
}

// Append writes one batch as the next records: into the page cache, not to the device; see RequestSync and SyncNow. One caller at a
// time; reads run alongside. On an error nothing was appended.
//
// Errors, by kind: FencedEpoch for an epoch older than the log's latest; OutOfOrderSequence and InvalidProducerEpoch by the rules of
// idempotence (spec/kafka.md 3.5), *errcode.SequenceError by those of native producers; OffsetMismatch; RecordListTooLarge for a batch larger than a segment; Overloaded when a write failed, as on a full
// disk, and was undone; StorageFailed when the log is stopped.
func (l *Log) Append(in AppendInput) (AppendResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return AppendResult{}, err
	}
	h := &in.Header
	end := ids.Offset(l.end.Load())
	epochs := l.view.Load().epochs
	if in.Epoch < epochs.latest() {
		return AppendResult{}, ErrFencedEpoch
	}
	if int64(len(in.Batch)) > l.cfg.SegmentBytes && in.Origin == OriginClient {
		return AppendResult{}, ErrRecordListTooLarge
	}
	if in.Origin == OriginReplica && ids.Offset(h.BaseOffset) != end {
		return AppendResult{}, ErrNotNext
	}
	if in.Origin == OriginClient && h.HasProducer() {
		dup, err := l.checkProducerLocked(&in, end)
		if err != nil {
			return AppendResult{}, err
		}
		if dup != nil {
			return dup.result(h.ProducerID), nil
		}
	}
	if in.Conditional && in.Expected != end {
		return AppendResult{}, &errcode.OffsetMismatchError{Tail: int64(end)}
	}
	if err := l.roomLocked(h, len(in.Batch), end); err != nil {
		return AppendResult{}, err
	}
	recordbatch.SetBaseOffset(in.Batch, int64(end))
	recordbatch.SetLeaderEpoch(in.Batch, int32(in.Epoch))
	h.BaseOffset, h.LeaderEpoch = int64(end), int32(in.Epoch)
	pos := l.active.size.Load()
	if err := l.writeLocked(in.Batch, pos); err != nil {
		return AppendResult{}, err
	}
	next := ids.Offset(h.NextOffset())
	l.appendedLocked(&in, pos, next, epochs)
	return AppendResult{Base: end, Next: next, MaxTimestamp: h.MaxTimestamp}, nil
}

// checkProducerLocked judges the batch of an idempotent producer by the rules of its kind.
func (l *Log) checkProducerLocked(in *AppendInput, end ids.Offset) (*sentBatch, error) {
	if IsNativeProducer(in.Header.ProducerID) {
		return l.producers.checkNative(in.Header.ProducerID, in.Sequence)
	}
	return l.producers.check(&in.Header, end == 0)
}

// appendedLocked takes note of a batch that was written at pos.
func (l *Log) appendedLocked(in *AppendInput, pos int64, next ids.Offset, epochs epochTable) {
	s, h := l.active, &in.Header
	base := ids.Offset(h.BaseOffset)
	s.note(pos, h, in.Batch, int64(l.cfg.IndexIntervalBytes))
	if in.Epoch > epochs.latest() {
		l.publishLocked(l.view.Load().segments, epochs.with(in.Epoch, base))
	}
	if h.HasProducer() {
		before := l.producers.evicted
		if in.Origin == OriginClient && IsNativeProducer(h.ProducerID) {
			l.producers.appendNative(h, in.Sequence, base, l.shared.nowMs())
		} else {
			l.producers.append(h, base, l.shared.nowMs())
		}
		if n := l.producers.evicted - before; n > 0 {
			l.shared.Metrics.ProducersEvicted.Add(float64(n))
		}
	}
	l.shared.Tail.insert(l.tail, base, next, pos, in.Batch, in.Owner)
	l.end.Store(int64(next)) // last: a reader that sees the new end finds everything below it
	l.appended = true
	l.appends++
	l.bytes += int64(len(in.Batch))
	l.addUnsyncedLocked(int64(len(in.Batch)))
	l.markDirtyLocked()
}

// note takes a batch that is in the file at pos into the segment's index and marks.
func (s *segment) note(pos int64, h *recordbatch.Header, batch []byte, interval int64) {
	if s.first == noTimestamp {
		s.first = h.MaxTimestamp
	}
	s.idx.Load().add(h.BaseOffset-int64(s.base), pos, batch, h, interval)
	if h.MaxTimestamp > s.largest.Load() {
		s.largest.Store(h.MaxTimestamp)
	}
	s.size.Store(pos + int64(len(batch)))
	s.setEnd(ids.Offset(h.NextOffset()))
}

// roomLocked makes sure that a batch of n bytes goes whole into the active segment: it begins one if there is none, and rolls
// before the write if there must be a new one.
func (l *Log) roomLocked(h *recordbatch.Header, n int, end ids.Offset) error {
	s := l.active
	if s == nil {
		return l.beginLocked(end)
	}
	if s.compacted {
		// What was active behind it was lost in a crash. Its header says where its offsets end, so nothing is appended to it.
		return l.rollLocked()
	}
	size := s.size.Load()
	if size == segmentHeaderBytes {
		return nil
	}
	full := size+int64(n) > l.cfg.SegmentBytes
	far := int64(end-s.base)+int64(h.LastOffsetDelta) > math.MaxInt32
	old := s.first >= 0 && h.MaxTimestamp >= 0 && h.MaxTimestamp-s.first > l.cfg.SegmentAge.Milliseconds()
	if !full && !far && !old {
		return nil
	}
	return l.rollLocked()
}

// beginLocked makes the directory and the first segment, at end.
func (l *Log) beginLocked(end ids.Offset) error {
	if err := l.shared.FS.MkdirAll(l.dir, 0o700); err != nil {
		return l.writeFailedLocked("make the directory", err)
	}
	// Noted after the directory was made and before anybody can sync those above.
	l.madeDir = l.shared.dirs.made()
	return l.newSegmentLocked(end)
}

// newSegmentLocked makes a segment at end and makes it the active one.
func (l *Log) newSegmentLocked(end ids.Offset) error {
	if err := l.shared.Files.room(); err != nil {
		return err
	}
	s, f, err := createSegment(l.shared.FS, l.dir, end, l.shared.nowMs())
	if err != nil {
		return l.writeFailedLocked("make a segment", err)
	}
	l.dirtyDir = true
	l.shared.Files.adopt(&s.h, f)
	l.shared.Files.release(&s.h)
	v := l.view.Load()
	l.active = s
	l.publishLocked(append(v.segments[:len(v.segments):len(v.segments)], s), v.epochs)
	return nil
}

// rollLocked ends the active segment and begins the next. The old one is synced, and its index and the producer snapshot written,
// in the background.
func (l *Log) rollLocked() error {
	old, end := l.active, ids.Offset(l.end.Load())
	if err := l.newSegmentLocked(end); err != nil {
		return err
	}
	old.frozen.Store(true)
	l.shared.Metrics.SegmentsRolled.Inc()
	l.seals = append(l.seals, pendingSeal{
		segment:  old,
		end:      end,
		snapshot: l.producers.appendSnapshot(nil, end),
	})
	l.addUnsyncedSegmentLocked(old)
	l.RequestSync()
	return nil
}

// writeLocked writes a batch behind the active segment's last one. A failed write is undone.
func (l *Log) writeLocked(b []byte, pos int64) error {
	s := l.active
	f, err := l.openFile(s)
	if err != nil {
		return l.writeFailedLocked("open the segment", err)
	}
	defer l.shared.Files.release(&s.h)
	l.reserveLocked(f, pos+int64(len(b)))
	for at := 0; at < len(b); at += writeChunk {
		chunk := b[at:min(at+writeChunk, len(b))]
		if _, err := f.WriteAt(chunk, pos+int64(at)); err != nil {
			if terr := f.Truncate(pos); terr != nil {
				// Unknown bytes stay behind the last batch, and what follows them would not be found by recovery.
				l.shared.Metrics.WriteFailures.Inc()
				return l.failLocked(errors.Join(err, terr))
			}
			s.reserved = 0
			// The cut must be synced like a write: a crash could bring the partial batch back, and after a roll it would stand in the
			// middle of the log.
			s.doubtful = true
			l.markDirtyLocked()
			return l.writeFailedLocked("append", err)
		}
	}
	return nil
}

// writeFailedLocked is the error of an append that left nothing behind.
func (l *Log) writeFailedLocked(what string, err error) error {
	l.shared.Metrics.WriteFailures.Inc()
	if isFull(err) {
		l.shared.Metrics.Full.Inc()
	} else {
		l.logger().Warn("append failed and was undone", zap.String("step", what), zap.Error(err))
	}
	return errcode.Newf(errcode.Overloaded, "%w: %s: %w", ErrNothingWritten, what, err)
}

// reserveLocked reserves disk blocks ahead of end: none for a small segment, then doubling. It is a courtesy to the file system,
// so a failure is counted and forgotten; the write will tell.
func (l *Log) reserveLocked(f vfs.File, end int64) {
	s := l.active
	if !l.shared.Preallocate || end <= reserveFrom || end <= s.reserved {
		return
	}
	step := min(max(end, reserveFrom), maxReserve)
	to := min(end+step, max(l.cfg.SegmentBytes, end))
	from := max(s.reserved, end)
	if to <= from {
		return
	}
	if err := f.Preallocate(from, to-from); err != nil {
		l.shared.Metrics.ReserveFailed.Inc()
	}
	s.reserved = to
}
