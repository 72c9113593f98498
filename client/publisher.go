package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// Record is one record to publish.
type Record struct {
	// Key decides on the shard, by PublisherOptions.Partitioner, and is stored with the record, where Kafka clients see it; native
	// subscribers do not. Nil is no key. An empty key is a key. At most 65,535 bytes.
	Key []byte
	// Value is what subscribers get. It is copied: it may be used again as soon as the call returns.
	Value []byte
	// Shard, if it is set, is where the record goes, whatever Key says. The server must support publishes that name their shard. Such
	// publishes travel as JSON, a third larger than others. It is read before the call returns.
	Shard *uint32
}

// Ack says where a record was stored.
type Ack struct {
	Shard uint32
	// Offset is the record's offset in its shard, of a batch the first one's; the others follow without a gap. It is NoOffset on an
	// ephemeral stream, with AckNone, and where the server answers before it writes (FELIX_ACK_ON_COMMIT=0).
	Offset int64
}

// Guarantee says what becomes of records whose answer got lost.
type Guarantee uint8

const (
	// Idempotent sends records again until they are answered, under numbers by which the server stores each once. They stay in order. It
	// is the default.
	Idempotent Guarantee = iota
	// AtLeastOnce sends records again until they are answered; they may be stored more than once. Only one batch a shard is on the way at
	// a time, so that none overtakes one that is sent again.
	AtLeastOnce
	// AtMostOnce sends records once: one whose answer gets lost fails with ErrOutcomeUnknown, one that the server refuses with its error.
	AtMostOnce
)

// AckMode says which answers a publisher asks for.
type AckMode uint8

const (
	// AckBatch has records of the same key that wait together travel together, and answered together. It is the default.
	AckBatch AckMode = iota
	// AckMessage has each record travel by itself, and answered by itself.
	AckMessage
	// AckNone has no answers. A record counts as published when it was handed to the transport; whether it was stored is not known, and
	// one that is refused is only counted at the server. That a shard has moved is noticed within half a minute: records that its old leader
	// gets until then are lost. Goes with AtMostOnce alone.
	AckNone
)

// PublisherOptions are a publisher's settings. The zero value of a field is its default.
type PublisherOptions struct {
	Guarantee Guarantee
	Ack       AckMode
	// Partitioner chooses the shards of records that name none. Default: NativeHash.
	Partitioner Partitioner
	// MaxBufferedBytes bounds the records that are not answered, keys and 64 bytes for each call included; beyond it Publish and PublishAsync
	// wait. Default: 8 MiB.
	MaxBufferedBytes int
	// MaxBatchBytes and MaxBatchRecords bound what travels together, never beyond what a frame takes. Defaults: 256 KiB, 10,000.
	MaxBatchBytes, MaxBatchRecords int
	// MaxInFlight bounds the batches of a shard that are sent and not answered, below what the server grants (256) and what it remembers of
	// an idempotent publisher (64). Default: those bounds.
	MaxInFlight int
	// DeliveryTimeout bounds how long a record is kept and sent again. One that was sent before fails with ErrOutcomeUnknown then.
	// Default: 2 min.
	DeliveryTimeout time.Duration
	// AnswerTimeout is how long an answer may take before the stream counts as lost. Default: 30 s.
	AnswerTimeout time.Duration
	// AckOnCommit asks the server to answer after the write even if it is configured to answer before (FELIX_ACK_ON_COMMIT=0).
	AckOnCommit bool
}

const (
	// grantedWindow is what a server without a window of its own may be sent without answers.
	grantedWindow = 256
	// rememberedBatches is how many batches of an idempotent publisher a server remembers of each shard.
	rememberedBatches = 64
	// frameOverhead bounds what a publish frame has beside names, key and payloads.
	frameOverhead = 64
	// maxName is the longest key and name.
	maxName = 65_535
)

func (o PublisherOptions) withDefaults() PublisherOptions {
	setDefault(&o.MaxBufferedBytes, 8<<20)
	setDefault(&o.MaxBatchBytes, 256<<10)
	setDefault(&o.MaxBatchRecords, 10_000)
	setDefault(&o.MaxInFlight, grantedWindow)
	setDefault(&o.DeliveryTimeout, 2*time.Minute)
	setDefault(&o.AnswerTimeout, 30*time.Second)
	if o.Ack == AckMessage {
		o.MaxBatchRecords = 1
	}
	if o.Guarantee == Idempotent {
		o.MaxInFlight = min(o.MaxInFlight, rememberedBatches)
	}
	if o.Guarantee == AtLeastOnce {
		o.MaxInFlight = 1
	}
	return o
}

