package client

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// ShardView is one server's own view of one shard. Words are open sets: a newer server may use others. Offsets that a server does not have
// are NoOffset.
type ShardView struct {
	NodeID string
	// Shards is how many shards the stream has, 0 if the server does not know it.
	Shards int
	// Role is leader, follower or none.
	Role string
	// Phase is unassigned, opening, fencing, active, draining, closed or failed.
	Phase string
	// Serving says that the server takes writes for the shard now; Reason is why not, Detail the same as a sentence.
	Serving        bool
	Reason, Detail string
	// Generation is the leader epoch that the server holds the shard at, -1 for none.
	Generation int64
	// Assignment is who leads and holds the shard, nil if nobody does.
	Assignment *Assignment
	// Lease is the server's lease, nil if it has none.
	Lease *Lease
	// Tail is one past the last record of this copy, Committed one past the last that readers may see.
	Tail, Committed int64
	// Replicas are the others as the leader sees them.
	Replicas []ReplicaView
}

// Assignment is who leads and holds a shard.
type Assignment struct {
	Generation uint64
	Leader     string
	// Replicas are the nodes other than the leader.
	Replicas []string
	Draining bool
	// Successor is whom a move hands the shard to, empty for none.
	Successor string
}

// Lease is how long a server may act as leader without hearing from the controller.
type Lease struct {
	Held      bool
	Remaining time.Duration
}

// ReplicaView is one replica as the leader sees it.
type ReplicaView struct {
	NodeID string
	// Role is follower or learner.
	Role string
	// NextOffset is the next one that it is sent, Lag how many records it is behind; -1 where that is not known.
	NextOffset, Lag int64
	State           string
	// Halted is why replication to it has stopped, empty if it goes on.
	Halted string
}

// InspectShard asks the server at addr for its own view of a shard; it is not asked of anyone else. An empty addr means whichever server
// the client is connected to. The token needs the right node.view on the cluster.
//
// Errors: ErrForbidden; ErrUnsupported by a server that cannot be inspected; *ConnectionError.
func (c *Client) InspectShard(ctx context.Context, addr string, s Stream, shard uint32) (ShardView, error) {
	s = s.normal()
	m := &wire.ShardInspect{
		TenantID: c.cfg.Tenant, Namespace: s.Namespace, Name: s.Name, Kind: wire.KindStream, Shard: shard, RequestID: c.requestID(),
	}
	a, err := inspect[*wire.ShardInspectInfo](ctx, c, addr, m)
	if err != nil {
		return ShardView{}, err
	}
	return shardView(&a.View), nil
}

func inspect[A wire.Message](ctx context.Context, c *Client, addr string, m wire.Message) (A, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var a A
	err := c.retry(ctx, true, func() error {
		var (
			cn  *conn
			err error
		)
		if addr == "" {
			cn, err = c.enter(ctx, "", requests, 0)
		} else {
			cn, err = c.connection(ctx, slotKey{addr, requests, 0})
		}
		if err != nil {
			return err
		}
		a, err = ask[A](ctx, cn, m)
		return err
	})
	return a, err
}

func shardView(v *wire.ShardView) ShardView {
	out := ShardView{
		NodeID: v.NodeID, Shards: int(min(v.Shards, math.MaxInt32)), Role: v.Role, Phase: v.Phase, Serving: v.Serving, Reason: v.Reason,
		Detail: v.Detail, Generation: optionalOffset(v.Generation), Tail: optionalOffset(v.Tail), Committed: optionalOffset(v.Committed),
	}
	if v.Assignment.Set {
		a := v.Assignment.Value
		out.Assignment = &Assignment{
			Generation: a.Generation, Leader: a.Leader, Replicas: a.Replicas, Draining: a.Draining, Successor: a.Successor,
		}
	}
	if v.Lease.Set {
		out.Lease = &Lease{Held: v.Lease.Value.Held, Remaining: millis(v.Lease.Value.RemainingMillis)}
	}
	for _, r := range v.Replicas {
		out.Replicas = append(out.Replicas, ReplicaView{
			NodeID: r.NodeID, Role: r.Role, NextOffset: optionalOffset(r.NextOffset), Lag: optionalOffset(r.Lag), State: r.State, Halted: r.Halted,
		})
	}
	return out
}

