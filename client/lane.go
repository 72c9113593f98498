package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// lane carries the records of one publisher to one shard: one queue, one transport stream at a time, one goroutine that writes. So records
// arrive in the order in which they were taken on.
//
// The queue holds batches from the oldest that is not settled to the newest. The first sent of them are on the present stream. A batch
// leaves at the head only, when it is settled, so outcomes are told in order too. After a refusal nothing more is sent until everything
// that is on the way has been answered; then the lane sends again from the first batch that is to be repeated. A lost stream counts as
// such an answer.
//
// An idempotent lane has a producer id of its own and numbers its batches. A number belongs to a batch for good once it may have been
// applied. Batches that certainly were not may be numbered anew, when one before them is given up.
type lane struct {
	p     *Publisher
	shard uint32
	wake  chan struct{} // holds a value when the writer should look at the queue

	mu       sync.Mutex
	closed   bool      // guarded by mu
	whole    []*batch  // guarded by mu: queue behind places that batches have left
	gone     int       // guarded by mu: those places
	queue    []*batch  // guarded by mu: the rest of whole
	sent     int       // guarded by mu: of queue, those on the present stream
	rewind   bool      // guarded by mu: send nothing until the sent ones are answered, then begin anew
	renew    bool      // guarded by mu: at the next beginning, under another producer id
	moved    bool      // guarded by mu: at the next beginning, perhaps at another server
	probe    bool      // guarded by mu: the last answer was a refusal: send one batch alone
	reopen   bool      // guarded by mu: send nothing on the present stream any more
	explicit bool      // guarded by mu: the present stream takes publishes that name their shard
	producer uint64    // guarded by mu: 0 for none
	sequence uint64    // guarded by mu: of the next batch that has none
	hold     time.Time // guarded by mu: send nothing before
	window   int       // guarded by mu: batches that may be on the way
	failures backoff   // guarded by mu: refusals in a row
	hint     string    // guarded by mu: address of the leader as a refusal named it
	spare    []*batch  // guarded by mu: for reuse
	spared   int       // guarded by mu: bytes that spare holds
	taken    uint64    // guarded by mu: outcomes that are owed, over all time
	kept     uint64    // guarded by mu: those of them that are told
	waits    []wait    // guarded by mu: for kept, in order

	owner   string // of the writer: the shard's leader when the present stream was opened, as far as it was known
	leaving bool   // of the writer: the stream is ended because the shard has moved

	buf  []byte // of the writer
	told []told // of whoever settles: outcomes to be told after the lock is given back
}

// batch is what one frame carries.
type batch struct {
	key      []byte
	keyed    bool // there is a key, perhaps empty
	named    bool // it names its shard, which is the lane's
	sealed   bool // nothing is added any more
	count    int
	encoded  []byte    // payloads, each behind its length
	promises []promise // one a record; a single one for a batch that was published as such
	cost     int       // of budget
	since    time.Time // when its first record was taken on

	request   uint64    // of the present stream
	at        time.Time // when it was sent
	numbered  bool      // sequence is set
	sequence  uint64
	uncertain bool      // it may have been applied
	unknown   time.Time // since when the server answers not_found
	state     state
	ack       Ack
	err       error // why it failed, or why it is repeated
}

// state is where a batch is.
type state uint8

const (
	waiting  state = iota // not answered
	repeated              // refused, and to be sent again
	settled               // ack or err is the outcome
	dropped               // settled, failed, and its number was not used up
)

// told is an outcome that is to be told.
type told struct {
	p   promise
	ack Ack
	err error
}

func newLane(p *Publisher, shard uint32) *lane {
	return &lane{p: p, shard: shard, wake: make(chan struct{}, 1), failures: p.c.backoff(), window: p.opts.MaxInFlight}
}

// add takes one record on. False: the lane is closed.
func (l *lane) add(key, value []byte, named bool, size int, done promise) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	var b *batch
	if n := len(l.queue); n > l.sent {
		if last := l.queue[n-1]; last.takes(key, named, size, l.p) {
			b = last
		}
	}
	if b == nil {
		b = l.appendLocked(key, named)
	}
	b.encoded = wire.AppendPayload(b.encoded, value)
	b.count++
	b.cost += costOf(key, size)
	b.promises = append(b.promises, done)
	l.taken++
	l.mu.Unlock()
	l.signal()
	return true
}

// addBatch takes a batch on that stays by itself.
func (l *lane) addBatch(key []byte, values [][]byte, named bool, size int, done promise) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	b := l.appendLocked(key, named)
	for _, v := range values {
		b.encoded = wire.AppendPayload(b.encoded, v)
	}
	b.count, b.cost, b.sealed = len(values), costOf(key, size), true
	b.promises = append(b.promises, done)
	l.taken++
	l.mu.Unlock()
	l.signal()
	return true
}

