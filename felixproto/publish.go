package felixproto

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// publishRequest is a publish of any form.
type publishRequest struct {
	id                        uint64
	answer                    answerForm
	tenant, namespace, stream []byte           // of the frame
	key                       []byte           // nil: none
	shard                     wire.Opt[uint32] // that the publish names, instead of having it chosen by the key
	payloads                  wire.Payloads
	idempotent                bool
	producer, sequence        uint64
	expected                  ids.Offset               // publish_if; NoOffset
	header                    recordbatch.RecordHeader // commit; no key: none
}

// answerForm is how a publish is answered.
type answerForm uint8

const (
	answerNone       answerForm = iota
	answerBinary                // publish ack frame; to a client that does not know those, as answerJSON
	answerJSON                  // publish_ok or publish_error
	answerIdempotent            // the same, or publish_refused
	answerIf                    // publish_ok, publish_refused, not_leader or error; outside the order of answers
	answerCommit                // commit_ok, publish_refused, not_leader or error; likewise
)

// publication is a publish that was taken on, from the broker's acceptance to its answer. Pooled.
type publication struct {
	broker.Publication
	st      *stream
	account *account
	id      uint64
	form    answerForm
	bytes   int
	at      time.Time

	// of the order of answers, guarded by stream.mu
	done   bool
	result broker.PublishResult
}

var publications = sync.Pool{New: func() any { return new(publication) }}

func newPublication() *publication {
	p, _ := publications.Get().(*publication)
	if p.Done == nil {
		p.Done = p.finished
	}
	return p
}

// route is where the last publish of a stream went. The next one mostly goes there too.
type route struct {
	image             *cluster.Image
	namespace, stream string
	topic             *cluster.Topic
	err               error
}

// find authorizes a publish and finds its stream. Right comes before existence: who may not write does not learn what there is.
func (st *stream) find(action broker.Action, namespace, name []byte) (*cluster.Topic, error) {
	image := st.c.s.opts.Broker.Image()
	r := &st.route
	if r.image == image && action == broker.StreamPublish && string(namespace) == r.namespace && string(name) == r.stream {
		return r.topic, r.err
	}
	topic, err := st.lookup(image, action, string(namespace), string(name))
	if action == broker.StreamPublish {
		*r = route{image: image, namespace: string(namespace), stream: string(name), topic: topic, err: err}
	}
	return topic, err
}

func (st *stream) lookup(image *cluster.Image, action broker.Action, namespace, name string) (*cluster.Topic, error) {
	tenant := st.sess.identity.Tenant
	if !st.sess.caller.Allowed(action, namespace, name) {
		return nil, errForbidden
	}
	if err := st.present(image); err != nil {
		return nil, err
	}
	topic := image.Topic(tenant, namespace, name)
	switch {
	case topic != nil && !topic.Internal:
		return topic, nil
	case image.Namespace(tenant, namespace) == nil:
		return nil, notFound("namespace not found")
	}
	return nil, notFound("stream not found")
}

// present refuses what is asked for a tenant that was deleted since the stream authenticated (native decision N14): one that was made under
// its name is another one, which the token is not good for.
func (st *stream) present(image *cluster.Image) error {
	if id := st.sess.identity; !image.HasTenant(id.Tenant, id.Incarnation) {
		return notFound("tenant not found")
	}
	return nil
}

// sameTenant refuses a request that names another tenant than the stream's own.
func (st *stream) sameTenant(tenant []byte) error {
	if string(tenant) != st.sess.identity.Tenant {
		return errOtherTenant
	}
	return nil
}

