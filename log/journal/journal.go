package journal

import (
	"errors"
	"os"
	"path"
	"sync"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

// DefaultCheckpointBytes is the size from which a journal is rewritten.
const DefaultCheckpointBytes = 4 << 20

// Options of a journal; the zero value is the default.
type Options struct {
	// CheckpointBytes is the size from which the file is rewritten, if that makes it half as large. Default 4 MiB.
	CheckpointBytes int64
	// MarksUnknown is for a journal that is made new: shards may exist that an earlier, lost journal knew. Absent marks are
	// then unknown and not zero. It is remembered in the file.
	MarksUnknown bool
	// Logger may be nil.
	Logger *zap.Logger
}

func (o Options) withDefaults() Options {
	if o.CheckpointBytes <= 0 {
		o.CheckpointBytes = DefaultCheckpointBytes
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// Journal is the open journal of a node. All methods may be called concurrently.
type Journal struct {
	fs     vfs.FS
	dir    string
	opts   Options
	logger *zap.Logger
	fresh  bool
	clean  bool // the previous stop was clean, and nobody has taken it yet

	mu       sync.Mutex
	idle     sync.Cond // busy became false
	st       *state    // as the file says
	dirty    []*slot   // with a lazy mark or start
	next     *batch    // collects what comes while busy
	busy     bool      // somebody writes; file, size and synced are his
	closed   bool
	failed   error // after a failed sync
	syncs    int64 // how many syncs were made; for tests of group commit
	recorded int64 // size at which the last checkpoint attempt was made

	// Owned by whoever set busy.
	file   vfs.File
	seq    uint64
	size   int64 // written
	synced int64 // known to be synced
	buf    []byte
}

// batch is what one write and one sync carry.
type batch struct {
	records []record
	marks   bool // take the lazy marks along
	sync    bool
	done    bool
	err     error
}

// Open opens the journal of dir, or makes it. A torn end is cut; damage that no crash explains is a *DamageError.
func Open(fsys vfs.FS, dir string, opts Options) (*Journal, error) {
	opts = opts.withDefaults()
	l, err := load(fsys, dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{fs: fsys, dir: dir, opts: opts, logger: opts.Logger.Named("journal"), st: l.state, seq: l.seq, fresh: !l.found}
	j.idle.L = &j.mu
	j.clean = l.state.clean
	for _, name := range append(l.temps, l.old...) {
		if err := fsys.Remove(name); err != nil {
			return nil, err
		}
	}
	if !l.found {
		if err := j.create(); err != nil {
			if j.file != nil {
				err = errors.Join(err, j.file.Close())
			}
			return nil, err
		}
		return j, nil
	}
	if j.file, err = fsys.OpenFile(fileName(dir, l.seq), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	j.size = l.size
	if l.file > l.size {
		j.logger.Warn("torn end of the journal is cut", zap.Int64("position", l.size), zap.Int64("bytes", l.file-l.size))
		if err := j.cut(); err != nil {
			return nil, errors.Join(err, j.file.Close())
		}
	}
	if !j.clean && j.size > headerBytes {
		// The process before may have ended for a sync that failed. Then what it wrote may be in the page cache alone, counted as clean,
		// and a sync of new records behind it would leave a hole. A new file has none.
		if err := j.checkpoint(); err != nil {
			return nil, errors.Join(err, j.file.Close())
		}
	}
	return j, nil
}

// cut removes what a crash left behind the last good record, durably: later records must not be followed by old bytes.
func (j *Journal) cut() error {
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.synced = j.size
	return nil
}

// create makes the first file.
func (j *Journal) create() error {
	j.st.known = !j.opts.MarksUnknown
	if err := j.fs.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	if err := j.fs.SyncDir(path.Dir(j.dir)); err != nil {
		return err
	}
	return j.checkpoint()
}

// Fresh says that Open made the journal, because there was none.
func (j *Journal) Fresh() bool { return j.fresh }

// Get returns what is known of a shard, lazy marks included.
func (j *Journal) Get(shard ids.ShardID) Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	sl := j.st.slots[shard]
	if sl == nil {
		return emptyEntry(j.st.known)
	}
	e := sl.Entry
	if sl.isDirty {
		e.setMark(sl.lazy)
		e.Start = max(e.Start, sl.lazyStart)
	}
	return e
}

// SetMark takes note of how far a log is synced. It is written by the next WriteMarks and is lost if the process is killed before.
func (j *Journal) SetMark(shard ids.ShardID, m Mark) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lazySlotLocked(shard).lazy = m
}

// RaiseStart takes note, lazily as SetMark, that retention has moved the log start offset up to off.
func (j *Journal) RaiseStart(shard ids.ShardID, off ids.Offset) {
	j.mu.Lock()
	defer j.mu.Unlock()
	sl := j.lazySlotLocked(shard)
	sl.lazyStart = max(sl.lazyStart, off)
}

func (j *Journal) lazySlotLocked(shard ids.ShardID) *slot {
	sl := j.st.slot(shard)
	if !sl.isDirty {
		sl.isDirty = true
		sl.lazy, sl.lazyStart = sl.mark(), sl.Start
		j.dirty = append(j.dirty, sl)
	}
	return sl
}

// WriteMarks writes the lazy marks to the file, without a sync: they then outlive the process.
func (j *Journal) WriteMarks() error {
	j.mu.Lock()
	idle := len(j.dirty) == 0
	j.mu.Unlock()
	if idle {
		return nil
	}
	return j.commit(false, true)
}

// RewindMark moves a mark, also back, durably. It comes before records above it are cut off.
func (j *Journal) RewindMark(shard ids.ShardID, m Mark) error {
	j.mu.Lock()
	if sl := j.st.slots[shard]; sl != nil && sl.isDirty {
		sl.lazy = m // an older lazy mark must not overtake the rewound one
	}
	j.mu.Unlock()
	return j.commit(true, false, record{kind: kindMark, shard: shard, mark: m})
}

// NoteSyncFailed records that a sync of a log failed. It is written and not synced: what it guards against ends with the page cache that
// it is in.
func (j *Journal) NoteSyncFailed(shard ids.ShardID) error {
	return j.commit(false, false, record{kind: kindSyncFailed, shard: shard})
}

// SetStart sets the explicit log start offset, durably.
func (j *Journal) SetStart(shard ids.ShardID, off ids.Offset) error {
	return j.commit(true, false, record{kind: kindStart, shard: shard, offset: off})
}

// SetFloor sets the floor of retention, durably.
func (j *Journal) SetFloor(shard ids.ShardID, off ids.Offset) error {
	return j.commit(true, false, record{kind: kindFloor, shard: shard, offset: off})
}

// SetPromise records the highest leader epoch accepted and from whom, durably.
func (j *Journal) SetPromise(shard ids.ShardID, epoch ids.LeaderEpoch, leader ids.NodeID) error {
	if len(leader) > 255 {
		return errcode.Newf(errcode.InvalidRequest, "journal: node id of %d bytes", len(leader))
	}
	return j.commit(true, false, record{kind: kindPromise, shard: shard, epoch: epoch, leader: leader})
}

// Forget removes everything that is known of a topic's shards, durably.
func (j *Journal) Forget(topic ids.TopicID) error {
	j.mu.Lock()
	known := false
	for shard := range j.st.slots {
		if shard.Topic == topic {
			known = true
			break
		}
	}
	j.mu.Unlock()
	if !known {
		return nil
	}
	return j.commit(true, false, record{kind: kindForget, shard: ids.ShardID{Topic: topic}})
}

// TakeClean says whether the previous stop was clean, once, and makes sure that a crash from now on reads as unclean. An error
// to write that down reads as unclean too.
func (j *Journal) TakeClean() bool {
	j.mu.Lock()
	clean := j.clean
	j.clean = false
	j.mu.Unlock()
	return clean && j.commit(true, false, record{kind: kindOpened}) == nil
}

// SetClean records a clean stop, durably. It must be the last change before Close.
func (j *Journal) SetClean() error {
	if err := j.WriteMarks(); err != nil {
		return err
	}
	return j.commit(true, false, record{kind: kindClean})
}

// Close writes the lazy marks, syncs and closes the file. A second Close does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	closed, failed := j.closed, j.failed
	j.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if failed == nil {
		err = j.commit(true, true)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.busy {
		j.idle.Wait()
	}
	if j.closed {
		return nil
	}
	j.closed = true
	return errors.Join(err, j.file.Close())
}
