package ctl

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/client"
)

func (a *app) inspectCommand() *cobra.Command {
	return family("inspect", "Look into brokers: their view of a shard, their subscriptions (takes node.view on the cluster)", nil,
		a.inspectShard(), a.inspectSubs())
}

// eachBroker calls work for each broker that tells an address, or for the one that the settings lead to when none does.
func (n *native) eachBroker(ctx context.Context, work func(addr string) error) error {
	servers, err := n.Servers(ctx)
	if err != nil {
		return n.failed(ctx, "brokers", err)
	}
	if len(servers) == 0 {
		servers = []client.Server{{}}
	}
	for _, s := range servers {
		if err := work(s.Addr); err != nil {
			return err
		}
	}
	return nil
}

// shardView is one broker's view of a shard.
type shardView struct {
	NodeID     string         `json:"node_id"`
	Role       string         `json:"role"`
	Phase      string         `json:"phase"`
	Serving    bool           `json:"serving"`
	Reason     string         `json:"reason,omitempty"` // why it does not serve
	Detail     string         `json:"detail,omitempty"`
	Generation *int64         `json:"generation"`
	Leader     string         `json:"leader"`
	Tail       *int64         `json:"tail"`
	Committed  *int64         `json:"committed"`
	LeaseHeld  bool           `json:"lease_held"`
	LeaseMs    *int64         `json:"lease_remaining_ms"`
	Replicas   []replicaState `json:"replicas"`
}

// replicaState is one replica as the leader sees it.
type replicaState struct {
	NodeID     string `json:"node_id"`
	Role       string `json:"role"`
	NextOffset *int64 `json:"next_offset"`
	Lag        *int64 `json:"lag"`
	State      string `json:"state"`
	Halted     string `json:"halted,omitempty"`
}

// known is a number that a server may not have.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func orUnknown(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func (a *app) inspectShard() *cobra.Command {
	var shard uint32
	inspect := &cobra.Command{
		Use: "shard STREAM", Short: "Show each broker's own view of one shard", Args: exactly(1), ValidArgsFunction: a.completeNative,
		Example: "  felixctl inspect shard orders --shard 0",
	}
	inspect.Flags().Uint32Var(&shard, "shard", 0, "which shard")
	inspect.RunE = a.withNative(func(ctx context.Context, n *native, args []string) error {
		s := a.stream(args[0])
		total, err := n.shardsOf(ctx, s)
		if err != nil {
			return err
		}
		if int64(shard) >= int64(total) {
			return missingErrorf("stream %s has no shard %d: it has %d, from 0", s, shard, total)
		}
		views := []shardView{}
		err = n.eachBroker(ctx, func(addr string) error {
			v, err := n.InspectShard(ctx, addr, s, shard)
			if err != nil {
				return n.failed(ctx, "inspect shard "+s.String(), err)
			}
			views = append(views, viewOf(&v))
			return nil
		})
		if err != nil {
			return err
		}
		if a.json() {
			return a.emit(views, nil, nil)
		}
		for i := range views {
			if err := a.printShardView(&views[i], s, shard, i > 0); err != nil {
				return err
			}
		}
		return nil
	})
	return inspect
}

func viewOf(v *client.ShardView) shardView {
	out := shardView{
		NodeID: v.NodeID, Role: v.Role, Phase: v.Phase, Serving: v.Serving, Reason: v.Reason, Detail: v.Detail, Generation: known(v.Generation),
		Tail: known(v.Tail), Committed: known(v.Committed), Replicas: []replicaState{},
	}
	if v.Assignment != nil {
		out.Leader = v.Assignment.Leader
	}
	if v.Lease != nil {
		ms := v.Lease.Remaining.Milliseconds()
		out.LeaseHeld, out.LeaseMs = v.Lease.Held, &ms
	}
	for _, r := range v.Replicas {
		out.Replicas = append(out.Replicas, replicaState{r.NodeID, r.Role, known(r.NextOffset), known(r.Lag), r.State, r.Halted})
	}
	return out
}

func (a *app) printShardView(v *shardView, s client.Stream, shard uint32, gap bool) error {
	serving := "yes"
	if !v.Serving {
		serving = "no: " + firstOf(v.Detail, v.Reason)
	}
	lease := "-"
	if v.LeaseMs != nil {
		lease = "lost"
		if v.LeaseHeld {
			lease = "held for another " + (time.Duration(*v.LeaseMs) * time.Millisecond).String()
		}
	}
	if gap {
		if err := a.blank(true); err != nil {
			return err
		}
	}
	err := a.facts([][]string{
		{"broker", v.NodeID},
		{"shard", fmt.Sprintf("%s/%d", s, shard)},
		{"role", v.Role},
		{"phase", v.Phase},
		{"serving", serving},
		{"generation", orUnknown(v.Generation)},
		{"leader", orWord(v.Leader)},
		{"lease", lease},
		{"tail", orUnknown(v.Tail)},
		{"committed", orUnknown(v.Committed)},
	})
	if err != nil || len(v.Replicas) == 0 {
		return err
	}
	rows := make([][]string, len(v.Replicas))
	for i, r := range v.Replicas {
		state := r.State
		if r.Halted != "" {
			state += ", halted: " + r.Halted
		}
		rows[i] = []string{r.NodeID, r.Role, orUnknown(r.NextOffset), orUnknown(r.Lag), state}
	}
	if err := a.blank(true); err != nil {
		return err
	}
	return a.table([]string{"REPLICA", "ROLE", "NEXT OFFSET", "LAG", "STATE"}, rows)
}

