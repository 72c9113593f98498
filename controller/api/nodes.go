package api

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

type nodeSpec struct {
	Region     string            `json:"region"`
	Zone       string            `json:"zone,omitempty"`
	ClientAddr string            `json:"client_addr,omitempty"`
	KafkaAddr  string            `json:"kafka_addr,omitempty"`
	Labels     map[string]string `json:"labels"`
}

type nodeStatus struct {
	Lifecycle   string   `json:"lifecycle" enum:"live,draining,down,left"`
	Incarnation uint64   `json:"incarnation"`
	Features    []string `json:"features"`
}

type nodeBody struct {
	NodeID string     `json:"node_id"`
	Spec   nodeSpec   `json:"spec"`
	Status nodeStatus `json:"status"`
}

type placementBody struct {
	Eligible bool     `json:"eligible"`
	Routable bool     `json:"routable"`
	Reasons  []string `json:"reasons"`
}

type placedNode struct {
	Node      nodeBody      `json:"node"`
	Placement placementBody `json:"placement"`
}

// The lifecycles of a node so far.
const (
	lifecycleLive = "live"
	lifecycleDown = "down"
)

var lifecycles = []string{lifecycleLive, "draining", lifecycleDown, "left"}

func (c *call) nodeOf(n cluster.Node) placedNode {
	b := placedNode{
		Node: nodeBody{
			NodeID: string(n.ID),
			Spec:   nodeSpec{Region: c.server.opts.Region, Zone: n.Rack, ClientAddr: c.server.opts.ClientAddr(n.ID), Labels: map[string]string{}},
			Status: nodeStatus{Lifecycle: lifecycleDown, Incarnation: n.Incarnation, Features: []string{}},
		},
		Placement: placementBody{Eligible: n.Live, Routable: n.Live, Reasons: []string{}},
	}
	if n.KafkaHost != "" {
		b.Node.Spec.KafkaAddr = net.JoinHostPort(n.KafkaHost, strconv.Itoa(int(n.KafkaPort)))
	}
	if n.Live {
		b.Node.Status.Lifecycle = lifecycleLive
	} else {
		b.Placement.Reasons = append(b.Placement.Reasons, "not live")
	}
	return b
}

func listNodes(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeView); err != nil {
		return answer{}, err
	}
	p, err := c.pageOf("nodes", 1)
	if err != nil {
		return answer{}, err
	}
	lifecycle, err := c.query("lifecycle")
	if err != nil {
		return answer{}, err
	}
	if lifecycle != "" && !slices.Contains(lifecycles, lifecycle) {
		return answer{}, invalid("lifecycle must be one of %s", strings.Join(lifecycles, ", "))
	}
	region, err := c.query("region")
	if err != nil {
		return answer{}, err
	}
	labels := c.request.URL.Query()["label"]
	for _, l := range labels {
		if k, _, ok := strings.Cut(l, "="); !ok || k == "" {
			return answer{}, invalid("label must be KEY=VALUE")
		}
	}
	nodes := slices.Clone(c.image.Nodes())
	slices.SortFunc(nodes, func(a, b cluster.Node) int { return strings.Compare(string(a.ID), string(b.ID)) })
	found := filter(behind(nodes, p, func(n cluster.Node) string { return string(n.ID) }), func(n cluster.Node) bool {
		b := c.nodeOf(n).Node
		return (lifecycle == "" || b.Status.Lifecycle == lifecycle) && (region == "" || b.Spec.Region == region) &&
			!slices.ContainsFunc(labels, func(l string) bool { k, v, _ := strings.Cut(l, "="); return b.Spec.Labels[k] != v })
	})
	return ok(fill(p, found, func(n cluster.Node) []string { return []string{string(n.ID)} }, func(n cluster.Node) any { return c.nodeOf(n) })), nil
}

func getNode(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeView); err != nil {
		return answer{}, err
	}
	n, there := c.image.NodeByID(ids.NodeID(c.params["node"]))
	if !there {
		return answer{}, notFound("node %s does not exist", clip(c.params["node"]))
	}
	return ok(c.nodeOf(n)), nil
}
