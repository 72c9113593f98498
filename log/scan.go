package log

import (
	"errors"
	"fmt"
	"sync"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// scanBytes is the piece in which a segment is read: large enough for the disk, small enough to stay in the processor's cache.
const scanBytes = 1 << 20

// scanBuffers are the buffers of scans. All are of one size, but for those that met a larger batch, which are dropped.
var scanBuffers = sync.Pool{New: func() any { return new([scanBytes]byte) }}

// fault is where and why a scan found something other than a whole batch.
type fault struct {
	pos    int64
	reason error
	// whole says that the bytes claim to be a batch that ends within the file, at end: damaged, not cut short.
	whole bool
	end   int64
	// suspect is where the damage is taken to be, at or before pos: an epoch that is too high shows only in the batch behind.
	suspect int64
}

// faultAt is a fault that shows where it is.
func faultAt(pos int64, reason error) *fault { return &fault{pos: pos, reason: reason, suspect: pos} }

// Reasons of faults beside those of the codec.
var (
	errOffsetGap    = errors.New("offset does not follow the one before")
	errEpochBack    = errors.New("leader epoch is older than the one before")
	errEpochUnknown = errors.New("leader epoch is not the one that the log has at this offset")
	errNegative     = errors.New("batch covers no offset")
	errPrefixes     = errors.New("checksum over batch headers does not match")
)

// chain checks that each batch follows the one before.
type chain struct {
	next  ids.Offset
	epoch ids.LeaderEpoch
	gaps  bool  // offsets may be missing: a compacted segment
	began int64 // where in the file the first batch of epoch stands, 0 if in an earlier one
}

// check judges the header of a batch at pos and moves on.
func (c *chain) check(pos int64, h *recordbatch.Header) error {
	base := ids.Offset(h.BaseOffset)
	switch {
	case h.LastOffsetDelta < 0:
		return errNegative
	case base != c.next && (!c.gaps || base < c.next):
		return fmt.Errorf("%w: %d, want %d", errOffsetGap, base, c.next)
	case ids.LeaderEpoch(h.LeaderEpoch) < c.epoch:
		return fmt.Errorf("%w: %d after %d", errEpochBack, h.LeaderEpoch, c.epoch)
	}
	c.next = ids.Offset(h.NextOffset())
	if e := ids.LeaderEpoch(h.LeaderEpoch); e != c.epoch {
		c.epoch, c.began = e, pos
	}
	return nil
}

// visitor is called for each batch of a scan, in order. The bytes are valid during the call. An error ends the scan.
type visitor func(pos int64, h *recordbatch.Header, batch []byte) error

// scanFile reads the batches of a segment's file up to limit, checks header, chain and checksum of each, and returns where the good
// part ends. A fault is nil when that is at limit. err is about reading or comes from visit.
func scanFile(f vfs.File, limit int64, c *chain, visit visitor) (good int64, bad *fault, err error) {
	return scanFrom(f, segmentHeaderBytes, limit, c, visit)
}

// scanFrom is scanFile from the batch at pos on.
func scanFrom(f vfs.File, pos, limit int64, c *chain, visit visitor) (good int64, bad *fault, err error) {
	pooled := scanBuffers.Get().(*[scanBytes]byte)
	defer scanBuffers.Put(pooled)
	buffer := pooled[:]
	c.began = 0 // it is about this file
	var window []byte
	var h recordbatch.Header // one for all batches: visit makes it escape
	for pos < limit {
		if window, err = refill(f, &buffer, window, pos, limit); err != nil {
			return pos, nil, err
		}
		used, need, bad, err := scanWindow(window, pos, limit, c, &h, visit)
		pos += int64(used)
		if bad != nil || err != nil {
			return pos, bad, err
		}
		window = window[used:]
		if need > len(buffer) {
			grown := make([]byte, need) // one batch larger than a piece; its length was checked against the file
			window = grown[:copy(grown, window)]
			buffer = grown
		}
	}
	return pos, nil, nil
}

// refill moves the rest of a window to the front of the buffer and reads on behind it.
func refill(f vfs.File, buffer *[]byte, rest []byte, pos, limit int64) ([]byte, error) {
	b := *buffer
	n := copy(b, rest)
	more := min(int64(len(b)-n), limit-pos-int64(n))
	m, err := f.ReadAt(b[n:n+int(more)], pos+int64(n))
	if err != nil && !(isEOF(err) && int64(m) == more) {
		return nil, err
	}
	return b[:n+m], nil
}

// scanWindow visits the whole batches of a window that begins at pos. need is the size of the batch that the window ends in, 0
// if it ends with a whole one.
func scanWindow(window []byte, pos, limit int64, c *chain, h *recordbatch.Header, visit visitor) (used, need int, bad *fault, err error) {
	for used < len(window) {
		b := window[used:]
		at := pos + int64(used)
		*h, err = recordbatch.ParseHeader(b)
		if errors.Is(err, recordbatch.ErrShort) && at+int64(len(b)) < limit {
			return used, recordbatch.HeaderSize, nil, nil
		}
		if err != nil {
			return used, 0, faultAt(at, err), nil
		}
		size := int64(h.Size())
		if at+size > limit {
			return used, 0, faultAt(at, recordbatch.ErrShort), nil
		}
		if size > int64(len(b)) {
			return used, int(size), nil, nil
		}
		batch := b[:size:size]
		if err = recordbatch.CheckCRC(batch); err == nil {
			err = c.check(at, h)
		}
		if err != nil {
			bad := &fault{pos: at, reason: err, whole: true, end: at + size, suspect: at}
			if errors.Is(err, errEpochBack) && c.began > 0 {
				bad.suspect = c.began
			}
			return used, 0, bad, nil
		}
		if err := visit(at, h, batch); err != nil {
			return used, 0, nil, err
		}
		used += int(size)
	}
	return used, 0, nil, nil
}
