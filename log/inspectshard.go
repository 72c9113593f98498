package log

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/journal"
)

// inspection is one run of Inspect. Its tasks are logs, each of which may leave segments to be read as tasks of their own: one large log
// keeps all processors busy too. The newest task goes first, so that the logs are finished one after the other.
type inspection struct {
	fs       vfs.FS
	view     *journal.View // nil when the journal is damaged
	opts     InspectOptions
	report   *Report
	progress func(done, total int, shard *ShardReport)
	shards   []shardDir

	mu     sync.Mutex
	wake   sync.Cond      // on mu: a task was added, or the last one ended
	tasks  []func() error // the next is the last
	undone int            // tasks that wait or run
	err    error          // the first; no task begins after it
	done   int            // logs
}

func (in *inspection) run() error {
	in.wake.L = &in.mu
	tasks := make([]func() error, len(in.shards))
	for i := range in.shards {
		tasks[i] = func() error { return in.shard(i) }
	}
	in.add(tasks)
	workers := in.opts.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(in.work)
	}
	wg.Wait()
	return in.err
}

// add queues tasks, the first of them to run first.
func (in *inspection) add(tasks []func() error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := len(tasks) - 1; i >= 0; i-- {
		in.tasks = append(in.tasks, tasks[i])
	}
	in.undone += len(tasks)
	in.wake.Broadcast()
}

// work runs tasks until all are done or one failed.
func (in *inspection) work() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		for len(in.tasks) == 0 && in.undone > 0 && in.err == nil {
			in.wake.Wait()
		}
		if in.undone == 0 || in.err != nil {
			return
		}
		last := len(in.tasks) - 1
		task := in.tasks[last]
		in.tasks[last] = nil
		in.tasks = in.tasks[:last]
		in.mu.Unlock()
		err := task()
		in.mu.Lock()
		in.undone--
		if err != nil && in.err == nil {
			in.err = err
		}
		if in.undone == 0 || in.err != nil {
			in.wake.Broadcast()
		}
	}
}

// finish puts a log's report in its place.
func (in *inspection) finish(i int, r *ShardReport) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.report.Shards[i] = *r
	in.done++
	if in.progress != nil {
		in.progress(in.done, len(in.shards), &in.report.Shards[i])
	}
}

// shardInspection is one log under inspection.
type shardInspection struct {
	*recovery
	report ShardReport

	mu   sync.Mutex
	left int              // segments that are still being read
	read []*segmentSurvey // of the report's segments, in their order; nil where the start has read it or nobody does
}

// shard asks recovery for its verdict on a log and queues the segments that are left to read.
func (in *inspection) shard(i int) error {
	s := in.shards[i]
	input := recoveryInput{
		fs: in.fs, dir: s.dir, name: s.shard.String(), repairTail: in.opts.RepairChecksumTail,
		interval: defaultIndexIntervalBytes, producers: DefaultMaxProducers, batches: DefaultProducerBatches,
	}
	if in.view != nil {
		input.entry = in.view.Get(s.shard)
	}
	x := &shardInspection{recovery: newRecovery(input)}
	r := &x.report
	*r = ShardReport{Shard: s.shard, Dir: s.dir, Mark: ids.NoOffset, Epoch: ids.NoEpoch}
	if input.entry.MarkKnown {
		r.Mark = input.entry.Mark
	}
	got, err := x.run()
	var damaged *DamageError
	var broken *fs.PathError
	if isRotten(err) && errors.As(err, &broken) { // a start would not open it either
		err = &DamageError{Log: input.name, File: broken.Path, Reason: err.Error()}
	}
	unread := 0
	switch {
	case errors.As(err, &damaged):
		x.refused(damaged)
		unread = len(r.Segments)
	case err != nil:
		return fmt.Errorf("%s: %w", s.dir, err)
	default:
		x.opened(got)
		unread = min(got.unread, len(r.Segments))
	}
	var tasks []func() error
	x.read = make([]*segmentSurvey, len(r.Segments))
	for j := range unread {
		last := j == len(r.Segments)-1
		if !in.opts.VerifyAll && !(damaged != nil && (last || damaged.File == x.path(r.Segments[j].Base, segmentSuffix))) {
			continue
		}
		next := r.Segments[j].End
		if damaged != nil && last {
			next = ids.NoOffset
		}
		tasks = append(tasks, func() error { return in.segment(i, x, j, next) })
	}
	if x.left = len(tasks); x.left == 0 {
		in.finish(i, r)
		return nil
	}
	in.add(tasks)
	return nil
}

