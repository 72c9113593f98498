package log

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
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
// maxBytes, but with firstWhole at least one batch, if there is one. The reader releases the chunks.
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
}

func (r *reader) release() {
	for _, c := range r.dst[r.first:] {
		c.Ref.Release()
	}
	clear(r.dst[r.first:])
	r.dst = r.dst[:r.first]
}

// run reads piece after piece. Once something was added, an error ends the reading without being shown: the next read will meet it.
func (r *reader) run() error {
	next := r.from
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
		default:
			return err
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
func (r *reader) take(w *walk, next *ids.Offset) (more bool, err error) {
	begin, end := -1, 0
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

// blocks is a run of whole blocks read from a segment.
type blocks struct {
	l    *Log
	s    *segment
	ref  *buf.Ref
	data []byte
	pos  int64   // of data in the file
	list []entry // the segment's index
	i    int     // number of the first block
	// closing is the checksum over the last block of the segment, if that is sealed.
	closing uint32
	closed  bool
	end     ids.Offset // one past the last offset that the blocks stand for
}

func (b *blocks) empty() bool { return b.ref == nil }

// chain returns what the first batch must follow.
func (b *blocks) chain(s *segment) chain {
	return chain{next: s.base + ids.Offset(b.list[b.i].rel), epoch: ids.NoEpoch, gaps: s.compacted}
}

// readBlocks reads the block that holds from and those after it: about budget bytes, at most a piece, and nothing behind limit. An
// empty result says that the segment has nothing there. The caller releases ref.
func (l *Log) readBlocks(s *segment, from, limit ids.Offset, budget int) (blocks, error) {
	size := s.size.Load() // before the index, so that every batch below it is in there
	x, err := l.indexOf(s)
	if err != nil {
		return blocks{}, err
	}
	b := blocks{l: l, s: s, list: x.view()}
	if len(b.list) == 0 || size <= segmentHeaderBytes {
		return blocks{}, nil
	}
	b.i = max(0, floorOffset(b.list, int64(from-s.base)))
	b.pos = int64(b.list[b.i].pos)
	if b.pos >= size {
		return blocks{}, nil // the list is newer than the size
	}
	to := b.bound(size, limit, min(max(budget, 1), readPiece))
	b.ref = l.shared.Pool.Get(int(to - b.pos))
	b.data = b.ref.Bytes()
	if err := l.readAt(s, b.data, b.pos); err != nil {
		b.ref.Release()
		return blocks{}, err
	}
	if s.isSealed() && to == size {
		b.closed, b.closing = true, x.block
	}
	return b, nil
}

// readAt fills b from a segment's file.
func (l *Log) readAt(s *segment, b []byte, pos int64) error {
	f, err := l.openFile(s)
	if err != nil {
		return err
	}
	defer l.shared.Files.release(&s.h)
	n, err := f.ReadAt(b, pos)
	if isEOF(err) && n < len(b) {
		return l.damageIn(s, pos+int64(n), "file ends here, before what was written to it")
	}
	if isEOF(err) {
		return nil
	}
	return err
}

// bound returns where to stop reading: at the end of a block.
func (b *blocks) bound(size int64, limit ids.Offset, want int) int64 {
	stop := size
	b.end = b.s.endOffset()
	// Batches at or behind limit are not for this reader: those begin at the latest with the first entry there.
	if k := floorOffset(b.list, int64(limit-b.s.base)-1) + 1; k < len(b.list) && k > b.i && int64(b.list[k].pos) < size {
		stop = int64(b.list[k].pos)
		b.end = b.s.base + ids.Offset(b.list[k].rel)
	}
	j := max(floorPosition(b.list, b.pos+int64(want)), b.i)
	if int64(b.list[j].pos) < b.pos+int64(want) || j == b.i {
		j++ // the block that the wanted end lies in
	}
	if j-b.i > 1 && j < len(b.list) && int64(b.list[j].pos)-b.pos > readPiece {
		j--
	}
	if j < len(b.list) && int64(b.list[j].pos) < stop {
		stop = int64(b.list[j].pos)
		b.end = b.s.base + ids.Offset(b.list[j].rel)
	}
	return stop
}

// isSealed says that nothing is appended any more: the end of the last block is final.
func (s *segment) isSealed() bool { return s.frozen.Load() }

func (l *Log) damageIn(s *segment, pos int64, format string, args ...any) error {
	return &DamageError{Log: l.name, File: offsetName(l.dir, s.base, segmentSuffix), Position: pos, Reason: fmt.Sprintf(format, args...)}
}

// walk goes through the batches of blocks and verifies all but their own checksums.
type walk struct {
	blocks
	epochs epochTable
	chain  chain

	h     recordbatch.Header
	batch []byte
	at    int // of batch in data
	err   error

	after  int    // where the next batch begins
	crc    uint32 // over the prefixes of the block so far
	inside int    // number of the block, relative to i
	began  int    // where the block begins in data
}

// next moves to the next batch. It returns false at the end and at damage: see err.
func (w *walk) next() bool {
	if w.err != nil || w.after >= len(w.data) {
		w.at = w.after
		return false
	}
	w.at = w.after
	pos := w.pos + int64(w.at)
	if k := w.i + w.inside + 1; k < len(w.list) && pos >= int64(w.list[k].pos) {
		if pos != int64(w.list[k].pos) || w.crc != w.list[k].prev {
			w.fail(w.pos+int64(w.began), errPrefixes)
			return false
		}
		w.inside, w.began, w.crc = w.inside+1, w.at, 0
	}
	h, batch, _, err := recordbatch.Next(w.data[w.at:])
	if err == nil {
		err = w.chain.check(pos, &h)
	}
	if err == nil {
		if e := w.epochs.at(ids.Offset(h.BaseOffset)); e != ids.NoEpoch && e != ids.LeaderEpoch(h.LeaderEpoch) {
			err = errEpochUnknown
		}
	}
	if err != nil {
		w.fail(pos, err)
		return false
	}
	w.crc = crc32.Update(w.crc, castagnoli, batch[:headPrefix])
	w.h, w.batch = h, batch
	w.after = w.at + len(batch)
	return true
}

func (w *walk) fail(pos int64, err error) {
	w.err = w.l.damageIn(w.s, pos, "%v", err)
}

func (w *walk) checkCRC() error {
	if err := recordbatch.CheckCRC(w.batch); err != nil {
		return w.l.damageIn(w.s, w.pos+int64(w.at), "%v", err)
	}
	return nil
}

// finishBlock goes on to the end of the block, so that its checksum has been compared.
func (w *walk) finishBlock() {
	block := w.inside
	for w.inside == block && w.next() {
	}
	if w.err != nil || w.after < len(w.data) {
		return
	}
	want, known := w.closing, w.closed
	if k := w.i + w.inside + 1; k < len(w.list) && w.pos+int64(len(w.data)) == int64(w.list[k].pos) {
		want, known = w.list[k].prev, true
	}
	if known && w.crc != want {
		w.fail(w.pos+int64(w.began), errPrefixes)
	}
}

// badBlock returns where in data what must not be given out begins: the damaged batch, or the block whose headers are in doubt.
func (w *walk) badBlock() int {
	var d *DamageError
	if errors.As(w.err, &d) {
		return int(d.Position - w.pos)
	}
	return 0
}

// endOffset is one past the last offset that the blocks stand for.
func (w *walk) endOffset() ids.Offset { return w.end }

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