// joinable is the part of DeliveryTimeout for which further records may join a batch: they have its deadline, which is that of its first.
const joinable = 16

// takes reports whether a record may travel with the batch: the key is the batch's, so it must be the same.
func (b *batch) takes(key []byte, named bool, size int, p *Publisher) bool {
	return !b.sealed && !b.numbered && b.state == waiting && b.keyed == (key != nil) && b.named == named && bytes.Equal(b.key, key) &&
		b.count < p.opts.MaxBatchRecords && len(b.encoded)+size <= p.opts.MaxBatchBytes &&
		p.fits(key, len(b.encoded)+size, b.count+1, named) && time.Since(b.since) <= p.opts.DeliveryTimeout/joinable
}

func (l *lane) appendLocked(key []byte, named bool) *batch {
	b := new(batch)
	if n := len(l.spare); n > 0 {
		b = l.spare[n-1]
		l.spare = l.spare[:n-1]
		l.spared -= cap(b.encoded)
	}
	b.key, b.keyed, b.named, b.since = append(b.key[:0], key...), key != nil, named, time.Now()
	if b.keyed && b.key == nil {
		b.key = []byte{} // an empty key is a key, and none is another
	}
	l.whole = append(l.whole, b)
	l.queue = l.whole[l.gone:]
	return b
}

// maxSpared bounds the memory of batches that are kept for reuse.
const maxSpared = 2 << 20

