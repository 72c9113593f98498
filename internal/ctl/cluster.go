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
		Total           int        `json:"total"`
		Leaderless      int        `json:"leaderless"`
		UnderReplicated int        `json:"under_replicated"` // with a replica on a node that is not live
		Examples        []shardRow `json:"examples"`         // the first that lack something
	} `json:"shards"`
}

// statusExamples is how many shards that lack something are shown.
const statusExamples = 10

func (a *app) clusterCommand() *cobra.Command {
	status := &cobra.Command{
		Use: "status", Short: "Show the health of the cluster in one screen", Args: noArgs, Example: "  felixctl cluster status -o json",
		Long: `Show whether the control plane is ready, which nodes are up, and how many shards have no leader or a replica on a node that is not live.
The command succeeds whenever it could look: whether all is well is the field "healthy", and the first line.`,
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
	s.Nodes.Down, s.Shards.Examples = []string{}, []shardRow{}
	err := c.do(ctx, http.MethodGet, "/v1/system/ready", nil, nil)
	var no *apiRefusal
	if errors.As(err, &no) && no.Status == http.StatusServiceUnavailable {
		s.ControlPlane = "not ready: " + no.Message
	} else if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for n, err := range pages[placedNode](ctx, c, nodesPath(c), nil) {
		if err != nil {
			return nil, about("nodes", err)
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
	for row, err := range pages[shardRow](ctx, c, shardsPath(c), nil) {
		if err != nil {
			return nil, about("shards", err)
		}
		s.Shards.Total++
		lacks := false
		if row.Leader == "" || !live[row.Leader] {
			s.Shards.Leaderless++
			lacks = true
		}
		for _, r := range row.Replicas {
			if !live[r] {
				s.Shards.UnderReplicated++
				lacks = true
				break
			}
		}
		if lacks && len(s.Shards.Examples) < statusExamples {
			s.Shards.Examples = append(s.Shards.Examples, row)
		}
	}
	s.Healthy = s.ControlPlane == "ready" && len(s.Nodes.Down) == 0 && s.Shards.Leaderless == 0 && s.Shards.UnderReplicated == 0
	return s, nil
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
	err := a.facts([][]string{
		{"cluster", state}, {"control plane", s.ControlPlane}, {"nodes", nodes}, {"shards", strconv.Itoa(s.Shards.Total)},
		{"without leader", strconv.Itoa(s.Shards.Leaderless)}, {"under-replicated", strconv.Itoa(s.Shards.UnderReplicated)},
	})
	if err != nil || len(s.Shards.Examples) == 0 {
		return err
	}
	if err := a.blank(true); err != nil {
		return err
	}
	rows := make([][]string, len(s.Shards.Examples))
	for i, r := range s.Shards.Examples {
		rows[i] = []string{r.TenantID, r.Namespace, r.Stream, strconv.Itoa(r.Shard), orWord(r.Leader), join(r.Replicas), r.State}
	}
	return a.table([]string{"TENANT", "NAMESPACE", "NAME", "SHARD", "LEADER", "REPLICAS", "STATE"}, rows)
}
