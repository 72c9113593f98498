package log

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// Compaction is Kafka's log cleaner: it keeps the newest record of each key, at its own offset. A pass reads the part of the log that
// has not been compacted yet (dirty) and notes the newest offset of each key; then it rewrites all segments up to there, some together,
// without the records that a newer one has replaced. The active segment is never touched.
//
// A rewritten segment takes the place of the first of its group in one step, by a rename. Its header says up to which offset it
// stands for the others, so a crash before those are removed leaves nothing that recovery could mistake.

// cleanState is what the passes of a log share with those who need them to stop.
type cleanState struct {
	stop atomic.Int32 // number of callers that wait for the turn
}

// errStopped says that a pass was given up: the log is to be truncated or closed, or the context ended.
var errStopped = errors.New("compaction was stopped")

// cleaner is one pass over one log.
type cleaner struct {
	l     *Log
	ctx   context.Context //nolint:containedctx // a pass lives as long as one call of compact
	cfg   *Config
	now   int64
	res   *MaintainResult
	keys  *offsetMap
	dirty ids.Offset // where the dirty part begins
	clean ids.Offset // one past the last offset whose key is in keys
	pace  pace
}

// compact makes one pass if it is worth it.
func (l *Log) compact(ctx context.Context, cfg *Config, now int64, res *MaintainResult) error {
	c := &cleaner{l: l, ctx: ctx, cfg: cfg, now: now, res: res, pace: pace{rate: l.shared.CompactionBytesPerSecond}}
	return c.run(maxCompactionKeys)
}

