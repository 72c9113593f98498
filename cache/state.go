package cache

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

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
	// TenantBytes bounds what those of one tenant hold; default half of MaxBytes.
	TenantBytes int64
	// MaxDecodedBytes bounds a compressed batch; default 16 MiB.
	MaxDecodedBytes int
}

// States are the views of the shards that somebody has asked about. A view is built when it is first asked for and follows its shard when
// it is asked again, so that a shard without readers of its state costs nothing. New starts nothing; Close ends and waits.
type States struct {
	opts    Options
	closing chan struct{} // closed by Close
	wg      sync.WaitGroup

	mu      sync.Mutex
	closed  bool                  // guarded by mu
	views   map[ids.ShardID]*view // guarded by mu
	bytes   int64                 // guarded by mu: of all views
	tenants map[string]int64      // guarded by mu: of those of each tenant
	asked   uint64                // guarded by mu: counts calls, to tell which view was asked last
}

// view is the state of one shard's entities.
type view struct {
	tenant string

	mu     sync.Mutex
	shard  Shard      // guarded by mu: the open shard that next belongs to
	start  ids.Offset // guarded by mu: log start when it was built
	next   ids.Offset // guarded by mu: one past what was read
	asOf   ids.Offset // guarded by mu: of the last commit, NoOffset before the first
	keys   map[stateKey]entry
	bytes  int64   // guarded by mu
	follow *follow // guarded by mu: what reads the shard now, nil if nobody does
	gone   bool    // guarded by mu: forgotten

	tooLarge Shard     // guarded by mu: the open shard whose state did not fit, nil if it did
	refused  time.Time // guarded by mu: when

	held int64  // guarded by States.mu: bytes, for others to see
	last uint64 // guarded by States.mu: of States.asked
}

// follow is one reading of a shard, for all who wait for it.
type follow struct {
	done    chan struct{}
	err     error // written before done is closed
	waiters int   // guarded by view.mu: without any the reading stops where it is
}

type stateKey struct{ entity, key string }

type entry struct {
	value   []byte
	version ids.Offset
}

// refusedFor is how long a shard whose state did not fit is not read again.
const refusedFor = 10 * time.Second

// entryOverhead is what an entry costs beside its bytes.
const entryOverhead = 96

// NewStates returns an empty set of views.
func NewStates(opts Options) *States {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 256 << 20
	}
	if opts.TenantBytes == 0 {
		opts.TenantBytes = opts.MaxBytes / 2
	}
	if opts.MaxDecodedBytes == 0 {
		opts.MaxDecodedBytes = 16 << 20
	}
	return &States{opts: opts, closing: make(chan struct{}), views: map[ids.ShardID]*view{}, tenants: map[string]int64{}}
}

// Close ends all reading of shards and waits for it. Get fails from then on.
func (s *States) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// ErrTooLarge is for a shard whose state does not fit what views may hold, or those of its tenant.
var ErrTooLarge = errcode.New(errcode.Overloaded, "cache: the state of this shard does not fit the memory of states")

var errClosed = errcode.New(errcode.NotLeader, "cache: closed")

// Get returns one key of an entity, with every commit below the high watermark as of the call. tenant is the shard's.
//
// The shard is read once for all who ask meanwhile: a caller whose ctx ends leaves, and takes nothing from the others. Views that were not
// asked for longest, of the tenant that holds most, make room for others. Errors: of reading the shard; ErrTooLarge, for some seconds
// without another look; the context's.
func (s *States) Get(ctx context.Context, tenant string, id ids.ShardID, shard Shard, entity []byte, key string) (State, error) {
	start, end := shard.Committed()
	for {
		v := s.view(tenant, id)
		v.mu.Lock()
		if v.shard == shard && v.start >= start && v.next >= end && !v.gone {
			out := State{Version: ids.NoOffset, AsOf: v.asOf}
			if e, ok := v.keys[stateKey{string(entity), key}]; ok {
				out.Value, out.Version = e.value, e.version
			}
			v.mu.Unlock()
			return out, nil
		}
		f := v.follow
		if f == nil && v.tooLarge == shard && time.Since(v.refused) < refusedFor {
			v.mu.Unlock()
			return State{}, ErrTooLarge
		}
		if f == nil {
			f = &follow{done: make(chan struct{})}
			if !s.begin(func() { s.run(v, f, shard) }) {
				v.mu.Unlock()
				return State{}, errClosed
			}
			v.follow = f
		}
		f.waiters++
		v.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			v.mu.Lock()
			f.waiters--
			v.mu.Unlock()
			return State{}, context.Cause(ctx)
		}
		if f.err != nil {
			return State{}, f.err
		}
	}
}

// begin runs f in a goroutine of its own, unless s is closed.
func (s *States) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

func (s *States) view(tenant string, id ids.ShardID) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[id]
	if v == nil {
		v = &view{tenant: tenant, asOf: ids.NoOffset, keys: map[stateKey]entry{}}
		s.views[id] = v
	}
	s.asked++
	v.last = s.asked
	return v
}

