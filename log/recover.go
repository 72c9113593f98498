package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/journal"
	"github.com/felixlog/felix/log/recordbatch"
)

// recoveryInput is all that recovery looks at. It only reads, so that inspection can use the same code.
type recoveryInput struct {
	fs         vfs.FS
	dir, name  string
	entry      journal.Entry
	verifyAll  bool
	repairTail bool
	interval   int64 // of index entries
	producers  int   // limits of the producer table
	batches    int
	now        int64 // milliseconds: what counts as the last write of producers found in batches
}

// actionKind is what a repair does to a file.
type actionKind uint8

const (
	actRemove actionKind = iota
	actTruncate
)

// action is one repair. Actions are carried out in order; a crash between two of them leaves something that recovery repairs the
// same way again.
type action struct {
	kind actionKind
	file string
	size int64 // to truncate to
	why  string
	lost int64 // bytes that held or may have held records
}

// recovered is what a log's files add up to.
type recovered struct {
	segments  []*segment // the last is active
	epochs    epochTable
	producers *producerTable
	start     ids.Offset
	end       ids.Offset
	actions   []action
	seals     []pendingSeal
	rebuilt   []*segment // sealed, with an index that must be written again
	noState   bool       // producer state had to be rebuilt
	scanned   int64      // bytes
}

// found is a segment's file before it is judged.
type found struct {
	base     ids.Offset
	size     int64
	head     segmentHeader
	identity uint32
	headErr  error
}

// recovery is one run of recoverLog.
type recovery struct {
	recoveryInput
	recovered
	files     []found
	indexes   map[ids.Offset]bool
	snapshots []ids.Offset
	chain     chain
}

// recoverLog works out what a log's directory holds and what must be repaired. See the cluster rules, 2.3: a refusal is a
// *DamageError.
func recoverLog(in recoveryInput) (*recovered, error) {
	r := &recovery{recoveryInput: in}
	r.recovered.producers = newProducerTable(in.producers, in.batches)
	if err := r.list(); err != nil {
		return nil, err
	}
	r.dropSuperseded()
	if len(r.files) == 0 {
		return r.empty()
	}
	first := r.scanFrom()
	r.chain = chain{next: r.files[0].base, epoch: ids.NoEpoch}
	for i := range first {
		if err := r.sealed(i); err != nil {
			return nil, err
		}
	}
	if err := r.loadProducers(); err != nil {
		return nil, err
	}
	if err := r.scanRest(first); err != nil {
		return nil, err
	}
	return r.finish()
}

func (r *recovery) path(base ids.Offset, suffix string) string {
	return offsetName(r.dir, base, suffix)
}

func (r *recovery) damage(file string, pos int64, format string, args ...any) error {
	return &DamageError{Log: r.name, File: file, Position: pos, Reason: fmt.Sprintf(format, args...)}
}

// vouched says that records at and after off may have been acknowledged as synced: damage there is never cut.
func (r *recovery) vouched(off ids.Offset) bool { return !r.entry.MarkKnown || off < r.entry.Mark }

func (r *recovery) remove(file, why string, lost int64) {
	r.actions = append(r.actions, action{kind: actRemove, file: file, why: why, lost: lost})
}

// list reads the directory and the head of each segment.
func (r *recovery) list() error {
	entries, err := r.fs.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var indexes []ids.Offset
	for _, e := range entries {
		if base, ok := parseOffsetName(e.Name, segmentSuffix); ok {
			f, err := r.probe(base)
			if err != nil {
				return err
			}
			r.files = append(r.files, f)
		} else if base, ok := parseOffsetName(e.Name, indexSuffix); ok {
			indexes = append(indexes, base)
		} else if off, ok := parseOffsetName(e.Name, producersSuffix); ok {
			r.snapshots = append(r.snapshots, off)
		} else if _, ok := parseOffsetName(e.Name, cleanedSuffix); ok {
			r.remove(r.dir+"/"+e.Name, "left over from a compaction", 0)
		}
	}
	for _, base := range indexes {
		if r.indexes == nil {
			r.indexes = make(map[ids.Offset]bool, len(indexes))
		}
		r.indexes[base] = true
	}
	return nil
}

// probe reads the head of a segment's file.
func (r *recovery) probe(base ids.Offset) (found, error) {
	name := r.path(base, segmentSuffix)
	f, err := r.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return found{}, err
	}
	defer f.Close()
	p := found{base: base}
	if p.size, err = f.Size(); err != nil {
		return p, err
	}
	var b [segmentHeaderBytes]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !isEOF(err) {
		return p, err
	}
	p.head, p.identity, p.headErr = parseSegmentHeader(b[:n])
	if p.headErr == nil && p.head.base != base {
		p.headErr = errSegmentHeader
	}
	if errors.Is(p.headErr, errFormat) {
		return p, r.damage(name, 8, "%v", p.headErr)
	}
	return p, nil
}

