package cache

import (
	"context"
	"sync"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// Shard is one shard as a projection reads it.
type Shard interface {
	// Committed is the log start offset and the high watermark.
	Committed() (start, highWatermark ids.Offset)
	// Batches calls yield for committed batches from the one that holds from on, until it returns an error or a page is full. The
	// bytes are valid during the call. It gives nothing at the high watermark.
	Batches(from ids.Offset, yield func(batch []byte) error) error
}

// State is one key of an entity.
type State struct {
	Value []byte // nil: never written, or deleted
	// Version is the offset of the commit that wrote Value, AsOf that of the last commit that is reflected; NoOffset for none.
	Version, AsOf ids.Offset
}

// Options of States.
type Options struct {
	// MaxBytes bounds what the views of all shards hold together; default 256 MiB.
	MaxBytes int64
	// MaxDecodedBytes bounds a compressed batch; default 16 MiB.
	MaxDecodedBytes int
}

// States are the views of the shards that somebody has asked about. A view is built when it is first asked for and follows its shard when
// it is asked again, so that a shard without readers of its state costs nothing.
type States struct {
	opts Options

	mu    sync.Mutex
	views map[ids.ShardID]*view // guarded by mu
	bytes int64                 // guarded by mu: of all views
}

// view is the state of one shard's entities.
type view struct {
	mu    sync.Mutex
	shard Shard      // guarded by mu: the open shard that next belongs to
	start ids.Offset // guarded by mu: log start when it was built
	next  ids.Offset // guarded by mu: one past what was read
	asOf  ids.Offset // guarded by mu: of the last commit, NoOffset before the first
	keys  map[stateKey]entry
	bytes int64 // guarded by mu
}

type stateKey struct{ entity, key string }

type entry struct {
	value   []byte
	version ids.Offset
}

// entryOverhead is what an entry costs beside its bytes.
const entryOverhead = 96

// NewStates returns an empty set of views.
func NewStates(opts Options) *States {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 256 << 20
	}
	if opts.MaxDecodedBytes == 0 {
		opts.MaxDecodedBytes = 16 << 20
	}
	return &States{opts: opts, views: map[ids.ShardID]*view{}}
}

// ErrTooLarge is for a shard whose state does not fit what views may hold.
var ErrTooLarge = errcode.New(errcode.Overloaded, "cache: the state of this shard does not fit the memory of states")

// Get returns one key of an entity, with every commit below the high watermark as of the call. Callers of one shard take turns.
//
// Errors: of reading the shard; ErrTooLarge; the context's.
func (s *States) Get(ctx context.Context, id ids.ShardID, shard Shard, entity []byte, key string) (State, error) {
	v := s.view(id)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := s.followLocked(ctx, v, shard); err != nil {
		s.dropLocked(v)
		return State{}, err
	}
	out := State{Version: ids.NoOffset, AsOf: v.asOf}
	if e, ok := v.keys[stateKey{string(entity), key}]; ok {
		out.Value, out.Version = e.value, e.version
	}
	return out, nil
}

func (s *States) view(id ids.ShardID) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[id]
	if v == nil {
		v = &view{asOf: ids.NoOffset, keys: map[stateKey]entry{}}
		s.views[id] = v
	}
	return v
}

// Forget drops the view of a shard that is not served here any more.
func (s *States) Forget(id ids.ShardID) {
	s.mu.Lock()
	v := s.views[id]
	delete(s.views, id)
	s.mu.Unlock()
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s.dropLocked(v)
}

// dropLocked empties a view; it is built anew when it is asked again.
func (s *States) dropLocked(v *view) {
	s.mu.Lock()
	s.bytes -= v.bytes
	s.mu.Unlock()
	v.shard, v.next, v.asOf, v.bytes, v.keys = nil, 0, ids.NoOffset, 0, map[stateKey]entry{}
}

// followLocked reads what was committed since the last call. Retention that has removed commits makes the view be built anew: state that
// only they wrote is lost, for every reader alike and after a restart too.
func (s *States) followLocked(ctx context.Context, v *view, shard Shard) error {
	start, end := shard.Committed()
	if v.shard != shard || v.start != start {
		s.dropLocked(v)
		v.shard, v.start, v.next = shard, start, start
	}
	for v.next < end {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		from := v.next
		err := shard.Batches(from, func(batch []byte) error { return s.applyLocked(v, batch, end) })
		if err != nil {
			return err
		}
		if v.next == from {
			return nil
		}
	}
	return nil
}

// applyLocked takes the commits of one batch.
func (s *States) applyLocked(v *view, batch []byte, end ids.Offset) error {
	h, batch, _, err := recordbatch.Next(batch)
	if err != nil {
		return err
	}
	if h.IsControl() {
		v.next = max(v.next, ids.Offset(h.NextOffset()))
		return nil
	}
	r, err := recordbatch.NewRecordReader(batch, s.opts.MaxDecodedBytes)
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() {
		offset := ids.Offset(r.Record.Offset)
		if offset < v.next || offset >= end {
			continue
		}
		if err := s.recordLocked(v, &r.Record); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	v.next = max(v.next, min(ids.Offset(h.NextOffset()), end))
	return nil
}

func (s *States) recordLocked(v *view, r *recordbatch.Record) error {
	for it := r.Headers(); ; {
		h, ok := it.Next()
		if !ok {
			return nil
		}
		if string(h.Key) != CommitHeader {
			continue
		}
		changes, err := ParseCommit(h.Value)
		if err != nil {
			return nil //nolint:nilerr // a Kafka client may write any header: one that is no commit of ours changes nothing
		}
		return s.commitLocked(v, string(r.Key), ids.Offset(r.Offset), changes)
	}
}

func (s *States) commitLocked(v *view, entity string, offset ids.Offset, changes []Change) error {
	v.asOf = offset
	var grown int64
	for _, c := range changes {
		k := stateKey{entity, c.Key}
		if old, ok := v.keys[k]; ok {
			grown -= int64(len(k.entity)+len(k.key)+len(old.value)) + entryOverhead
			delete(v.keys, k)
		}
		if !c.Delete {
			v.keys[k] = entry{value: append([]byte{}, c.Value...), version: offset}
			grown += int64(len(k.entity)+len(k.key)+len(c.Value)) + entryOverhead
		}
	}
	v.bytes += grown
	s.mu.Lock()
	s.bytes += grown
	over := s.bytes > s.opts.MaxBytes && grown > 0
	s.mu.Unlock()
	if over {
		return ErrTooLarge
	}
	return nil
}
