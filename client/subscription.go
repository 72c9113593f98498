package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// Start is where a subscription begins. The zero value is Latest.
type Start struct {
	kind   wire.StartKind
	offset int64
	time   time.Time
}

// Latest begins with the next record that is published.
func Latest() Start { return Start{kind: wire.StartLatest} }

// Earliest begins with the oldest record that is kept, of an ephemeral stream with the oldest in the server's memory.
func Earliest() Start { return Start{kind: wire.StartEarliest} }

// FromOffset begins with the record at an offset, of a durable stream. To go on after the last record that was handled, give its offset
// plus one. An offset that is not kept is refused with a CursorError, never replaced by another.
func FromOffset(offset int64) Start { return Start{kind: wire.StartOffset, offset: offset} }

// Since begins with the first record of a durable stream that was written at t or later, by the server's clock, to the millisecond.
func Since(t time.Time) Start { return Start{time: t} }

// SubscribeOptions are a subscription's settings. The zero value of a field is its default.
type SubscribeOptions struct {
	// Start is where to begin, on every shard that Offsets does not name. Default: Latest.
	Start Start
	// Offsets are where to begin by shard: the offset of the first record to deliver. Subscription.Positions gives them.
	Offsets map[uint32]int64
	// Shards are which to read. Default: all.
	Shards []uint32
	// QueueCapacity is how many published batches the server queues for each shard, 1 to 4,096. Default: the server's, 512.
	QueueCapacity int
	// FollowLag has a subscription that fell behind go on without a LaggedError.
	FollowLag bool
	// Timestamps asks for Event.Time.
	Timestamps bool
	// ReuseBuffers lets the memory of values be used again: Event.Value is then good only until the next call of Next or NextBatch. It
	// saves an allocation and a copy a frame.
	ReuseBuffers bool
}

func (o *SubscribeOptions) validate() error {
	switch {
	case o.QueueCapacity < 0 || o.QueueCapacity > 1<<20:
		return errors.New("felix: SubscribeOptions.QueueCapacity out of bounds")
	case o.Start.kind == wire.StartOffset && o.Start.offset < 0:
		return errors.New("felix: a negative offset to start at")
	}
	for _, offset := range o.Offsets {
		if offset < 0 {
			return errors.New("felix: a negative offset to start at")
		}
	}
	return nil
}

// Event is one record as a subscriber gets it.
type Event struct {
	Shard uint32
	// Offset is the record's offset in its shard, NoOffset on an ephemeral stream.
	Offset int64
	// SkippedBefore is how many offsets directly below hold no event: marks of new leaders, and what compaction has removed. The event
	// before this one in the shard has offset Offset - 1 - SkippedBefore.
	SkippedBefore int64
	// Time is when the shard's leader wrote the record, with SubscribeOptions.Timestamps and on durable streams only.
	Time time.Time
	// Value is the record's value. It is the caller's own, unless SubscribeOptions.ReuseBuffers is set.
	Value []byte
}

// Subscription reads shards of one stream. Next, NextBatch and Events may be used by one goroutine at a time, everything else by any.
type Subscription struct {
	c       *Client
	stream  Stream
	opts    SubscribeOptions
	readers []*reader

	life context.Context //nolint:containedctx // of the readers, ended by Close
	end  context.CancelCauseFunc
	wg   sync.WaitGroup
	out  chan *delivery

	// of whoever calls Next
	now   *delivery
	at    int
	ended int   // shards that have ended in good order
	err   error // why nothing more comes
}

// delivery is what a reader hands over: events, or an error between them.
type delivery struct {
	r      *reader
	events []Event
	buf    []byte // holds the values
	err    error
	final  bool // nothing comes after err; an io.EOF ends one shard
}

