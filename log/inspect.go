package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

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
	// Damaged: it would open them, since it does not read what was synced long ago, and reads of the damaged records would fail.
	// Only VerifyAll finds this. With Shared.VerifyAllOnOpen it would refuse them.
	Damaged
	// WouldRefuse: it would not open them.
	WouldRefuse
)

var verdictNames = [...]string{"clean", "would repair", "damaged", "would refuse"}

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
	// Workers is how many logs and segments are read at once. Default: one a processor.
	Workers int
}

// Finding is one thing that start-up would repair or refuse, or the damage in one file.
type Finding struct {
	Verdict  Verdict
	File     string
	Position int64 // of the first bad place
	Reason   string
	// Bytes is how much would be cut or removed that may have held records; of damage, how much cannot be read.
	Bytes int64
	// Places is how many bad places the file has, 0 where they were not counted.
	Places int
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
// after each log, from one goroutine at a time. A log's verdict is that of a start; VerifyAll then reads what the start does not, past every bad
// place to the end of each segment. An error means that the files could not be looked at; what is wrong with them is in
// the report.
func Inspect(fsys vfs.FS, dataDir string, opts InspectOptions, progress func(done, total int, shard *ShardReport)) (*Report, error) {
	report := &Report{}
	view, err := journal.Load(fsys, path.Join(dataDir, "journal"))
	var damaged *journal.DamageError
	switch {
	case errors.As(err, &damaged):
		report.JournalVerdict = WouldRefuse
		report.Journal = []Finding{{Verdict: WouldRefuse, File: damaged.File, Position: damaged.Position, Reason: damaged.Reason.Error()}}
		view = nil
	case err != nil:
		return nil, fmt.Errorf("journal: %w", err)
	case view.Cut > 0:
		report.JournalVerdict = WouldRepair
		report.Journal = []Finding{{Verdict: WouldRepair, File: path.Join(dataDir, "journal"), Reason: "torn end of the journal", Bytes: view.Cut}}
	}
	shards, err := listShards(fsys, path.Join(dataDir, "shards"), opts.Shards)
	if err != nil {
		return nil, err
	}
	report.Shards = make([]ShardReport, len(shards))
	in := &inspection{fs: fsys, view: view, opts: opts, report: report, progress: progress, shards: shards}
	return report, in.run()
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