// Retain drops the views of all shards but those that keep names: the others are not served here any more.
func (s *States) Retain(keep func(ids.ShardID) bool) {
	s.mu.Lock()
	var gone []*view
	for id, v := range s.views {
		if !keep(id) {
			gone = append(gone, v)
			delete(s.views, id)
		}
	}
	s.mu.Unlock()
	for _, v := range gone {
		v.mu.Lock()
		v.gone = true // whoever reads it stops
		s.dropLocked(v)
		v.mu.Unlock()
	}
}

// Held is the memory of all views, in bytes.
func (s *States) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// dropLocked empties a view; it is built anew when it is asked again.
func (s *States) dropLocked(v *view) {
	s.growLocked(v, -v.bytes)
	v.shard, v.next, v.asOf, v.keys = nil, 0, ids.NoOffset, map[stateKey]entry{}
}

// growLocked counts what a view holds more. It reports whether that fits.
func (s *States) growLocked(v *view, n int64) (fits bool) {
	v.bytes += n
	s.mu.Lock()
	defer s.mu.Unlock()
	v.held += n
	s.bytes += n
	s.tenants[v.tenant] += n
	fits = s.bytes <= s.opts.MaxBytes && s.tenants[v.tenant] <= s.opts.TenantBytes
	if s.tenants[v.tenant] == 0 {
		delete(s.tenants, v.tenant)
	}
	return fits || n <= 0
}

// makeRoomLocked drops views that nobody reads now until v fits: of its own tenant if that has more than its share, else of the tenant that
// holds most. v.mu is held; the locks of others are only tried, so that two who make room never wait for each other.
func (s *States) makeRoomLocked(v *view) (fits bool) {
	tried := map[*view]bool{v: true}
	for {
		w, fits := s.leastUsed(v.tenant, tried)
		if fits || w == nil {
			return fits
		}
		tried[w] = true
		if w.mu.TryLock() {
			if w.follow == nil {
				s.dropLocked(w)
			}
			w.mu.Unlock()
		}
	}
}

// leastUsed is the view to drop next for one of tenant's, nil if there is none; fits says that none need be.
func (s *States) leastUsed(tenant string, tried map[*view]bool) (w *view, fits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := tenant
	switch {
	case s.tenants[tenant] > s.opts.TenantBytes:
	case s.bytes > s.opts.MaxBytes:
		most := map[string]int64{}
		for u := range s.eachUntried(tried) {
			most[u.tenant] += u.held
		}
		for t, n := range most {
			if n > most[from] || n == most[from] && t < from {
				from = t
			}
		}
	default:
		return nil, true
	}
	for u := range s.eachUntried(tried) {
		if u.tenant == from && (w == nil || u.last < w.last) {
			w = u
		}
	}
	return w, false
}

// eachUntried yields the views that hold something.
func (s *States) eachUntried(tried map[*view]bool) iter.Seq[*view] {
	return func(yield func(*view) bool) {
		for _, u := range s.views {
			if u.held > 0 && !tried[u] && !yield(u) {
				return
			}
		}
	}
}

// run reads for f what was committed since the last time. The view's lock is held for a batch at a time, never while the log is read.
func (s *States) run(v *view, f *follow, shard Shard) {
	err := s.read(v, f, shard)
	v.mu.Lock()
	v.tooLarge = nil
	if err != nil {
		s.dropLocked(v)
	}
	if errors.Is(err, ErrTooLarge) {
		v.tooLarge, v.refused = shard, time.Now()
	}
	f.err = err
	v.follow = nil
	v.mu.Unlock()
	close(f.done)
}

// read brings a view up to the high watermark. Retention that has removed commits makes it be built anew: state that only they wrote is
// lost, for every reader alike and after a restart too.
func (s *States) read(v *view, f *follow, shard Shard) error {
	start, end := shard.Committed()
	v.mu.Lock()
	if v.shard != shard || v.start != start {
		s.dropLocked(v)
		v.shard, v.start, v.next = shard, start, start
	}
	next, stop := v.next, v.gone
	v.mu.Unlock()
	for next < end && !stop {
		select {
		case <-s.closing:
			return errClosed
		default:
		}
		from := next
		err := shard.Batches(from, func(batch []byte) error {
			v.mu.Lock()
			defer v.mu.Unlock()
			if stop = v.gone || f.waiters == 0; stop {
				return errStopped
			}
			err := s.applyLocked(v, batch, end)
			next = v.next
			return err
		})
		switch {
		case stop:
			return nil
		case err != nil:
			return err
		case next == from: // there is nothing more below end
			v.mu.Lock()
			v.next = max(v.next, end)
			v.mu.Unlock()
			return nil
		}
	}
	return nil
}

// errStopped ends a reading that nobody waits for.
var errStopped = errcode.New(errcode.NotLeader, "cache: nobody waits for the state")

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
	if !s.growLocked(v, grown) && !s.makeRoomLocked(v) {
		return ErrTooLarge
	}
	return nil
}
