package felixproto

import (
	"errors"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// subscribe opens an event stream. The answer goes out before the first event, so history that is larger than a receive window cannot
// stand in its own way.
func (st *stream) subscribe(m *wire.Subscribe) error {
	topic, shard, err := st.shardOf(broker.StreamSubscribe, &m.StreamScope, m.Shard)
	if err != nil {
		return err
	}
	bounds := shard.Bounds()
	start, err := startOf(m, bounds)
	if err != nil {
		return err
	}
	account := st.sess.account
	id, err := st.c.reserve(account, m.SubscriptionID)
	if err != nil {
		return err
	}
	sub, err := st.openEvents(m, id, topic, shard, start)
	if err != nil {
		st.c.unreserve(account, id)
		return err
	}
	if !st.c.remember(sub) {
		st.c.unreserve(account, id)
		sub.out.CancelWrite(streamNoError)
		return errClosed
	}
	st.c.s.metrics.subscriptions.Inc()
	// One that begins in the present is live before it is answered: what is published from now on it gets from its hub. Nothing is written
	// before run is started; an error shows there too.
	sub.writing = true
	_, _ = sub.s.join(sub)
	answer := &wire.Subscribed{SubscriptionID: sub.id}
	if sub.offsets {
		live := max(start, sub.s.lastEvent(shard, bounds))
		answer.StartOffset, answer.LiveOffset = wire.Some(uint64(start)), wire.Some(uint64(live))
	}
	if m.QueueCapacity.Set {
		answer.QueueCapacity = wire.Some(uint32(sub.capacity))
	}
	st.reply(answer)
	sub.watch()
	sub.start()
	return nil
}

// startOf is the first offset that a subscription delivers.
func startOf(m *wire.Subscribe, b broker.Bounds) (ids.Offset, error) {
	switch m.Start.Kind {
	case wire.StartEarliest:
		return b.Start, nil
	case wire.StartOffset:
		return cursor(m.Start.Offset, b)
	default:
		return b.HighWatermark, nil
	}
}

// openEvents opens the stream and writes its first frame: a client waits for that of one before it looks at the next.
func (st *stream) openEvents(m *wire.Subscribe, id uint64, topic *cluster.Topic, shard *broker.Shard, start ids.Offset) (*subscription, error) {
	s := st.c.s
	out, err := st.c.q.OpenUniStream()
	if err != nil {
		var limit quic.StreamLimitReachedError
		if errors.As(err, &limit) {
			return nil, limitExceeded("the client allows no more event streams")
		}
		return nil, errors.Join(errClosed, err)
	}
	sub := &subscription{
		s: s, conn: st.c, owner: st.sess.account, topic: topic, shard: shard, shardID: topic.Shard(int32(m.Shard)),
		id: id, serial: s.subscriptionIDs.Add(1), out: out, next: start, position: start, began: s.opts.Now(),
		capacity: s.opts.QueueCapacity, tenant: s.metrics.tenant(topic.Tenant),
	}
	sub.reached.Store(int64(start))
	sub.offsets = topic.Durable && st.flags.Has(wire.FlagOffsets)
	sub.skips = sub.offsets && st.flags.Has(wire.FlagSkipped)
	sub.stamped = topic.Durable && st.flags.Has(wire.FlagTimestamps)
	sub.lagFrame = sub.offsets && st.features.Has(wire.FeatureSubscriptionLagged)
	if m.QueueCapacity.Set {
		sub.capacity = min(max(int(m.QueueCapacity.Value), 1), s.opts.QueueLargest)
	}
	hello := wire.AppendMessage(nil, &wire.EventStreamHello{SubscriptionID: sub.id})
	if err := out.TryWriteAll(hello); err != nil {
		out.CancelWrite(streamNoError)
		if errors.Is(err, quic.ErrWouldBlock) {
			return nil, limitExceeded("the client's flow control has no room for an event stream")
		}
		return nil, errors.Join(errClosed, err)
	}
	return sub, nil
}

// maxTrailing bounds how far lastEvent looks back.
const maxTrailing = 64

// lastEvent is one past the last committed record that is an event: a client that has seen the one before it is caught up, so what is
// behind it and never delivered must not count.
func (s *Server) lastEvent(shard *broker.Shard, b broker.Bounds) ids.Offset {
	tail := b.HighWatermark
	for range maxTrailing {
		if tail <= b.Start {
			return tail
		}
		chunks, _, err := shard.Read(tail-1, 1, true, nil)
		from, last := tail, ids.Offset(-1)
		for _, c := range chunks {
			if h, batch, _, bad := recordbatch.Next(c.Data); err == nil && bad == nil {
				from, last = s.eventsOf(h, batch, tail)
			}
			c.Ref.Release()
		}
		if last >= 0 {
			return last + 1
		}
		if from >= tail {
			return tail // unreadable, which the reader itself will find
		}
		tail = from
	}
	return tail
}

// eventsOf is where a batch begins, and the last offset below tail that holds an event, -1 if none does.
func (s *Server) eventsOf(h recordbatch.Header, batch []byte, tail ids.Offset) (from, last ids.Offset) {
	from, last = ids.Offset(h.BaseOffset), -1
	if h.IsControl() {
		return from, last
	}
	if int(h.LastOffsetDelta)+1 == int(h.RecordCount) {
		return from, min(ids.Offset(h.LastOffset()), tail-1) // dense: nothing was compacted away
	}
	r, err := recordbatch.NewRecordReader(batch, s.opts.MaxDecodedBytes)
	if err != nil {
		return from, tail - 1
	}
	defer r.Close()
	for r.Next() {
		if o := ids.Offset(r.Record.Offset); o < tail {
			last = o
		}
	}
	return from, last
}
