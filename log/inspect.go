package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/journal"
)

// Verdict is what start-up would do with files.
type Verdict uint8

// The verdicts, from good to bad.
const (
	// Clean: it would open them as they are.
	Clean Verdict = iota
	// WouldRepair: it would cut or remove something that was never acknowledged as synced, and open them.
	WouldRepair
	// WouldRefuse: it would not open them.
	WouldRefuse
)

var verdictNames = [...]string{"clean", "would repair", "would refuse"}

// String returns the verdict in words.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "unknown"
}

// InspectOptions say what to look at and how start-up is configured.
type InspectOptions struct {
	// Shards chooses the logs to look at; nil means all.
	Shards func(ids.ShardID) bool
	// VerifyAll reads every segment, not only what start-up must.
	VerifyAll bool
	// RepairChecksumTail is as in Shared.
	RepairChecksumTail bool
	// Workers is how many logs are looked at at once. Default: one a processor.
	Workers int
}

// Finding is one thing that start-up would repair or refuse.
type Finding struct {
	File     string
	Position int64
	Reason   string
	// Bytes is how much would be cut or removed that may have held records.
	Bytes int64
}

// SegmentReport describes one segment.
type SegmentReport struct {
	Base, End    ids.Offset
	Bytes        int64
	MaxTimestamp int64 // milliseconds, -1 without a record that has one
	Compacted    bool
	Sealed       bool
}

// ShardReport is the result for one log.
type ShardReport struct {
	Shard      ids.ShardID
	Dir        string
	Verdict    Verdict
	Findings   []Finding
	Start, End ids.Offset
	// Mark is the durable mark, -1 if there is none.
	Mark      ids.Offset
	Epoch     ids.LeaderEpoch
	Producers int
	Bytes     int64 // of all segments
	Scanned   int64 // of these, how many were read and checked
	Segments  []SegmentReport
}

// Report is the result for a data directory.
type Report struct {
	// JournalVerdict and Journal are about the journal; when it would be refused, no log would be opened.
	JournalVerdict Verdict
	Journal        []Finding
	Shards         []ShardReport
}

// Verdict is the worst of all.
func (r *Report) Verdict() Verdict {
	v := r.JournalVerdict
	for i := range r.Shards {
		v = max(v, r.Shards[i].Verdict)
	}
	return v
}

// Inspect looks at the logs of a data directory with the code that opens them, and changes nothing. progress, if not nil, is called
// after each log, from one goroutine at a time. An error means that the files could not be looked at; what is wrong with them is in
// the report.
func Inspect(fsys vfs.FS, dataDir string, opts InspectOptions, progress func(done, total int, shard *ShardReport)) (*Report, error) {
	report := &Report{}
	view, err := journal.Load(fsys, path.Join(dataDir, "journal"))
	var damaged *journal.DamageError
	switch {
	case errors.As(err, &damaged):
		report.JournalVerdict = WouldRefuse
		report.Journal = []Finding{{File: damaged.File, Position: damaged.Position, Reason: damaged.Reason.Error()}}
		view = nil
	case err != nil:
		return nil, fmt.Errorf("journal: %w", err)
	case view.Cut > 0:
		report.JournalVerdict = WouldRepair
		report.Journal = []Finding{{File: path.Join(dataDir, "journal"), Reason: "torn end of the journal", Bytes: view.Cut}}
	}
	shards, err := listShards(fsys, path.Join(dataDir, "shards"), opts.Shards)
	if err != nil {
		return nil, err
	}
	report.Shards = make([]ShardReport, len(shards))
	return report, inspectAll(fsys, shards, report, view, &opts, progress)
}

// shardDir is a log on disk.
type shardDir struct {
	shard ids.ShardID
	dir   string
}

// listShards finds the logs below a directory, by topic id and number.
func listShards(fsys vfs.FS, dir string, want func(ids.ShardID) bool) ([]shardDir, error) {
	topics, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []shardDir
	for _, t := range topics {
		topic, err := ids.ParseTopicID(t.Name)
		if err != nil || !t.IsDir {
			continue
		}
		parts, err := fsys.ReadDir(path.Join(dir, t.Name))
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			n, err := strconv.ParseInt(p.Name, 10, 32)
			id := ids.ShardID{Topic: topic, Partition: int32(n)}
			if err == nil && p.IsDir && n >= 0 && (want == nil || want(id)) {
				out = append(out, shardDir{id, path.Join(dir, t.Name, p.Name)})
			}
		}
	}
	slices.SortFunc(out, func(a, b shardDir) int {
		if c := a.shard.Topic.Compare(b.shard.Topic); c != 0 {
			return c
		}
		return int(a.shard.Partition) - int(b.shard.Partition)
	})
	return out, nil
}

// inspectAll looks at several logs at once.
func inspectAll(fsys vfs.FS, shards []shardDir, report *Report, view *journal.View, opts *InspectOptions, progress func(int, int, *ShardReport)) error {
	workers := opts.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var mu sync.Mutex
	var firstErr error
	next, done := 0, 0
	var wg sync.WaitGroup
	for range min(workers, len(shards)) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= len(shards) || firstErr != nil
				mu.Unlock()
				if stop {
					return
				}
				r, err := inspectShard(fsys, shards[i], view, opts)
				mu.Lock()
				report.Shards[i] = r
				done++
				if err != nil && firstErr == nil {
					firstErr = fmt.Errorf("%s: %w", shards[i].dir, err)
				}
				if progress != nil {
					progress(done, len(shards), &report.Shards[i])
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return firstErr
}

// inspectShard looks at one log.
func inspectShard(fsys vfs.FS, s shardDir, view *journal.View, opts *InspectOptions) (ShardReport, error) {
	in := recoveryInput{
		fs: fsys, dir: s.dir, name: s.shard.String(), verifyAll: opts.VerifyAll, repairTail: opts.RepairChecksumTail,
		interval: defaultIndexIntervalBytes, producers: DefaultMaxProducers, batches: DefaultProducerBatches,
	}
	r := ShardReport{Shard: s.shard, Dir: s.dir, Mark: ids.NoOffset, Epoch: ids.NoEpoch}
	if view != nil {
		in.entry = view.Get(s.shard)
	}
	if in.entry.MarkKnown {
		r.Mark = in.entry.Mark
	}
	got, err := recoverLog(in)
	var damaged *DamageError
	if errors.As(err, &damaged) {
		r.Verdict = WouldRefuse
		r.Findings = []Finding{{File: damaged.File, Position: damaged.Position, Reason: damaged.Reason}}
		return r, nil
	}
	if err != nil {
		return r, err
	}
	for _, a := range got.actions {
		r.Verdict = WouldRepair
		r.Findings = append(r.Findings, Finding{File: a.file, Position: a.size, Reason: a.why, Bytes: a.lost})
	}
	for _, seg := range got.rebuilt {
		r.Verdict = WouldRepair
		r.Findings = append(r.Findings, Finding{File: offsetName(s.dir, seg.base, indexSuffix), Reason: "index is missing or does not fit, and would be made anew"})
	}
	r.Start, r.End, r.Epoch, r.Producers, r.Scanned = got.start, got.end, got.epochs.latest(), got.producers.len(), got.scanned
	for i, seg := range got.segments {
		r.Bytes += seg.size.Load()
		r.Segments = append(r.Segments, SegmentReport{
			Base: seg.base, End: seg.endOffset(), Bytes: seg.size.Load(), MaxTimestamp: max(-1, seg.largest.Load()),
			Compacted: seg.compacted, Sealed: i < len(got.segments)-1,
		})
	}
	return r, nil
}