// dropSuperseded removes segments whose offsets a compacted segment before them stands for: compaction was interrupted between
// putting the new segment in place and removing the old ones.
func (r *recovery) dropSuperseded() {
	kept := r.files[:0]
	through := ids.Offset(-1)
	for _, f := range r.files {
		if f.base < through {
			r.removeSegment(f.base, "superseded by a compacted segment", 0)
			continue
		}
		if f.headErr == nil && f.head.compacted {
			through = f.head.through
		}
		kept = append(kept, f)
	}
	r.files = kept
}

// removeSegment removes a segment's file and its index.
func (r *recovery) removeSegment(base ids.Offset, why string, lost int64) {
	if r.indexes[base] {
		delete(r.indexes, base)
		r.remove(r.path(base, indexSuffix), why, 0)
	}
	r.remove(r.path(base, segmentSuffix), why, lost)
}

// empty is the result for a log without segments.
func (r *recovery) empty() (*recovered, error) {
	if r.entry.MarkKnown && r.entry.Mark > 0 {
		return nil, r.damage(r.dir, 0, "no segment is there, although records below offset %d were synced", r.entry.Mark)
	}
	return r.finish()
}

// scanFrom returns the number of the first segment to scan: that of the durable mark, or the newest one when there is no mark.
func (r *recovery) scanFrom() int {
	last := len(r.files) - 1
	if r.verifyAll {
		return 0
	}
	if !r.entry.MarkKnown {
		return last
	}
	i := 0
	for i < last && r.files[i+1].base <= r.entry.Mark {
		i++
	}
	return i
}

// sealed takes in a segment that lies below the mark. Its batches are not read, unless its index is not usable.
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

// usableIndex reads the head of a segment's index file and checks that it fits.
func (r *recovery) usableIndex(f *found, next ids.Offset) (indexHead, error) {
	if !r.indexes[f.base] {
		return indexHead{}, errIndex
	}
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
// no other check.
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

// badHead judges a segment whose own header cannot be read.
func (r *recovery) badHead(i int) (done bool, err error) {
	f := &r.files[i]
	name := r.path(f.base, segmentSuffix)
	last := i == len(r.files)-1
	meets := i > 0 && r.chain.next == f.base
	switch {
	case r.entry.MarkKnown && f.base >= r.entry.Mark && r.chain.next >= r.entry.Mark:
		r.cutFrom(i, "its header was never synced")
		return true, nil
	case !errors.Is(f.headErr, errBlankHeader):
	case f.size <= segmentHeaderBytes && !last && i > 0 && r.chain.next == r.files[i+1].base:
		r.removeSegment(f.base, "empty segment of an interrupted roll", 0)
		return false, nil
	case last && (meets || i == 0 && (!r.entry.MarkKnown || r.entry.Mark == 0)):
		zero, err := r.zeroFrom(name, 0, f.size)
		if err != nil {
			return false, err
		}
		if zero {
			r.removeSegment(f.base, "blank segment of an interrupted roll", 0)
			return true, nil
		}
	}
	return false, r.damage(name, 0, "%v", f.headErr)
}

// cutFrom removes the segments from number i on, the newest first.
func (r *recovery) cutFrom(i int, why string) {
	for j := len(r.files) - 1; j >= i; j-- {
		r.removeSegment(r.files[j].base, why, max(0, r.files[j].size-segmentHeaderBytes))
	}
}

// repairable says whether a fault may be cut off, and as what.
func (r *recovery) repairable(i int, bad *fault) (string, bool) {
	f := &r.files[i]
	last := i == len(r.files)-1
	switch {
	case !r.vouched(r.chain.next):
		return "past the durable mark", true
	case last && r.repairTail && bad.whole && bad.end == f.size:
		return "checksum of the last batch fails, and its repair was asked for", true
	case !last || r.entry.MarkKnown:
		return "", false
	}
	// There is no mark. Only what a crash leaves may go: a batch that the end of the file cuts short, or zeros to the end.
	name := r.path(f.base, segmentSuffix)
	end := f.size
	if bad.whole {
		end = bad.end
	}
	if zero, err := r.zeroTail(name, bad.pos, end, f.size); err == nil && zero {
		return "zeros to the end of the file", true
	}
	if !bad.whole && errors.Is(bad.reason, recordbatch.ErrShort) {
		if follows, err := r.batchFollows(name, bad.pos+1, f.size); err == nil && !follows {
			return "the last batch is cut short", true
		}
	}
	return "", false
}

// zeroTail says that a file is zero from pos on, or from a sector boundary inside the damaged record [pos, end) on.
func (r *recovery) zeroTail(name string, pos, end, size int64) (bool, error) {
	const sector = 512
	for at := pos; at < end; at = (at/sector + 1) * sector {
		zero, err := r.zeroFrom(name, at, size)
		if err != nil || zero {
			return zero, err
		}
	}
	return false, nil
}

// zeroFrom says that a file holds only zeros from pos to size. An empty range does not count, except at the file's start.
func (r *recovery) zeroFrom(name string, pos, size int64) (bool, error) {
	f, err := r.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, min(max(size-pos, 0), 64<<10))
	for at := pos; at < size; {
		n, err := f.ReadAt(b[:min(int64(len(b)), size-at)], at)
		if err != nil && !isEOF(err) {
			return false, err
		}
		if n == 0 {
			return false, nil
		}
		if !allZero(b[:n]) {
			return false, nil
		}
		at += int64(n)
	}
	return pos < size || pos == 0, nil
}

