package log

import (
	"errors"
	"fmt"
	"io/fs"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

const (
	// readPiece bounds one read of a file, unless a single block is larger.
	readPiece = 1 << 20
	// readAttempts bounds how often a read starts over because the files changed under it.
	readAttempts = 8
)

// errMoved says that a segment has been replaced or cut since the reader looked at the list.
var errMoved = errors.New("segment was replaced")

// Read adds whole batches to dst and returns it and the number of bytes added: from the batch that contains from, or follows it
// where compaction has removed it, up to the last one that ends at or below limit (exclusive: the reader's high watermark). At most
// maxBytes, but with firstWhole at least one batch, if there is one. It may stop early, never before the first batch that it may
// give. The reader releases the chunks.
//
// Every batch that comes from a file has had its header and checksum verified. Runs alongside Append and takes no lock of the log.
//
// Errors: *errcode.RangeError if from is outside [start, end]; *DamageError, of kind CorruptBatch, if the first batch is not what
// was written; StorageFailed if the file cannot be read. After an error nothing was added.
func (l *Log) Read(from, limit ids.Offset, maxBytes int, firstWhole bool, dst []Chunk) ([]Chunk, int, error) {
	if err := l.checkRange(from); err != nil {
		return dst, 0, err
	}
	limit = min(limit, ids.Offset(l.end.Load()))
	if from >= limit {
		return dst, 0, nil
	}
	if out, n, ok := l.shared.Tail.read(l.tail, from, limit, maxBytes, firstWhole, dst); ok {
		l.shared.Metrics.TailHits.Inc()
		return out, n, nil
	}
	l.shared.Metrics.TailMisses.Inc()
	r := reader{l: l, from: from, limit: limit, maxBytes: maxBytes, firstWhole: firstWhole, dst: dst, first: len(dst)}
	err := r.run()
	if err == nil {
		return r.dst, r.total, nil
	}
	r.release()
	return dst, 0, l.readError(from, err)
}

func (l *Log) checkRange(from ids.Offset) error {
	start, end := l.start.Load(), l.end.Load()
	if int64(from) < start || int64(from) > end {
		return &errcode.RangeError{Requested: int64(from), Start: start, End: end}
	}
	return nil
}

// readError gives a failed read its kind, and counts and logs damage.
func (l *Log) readError(from ids.Offset, err error) error {
	if rerr := l.checkRange(from); rerr != nil {
		return rerr // retention was faster
	}
	if d := (*DamageError)(nil); errors.As(err, &d) {
		l.shared.Metrics.DamageFound.Inc()
		l.logger().Error("stored bytes are damaged", zap.String("file", d.File), zap.Int64("position", d.Position), zap.String("reason", d.Reason))
		return err
	}
	if k := errcode.Of(err); k != errcode.Internal {
		return err
	}
	return errcode.Newf(errcode.StorageFailed, "log %s: read: %w", l.name, err)
}

// reader is one Read from files.
type reader struct {
	l           *Log
	from, limit ids.Offset
	maxBytes    int
	firstWhole  bool
	dst         []Chunk
	first       int // where our chunks begin in dst
	total       int
	cuts        uint32 // Log.cuts when the reading began
}

func (r *reader) release() {
	for _, c := range r.dst[r.first:] {
		c.Ref.Release()
	}
	clear(r.dst[r.first:])
	r.dst = r.dst[:r.first]
}

// run reads piece after piece. Once something was added, an error ends the reading without being shown: the next read will meet it.
//
// A reader holds no lock, so compaction may replace a segment, and retention remove it, between the look at the list and the read of
// the file. Then the list has changed, and the reader looks again; an error counts only while the segment is still in the list.
func (r *reader) run() error {
	next := r.from
	r.cuts = r.l.cuts.Load()
	for attempt := 0; ; {
		more, err := r.piece(&next)
		switch {
		case err == nil && !more:
			return nil
		case err == nil:
		case r.total > 0:
			return nil
		case errors.Is(err, errMoved) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrClosed):
			if attempt++; attempt == readAttempts || r.l.checkRange(r.from) != nil {
				return err
			}
		case r.cuts%2 == 1 || r.l.cuts.Load() != r.cuts:
			return r.runAlone()
		default:
			return err
		}
	}
}

// runAlone is run for a reader that met a truncation: what it read may be neither what was there before nor what is there now. It keeps
// truncation, retention and compaction away while it reads, which a reader may do only because this is rare.
func (r *reader) runAlone() error {
	r.l.takeTurn()
	defer r.l.turn.Unlock()
	next := r.from
	for {
		more, err := r.piece(&next)
		if err != nil && r.total == 0 {
			return err
		}
		if err != nil || !more {
			return nil
		}
	}
}

