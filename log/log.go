package log

import (
	"errors"
	"sort"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// Chunk is a run of whole batches that Read gives out. The reader must not change Data, and calls Ref.Release when done with it
// (Ref may be nil; Release takes nil).
type Chunk struct {
	Data []byte
	Ref  *buf.Ref
}

// Bounds are the ends of a log at one moment.
type Bounds struct {
	// Start is the log start offset: the first offset that can be read.
	Start ids.Offset
	// End is the log end offset: what the next record will get.
	End ids.Offset
	// DurableEnd is one past the last record known to be synced.
	DurableEnd ids.Offset
	// Epoch is the leader epoch of the last batch, -1 if there never was one or all were removed.
	Epoch ids.LeaderEpoch
	// NeverWritten says that the log has never held a record.
	NeverWritten bool
	// SizeBytes is the size of all segment files.
	SizeBytes int64
}

// view is what readers see of a log beside its ends. It is immutable; a change publishes a new one.
type view struct {
	segments []*segment // by base offset, never empty once written; the last is active
	epochs   epochTable
	sealed   int64 // bytes of all but the last segment
}

// find returns the number of the segment that holds off, or would.
func (v *view) find(off ids.Offset) int {
	return max(0, sort.Search(len(v.segments), func(i int) bool { return v.segments[i].base > off })-1)
}

// Log is one copy of one shard on disk. Append, TruncateTo and AdvanceStart are for one caller at a time, the owner of the shard;
// everything else may be called at any time from anywhere.
type Log struct {
	shared    *Shared
	dir       string
	shard     ids.ShardID
	name      string
	onDurable func(ids.Offset, error)
	tail      *tailLog

	// Published for readers. Written under mu.
	view    atomic.Pointer[view]
	start   atomic.Int64
	end     atomic.Int64
	durable atomic.Int64
	cuts    atomic.Uint32 // truncations begun and ended: odd while one changes the files
	floor   atomic.Int64

	mu        sync.Mutex // guards what follows
	cfg       Config
	producers *producerTable
	active    *segment // the last of view.segments, nil before the first append
	unsynced  []*segment
	seals     []pendingSeal
	doomed    []ids.Offset // segments that are out of the log and whose files are still to be removed
	dirtyDir  bool         // names in dir are not synced
	madeDir   uint64       // when the directories above were made, in terms of Shared.dirs; 0 when they are synced
	dirty     bool         // the syncer knows of unsynced bytes
	pinned    *segment     // whose file is kept open until its sync
	gen       uint32       // number of truncations; a sync that spans one says nothing
	appends   int64        // since the last sync
	bytes     int64        // since the last sync
	closed    bool
	failed    error // ErrFailed around the reason
	appended  bool  // OnDurable may be called

	sync syncState

	// turn is taken by whoever changes files beside appending: sealing, retention, compaction, truncation, deletion. It is not a
	// lock over state, it is held across IO, and it comes before mu.
	turn  sync.Mutex
	clean cleanState
}

// Open recovers the log of opts.Dir. It makes nothing on disk before the first Append, except that it repairs what a crash left;
// see the cluster rules, 2.3, for what is repaired and what is refused. A refusal is of kind StorageFailed and wraps a
// *DamageError that names file and position.
func Open(opts Options) (*Log, error) {
	if err := opts.Shared.init(); err != nil {
		return nil, err
	}
	s := opts.Shared
	l := &Log{
		shared: s, dir: opts.Dir, shard: opts.Shard, name: opts.Name, onDurable: opts.OnDurable,
		cfg: opts.Config.withDefaults(), tail: &tailLog{},
	}
	l.view.Store(&view{})
	r, err := recoverLog(l.recoveryInput())
	if err != nil {
		if d := (*DamageError)(nil); errors.As(err, &d) {
			s.Metrics.DamageFound.Inc()
		}
		return nil, errcode.Newf(errcode.StorageFailed, "log %s: %w", l.name, err)
	}
	if err := l.adoptRecovered(r); err != nil {
		l.noteSyncFailed() // it may have been a sync
		l.shut()
		return nil, errcode.Newf(errcode.StorageFailed, "log %s: %w", l.name, err)
	}
	return l, nil
}

// logger is made on use: ten thousand logs do not need one each.
func (l *Log) logger() *zap.Logger {
	return l.shared.Logger.Named("log").With(zap.String("shard", l.name))
}

// Bounds returns the ends of the log. It takes no lock: the fields are each as of some moment during the call, read in an order
// that keeps Start <= DurableEnd <= End true of what is returned unless the log is being truncated.
func (l *Log) Bounds() Bounds {
	v := l.view.Load()
	b := Bounds{
		Start:      ids.Offset(l.start.Load()),
		DurableEnd: ids.Offset(l.durable.Load()),
		End:        ids.Offset(l.end.Load()),
		Epoch:      v.epochs.latest(),
	}
	b.NeverWritten = b.End == 0
	b.SizeBytes = v.sealed
	if n := len(v.segments); n > 0 {
		b.SizeBytes += v.segments[n-1].size.Load()
	}
	return b
}

// EpochAt returns the leader epoch of the record at off, -1 if it is not known.
func (l *Log) EpochAt(off ids.Offset) ids.LeaderEpoch {
	if off >= ids.Offset(l.end.Load()) {
		return ids.NoEpoch
	}
	return l.view.Load().epochs.at(off)
}

// EndOfEpoch returns the largest known epoch at or below e and the offset at which it ended, by the rules of spec/kafka.md 4.6:
// the log end for the newest one, (-1, -1) when e is newer than all or nothing is known.
func (l *Log) EndOfEpoch(e ids.LeaderEpoch) (ids.LeaderEpoch, ids.Offset) {
	end := ids.Offset(l.end.Load())
	return l.view.Load().epochs.endOf(e, end)
}

// SetFloor tells the log the offset that retention and compaction must not pass: the high watermark.
func (l *Log) SetFloor(f ids.Offset) { l.floor.Store(int64(f)) }

// SetConfig changes the configuration; it holds from the next append and the next pass of Maintain on.
func (l *Log) SetConfig(c Config) {
	l.mu.Lock()
	l.cfg = c.withDefaults()
	l.mu.Unlock()
}

// Producers calls yield for each idempotent producer that is remembered, until it returns false. The state is a copy: yield may
// call the log.
func (l *Log) Producers(yield func(ProducerState) bool) {
	l.mu.Lock()
	list := make([]ProducerState, 0, l.producers.len())
	for p := l.producers.oldest; p != nil; p = p.newer {
		list = append(list, p.state())
	}
	l.mu.Unlock()
	for _, p := range list {
		if !yield(p) {
			return
		}
	}
}

// usableLocked returns why the log takes no more changes, or nil.
func (l *Log) usableLocked() error {
	if l.closed {
		return ErrClosed
	}
	return l.failed
}

// failLocked latches the log: nothing more is appended or synced until it is opened anew.
func (l *Log) failLocked(err error) error {
	if l.failed == nil {
		l.failed = errcode.Newf(errcode.StorageFailed, "%w: %w", ErrFailed, err)
	}
	return l.failed
}

// publishLocked makes a new list of segments visible to readers.
func (l *Log) publishLocked(segments []*segment, epochs epochTable) {
	v := &view{segments: segments, epochs: epochs}
	for _, s := range segments[:max(0, len(segments)-1)] {
		v.sealed += s.size.Load()
	}
	l.view.Store(v)
}

// withFile runs use with the file of a segment.
func (l *Log) withFile(s *segment, use func(f fileIO) error) error {
	f, err := l.openFile(s)
	if err != nil {
		return err
	}
	defer l.shared.Files.release(&s.h)
	return use(f)
}

// openFile returns the file of a segment; the caller releases the segment's handle.
func (l *Log) openFile(s *segment) (fileIO, error) {
	return l.shared.Files.acquire(&s.h, l.shared.FS, l.dir, s.base)
}

// Close ends the log. A clean close syncs what is written and records how far; otherwise the files are left as they are, as after a
// crash of the process. Readers that are under way finish. A second Close does nothing.
func (l *Log) Close(clean bool) error {
	var err error
	if clean {
		err = l.Sync()
		if errors.Is(err, ErrClosed) {
			return nil
		}
		err = errors.Join(err, l.sealPending())
	}
	if !l.shut() {
		return nil
	}
	return err
}

// shut marks the log closed and lets go of files and memory. It reports false if it was closed already.
func (l *Log) shut() bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.closed = true
	v := l.view.Load()
	pinned := l.pinned
	l.pinned = nil
	l.addUnsyncedLocked(-l.bytes)
	l.bytes = 0
	l.mu.Unlock()
	if pinned != nil {
		l.shared.Files.unpin(&pinned.h)
	}
	for _, s := range v.segments {
		l.shared.Files.retire(&s.h)
	}
	l.shared.Tail.forget(l.tail)
	l.waitSyncs()
	return true
}

// takeTurn takes the turn and has a compaction that is under way give up.
func (l *Log) takeTurn() {
	l.clean.stop.Add(1)
	l.turn.Lock()
	l.clean.stop.Add(-1)
}

// Delete closes the log and removes its directory. What the journal knows of it stays: see journal.Forget.
func (l *Log) Delete() error {
	l.shut()
	l.takeTurn() // a pass that is under way must not bring files back
	defer l.turn.Unlock()
	return RemoveDir(l.shared.FS, l.dir)
}
