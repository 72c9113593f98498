package journal

import "github.com/felixlog/felix/internal/ids"

// Mark says how far a log is known to be on the device.
type Mark struct {
	// End is one past the last record that is synced.
	End ids.Offset
	// Segment is the base offset of the segment that was active then.
	Segment ids.Offset
	// Bytes is the length of that segment's file up to End.
	Bytes int64
	// Headers is the running checksum over the batch headers of that segment up to Bytes; see FORMAT.md of package log.
	Headers uint32
}

// Entry is what the journal knows of one shard copy. The zero value is what an absent entry reads as.
type Entry struct {
	// Mark is one past the last record known to be synced; never ahead of the device.
	Mark ids.Offset
	// MarkSegment, MarkBytes and MarkHeaders place the mark; see Mark.
	MarkSegment ids.Offset
	MarkBytes   int64
	MarkHeaders uint32
	// MarkKnown says that Mark may be relied on as the bound of what can have been acknowledged as synced: it was recorded,
	// or the journal is older than the shard and would have recorded it. False only where the journal was lost.
	MarkKnown bool
	// SyncFailed says that a sync of the log failed after Mark was recorded. The kernel may count the bytes above the mark as clean
	// without having written them: they must be written again before a sync means anything. A new mark ends it.
	SyncFailed bool
	// Start is the explicit log start offset (DeleteRecords), 0 when never set.
	Start ids.Offset
	// Floor bounds retention and compaction from above, 0 when never set. It only rises.
	Floor ids.Offset
	// PromiseEpoch is the highest leader epoch accepted, -1 when none was.
	PromiseEpoch ids.LeaderEpoch
	// PromiseLeader is the node that PromiseEpoch was accepted from.
	PromiseLeader ids.NodeID
}

// mark returns the mark part of e.
func (e *Entry) mark() Mark {
	return Mark{End: e.Mark, Segment: e.MarkSegment, Bytes: e.MarkBytes, Headers: e.MarkHeaders}
}

func (e *Entry) setMark(m Mark) {
	e.Mark, e.MarkSegment, e.MarkBytes, e.MarkHeaders, e.MarkKnown = m.End, m.Segment, m.Bytes, m.Headers, true
	e.SyncFailed = false
}

// emptyEntry is what an absent entry reads as.
func emptyEntry(known bool) Entry { return Entry{MarkKnown: known, PromiseEpoch: ids.NoEpoch} }

// slot is the entry of one shard in memory.
type slot struct {
	shard ids.ShardID
	Entry
	// lazy is a mark that is newer than what the file says; written by WriteMarks.
	lazy      Mark
	lazyStart ids.Offset
	isDirty   bool
}

// state is what a file's records add up to.
type state struct {
	slots map[ids.ShardID]*slot
	known bool // what MarkKnown of an absent entry is
	clean bool // the last record says that the node stopped cleanly
}

func newState(known bool) *state { return &state{slots: map[ids.ShardID]*slot{}, known: known} }

func (s *state) slot(shard ids.ShardID) *slot {
	sl := s.slots[shard]
	if sl == nil {
		sl = &slot{shard: shard, Entry: emptyEntry(s.known)}
		s.slots[shard] = sl
	}
	return sl
}

// apply makes the change that r records.
func (s *state) apply(r record) {
	s.clean = s.clean && r.kind == kindSynced || r.kind == kindClean
	switch r.kind {
	case kindMark:
		s.slot(r.shard).setMark(r.mark)
	case kindStart:
		s.slot(r.shard).Start = r.offset
	case kindFloor:
		s.slot(r.shard).Floor = r.offset
	case kindPromise:
		sl := s.slot(r.shard)
		sl.PromiseEpoch, sl.PromiseLeader = r.epoch, r.leader
	case kindForget:
		for shard := range s.slots {
			if shard.Topic == r.shard.Topic {
				delete(s.slots, shard)
			}
		}
	case kindSyncFailed:
		s.slot(r.shard).SyncFailed = true
	case kindUnknownMarks:
		s.known = false
	case kindClean, kindOpened, kindSynced:
	}
}
