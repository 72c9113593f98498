package log

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

const (
	// defaultMaxFiles bounds the open segment files when the process may open more.
	defaultMaxFiles = 4096
	// minMaxFiles is the least bound: below it every read would open a file.
	minMaxFiles = 16
	// overflowFactor times the bound is where opening stops: files that are being used cannot be closed.
	overflowFactor = 2
	// evictionSteps bounds the search for a file to close.
	evictionSteps = 64
)

// errTooManyFiles is returned when every open file is in use and the bound is exceeded.
var errTooManyFiles = errcode.New(errcode.Overloaded, "log: too many segment files are in use")

// FileCache bounds the open segment files of a node. A handle that nobody uses may be closed at any time and is opened again on
// use. Safe for concurrent use.
type FileCache struct {
	limit   int
	metrics *Metrics
	// pressure is called, outside all locks, when no file can be closed; nil or the syncer's kick.
	pressure func()

	opening [16]sync.Mutex // by handle, so that a file is opened once; held across the open call and nothing else

	pinned atomic.Int64 // handles that stay open until their bytes are synced

	mu   sync.Mutex
	ring []*handle // open handles, visited in a circle
	hand int
}

// NewFileCache returns a cache of at most maxFiles open files; 0 chooses a third of what the process may open, at most 4096.
// metrics may be nil.
func NewFileCache(maxFiles int, metrics *Metrics) *FileCache {
	if maxFiles <= 0 {
		maxFiles = defaultMaxFiles
		var rl syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &rl); err == nil && rl.Cur/3 < defaultMaxFiles {
			maxFiles = int(rl.Cur / 3)
		}
	}
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	return &FileCache{limit: max(maxFiles, minMaxFiles), metrics: metrics}
}

// handle is a segment's file, open or not. The zero value is closed.
//
// A user gets the file by counting refs up from idle or more, so whoever takes it from idle to closing has it alone.
type handle struct {
	refs    atomic.Int32 // refsClosing, refsClosed, refsIdle, or refsIdle + the number of users
	used    atomic.Bool  // since the hand last came by
	retired atomic.Bool  // close for good as soon as idle
	lane    uint8        // chooses the lock under which the file is opened; any spread will do
	file    vfs.File     // valid while refs >= refsIdle
}

const (
	refsClosing = -1
	refsClosed  = 0
	refsIdle    = 1
)

// acquire returns the file of the segment that begins at base in dir, opening it if needed. release must follow.
func (c *FileCache) acquire(h *handle, fs vfs.FS, dir string, base ids.Offset) (vfs.File, error) {
	if h.tryAcquire() {
		return h.file, nil
	}
	m := &c.opening[int(h.lane)%len(c.opening)]
	m.Lock()
	if h.tryAcquire() { // somebody was faster
		m.Unlock()
		return h.file, nil
	}
	if h.retired.Load() {
		m.Unlock()
		return nil, ErrClosed
	}
	if err := c.room(); err != nil {
		m.Unlock()
		return nil, err
	}
	f, err := fs.OpenFile(offsetName(dir, base, segmentSuffix), os.O_RDWR, 0)
	if err != nil {
		m.Unlock()
		return nil, err
	}
	h.file = f
	h.refs.Store(refsIdle + 1)
	m.Unlock()
	c.metrics.FileOpens.Inc()
	c.insert(h)
	return f, nil
}

// adopt gives a closed handle a file that was just created, and acquires it.
func (c *FileCache) adopt(h *handle, f vfs.File) {
	h.file = f
	h.refs.Store(refsIdle + 1)
	c.insert(h)
}

// pin keeps an open handle open until unpin, if there is room for that: at most half the files may be pinned. It reports whether it
// did.
func (c *FileCache) pin(h *handle) bool {
	if c.pinned.Add(1) > int64(c.limit/2) || !h.tryAcquire() {
		c.pinned.Add(-1)
		return false
	}
	return true
}

