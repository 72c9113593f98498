package broker

import (
	"bytes"
	"errors"
	"time"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/invariant"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// PublishMode is when a publish is answered, and with it what becomes of it when there is no room (streams rules 5.5).
type PublishMode uint8

// The modes. A publish that has a Producer or an Expected offset, and any acknowledged one to a durable stream of Quorum consistency, is
// answered on commit; any other acknowledged one to an ephemeral stream is answered on accept: Publish sees to both.
const (
	FireAndForget PublishMode = iota // nobody is told: without room it is shed
	OnAccept                         // when it is queued: without room it is refused at once
	OnCommit                         // when it is committed: without room it waits up to Options.PublishQueueWait
)

// What Publish refuses with; see errcode.
type (
	// SequenceError refuses a batch of an idempotent producer.
	SequenceError = errcode.SequenceError
	// OffsetMismatchError refuses a conditional publish.
	OffsetMismatchError = errcode.OffsetMismatchError
	// OverloadError refuses for want of room or budget.
	OverloadError = errcode.OverloadError
)

// Publication is one native publish on its way into a shard. The front end owns it: it fills in the exported fields, leaves the
// publication alone until Done ran, and may then use it again. It must not be copied after its first use.
type Publication struct {
	Caller *Caller
	Shard  *Shard
	// Batch is exactly one uncompressed record batch v2 with base offset 0 whose timestamp deltas are 0. Publish stamps the time of the
	// append, the producer fields, offset, leader epoch and checksum: the front end need fill in none of them. The reference passes to
	// Publish, and with it the right to change the bytes: nobody else may hold one.
	Batch   *buf.Ref
	Records int
	Bytes   int // of payloads: for quota and metrics. Queued is charged by the size of the batch
	Mode    PublishMode
	// Arrived is when the publish began to wait for room before it got here, so that there is one deadline for all such waits; zero: now.
	Arrived time.Time
	// Wait has a FireAndForget publish wait for room and quota instead of being shed (FELIX_PUB_INGRESS_WAIT).
	Wait bool
	// Expected is the offset that the first record must get (publish_if, commit), ids.NoOffset for whatever comes.
	Expected ids.Offset
	// Producer is a native idempotent producer, 0 for none, and Sequence its number for this batch.
	Producer, Sequence uint64
	// Done is called exactly once, in every mode: on any goroutine, perhaps before Publish returns, and perhaps inside the lock-step of
	// the shard, so it must not block. It may call Publish. What is told of a FireAndForget publish is for metrics and budgets alone.
	Done func(*Publication, PublishResult)

	mode     PublishMode // in force; see PublishMode
	charged  bool        // the quota has been drawn
	accepted bool        // Done ran when it was queued: this is the broker's own
	cost     int64       // size of the batch
	produced *produced   // it stands for a Kafka client's batch; nil
	dup      bool
	reused   bool       // a duplicate with other payloads
	offset   ids.Offset // of the first record, once written

	// In its lane's queue or waiting list.
	next, prev *Publication
	// In a list of deadlines.
	later, sooner *Publication
	deadline      time.Time
	timed         bool
	// Of its wait for the commit, guarded by commitWaits.mu: the timer is about to give it up; it ended meanwhile, and how.
	expiring, ended bool
	endErr          error

	waiter Waiter
	waits  *commitWaits // whose list it is in
	self   *Publication // whom waiter.Notify is bound to
}

// PublishResult is the outcome of a publish.
type PublishResult struct {
	// Offset is the first record's, or the first copy's of a re-send; NoOffset if it was answered before the write, there is no log, or
	// it failed.
	Offset    ids.Offset
	Duplicate bool // nothing was written: a re-send under the same sequence
	// Err has a kind of errcode. *SequenceError, *OffsetMismatchError and *OverloadError, ErrEphemeral, ErrEmptyBatch, ErrNoLeader,
	// NotLeader and BatchTooLarge say that nothing was written; so does Overloaded after a failed write, as on a full disk. After
	// QuorumTimeout, LeadershipLost, Unacknowledged and StorageFailed it may have been. With a SequenceError of SequenceReused Offset and
	// Duplicate tell of the first copy, for clients that do not know that refusal.
	Err error
}

// Publish takes a publish to a shard of this node. It never waits: the publish is written on the caller's goroutine if its shard is idle
// and a worker is free, else queued or refused by the streams rules, section 5. Publishes to one shard are written in the order of
// their Publish calls; a refused one leaves no trace. Whether the caller may publish is for the front end to decide, before.
func (b *Broker) Publish(p *Publication) {
	s := p.Shard
	p.prepare()
	if err := s.admissible(p); err != nil {
		p.finish(err)
		return
	}
	b.admission.publish(p)
}

// prepare sets what the broker keeps in a publication.
func (p *Publication) prepare() {
	p.mode, p.charged, p.dup, p.reused, p.offset = p.effectiveMode(), false, false, false, ids.NoOffset
	p.cost = 1
	if p.Batch != nil {
		p.cost = int64(max(1, len(p.Batch.Bytes())))
	}
}

// effectiveMode is when the publish is answered.
func (p *Publication) effectiveMode() PublishMode {
	switch {
	case p.Producer != 0 || p.Expected != ids.NoOffset:
		return OnCommit
	case p.Mode == FireAndForget:
		return FireAndForget
	case !p.Shard.Durable():
		return OnAccept
	case p.Shard.topic.Load().Consistency == cluster.ConsistencyQuorum:
		return OnCommit
	default:
		return p.Mode
	}
}

// admissible refuses what could not succeed however much room there were.
func (s *Shard) admissible(p *Publication) error {
	switch {
	case s.tenant == nil:
		return ErrInternal
	case p.Records <= 0 || p.Batch == nil:
		return ErrEmptyBatch
	case p.Expected != ids.NoOffset && !s.Durable():
		return ErrEphemeral
	case p.Producer != 0 && !ownsProducer(p.Caller, p.Producer):
		return &SequenceError{Reason: errcode.SequenceUnknownProducer}
	default:
		return nil
	}
}

// finish gives the batch back, counts the outcome and tells the publisher, unless it was told when the publish was queued. The publication
// may be in use again when it returns.
func (p *Publication) finish(err error) {
	if k := p.produced; k != nil {
		k.err = err
		k.done <- struct{}{} // of room 1, and told once
		return
	}
	p.Batch.Release()
	p.Batch = nil
	m := p.Shard.b.metrics
	if err != nil {
		p.countFailure(m, err)
	} else {
		p.countSuccess(m)
	}
	if p.accepted {
		putAccepted(p)
		return
	}
	res := PublishResult{Offset: ids.NoOffset, Err: err}
	if err == nil || p.reused {
		res.Duplicate = p.dup
		if p.mode == OnCommit && p.Shard.Durable() {
			res.Offset = p.offset
		}
	}
	p.Done(p, res)
}

func (p *Publication) countSuccess(m *metrics) {
	if p.mode == OnCommit {
		m.publishOK.Inc()
	} else {
		m.publishAccepted.Inc()
	}
	if !p.dup {
		m.publishBytes.Add(float64(p.Bytes))
		p.Shard.tenant.messages.Add(float64(p.Records))
		p.Shard.tenant.bytes.Add(float64(p.Bytes))
	}
}

func (p *Publication) countFailure(m *metrics, err error) {
	kind := errcode.Of(err)
	if p.accepted {
		m.ackedDropped.WithLabelValues(kind.String()).Inc()
	}
	switch {
	case p.mode == FireAndForget:
		m.publishDropped.Inc()
	case kind == errcode.NotLeader:
		m.publishNotOwner.Inc()
	default:
		m.publishError.Inc()
	}
}

// step writes one publication: the part of a publish that its shard does one at a time. The publication may be in use again when it
// returns.
func (a *admission) step(p *Publication) {
	s := p.Shard
	if k := p.produced; k != nil {
		res, err := s.replica.Append(k.in)
		k.res = res
		p.finish(err)
		return
	}
	res, err := s.publish(p)
	switch {
	case err != nil:
		p.finish(err)
		return
	case p.mode != OnCommit || !s.Durable():
		s.replica.Commit(false)
		p.finish(p.refusal())
		return
	}
	p.waiter.Until = res.Next
	if s.replica.ReadLimit() >= res.Next {
		p.finish(p.refusal())
		return
	}
	s.replica.Commit(false)
	a.await(p)
}

// refusal is what a written publish, or a re-send, is told.
func (p *Publication) refusal() error {
	if p.reused {
		return &SequenceError{Reason: errcode.SequenceReused}
	}
	return nil
}

// publish stamps and appends the batch of p.
func (s *Shard) publish(p *Publication) (log.AppendResult, error) {
	topic := s.topic.Load()
	batch, owner := p.Batch.Bytes(), p.Batch
	if err := s.checkNative(topic, p, batch); err != nil {
		return log.AppendResult{}, err
	}
	recordbatch.SetTimestamps(batch, s.b.opts.Now().UnixMilli(), topic.Config.LogAppendTime)
	if p.Producer != 0 {
		recordbatch.SetProducer(batch, recordbatch.Producer{ID: int64(p.Producer), BaseSequence: log.NativeSequence(p.Sequence)})
	} else {
		recordbatch.SetProducer(batch, recordbatch.Producer{
			ID: recordbatch.NoProducerID, Epoch: recordbatch.NoProducerEpoch, BaseSequence: recordbatch.NoSequence,
		})
	}
	codec, keep := topic.Config.Codec()
	if compress := s.Durable() && !keep && recordbatch.Codec(codec) != recordbatch.CodecNone; compress {
		compressed, err := recordbatch.Recompress(nil, batch, recordbatch.RecompressOptions{
			Codec: recordbatch.Codec(codec), Level: topic.Config.CodecLevel(), MaxDecodedBytes: len(batch),
		})
		if err != nil {
			return log.AppendResult{}, err
		}
		batch, owner = compressed, buf.Wrap(compressed)
		defer owner.Release()
	} else {
		recordbatch.Recrc(batch)
	}
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return log.AppendResult{}, err
	}
	in := log.AppendInput{Batch: batch, Owner: owner, Origin: log.OriginClient, Header: h, Sequence: p.Sequence}
	if p.Expected != ids.NoOffset {
		in.Conditional, in.Expected = true, p.Expected
	}
	res, err := s.replica.Append(in)
	if err != nil {
		return res, err
	}
	p.offset, p.dup = res.Base, res.Duplicate
	if res.Duplicate {
		same, err := s.sameRecords(res, p.Batch.Bytes())
		if err != nil {
			return res, err
		}
		p.reused = !same
	}
	return res, nil
}