func millis(n uint64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}

// SubscriptionView is one subscription as its server sees it.
type SubscriptionView struct {
	Tenant string
	Stream Stream
	Shard  uint32
	// SubscriberID is the server's own number, SubscriptionID the one on the connection.
	SubscriberID, SubscriptionID uint64
	// Peer is the client's address and Principal who it is, empty if not known.
	Peer, Principal string
	// Policy is what happens when the queue is full: drop_new or drop_old.
	Policy string
	// Depth and Capacity are of its queue, in published batches; Dropped is how many events it was not given.
	Depth, Capacity, Dropped int64
	// Position is the offset that it is given next, NoOffset if there are none; Tail is the shard's end.
	Position, Tail int64
	Age            time.Duration
}

// SubscriptionFilter keeps what is equal in every field that is set.
type SubscriptionFilter struct {
	Namespace, Stream, Principal string
	// Tenant, without a value, is the client's own; AllTenants keeps those of every tenant.
	Tenant     string
	AllTenants bool
	Shard      *uint32
	// Dropping keeps only those that were not given some event.
	Dropping bool
}

// Subscriptions lists the subscriptions of the server at addr, page by page, for a range loop; an empty addr is as with InspectShard, and so
// are right and errors. An error ends the loop.
func (c *Client) Subscriptions(ctx context.Context, addr string, f SubscriptionFilter) iter.Seq2[SubscriptionView, error] {
	return func(yield func(SubscriptionView, error) bool) {
		m := &wire.SubscriptionsList{Filter: wire.Some(c.filter(f)), Limit: 1000}
		for {
			m.RequestID = c.requestID()
			a, err := inspect[*wire.SubscriptionsListInfo](ctx, c, addr, m)
			if err != nil {
				yield(SubscriptionView{}, err)
				return
			}
			for i := range a.Subscriptions {
				if !yield(subscriptionView(&a.Subscriptions[i]), nil) {
					return
				}
			}
			if !a.NextCursor.Set {
				return
			}
			if len(a.Subscriptions) == 0 {
				yield(SubscriptionView{}, errors.Join(ErrProtocol, errors.New("an empty page that is not the last")))
				return
			}
			m.Cursor = a.NextCursor
		}
	}
}

func (c *Client) filter(f SubscriptionFilter) wire.SubscriptionFilter {
	var out wire.SubscriptionFilter
	setDefault(&f.Tenant, c.cfg.Tenant)
	if !f.AllTenants {
		out.TenantID = wire.Some(f.Tenant)
	}
	for _, field := range []struct {
		value string
		to    *wire.Opt[string]
	}{{f.Namespace, &out.Namespace}, {f.Stream, &out.Stream}, {f.Principal, &out.Principal}} {
		if field.value != "" {
			*field.to = wire.Some(field.value)
		}
	}
	if f.Shard != nil {
		out.Shard = wire.Some(*f.Shard)
	}
	if f.Dropping {
		out.Dropping = wire.Some(true)
	}
	return out
}

func subscriptionView(v *wire.SubscriptionView) SubscriptionView {
	return SubscriptionView{
		Tenant: v.TenantID, Stream: Stream{Namespace: v.Namespace, Name: v.Stream}, Shard: v.Shard, SubscriberID: v.SubscriberID,
		SubscriptionID: v.SubscriptionID, Peer: v.Peer, Principal: v.Principal, Policy: v.Policy, Depth: offsetOf(v.Depth),
		Capacity: offsetOf(v.Capacity), Dropped: offsetOf(v.Dropped), Position: optionalOffset(v.Position), Tail: offsetOf(v.Tail),
		Age: millis(v.AgeMillis),
	}
}