// brokerSubs are the subscriptions of one broker.
type brokerSubs struct {
	NodeID        string   `json:"node_id"`
	Subscriptions []subRow `json:"subscriptions"`
}

// subRow is one subscription as its broker sees it.
type subRow struct {
	Tenant       string `json:"tenant_id"`
	Namespace    string `json:"namespace"`
	Stream       string `json:"stream"`
	Shard        uint32 `json:"shard"`
	Subscriber   uint64 `json:"subscriber_id"`
	Subscription uint64 `json:"subscription_id"`
	Connection   string `json:"connection"`
	Principal    string `json:"principal"`
	Policy       string `json:"policy"`
	Queued       int64  `json:"queued"`
	Capacity     int64  `json:"capacity"`
	Dropped      int64  `json:"dropped"`
	Position     *int64 `json:"position"`
	Tail         int64  `json:"tail"`
	Behind       *int64 `json:"behind"`
	AgeMs        int64  `json:"age_ms"`
}

func (a *app) inspectSubs() *cobra.Command {
	var shard int64
	var dropping bool
	inspect := &cobra.Command{
		Use: "subs [STREAM]", Short: "List the subscriptions of each broker", Args: optional, ValidArgsFunction: a.completeNative,
		Example: "  felixctl inspect subs orders --dropping",
		Long:    "List subscriptions of the tenant: of one stream in the namespace, or of all streams.",
	}
	inspect.Flags().Int64Var(&shard, "shard", -1, "only subscriptions of this shard; -1 is all")
	inspect.Flags().BoolVar(&dropping, "dropping", false, "only those that lost records to a full queue")
	inspect.RunE = a.withNative(func(ctx context.Context, n *native, args []string) error {
		filter := client.SubscriptionFilter{Dropping: dropping}
		if len(args) == 1 {
			filter.Namespace, filter.Stream = a.namespace, args[0]
		}
		if shard >= 0 {
			only := uint32(min(shard, 1<<31))
			filter.Shard = &only
		}
		brokers, rows := []brokerSubs{}, [][]string{}
		names, err := n.brokerNames(ctx)
		if err != nil {
			return err
		}
		err = n.eachBroker(ctx, func(addr string) error {
			b := brokerSubs{NodeID: names[addr], Subscriptions: []subRow{}}
			for v, err := range n.Subscriptions(ctx, addr, filter) {
				if err != nil {
					return n.failed(ctx, "inspect subscriptions", err)
				}
				r := subRowOf(&v)
				b.Subscriptions = append(b.Subscriptions, r)
				rows = append(rows, r.cells(b.NodeID))
			}
			brokers = append(brokers, b)
			return nil
		})
		if err != nil {
			return err
		}
		return a.emit(brokers, []string{
			"NODE", "STREAM/SHARD", "SUB", "CONNECTION", "PRINCIPAL", "POLICY", "QUEUE", "DROPPED", "POSITION", "TAIL", "BEHIND",
		}, rows)
	})
	return inspect
}

// brokerNames are the node ids by address.
func (n *native) brokerNames(ctx context.Context) (map[string]string, error) {
	servers, err := n.Servers(ctx)
	out := map[string]string{"": "-"}
	for _, s := range servers {
		out[s.Addr] = s.NodeID
	}
	return out, n.failed(ctx, "brokers", err)
}

func subRowOf(v *client.SubscriptionView) subRow {
	r := subRow{
		Tenant: v.Tenant, Namespace: v.Stream.Namespace, Stream: v.Stream.Name, Shard: v.Shard, Subscriber: v.SubscriberID,
		Subscription: v.SubscriptionID, Connection: v.Peer, Principal: v.Principal, Policy: v.Policy, Queued: v.Depth, Capacity: v.Capacity,
		Dropped: v.Dropped, Position: known(v.Position), Tail: v.Tail, AgeMs: v.Age.Milliseconds(),
	}
	if r.Position != nil {
		behind := max(r.Tail-*r.Position, 0)
		r.Behind = &behind
	}
	return r
}

func (r *subRow) cells(node string) []string {
	return []string{
		node, fmt.Sprintf("%s/%d", client.Stream{Namespace: r.Namespace, Name: r.Stream}, r.Shard), strconv.FormatUint(r.Subscriber, 10),
		orWord(r.Connection),
		orWord(r.Principal), r.Policy, fmt.Sprintf("%d/%d", r.Queued, r.Capacity), strconv.FormatInt(r.Dropped, 10), orUnknown(r.Position),
		strconv.FormatInt(r.Tail, 10), orUnknown(r.Behind),
	}
}
