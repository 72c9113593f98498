package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"
)

// clusterStatus is the cluster's health in one object.
type clusterStatus struct {
	Healthy      bool   `json:"healthy"`
	ControlPlane string `json:"control_plane"` // ready, or why it is not
	Nodes        struct {
		Total    int      `json:"total"`
		Live     int      `json:"live"`
		Draining int      `json:"draining"`
		Down     []string `json:"down"`
	} `json:"nodes"`
	Shards struct {
		Total           int              `json:"total"`
		Leaderless      int              `json:"leaderless"` // nobody leads them, or a node that is not live
		UnderReplicated int              `json:"under_replicated"`
		Unplaceable     int              `json:"unplaceable"`
		Examples        []replicationRow `json:"examples"` // the first that lack something
	} `json:"shards"`
	Moves  int  `json:"moves"`
	Paused bool `json:"placement_paused"`
}

// statusExamples is how many shards that lack something are shown.
const statusExamples = 10

func (a *app) clusterCommand() *cobra.Command {
	status := &cobra.Command{
		Use: "status", Short: "Show the health of the cluster in one screen", Args: noArgs, Example: "  felixctl cluster status -o json",
		Long: `Show whether the control plane is ready, which nodes are up, how many shards have no leader, too few copies or no place, and
whether shards move. The command succeeds whenever it could look: whether all is well is the field "healthy", and the first line.`,
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			s, err := c.status(ctx)
			if err != nil {
				return err
			}
			return a.printStatus(s)
		}),
	}
	return family("cluster", "Look at the cluster as a whole", nil, status)
}

func (c *control) status(ctx context.Context) (*clusterStatus, error) {
	s := &clusterStatus{ControlPlane: "ready"}
	s.Nodes.Down, s.Shards.Examples = []string{}, []replicationRow{}
	err := c.do(ctx, http.MethodGet, "/v1/system/ready", nil, nil)
	var no *apiRefusal
	if errors.As(err, &no) && no.Status == http.StatusServiceUnavailable {
		s.ControlPlane = "not ready: " + no.Message
	} else if err != nil {
		return nil, err
	}
	live, err := c.nodeStatus(ctx, s)
	if err != nil {
		return nil, about("nodes", err)
	}
	if s.Shards.Total, err = countPages(ctx, c, shardsPath(c)); err != nil {
		return nil, about("shards", err)
	}
	for row, err := range replicationPages(ctx, c, true) {
		if err != nil {
			return nil, about("shards", err)
		}
		s.Shards.UnderReplicated++
		if !live[row.Leader] {
			s.Shards.Leaderless++
		}
		if len(s.Shards.Examples) < statusExamples {
			s.Shards.Examples = append(s.Shards.Examples, row)
		}
	}
	for row, err := range pages[plannedRow](ctx, c, path("v1", "placement", "plan"), nil) {
		if err != nil {
			return nil, about("placement", err)
		}
		if row.Action == actionUnplaceable {
			s.Shards.Unplaceable++
		}
	}
	moves, err := c.moves(ctx)
	if err != nil {
		return nil, about("moves", err)
	}
	s.Moves, s.Paused = len(moves.Items), moves.Paused
	sh := &s.Shards
	s.Healthy = s.ControlPlane == "ready" && len(s.Nodes.Down) == 0 && sh.Leaderless+sh.UnderReplicated+sh.Unplaceable == 0
	return s, nil
}

// nodeStatus counts the nodes, and tells which of them are up.
func (c *control) nodeStatus(ctx context.Context, s *clusterStatus) (live map[string]bool, err error) {
	live = map[string]bool{}
	for n, err := range pages[placedNode](ctx, c, nodesPath(c), nil) {
		if err != nil {
			return nil, err
		}
		s.Nodes.Total++
		switch n.Node.Status.Lifecycle {
		case lifecycleLive:
			s.Nodes.Live++
			live[n.Node.NodeID] = true
		case "draining":
			s.Nodes.Draining++
			live[n.Node.NodeID] = true
		default:
			s.Nodes.Down = append(s.Nodes.Down, n.Node.NodeID)
		}
	}
	return live, nil
}

func (a *app) printStatus(s *clusterStatus) error {
	if a.json() {
		return a.emit(s, nil, nil)
	}
	state := "healthy"
	if !s.Healthy {
		state = "NOT healthy"
	}
	nodes := fmt.Sprintf("%d of %d live", s.Nodes.Live, s.Nodes.Total)
	if s.Nodes.Draining > 0 {
		nodes += fmt.Sprintf(", %d draining", s.Nodes.Draining)
	}
	if len(s.Nodes.Down) > 0 {
		nodes += ", down: " + join(s.Nodes.Down)
	}
	moves := strconv.Itoa(s.Moves)
	if s.Paused {
		moves += " (placement is paused)"
	}
	err := a.facts([][]string{
		{"cluster", state},
		{"control plane", s.ControlPlane},
		{"nodes", nodes},
		{"shards", strconv.Itoa(s.Shards.Total)},
		{"without leader", strconv.Itoa(s.Shards.Leaderless)},
		{"under-replicated", strconv.Itoa(s.Shards.UnderReplicated)},
		{"unplaceable", strconv.Itoa(s.Shards.Unplaceable)},
		{"moves", moves},
	})
	if err != nil || len(s.Shards.Examples) == 0 {
		return err
	}
	if err := a.blank(true); err != nil {
		return err
	}
	rows := make([][]string, len(s.Shards.Examples))
	for i, r := range s.Shards.Examples {
		rows[i] = r.cells(orWord(r.Leader), strconv.Itoa(r.Current)+" of "+strconv.Itoa(r.Desired), orWord(join(r.Unavailable)))
	}
	return a.table(shardHeader("LEADER", "COPIES", "UNAVAILABLE"), rows)
}
