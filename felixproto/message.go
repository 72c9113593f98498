package felixproto

import (
	"context"
	"errors"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// message serves a JSON request. An error ends the stream.
func (st *stream) message(ctx context.Context, payload []byte) error {
	m, err := wire.ParseRequestWithout(payload, wire.FeatureExplicitShard&^st.features)
	if err != nil {
		return st.notUnderstood(err)
	}
	if st.out == nil {
		return st.oneWay(m)
	}
	switch m := m.(type) {
	case *wire.Publish:
		return st.jsonPublish(&m.StreamScope, wire.MakePayloads(m.Payload), m.Key, m.Shard, m.RequestID, m.Ack)
	case *wire.PublishBatch:
		return st.jsonPublish(&m.StreamScope, m.Payloads, m.Key, m.Shard, m.RequestID, m.Ack)
	case *wire.PublishIdempotent:
		return st.idempotentPublish(m)
	case *wire.PublishIf:
		return st.conditionalPublish(m)
	case *wire.ProducerInit:
		st.answerWith(st.producerInit(ctx, m))
	case *wire.Subscribe:
		st.answerWith(nil, st.subscribe(m))
	case *wire.Topology:
		st.answerWith(st.topology())
	case *wire.StreamShards:
		st.answerWith(st.streamShards(m))
	case *wire.ShardOwners:
		st.answerWith(st.shardOwners(m))
	case *wire.CacheShards:
		st.answerWith(st.cacheShards(m))
	case *wire.Commit:
		return st.commitRecord(m)
	case *wire.StateGet:
		st.answerWith(st.stateGet(ctx, m))
	case *wire.StreamRead:
		st.answerWith(st.streamRead(m))
	case *wire.OffsetForTime:
		st.answerWith(st.offsetForTime(ctx, m))
	case *wire.ShardInspect:
		st.answerWith(st.shardInspect(m))
	case *wire.SubscriptionsList:
		st.answerWith(st.subscriptionsList(m))
	case *wire.Auth:
		st.refuse(invalid("the stream has authenticated already"))
	case *wire.Extension:
		return st.unsupported(&wire.Unsupported{RequestType: wire.TypeOf(m), Extension: m.Name, RequestID: m.RequestID})
	default:
		// Caches and queue groups are known to the codec and not served: none of their features is advertised.
		return st.unsupported(&wire.Unsupported{RequestType: wire.TypeOf(m), RequestID: wire.RequestID(payload)})
	}
	return nil
}

// oneWay serves what may come on a client's unidirectional stream: publishes, and nothing is answered.
func (st *stream) oneWay(m wire.Message) error {
	switch m := m.(type) {
	case *wire.Publish:
		return st.jsonPublish(&m.StreamScope, wire.MakePayloads(m.Payload), m.Key, m.Shard, m.RequestID, m.Ack)
	case *wire.PublishBatch:
		return st.jsonPublish(&m.StreamScope, m.Payloads, m.Key, m.Shard, m.RequestID, m.Ack)
	case *wire.PublishIdempotent:
		return st.idempotentPublish(m)
	}
	return errStop
}

// notUnderstood answers a message that is malformed or of an unknown type.
func (st *stream) notUnderstood(err error) error {
	var (
		unknown *wire.UnknownTypeError
		bad     *wire.DecodeError
	)
	switch {
	case errors.As(err, &unknown):
		return st.unsupported(&wire.Unsupported{RequestType: unknown.Type, RequestID: unknown.RequestID})
	case !errors.As(err, &bad) || bad.Verdict != wire.Continue || st.out == nil:
		return err
	}
	publish := bad.Type == "publish" || bad.Type == "publish_batch"
	if publish && !bad.Acked {
		return err // no answer was asked for: as in the binary form, the stream ends with an error
	}
	st.c.s.metrics.malformed(bad.Fault.String())
	r := publishRequest{id: bad.RequestID.Value, expected: ids.NoOffset}
	switch {
	case publish:
		r.answer = answerJSON
	case bad.Type == "publish_idempotent":
		r.answer = answerIdempotent
	}
	if r.answer != answerNone && bad.RequestID.Set {
		return st.declined(&r, err)
	}
	st.refuse(err)
	return nil
}

// unsupported answers a request that is not served, to a client that knows of such answers; to any other the stream's end is the answer.
func (st *stream) unsupported(m *wire.Unsupported) error {
	st.c.s.metrics.unsupported.Inc()
	if st.out == nil || !st.features.Has(wire.FeatureUnsupported) {
		return errStop
	}
	st.reply(m)
	return nil
}

// answerWith writes a request's answer, or why there is none. The stream goes on either way.
func (st *stream) answerWith(m wire.Message, err error) {
	if err != nil {
		m = st.refusalMessage(readFailure(err))
	}
	if m != nil {
		st.reply(m)
	}
}

// refusalMessage is how a request that only the shard's owner serves is refused.
func (st *stream) refusalMessage(err error) wire.Message {
	var (
		leader *errcode.NotLeaderError
		cursor *cursorError
	)
	switch {
	case errors.As(err, &cursor):
		return &wire.SubscribeCursorError{Reason: cursor.reason, Requested: cursor.requested, Available: uint64(cursor.available)}
	case errors.As(err, &leader) && leader.Leader != int32(ids.NoBroker) && st.features.Has(wire.FeatureRedirect):
		owner := st.c.s.owner(leader.Leader)
		owner.Generation = uint64(max(leader.Epoch, 0))
		return &wire.NotLeader{Owner: owner}
	}
	return &wire.Error{Failure: st.failure(err)}
}
