package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
)

// source is an open event stream.
type source struct {
	cn   *conn
	q    *quic.ReceiveStream
	in   *bufio.Reader
	stop func() bool
}

// run is the reader's goroutine: it subscribes, reads until the stream ends, and subscribes again where it was. The first outcome of
// subscribing goes to opened.
func (r *reader) run(opened chan<- error) {
	ctx := r.s.life
	start, err := r.s.startOf(ctx, r.shard)
	r.start = start
	var src *source
	if err == nil {
		src, err = r.subscribe(ctx)
	}
	opened <- err
	wait := r.s.c.backoff()
	for err == nil {
		before := r.next
		err = r.read(ctx, src)
		src.close()
		if r.next != before {
			wait.failed = 0
		}
		if err = r.after(err); err != nil {
			break
		}
		if pause(ctx, wait.next(nil)) != nil {
			return
		}
		src, err = r.subscribe(ctx)
	}
	if ctx.Err() == nil {
		r.deliver(&delivery{r: r, err: err, final: true})
	}
}

// after decides what the end of an event stream means. Nil: subscribe again.
func (r *reader) after(err error) error {
	var (
		lagged *LaggedError
		lost   *ConnectionError
	)
	switch {
	case errors.As(err, &lagged):
		if r.s.opts.FollowLag || r.deliver(&delivery{r: r, err: err}) {
			return nil
		}
		return ErrClosed
	case errors.Is(err, errMoved):
		if r.next == NoOffset {
			return r.gap(err)
		}
		return nil
	case errors.As(err, &lost):
		if r.next == NoOffset {
			return r.gap(err)
		}
		return nil
	}
	return err
}

// gap tells that an ephemeral stream was interrupted.
func (r *reader) gap(err error) error {
	if !r.deliver(&delivery{r: r, err: &GapError{Shard: r.shard, Err: err}}) {
		return ErrClosed
	}
	return nil
}

// helloWait is how long an accepted subscription waits for its event stream, which was opened before.
const helloWait = 5 * time.Second

var (
	errMoved = errors.New("the shard has moved")
	errHello = errors.New("no event stream has come")
)

// subscribe opens an event stream, however long that takes, and fails only for good.
func (r *reader) subscribe(ctx context.Context) (*source, error) {
	c := r.s.c
	var (
		src     *source
		b       = c.backoff()
		unknown time.Time
	)
	for {
		attempt, cancel := context.WithTimeoutCause(ctx, openTimeout, &ConnectionError{Addr: r.s.stream.String(), Err: errDialTimeout})
		var err error
		src, err = r.attempt(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return src, err
		}
		c.avoid(err)
		c.forget(r.s.stream)
		r.addr = ""
		if !retryable(err, true) {
			return nil, err
		}
		if errors.Is(err, ErrNotFound) {
			if unknown.IsZero() {
				unknown = time.Now()
			} else if time.Since(unknown) > unknownFor {
				return nil, err
			}
		}
		if stop := b.wait(ctx, err); stop != nil {
			return nil, stop
		}
	}
}

// attempt subscribes once, over redirects.
func (r *reader) attempt(ctx context.Context) (*source, error) {
	c, addr := r.s.c, r.addr
	if addr == "" {
		known, err := c.route(ctx, r.s.stream)
		if err != nil {
			return nil, err
		}
		if r.shard < known.shards {
			addr = known.owners[r.shard]
		}
	}
	seen := map[string]bool{}
	for range maxHops + 1 {
		cn, err := c.reserve(ctx, addr)
		if err != nil {
			return nil, err
		}
		src, err := r.subscribeOn(ctx, cn)
		if err == nil {
			return src, nil
		}
		cn.subscriptions.Add(-1)
		var elsewhere *notLeader
		if !errors.As(err, &elsewhere) {
			return nil, err
		}
		if addr, err = c.hop(seen, elsewhere.node, elsewhere.addr); err != nil {
			return nil, err
		}
	}
	return nil, &Error{Code: CodeNotLeader, Class: ClassRetry, Message: "too many redirects"}
}

// reserve gives a connection that has room for another event stream, and counts it there.
func (c *Client) reserve(ctx context.Context, addr string) (*conn, error) {
	for index := 0; ; index++ {
		cn, err := c.enter(ctx, addr, events, index)
		if err != nil {
			return nil, err
		}
		if int(cn.subscriptions.Add(1)) <= c.cfg.SubscriptionsPerConnection {
			return cn, nil
		}
		cn.subscriptions.Add(-1)
	}
}