// MaxPublishBatch bounds the batch of a native publish, in bytes: a publish frame, with room for what encoding adds to its payloads. A
// front end that repeats a key in every record checks this before it makes room for them.
const MaxPublishBatch = 32 << 20

const maxMessageBytes = "max.message.bytes"

// checkNative checks a batch that our own front end built: for mistakes of the server, but for size and for what the topic asks of
// records. Kafka's limit on batches counts where somebody set it for the topic: its default is below what a frame may hold.
func (s *Shard) checkNative(topic *cluster.Topic, p *Publication, batch []byte) error {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return errcode.Newf(errcode.Internal, "broker: malformed native batch: %w", err)
	}
	n := int(h.RecordCount)
	if h.Size() != len(batch) || h.Codec() != recordbatch.CodecNone || n != p.Records || int(h.LastOffsetDelta) != n-1 {
		return errcode.Newf(errcode.Internal, "broker: malformed native batch: %d records in %d bytes", h.RecordCount, len(batch))
	}
	limit := MaxPublishBatch
	if _, set := topic.Overrides[maxMessageBytes]; set {
		limit = int(topic.Config.MaxMessageBytes)
	}
	if len(batch) > limit {
		return errcode.Newf(errcode.BatchTooLarge, "broker: a batch of %d bytes is over the limit of %d", len(batch), limit)
	}
	if !topic.Config.CleanupCompact && !invariant.Enabled {
		return nil
	}
	recordbatch.Recrc(batch)
	_, err = recordbatch.Validate(batch, recordbatch.ValidateOptions{RequireKeys: topic.Config.CleanupCompact, LogAppendTime: true})
	return err
}