func (o *PublisherOptions) validate() error {
	switch {
	case o.Guarantee > AtMostOnce || o.Ack > AckNone:
		return errors.New("felix: PublisherOptions: unknown guarantee or ack mode")
	case o.Partitioner > Murmur2:
		return errors.New("felix: PublisherOptions: unknown partitioner")
	case o.Ack == AckNone && o.Guarantee != AtMostOnce:
		return errors.New("felix: PublisherOptions: without answers only AtMostOnce is possible")
	case o.MaxBufferedBytes < 1 || o.MaxBatchBytes < 1 || o.MaxBatchRecords < 1 || o.MaxInFlight < 1:
		return errors.New("felix: PublisherOptions: a bound is negative")
	case o.DeliveryTimeout < 0 || o.AnswerTimeout < 0:
		return errors.New("felix: PublisherOptions: a duration is negative")
	}
	return nil
}

// Publisher writes to one stream. All methods may be called concurrently. Records of one goroutine's calls to one shard are stored in the
// order of the calls.
type Publisher struct {
	c      *Client
	stream Stream
	names  [3][]byte // tenant, namespace, stream
	opts   PublisherOptions
	budget budget

	life context.Context //nolint:containedctx // of the lanes, ended by Close
	end  context.CancelCauseFunc
	wg   sync.WaitGroup

	closing  atomic.Bool   // no more records are taken on
	draining chan struct{} // closed when all are answered and no more come; nil unless there are no answers
	drain    sync.Once     // closes draining, and waits until the servers have read everything

	route      atomic.Pointer[route]
	routeAge   time.Duration  // of a route, where nothing else tells that it is old
	refreshing atomic.Bool    // the route is being looked up anew
	lookups    sync.WaitGroup // that refresh; not part of wg, since nothing waits for their success
	sticky     sticky

	mu     sync.Mutex
	closed bool             // guarded by mu: no new lanes
	lanes  map[uint32]*lane // guarded by mu; by shard
	fast   atomic.Pointer[[]*lane]
}

// NewPublisher makes a publisher of a stream. It connects when the first record is published.
//
// Errors: options that contradict each other; ErrClosed.
func (c *Client) NewPublisher(s Stream, o PublisherOptions) (*Publisher, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if s.Name == "" || len(s.Name) > maxName || len(s.Namespace) > maxName {
		return nil, errors.New("felix: a stream needs a name of at most 65,535 bytes")
	}
	p := &Publisher{c: c, stream: s.normal(), opts: o, routeAge: routeAge, lanes: map[uint32]*lane{}}
	if o.Ack == AckNone {
		p.routeAge = unansweredAge
	}
	p.names = [3][]byte{[]byte(c.cfg.Tenant), []byte(p.stream.Namespace), []byte(s.Name)}
	if o.Ack == AckNone {
		p.draining = make(chan struct{})
	}
	p.budget.limit = o.MaxBufferedBytes
	p.life, p.end = context.WithCancelCause(c.life)
	if err := c.join(p); err != nil {
		p.end(err)
		return nil, err
	}
	return p, nil
}

// Publish stores one record and waits for the answer.
//
// Errors: those of the server (*Error); ErrInvalidRequest for a shard that is not there, and ErrUnsupported if the server takes no shards
// from publishers; ErrOutcomeUnknown, see Guarantee; ErrTooLarge; ErrClosed; ctx's, which matches ErrOutcomeUnknown too when the record had
// been taken on: it may still be sent then.
func (p *Publisher) Publish(ctx context.Context, r Record) (Ack, error) {
	w := newWaiter()
	if err := p.enqueue(ctx, &r, promise{w: w}); err != nil {
		w.recycle()
		return Ack{}, err
	}
	return w.wait(ctx)
}

// PublishBatch stores values under one key (nil for none) as one batch, and waits for its one answer, whose Offset is the first record's.
// It is one request, not a transaction: after a failover a shard may hold only its beginning. An empty batch is a success that stores
// nothing. Errors are those of Publish.
func (p *Publisher) PublishBatch(ctx context.Context, key []byte, values ...[]byte) (Ack, error) {
	return p.publishBatch(ctx, nil, key, values)
}

// PublishBatchTo is PublishBatch to a shard that the caller names, whatever the key says, as with Record.Shard.
func (p *Publisher) PublishBatchTo(ctx context.Context, shard uint32, key []byte, values ...[]byte) (Ack, error) {
	return p.publishBatch(ctx, &shard, key, values)
}

func (p *Publisher) publishBatch(ctx context.Context, shard *uint32, key []byte, values [][]byte) (Ack, error) {
	w := newWaiter()
	if err := p.enqueueBatch(ctx, shard, key, values, promise{w: w}); err != nil {
		w.recycle()
		return Ack{}, err
	}
	return w.wait(ctx)
}