// publish takes a publish on, or answers why not. An error ends the stream.
func (st *stream) publish(r *publishRequest) error {
	shard, topic, err := st.target(r)
	if err != nil {
		return st.declined(r, err)
	}
	if r.payloads.Count() == 0 {
		if r.answer == answerIf {
			return st.declined(r, invalid("an empty batch"))
		}
		// Nothing to write: a success that never was anywhere, in its place among the answers.
		return st.settled(r, broker.PublishResult{Offset: ids.NoOffset})
	}
	if r.idempotent && r.producer == 0 {
		return st.declined(r, &errcode.SequenceError{Reason: errcode.SequenceUnknownProducer}) // an id that nobody was given
	}
	mode := st.mode(r, topic)
	began := st.c.s.opts.Now()
	p, err := st.open(r, mode)
	if err != nil {
		return st.declined(r, err)
	}
	p.Caller, p.Shard, p.Mode = st.sess.caller, shard, mode
	p.Wait = mode == broker.FireAndForget && st.c.s.opts.IngressWait
	p.Records, p.Bytes = r.payloads.Count(), r.payloads.Bytes()+r.payloads.Count()*len(r.key)+len(r.header.Value)
	p.Arrived = began
	p.Expected = r.expected
	p.Producer, p.Sequence = r.producer, r.sequence
	if p.Batch, err = st.batch(r); err != nil {
		st.cancel(p)
		return st.declined(r, err)
	}
	st.c.s.opts.Broker.Publish(&p.Publication)
	return nil
}

// target finds the shard of a publish.
func (st *stream) target(r *publishRequest) (*broker.Shard, *cluster.Topic, error) {
	if err := st.sameTenant(r.tenant); err != nil {
		return nil, nil, err
	}
	topic, err := st.find(broker.StreamPublish, r.namespace, r.stream)
	if err != nil {
		return nil, nil, err
	}
	if (r.answer == answerIf || r.answer == answerCommit) && !topic.Durable {
		return nil, nil, invalid("the stream is in memory only: it has no log")
	}
	if n := largest(r.payloads); n > st.c.s.opts.MaxRecord {
		return nil, nil, invalid("a record is larger than what a stream takes")
	}
	partition, err := placed(topic, r.shard, r.key)
	if err != nil {
		return nil, nil, err
	}
	shard, err := st.c.s.opts.Broker.Shard(topic, partition)
	return shard, topic, err
}

// placed is the partition of a request about a key (nil: none): the one that it names, or else the key's.
func placed(topic *cluster.Topic, named wire.Opt[uint32], key []byte) (int32, error) {
	switch {
	case !named.Set:
		return broker.Route(topic, key, key != nil), nil
	case int64(named.Value) >= int64(len(topic.Partitions)):
		return 0, errNoShard
	}
	return int32(named.Value), nil
}

func largest(p wire.Payloads) int {
	most := 0
	for payload := range p.All() {
		most = max(most, len(payload))
	}
	return most
}

// mode is when the publish is answered.
func (st *stream) mode(r *publishRequest, topic *cluster.Topic) broker.PublishMode {
	switch {
	case r.answer == answerNone:
		return broker.FireAndForget
	case r.answer != answerBinary && r.answer != answerJSON, topic.Durable && (st.commit || st.c.s.opts.AckOnCommit),
		topic.Durable && topic.Consistency == cluster.ConsistencyQuorum:
		return broker.OnCommit
	}
	return broker.OnAccept
}

// batch builds the record batch of a publish. The broker stamps offset, epoch, times and producer, and makes the checksum.
func (st *stream) batch(r *publishRequest) (*buf.Ref, error) {
	size := r.size()
	if size > broker.MaxPublishBatch { // a key of 64 KiB in each of four million records that are empty
		return nil, invalid("the key, repeated in every record, makes a batch that is too large")
	}
	ref := st.c.s.opts.Pool.Get(size)
	var b recordbatch.Builder
	b.Reset(ref.Bytes()[:0], recordbatch.BuilderOptions{Unsummed: true})
	now := st.c.s.opts.Now().UnixMilli()
	for payload := range r.payloads.All() {
		if r.header.Key != nil {
			b.Append(now, r.key, payload, r.header)
		} else {
			b.Append(now, r.key, payload)
		}
	}
	built, err := b.Build()
	if err != nil {
		ref.Release()
		return nil, err
	}
	if len(built) > size {
		ref.Release()
		return buf.Wrap(built), nil
	}
	ref.Shrink(len(built))
	return ref, nil
}

