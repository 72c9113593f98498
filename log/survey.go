package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// segmentSurvey is what reading a whole segment has shown. Unlike a scan, a survey goes on behind a bad place.
type segmentSurvey struct {
	end     ids.Offset // one past the last offset that it stands for, as far as it can be read
	epoch   ids.LeaderEpoch
	largest int64 // timestamp

	places   int   // bad ones
	bad      int64 // bytes that hold no readable batch
	position int64 // of the first bad place
	reason   error // of the first
}

func (s *segmentSurvey) note(position int64, reason error) {
	if s.places++; s.places == 1 {
		s.position, s.reason = position, reason
	}
}

// survey reads the segment at base to its end, over every bad place. next is where the segment behind it begins; NoOffset for the last
// one of a log, whose torn end is no damage.
func (r *recovery) survey(base, next ids.Offset) (*segmentSurvey, error) {
	f, err := r.probe(base)
	out := &segmentSurvey{end: base, epoch: ids.NoEpoch, largest: -1}
	switch {
	case errors.Is(f.headErr, errFormat): // nothing is known of what follows
		out.note(8, f.headErr)
		return out, nil
	case isRotten(err):
		out.note(0, err)
		return out, nil
	case err != nil:
		return nil, err
	case f.headErr != nil:
		out.note(0, f.headErr)
	}
	file, err := r.fs.OpenFile(r.path(base, segmentSuffix), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := newFound(&f)
	s.idx.Store(newIndex())
	c := chain{next: base, epoch: ids.NoEpoch, gaps: f.head.compacted || f.headErr != nil}
	torn, err := r.surveyBatches(file, &f, next, &c, s, out)
	if err != nil {
		return nil, err
	}
	out.end, out.epoch, out.largest = c.next, c.epoch, max(-1, s.largest.Load())
	if f.head.compacted && f.headErr == nil {
		if c.next > f.head.through {
			out.note(segmentHeaderBytes, errOffsetGap)
		}
		out.end = f.head.through
	}
	if torn || next == ids.NoOffset || out.places > 0 {
		return out, nil
	}
	if out.end != next {
		out.note(f.size, fmt.Errorf("segment ends at offset %d, the next begins at %d", out.end, next))
	} else if head, err := r.fittingIndex(&f, next); err == nil && head.total != s.idx.Load().total {
		out.note(r.badPrefix(&f, s.idx.Load()), errPrefixes)
	}
	return out, nil
}

// surveyBatches scans the batches of a segment, and on behind each fault. torn says that it ended at one that a start would cut off.
func (r *recovery) surveyBatches(file vfs.File, f *found, next ids.Offset, c *chain, s *segment, out *segmentSurvey) (torn bool, err error) {
	for pos := int64(segmentHeaderBytes); pos < f.size; {
		good, bad, err := scanFrom(file, pos, f.size, c, func(pos int64, h *recordbatch.Header, batch []byte) error {
			s.note(pos, h, batch, r.interval)
			return nil
		})
		if isRotten(err) {
			out.note(good, err)
			out.bad += f.size - good
			return false, nil
		}
		if err != nil || bad == nil {
			return false, err
		}
		if next == ids.NoOffset && !r.vouched(c.next) {
			return true, nil
		}
		out.note(bad.suspect, bad.reason)
		if pos, err = resync(file, f.size, bad, c, next); isRotten(err) {
			pos = f.size // nothing behind the unreadable block is looked at
		} else if err != nil {
			return false, err
		}
		out.bad += pos - bad.pos
	}
	return false, nil
}

// isRotten says that the device could not read a block: damage of what is stored, unlike an error of permissions or memory.
func isRotten(err error) bool { return errors.Is(err, syscall.EIO) }

// resync returns where the next whole batch begins at or behind a fault, limit if there is none, and sets the chain to it. A batch whose
// own bytes are good and that only does not follow the one before is that batch.
func resync(file vfs.File, limit int64, bad *fault, c *chain, next ids.Offset) (int64, error) {
	if errors.Is(bad.reason, errOffsetGap) || errors.Is(bad.reason, errEpochBack) {
		h, _, err := batchAt(file, bad.pos, limit)
		c.next, c.epoch = ids.Offset(h.BaseOffset), ids.LeaderEpoch(h.LeaderEpoch)
		return bad.pos, err
	}
	// A segment's offsets lie within 32 bits, and below the next one's: hardly any other bytes pass for an offset.
	low, high := c.next, c.next+1<<32
	if next != ids.NoOffset {
		high = min(high, next)
	}
	try := func(pos int64) (bool, error) {
		h, ok, err := batchAt(file, pos, limit)
		if base := ids.Offset(h.BaseOffset); err != nil || !ok || base < low || base >= high {
			return false, err
		}
		c.next, c.epoch = ids.Offset(h.BaseOffset), min(c.epoch, ids.LeaderEpoch(h.LeaderEpoch))
		return true, nil
	}
	if bad.whole && bad.end < limit {
		if ok, err := try(bad.end); err != nil || ok {
			return bad.end, err
		}
	}
	pooled := scanBuffers.Get().(*[scanBytes]byte)
	defer scanBuffers.Put(pooled)
	for from := bad.pos + 1; from+recordbatch.HeaderSize <= limit; from += scanBytes - recordbatch.HeaderSize + 1 {
		b := pooled[:min(scanBytes, limit-from)]
		if n, err := file.ReadAt(b, from); n < len(b) {
			return 0, err
		}
		for at := range len(b) - recordbatch.HeaderSize + 1 {
			if base := ids.Offset(binary.BigEndian.Uint64(b[at:])); base < low || base >= high {
				continue
			}
			if ok, err := try(from + int64(at)); err != nil || ok {
				return from + int64(at), err
			}
		}
	}
	return limit, nil
}

// batchAt reads the batch at pos. ok says that it lies within limit and its checksum is good.
func batchAt(file vfs.File, pos, limit int64) (h recordbatch.Header, ok bool, err error) {
	var head [recordbatch.HeaderSize]byte
	if limit-pos < int64(len(head)) {
		return h, false, nil
	}
	if n, err := file.ReadAt(head[:], pos); n < len(head) {
		return h, false, err
	}
	if h, err = recordbatch.ParseHeader(head[:]); err != nil || h.LastOffsetDelta < 0 || int64(h.Size()) > limit-pos {
		return recordbatch.Header{}, false, nil //nolint:nilerr // bytes that are no header are no batch
	}
	b := make([]byte, h.Size())
	if n, err := file.ReadAt(b, pos); n < len(b) {
		return h, false, err
	}
	return h, recordbatch.CheckCRC(b) == nil, nil
}