// PublishAsync takes a record on and returns. It waits only while MaxBufferedBytes are not answered, as long as ctx lasts. done, which may
// be nil, is called once with the outcome, for the records of one shard in the order in which they were taken on, by a goroutine of the
// publisher: it must not wait, and must not call Close. It is not called when PublishAsync returns an error.
//
// Errors: ErrTooLarge, ErrClosed, ctx's, ErrInvalidRequest for a shard that is not there, and those of looking the stream up, such as
// ErrNotFound.
func (p *Publisher) PublishAsync(ctx context.Context, r Record, done func(Ack, error)) error {
	return p.enqueue(ctx, &r, promise{done: done})
}

// Wait waits until all records that were taken on before have been answered and their calls told what became of them, or ctx ends. Records
// that come later are not waited for. A function that was given to PublishAsync must not call it.
func (p *Publisher) Wait(ctx context.Context) error {
	p.mu.Lock()
	var pending []chan struct{}
	for _, l := range p.lanes {
		if ch := l.pending(); ch != nil {
			pending = append(pending, ch)
		}
	}
	p.mu.Unlock()
	for _, ch := range pending {
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close takes no more records on, waits until the others are answered or ctx ends, and ends the publisher's goroutines. What is not
// answered then fails with ErrClosed, and with ErrOutcomeUnknown if it had been sent. Closing twice is fine: each call waits as long.
func (p *Publisher) Close(ctx context.Context) error {
	p.closing.Store(true)
	err := p.budget.wait(ctx)
	if err == nil && p.draining != nil {
		// Whoever comes second waits here for the first: to end the lanes now would cut off what the servers have not read.
		p.drain.Do(func() {
			close(p.draining)
			p.mu.Lock()
			p.closed = true
			p.mu.Unlock()
			p.wg.Wait()
		})
	}
	p.abort()
	return err
}

// abort ends the lanes at once and waits for them.
func (p *Publisher) abort() {
	p.closing.Store(true)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end(ErrClosed)
	p.wg.Wait()
	p.lookups.Wait()
	p.c.leave(p)
}

// frameRoom is how many bytes of payloads, lengths included, fit one frame under a key.
func (p *Publisher) frameRoom(key []byte) int {
	return wire.DefaultMaxFrameBytes - frameOverhead - len(key) - len(p.c.cfg.Tenant) - len(p.stream.Namespace) - len(p.stream.Name)
}

// payloadPrefix is the length before each payload.
const payloadPrefix = 4

// callOverhead is roughly what a call's records take in memory beside their bytes.
const callOverhead = 64

// costOf is what a call takes of the budget.
func costOf(key []byte, size int) int { return size + len(key) + callOverhead }

// fits says that payloads which take size bytes with their lengths fit one frame.
func (p *Publisher) fits(key []byte, size, count int, named bool) bool {
	if named && jsonBytes(size, count) > p.shardFrameRoom(key) {
		return false
	}
	return len(key) <= maxName && size <= p.frameRoom(key) && count <= wire.MaxPayloads
}

// explicit says that the records of a call travel with their shard.
func (p *Publisher) explicit(shard *uint32) bool {
	return shard != nil || p.opts.Partitioner == Murmur2
}

// enqueue takes one record on.
func (p *Publisher) enqueue(ctx context.Context, r *Record, done promise) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // else it would be sent, as nothing below need wait
	}
	size, named := len(r.Value)+payloadPrefix, p.explicit(r.Shard)
	if !p.fits(r.Key, size, 1, named) {
		return fmt.Errorf("%w: %d bytes under a key of %d", ErrTooLarge, len(r.Value), len(r.Key))
	}
	l, err := p.laneOf(ctx, r.Key, r.Shard, size, 1)
	if err != nil {
		return err
	}
	cost := costOf(r.Key, size)
	if err := p.budget.acquire(ctx, p.life.Done(), cost); err != nil {
		return err
	}
	if !l.add(r.Key, r.Value, named, size, done) {
		p.budget.release(cost)
		p.budget.answered(1)
		return ErrClosed
	}
	return nil
}

func (p *Publisher) enqueueBatch(ctx context.Context, shard *uint32, key []byte, values [][]byte, done promise) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	size, named := 0, p.explicit(shard)
	for _, v := range values {
		size += payloadPrefix + len(v)
	}
	if !p.fits(key, size, len(values), named) {
		return fmt.Errorf("%w: a batch of %d bytes under a key of %d", ErrTooLarge, size, len(key))
	}
	l, err := p.laneOf(ctx, key, shard, size, len(values))
	if err != nil {
		return err
	}
	cost := costOf(key, size)
	if err := p.budget.acquire(ctx, p.life.Done(), cost); err != nil {
		return err
	}
	if !l.addBatch(key, values, named, size, done) {
		p.budget.release(cost)
		p.budget.answered(1)
		return ErrClosed
	}
	return nil
}

