package ring

import (
	"math"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// The sizes of a ring and of all rings of a node, where Options and NewBudget leave them open.
const (
	DefaultBatches = 1024
	DefaultBytes   = 4 << 20
	DefaultBudget  = 256 << 20
)

const (
	// entryOverhead is what a batch costs beside its buffer.
	entryOverhead = 64
	// tightBuffer is how many times its size a batch's buffer may have to be kept as it is; from a larger one the batch is copied.
	tightBuffer = 2
	// expireEvery is how often appends look for producers that have been idle for too long.
	expireEvery = time.Minute
)

// ErrClosed is what appends get once the ring is closed.
var ErrClosed = errcode.New(errcode.NotLeader, "ring: closed")

// Budget is the memory of all rings of a node. Safe for concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes; 0 chooses the default.
func NewBudget(limit int64) *Budget {
	if limit <= 0 {
		limit = DefaultBudget
	}
	return &Budget{limit: limit}
}

// Used is what all rings hold, in bytes.
func (b *Budget) Used() int64 { return b.used.Load() }

// Options of a ring.
type Options struct {
	// Batches and Bytes bound what is kept beside the newest batch. Bytes are of buffers, not of payloads. Defaults DefaultBatches
	// and DefaultBytes.
	Batches int
	Bytes   int64
	// Budget is shared by all rings of the node. Required.
	Budget *Budget
	// Pool gives buffers to batches that are copied. Required.
	Pool *buf.Pool
	// Producers, ProducerBatches and ProducerExpiry are as in log.Shared; 0 chooses its defaults, and no expiry.
	Producers       int
	ProducerBatches int
	ProducerExpiry  time.Duration
	// Now is the wall clock. Default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Batches <= 0 {
		o.Batches = DefaultBatches
	}
	if o.Bytes <= 0 {
		o.Bytes = DefaultBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// entry is one batch.
type entry struct {
	base, next ids.Offset
	timestamp  int64 // largest, in milliseconds
	data       []byte
	ref        *buf.Ref
}

func (e *entry) charge() int64 { return int64(e.ref.Cap()) + entryOverhead }

// Ring is the tail of one shard in memory. Append, AdvanceStart and Reset are for one caller at a time; everything else may be called
// at any time from anywhere.
type Ring struct {
	opts Options

	mu        sync.Mutex // guards what follows
	entries   []entry    // a ring: count of them from head on; its length is 0 or a power of two
	head      int
	count     int
	start     ids.Offset
	end       ids.Offset
	bytes     int64 // charged
	epoch     ids.LeaderEpoch
	producers *log.ProducerTable // nil until used
	expired   time.Time          // when idle producers were looked for
	closed    bool
}

// New returns an empty ring.
func New(opts Options) *Ring {
	return &Ring{opts: opts.withDefaults(), epoch: ids.NoEpoch}
}

// Append takes one batch as the next records. It stamps offset and leader epoch in place and keeps the bytes: of Owner, if that holds
// not much more than the batch, else a copy. Readers see the batch at once. On an error nothing was appended.
//
// Errors: FencedEpoch, *errcode.SequenceError, ErrClosed. Only native producers are judged: nobody else writes to memory.
func (r *Ring) Append(in log.AppendInput) (log.AppendResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return log.AppendResult{}, ErrClosed
	case in.Epoch < r.epoch:
		return log.AppendResult{}, log.ErrFencedEpoch
	}
	h := &in.Header
	native := log.IsNativeProducer(h.ProducerID)
	if native {
		if original, dup, err := r.producersLocked().Check(h, in.Sequence); dup || err != nil {
			return original, err
		}
	}
	if in.Conditional && in.Expected != r.end {
		return log.AppendResult{}, &errcode.OffsetMismatchError{Tail: int64(r.end)}
	}
	base := r.end
	recordbatch.SetBaseOffset(in.Batch, int64(base))
	recordbatch.SetLeaderEpoch(in.Batch, int32(in.Epoch))
	h.BaseOffset, h.LeaderEpoch = int64(base), int32(in.Epoch)
	next := ids.Offset(h.NextOffset())
	if native {
		r.producersLocked().Append(h, in.Sequence, base, r.opts.Now().UnixMilli())
	}
	r.epoch = in.Epoch
	r.pushLocked(entry{base: base, next: next, timestamp: h.MaxTimestamp}, in.Batch, in.Owner)
	r.end = next
	return log.AppendResult{Base: base, Next: next, MaxTimestamp: h.MaxTimestamp}, nil
}

// producersLocked makes the table at its first use, and lets go of idle producers from time to time.
func (r *Ring) producersLocked() *log.ProducerTable {
	if r.producers == nil {
		r.producers = log.NewProducerTable(r.opts.Producers, r.opts.ProducerBatches)
	}
	if r.opts.ProducerExpiry > 0 {
		if now := r.opts.Now(); now.Sub(r.expired) >= expireEvery {
			r.expired = now
			r.producers.Expire(now.Add(-r.opts.ProducerExpiry).UnixMilli())
		}
	}
	return r.producers
}

// pushLocked adds a batch and removes the oldest ones that no longer fit.
func (r *Ring) pushLocked(e entry, data []byte, owner *buf.Ref) {
	if owner != nil && owner.Cap() <= tightBuffer*len(data)+entryOverhead {
		e.data, e.ref = data, owner.Retain()
	} else {
		e.ref = r.opts.Pool.Get(len(data))
		e.data = e.ref.Bytes()
		copy(e.data, data)
	}
	for r.count >= r.opts.Batches {
		r.dropLocked()
	}
	if r.count == len(r.entries) {
		grown := make([]entry, max(4, 2*len(r.entries))) // a power of two, for the mask in at
		for i := range r.count {
			grown[i] = *r.at(i)
		}
		r.entries, r.head = grown, 0
	}
	r.count++
	*r.at(r.count - 1) = e
	r.bytes += e.charge()
	r.opts.Budget.used.Add(e.charge())
	for r.count > 1 && (r.bytes > r.opts.Bytes || r.opts.Budget.used.Load() > r.opts.Budget.limit) {
		r.dropLocked()
	}
}

// dropLocked removes the oldest batch.
func (r *Ring) dropLocked() {
	e := r.at(0)
	r.start = e.next
	r.bytes -= e.charge()
	r.opts.Budget.used.Add(-e.charge())
	e.ref.Release() // a leaf lock
	*e = entry{}
	r.head = (r.head + 1) & (len(r.entries) - 1)
	r.count--
}

func (r *Ring) at(i int) *entry { return &r.entries[(r.head+i)&(len(r.entries)-1)] }

// findLocked returns the number of the entry that holds off, or of the first behind it.
func (r *Ring) findLocked(off ids.Offset) int {
	return sort.Search(r.count, func(i int) bool { return r.at(i).next > off })
}

// Read adds whole batches to dst, from the one that contains from up to the last one that ends at or below limit; at most maxBytes,
// but with firstWhole at least one batch if there is one. It returns dst and the bytes added. The reader releases the chunks.
//
// Errors: *errcode.RangeError if from is outside [start, end]: a reader that fell behind goes on at its Start.
func (r *Ring) Read(from, limit ids.Offset, maxBytes int, firstWhole bool, dst []log.Chunk) ([]log.Chunk, int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from < r.start || from > r.end {
		return dst, 0, &errcode.RangeError{Requested: int64(from), Start: int64(r.start), End: int64(r.end)}
	}
	total := 0
	for i := r.findLocked(from); i < r.count; i++ {
		e := r.at(i)
		if e.next > limit || total+len(e.data) > maxBytes && (!firstWhole || total > 0) {
			break
		}
		total += len(e.data)
		dst = append(dst, log.Chunk{Data: e.data, Ref: e.ref.Retain()})
	}
	return dst, total, nil
}

// Available is how many bytes lie between from and limit, at most about most.
func (r *Ring) Available(from, limit ids.Offset, most int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for i := r.findLocked(from); i < r.count && n < most && r.at(i).next <= limit; i++ {
		n += len(r.at(i).data)
	}
	return min(n, most)
}

// Bounds returns the ends of the ring. Memory is as durable as this store gets, so the durable end is the end.
func (r *Ring) Bounds() log.Bounds {
	r.mu.Lock()
	defer r.mu.Unlock()
	return log.Bounds{Start: r.start, End: r.end, DurableEnd: r.end, Epoch: r.epoch, NeverWritten: r.end == 0, SizeBytes: r.bytes}
}

// OffsetForTime returns the first record below limit whose timestamp is at least ts (milliseconds); ok is false if there is none.
func (r *Ring) OffsetForTime(ts int64, limit ids.Offset) (found log.TimeOffset, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.count {
		e := r.at(i)
		if e.next > limit {
			break
		}
		if e.timestamp < ts {
			continue
		}
		if found, ok, err = firstAt(e, ts); ok || err != nil {
			return found, ok, err
		}
	}
	return log.TimeOffset{}, false, nil
}

// MaxTimestamp returns the record below limit with the largest timestamp, the earliest of several; ok is false if there is none.
func (r *Ring) MaxTimestamp(limit ids.Offset) (found log.TimeOffset, ok bool, err error) {
	r.mu.Lock()
	largest := int64(math.MinInt64)
	for i := range r.count {
		if e := r.at(i); e.next <= limit {
			largest = max(largest, e.timestamp)
		}
	}
	r.mu.Unlock()
	if largest < 0 {
		return log.TimeOffset{}, false, nil
	}
	return r.OffsetForTime(largest, limit)
}

// firstAt looks for the first record of a batch whose timestamp is at least ts.
func firstAt(e *entry, ts int64) (log.TimeOffset, bool, error) {
	h, err := recordbatch.ParseHeader(e.data)
	if err != nil {
		return log.TimeOffset{}, false, err
	}
	records, err := recordbatch.Open(nil, h, e.data, recordbatch.DefaultMaxDecodedBytes)
	if err != nil {
		return log.TimeOffset{}, false, err
	}
	it := recordbatch.Records(h, records)
	for it.Next() {
		if it.Record.Timestamp >= ts {
			return log.TimeOffset{
				Offset: ids.Offset(it.Record.Offset), Timestamp: it.Record.Timestamp, Epoch: ids.LeaderEpoch(h.LeaderEpoch),
			}, true, nil
		}
	}
	return log.TimeOffset{}, false, it.Err()
}

// Producers calls yield for each idempotent producer that is remembered, until it returns false. The states are copies.
func (r *Ring) Producers(yield func(log.ProducerState) bool) {
	r.mu.Lock()
	var list []log.ProducerState
	if r.producers != nil {
		list = r.producers.States()
	}
	r.mu.Unlock()
	for _, p := range list {
		if !yield(p) {
			return
		}
	}
}

// AdvanceStart removes the batches that end at or below to. A batch that reaches past it stays, but Bounds begin at to.
func (r *Ring) AdvanceStart(to ids.Offset) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to > r.end {
		return &errcode.RangeError{Requested: int64(to), Start: int64(r.start), End: int64(r.end)}
	}
	for r.count > 0 && r.at(0).next <= to {
		r.dropLocked()
	}
	r.start = max(r.start, to)
	return nil
}

// Reset forgets all batches and producers: leadership went elsewhere, and what follows is another sequence of records. Offsets go on.
func (r *Ring) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resetLocked()
}

func (r *Ring) resetLocked() {
	for r.count > 0 {
		r.dropLocked()
	}
	r.start, r.entries, r.head, r.producers = r.end, nil, 0, nil
}

// Close forgets everything and refuses further appends. Whatever clean says, nothing is left.
func (r *Ring) Close(bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.resetLocked()
	return nil
}

// Delete is Close.
func (r *Ring) Delete() error { return r.Close(false) }

// SetFloor does nothing: a ring keeps what fits, whoever still waits for it.
func (r *Ring) SetFloor(ids.Offset) {}

// RequestSync does nothing: there is no device.
func (r *Ring) RequestSync() {}

// SyncNow does nothing and returns the end.
func (r *Ring) SyncNow() (ids.Offset, error) { return r.Bounds().End, nil }