// size is what the batch of a publish takes, at most: the key is repeated in every record.
func (r *publishRequest) size() int {
	const perRecord = 20 // lengths, deltas and counts, at most
	return recordbatch.HeaderSize + r.payloads.Bytes() + r.payloads.Count()*(perRecord+len(r.key)) + len(r.header.Key) + len(r.header.Value)
}

// open takes a publish on: its bytes, its place among the answers. The publisher is held up where it may be, and refused where it must
// not be.
func (st *stream) open(r *publishRequest, mode broker.PublishMode) (*publication, error) {
	n := r.size()
	acked := r.answer != answerNone
	if acked && st.tooManyOwed() {
		return nil, &errcode.OverloadError{Reason: errcode.PublishQueueFull, RetryAfter: shortWait}
	}
	if err := st.charge(n, mode); err != nil {
		return nil, err
	}
	p := newPublication()
	p.st, p.account, p.id, p.form, p.bytes = st, st.sess.account, r.id, r.answer, n
	p.at = st.c.s.opts.Now()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pubs++
	st.bytes += n
	if acked {
		st.owed++
	}
	if st.ordered(r.answer) {
		st.pushLocked(p)
	}
	return p, nil
}

// shortWait is what a publisher is told to wait when nothing better is known.
const shortWait = 20 * time.Millisecond

// ordered says that an answer keeps its place among the others.
func (st *stream) ordered(form answerForm) bool {
	return st.window > 0 && form != answerNone && form != answerIf && form != answerCommit
}

func (st *stream) tooManyOwed() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.owed >= maxOwed
}

// charge takes the bytes of a publish out of what the identity and the connection may have under way. Whoever is answered after the
// write waits for others to be done; reading the stream waits with it.
func (st *stream) charge(n int, mode broker.PublishMode) error {
	for {
		if st.c.charge(st.sess.account, n) {
			return nil
		}
		wait := mode == broker.OnCommit || mode == broker.FireAndForget && st.c.s.opts.IngressWait
		if !wait || !st.c.waitForRoom(st.sess.account, n, st.c.s.opts.RoomWait) {
			return &errcode.OverloadError{Reason: errcode.PublishQueueFull, RetryAfter: shortWait}
		}
	}
}

// cancel undoes open for a publish that never reached the broker.
func (st *stream) cancel(p *publication) {
	st.mu.Lock()
	if st.ordered(p.form) {
		st.tail--
		st.ring[st.tail&uint64(len(st.ring)-1)] = nil
	}
	st.leaveLocked(p)
	if p.form != answerNone {
		st.owed--
	}
	st.mu.Unlock()
	st.c.refund(p.account, p.bytes)
	p.recycle()
}

func (st *stream) leaveLocked(p *publication) {
	st.pubs--
	st.bytes -= p.bytes
}

func (p *publication) recycle() {
	done := p.Done
	*p = publication{}
	p.Done = done
	publications.Put(p)
}

// finished is the broker's report. It runs on any goroutine and never waits.
func (p *publication) finished(_ *broker.Publication, res broker.PublishResult) {
	st := p.st
	st.c.refund(p.account, p.bytes)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.leaveLocked(p)
	switch {
	case p.form == answerNone:
		p.recycle()
	case st.ordered(p.form):
		p.done, p.result = true, res
		st.popLocked()
	default:
		st.answerLocked(p, res)
		st.owed--
		p.recycle()
	}
	st.wake.Broadcast()
}

// settled answers a publish that the broker need not see, in its place.
func (st *stream) settled(r *publishRequest, res broker.PublishResult) error {
	if r.answer == answerNone {
		return nil
	}
	p := newPublication()
	p.st, p.id, p.form, p.at = st, r.id, r.answer, st.c.s.opts.Now()
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.ordered(r.answer) {
		st.answerLocked(p, res)
		p.recycle()
		return nil
	}
	st.owed++
	st.pushLocked(p)
	p.done, p.result = true, res
	st.popLocked()
	return nil
}

