package log

import (
	"sort"

	"github.com/felixlog/felix/internal/ids"
)

// epochStart says at which offset the records of a leader epoch begin.
type epochStart struct {
	epoch  ids.LeaderEpoch
	offset ids.Offset
}

// epochTable is the leader epochs of a log, both fields rising. It is immutable: changes make a new one, so that readers need no
// lock. It holds one element a leadership, which is a handful.
type epochTable []epochStart

// with returns the table after a batch of epoch was appended at offset.
func (t epochTable) with(epoch ids.LeaderEpoch, offset ids.Offset) epochTable {
	if len(t) > 0 && t[len(t)-1].epoch >= epoch {
		return t
	}
	return append(t[:len(t):len(t)], epochStart{epoch, offset})
}

// latest returns the newest epoch, -1 if there is none.
func (t epochTable) latest() ids.LeaderEpoch {
	if len(t) == 0 {
		return ids.NoEpoch
	}
	return t[len(t)-1].epoch
}

// at returns the epoch of the record at off, -1 if the table does not reach back that far.
func (t epochTable) at(off ids.Offset) ids.LeaderEpoch {
	i := sort.Search(len(t), func(i int) bool { return t[i].offset > off }) - 1
	if i < 0 {
		return ids.NoEpoch
	}
	return t[i].epoch
}

// endOf answers OffsetForLeaderEpoch: the largest known epoch at or below e and where it ends, which for the newest is end. For an
// epoch older than all known ones it is that epoch and the start of the first known one. (-1, -1) when e is newer than all.
func (t epochTable) endOf(e ids.LeaderEpoch, end ids.Offset) (ids.LeaderEpoch, ids.Offset) {
	if len(t) == 0 || e > t.latest() || e < 0 {
		return ids.NoEpoch, ids.NoOffset
	}
	i := sort.Search(len(t), func(i int) bool { return t[i].epoch > e }) - 1
	switch {
	case i < 0:
		return e, t[0].offset
	case i == len(t)-1:
		return t[i].epoch, end
	default:
		return t[i].epoch, t[i+1].offset
	}
}

// truncated returns the table of a log that ends at end.
func (t epochTable) truncated(end ids.Offset) epochTable {
	i := sort.Search(len(t), func(i int) bool { return t[i].offset >= end })
	return t[:i:i]
}

// from returns the table of a log that starts at start: the epoch in force there is kept and begins there.
func (t epochTable) from(start ids.Offset) epochTable {
	i := sort.Search(len(t), func(i int) bool { return t[i].offset > start }) - 1
	if i < 0 || i == 0 && t[0].offset == start {
		return t
	}
	kept := make(epochTable, len(t)-i)
	copy(kept, t[i:])
	kept[0].offset = start
	return kept
}

// between returns the part of the table that concerns from <= offset < limit, the epoch in force at from included.
func (t epochTable) between(from, limit ids.Offset) epochTable {
	return t.from(from).truncated(limit)
}
