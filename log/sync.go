package log

import (
	"errors"
	"fmt"
	"math"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/journal"
)

// syncState lets one goroutine sync a log while others wait for it. Its lock is a leaf.
type syncState struct {
	mu      sync.Mutex
	running bool // somebody syncs
	queued  bool // a worker of the syncer will
	again   bool // asked for while running, by somebody who does not wait
	waiting []*syncWaiter
}

// syncWaiter waits for a sync that covers target.
type syncWaiter struct {
	target ids.Offset
	wake   chan struct{} // of room 1
}

// RequestSync asks for a sync of what is written, by a goroutine of the syncer. Requests that come before it begins share it.
// OnDurable reports.
func (l *Log) RequestSync() {
	st := &l.sync
	st.mu.Lock()
	enqueue := false
	switch {
	case st.running:
		st.again = true
	case !st.queued:
		st.queued, enqueue = true, true
	}
	st.mu.Unlock()
	if enqueue {
		l.shared.Syncer.enqueue(l)
	}
}

// Sync makes everything durable that was written before the call.
func (l *Log) Sync() error {
	_, err := l.SyncNow()
	return err
}

// SyncNow makes everything durable that was written before the call, and returns the durable end. If nobody syncs this log it does
// so on the caller's goroutine, which spares a lone producer the hand-off; otherwise it waits for a sync that began late enough,
// and of those who wait one carries it out. OnDurable is called before it returns, by whoever syncs.
func (l *Log) SyncNow() (ids.Offset, error) {
	target := ids.Offset(l.end.Load())
	for {
		if durable := ids.Offset(l.durable.Load()); durable >= target && !l.hasFailed() {
			return durable, nil
		}
		if !l.takeSync(target) {
			continue // waited; look again
		}
		// Whoever is ready to append may do so first: each append more is one that need not wait for the next sync. With
		// nobody ready this costs next to nothing.
		for range gatherYields {
			runtime.Gosched()
		}
		err := l.runSync()
		l.endSync()
		if err != nil {
			return ids.Offset(l.durable.Load()), err
		}
	}
}

// gatherYields is how often SyncNow lets others run before it syncs. Once more than once catches those that the first woke.
const gatherYields = 2

func (l *Log) hasFailed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usableLocked() != nil
}

// takeSync makes the caller the one who syncs, or waits for who does and returns false.
func (l *Log) takeSync(target ids.Offset) bool {
	st := &l.sync
	st.mu.Lock()
	if !st.running {
		st.running = true
		st.mu.Unlock()
		return true
	}
	w, _ := l.shared.syncWaiters.Get().(*syncWaiter)
	if w == nil {
		w = &syncWaiter{wake: make(chan struct{}, 1)}
	}
	w.target = target
	st.waiting = append(st.waiting, w)
	st.mu.Unlock()
	<-w.wake
	l.shared.syncWaiters.Put(w)
	return false
}

// endSync lets the next one sync: those whose records are durable are woken, and one of the others to go on. Waking all of the others
// would have them fight for the turn, and all but one would go back to sleep.
func (l *Log) endSync() {
	durable := ids.Offset(l.durable.Load())
	all := l.hasFailed()
	st := &l.sync
	st.mu.Lock()
	st.running = false
	kept := st.waiting[:0] // in place: the list is short-lived and this is the hot path of on_commit
	leader := false
	for _, w := range st.waiting {
		switch {
		case all || w.target <= durable || w.target == math.MaxInt64:
		case !leader:
			leader = true
		default:
			kept = append(kept, w)
			continue
		}
		w.wake <- struct{}{} // of room 1, and nobody else sends
	}
	clear(st.waiting[len(kept):])
	st.waiting = kept
	enqueue := st.again && !leader && !st.queued && !all
	st.queued = st.queued || enqueue
	st.again = false
	st.mu.Unlock()
	if enqueue {
		l.shared.Syncer.enqueue(l)
	}
}

// forceSync syncs everything that is not known to be synced, names and headers of segments without records too.
func (l *Log) forceSync() error {
	for !l.takeSync(math.MaxInt64) {
	}
	defer l.endSync()
	return l.runSync()
}