// request is the subscribe that goes on where the reader is.
func (r *reader) request(id uint64) *wire.Subscribe {
	m := &wire.Subscribe{StreamScope: r.s.c.scope(r.s.stream), SubscriptionID: wire.Some(id), Shard: r.shard}
	switch {
	case r.next != NoOffset:
		m.Start = wire.Start{Kind: wire.StartOffset, Offset: uint64(r.next)}
	case r.accepted.Load() != nil:
		m.Start = wire.Start{Kind: wire.StartLatest} // an ephemeral stream has nothing to go back to
	default:
		m.Start = wire.Start{Kind: r.start.kind, Offset: uint64(r.start.offset)}
		if m.Start.Kind == wire.StartDefault {
			m.Start.Kind = wire.StartLatest
		}
	}
	if r.s.opts.QueueCapacity > 0 {
		m.QueueCapacity = wire.Some(uint32(r.s.opts.QueueCapacity))
	}
	return m
}

func (r *reader) subscribeOn(ctx context.Context, cn *conn) (src *source, err error) {
	id, ch := cn.await()
	defer func() {
		if err != nil {
			cn.forsake(id, ch)
		}
	}()
	o := offer{flags: plainFlags, features: plainFeatures, first: r.request(id), only: true}
	if r.s.opts.Timestamps {
		o.flags |= wire.FlagTimestamps
	}
	x, err := cn.stream(ctx, o)
	if err != nil {
		return nil, err
	}
	defer x.finish()
	stop := x.bind(ctx)
	defer stop()
	answer, err := x.message(ctx)
	if err != nil {
		return nil, err
	}
	ok, accept := answer.(*wire.Subscribed)
	if !accept {
		return nil, r.refused(refusal(answer))
	}
	if ok.SubscriptionID != id {
		return nil, ErrProtocol
	}
	var q *quic.ReceiveStream
	late := time.NewTimer(helloWait)
	defer late.Stop()
	select {
	case q = <-ch:
	case <-late.C:
		return nil, cn.lost(ctx, errHello)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-cn.q.Context().Done():
		return nil, cn.lost(ctx, errHello)
	}
	r.accept(ok)
	return &source{
		cn: cn, q: q, in: bufio.NewReaderSize(q, 32<<10), stop: context.AfterFunc(r.s.life, func() { q.CancelRead(noError) }),
	}, nil
}

// refused completes a refusal.
func (r *reader) refused(err error) error {
	var cursor *CursorError
	if errors.As(err, &cursor) {
		cursor.Shard = r.shard
	}
	return err
}

// accept notes what the server said.
func (r *reader) accept(ok *wire.Subscribed) {
	a := &accepted{start: NoOffset, live: NoOffset, capacity: int(ok.QueueCapacity.Value)}
	if ok.StartOffset.Set {
		a.durable, a.start, a.live = true, offsetOf(ok.StartOffset.Value), optionalOffset(ok.LiveOffset)
		if r.next == NoOffset {
			r.next = a.start
			r.delivered.Store(a.start)
		}
		if first := r.accepted.Load(); first != nil {
			a.start = first.start
		}
	}
	r.fresh = true
	r.accepted.Store(a)
}

func (src *source) close() {
	src.stop()
	src.q.CancelRead(noError)
	src.cn.subscriptions.Add(-1)
}

// read delivers events until the stream ends. It returns why, never nil.
func (r *reader) read(ctx context.Context, src *source) error {
	for {
		err := r.frame(src.in)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && ctx.Err() == nil:
			return io.EOF
		case isOurs(err):
			return err
		default:
			return src.cn.lost(ctx, err)
		}
	}
}

// isOurs reports whether an error says what a frame said, and not that there was none.
func isOurs(err error) bool {
	var (
		lagged  *LaggedError
		refused *Error
	)
	return errors.As(err, &lagged) || errors.As(err, &refused) || errors.Is(err, ErrProtocol) || errors.Is(err, ErrClosed) || errors.Is(err, errMoved)
}