// sameRecords tells whether the records of a batch are those of the one that was remembered under its sequence. The original is read
// back, so nothing has to be stored for this. Where it is gone, by retention or compaction, they are taken to be.
func (s *Shard) sameRecords(original log.AppendResult, batch []byte) (bool, error) {
	chunks, _, err := s.store.Read(original.Base, original.Next, 1, true, nil)
	if gone := (*errcode.RangeError)(nil); errors.As(err, &gone) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() {
		for i := range chunks {
			chunks[i].Ref.Release()
		}
	}()
	if len(chunks) == 0 {
		return true, nil
	}
	h, stored, _, err := recordbatch.Next(chunks[0].Data)
	if err != nil {
		return false, err
	}
	if h.BaseOffset != int64(original.Base) || h.NextOffset() != int64(original.Next) || h.RecordCount != h.LastOffsetDelta+1 {
		return true, nil
	}
	records, err := recordbatch.Open(nil, h, stored, MaxPublishBatch)
	if err != nil {
		return false, err
	}
	return bytes.Equal(records, batch[recordbatch.HeaderSize:]), nil
}

// Route is the partition that a native publish with the key goes to (felix-wire, section 6); without a key it is the first.
func Route(t *cluster.Topic, key []byte, hasKey bool) int32 {
	n := len(t.Partitions)
	switch {
	case !hasKey || n <= 1:
		return 0
	case t.Routing == cluster.RoutingJumpHash:
		return jumpHash(hashKey(key), int32(n))
	default:
		return int32(hashKey(key) % uint64(n))
	}
}

// hashKey is FNV-1a with a finalizer that spreads it over all bits.
func hashKey(key []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range key {
		h ^= uint64(c)
		h *= 0x00000100000001b3
	}
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// jumpHash is the jump consistent hash of Lamping and Veach over n buckets.
func jumpHash(h uint64, n int32) int32 {
	b, j := int64(-1), int64(0)
	for j < int64(n) {
		b = j
		h = h*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(1<<31) / float64(h>>33+1)))
	}
	return int32(b)
}

// commitFailed is what the publisher of a written batch is told when its commit is not going to happen here: that it was written may
// yet come out, so it must not read as a refusal.
func commitFailed(err error) error {
	switch errcode.Of(err) {
	case errcode.StorageFailed, errcode.QuorumTimeout, errcode.Unacknowledged:
		return err
	default:
		return errcode.Newf(errcode.LeadershipLost, "broker: written, but: %w", err)
	}
}
