package felixproto

import (
	"cmp"
	"slices"
	"strings"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/ids"
)

// What operators ask (felix-wire, 4.14). The grant must be spelled exactly: nothing else implies it.
func (st *stream) mayInspect() error {
	if !st.sess.identity.Grants.AllowedCluster(auth.NodeView) {
		return &refusal{code: wire.CodeForbidden, message: "forbidden: needs node.view on cluster:*"}
	}
	return st.present(st.c.s.opts.Broker.Image())
}

// shardInspect answers with this node's view of one shard of any tenant.
func (st *stream) shardInspect(m *wire.ShardInspect) (wire.Message, error) {
	if err := st.mayInspect(); err != nil {
		return nil, err
	}
	s := st.c.s
	view := wire.ShardView{NodeID: s.opts.NodeID, Role: "none", Phase: "unassigned", Reason: "not_assigned_here"}
	topic := s.opts.Broker.Image().Topic(m.TenantID, m.Namespace, m.Name)
	if topic == nil || m.Kind != wire.KindStream {
		view.Detail = "no such stream"
		return &wire.ShardInspectInfo{RequestID: m.RequestID, View: view}, nil
	}
	view.Shards = uint32(len(topic.Partitions))
	if m.Shard >= view.Shards {
		return nil, invalid("the stream has no such shard")
	}
	p := topic.Partitions[m.Shard]
	assignment := wire.ViewAssignment{Generation: uint64(max(p.Epoch, 0))}
	if n, ok := s.opts.Broker.Image().Node(p.Leader); ok {
		assignment.Leader = string(n.ID)
	}
	for _, r := range p.Replicas {
		if n, ok := s.opts.Broker.Image().Node(r); ok && r != p.Leader {
			assignment.Replicas = append(assignment.Replicas, string(n.ID))
		}
	}
	view.Assignment = wire.Some(assignment)
	if p.Leader != s.opts.Broker.Self() {
		return &wire.ShardInspectInfo{RequestID: m.RequestID, View: view}, nil
	}
	view.Role = "leader"
	view.Generation = wire.Some(assignment.Generation)
	shard, failed := s.opts.Broker.Shard(topic, int32(m.Shard))
	if failed != nil {
		view.Phase, view.Reason, view.Detail = "failed", "failed", failed.Error()
		return &wire.ShardInspectInfo{RequestID: m.RequestID, View: view}, nil //nolint:nilerr // the failure is what was asked for
	}
	b := shard.Bounds()
	view.Phase, view.Serving, view.Reason = "active", true, ""
	view.Tail, view.Committed = wire.Some(uint64(b.End)), wire.Some(uint64(b.HighWatermark))
	view.AcceptedGeneration = wire.Some(uint64(max(b.Epoch, 0)))
	return &wire.ShardInspectInfo{RequestID: m.RequestID, View: view}, nil
}

// Bounds of a page of subscriptions.
const (
	defaultPage = 100
	largestPage = 1000
)

// subscriptionsList answers one page of the subscriptions of this node, in the order of stream, shard and subscriber.
func (st *stream) subscriptionsList(m *wire.SubscriptionsList) (wire.Message, error) {
	if err := st.mayInspect(); err != nil {
		return nil, err
	}
	s := st.c.s
	limit := defaultPage
	if m.Limit > 0 {
		limit = int(min(m.Limit, largestPage))
	}
	var all []wire.SubscriptionView
	now := s.opts.Now()
	for _, c := range s.all() {
		for _, sub := range c.subscriptionList() {
			v := sub.view()
			v.AgeMillis = uint64(max(now.Sub(sub.began).Milliseconds(), 0))
			if matches(&m.Filter, &v) && (!m.Cursor.Set || compareViews(cursorOf(&v), m.Cursor.Value) > 0) {
				all = append(all, v)
			}
		}
	}
	slices.SortFunc(all, func(a, b wire.SubscriptionView) int { return compareViews(cursorOf(&a), cursorOf(&b)) })
	info := &wire.SubscriptionsListInfo{RequestID: m.RequestID, NodeID: s.opts.NodeID, Subscriptions: all}
	if len(all) > limit {
		info.Subscriptions = all[:limit]
		info.NextCursor = wire.Some(cursorOf(&all[limit-1]))
	}
	return info, nil
}

func cursorOf(v *wire.SubscriptionView) wire.SubscriptionCursor {
	return wire.SubscriptionCursor{StreamScope: v.StreamScope, Shard: v.Shard, SubscriberID: v.SubscriberID}
}

func compareViews(a, b wire.SubscriptionCursor) int {
	return cmp.Or(strings.Compare(a.TenantID, b.TenantID), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Stream, b.Stream),
		cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.SubscriberID, b.SubscriberID))
}

func matches(filter *wire.Opt[wire.SubscriptionFilter], v *wire.SubscriptionView) bool {
	f := &filter.Value
	return equals(f.TenantID, v.TenantID) && equals(f.Namespace, v.Namespace) && equals(f.Stream, v.Stream) && equals(f.Shard, v.Shard) &&
		equals(f.Principal, v.Principal) && equals(f.Dropping, v.Dropped > 0)
}

func equals[T comparable](want wire.Opt[T], got T) bool { return !want.Set || want.Value == got }

// view is the subscription as operators see it.
func (sub *subscription) view() wire.SubscriptionView {
	b := sub.shard.Bounds()
	sub.mu.Lock()
	defer sub.mu.Unlock()
	v := wire.SubscriptionView{
		StreamScope: wire.StreamScope{TenantID: sub.topic.Tenant, Namespace: sub.topic.Namespace, Stream: sub.topic.Name},
		Shard:       uint32(sub.shardID.Partition), SubscriberID: sub.serial, SubscriptionID: sub.id, Connection: wire.Some(sub.conn.id),
		Peer: sub.conn.q.RemoteAddr().String(), Principal: sub.owner.key.principal, Policy: "drop_new",
		Depth: uint64(sub.slots), Capacity: uint64(sub.capacity), Dropped: sub.dropped, Tail: uint64(b.HighWatermark),
	}
	if sub.topic.Durable {
		v.Position = wire.Some(uint64(ids.Offset(sub.reached.Load())))
	}
	return v
}
