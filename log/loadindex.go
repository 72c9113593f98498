package log

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// maxIndexMemory bounds the indexes of sealed segments that are in memory for readers.
const maxIndexMemory = 32 << 20

// loadedIndexes bounds the memory of indexes that were loaded for readers: the one loaded first goes first. A reader that still
// uses one keeps it alive.
type loadedIndexes struct {
	mu    sync.Mutex
	used  int64
	order deque[*segment]
}

// add takes note of a loaded index and lets go of others.
func (c *loadedIndexes) add(s *segment, x *index) {
	if s.idx.CompareAndSwap(nil, x) {
		c.keep(s)
	}
}

// keep takes note of an index that is in memory and may go, since it is in a file.
func (c *loadedIndexes) keep(s *segment) {
	x := s.idx.Load()
	if x == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.push(s)
	c.used += x.memory()
	for c.used > maxIndexMemory && c.order.len() > 1 {
		old := c.order.pop()
		if x := old.idx.Swap(nil); x != nil {
			c.used -= x.memory()
		}
	}
}

// indexOf returns the index of a segment, loading or rebuilding it if it is not in memory.
func (l *Log) indexOf(s *segment) (*index, error) {
	if x := s.idx.Load(); x != nil {
		return x, nil
	}
	head, x, err := readIndexFile(l.shared.FS, offsetName(l.dir, s.base, indexSuffix))
	if err == nil && (head.identity != s.identity || head.fileBytes != s.size.Load() || head.end != s.endOffset()) {
		err = errIndex
	}
	if err != nil {
		if !errors.Is(err, errIndex) && !errors.Is(err, fs.ErrNotExist) && !isEOF(err) {
			return nil, err
		}
		if x, err = l.rebuildIndex(s); err != nil {
			return nil, err
		}
	}
	l.shared.indexes.add(s, x)
	return x, nil
}

// rebuildIndex makes the index of a sealed segment from its batches, in memory and, if it can, on disk.
func (l *Log) rebuildIndex(s *segment) (*index, error) {
	f, err := l.shared.FS.OpenFile(offsetName(l.dir, s.base, segmentSuffix), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v := l.view.Load()
	c := chain{next: s.base, epoch: ids.NoEpoch, gaps: s.compacted}
	fresh := newSegment(s.base)
	fresh.identity = s.identity
	fresh.idx.Store(newIndex())
	l.mu.Lock()
	interval := int64(l.cfg.IndexIntervalBytes)
	l.mu.Unlock()
	good, bad, err := scanFile(f, s.size.Load(), &c, func(pos int64, h *recordbatch.Header, batch []byte) error {
		if e := v.epochs.at(ids.Offset(h.BaseOffset)); e != ids.NoEpoch && e != ids.LeaderEpoch(h.LeaderEpoch) {
			return l.damageIn(s, pos, "%v", errEpochUnknown)
		}
		fresh.note(pos, h, batch, interval)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if bad != nil {
		return nil, l.damageIn(s, bad.suspect, "%v", bad.reason)
	}
	if fresh.endOffset() > s.endOffset() || !s.compacted && fresh.endOffset() != s.endOffset() {
		return nil, l.damageIn(s, good, "segment ends at offset %d instead of %d", fresh.endOffset(), s.endOffset())
	}
	l.shared.Metrics.IndexRebuilt.Inc()
	fresh.setEnd(s.endOffset())
	if err := l.writeIndex(fresh, v.epochs); err != nil {
		l.logger().Warn("rebuilt index is not written", zap.Int64("segment", int64(s.base)), zap.Error(err))
	}
	return fresh.idx.Load(), nil
}