// ShardState is how far a subscription is in one shard.
type ShardState struct {
	Shard uint32
	// Durable says that the stream has offsets; without them the offsets below are NoOffset.
	Durable bool
	// Start is the first offset that was to be delivered, Live the shard's end when the subscription was accepted last: records below it
	// are history, from it on they are new.
	Start, Live int64
	// Next is the offset after the last event that Next has returned, or Start before the first: where to begin another time.
	Next int64
	// QueueCapacity is what the server has granted, if SubscribeOptions.QueueCapacity was set.
	QueueCapacity int
}

// Subscribe begins to read shards of a stream. It returns when all of them are open, and fails when one cannot be opened.
//
// A subscription reads ahead by two frames a shard and one stream window. It ends with Close.
//
// A stream that is deleted and made anew under its name is another stream, and the protocol does not tell which of them a subscription
// reads: close it before.
//
// Errors: *CursorError for an offset that is not kept; ErrNotFound; ErrForbidden; others of the server; ctx's.
func (c *Client) Subscribe(ctx context.Context, stream Stream, o SubscribeOptions) (*Subscription, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	stream = stream.normal()
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	shards := o.Shards
	if len(shards) == 0 {
		r, err := c.resolve(ctx, stream)
		if err != nil {
			return nil, err
		}
		for shard := range r.shards {
			shards = append(shards, shard)
		}
	}
	s := &Subscription{c: c, stream: stream, opts: o, out: make(chan *delivery)}
	s.life, s.end = context.WithCancelCause(c.life)
	if err := c.join(s); err != nil {
		s.end(err)
		return nil, err
	}
	if err := s.open(ctx, shards); err != nil {
		s.abort()
		return nil, err
	}
	return s, nil
}

// open starts a reader for each shard and waits until all have subscribed.
func (s *Subscription) open(ctx context.Context, shards []uint32) error {
	opened := make(chan error, len(shards))
	seen := map[uint32]bool{}
	for _, shard := range shards {
		if seen[shard] {
			return fmt.Errorf("felix: shard %d is named twice", shard)
		}
		seen[shard] = true
		s.readers = append(s.readers, newReader(s, shard))
	}
	for _, r := range s.readers {
		s.wg.Go(func() { r.run(opened) })
	}
	for range shards {
		select {
		case err := <-opened:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// startOf is where a shard begins.
func (s *Subscription) startOf(ctx context.Context, shard uint32) (Start, error) {
	if offset, ok := s.opts.Offsets[shard]; ok {
		return FromOffset(offset), nil
	}
	start := s.opts.Start
	if start.time.IsZero() {
		return start, nil
	}
	// The end comes first: if nothing is that young, what is written from here on is.
	bounds, err := s.c.Bounds(ctx, s.stream, shard)
	if err != nil {
		return start, err
	}
	offset, err := s.c.OffsetForTime(ctx, s.stream, shard, start.time)
	if err != nil {
		return start, err
	}
	if offset == NoOffset {
		offset = bounds.End
	}
	return FromOffset(offset), nil
}

// Close ends the subscription and waits for its goroutines. A call of Next that waits returns ErrClosed. Closing twice is fine.
func (s *Subscription) Close() error {
	s.abort()
	return nil
}

func (s *Subscription) abort() {
	s.end(ErrClosed)
	s.wg.Wait()
	s.c.leave(s)
}

// Next returns the next event. Events of one shard come in order; those of several are mixed as they arrive.
//
// Errors after which Next may be called again: *LaggedError (durable streams; nothing is lost), *GapError (ephemeral streams), and ctx's
// when that ends. After others it returns the same error again: io.EOF if the server has ended the subscription of every shard in good
// order; *CursorError if retention has removed what comes next; ErrClosed; refusals by the server that repeating does not help.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for s.now == nil || s.at >= len(s.now.events) {
		if err := s.receive(ctx); err != nil {
			return Event{}, err
		}
	}
	e := s.now.events[s.at]
	s.at++
	if e.Offset != NoOffset {
		s.now.r.delivered.Store(e.Offset + 1)
	}
	return e, nil
}

// NextBatch returns the events that have arrived together, at least one, all of one shard and in order. The slice is good until the next
// call of Next or NextBatch. Errors are those of Next.
func (s *Subscription) NextBatch(ctx context.Context) ([]Event, error) {
	for s.now == nil || s.at >= len(s.now.events) {
		if err := s.receive(ctx); err != nil {
			return nil, err
		}
	}
	events := s.now.events[s.at:]
	s.at = len(s.now.events)
	if last := events[len(events)-1]; last.Offset != NoOffset {
		s.now.r.delivered.Store(last.Offset + 1)
	}
	return events, nil
}

// receive waits for the next delivery.
func (s *Subscription) receive(ctx context.Context) error {
	if s.now != nil {
		s.now.r.reuse(s.now)
		s.now = nil
	}
	if s.err != nil {
		return s.err
	}
	select {
	case d := <-s.out:
		switch {
		case d.err == nil:
			s.now, s.at = d, 0
			return nil
		case !d.final:
			return d.err
		case errors.Is(d.err, io.EOF):
			if s.ended++; s.ended < len(s.readers) {
				return nil
			}
		}
		s.err = d.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.life.Done():
		s.err = context.Cause(s.life)
	}
	return s.err
}

// Events is the events as a sequence for a range loop, which ends after an error that Next would repeat, and when ctx ends. LaggedErrors
// and GapErrors come between events; the loop may go on after them. A subscription that ends in good order ends the loop without an error.
func (s *Subscription) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := s.Next(ctx)
			switch {
			case err == nil:
				if !yield(e, nil) {
					return
				}
			case errors.Is(err, io.EOF):
				return
			default:
				if !yield(Event{}, err) || s.err != nil || ctx.Err() != nil {
					return
				}
			}
		}
	}
}

