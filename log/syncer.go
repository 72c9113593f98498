package log

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/vfs"
)

const (
	// defaultSyncInterval is the period of SyncPeriodic, and of writing marks in every mode.
	defaultSyncInterval = 250 * time.Millisecond
	// wholeFrom is how many dirty logs make one sync of the file system cheaper than theirs, even if others write to it too.
	wholeFrom = 64
	// defaultSyncWorkers is how many logs are synced at the same time.
	defaultSyncWorkers = 4
)

// Syncer syncs the logs of a node in the background: what is dirty once an interval (SyncPeriodic), what is asked for at once
// (SyncOnCommit), and sealed segments in every mode. It has a few goroutines for all logs, and no timer while nothing is dirty.
type Syncer struct {
	mode     SyncMode
	interval time.Duration
	workers  int

	kick chan struct{} // something is dirty: the interval begins
	now  chan struct{} // do not wait for the interval to end
	stop chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	work    sync.Cond // queue grew, or closing
	shared  *Shared
	queue   deque[*Log]
	dirty   []*Log // to be synced when the interval ends
	armed   bool   // the interval runs, or is about to
	started bool
	closing bool

	// Of the goroutine that runs the passes.
	whole   vfs.Whole // the file system, once many logs were dirty at once
	noWhole bool      // it cannot be synced as a whole
}

// NewSyncer returns a syncer; Start starts it. interval 0 chooses 250 ms, workers 0 chooses 4.
func NewSyncer(mode SyncMode, interval time.Duration, workers int) *Syncer {
	if interval <= 0 {
		interval = defaultSyncInterval
	}
	if workers <= 0 {
		workers = defaultSyncWorkers
	}
	s := &Syncer{
		mode: mode, interval: interval, workers: workers,
		kick: make(chan struct{}, 1), now: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.work.L = &s.mu
	return s
}

// Mode returns the sync mode of the node.
func (s *Syncer) Mode() SyncMode { return s.mode }

// attach tells the syncer what its logs share.
func (s *Syncer) attach(shared *Shared) {
	s.mu.Lock()
	s.shared = shared
	s.mu.Unlock()
}

// Start starts the goroutines. It is called once, before or after the first Open.
func (s *Syncer) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.closing {
		return
	}
	s.started = true
	s.wg.Go(s.runInterval)
	for range s.workers {
		s.wg.Go(s.runWorker)
	}
}

// Close ends the goroutines and waits for them. Logs are to be closed first: what is dirty then stays so.
func (s *Syncer) Close() {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		s.wg.Wait()
		return
	}
	s.closing = true
	close(s.stop)
	s.work.Broadcast()
	s.mu.Unlock()
	s.wg.Wait()
	if s.whole != nil {
		_ = s.whole.Close()
	}
}

// markDirty has a log synced when the interval ends.
func (s *Syncer) markDirty(l *Log) {
	s.mu.Lock()
	s.dirty = append(s.dirty, l)
	s.armLocked()
	s.mu.Unlock()
}

// markMarks has the journal's marks written when the interval ends.
func (s *Syncer) markMarks() {
	s.mu.Lock()
	s.armLocked()
	s.mu.Unlock()
}

func (s *Syncer) armLocked() {
	if s.armed {
		return
	}
	s.armed = true
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// kickNow ends the interval early: too many files are pinned until their sync.
func (s *Syncer) kickNow() {
	select {
	case s.now <- struct{}{}:
	default:
	}
}

// enqueue hands a log to a worker.
func (s *Syncer) enqueue(l *Log) {
	s.mu.Lock()
	s.queue.push(l)
	s.mu.Unlock()
	s.work.Signal()
}

// runInterval waits for something dirty, lets an interval pass, and syncs what has gathered. The interval begins with the first dirty
// log, so an idle node has no timer, and what is dirty stays so for an interval at most, and for as long as the pass before takes.
func (s *Syncer) runInterval() {
	timer := time.NewTimer(s.interval)
	timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.kick:
		}
		timer.Reset(s.interval)
		select {
		case <-s.stop:
			timer.Stop()
			return
		case <-timer.C:
		case <-s.now:
			timer.Stop()
		}
		s.syncDirty()
	}
}

// syncDirty syncs what is dirty and writes the marks.
func (s *Syncer) syncDirty() {
	s.mu.Lock()
	list := s.dirty
	s.dirty = nil
	s.armed = false
	shared := s.shared
	s.mu.Unlock()
	if shared == nil {
		return
	}
	if len(list) < wholeFrom || !s.syncWhole(shared, list) {
		s.inParallel(len(list), func(i int) { list[i].syncInBackground() })
	}
	if err := shared.Journal.WriteMarks(); err != nil {
		shared.Logger.Named("log").Warn("durable marks are not written", zap.Error(err))
	}
}

// inParallel calls do for 0 to n-1, several at a time.
func (s *Syncer) inParallel(n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(s.workers, n) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	wg.Wait()
}

// syncWhole syncs many logs by one sync of the file system. Thousands of syncs of a file each are a commit of the file system's
// journal each, which everybody who writes waits for. It reports false if that cannot be done here.
//
// When it fails the kernel does not say for which file, so each log syncs its own then, and those that had an error are told.
func (s *Syncer) syncWhole(shared *Shared, list []*Log) bool {
	fresh := s.whole == nil && !s.noWhole
	if fresh {
		s.openWhole(shared, list[0].dir)
	}
	if fresh || s.whole == nil {
		return false // errors are told from the opening on, so it counts from the next pass
	}
	jobs := make([]syncJob, 0, len(list))
	logs := make([]*Log, 0, len(list))
	for _, l := range list {
		if !l.beginBackground() {
			continue
		}
		jobs = append(jobs, syncJob{}) // within the room, so that the slices inside stay valid
		if err := l.planSync(&jobs[len(jobs)-1]); err != nil {
			jobs = jobs[:len(jobs)-1]
			l.endBackground(err)
			continue
		}
		logs = append(logs, l)
	}
	began := time.Now()
	err := s.whole.Sync()
	shared.Metrics.SyncSeconds.Observe(time.Since(began).Seconds())
	if err == nil {
		for i, l := range logs {
			l.endBackground(l.settle(&jobs[i], false, nil))
		}
		return true
	}
	shared.Logger.Named("log").Warn("sync of the file system failed, each log is synced by itself", zap.Error(err))
	s.inParallel(len(logs), func(i int) {
		failed, err := logs[i].carryOut(&jobs[i])
		logs[i].endBackground(logs[i].settle(&jobs[i], failed, err))
	})
	return true
}

// openWhole opens the file system of the logs, if it can be synced as a whole.
func (s *Syncer) openWhole(shared *Shared, dir string) {
	fs, ok := shared.FS.(vfs.WholeFS)
	if !ok {
		s.noWhole = true
		return
	}
	w, err := fs.OpenWhole(dir)
	if err != nil {
		s.noWhole = errors.Is(err, vfs.ErrNotWhole)
		return
	}
	s.whole = w
}

// runWorker syncs the logs that are asked for.
func (s *Syncer) runWorker() {
	for {
		s.mu.Lock()
		for s.queue.len() == 0 && !s.closing {
			s.work.Wait()
		}
		if s.closing {
			s.mu.Unlock()
			return
		}
		l := s.queue.pop()
		s.mu.Unlock()
		l.syncInBackground()
	}
}
