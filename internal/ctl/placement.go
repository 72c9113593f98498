package ctl

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// shardName names a shard in views of placement.
type shardName struct {
	TenantID  string `json:"tenant_id"`
	Namespace string `json:"namespace"`
	Stream    string `json:"stream"` // the name of a cache too
	Shard     int    `json:"shard"`
	Kind      string `json:"kind"`
}

func (s *shardName) cells(more ...string) []string {
	return append([]string{s.TenantID, s.Namespace, s.Kind, s.Stream, strconv.Itoa(s.Shard)}, more...)
}

// shardHeader is the header of cells.
func shardHeader(more ...string) []string {
	return append([]string{"TENANT", "NAMESPACE", "KIND", "NAME", "SHARD"}, more...)
}

// plannedRow is a shard that placement would touch, or cannot.
type plannedRow struct {
	shardName
	Action string `json:"action"`
	Reason string `json:"reason"`
}

const actionUnplaceable = "unplaceable"

// replicationRow is how many copies a shard has and should have.
type replicationRow struct {
	shardName
	Leader          string   `json:"leader"`
	Desired         int      `json:"desired_replicas"`
	Current         int      `json:"current_replicas"`
	UnderReplicated bool     `json:"under_replicated"`
	Unavailable     []string `json:"unavailable"`
	Halted          []string `json:"halted"`
}

// moveRow is a shard on its way to another node.
type moveRow struct {
	shardName
	Leader      string `json:"leader"`
	Destination string `json:"destination"`
	Step        string `json:"step"`
	Generation  int64  `json:"generation"`
	Lag         *int64 `json:"lag_records,omitempty"`
}

// movesView is the moves under way, and whether placement starts new ones.
type movesView struct {
	Paused bool      `json:"paused"`
	Items  []moveRow `json:"items"`
}

func (a *app) placementCommand() *cobra.Command {
	return family("placement", "See what placement does with shards, pause and resume it", nil,
		a.placementPlan(), a.placementReplication(), a.placementMoves(),
		a.placementSwitch("pause", "Start no more moves of shards; those under way go on", true),
		a.placementSwitch("resume", "Let placement move shards again", false))
}

func (a *app) placementPlan() *cobra.Command {
	return &cobra.Command{
		Use: "plan", Short: "List the shards that placement would touch next, or cannot place", Args: noArgs, Example: "  felixctl placement plan",
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			l := a.listing(shardHeader("ACTION", "REASON")...)
			for p, err := range pages[plannedRow](ctx, c, path("v1", "placement", "plan"), nil) {
				if err != nil {
					return err
				}
				if err := l.add(p, p.cells(p.Action, p.Reason)...); err != nil {
					return err
				}
			}
			return l.end()
		}),
	}
}

func replicationPages(ctx context.Context, c *control, onlyUnder bool) func(func(replicationRow, error) bool) {
	query := url.Values{}
	if onlyUnder {
		query.Set("under_replicated", "true")
	}
	return pages[replicationRow](ctx, c, path("v1", "placement", "replication"), query)
}

func (a *app) placementReplication() *cobra.Command {
	var under bool
	replication := &cobra.Command{
		Use: "replication", Short: "List how many copies each shard has", Args: noArgs, Example: "  felixctl placement replication --under-replicated",
	}
	replication.Flags().BoolVar(&under, "under-replicated", false, "only shards that have fewer copies than they should")
	replication.RunE = a.withControl(func(ctx context.Context, c *control, _ []string) error {
		l := a.listing(shardHeader("LEADER", "COPIES", "UNAVAILABLE", "HALTED")...)
		for r, err := range replicationPages(ctx, c, under) {
			if err != nil {
				return err
			}
			copies := strconv.Itoa(r.Current) + " of " + strconv.Itoa(r.Desired)
			if err := l.add(r, r.cells(orWord(r.Leader), copies, orWord(join(r.Unavailable)), orWord(join(r.Halted)))...); err != nil {
				return err
			}
		}
		return l.end()
	})
	return replication
}

func (c *control) moves(ctx context.Context) (v movesView, err error) {
	v.Items = []moveRow{}
	return v, c.do(ctx, http.MethodGet, path("v1", "shard-moves"), nil, &v)
}

func (a *app) placementMoves() *cobra.Command {
	return &cobra.Command{
		Use: "moves", Short: "List the shards that move to another node, and whether placement is paused", Args: noArgs,
		Example: "  felixctl placement moves",
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			v, err := c.moves(ctx)
			if err != nil {
				return err
			}
			rows := make([][]string, len(v.Items))
			for i, m := range v.Items {
				rows[i] = m.cells(m.Leader, m.Destination, m.Step, orUnknown(m.Lag))
			}
			if v.Paused {
				a.say("placement is paused: felixctl placement resume")
			}
			return a.emit(v, shardHeader("FROM", "TO", "STEP", "LAG"), rows)
		}),
	}
}

func (a *app) placementSwitch(name, short string, paused bool) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: noArgs, Example: "  felixctl placement " + name,
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			var now struct {
				Paused bool `json:"paused"`
			}
			if err := c.do(ctx, http.MethodPost, path("v1", "placement", name), nil, &now); err != nil {
				return about(name+" placement", err)
			}
			if now.Paused != paused {
				return errors.New("the server took the call and placement is as before")
			}
			text := "placement goes on"
			if now.Paused {
				text = "placement is paused"
			}
			return a.done(now, "%s", text)
		}),
	}
}
