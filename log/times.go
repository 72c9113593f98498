package log

import (
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
	limit = min(limit, ids.Offset(l.end.Load()))
	start := ids.Offset(l.start.Load())
	v := l.view.Load()
	for i := v.find(start); i < len(v.segments) && v.segments[i].base < limit; i++ {
		s := v.segments[i]
		if s.largest.Load() < ts {
			continue
		}
		from, err := l.blockForTime(s, ts, start)
		if err != nil {
			return TimeOffset{}, false, l.readError(start, err)
		}
		err = l.walkBatches(v, s, from, limit, func(h *recordbatch.Header, batch []byte) (bool, error) {
			if h.MaxTimestamp < ts || ids.Offset(h.NextOffset()) <= start {
				return true, nil
			}
			found, ok, err = l.recordAt(h, batch, ts, start)
			return !ok, err
		})
		if err != nil {
			return TimeOffset{}, false, l.readError(start, err)
		}
		if ok {
			return found, true, nil
		}
	}
	return TimeOffset{}, false, nil
}

// MaxTimestamp returns the record below limit with the largest timestamp, the earliest of several; ok is false if there is none
// or no record has a timestamp.
func (l *Log) MaxTimestamp(limit ids.Offset) (found TimeOffset, ok bool, err error) {
	limit = min(limit, ids.Offset(l.end.Load()))
	start := ids.Offset(l.start.Load())
	v := l.view.Load()
	largest := int64(noTimestamp)
	for i := v.find(start); i < len(v.segments) && v.segments[i].base < limit; i++ {
		s := v.segments[i]
		if s.base >= start && s.endOffset() <= limit {
			largest = max(largest, s.largest.Load())
			continue
		}
		err = l.walkBatches(v, s, max(start, s.base), limit, func(h *recordbatch.Header, _ []byte) (bool, error) {
			largest = max(largest, h.MaxTimestamp)
			return true, nil
		})
		if err != nil {
			return TimeOffset{}, false, l.readError(start, err)
		}
	}
	if largest < 0 {
		return TimeOffset{}, false, nil
	}
	return l.OffsetForTime(largest, limit)
}

// blockForTime returns the offset from which a search for ts in a segment begins.
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

// recordAt finds the first record of a batch at or above start with a timestamp of at least ts.
func (l *Log) recordAt(h *recordbatch.Header, batch []byte, ts int64, start ids.Offset) (TimeOffset, bool, error) {
	epoch := ids.LeaderEpoch(h.LeaderEpoch)
	if h.LogAppendTime() && h.BaseOffset >= int64(start) {
		return TimeOffset{ids.Offset(h.BaseOffset), h.MaxTimestamp, epoch}, true, nil
	}
	var scratch *buf.Ref
	defer func() { scratch.Release() }()
	records := batch[recordbatch.HeaderSize:]
	if h.Codec() != recordbatch.CodecNone {
		scratch = l.shared.Pool.Get(min(len(batch)*4, l.shared.MaxDecodedBytes))
		var err error
		if records, err = recordbatch.Open(scratch.Bytes()[:0], *h, batch, l.shared.MaxDecodedBytes); err != nil {
			return TimeOffset{}, false, errcode.Newf(errcode.CorruptBatch, "log %s: batch at offset %d: %w", l.name, h.BaseOffset, err)
		}
	}
	it := recordbatch.Records(*h, records)
	for it.Next() {
		if r := &it.Record; r.Timestamp >= ts && r.Offset >= int64(start) {
			return TimeOffset{ids.Offset(r.Offset), r.Timestamp, epoch}, true, nil
		}
	}
	if err := it.Err(); err != nil {
		return TimeOffset{}, false, errcode.Newf(errcode.CorruptBatch, "log %s: batch at offset %d: %w", l.name, h.BaseOffset, err)
	}
	return TimeOffset{}, false, nil
}
