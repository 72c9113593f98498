package ctl

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// placedNode is a node of the control API and what placement thinks of it.
type placedNode struct {
	Node struct {
		NodeID string `json:"node_id"`
		Spec   struct {
			AdvertiseAddr string            `json:"advertise_addr,omitempty"`
			Region        string            `json:"region"`
			Zone          string            `json:"zone,omitempty"`
			ClientAddr    string            `json:"client_addr,omitempty"`
			KafkaAddr     string            `json:"kafka_addr,omitempty"`
			Labels        map[string]string `json:"labels"`
		} `json:"spec"`
		Status struct {
			Lifecycle   string   `json:"lifecycle"`
			Incarnation uint64   `json:"incarnation"`
			Features    []string `json:"features"`
		} `json:"status"`
	} `json:"node"`
	Placement struct {
		Eligible bool     `json:"eligible"`
		Routable bool     `json:"routable"`
		Reasons  []string `json:"reasons"`
	} `json:"placement"`
}

const lifecycleLive = "live"

func nodesPath(*control) string { return path("v1", "nodes") }

func (a *app) nodeCommand() *cobra.Command {
	return family("node", "List and show nodes", []string{"nodes"}, a.nodeList(), a.nodeInfo())
}

// completeNodes completes node ids.
func (a *app) completeNodes() cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 || a.prepare(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.control()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.close()
		var out []string
		for n, err := range pages[placedNode](cmd.Context(), c, nodesPath(c), nil) {
			if err == nil && strings.HasPrefix(n.Node.NodeID, prefix) {
				out = append(out, n.Node.NodeID)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) nodeList() *cobra.Command {
	var lifecycle, region string
	var labels []string
	list := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List nodes", Args: noArgs, Example: "  felixctl node ls --lifecycle live",
	}
	list.Flags().StringVar(&lifecycle, "lifecycle", "", "only nodes that are live, draining, down or left")
	list.Flags().StringVar(&region, "region", "", "only nodes of this region")
	list.Flags().StringArrayVar(&labels, "label", nil, "only nodes with this label `key=value`; may be repeated")
	lifecycles := []string{lifecycleLive, "draining", "down", "left"}
	must(list.RegisterFlagCompletionFunc("lifecycle", cobra.FixedCompletions(lifecycles, cobra.ShellCompDirectiveNoFileComp)))
	list.RunE = a.withControl(func(ctx context.Context, c *control, _ []string) error {
		query := url.Values{}
		for k, v := range map[string]string{"lifecycle": lifecycle, "region": region} {
			if v != "" {
				query.Set(k, v)
			}
		}
		if len(labels) > 0 {
			query["label"] = labels
		}
		l := a.listing("NODE", "LIFECYCLE", "REGION", "ZONE", "NATIVE", "KAFKA", "ELIGIBLE", "REASONS")
		for n, err := range pages[placedNode](ctx, c, nodesPath(c), query) {
			if err != nil {
				return err
			}
			spec := &n.Node.Spec
			err := l.add(n, n.Node.NodeID, n.Node.Status.Lifecycle, orWord(spec.Region), orWord(spec.Zone), orWord(spec.ClientAddr), orWord(spec.KafkaAddr),
				yesNo(n.Placement.Eligible), orWord(strings.Join(n.Placement.Reasons, ", ")))
			if err != nil {
				return err
			}
		}
		return l.end()
	})
	return list
}

func (a *app) nodeInfo() *cobra.Command {
	return &cobra.Command{
		Use: "info NODE", Aliases: []string{"show"}, Short: "Show a node", Args: exactly(1), ValidArgsFunction: a.completeNodes(),
		Example: "  felixctl node info node-1",
		RunE: a.withControl(func(ctx context.Context, c *control, args []string) error {
			var n placedNode
			if err := c.do(ctx, http.MethodGet, path("v1", "nodes", args[0]), nil, &n); err != nil {
				return lookedUp("node", args[0], err)
			}
			return a.show(n, n.facts())
		}),
	}
}

func (n *placedNode) facts() [][]string {
	spec := &n.Node.Spec
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(spec.Labels)) {
		labels = append(labels, k+"="+spec.Labels[k])
	}
	return [][]string{
		{"node", n.Node.NodeID},
		{"lifecycle", n.Node.Status.Lifecycle},
		{"incarnation", join([]uint64{n.Node.Status.Incarnation})},
		{"region", orWord(spec.Region)},
		{"zone", orWord(spec.Zone)},
		{"native", orWord(spec.ClientAddr)},
		{"kafka", orWord(spec.KafkaAddr)},
		{"labels", orWord(strings.Join(labels, ", "))},
		{"features", orWord(strings.Join(n.Node.Status.Features, ", "))},
		{"eligible", yesNo(n.Placement.Eligible)},
		{"routable", yesNo(n.Placement.Routable)},
		{"reasons", orWord(strings.Join(n.Placement.Reasons, ", "))},
	}
}