// unpin undoes pin.
func (c *FileCache) unpin(h *handle) {
	c.pinned.Add(-1)
	c.release(h)
}

// release gives back what acquire or adopt gave.
func (c *FileCache) release(h *handle) {
	if h.refs.Add(-1) == refsIdle && h.retired.Load() {
		c.closeIdle(h)
	}
}

// retire closes the handle for good, once its last user has gone.
func (c *FileCache) retire(h *handle) {
	h.retired.Store(true)
	c.closeIdle(h)
}

func (h *handle) tryAcquire() bool {
	for {
		r := h.refs.Load()
		if r == refsClosing {
			runtime.Gosched() // for the few instructions of takeFile
			continue
		}
		if r == refsClosed {
			return false
		}
		if h.refs.CompareAndSwap(r, r+1) {
			if !h.used.Load() {
				h.used.Store(true)
			}
			return true
		}
	}
}

// takeFile takes the file out of an idle handle, which is closed from then on; nil if it is in use or closed. The state between
// keeps an opener from putting a new file where the old one is still being read from.
func (h *handle) takeFile() vfs.File {
	if !h.refs.CompareAndSwap(refsIdle, refsClosing) {
		return nil
	}
	f := h.file
	h.file = nil
	h.refs.Store(refsClosed)
	return f
}

// closeIdle closes the file if nobody uses it.
func (c *FileCache) closeIdle(h *handle) {
	if f := h.takeFile(); f != nil {
		closeQuietly(f)
	}
}

// closeQuietly closes a file whose close error is of no interest: nothing is written by a close, and what was written is judged
// by its sync.
func closeQuietly(f vfs.File) {
	_ = f.Close()
}

// room refuses to open one more when even the overflow is used up, and has the syncer make room.
func (c *FileCache) room() error {
	c.mu.Lock()
	full := len(c.ring) >= c.limit*overflowFactor
	c.mu.Unlock()
	if !full || c.shrink(c.limit*overflowFactor-1) {
		return nil
	}
	if c.pressure != nil {
		c.pressure()
	}
	return errTooManyFiles
}

// insert puts an open handle into the circle and closes idle ones while there are too many.
func (c *FileCache) insert(h *handle) {
	c.mu.Lock()
	c.ring = append(c.ring, h)
	c.mu.Unlock()
	if !c.shrink(c.limit) && c.pressure != nil {
		c.pressure()
	}
}

// shrink closes idle files until at most n are open. It reports whether it got there.
func (c *FileCache) shrink(n int) bool {
	c.mu.Lock()
	var victims []vfs.File
	for len(c.ring) > n {
		v, ok := c.victimLocked()
		if !ok {
			break
		}
		if v != nil {
			victims = append(victims, v)
		}
	}
	done := len(c.ring) <= n
	c.metrics.OpenFiles.Set(float64(len(c.ring)))
	c.mu.Unlock()
	for _, f := range victims {
		closeQuietly(f)
	}
	return done
}

// victimLocked takes one handle out of the circle: one that is closed already (nil, true), or an idle one whose file the caller
// must close. It gives up after some steps.
func (c *FileCache) victimLocked() (vfs.File, bool) {
	for range min(2*len(c.ring), evictionSteps) {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		h := c.ring[c.hand]
		switch {
		case h.refs.Load() == refsClosed:
			c.removeAtLocked(c.hand)
			return nil, true
		case h.used.Load():
			h.used.Store(false)
			c.hand++
		default:
			if f := h.takeFile(); f != nil {
				c.removeAtLocked(c.hand)
				return f, true
			}
			c.hand++
		}
	}
	return nil, false
}

func (c *FileCache) removeAtLocked(i int) {
	last := len(c.ring) - 1
	c.ring[i] = c.ring[last]
	c.ring[last] = nil
	c.ring = c.ring[:last]
}

// Open returns the number of open files.
func (c *FileCache) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ring)
}