// laneOf is the lane of the shard that a call names, or else of the one that is chosen for its records.
func (p *Publisher) laneOf(ctx context.Context, key []byte, named *uint32, size, records int) (*lane, error) {
	if p.closing.Load() {
		return nil, ErrClosed
	}
	r := p.route.Load()
	if r == nil {
		var err error
		if r, err = p.lookup(ctx); err != nil {
			return nil, err
		}
	}
	shard, err := p.choose(ctx, r, key, named, size, records)
	if err != nil {
		return nil, err
	}
	if fast := p.fast.Load(); fast != nil && int(shard) < len(*fast) && (*fast)[shard] != nil {
		return (*fast)[shard], nil
	}
	return p.lane(shard)
}

// choose is the shard of records.
func (p *Publisher) choose(ctx context.Context, r *route, key []byte, named *uint32, size, records int) (uint32, error) {
	switch {
	case named != nil:
		if *named >= r.shards {
			p.c.forget(p.stream) // perhaps it has more shards now
			var err error
			if r, err = p.lookup(ctx); err != nil {
				return 0, err
			}
			if *named >= r.shards {
				return 0, errNoShard(p.stream)
			}
		}
		if p.opts.Ack == AckNone {
			p.maybeRefresh(r)
		}
		return *named, nil
	case p.opts.Partitioner == NativeHash:
		if p.opts.Ack == AckNone {
			p.maybeRefresh(r)
		}
		return r.shardOf(key), nil
	}
	p.maybeRefresh(r)
	if key != nil {
		return KafkaShardOf(key, int(r.shards)), nil
	}
	return p.sticky.take(r.shards, size, records, &p.opts), nil
}

// maybeRefresh looks the stream up anew if it was not for long.
func (p *Publisher) maybeRefresh(r *route) {
	if time.Since(r.at) > p.routeAge {
		p.refresh(r)
	}
}

// refresh looks the stream up anew in the background. Until that is done the old route goes on, and for as long again if it fails.
func (p *Publisher) refresh(old *route) {
	if p.refreshing.Swap(true) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.lookups.Go(func() {
		defer p.refreshing.Store(false)
		ctx, cancel := p.c.bounded(p.life)
		defer cancel()
		fresh, err := p.c.resolve(ctx, p.stream)
		if err != nil {
			again := *old
			again.at = time.Now()
			fresh = &again
		}
		p.route.CompareAndSwap(old, fresh)
	})
}

func (p *Publisher) lookup(ctx context.Context) (*route, error) {
	ctx, cancel := p.c.bounded(ctx)
	defer cancel()
	r, err := p.c.route(ctx, p.stream)
	if err != nil {
		return nil, err
	}
	p.route.Store(r)
	return r, nil
}

// maxFast bounds the table of lanes that is looked into without a lock.
const maxFast = 4096

// lane gives the lane of a shard, and starts it if it is new.
func (p *Publisher) lane(shard uint32) (*lane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	l := p.lanes[shard]
	if l == nil {
		l = newLane(p, shard)
		p.lanes[shard] = l
		p.wg.Go(l.run)
		if shard < maxFast {
			table := make([]*lane, shard+1)
			if old := p.fast.Load(); old != nil {
				table = make([]*lane, max(int(shard)+1, len(*old)))
				copy(table, *old)
			}
			table[shard] = l
			p.fast.Store(&table)
		}
	}
	return l, nil
}

// promise is where a record's outcome goes: to a waiter, to a function, or nowhere.
type promise struct {
	w    *waiter
	done func(Ack, error)
}

func (p *promise) keep(a Ack, err error) {
	switch {
	case p.w != nil:
		p.w.ch <- outcome{a, err}
	case p.done != nil:
		p.done(a, err)
	}
}

type outcome struct {
	ack Ack
	err error
}

// waiter is a call that waits for an outcome. Pooled.
type waiter struct{ ch chan outcome }

var waiters = sync.Pool{New: func() any { return &waiter{ch: make(chan outcome, 1)} }}

func newWaiter() *waiter {
	w, _ := waiters.Get().(*waiter)
	return w
}

func (w *waiter) recycle() { waiters.Put(w) }

func (w *waiter) wait(ctx context.Context) (Ack, error) {
	select {
	case o := <-w.ch:
		w.recycle()
		return o.ack, o.err
	case <-ctx.Done():
		// The waiter is not used again: its outcome may still come.
		return Ack{}, &outcomeUnknown{context.Cause(ctx)}
	}
}
