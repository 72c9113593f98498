package log

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
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
	segments := c.cleanable(l.view.Load())
	if !c.worthwhile(segments) {
		return nil
	}
	c.keys = newOffsetMap(maxCompactionKeys)
	err := c.readKeys(segments)
	if err == nil {
		err = c.rewrite(segments)
	}
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// cleanable returns the sealed segments, from the first on, that may be compacted: synced, below the floor, and not too young.
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

// readKeys fills the map from the dirty part, as far as it goes.
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

// cleanedWriter writes a compacted segment.
type cleanedWriter struct {
	c       *cleaner
	name    string
	file    vfs.File
	segment *segment
	buffer  []byte // not written yet
	pos     int64  // in the file, of the buffer's start
}

// begin makes the file of a compacted segment. Whatever an earlier pass left under its name is overwritten.
func (c *cleaner) begin(base, through ids.Offset) (*cleanedWriter, error) {
	w := &cleanedWriter{c: c, name: offsetName(c.l.dir, base, cleanedSuffix), segment: newSegment(base)}
	f, err := c.l.shared.FS.OpenFile(w.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	w.file = f
	clean := min(c.clean, through)
	w.buffer = appendSegmentHeader(nil, segmentHeader{base: base, created: c.now, compacted: true, through: through, clean: clean})
	s := w.segment
	s.created, s.compacted, s.clean, s.sealed = c.now, true, clean, true
	s.identity = binary.BigEndian.Uint32(w.buffer[segmentHeaderBytes-4:])
	s.idx.Store(newIndex())
	s.frozen.Store(true)
	s.setEnd(through)
	return w, nil
}

// visit adds what is to be kept of a batch.
func (w *cleanedWriter) visit(_ int64, h *recordbatch.Header, batch []byte) error {
	c := w.c
	at := len(w.buffer)
	if h.IsControl() {
		w.buffer = append(w.buffer, batch...)
		return w.added(at)
	}
	horizon, has := h.DeleteHorizon()
	var err error
	w.buffer, _, err = recordbatch.Rebuild(w.buffer, batch, recordbatch.RebuildOptions{
		Keep:            func(r *recordbatch.Record) bool { return c.keep(r, has, horizon) },
		DeleteHorizon:   c.now + c.cfg.DeleteRetention.Milliseconds(),
		KeepEmpty:       c.l.isLastOfProducer(h),
		MaxDecodedBytes: c.l.shared.MaxDecodedBytes,
	})
	if err != nil {
		return err
	}
	return w.added(at)
}

// added takes a batch that was put into the buffer at at into the index, and writes the buffer when it is large enough.
func (w *cleanedWriter) added(at int) error {
	if batch := w.buffer[at:]; len(batch) > 0 {
		h, err := recordbatch.ParseHeader(batch)
		if err != nil {
			return err
		}
		end := w.segment.endOffset()
		w.segment.note(w.pos+int64(at), &h, batch, int64(w.c.cfg.IndexIntervalBytes))
		w.segment.setEnd(end) // it stands for more than it holds
	}
	if len(w.buffer) < writeChunk {
		return nil
	}
	return w.write()
}

func (w *cleanedWriter) write() error {
	for at := 0; at < len(w.buffer); at += writeChunk {
		chunk := w.buffer[at:min(at+writeChunk, len(w.buffer))]
		if _, err := w.file.WriteAt(chunk, w.pos+int64(at)); err != nil {
			return err
		}
	}
	w.pos += int64(len(w.buffer))
	w.buffer = w.buffer[:0]
	return nil
}

// finish writes the rest, syncs and closes the file. A sync that fails stops the log.
func (w *cleanedWriter) finish() error {
	if err := w.write(); err != nil {
		return err
	}
	w.segment.size.Store(w.pos)
	w.segment.synced = w.pos
	if err := w.file.Sync(); err != nil {
		w.c.l.fail(err)
		return err
	}
	f := w.file
	w.file = nil
	return f.Close()
}

// undo removes the file.
func (w *cleanedWriter) undo() error {
	var err error
	if w.file != nil {
		err = w.file.Close()
	}
	return errors.Join(err, w.c.l.remove(w.name))
}

// isLastOfProducer says that a batch is the newest of its producer: its header stays when all its records go, so that the next
// sequence is still known after a restart.
func (l *Log) isLastOfProducer(h *recordbatch.Header) bool {
	if !h.HasProducer() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.producers.byID[h.ProducerID]
	return p != nil && len(p.sent) > 0 && p.sent[len(p.sent)-1].base == ids.Offset(h.BaseOffset)
}

// pace spreads reading over time.
type pace struct {
	rate  int64 // bytes a second, 0 for as fast as can be
	began time.Time
	spent int64
}

// paceStep is the least that is waited for: shorter waits are saved up.
const paceStep = 10 * time.Millisecond

// spend waits until n more bytes may be read.
func (p *pace) spend(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return nil
	}
	if p.began.IsZero() {
		p.began = time.Now()
	}
	p.spent += int64(n)
	due := p.began.Add(time.Duration(float64(p.spent) / float64(p.rate) * float64(time.Second)))
	wait := time.Until(due)
	if wait < paceStep {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errStopped
	case <-timer.C:
		return nil
	}
}
