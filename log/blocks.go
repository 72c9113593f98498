package log

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

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

// fits says whether the block that holds an offset is no larger than a number of bytes.
func (l *Log) fits(s *segment, from ids.Offset, bytes int) bool {
	size := s.size.Load()
	x, err := l.indexOf(s)
	if err != nil {
		return true // whoever reads it will tell
	}
	list := x.view()
	i := max(0, floorOffset(list, int64(from-s.base)))
	if i >= len(list) {
		return true
	}
	end := size
	if i+1 < len(list) {
		end = int64(list[i+1].pos)
	}
	return end-int64(list[i].pos) <= int64(bytes)
}

// readBlocks reads the block that holds from and those after it: about budget bytes, at most a piece, and nothing behind limit. An
// empty result says that the segment has nothing there. The caller releases ref.
func (l *Log) readBlocks(s *segment, from, limit ids.Offset, budget int) (blocks, error) {
	sealed := s.isSealed() // before the size: once sealed, that is final, and so is the checksum over the last block
	size := s.size.Load()  // before the index, so that every batch below it is in there
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
	if sealed && to == size {
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

// bound returns where to stop reading: at the end of a block, so that the next piece begins at one and no byte is read twice. It is the
// last block that begins within the wanted bytes, unless that makes the piece too large and there is another one before it.
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

// walk goes through the batches of blocks and verifies all but their own checksums: that each is where the one before ends, follows it
// in offset and epoch, has the epoch that the table says, and that each block begins where the index says and has the headers that it
// knew. Checksums over the records are left to the caller, who may not want every batch.
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
