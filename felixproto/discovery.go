package felixproto

import (
	"context"
	"errors"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// topology lists the servers that clients may go to. One node is a cluster of one (native decision N15). Clients drop an address that is
// no IP:port, so none is given that they would.
func (st *stream) topology() (wire.Message, error) {
	if err := st.present(st.c.s.opts.Broker.Image()); err != nil {
		return nil, err
	}
	view := &wire.TopologyView{}
	for _, p := range st.c.s.peers() {
		if p.Addr != "" {
			view.Brokers = append(view.Brokers, wire.Broker{NodeID: p.NodeID, Addr: p.Addr})
		}
	}
	return view, nil
}

// peers are the servers of the cluster. Only this one is known so far.
func (s *Server) peers() []Peer {
	if s.draining.Load() {
		return nil
	}
	return []Peer{{NodeID: s.opts.NodeID, Addr: s.opts.Advertise}}
}

// owner is a broker as clients are told of it.
func (s *Server) owner(number int32) wire.Owner {
	node, ok := s.opts.Broker.Image().Node(ids.BrokerID(number))
	if !ok {
		return wire.Owner{}
	}
	owner := wire.Owner{NodeID: string(node.ID)}
	if node.Broker == s.opts.Broker.Self() {
		owner.Addr = s.opts.Advertise
	}
	return owner
}

// named finds a stream of the caller's own tenant without asking for a right; nil when there is none. Discovery answers about one's own
// tenant only, and needs no more than that one is known.
func (st *stream) named(tenant, namespace, name string) (*cluster.Topic, error) {
	if err := st.sameTenant([]byte(tenant)); err != nil {
		return nil, err
	}
	image := st.c.s.opts.Broker.Image()
	if err := st.present(image); err != nil {
		return nil, err
	}
	topic := image.Topic(tenant, namespace, name)
	if topic != nil && topic.Internal {
		topic = nil
	}
	return topic, nil
}

func (st *stream) streamShards(m *wire.StreamShards) (wire.Message, error) {
	topic, err := st.named(m.TenantID, m.Namespace, m.Stream)
	if err != nil {
		return nil, err
	}
	view := &wire.StreamShardsView{RequestID: m.RequestID}
	if topic != nil {
		view.Shards = uint32(len(topic.Partitions))
		if topic.Routing == cluster.RoutingJumpHash {
			view.Routing = wire.MappingJumpHash
		}
	}
	return view, nil
}

// cacheShards: no caches are registered, so none is known.
func (st *stream) cacheShards(m *wire.CacheShards) (wire.Message, error) {
	if _, err := st.named(m.TenantID, m.Namespace, ""); err != nil {
		return nil, err
	}
	return &wire.CacheShardsView{RequestID: m.RequestID}, nil
}

func (st *stream) shardOwners(m *wire.ShardOwners) (wire.Message, error) {
	topic, err := st.named(m.TenantID, m.Namespace, m.Name)
	if err != nil {
		return nil, err
	}
	view := &wire.ShardOwnersView{RequestID: m.RequestID}
	if topic == nil || m.Kind != wire.KindStream {
		return view, nil // the name is not known
	}
	for i, p := range topic.Partitions {
		o := wire.ShardOwner{Shard: uint32(i), Generation: uint64(max(p.Epoch, 0))}
		if p.Leader == ids.NoBroker {
			o.Unavailable = wire.ReasonNotAssigned
		} else {
			owner := st.c.s.owner(int32(p.Leader))
			o.NodeID, o.Addr = owner.NodeID, owner.Addr
		}
		view.Owners = append(view.Owners, o)
	}
	return view, nil
}

// producerInit hands out the id of an idempotent producer.
func (st *stream) producerInit(ctx context.Context, m *wire.ProducerInit) (wire.Message, error) {
	// As for a publish: right comes before existence.
	if err := st.sameTenant([]byte(m.TenantID)); err != nil {
		return nil, err
	}
	if _, err := st.lookup(st.c.s.opts.Broker.Image(), broker.StreamPublish, m.Namespace, m.Stream); err != nil {
		return nil, err
	}
	id, err := st.c.s.opts.Broker.AllocateNativeProducer(ctx, st.sess.caller)
	if err != nil {
		return nil, err
	}
	return &wire.ProducerInitOK{RequestID: m.RequestID, ProducerID: id}, nil
}

// shardOf opens a shard that a request names by number.
func (st *stream) shardOf(action broker.Action, scope *wire.StreamScope, shard uint32) (*cluster.Topic, *broker.Shard, error) {
	if err := st.sameTenant([]byte(scope.TenantID)); err != nil {
		return nil, nil, err
	}
	topic, err := st.find(action, []byte(scope.Namespace), []byte(scope.Stream))
	if err != nil {
		return nil, nil, err
	}
	if int64(shard) >= int64(len(topic.Partitions)) {
		return nil, nil, errNoShard
	}
	open, err := st.c.s.opts.Broker.Shard(topic, int32(shard))
	return topic, open, err
}

var errNoShard = invalid("the stream has no such shard")

// cursorError refuses an offset.
type cursorError struct {
	reason    wire.CursorReason
	requested uint64
	available ids.Offset
}

// Error is the sentence.
func (e *cursorError) Error() string { return "offset " + string(e.reason) }

// Kind is OffsetOutOfRange.
func (e *cursorError) Kind() errcode.Kind { return errcode.OffsetOutOfRange }

// cursor checks an offset that a reader asks for: from the oldest record that is held to the tail.
func cursor(requested uint64, b broker.Bounds) (ids.Offset, error) {
	from := expectedOffset(requested)
	switch {
	case from < b.Start:
		return 0, &cursorError{wire.CursorTooOld, requested, b.Start}
	case from > b.HighWatermark:
		return 0, &cursorError{wire.CursorInFuture, requested, b.HighWatermark}
	}
	return from, nil
}

// trimmed turns a read that retention has overtaken into what a reader is told.
func trimmed(err error, requested uint64) error {
	var out *errcode.RangeError
	if errors.As(err, &out) && out.TooOld() {
		return &cursorError{wire.CursorTooOld, requested, ids.Offset(out.Start)}
	}
	return err
}
