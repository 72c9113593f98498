package log

import (
	"errors"
	"os"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// badHead judges a segment whose own header cannot be read.
//
// Cases, in order: nothing in the file was ever synced, so it goes with all behind it; the header is not blank, so it was written
// once and is damaged now; the file is empty and lies between two segments that meet without it; the file is the newest, holds
// nothing but zeros, and nothing is missed without it. Anything else is refused.
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

// cutFrom removes the segments from number i on, the newest first: a crash in between leaves a log without a hole, which the next
// opening cuts at the same place.
func (r *recovery) cutFrom(i int, why string) {
	for j := len(r.files) - 1; j >= i; j-- {
		r.removeSegment(r.files[j].base, why, max(0, r.files[j].size-segmentHeaderBytes))
	}
}

// repairable says whether a fault may be cut off, and as what.
//
// With a mark it is simple. Below it everything was synced, and no crash damages that: it is the device, or somebody's hand, and a
// person must know. At or past it nobody was promised anything. The one exception is the operator's own word.
//
// Without a mark the bytes must speak. A crash of the process cuts the last batch short. A crash of the machine leaves zeros where
// blocks were allocated and never written, from a sector boundary on. Whatever else it is may have been acknowledged: a whole batch
// whose checksum fails, above all.
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

// zeroTail says that a file is zero from pos on, or from a sector boundary inside the damaged record [pos, end) on. Disks write whole
// sectors, so zeros that begin elsewhere were not made by a write that did not happen.
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

// batchFollows looks for a whole batch anywhere behind a fault: then the fault is not the end of the log. This is what tells a rotten
// length field, which seems to reach past the end of the file, from a batch that was really cut short.
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
