package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/journal"
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
	unread    int        // how many of the first segments were taken from their indexes, for all that is known without reading them
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
//
// The durable mark divides the work. Segments that end at or below it are sealed: taken from their indexes, never cut. The segment
// that holds it and all after it are scanned in full, and cut at the first fault that lies at or past the mark. Producer state at the
// line between the two comes from a snapshot, made when the segment after it was begun.
func recoverLog(in recoveryInput) (*recovered, error) {
	return newRecovery(in).run()
}

func newRecovery(in recoveryInput) *recovery {
	r := &recovery{recoveryInput: in}
	r.recovered.producers = newProducerTable(in.producers, in.batches)
	return r
}

// run is recoverLog. After a refusal, files holds every segment that is there.
func (r *recovery) run() (*recovered, error) {
	err := r.list()
	r.dropSuperseded()
	if err != nil {
		return nil, err
	}
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
	r.unread = len(r.segments)
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

// list reads the directory and the head of each segment. A segment of another format is refused once all were listed.
func (r *recovery) list() error {
	entries, err := r.fs.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var indexes []ids.Offset
	var refusal error
	for _, e := range entries {
		if base, ok := parseOffsetName(e.Name, segmentSuffix); ok {
			f, err := r.probe(base)
			if errors.Is(f.headErr, errFormat) && refusal == nil {
				refusal, err = err, nil
			}
			if err != nil && !errors.Is(f.headErr, errFormat) {
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
	return refusal
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

// dropSuperseded must come before anything that looks at neighbours. It removes segments whose offsets a compacted segment before them stands for: compaction was interrupted between
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

// finish checks the end against the mark and clears away files that speak of what is not there.
//
// A log that ends before its mark has lost records that may have been acknowledged, even if every byte that is left is good: a file was
// cut at the boundary of a batch, or a whole one is gone. A log start above the end, on the other hand, can only be of records that were
// deleted on purpose, and the log goes on from there.
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
		if err := r.activate(last); err != nil {
			return nil, err
		}
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
		r.segments, r.seals, r.rebuilt, r.unread = nil, nil, nil, 0
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