// maxFollowSearch bounds the search for a batch behind damage.
const maxFollowSearch = 64 << 20

// batchFollows looks for a whole batch anywhere behind a fault: then the fault is not the end of the log.
func (r *recovery) batchFollows(name string, from, size int64) (bool, error) {
	if size-from > maxFollowSearch {
		return true, nil // too much for a torn batch
	}
	f, err := r.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, max(0, size-from))
	n, err := f.ReadAt(b, from)
	if err != nil && !isEOF(err) {
		return false, err
	}
	b = b[:n]
	for at := range b {
		h, batch, _, err := recordbatch.Next(b[at:])
		if err == nil && ids.Offset(h.BaseOffset) >= r.chain.next && recordbatch.CheckCRC(batch) == nil {
			return true, nil
		}
	}
	return false, nil
}

// finish checks the end against the mark and clears away files that speak of what is not there.
func (r *recovery) finish() (*recovered, error) {
	r.recovered.end = r.chain.next
	if n := len(r.segments); n > 0 {
		last := r.segments[n-1]
		r.recovered.end = last.endOffset()
		if r.entry.MarkKnown && r.recovered.end < r.entry.Mark {
			return nil, r.damage(r.path(last.base, segmentSuffix), last.size.Load(),
				"log ends at offset %d, although records below %d were synced", r.recovered.end, r.entry.Mark)
		}
		r.recovered.start = r.segments[0].base
	} else {
		r.recovered.end = max(r.recovered.end, r.entry.Start)
		if len(r.files) > 0 {
			r.recovered.end = max(r.files[0].base, r.entry.Start)
		}
		r.recovered.start = r.recovered.end
	}
	r.recovered.start = max(r.recovered.start, r.entry.Start)
	if r.recovered.start > r.recovered.end {
		for i := len(r.segments) - 1; i >= 0; i-- {
			r.removeSegment(r.segments[i].base, "below the log start offset", 0)
		}
		r.segments, r.seals, r.rebuilt = nil, nil, nil
		r.epochs = nil
		r.recovered.end = r.recovered.start
	}
	r.epochs = r.epochs.from(r.recovered.start)
	r.dropOrphans()
	return &r.recovered, nil
}

// dropOrphans removes index files without a segment and snapshots from beyond the end.
func (r *recovery) dropOrphans() {
	for _, s := range r.segments {
		delete(r.indexes, s.base)
	}
	for base := range r.indexes {
		r.remove(r.path(base, indexSuffix), "index without a segment", 0)
	}
	for _, off := range r.snapshots {
		if off > r.recovered.end {
			r.remove(r.path(off, producersSuffix), "producer snapshot from beyond the end", 0)
		}
	}
}

// loadProducers fills the producer table with the state at the end of the sealed segments: from the newest snapshot at or below,
// and the batches from there on.
func (r *recovery) loadProducers() error {
	at := r.chain.next
	from := r.files[0].base // a snapshot from there knows of producers whose records retention has removed
	for i := len(r.snapshots) - 1; i >= 0; i-- {
		if off := r.snapshots[i]; off > at || off < from {
			continue
		}
		b, err := readWhole(r.fs, r.path(r.snapshots[i], producersSuffix), maxSnapshotBytes)
		if err != nil {
			continue
		}
		t := newProducerTable(r.recoveryInput.producers, r.batches)
		if off, err := t.loadSnapshot(b); err == nil && off == r.snapshots[i] {
			r.recovered.producers, from = t, off
			break
		}
	}
	if from == at {
		return nil
	}
	r.noState = true
	for _, s := range r.segments {
		if s.endOffset() <= from {
			continue
		}
		if err := r.replayProducers(s, from); err != nil {
			return err
		}
	}
	return nil
}

// replayProducers applies the batches of a sealed segment from an offset on.
func (r *recovery) replayProducers(s *segment, from ids.Offset) error {
	name := r.path(s.base, segmentSuffix)
	file, err := r.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	c := chain{next: s.base, epoch: ids.NoEpoch, gaps: s.compacted}
	good, bad, err := scanFile(file, s.size.Load(), &c, func(_ int64, h *recordbatch.Header, _ []byte) error {
		if ids.Offset(h.BaseOffset) >= from && h.HasProducer() {
			r.recovered.producers.append(h, ids.Offset(h.BaseOffset), r.now)
		}
		return nil
	})
	r.scanned += good
	if err == nil && bad != nil {
		err = r.damage(name, bad.suspect, "%v", bad.reason)
	}
	return err
}
