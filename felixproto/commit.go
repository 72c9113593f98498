package felixproto

import (
	"context"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/cache"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// commitRecord appends one event and what it changes as one record: every reader sees both or neither. Readers of the stream see the
// event alone; the changes travel in a header.
func (st *stream) commitRecord(m *wire.Commit) error {
	r := publishRequest{
		id: m.RequestID, answer: answerCommit, tenant: []byte(m.TenantID), namespace: []byte(m.Namespace), stream: []byte(m.Stream),
		key: m.EntityKey, shard: m.Shard, payloads: wire.MakePayloads(m.Event), expected: ids.NoOffset,
	}
	if r.key == nil {
		r.key = []byte{}
	}
	if m.ExpectedOffset.Set {
		r.expected = expectedOffset(m.ExpectedOffset.Value)
	}
	changes := make([]cache.Change, len(m.Changes))
	for i, c := range m.Changes {
		changes[i] = cache.Change{Key: c.Key, Value: c.Value, Delete: c.Op == wire.ChangeDelete}
	}
	value := cache.AppendCommit(nil, changes)
	if len(value)+len(m.Event) > st.c.s.opts.MaxRecord {
		return st.declined(&r, invalid("event and changes are larger than a record may be"))
	}
	r.header = recordbatch.RecordHeader{Key: []byte(cache.CommitHeader), Value: value}
	return st.publish(&r)
}

// stateGet answers one key of an entity's state.
func (st *stream) stateGet(ctx context.Context, m *wire.StateGet) (wire.Message, error) {
	key := m.EntityKey
	if key == nil {
		key = []byte{}
	}
	if err := st.sameTenant([]byte(m.TenantID)); err != nil {
		return nil, err
	}
	topic, err := st.find(broker.StreamSubscribe, []byte(m.Namespace), []byte(m.Stream))
	if err != nil {
		return nil, err
	}
	if !topic.Durable {
		return nil, invalid("the stream is in memory only: it has no state")
	}
	partition, err := placed(topic, m.Shard, key)
	if err != nil {
		return nil, err
	}
	shard, err := st.c.s.opts.Broker.Shard(topic, partition)
	if err != nil {
		return nil, err
	}
	state, err := st.c.s.states.Get(ctx, topic.Tenant, topic.Shard(partition), stateShard{shard}, key, m.Key)
	if err != nil {
		return nil, err
	}
	value := &wire.StateValue{RequestID: m.RequestID, Value: state.Value}
	if state.Version != ids.NoOffset {
		value.Version = wire.Some(uint64(state.Version))
	}
	if state.AsOf != ids.NoOffset {
		value.AsOf = wire.Some(uint64(state.AsOf))
	}
	return value, nil
}

// stateShard is a shard as the states read it. It is comparable: a shard that was opened anew is another one.
type stateShard struct{ *broker.Shard }

// Committed implements cache.Shard.
func (s stateShard) Committed() (start, highWatermark ids.Offset) {
	b := s.Bounds()
	return b.Start, b.HighWatermark
}

// Batches implements cache.Shard.
func (s stateShard) Batches(from ids.Offset, yield func(batch []byte) error) error {
	chunks, _, err := s.Read(from, pageBytes, true, nil)
	for _, c := range chunks {
		for data := c.Data; err == nil && len(data) > 0; {
			var batch []byte
			if _, batch, data, err = recordbatch.Next(data); err == nil {
				err = yield(batch)
			}
		}
		c.Ref.Release()
	}
	return err
}