// segment reads one segment of a log; the last one to be read finishes the log.
func (in *inspection) segment(i int, x *shardInspection, j int, next ids.Offset) error {
	got, err := x.survey(x.report.Segments[j].Base, next)
	if err != nil {
		return fmt.Errorf("%s: %w", x.dir, err)
	}
	x.mu.Lock()
	x.read[j] = got
	x.left--
	last := x.left == 0
	x.mu.Unlock()
	if last {
		x.merge(in.opts.VerifyAll)
		in.finish(i, &x.report)
	}
	return nil
}

// opened reports on a log that a start would open.
func (x *shardInspection) opened(got *recovered) {
	r := &x.report
	for _, a := range got.actions {
		r.Findings = append(r.Findings, Finding{Verdict: WouldRepair, File: a.file, Position: a.size, Reason: a.why, Bytes: a.lost})
	}
	for _, seg := range got.rebuilt {
		r.Findings = append(r.Findings, Finding{
			Verdict: WouldRepair, File: x.path(seg.base, indexSuffix), Reason: "index is missing or does not fit, and would be made anew",
		})
	}
	if len(r.Findings) > 0 {
		r.Verdict = WouldRepair
	}
	r.Start, r.End, r.Epoch, r.Producers, r.Scanned = got.start, got.end, got.epochs.latest(), got.producers.len(), got.scanned
	for i, seg := range got.segments {
		r.Bytes += seg.size.Load()
		r.Segments = append(r.Segments, SegmentReport{
			Base: seg.base, End: seg.endOffset(), Bytes: seg.size.Load(), MaxTimestamp: max(-1, seg.largest.Load()),
			Compacted: seg.compacted, Sealed: i < len(got.segments)-1,
		})
	}
}

// refused reports on a log that a start would not open: what is there, as far as names and heads of files tell.
func (x *shardInspection) refused(d *DamageError) {
	r := &x.report
	r.Verdict = WouldRefuse
	r.Findings = []Finding{{Verdict: WouldRefuse, File: d.File, Position: d.Position, Reason: d.Reason}}
	r.Scanned = x.scanned
	for i, f := range x.files {
		seg := SegmentReport{Base: f.base, End: f.base, Bytes: f.size, MaxTimestamp: -1, Compacted: f.head.compacted, Sealed: i < len(x.files)-1}
		if seg.Sealed {
			seg.End = x.files[i+1].base
			if head, err := x.usableIndex(&x.files[i], seg.End); err == nil {
				seg.MaxTimestamp = max(-1, head.largest)
			}
		}
		r.Bytes += f.size
		r.Segments = append(r.Segments, seg)
	}
	if n := len(r.Segments); n > 0 {
		r.Start, r.End = max(r.Segments[0].Base, x.entry.Start), r.Segments[n-1].End
	}
}

// merge adds to the report what reading the segments has shown.
func (x *shardInspection) merge(all bool) {
	r := &x.report
	if all {
		r.Scanned = r.Bytes // by the start or by a survey, every byte was read
	}
	for j, got := range x.read {
		if got == nil {
			continue
		}
		seg := &r.Segments[j]
		if seg.MaxTimestamp = max(seg.MaxTimestamp, got.largest); r.Verdict == WouldRefuse && !seg.Sealed {
			seg.End, r.Epoch = got.end, got.epoch
			r.End = max(r.Start, seg.End)
		}
		if got.places == 0 {
			continue
		}
		file := x.path(seg.Base, segmentSuffix)
		if r.Verdict == WouldRefuse && r.Findings[0].File == file {
			r.Findings[0].Places, r.Findings[0].Bytes = got.places, got.bad
			continue
		}
		r.Verdict = max(r.Verdict, Damaged)
		r.Findings = append(r.Findings, Finding{
			Verdict: Damaged, File: file, Position: got.position, Reason: got.reason.Error(), Bytes: got.bad, Places: got.places,
		})
	}
}