// declined answers a publish that is not taken on. Without an answer it is dropped and counted.
func (st *stream) declined(r *publishRequest, err error) error {
	if r.answer == answerNone {
		st.c.s.dropped(st, err)
		return nil
	}
	return st.settled(r, broker.PublishResult{Offset: ids.NoOffset, Err: err})
}

// pushLocked puts a publish at the end of the order.
func (st *stream) pushLocked(p *publication) {
	if n := uint64(len(st.ring)); st.tail-st.head == n {
		larger := make([]*publication, max(2*n, 4))
		for i := st.head; i < st.tail; i++ {
			larger[i&uint64(len(larger)-1)] = st.ring[i&(n-1)]
		}
		st.ring = larger
	}
	st.ring[st.tail&uint64(len(st.ring)-1)] = p
	st.tail++
}

// popLocked writes the answers that are ready and wait for none before them.
func (st *stream) popLocked() {
	mask := uint64(len(st.ring) - 1)
	var b []byte
	for st.head < st.tail && st.ring[st.head&mask].done {
		p := st.ring[st.head&mask]
		st.ring[st.head&mask] = nil
		st.head++
		st.owed--
		if b == nil {
			b = st.scratch[:0]
		}
		b = st.appendAnswer(b, p, p.result)
		p.recycle()
	}
	st.sendLocked(b)
}

func (st *stream) answerLocked(p *publication, res broker.PublishResult) {
	st.sendLocked(st.appendAnswer(st.scratch[:0], p, res))
}

// appendAnswer appends the frame that answers a publish.
func (st *stream) appendAnswer(b []byte, p *publication, res broker.PublishResult) []byte {
	if p.form == answerBinary && st.flags.Has(wire.FlagPublishAck) {
		ack := wire.PublishAck{RequestID: p.id}
		if res.Err != nil {
			f := failureOf(res.Err)
			code, _ := wire.ParseCode(f.Code)
			ack.Failed, ack.Message, ack.Code, ack.Retry = true, f.Message, code, wire.ParseRetry(f.Retry)
			ack.Reason, ack.RetryAfterMillis = f.Reason, f.RetryAfterMillis.Or(0)
		} else if res.Offset != ids.NoOffset {
			ack.Offset = wire.Some(uint64(res.Offset))
		}
		return wire.AppendPublishAck(b, &ack, st.flags)
	}
	return wire.AppendMessage(b, st.answer(p, res))
}

// answer is the message that answers a publish.
func (st *stream) answer(p *publication, res broker.PublishResult) wire.Message {
	if res.Err != nil {
		return st.refusalOf(p, res.Err)
	}
	if p.form == answerCommit {
		return &wire.CommitOK{RequestID: p.id, Offset: uint64(res.Offset)}
	}
	ok := &wire.PublishOK{RequestID: p.id}
	if res.Offset != ids.NoOffset && st.flags.Has(wire.FlagAckOffset) {
		ok.Offset = wire.Some(uint64(res.Offset))
	}
	return ok
}

// refusalOf is the message that refuses a publish: a typed one where there is one.
func (st *stream) refusalOf(p *publication, err error) wire.Message {
	var (
		seq      *errcode.SequenceError
		mismatch *errcode.OffsetMismatchError
		leader   *errcode.NotLeaderError
	)
	typed := p.form == answerIdempotent || p.form == answerIf || p.form == answerCommit
	switch {
	case typed && errors.As(err, &mismatch):
		return &wire.PublishRefused{RequestID: p.id, Reason: wire.RefusedOffsetMismatch, Tail: uint64(mismatch.Tail), Message: err.Error()}
	case typed && errors.As(err, &seq):
		return st.sequenceRefused(p.id, seq)
	case p.form == answerIdempotent && errors.As(err, &leader):
		owner := st.c.s.owner(leader.Leader)
		return &wire.PublishRefused{RequestID: p.id, Reason: wire.RefusedNotLeader, NodeID: owner.NodeID, Addr: owner.Addr, Message: err.Error()}
	case p.form == answerIf || p.form == answerCommit:
		return st.refusalMessage(err)
	}
	return &wire.PublishError{RequestID: p.id, Failure: st.failure(err)}
}

