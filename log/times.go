package log

import (
	"slices"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// TimeOffset is a record that a look-up by time has found.
type TimeOffset struct {
	Offset    ids.Offset
	Timestamp int64 // milliseconds
	Epoch     ids.LeaderEpoch
}

// OffsetForTime returns the first record below limit whose timestamp is at least ts (milliseconds); ok is false if there is none.
// Timestamps need not rise with offsets. It opens the batches that may hold the record.
func (l *Log) OffsetForTime(ts int64, limit ids.Offset) (found TimeOffset, ok bool, err error) {
	err = l.steadily(func(v *view, start ids.Offset) (err error) {
		found, ok, err = l.offsetForTime(v, ts, start, min(limit, ids.Offset(l.end.Load())))
		return err
	})
	return found, ok, err
}

// MaxTimestamp returns the record below limit with the largest timestamp, the earliest of several; ok is false if there is none
// or no record has a timestamp.
func (l *Log) MaxTimestamp(limit ids.Offset) (found TimeOffset, ok bool, err error) {
	err = l.steadily(func(v *view, start ids.Offset) error {
		limit := min(limit, ids.Offset(l.end.Load()))
		largest, err := l.maxTimestamp(v, start, limit)
		if err != nil || largest < 0 {
			ok = false
			return err
		}
		found, ok, err = l.offsetForTime(v, largest, start, limit)
		return err
	})
	return found, ok, err
}

// steadily runs a look-up over one list of segments, and again if it failed because retention or compaction changed the list.
func (l *Log) steadily(look func(v *view, start ids.Offset) error) error {
	for attempt := 1; ; attempt++ {
		v, start := l.view.Load(), ids.Offset(l.start.Load())
		err := look(v, start)
		if err == nil {
			return nil
		}
		if now := l.view.Load(); attempt == readAttempts || now == v || slices.Equal(now.segments, v.segments) {
			return l.readError(start, err)
		}
	}
}

func (l *Log) offsetForTime(v *view, ts int64, start, limit ids.Offset) (found TimeOffset, ok bool, err error) {
	for i := v.find(start); i < len(v.segments) && v.segments[i].base < limit; i++ {
		s := v.segments[i]
		if s.largest.Load() < ts {
			continue
		}
		from, err := l.blockForTime(s, ts, start)
		if err != nil {
			return TimeOffset{}, false, err
		}
		err = l.walkBatches(v, s, from, limit, func(h *recordbatch.Header, batch []byte) (more bool, err error) {
			if h.MaxTimestamp < ts {
				return true, nil
			}
			err = l.eachFrom(h, batch, start, func(off, stamp int64) bool {
				if ok = stamp >= ts; ok {
					found = TimeOffset{ids.Offset(off), stamp, ids.LeaderEpoch(h.LeaderEpoch)}
				}
				return !ok
			})
			return !ok, err
		})
		if err != nil || ok {
			return found, ok, err
		}
	}
	return TimeOffset{}, false, nil
}

// maxTimestamp returns the largest timestamp of the records from start to limit, negative if there is none.
func (l *Log) maxTimestamp(v *view, start, limit ids.Offset) (int64, error) {
	largest := int64(noTimestamp)
	for i := v.find(start); i < len(v.segments) && v.segments[i].base < limit; i++ {
		s := v.segments[i]
		if s.base >= start && s.endOffset() <= limit {
			largest = max(largest, s.largest.Load())
			continue
		}
		err := l.walkBatches(v, s, max(start, s.base), limit, func(h *recordbatch.Header, batch []byte) (bool, error) {
			if h.BaseOffset >= int64(start) {
				largest = max(largest, h.MaxTimestamp)
				return true, nil
			}
			return true, l.eachFrom(h, batch, start, func(_, stamp int64) bool { // its largest may be below the start
				largest = max(largest, stamp)
				return true
			})
		})
		if err != nil {
			return 0, err
		}
	}
	return largest, nil
}

// blockForTime uses the index's running maximum, which rises even where timestamps do not: the first entry that has seen ts ends the
// block in which it was seen first. It returns the offset from which a search for ts in a segment begins.
func (l *Log) blockForTime(s *segment, ts int64, start ids.Offset) (ids.Offset, error) {
	x, err := l.indexOf(s)
	if err != nil {
		return 0, err
	}
	list := x.view()
	if i := floorTime(list, ts); i >= 0 {
		return max(start, s.base+ids.Offset(list[i].rel)), nil
	}
	return max(start, s.base), nil
}

// walkBatches visits the verified batches of a segment that lie in [from, limit), until visit returns false.
func (l *Log) walkBatches(v *view, s *segment, from, limit ids.Offset, visit func(*recordbatch.Header, []byte) (bool, error)) error {
	limit = min(limit, s.endOffset())
	for from < limit {
		b, err := l.readBlocks(s, from, limit, readPiece)
		if err != nil || b.empty() {
			return err
		}
		next, more, err := l.walkPiece(&walk{blocks: b, epochs: v.epochs, chain: b.chain(s)}, from, limit, visit)
		b.ref.Release()
		if err != nil || !more {
			return err
		}
		if next <= from {
			return nil
		}
		from = next
	}
	return nil
}

func (l *Log) walkPiece(w *walk, from, limit ids.Offset, visit func(*recordbatch.Header, []byte) (bool, error)) (next ids.Offset, more bool, err error) {
	for w.next() {
		if ids.Offset(w.h.NextOffset()) <= from {
			continue
		}
		if ids.Offset(w.h.NextOffset()) > limit {
			return from, false, nil
		}
		if err := w.checkCRC(); err != nil {
			return from, false, err
		}
		if more, err := visit(&w.h, w.batch); err != nil || !more {
			return from, false, err
		}
	}
	return w.end, true, w.err
}

// eachFrom visits offset and timestamp of the records of a batch that are at or above start, until visit returns false.
func (l *Log) eachFrom(h *recordbatch.Header, batch []byte, start ids.Offset, visit func(off, stamp int64) bool) error {
	var scratch *buf.Ref
	defer func() { scratch.Release() }()
	records := batch[recordbatch.HeaderSize:]
	if h.Codec() != recordbatch.CodecNone {
		scratch = l.shared.Pool.Get(min(len(batch)*4, l.shared.MaxDecodedBytes))
		var err error
		if records, err = recordbatch.Open(scratch.Bytes()[:0], *h, batch, l.shared.MaxDecodedBytes); err != nil {
			return errcode.Newf(errcode.CorruptBatch, "log %s: batch at offset %d: %w", l.name, h.BaseOffset, err)
		}
	}
	it := recordbatch.Records(*h, records)
	for it.Next() {
		if r := &it.Record; r.Offset >= int64(start) && !visit(r.Offset, r.Timestamp) {
			return nil
		}
	}
	if err := it.Err(); err != nil {
		return errcode.Newf(errcode.CorruptBatch, "log %s: batch at offset %d: %w", l.name, h.BaseOffset, err)
	}
	return nil
}
