package ctl

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
)

// ownerRow is a shard of a stream and who leads it. Replicas and state are those of the control API.
type ownerRow struct {
	Shard       int      `json:"shard"`
	Leader      string   `json:"leader"`
	Addr        string   `json:"addr"`
	Generation  int64    `json:"generation"`
	Unavailable string   `json:"unavailable,omitempty"` // why nobody serves it
	Replicas    []string `json:"replicas,omitzero"`
	State       string   `json:"state,omitempty"`
}

type brokerRow struct {
	NodeID string `json:"node_id"`
	Addr   string `json:"addr"`
}

// topologyView is topology's answer.
type topologyView struct {
	Stream    string      `json:"stream"`
	Namespace string      `json:"namespace"`
	Shards    []ownerRow  `json:"shards"`
	Brokers   []brokerRow `json:"brokers"`
}

func (a *app) topologyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "topology STREAM", Short: "Show which broker leads each shard of a stream, and the brokers", Args: exactly(1),
		ValidArgsFunction: a.completeNative,
		Long: `Show who leads each shard of a stream, as a broker tells it, and the brokers that clients may go to. Replicas and states are shown too
when the settings hold a token for the control API that may see them.`,
		Example: "  felixctl topology orders",
		RunE: a.withNative(func(ctx context.Context, n *native, args []string) error {
			view, err := n.topology(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printTopology(view, a.addAssignments(ctx, n, view))
		}),
	}
}

func (n *native) topology(ctx context.Context, name string) (*topologyView, error) {
	s := n.app.stream(name)
	if _, err := n.shardsOf(ctx, s); err != nil {
		return nil, err
	}
	owners, err := n.Owners(ctx, s)
	if err != nil {
		return nil, n.failed(ctx, "stream "+s.String(), err)
	}
	view := &topologyView{Stream: name, Namespace: n.app.namespace, Brokers: []brokerRow{}}
	for _, o := range owners {
		view.Shards = append(view.Shards, ownerRow{
			Shard: int(o.Shard), Leader: o.NodeID, Addr: o.Addr, Generation: int64(o.Generation), Unavailable: o.Unavailable,
		})
	}
	servers, err := n.Servers(ctx)
	if err != nil {
		return nil, n.failed(ctx, "brokers", err)
	}
	for _, s := range servers {
		view.Brokers = append(view.Brokers, brokerRow(s))
	}
	return view, nil
}

// addAssignments adds what the control API knows, if the settings lead there; it says whether it did.
func (a *app) addAssignments(ctx context.Context, n *native, view *topologyView) bool {
	if a.controlToken == "" && a.controlTokenFile == "" {
		return false
	}
	c, err := a.control()
	if err != nil {
		a.warn("without replicas and states: %v", err)
		return false
	}
	defer c.close()
	shards, err := c.shardsOf(ctx, n.tenant, view.Namespace, view.Stream)
	if err != nil {
		a.warn("without replicas and states: %v", err)
		return false
	}
	for _, s := range shards {
		if s.Shard < len(view.Shards) {
			view.Shards[s.Shard].Replicas, view.Shards[s.Shard].State = s.Replicas, s.State
		}
	}
	return true
}

func (a *app) printTopology(view *topologyView, assigned bool) error {
	if a.json() {
		return a.emit(view, nil, nil)
	}
	header := []string{"SHARD", "LEADER", "ADDR", "GENERATION", "SERVED"}
	if assigned {
		header = append(header, "REPLICAS", "STATE")
	}
	rows := make([][]string, len(view.Shards))
	for i, s := range view.Shards {
		served := "yes"
		if s.Unavailable != "" {
			served = "no: " + s.Unavailable
		}
		rows[i] = []string{strconv.Itoa(s.Shard), orWord(s.Leader), orWord(s.Addr), strconv.FormatInt(s.Generation, 10), served}
		if assigned {
			rows[i] = append(rows[i], join(s.Replicas), orWord(s.State))
		}
	}
	if err := a.table(header, rows); err != nil {
		return err
	}
	if err := a.blank(true); err != nil {
		return err
	}
	rows = make([][]string, len(view.Brokers))
	for i, b := range view.Brokers {
		rows[i] = []string{b.NodeID, b.Addr}
	}
	return a.table([]string{"BROKER", "ADDR"}, rows)
}