// piece reads one piece from next on and moves next. more is false when the reader has what it may have.
func (r *reader) piece(next *ids.Offset) (more bool, err error) {
	if *next >= r.limit || r.total > 0 && r.total >= r.maxBytes {
		return false, nil
	}
	v := r.l.view.Load()
	i := v.find(*next)
	if i >= len(v.segments) {
		return false, errMoved
	}
	s := v.segments[i]
	if *next < s.base { // retention has removed what comes next
		if r.total > 0 {
			return false, nil
		}
		return false, errMoved
	}
	if *next >= s.endOffset() {
		if i+1 >= len(v.segments) {
			return false, nil // a limit past what the list holds: it was cut meanwhile
		}
		*next = v.segments[i+1].base
		return true, nil
	}
	if r.total > 0 && !r.l.fits(s, *next, r.maxBytes-r.total) {
		return false, nil // a large block would be read, and most of it for nothing
	}
	b, err := r.l.readBlocks(s, *next, r.limit, r.maxBytes-r.total)
	if err != nil {
		return false, r.l.moved(s, err)
	}
	if b.empty() {
		*next = s.endOffset() // nothing is left of what this segment held
		return true, nil
	}
	w := walk{blocks: b, epochs: v.epochs, chain: b.chain(s)}
	more, err = r.take(&w, next)
	b.ref.Release()
	if err != nil {
		return false, r.l.moved(s, err)
	}
	return more, nil
}

// take adds what it may of the blocks and moves next behind them.
//
// After the last batch that is given out it goes on to the end of that batch's block, headers only: the checksum over the block's
// headers is the one check that a flipped bit in a base offset of a compacted segment does not pass. If a block is in doubt, nothing
// of it is given out.
func (r *reader) take(w *walk, next *ids.Offset) (more bool, err error) {
	begin, end := -1, 0
	from := *next
	more = true
	for w.next() {
		h := &w.h
		if ids.Offset(h.NextOffset()) <= *next {
			continue // before what was asked for, in the same block
		}
		if err := w.checkCRC(); err != nil {
			w.err = err
			break
		}
		size := len(w.batch)
		if ids.Offset(h.NextOffset()) > r.limit || r.total+size > r.maxBytes && (!r.firstWhole || r.total > 0) {
			more = false
			break
		}
		if begin < 0 {
			begin = w.at
		}
		end = w.at + size
		r.total += size
		*next = ids.Offset(h.NextOffset())
	}
	if w.err == nil {
		w.finishBlock()
	}
	if w.err != nil {
		if bad := w.badBlock(); begin < 0 || bad <= begin {
			if begin >= 0 {
				r.total -= end - begin
			}
			*next = from // nothing was given out, so a second attempt must not begin behind it
			return false, w.err
		} else if bad < end {
			r.total -= end - bad
			end = bad
		}
		more = false
	} else if more && begin < 0 && w.at >= len(w.data) {
		*next = max(*next, w.endOffset()) // a hole that compaction left, up to the end of the piece
	}
	if begin >= 0 {
		r.dst = append(r.dst, Chunk{Data: w.data[begin:end:end], Ref: w.ref.Retain()})
	}
	return more, nil
}

// moved says whether an error comes from reading a segment that is not in the log any more.
func (l *Log) moved(s *segment, err error) error {
	for _, now := range l.view.Load().segments {
		if now == s {
			return err
		}
	}
	return fmt.Errorf("%w: %w", errMoved, err)
}

// Available estimates how many bytes a Read from one offset to a limit would give, at most most. It is exact in the hot tail, and
// elsewhere up to two blocks of the index too large; it reads no file unless an index has to be loaded.
func (l *Log) Available(from, limit ids.Offset, most int) int {
	limit = min(limit, ids.Offset(l.end.Load()))
	if from >= limit || int64(from) < l.start.Load() {
		return 0
	}
	if n, ok := l.shared.Tail.span(l.tail, from, limit, most); ok {
		return min(n, most)
	}
	v := l.view.Load()
	n := int64(0)
	for i := v.find(from); i < len(v.segments) && n < int64(most); i++ {
		s := v.segments[i]
		if s.base >= limit {
			break
		}
		from, to := l.around(s, from, limit)
		n += to - from
	}
	return int(min(n, int64(most)))
}

// around returns positions in a segment at or before one offset and at or behind another, as near as the index tells.
func (l *Log) around(s *segment, from, limit ids.Offset) (low, high int64) {
	low, high = segmentHeaderBytes, s.size.Load()
	if from <= s.base && limit >= s.endOffset() {
		return low, high
	}
	x, err := l.indexOf(s)
	if err != nil {
		return low, high
	}
	list := x.view()
	if i := floorOffset(list, int64(from-s.base)); i >= 0 {
		low = int64(list[i].pos)
	}
	if i := floorOffset(list, int64(limit-s.base)-1) + 1; i < len(list) {
		high = min(high, int64(list[i].pos))
	}
	return low, max(low, high)
}