// waitSyncs returns when nobody syncs. The log is closed, so no sync begins afterwards that touches a file.
func (l *Log) waitSyncs() {
	for !l.takeSync(math.MaxInt64) {
	}
	l.endSync()
}

// beginBackground makes a goroutine of the syncer the one who syncs, unless somebody does: then it is done again afterwards.
func (l *Log) beginBackground() bool {
	st := &l.sync
	st.mu.Lock()
	defer st.mu.Unlock()
	st.queued = false
	if st.running {
		st.again = true
		return false
	}
	st.running = true
	return true
}

// syncInBackground syncs what is written and finishes sealed segments, on a goroutine of the syncer.
func (l *Log) syncInBackground() {
	if l.beginBackground() {
		l.endBackground(l.runSync())
	}
}

// endBackground ends what beginBackground began.
func (l *Log) endBackground(err error) {
	l.endSync()
	if err == nil {
		err = l.sealInBackground()
	}
	if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrFailed) {
		l.logger().Warn("sync is tried again later", zap.Error(err))
	}
}

// syncJob is what one sync covers.
type syncJob struct {
	segments []*segment
	sizes    []int64
	mark     journal.Mark
	gen      uint32
	dir      bool
	madeDir  uint64
	appends  int64
	bytes    int64

	// Room for what nearly every job has.
	segmentRoom [2]*segment
	sizeRoom    [2]int64
}

// empty says that there is nothing to sync.
func (j *syncJob) empty() bool { return len(j.segments) == 0 && !j.dir && j.madeDir == 0 }

// runSync syncs what is written now. The caller is the one who syncs.
func (l *Log) runSync() error {
	var job syncJob
	if err := l.planSync(&job); err != nil || job.empty() {
		return err
	}
	began := time.Now()
	failed, err := l.carryOut(&job)
	l.shared.Metrics.SyncSeconds.Observe(time.Since(began).Seconds())
	return l.settle(&job, failed, err)
}

// planSync finds out what there is to sync.
func (l *Log) planSync(job *syncJob) error {
	job.segments, job.sizes = job.segmentRoom[:0], job.sizeRoom[:0]
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	l.planSyncLocked(job)
	return nil
}

// settle takes note of how a sync went, and reports it.
func (l *Log) settle(job *syncJob, failed bool, err error) error {
	l.mu.Lock()
	var moved bool
	switch {
	case err == nil:
		moved = l.syncedLocked(job)
	case failed:
		l.shared.Metrics.SyncFailures.Inc()
		l.logger().Error("sync failed: the log is stopped", zap.Int64("durable_end", l.durable.Load()), zap.Error(err))
		err = l.failLocked(err)
	default: // a file could not be opened: nothing is known to be lost, and the next interval tries again
		l.dirtyDir = l.dirtyDir || job.dir
		for _, s := range job.segments {
			s.doubtful = true
		}
		l.markDirtyLocked()
	}
	report := l.onDurable != nil && l.appended && (moved || failed)
	unpin := l.pinned
	if l.dirty && !failed {
		unpin = nil
	}
	if unpin != nil {
		l.pinned = nil
	}
	durable := ids.Offset(l.durable.Load())
	l.mu.Unlock()
	if unpin != nil {
		l.shared.Files.unpin(&unpin.h)
	}
	if failed {
		l.noteSyncFailed()
	}
	if report {
		if failed {
			l.onDurable(durable, err)
		} else {
			l.onDurable(durable, nil)
		}
	}
	return err
}

// planSyncLocked fills in what there is to sync. From here on, what is appended makes the log dirty again.
//
// The mark is taken together with the sizes, under the lock: what it says must be what the syncs that follow cover, however much is
// appended while they run.
func (l *Log) planSyncLocked(job *syncJob) {
	for _, s := range l.unsynced {
		job.segments = append(job.segments, s)
		job.sizes = append(job.sizes, s.size.Load())
	}
	if s := l.active; s != nil {
		if size := s.size.Load(); s.unsynced() {
			job.segments = append(job.segments, s)
			job.sizes = append(job.sizes, size)
		}
		job.mark = journal.Mark{
			End: ids.Offset(l.end.Load()), Segment: s.base, Bytes: s.size.Load(), Headers: s.idx.Load().total,
		}
	}
	for _, s := range job.segments {
		s.doubtful = false // a write that fails while the sync runs makes it so again
	}
	job.gen, job.dir, job.madeDir = l.gen, l.dirtyDir, l.madeDir
	job.appends, job.bytes = l.appends, l.bytes
	l.dirty, l.dirtyDir, l.appends = false, false, 0
}