// run makes the pass, with room for some keys. Where there are more it covers the log up to where the room ended, and the next pass
// goes on from there.
func (c *cleaner) run(maxKeys int) error {
	segments := c.cleanable(c.l.view.Load())
	if !c.worthwhile(segments) {
		return nil
	}
	c.keys = newOffsetMap(maxKeys)
	err := c.readKeys(segments)
	if err == nil {
		err = c.rewrite(segments)
	}
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// cleanable returns the sealed segments, from the first on, that may be compacted: synced, below the floor, and not too young. It ends at
// the first that may not: a record can be dropped only for a newer one, so the order must be kept.
//
// Where the dirty part begins is read from the headers of the segments that were compacted, so it needs no file of its own.
func (c *cleaner) cleanable(v *view) []*segment {
	floor := ids.Offset(c.l.floor.Load())
	var out []*segment
	for _, s := range v.segments[:max(0, len(v.segments)-1)] {
		young := c.cfg.MinCompactionLag > 0 && s.largest.Load() > c.now-c.cfg.MinCompactionLag.Milliseconds()
		if s.endOffset() > floor || young || !c.l.isSynced(s) {
			break
		}
		out = append(out, s)
	}
	c.dirty = ids.Offset(c.l.start.Load())
	for _, s := range out {
		if !s.compacted {
			break
		}
		c.dirty = max(c.dirty, s.clean)
		if s.clean < s.endOffset() {
			break
		}
	}
	return out
}

// isSynced says that a segment is sealed: its index file is written and everything is on the device.
func (l *Log) isSynced(s *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.sealed
}

// worthwhile compares the dirty part with the whole.
func (c *cleaner) worthwhile(segments []*segment) bool {
	var dirty, total int64
	late := false
	for _, s := range segments {
		size := s.size.Load() - segmentHeaderBytes
		total += size
		if s.endOffset() <= c.dirty {
			continue
		}
		dirty += size
		late = late || c.cfg.MaxCompactionLag > 0 && s.first >= 0 && c.now-s.first > c.cfg.MaxCompactionLag.Milliseconds()
	}
	return dirty > 0 && (late || float64(dirty) >= c.cfg.MinCleanableRatio*float64(total))
}

// readKeys fills the map from the dirty part, as far as it goes. Of what the map does not cover nothing is dropped, and clean says
// where that begins: in the middle of a segment if the map is full there.
func (c *cleaner) readKeys(segments []*segment) error {
	c.clean = c.dirty
	errFull := errors.New("no room for more keys")
	for _, s := range segments {
		if s.endOffset() <= c.dirty {
			continue
		}
		err := c.scan(s, func(_ int64, h *recordbatch.Header, batch []byte) error {
			if ids.Offset(h.NextOffset()) <= c.dirty || h.IsControl() {
				return nil
			}
			return c.eachRecord(h, batch, func(r *recordbatch.Record) error {
				if ids.Offset(r.Offset) >= c.dirty && r.Key != nil && !c.keys.put(r.Key, ids.Offset(r.Offset)) {
					return errFull
				}
				c.clean = ids.Offset(r.Offset) + 1
				return nil
			})
		})
		if errors.Is(err, errFull) {
			return nil // the next pass goes on from here
		}
		if err != nil {
			return err
		}
		c.clean = s.endOffset()
	}
	return nil
}

// scan reads a segment with all checks.
func (c *cleaner) scan(s *segment, visit visitor) error {
	l := c.l
	v := l.view.Load()
	ch := chain{next: s.base, epoch: ids.NoEpoch, gaps: s.compacted}
	x, err := l.indexOf(s)
	if err != nil {
		return err
	}
	seen := newIndex()
	return l.withFile(s, func(f fileIO) error {
		_, bad, err := scanFile(f, s.size.Load(), &ch, func(pos int64, h *recordbatch.Header, batch []byte) error {
			if err := c.wait(len(batch)); err != nil {
				return err
			}
			if e := v.epochs.at(ids.Offset(h.BaseOffset)); e != ids.NoEpoch && e != ids.LeaderEpoch(h.LeaderEpoch) {
				return l.damageIn(s, pos, "%v", errEpochUnknown)
			}
			seen.add(h.BaseOffset-int64(s.base), pos, batch, h, math.MaxInt64)
			return visit(pos, h, batch)
		})
		if err == nil && bad != nil {
			err = l.damageIn(s, bad.suspect, "%v", bad.reason)
		}
		if err == nil && seen.total != x.total {
			err = l.damageIn(s, segmentHeaderBytes, "%v", errPrefixes)
		}
		return err
	})
}

// wait paces the pass and ends it when somebody needs the log.
func (c *cleaner) wait(n int) error {
	c.res.CompactedBytes += int64(n)
	c.l.shared.Metrics.CompactedBytes.Add(float64(n))
	if c.ctx.Err() != nil || c.l.clean.stop.Load() > 0 || c.l.hasFailed() {
		return errStopped
	}
	return c.pace.spend(c.ctx, n)
}

// eachRecord opens a batch.
func (c *cleaner) eachRecord(h *recordbatch.Header, batch []byte, visit func(*recordbatch.Record) error) error {
	records := batch[recordbatch.HeaderSize:]
	if h.Codec() != recordbatch.CodecNone {
		scratch := c.l.shared.Pool.Get(min(len(batch)*4, c.l.shared.MaxDecodedBytes))
		defer scratch.Release()
		var err error
		if records, err = recordbatch.Open(scratch.Bytes()[:0], *h, batch, c.l.shared.MaxDecodedBytes); err != nil {
			return err
		}
	}
	it := recordbatch.Records(*h, records)
	for it.Next() {
		if err := visit(&it.Record); err != nil {
			return err
		}
	}
	return it.Err()
}

// rewrite writes the segments up to the end of what the map covers, group by group.
func (c *cleaner) rewrite(segments []*segment) error {
	n := 0
	for n < len(segments) && segments[n].base < c.clean {
		n++
	}
	for segments = segments[:n]; len(segments) > 0; {
		k := c.group(segments)
		if err := c.rewriteGroup(segments[:k]); err != nil {
			return err
		}
		segments = segments[k:]
	}
	return nil
}

// group returns how many of the segments go into one new one: as many as are together no larger than one may be.
func (c *cleaner) group(segments []*segment) int {
	size := segments[0].size.Load()
	k := 1
	for ; k < len(segments); k++ {
		size += segments[k].size.Load() - segmentHeaderBytes
		if size > c.cfg.SegmentBytes || segments[k].endOffset()-segments[0].base > math.MaxInt32 {
			break
		}
	}
	return k
}

// rewriteGroup writes what is left of some segments into a new file and puts that in their place.
func (c *cleaner) rewriteGroup(group []*segment) error {
	l := c.l
	first, through := group[0], group[len(group)-1].endOffset()
	if len(group) == 1 && first.compacted && through <= c.dirty && !c.loses(first) {
		return nil // nothing newer has come for any of its keys, and no tombstone is due
	}
	w, err := c.begin(first.base, through)
	if err != nil {
		return err
	}
	for _, s := range group {
		if err = c.scan(s, w.visit); err != nil {
			break
		}
	}
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		return errors.Join(err, w.undo())
	}
	// Readers that have the old segments keep reading the old files: those stay open until the list is changed.
	held, err := c.hold(group)
	defer c.letGo(held)
	if err != nil {
		return errors.Join(err, w.undo())
	}
	return c.swap(group, w, l)
}

