package log

import (
	"context"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/ids"
)

// MaintainResult is what one pass of Maintain did.
type MaintainResult struct {
	ExpiredProducers int
	DeletedSegments  int
	DeletedBytes     int64
	Rolled           bool
	// Compacted is the number of segments that were rewritten, CompactedBytes what was read for it and ReclaimedBytes what it freed.
	Compacted      int
	CompactedBytes int64
	ReclaimedBytes int64
}

// Maintain makes one pass of what a log needs from time to time: it forgets expired producers, finishes sealed segments, rolls an
// active segment that is too old, deletes what retention allows and compacts. It takes no lock across IO that Append or Read need.
// One pass of a log runs at a time. It stops early, without an error, when ctx ends.
func (l *Log) Maintain(ctx context.Context) (MaintainResult, error) {
	var res MaintainResult
	if err := l.sealPending(); err != nil {
		return res, err
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	if err := l.removeDoomed(); err != nil {
		return res, err
	}
	l.mu.Lock()
	if err := l.usableLocked(); err != nil || l.active == nil {
		l.mu.Unlock()
		return res, err
	}
	cfg := l.cfg
	now := l.shared.nowMs()
	res.ExpiredProducers = l.producers.expire(now - l.shared.ProducerExpiry.Milliseconds())
	l.shared.Metrics.ProducersExpired.Add(float64(res.ExpiredProducers))
	rolled, err := l.rollAgedLocked(&cfg, now)
	l.mu.Unlock()
	res.Rolled = rolled
	if err != nil {
		return res, err
	}
	if err := l.retain(ctx, &cfg, now, &res); err != nil || ctx.Err() != nil {
		return res, err
	}
	if cfg.Compact {
		if err := l.compact(ctx, &cfg, now, &res); err != nil {
			return res, err
		}
	}
	return res, l.sealInTurn() // of what was rolled meanwhile
}

// rollAgedLocked rolls the active segment if it has been active for too long, or if all it holds has expired and could go.
func (l *Log) rollAgedLocked(cfg *Config, now int64) (bool, error) {
	s := l.active
	if s.size.Load() == segmentHeaderBytes {
		return false, nil
	}
	age := cfg.SegmentAge
	if cfg.Compact && cfg.MaxCompactionLag > 0 {
		age = min(age, cfg.MaxCompactionLag) // the active segment is not compacted, so it must not stay active for longer
	}
	aged := now-s.created >= age.Milliseconds()
	if !aged && !(s.endOffset() <= ids.Offset(l.floor.Load()) && l.expired(s, cfg, now)) {
		return false, nil
	}
	return true, l.rollLocked()
}

// expired says that the newest record of a segment is older than retention allows. A segment without timestamps goes by the time at
// which it was begun.
func (l *Log) expired(s *segment, cfg *Config, now int64) bool {
	if !cfg.Delete || cfg.RetentionAge < 0 {
		return false
	}
	// As in Kafka it is the newest record's own timestamp that counts, so a record stamped far ahead keeps its segment.
	newest := s.largest.Load()
	if newest < 0 {
		newest = s.created
	}
	return now-newest > cfg.RetentionAge.Milliseconds()
}

// retain deletes sealed segments, the oldest first, as far as they may go: below the log start, expired, or above the size bound; and
// never at or above the floor.
//
// A segment leaves the list before its file goes, so that readers are told that an offset is gone rather than that a file is missing. It
// is one segment at a time: another one may be appended or sealed meanwhile, and each decision is made on what is there then.
func (l *Log) retain(ctx context.Context, cfg *Config, now int64, res *MaintainResult) error {
	var forced *segment
	for ctx.Err() == nil {
		v := l.view.Load()
		if len(v.segments) < 2 {
			return nil
		}
		s := v.segments[0]
		if !l.mayDelete(v, cfg, now) {
			return nil
		}
		l.mu.Lock()
		if err := l.usableLocked(); err != nil {
			l.mu.Unlock()
			return err
		}
		if v = l.view.Load(); v.segments[0] != s { // only whoever has the turn removes the first one
			l.mu.Unlock()
			return nil
		}
		if next := v.segments[1]; next.synced < segmentHeaderBytes || next != l.active && next.unsynced() {
			// What stays must be on the device before what goes is gone: a crash could leave a log without any segment.
			l.mu.Unlock()
			if forced == s {
				return nil // appends are faster than syncs; the next pass tries again
			}
			forced = s
			if err := l.forceSync(); err != nil {
				return err
			}
			continue
		}
		start := max(ids.Offset(l.start.Load()), s.endOffset())
		l.raiseStartLocked(start, v.segments[1:])
		l.forgetSealLocked(s)
		l.mu.Unlock()
		l.shared.Journal.RaiseStart(l.shard, start)
		l.shared.Syncer.markMarks()
		l.shared.Files.retire(&s.h)
		res.DeletedSegments++
		res.DeletedBytes += s.size.Load()
		l.shared.Metrics.SegmentsDeleted.Inc()
		l.logger().Debug("segment deleted", zap.Int64("segment", int64(s.base)), zap.Int64("log_start_offset", int64(start)))
		l.mu.Lock()
		l.doomed = append(l.doomed, s.base)
		l.mu.Unlock()
		if err := l.removeDoomed(); err != nil {
			return err
		}
	}
	return nil
}

// mayDelete says whether the oldest segment may go.
func (l *Log) mayDelete(v *view, cfg *Config, now int64) bool {
	s := v.segments[0]
	end := s.endOffset()
	switch {
	case end > ids.Offset(l.floor.Load()):
		return false
	case end <= ids.Offset(l.start.Load()):
		return true
	case l.expired(s, cfg, now):
		return true
	case !cfg.Delete || cfg.RetentionBytes < 0:
		return false
	}
	total := int64(0)
	for _, s := range v.segments {
		total += s.size.Load()
	}
	return total-s.size.Load() >= cfg.RetentionBytes
}

// forgetSealLocked drops what was still to be done for a segment.
func (l *Log) forgetSealLocked(s *segment) {
	for i := range l.seals {
		if l.seals[i].segment == s {
			l.seals = append(l.seals[:i:i], l.seals[i+1:]...)
			break
		}
	}
	for i := range l.unsynced {
		if l.unsynced[i] == s {
			l.unsynced = append(l.unsynced[:i:i], l.unsynced[i+1:]...)
			break
		}
	}
}

// removeDoomed removes the files of segments that are not in the log any more, each durably before the next, so that what a crash
// leaves is always a log without a hole. What cannot be removed is tried again by the next pass.
func (l *Log) removeDoomed() error {
	for {
		l.mu.Lock()
		if len(l.doomed) == 0 {
			l.doomed = nil
			l.mu.Unlock()
			return nil
		}
		base := l.doomed[0]
		l.mu.Unlock()
		for _, suffix := range []string{indexSuffix, segmentSuffix} {
			if err := l.remove(offsetName(l.dir, base, suffix)); err != nil {
				return err
			}
		}
		if err := l.syncDir(); err != nil {
			return err
		}
		l.mu.Lock()
		l.doomed = l.doomed[1:]
		l.mu.Unlock()
	}
}