// sequenceRefused is the answer to a batch out of its producer's sequence. A client that does not know of reused sequences takes the
// batch for a duplicate, as it was before there were digests; nothing was written either way.
func (st *stream) sequenceRefused(id uint64, err *errcode.SequenceError) wire.Message {
	refused := &wire.PublishRefused{RequestID: id, Message: err.Error()}
	switch err.Reason {
	case errcode.SequenceGap:
		refused.Reason, refused.Expected = wire.RefusedSequenceGap, err.Expected
	case errcode.SequenceUnknownProducer:
		refused.Reason = wire.RefusedUnknownProducer
	case errcode.SequenceExpired:
		refused.Reason = wire.RefusedSequenceExpired
	default:
		if !st.features.Has(wire.FeatureSequenceReused) {
			return &wire.PublishOK{RequestID: id}
		}
		refused.Reason = wire.RefusedSequenceReused
	}
	return refused
}

// binaryPublish takes the publish of a binary frame.
func (st *stream) binaryPublish(flags wire.Flags, payload []byte) error {
	p, err := wire.ParseBinaryPublish(flags, payload)
	if err != nil {
		var bad *wire.DecodeError
		if !errors.As(err, &bad) || bad.Verdict != wire.Continue || st.out == nil {
			return err
		}
		st.c.s.metrics.malformed(bad.Fault.String())
		r := publishRequest{id: bad.RequestID.Value, answer: answerBinary}
		if flags.Has(wire.FlagIdempotent) {
			r.answer = answerIdempotent
		}
		return st.declined(&r, err)
	}
	r := publishRequest{
		id: p.RequestID, tenant: p.TenantID, namespace: p.Namespace, stream: p.Stream, key: p.Key, payloads: p.Payloads,
		idempotent: p.Idempotent, producer: p.ProducerID, sequence: p.Sequence, expected: ids.NoOffset,
	}
	switch {
	case p.Idempotent:
		r.answer = answerIdempotent
	case p.Ack != wire.AckNone:
		r.answer = answerBinary
	}
	return st.publish(st.unanswered(&r))
}

// unanswered takes the answer off a publish on a stream that has no way back.
func (st *stream) unanswered(r *publishRequest) *publishRequest {
	if st.out == nil {
		r.answer = answerNone
	}
	return r
}

// jsonPublish takes a publish that came as a message.
func (st *stream) jsonPublish(
	scope *wire.StreamScope, payloads wire.Payloads, key []byte, shard wire.Opt[uint32], id wire.Opt[uint64], ack wire.AckMode,
) error {
	r := publishRequest{
		id: id.Value, tenant: []byte(scope.TenantID), namespace: []byte(scope.Namespace), stream: []byte(scope.Stream), key: key, shard: shard,
		payloads: payloads, expected: ids.NoOffset,
	}
	if ack != wire.AckNone {
		r.answer = answerJSON
	}
	return st.publish(st.unanswered(&r))
}

func (st *stream) idempotentPublish(m *wire.PublishIdempotent) error {
	r := publishRequest{
		id: m.RequestID, answer: answerIdempotent, tenant: []byte(m.TenantID), namespace: []byte(m.Namespace), stream: []byte(m.Stream), key: m.Key,
		shard: m.Shard, payloads: m.Payloads, idempotent: true, producer: m.ProducerID, sequence: m.Sequence, expected: ids.NoOffset,
	}
	return st.publish(st.unanswered(&r))
}

func (st *stream) conditionalPublish(m *wire.PublishIf) error {
	r := publishRequest{
		id: m.RequestID, answer: answerIf, tenant: []byte(m.TenantID), namespace: []byte(m.Namespace), stream: []byte(m.Stream), key: m.Key,
		shard: m.Shard, payloads: m.Payloads, expected: expectedOffset(m.ExpectedOffset),
	}
	return st.publish(&r)
}

// expectedOffset is an offset that a client names: one that no log reaches is as good as any other that is not the next.
func expectedOffset(n uint64) ids.Offset { return ids.Offset(min(n, math.MaxInt64)) }