// loses says whether a compacted segment below the dirty part would lose a record. Reading it is cheaper than writing it again.
func (c *cleaner) loses(s *segment) bool {
	errLoses := errors.New("loses a record")
	err := c.scan(s, func(_ int64, h *recordbatch.Header, batch []byte) error {
		if h.IsControl() {
			return nil
		}
		horizon, has := h.DeleteHorizon()
		return c.eachRecord(h, batch, func(r *recordbatch.Record) error {
			if !c.keep(r, has, horizon) || r.Value == nil && !has {
				return errLoses
			}
			return nil
		})
	})
	return err != nil
}

func (c *cleaner) hold(group []*segment) (held []*segment, err error) {
	for _, s := range group {
		if _, err := c.l.openFile(s); err != nil {
			return held, err
		}
		held = append(held, s)
	}
	return held, nil
}

func (c *cleaner) letGo(held []*segment) {
	for _, s := range held {
		c.l.shared.Files.release(&s.h)
	}
}

// swap puts the new segment in the place of a group.
//
// After the rename the file is the new one whatever happens, so from there on nothing is undone: the list follows, the files of the rest
// of the group go, and an index is written. A crash in between is recognised by the new segment's header (through). The old index of
// the first segment stays until it is overwritten; it has another identity, so nobody believes it.
func (c *cleaner) swap(group []*segment, w *cleanedWriter, l *Log) error {
	first := group[0]
	name := offsetName(l.dir, first.base, segmentSuffix)
	if err := l.shared.FS.Rename(w.name, name); err != nil {
		return errors.Join(err, w.undo())
	}
	syncErr := l.syncDir() // a failure stops the log, but what readers see must follow the file all the same
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	v := l.view.Load()
	list := make([]*segment, 0, len(v.segments)-len(group)+1)
	for _, s := range v.segments {
		switch {
		case s == first:
			list = append(list, w.segment)
		case s.base > first.base && s.base < w.segment.endOffset():
		default:
			list = append(list, s)
		}
	}
	l.publishLocked(list, v.epochs)
	// The tail holds what was written, at positions of the files that went: readers would go on seeing what was compacted.
	l.shared.Tail.drop(l.tail, -1)
	for _, s := range group[1:] {
		l.doomed = append(l.doomed, s.base)
	}
	l.mu.Unlock()
	before := int64(0)
	for _, s := range group {
		before += s.size.Load()
		l.shared.Files.retire(&s.h)
	}
	c.res.Compacted += len(group)
	c.res.ReclaimedBytes += before - w.segment.size.Load()
	l.shared.Metrics.CompactionReclaimed.Add(float64(max(0, before-w.segment.size.Load())))
	l.logger().Debug("segments compacted", zap.Int64("segment", int64(first.base)), zap.Int("segments", len(group)),
		zap.Int64("bytes_before", before), zap.Int64("bytes_after", w.segment.size.Load()))
	if syncErr != nil {
		return syncErr
	}
	if err := l.writeIndex(w.segment, v.epochs); err != nil {
		return err
	}
	l.shared.indexes.keep(w.segment)
	return l.removeDoomed()
}

// keep decides about a record: it stays if nothing newer has its key, and if it is no tombstone whose time is over. A record
// without a key has no business in a compacted log and goes.
func (c *cleaner) keep(r *recordbatch.Record, hasHorizon bool, horizon int64) bool {
	off := ids.Offset(r.Offset)
	if off >= c.clean {
		return true
	}
	if r.Key == nil || c.keys.newest(r.Key) > off {
		return false
	}
	return r.Value != nil || !hasHorizon || c.now < horizon
}