// frame takes the next frame. Errors of reading it are as they are.
func (r *reader) frame(in io.Reader) error {
	h, payload, err := wire.ReadFrame(in, r.buf, r.s.c.cfg.MaxFrameBytes)
	if err != nil {
		return err
	}
	r.buf = payload
	if h.Flags == 0 {
		return r.message(payload)
	}
	return r.events(h.Flags, payload)
}

// message takes a message of the event stream. Nil: it carried events.
func (r *reader) message(payload []byte) error {
	m, err := wire.ParseReply(payload)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	switch m := m.(type) {
	case *wire.SubscriptionLagged:
		if r.next == NoOffset {
			r.next = offsetOf(m.ResumeFrom)
		}
		return &LaggedError{Shard: r.shard, ResumeFrom: r.next}
	case *wire.ShardMoved:
		if m.ResumeFrom.Set {
			r.next = max(r.next, offsetOf(m.ResumeFrom.Value))
		}
		r.s.c.forget(r.s.stream)
		if _, err := netip.ParseAddrPort(m.Addr); err == nil {
			r.addr = m.Addr
		}
		return errMoved
	case *wire.EventMessage:
		head := wire.EventHead{BaseOffset: m.Offset.Value}
		if m.Offset.Set {
			head.Flags |= wire.FlagOffsets
		}
		return r.legacy(&head, wire.MakePayloads(m.Payload))
	case *wire.EventBatchMessage:
		head := wire.EventHead{BaseOffset: m.BaseOffset.Value}
		if m.BaseOffset.Set {
			head.Flags |= wire.FlagOffsets
		}
		return r.legacy(&head, m.Payloads)
	}
	return refusal(m)
}

// legacy takes events that came as a message, in the form that others have.
func (r *reader) legacy(head *wire.EventHead, p wire.Payloads) error {
	frame := wire.AppendEventBatch(nil, head, 0, p)
	return r.events(head.WireFlags(), frame[wire.HeaderSize:])
}

// events delivers a batch of events.
func (r *reader) events(flags wire.Flags, payload []byte) error {
	d := r.blank()
	if r.s.opts.ReuseBuffers {
		// The frame becomes the delivery's; what the delivery had takes the next one.
		r.buf, d.buf = d.buf, payload
	} else {
		d.buf = append(make([]byte, 0, len(payload)), payload...)
	}
	b, err := wire.ParseEventBatch(flags, d.buf)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err := r.place(&b); err != nil {
		return err
	}
	if err := r.decode(&b, d); err != nil {
		return err
	}
	if len(d.events) == 0 {
		return nil
	}
	if !r.deliver(d) {
		return ErrClosed
	}
	return nil
}

// blank gives a delivery without events.
func (r *reader) blank() *delivery {
	select {
	case d := <-r.spare:
		return d
	default:
		return &delivery{r: r}
	}
}

// place checks that a batch follows what came before. A gap that nothing explains is a loss, as servers have it that do not tell it; it is
// made good by reading again from where it begins.
func (r *reader) place(b *wire.EventBatch) error {
	durable := r.next != NoOffset
	switch {
	case durable != b.Flags.Has(wire.FlagOffsets):
		return fmt.Errorf("%w: offsets come and go", ErrProtocol)
	case !durable:
		return nil
	case offsetOf(b.BaseOffset)-int64(min(b.SkippedBefore, b.BaseOffset)) > r.next && !r.fresh:
		return &LaggedError{Shard: r.shard, ResumeFrom: r.next}
	}
	return nil
}

// decode puts a batch's events into d.
func (r *reader) decode(b *wire.EventBatch, d *delivery) error {
	durable := r.next != NoOffset
	if durable && b.BaseOffset+uint64(b.Count()) > uint64(offsetOf(b.BaseOffset+uint64(b.Count()))) {
		return fmt.Errorf("%w: an offset past the end", ErrProtocol)
	}
	for ev := range b.All() {
		e := Event{Shard: r.shard, Offset: NoOffset, Value: ev.Payload}
		if b.Flags.Has(wire.FlagTimestamps) {
			e.Time = time.UnixMicro(offsetOf(ev.TimestampMicros))
		}
		if durable {
			e.Offset = int64(ev.Offset)
			if e.Offset < r.next {
				continue // it has come before
			}
			e.SkippedBefore = e.Offset - r.next
			r.next = e.Offset + 1
		}
		d.events = append(d.events, e)
	}
	r.fresh = false
	return nil
}