// carryOut does the syncs, older segments first, so that what is durable never has a hole. failed tells a sync that failed from a
// file that could not be opened.
func (l *Log) carryOut(job *syncJob) (failed bool, err error) {
	for _, s := range job.segments {
		err := l.withFile(s, func(f fileIO) error {
			err := f.Datasync()
			failed = err != nil
			return err
		})
		if err != nil && !failed && l.isGone(s) {
			continue // retention or a truncation was faster
		}
		if err != nil {
			return failed, fmt.Errorf("sync segment %d: %w", s.base, err)
		}
	}
	if job.dir {
		if err := l.shared.FS.SyncDir(l.dir); err != nil {
			return true, err
		}
	}
	if job.madeDir != 0 {
		// The log's own name, its topic's, and that of the directory of all topics: each may have been made with it.
		dir := l.dir
		for range 3 {
			dir = path.Dir(dir)
			if err := l.shared.dirs.sync(l.shared.FS, dir, job.madeDir); err != nil {
				return true, err
			}
		}
	}
	return false, nil
}

// isGone says that a segment is not in the log any more, and that this is not because the log was closed.
func (l *Log) isGone(s *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && !slices.Contains(l.view.Load().segments, s)
}

// syncedLocked takes note of a sync that succeeded. It reports whether the durable end has moved.
func (l *Log) syncedLocked(job *syncJob) bool {
	l.bytes -= job.bytes
	l.shared.Metrics.UnsyncedBytes.Sub(float64(job.bytes))
	if job.appends > 0 {
		l.shared.Metrics.SyncBatchAppends.Observe(float64(job.appends))
	}
	if l.madeDir == job.madeDir {
		l.madeDir = 0
	}
	// The unsynced bytes were those of the job, whatever has become of them.
	if job.gen != l.gen {
		return false // the log was truncated meanwhile: the sync says nothing of what stands there now
	}
	for i, s := range job.segments {
		s.synced = max(s.synced, job.sizes[i])
	}
	kept := l.unsynced[:0]
	for _, s := range l.unsynced {
		if s.unsynced() {
			kept = append(kept, s)
		}
	}
	clear(l.unsynced[len(kept):])
	l.unsynced = kept
	if int64(job.mark.End) <= l.durable.Load() && job.mark.Bytes == 0 {
		return false
	}
	moved := int64(job.mark.End) > l.durable.Load()
	l.durable.Store(max(l.durable.Load(), int64(job.mark.End)))
	l.shared.Journal.SetMark(l.shard, job.mark)
	l.shared.Syncer.markMarks()
	return moved
}

// markDirtyLocked tells the syncer that there is something to sync, once, and keeps the file open that was written to, if there is
// room: an error that the disk meets later belongs to those who had it open. (Linux also tells whoever opens the file next, as
// long as it remembers the file.)
func (l *Log) markDirtyLocked() {
	if l.dirty || l.shared.Syncer.mode != SyncPeriodic || l.closed {
		return
	}
	l.dirty = true
	if l.pinned == nil && l.active != nil && l.shared.Files.pin(&l.active.h) {
		l.pinned = l.active
	}
	l.shared.Syncer.markDirty(l)
}

// addUnsyncedSegmentLocked remembers a segment that is not active any more and not synced yet.
func (l *Log) addUnsyncedSegmentLocked(s *segment) {
	if s.unsynced() {
		l.unsynced = append(l.unsynced, s)
	}
}

func (l *Log) addUnsyncedLocked(n int64) { l.shared.Metrics.UnsyncedBytes.Add(float64(n)) }