// Positions is where to begin another time, by shard: the offset after the last event that Next has returned. Shards of an ephemeral
// stream are left out.
func (s *Subscription) Positions() map[uint32]int64 {
	out := make(map[uint32]int64, len(s.readers))
	for _, r := range s.readers {
		if next := r.delivered.Load(); next != NoOffset {
			out[r.shard] = next
		}
	}
	return out
}

// Shards tells how far the subscription is, in the order of SubscribeOptions.Shards.
func (s *Subscription) Shards() []ShardState {
	out := make([]ShardState, len(s.readers))
	for i, r := range s.readers {
		out[i] = ShardState{Shard: r.shard, Start: NoOffset, Live: NoOffset, Next: r.delivered.Load()}
		if a := r.accepted.Load(); a != nil {
			out[i].Durable, out[i].Start, out[i].Live, out[i].QueueCapacity = a.durable, a.start, a.live, a.capacity
		}
	}
	return out
}

// accepted is what the server said to a subscribe. Immutable.
type accepted struct {
	durable     bool
	start, live int64
	capacity    int
}

// reader reads one shard. Its fields belong to its goroutine unless they say otherwise.
type reader struct {
	s     *Subscription
	shard uint32
	start Start // until the first subscribe succeeds

	next  int64  // offset of the next event to come; NoOffset before it is known and without offsets
	fresh bool   // the stream was just opened at next: what lies between is no loss
	addr  string // where the shard is led now, if it was said
	buf   []byte // of the last frame

	delivered atomic.Int64 // offset after the last event that the subscriber has got
	accepted  atomic.Pointer[accepted]
	spare     chan *delivery // for reuse
}

func newReader(s *Subscription, shard uint32) *reader {
	r := &reader{s: s, shard: shard, next: NoOffset, spare: make(chan *delivery, 2)}
	r.delivered.Store(NoOffset)
	return r
}

// reuse gives a delivery back. The subscriber calls it.
func (r *reader) reuse(d *delivery) {
	if !r.s.opts.ReuseBuffers {
		d.buf = nil
	}
	clear(d.events)
	d.events = d.events[:0]
	select {
	case r.spare <- d:
	default:
	}
}

// deliver hands over. False: the subscription ends.
func (r *reader) deliver(d *delivery) bool {
	select {
	case r.s.out <- d:
		return true
	case <-r.s.life.Done():
		return false
	}
}
