package client

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// route is what is known of a stream. Immutable.
type route struct {
	shards  uint32
	mapping wire.Mapping
	owners  []string // address by shard; empty where it is not known
	at      time.Time
}

// shardOf is the shard of a key.
func (r *route) shardOf(key []byte) uint32 { return wire.ShardOf(key, r.shards, r.mapping) }

// maxShards bounds the shards of a stream that a server may speak of.
const maxShards = 1 << 20

// Shards is how many shards a stream has.
//
// Errors: ErrNotFound if the stream is not known 5 s after it was first asked for.
func (c *Client) Shards(ctx context.Context, s Stream) (int, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	r, err := c.resolve(ctx, s.normal())
	if err != nil {
		return 0, err
	}
	return int(r.shards), nil
}

// ShardOf is the shard that the native protocol maps key to, nil for no key. An empty key is a key.
func (c *Client) ShardOf(ctx context.Context, s Stream, key []byte) (uint32, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	r, err := c.route(ctx, s.normal())
	if err != nil {
		return 0, err
	}
	return r.shardOf(key), nil
}

// Owner is who leads a shard.
type Owner struct {
	Shard uint32
	// NodeID is empty when nobody leads it.
	NodeID string
	// Addr is the owner's address for clients, empty if it has told none.
	Addr string
	// Generation is the shard's leader epoch.
	Generation uint64
	// Unavailable is why nobody can serve the shard, empty if somebody can.
	Unavailable string
}

// Owners lists who leads each shard of a stream, in shard order.
//
// Errors: ErrNotFound, as Shards.
func (c *Client) Owners(ctx context.Context, s Stream) ([]Owner, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	s = s.normal()
	var out []Owner
	err := c.retry(ctx, true, func() (err error) {
		out, err = c.owners(ctx, s)
		return err
	})
	return out, err
}

func (c *Client) owners(ctx context.Context, s Stream) ([]Owner, error) {
	cn, err := c.enter(ctx, "", requests, 0)
	if err != nil {
		return nil, err
	}
	view, err := ask[*wire.ShardOwnersView](ctx, cn, &wire.ShardOwners{
		TenantID: c.cfg.Tenant, Namespace: s.Namespace, Name: s.Name, Kind: wire.KindStream, RequestID: c.requestID(),
	})
	if err != nil {
		return nil, err
	}
	if len(view.Owners) == 0 {
		return nil, errNoStream(s)
	}
	out := make([]Owner, len(view.Owners))
	for i, o := range view.Owners {
		out[i] = Owner{Shard: o.Shard, NodeID: o.NodeID, Addr: o.Addr, Generation: o.Generation, Unavailable: o.Unavailable}
	}
	return out, nil
}

func errNoStream(s Stream) error {
	return &Error{Code: CodeNotFound, Class: ClassRetryAfter, Message: "there is no stream " + s.String()}
}

// route is what is remembered of a stream, or else what the cluster says.
func (c *Client) route(ctx context.Context, s Stream) (*route, error) {
	c.mu.Lock()
	r := c.routes[s]
	c.mu.Unlock()
	if r != nil {
		return r, nil
	}
	return c.resolve(ctx, s)
}

// resolve asks the cluster for a stream's shards and owners, and remembers them.
func (c *Client) resolve(ctx context.Context, s Stream) (*route, error) {
	var r *route
	err := c.retry(ctx, true, func() (err error) {
		r, err = c.look(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if len(c.routes) >= maxRoutes {
		clear(c.routes)
	}
	c.routes[s] = r
	c.mu.Unlock()
	return r, nil
}

func (c *Client) look(ctx context.Context, s Stream) (*route, error) {
	cn, err := c.enter(ctx, "", requests, 0)
	if err != nil {
		return nil, err
	}
	view, err := ask[*wire.StreamShardsView](ctx, cn, &wire.StreamShards{StreamScope: c.scope(s), RequestID: c.requestID()})
	switch {
	case err != nil:
		return nil, err
	case view.Shards == 0:
		return nil, errNoStream(s)
	case view.Shards > maxShards:
		return nil, ErrProtocol
	}
	r := &route{shards: view.Shards, mapping: view.Routing, owners: make([]string, view.Shards), at: time.Now()}
	owners, err := c.owners(ctx, s)
	if errors.Is(err, ErrUnsupported) {
		return r, nil
	}
	for _, o := range owners {
		if _, bad := netip.ParseAddrPort(o.Addr); bad == nil && o.Shard < r.shards {
			r.owners[o.Shard] = o.Addr
		}
	}
	return r, err
}

// forget has a stream looked up anew the next time: what is remembered has turned out to be wrong.
func (c *Client) forget(s Stream) {
	c.mu.Lock()
	delete(c.routes, s)
	c.mu.Unlock()
}

func (c *Client) scope(s Stream) wire.StreamScope {
	return wire.StreamScope{TenantID: c.cfg.Tenant, Namespace: s.Namespace, Stream: s.Name}
}

// maxHops is how many redirects one request follows.
const maxHops = 3

// request sends a request to the leader of a shard and follows redirects. make makes the request anew for each attempt; again says that
// applying it twice does no harm.
func (c *Client) request(ctx context.Context, s Stream, shard uint32, again bool, m wire.Message) (wire.Message, error) {
	var answer wire.Message
	err := c.retry(ctx, again, func() (err error) {
		answer, err = c.redirected(ctx, s, shard, again, m)
		if err != nil {
			c.forget(s)
		}
		return err
	})
	return answer, err
}

// redirected makes one attempt, which may go over several servers, none of them twice.
func (c *Client) redirected(ctx context.Context, s Stream, shard uint32, again bool, m wire.Message) (wire.Message, error) {
	r, err := c.route(ctx, s)
	if err != nil {
		return nil, err
	}
	addr := ""
	if shard < r.shards {
		addr = r.owners[shard]
	}
	seen := map[string]bool{}
	for range maxHops + 1 {
		cn, err := c.enter(ctx, addr, requests, 0)
		if err != nil {
			return nil, err
		}
		answer, err := cn.call(ctx, m)
		if err != nil {
			return nil, uncertain(err, again)
		}
		elsewhere, ok := answer.(*wire.NotLeader)
		if !ok {
			return answer, nil
		}
		if addr, err = c.hop(seen, elsewhere.NodeID, elsewhere.Addr); err != nil {
			return nil, err
		}
	}
	return nil, &Error{Code: CodeNotLeader, Class: ClassRetry, Message: "too many redirects"}
}

// uncertain marks the failure of a write that had perhaps arrived.
func uncertain(err error, again bool) error {
	var refused *Error
	if again || errors.As(err, &refused) {
		return err
	}
	return &outcomeUnknown{err}
}

// hop is the address that a redirect leads to.
func (c *Client) hop(seen map[string]bool, node, addr string) (string, error) {
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return "", &Error{Code: CodeNotLeader, Class: ClassRetry, Message: "the shard is led by " + node + ", whose address is not known"}
	}
	if seen[node] {
		return "", &Error{Code: CodeNotLeader, Class: ClassRetry, Message: "redirected in a circle"}
	}
	seen[node] = true
	return addr, nil
}

// timeMicros is a time as the protocol has it; before 1970 is 0.
func timeMicros(t time.Time) uint64 { return uint64(max(t.UnixMicro(), 0)) }