// recycleLocked keeps a batch that has left the queue.
func (l *lane) recycleLocked(b *batch) {
	if l.spared+cap(b.encoded) > maxSpared || len(l.spare) >= rememberedBatches {
		return
	}
	clear(b.promises)
	*b = batch{key: b.key[:0], encoded: b.encoded[:0], promises: b.promises[:0]}
	l.spare = append(l.spare, b)
	l.spared += cap(b.encoded)
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the lane's goroutine.
func (l *lane) run() {
	ctx := l.p.life
	defer l.shut()
	wait := l.p.c.backoff()
	for l.work(ctx) {
		x, err := l.open(ctx)
		if err == nil {
			wait.failed = 0
			err = l.serve(ctx, x)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if l.drained() {
			return
		}
		l.failed(err)
		if pause(ctx, wait.next(err)) != nil {
			return
		}
	}
}

// work waits until there is something to send. False: the publisher ends.
func (l *lane) work(ctx context.Context) bool {
	for {
		l.mu.Lock()
		some := len(l.queue) > 0
		l.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		if some {
			return true
		}
		select {
		case <-l.wake:
		case <-l.p.draining:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// drained reports whether the publisher without answers has ended in good order.
func (l *lane) drained() bool {
	select {
	case <-l.p.draining:
		return true
	default:
		return false
	}
}

// lanesPerConnection is how many shards of one stream are published to over one connection.
const lanesPerConnection = 256

// openTimeout bounds one attempt to open a stream to the shard's leader.
const openTimeout = 15 * time.Second

// leastPatience is what an attempt gets even if the oldest batch should be given up.
const leastPatience = time.Second

// patience is how long an attempt may take: limit, or less if the oldest batch is to be given up before.
func (l *lane) patience(limit time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return limit
	}
	return min(limit, max(l.p.opts.DeliveryTimeout-time.Since(l.queue[0].since), leastPatience))
}

// open opens a stream to the shard's leader, and gets a producer id if the lane needs one.
func (l *lane) open(ctx context.Context) (*exchange, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.patience(openTimeout), &ConnectionError{Addr: l.p.stream.String(), Err: errDialTimeout})
	defer cancel()
	c := l.p.c
	l.mu.Lock()
	addr, producer := l.hint, l.producer
	l.hint = ""
	l.mu.Unlock()
	if addr == "" {
		r, err := c.route(ctx, l.p.stream)
		if err != nil {
			return nil, err
		}
		l.p.route.Store(r)
		if l.shard < r.shards {
			addr = r.owners[l.shard]
		}
	}
	l.owner = addr
	// Shards take turns with the connections; of a stream with very many, further ones are opened, as a connection has so many streams.
	n := c.cfg.Connections
	cn, err := c.enter(ctx, addr, requests, int(l.shard)%n+n*(int(l.shard)/(n*lanesPerConnection)))
	if err != nil {
		return nil, err
	}
	o := offer{flags: plainFlags, features: plainFeatures | wire.FeaturePublishPipeline}
	if l.p.opts.AckOnCommit {
		o.features |= wire.FeatureAckOnCommit
	}
	x, err := cn.stream(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := l.ready(ctx, x, producer); err != nil {
		x.abandon()
		return nil, err
	}
	return x, nil
}

// ready checks that the server serves what the lane needs.
func (l *lane) ready(ctx context.Context, x *exchange, producer uint64) error {
	if l.p.opts.Guarantee == Idempotent {
		if !x.ok.ServerFlags.Has(wire.FlagIdempotent) || !x.ok.Features().Has(wire.FeatureIdempotentProducer) {
			return &Error{Code: CodeUnsupported, Class: ClassFatal, Message: "the server serves no idempotent publishers"}
		}
		if producer == 0 {
			id, err := ask[*wire.ProducerInitOK](ctx, x.cn, &wire.ProducerInit{StreamScope: l.p.c.scope(l.p.stream), RequestID: l.p.c.requestID()})
			if err != nil {
				return err
			}
			producer = id.ProducerID
		}
	}
	if !x.ok.ServerFlags.Has(wire.FlagAcked | wire.FlagPublishAck | wire.FlagKeyed) {
		return &Error{Code: CodeUnsupported, Class: ClassFatal, Message: "the server takes no binary publishes"}
	}
	window := grantedWindow
	if x.ok.Features().Has(wire.FeaturePublishPipeline) && x.ok.PublishWindow.Value > 0 {
		window = int(min(x.ok.PublishWindow.Value, 1<<16))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producer, l.reopen = producer, false
	l.explicit = x.ok.Features().Has(wire.FeatureExplicitShard)
	l.window = min(window, l.p.opts.MaxInFlight)
	return nil
}

// serve sends and hears answers until the stream is lost or the publisher ends. An error says why the stream was lost.
func (l *lane) serve(ctx context.Context, x *exchange) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var answers sync.WaitGroup
	answers.Go(func() { cancel(l.hear(ctx, x)) })
	stop := x.bind(ctx)
	if err := l.send(ctx, x); err != nil {
		cancel(err)
	}
	<-ctx.Done()
	err := context.Cause(ctx)
	stop()
	x.abandon()
	answers.Wait()
	if l.leaving {
		l.leaving, err = false, errRewound
	}
	l.lost(err)
	if errors.Is(err, errRewound) {
		return nil
	}
	return err
}

var (
	// errRewound ends a stream that is to be opened anew, at another server or under another producer id.
	errRewound = errors.New("another stream is needed")
	errOverdue = errors.New("the answer to a publish is overdue")
)

// farewell is how long a stream without answers waits for the server to have read it.
const farewell = 5 * time.Second

// farewell ends a stream without answers. The server ends its side when it has read everything, which ends the stream's context.
func (x *exchange) farewell() {
	_ = x.q.Close()
	_ = x.q.SetReadDeadline(time.Now().Add(farewell))
}

// elsewhere reports whether the shard is known to have another leader than when the stream was opened.
func (l *lane) elsewhere() bool {
	r := l.p.route.Load()
	if r == nil || l.shard >= r.shards {
		return false
	}
	now := r.owners[l.shard]
	return now != "" && now != l.owner
}

// send writes what may be written until ctx ends, or writing fails.
func (l *lane) send(ctx context.Context, x *exchange) error {
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	draining := l.p.draining
	var first uint64 // number of the stream's last request
	for ctx.Err() == nil {
		if l.p.opts.Ack == AckNone && l.elsewhere() {
			l.leaving = true
			x.farewell()
			<-ctx.Done()
			return nil
		}
		check, err := l.fill(&first)
		if err != nil {
			return err
		}
		if len(l.buf) > 0 {
			// A server that stops reading holds the write up, and no answer can be overdue before it.
			_ = x.q.SetWriteDeadline(time.Now().Add(l.patience(l.p.opts.AnswerTimeout)))
			if err := x.write(ctx, l.buf); err != nil {
				return err
			}
			if l.p.opts.Ack == AckNone {
				l.written()
			}
			continue
		}
		tick.Stop()
		if check > 0 {
			tick.Reset(check)
		}
		select {
		case <-l.wake:
		case <-tick.C:
			if l.overdue() {
				return &ConnectionError{Addr: x.cn.addr, Err: errOverdue}
			}
		case <-draining:
			// Nothing is queued any more.
			draining = nil
			x.farewell()
		case <-ctx.Done():
		}
	}
	return nil
}

// maxWrite bounds what is collected for one write to the stream.
const maxWrite = 256 << 10

// fill puts frames of batches that may be sent into buf. check is after what time to come again without being woken; 0 is never. An error
// says that the stream does not take the first of them; nothing is on the way then.
func (l *lane) fill(first *uint64) (check time.Duration, err error) {
	l.buf = l.buf[:0]
	if cap(l.buf) > 4*maxWrite {
		l.buf = nil
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.hold.Sub(now); wait > 0 && !l.rewind {
		return wait, nil
	}
	window := l.window
	if l.probe {
		window = 1 // those behind it would only be refused too
	}
	for !l.rewind && !l.reopen && l.sent < min(len(l.queue), window) && len(l.buf) < maxWrite {
		b := l.queue[l.sent]
		if b.named && !l.explicit && b.state != settled {
			if l.sent == 0 {
				return 0, errShardNotTaken
			}
			break // those before it are answered first
		}
		l.sent++
		if b.state == settled {
			continue // it waits for those before it to be told
		}
		b.at = now
		*first++
		b.request = *first
		l.buf = l.frameLocked(l.buf, b)
	}
	if l.sent == 0 {
		return 0, nil
	}
	return max(l.queue[0].at.Add(l.p.opts.AnswerTimeout).Sub(now), time.Millisecond), nil
}

// frameLocked appends the frame of a batch.
func (l *lane) frameLocked(dst []byte, b *batch) []byte {
	payloads, err := wire.NewPayloads(b.count, b.encoded)
	p := wire.BinaryPublish{
		RequestID: b.request, Ack: wire.AckPerBatch, TenantID: l.p.names[0], Namespace: l.p.names[1], Stream: l.p.names[2],
		Payloads: payloads,
	}
	if b.keyed {
		p.Key = b.key
	}
	switch l.p.opts.Ack {
	case AckBatch: // as it stands
	case AckNone:
		p.Ack = wire.AckNone
	case AckMessage:
		p.Ack = wire.AckPerMessage
	}
	if l.p.opts.Guarantee == Idempotent {
		if !b.numbered {
			b.numbered, b.sequence = true, l.sequence
			l.sequence++
		}
		p.Idempotent, p.ProducerID, p.Sequence = true, l.producer, b.sequence
	}
	var (
		out     []byte
		tooLong error
	)
	if b.named {
		out = l.appendNamed(dst, &p)
	} else {
		out, tooLong = wire.AppendBinaryPublish(dst, &p)
	}
	if err = errors.Join(err, tooLong); err != nil {
		// Sizes were checked when the records were taken on, so this cannot be; the batch must not be lost in silence if it is.
		b.state, b.err = settled, err
	}
	return out
}

// appendNamed appends a publish with the lane's shard, which the binary form has no place for.
func (l *lane) appendNamed(dst []byte, p *wire.BinaryPublish) []byte {
	scope, shard := l.p.c.scope(l.p.stream), wire.Some(l.shard)
	if p.Idempotent {
		return wire.AppendMessage(dst, &wire.PublishIdempotent{
			StreamScope: scope, Payloads: p.Payloads, Key: p.Key, RequestID: p.RequestID, ProducerID: p.ProducerID, Sequence: p.Sequence,
			Shard: shard,
		})
	}
	m := &wire.PublishBatch{StreamScope: scope, Payloads: p.Payloads, Key: p.Key, Ack: p.Ack, Shard: shard}
	if p.Ack != wire.AckNone {
		m.RequestID = wire.Some(p.RequestID)
	}
	return wire.AppendMessage(dst, m)
}

// hear reads answers until the stream ends. It returns why.
func (l *lane) hear(ctx context.Context, x *exchange) error {
	for {
		flags, payload, err := x.frame(ctx)
		if err != nil {
			return err
		}
		request, offset, refused, err := parseAnswer(flags, payload)
		if err != nil {
			return err
		}
		if err := l.answered(request, offset, refused); err != nil {
			return err
		}
	}
}

// parseAnswer reads the answer of a publish in either form. refused is what the answer says, err that it is none.
func parseAnswer(flags wire.Flags, payload []byte) (request uint64, offset int64, refused, err error) {
	if layout, _ := flags.Layout(); layout == wire.LayoutPublishAck {
		a, err := wire.ParsePublishAck(flags, payload)
		if err != nil {
			return 0, 0, nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		if a.Failed {
			refused = &Error{
				Code: Code(a.Code.String()), Class: Class(a.Retry), Message: a.Message, Reason: a.Reason,
				RetryAfter: time.Duration(min(a.RetryAfterMillis, maxRetryAfter)) * time.Millisecond,
			}
		}
		return a.RequestID, optionalOffset(a.Offset), refused, nil
	}
	if flags != 0 {
		return 0, 0, nil, fmt.Errorf("%w: flags %v where the answer of a publish belongs", ErrProtocol, flags)
	}
	m, err := wire.ParseReply(payload)
	if err != nil {
		return 0, 0, nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	switch m := m.(type) {
	case *wire.PublishOK:
		return m.RequestID, optionalOffset(m.Offset), nil, nil
	case *wire.PublishError:
		return m.RequestID, NoOffset, refusal(m), nil
	case *wire.PublishRefused:
		return m.RequestID, NoOffset, refusal(m), nil
	}
	return 0, 0, nil, refusal(m)
}

func optionalOffset(o wire.Opt[uint64]) int64 {
	if !o.Set {
		return NoOffset
	}
	return offsetOf(o.Value)
}
