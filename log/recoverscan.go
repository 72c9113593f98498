package log

import (
	"errors"
	"os"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// sealed takes in a segment that lies below the mark. Its batches are not read, unless its index is not usable: with ten logs of a
// gigabyte that is the difference between a start of milliseconds and one of seconds. What is rotten in it is found by whoever reads
// it, since every read verifies.
//
// Everything about it was synced before the mark passed it, so nothing here is ever repaired by cutting: a segment that does not
// fit its neighbours is refused.
func (r *recovery) sealed(i int) error {
	f := &r.files[i]
	name := r.path(f.base, segmentSuffix)
	if blank := errors.Is(f.headErr, errBlankHeader); blank && f.size <= segmentHeaderBytes && r.chain.next == r.files[i+1].base && i > 0 {
		r.removeSegment(f.base, "empty segment of an interrupted roll", 0)
		return nil
	}
	if f.headErr != nil {
		return r.damage(name, 0, "%v", f.headErr)
	}
	if f.base != r.chain.next {
		return r.damage(name, 12, "segment begins at offset %d, the one before ends at %d", f.base, r.chain.next)
	}
	s := newFound(f)
	head, err := r.usableIndex(f, r.files[i+1].base)
	if err != nil || len(head.epochs) > 0 && head.epochs[0].epoch < r.chain.epoch {
		return r.rebuild(i, s)
	}
	// The epoch in force at a segment's base is repeated in its index, and with drops the repetition.
	for _, e := range head.epochs {
		r.epochs = r.epochs.with(e.epoch, e.offset)
	}
	r.chain.next, r.chain.epoch = head.end, r.epochs.latest()
	s.size.Store(head.fileBytes)
	s.setEnd(head.end)
	s.largest.Store(head.largest)
	s.first, s.sealed, s.synced = head.first, true, head.fileBytes
	r.segments = append(r.segments, s)
	return nil
}

func newFound(f *found) *segment {
	s := newSegment(f.base)
	s.created, s.identity, s.compacted, s.clean = f.head.created, f.identity, f.head.compacted, f.head.clean
	return s
}

// usableIndex reads the head of a segment's index file and checks that it fits: it must be about this very file (identity), at this
// length, and end where the next segment begins. An index that survived the segment it was made for, as after a compaction that was
// interrupted, differs in the first even where it agrees in the others.
func (r *recovery) usableIndex(f *found, next ids.Offset) (indexHead, error) {
	if !r.indexes[f.base] {
		return indexHead{}, errIndex
	}
	return r.fittingIndex(f, next)
}

// fittingIndex is usableIndex of a file that may be missing.
func (r *recovery) fittingIndex(f *found, next ids.Offset) (indexHead, error) {
	head, err := readIndexHead(r.fs, r.path(f.base, indexSuffix))
	if err != nil {
		return head, err
	}
	if head.identity != f.identity || head.base != f.base || head.fileBytes != f.size || head.end != next {
		return head, errIndex
	}
	return head, nil
}

// rebuild scans a sealed segment whose index is missing or wrong. Damage is refused: nothing but the end of a log is ever cut.
func (r *recovery) rebuild(i int, s *segment) error {
	f := &r.files[i]
	bad, err := r.scan(f, s, nil)
	if err != nil {
		return err
	}
	name := r.path(f.base, segmentSuffix)
	if bad != nil {
		return r.damage(name, bad.suspect, "%v", bad.reason)
	}
	if next := r.files[i+1].base; s.endOffset() != next {
		return r.damage(name, s.size.Load(), "segment ends at offset %d, the next begins at %d", s.endOffset(), next)
	}
	s.synced = s.size.Load()
	r.rebuilt = append(r.rebuilt, s)
	r.segments = append(r.segments, s)
	return nil
}

// scan reads a segment from its first batch on, fills in its index and moves the chain. visit may be nil.
//
// A compacted segment stands for offsets that it no longer holds, so the chain goes on at what its header says and not behind its
// last batch.
func (r *recovery) scan(f *found, s *segment, visit visitor) (*fault, error) {
	file, err := r.fs.OpenFile(r.path(f.base, segmentSuffix), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s.idx.Store(newIndex())
	r.chain.gaps = f.head.compacted
	good, bad, err := scanFile(file, f.size, &r.chain, func(pos int64, h *recordbatch.Header, batch []byte) error {
		s.note(pos, h, batch, r.interval)
		r.epochs = r.epochs.with(ids.LeaderEpoch(h.LeaderEpoch), ids.Offset(h.BaseOffset))
		if visit != nil {
			return visit(pos, h, batch)
		}
		return nil
	})
	r.scanned += good
	if bad == nil && err == nil && f.head.compacted {
		if r.chain.next > f.head.through {
			return faultAt(good, errOffsetGap), nil
		}
		r.chain.next = f.head.through
		s.setEnd(r.chain.next)
	}
	return bad, err
}

// scanRest scans the segments from number first on, and cuts the log where nobody was promised what follows.
func (r *recovery) scanRest(first int) error {
	for i := first; i < len(r.files); i++ {
		done, err := r.scanOne(i)
		if err != nil || done {
			return err
		}
	}
	return nil
}

// scanOne scans one segment. done says that the log ends in it, or before it.
//
// More segments than the newest may need this: a roll does not wait for the sync of what was rolled, so a crash of the machine can
// leave holes in each segment that reaches past the mark, or swallow the name of one of them. From the first hole on nothing is kept,
// whole as it may look: nobody was told that it was synced, and offsets must not have gaps.
func (r *recovery) scanOne(i int) (done bool, err error) {
	f := &r.files[i]
	name := r.path(f.base, segmentSuffix)
	if f.headErr != nil {
		return r.badHead(i)
	}
	if f.base != r.chain.next {
		if i > 0 && !r.vouched(r.chain.next) {
			r.cutFrom(i, "no record before it was synced, and one is missing")
			return true, nil
		}
		return false, r.damage(name, 12, "segment begins at offset %d, the one before ends at %d", f.base, r.chain.next)
	}
	s := newFound(f)
	bad, err := r.scan(f, s, func(pos int64, h *recordbatch.Header, batch []byte) error {
		if h.HasProducer() {
			r.recovered.producers.append(h, ids.Offset(h.BaseOffset), r.now)
		}
		return r.atMark(f, s, pos, int64(len(batch)))
	})
	if err != nil {
		return false, err
	}
	if bad != nil {
		why, ok := r.repairable(i, bad)
		if !ok {
			return false, r.damage(name, bad.suspect, "%v", bad.reason)
		}
		r.cutFrom(i+1, "the segment before it was cut")
		r.actions = append(r.actions, action{kind: actTruncate, file: name, size: bad.pos, why: why, lost: f.size - bad.pos})
		// The file is cut at the last good batch, and is active again.
		if s.compacted { // only a vouched segment is compacted, so this cannot be; but it must not pass for whole
			return false, r.damage(name, bad.suspect, "%v", bad.reason)
		}
		r.segments = append(r.segments, s)
		return true, nil
	}
	r.segments = append(r.segments, s)
	if i == len(r.files)-1 {
		return false, nil
	}
	return false, r.reseal(f, s)
}

// reseal decides whether a scanned segment that is not the newest needs its index and snapshot written. If it was sealed, its index
// knows a checksum over the batch headers, which tells of damage that breaks no other rule.
func (r *recovery) reseal(f *found, s *segment) error {
	head, err := r.usableIndex(f, s.endOffset())
	x := s.idx.Load()
	switch {
	case err == nil && head.total == x.total:
		s.sealed = true
		s.idx.Store(nil)
		return nil
	case err == nil && r.vouched(s.endOffset()-1):
		return r.damage(r.path(f.base, segmentSuffix), r.badPrefix(f, x), "%v", errPrefixes)
	}
	r.seals = append(r.seals, pendingSeal{
		segment: s, end: s.endOffset(), snapshot: r.recovered.producers.appendSnapshot(nil, s.endOffset()),
	})
	return nil
}

// activate makes sure that the last segment can be appended to: that its index is in memory. It may be one that was sealed, when what was
// active behind it never got as far as the device.
func (r *recovery) activate(s *segment) error {
	s.sealed = false
	if s.idx.Load() != nil {
		return nil
	}
	head, x, err := readIndexFile(r.fs, r.path(s.base, indexSuffix))
	if err == nil && head.identity == s.identity && head.fileBytes == s.size.Load() && head.end == s.endOffset() {
		s.idx.Store(x)
		return nil
	}
	file, err := r.fs.OpenFile(r.path(s.base, segmentSuffix), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	end := s.endOffset()
	s.idx.Store(newIndex())
	c := chain{next: s.base, epoch: ids.NoEpoch, gaps: s.compacted}
	good, bad, err := scanFile(file, s.size.Load(), &c, func(pos int64, h *recordbatch.Header, batch []byte) error {
		s.note(pos, h, batch, r.interval)
		return nil
	})
	r.scanned += good
	s.setEnd(end)
	if err == nil && bad != nil {
		err = r.damage(r.path(s.base, segmentSuffix), bad.suspect, "%v", bad.reason)
	}
	return err
}

// badPrefix returns where the first block begins whose batch headers differ from what the index knows.
func (r *recovery) badPrefix(f *found, x *index) int64 {
	_, old, err := readIndexFile(r.fs, r.path(f.base, indexSuffix))
	if err != nil {
		return segmentHeaderBytes
	}
	at := int64(segmentHeaderBytes)
	now := x.view()
	for i, e := range old.view() {
		if i >= len(now) || now[i].pos != e.pos || now[i].prev != e.prev {
			break
		}
		at = int64(e.pos)
	}
	return at
}

// atMark compares the headers up to the durable mark with what was there when it was made: a flipped bit in a leader epoch breaks
// no other check. It is called for every batch of a scan and does its work at the one that ends at the mark.
//
// A batch that spans the mark, or a mark at which another offset is reached, is damage as well: the mark always lies between two
// batches. A compacted segment has other bytes than when the mark was made, and checks of its own.
func (r *recovery) atMark(f *found, s *segment, pos, size int64) error {
	e := &r.entry
	if !e.MarkKnown || e.MarkSegment != f.base || f.head.compacted || e.MarkBytes <= pos || e.MarkBytes > pos+size {
		return nil
	}
	if e.MarkBytes == pos+size && s.idx.Load().total == e.MarkHeaders && s.endOffset() == e.Mark {
		return nil
	}
	at := pos // the damaged field is the leader epoch of the last batch that begins one, or the like
	if e.MarkBytes == pos+size {
		at = r.lastEpochStart(s, pos)
	}
	return r.damage(r.path(f.base, segmentSuffix), at, "batch headers are not what was synced: %v", errPrefixes)
}

// lastEpochStart returns the position at which the newest epoch begins in a segment, as near as the index tells; pos if it began
// before.
func (r *recovery) lastEpochStart(s *segment, pos int64) int64 {
	if len(r.epochs) == 0 || r.epochs[len(r.epochs)-1].offset < s.base {
		return pos
	}
	list := s.idx.Load().view()
	i := floorOffset(list, int64(r.epochs[len(r.epochs)-1].offset-s.base))
	if i < 0 {
		return pos
	}
	return int64(list[i].pos)
}
