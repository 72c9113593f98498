package api

import (
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// The codes of what cannot be done to a shard.
const (
	codeUnknownShard       = "unknown_shard"
	codeUnknownNode        = "unknown_node"
	codeDestinationNotLive = "destination_not_live"
	codeAlreadyLeader      = "already_leader"
	codeNotMoving          = "not_moving"
	codeNotStranded        = "not_stranded"
	codeUnknownFeature     = "unknown_feature"
)

type regionsBody struct {
	Items []string `json:"items"`
}

func listRegions(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeView); err != nil {
		return answer{}, err
	}
	b := regionsBody{Items: []string{}}
	for _, n := range c.image.Nodes() {
		if r := c.nodeOf(n).Node.Spec.Region; !slices.Contains(b.Items, r) {
			b.Items = append(b.Items, r)
		}
	}
	slices.Sort(b.Items)
	return ok(b), nil
}

type featuresBody struct {
	Supported    []string `json:"supported" about:"what every serving node speaks"`
	Enabled      []string `json:"enabled" about:"what was finalized"`
	ServingNodes int      `json:"serving_nodes"`
}

// getFeatures: no node of this release speaks any of the features that change how nodes work together.
func getFeatures(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeView); err != nil {
		return answer{}, err
	}
	b := featuresBody{Supported: []string{}, Enabled: []string{}}
	for _, n := range c.image.Nodes() {
		if n.Live {
			b.ServingNodes++
		}
	}
	return ok(b), nil
}

func finalizeFeature(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeManage); err != nil {
		return answer{}, err
	}
	if _, err := c.flag("dry_run"); err != nil {
		return answer{}, err
	}
	return answer{}, refuse(http.StatusNotFound, codeUnknownFeature, "no node knows a feature %s", clip(c.params["feature"]))
}

// flag reads a parameter that is true or false; false when it is not given.
func (c *call) flag(name string) (bool, error) {
	s, err := c.query(name)
	if err != nil || s == "" {
		return false, err
	}
	v, err := strconv.ParseBool(s)
	if err != nil || s != strconv.FormatBool(v) {
		return false, invalid("%s must be true or false", name)
	}
	return v, nil
}

// moveBody is a move of a shard: none is ever under way on one node.
type moveBody struct {
	shardName
	Leader      string `json:"leader"`
	Destination string `json:"destination"`
	Step        string `json:"step"`
	Generation  int64  `json:"generation"`
}

type shardName struct {
	TenantID  string `json:"tenant_id"`
	Namespace string `json:"namespace"`
	Stream    string `json:"stream" about:"the name of the stream or cache"`
	Shard     int    `json:"shard"`
	Kind      string `json:"kind" enum:"stream,cache"`
}

type movesBody struct {
	Paused bool       `json:"paused"`
	Items  []moveBody `json:"items"`
}

func listMoves(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeView); err != nil {
		return answer{}, err
	}
	return ok(movesBody{Paused: c.image.PlacementPaused(), Items: []moveBody{}}), nil
}

type moveRequest struct {
	TenantID    string `json:"tenant_id"`
	Namespace   string `json:"namespace"`
	Stream      string `json:"stream" about:"the name of the stream or cache"`
	Shard       int64  `json:"shard" about:"from 0"`
	Kind        string `json:"kind,omitempty" enum:"stream,cache"`
	Destination string `json:"destination"`
	DryRun      bool   `json:"dry_run,omitempty"`
}

// startMove refuses: what could be wrong with a move is told as it will be, and a move that could be made takes replication between nodes.
func startMove(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeManage); err != nil {
		return answer{}, err
	}
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	r, err := moveOf(b)
	if err != nil {
		return answer{}, err
	}
	p, err := c.shardNamed(r.TenantID, r.Namespace, r.Stream, r.Kind, r.Shard)
	if err != nil {
		return answer{}, err
	}
	n, there := c.image.NodeByID(ids.NodeID(r.Destination))
	switch {
	case !there:
		return answer{}, refuse(http.StatusNotFound, codeUnknownNode, "node %s does not exist", clip(r.Destination))
	case p.Leader == n.Broker:
		return answer{}, refuse(http.StatusConflict, codeAlreadyLeader, "node %s leads the shard already", n.ID)
	case !n.Live:
		return answer{}, refuse(http.StatusConflict, codeDestinationNotLive, "node %s is not live", n.ID)
	}
	return answer{}, noMoves()
}

// noMoves is for what takes a feature that no node speaks.
func noMoves() error {
	return refuse(http.StatusServiceUnavailable, codeUnavailable, "the nodes of this release do not hand shards to each other")
}

func moveOf(b body) (r moveRequest, err error) {
	for _, f := range []struct {
		name string
		to   *string
	}{{"tenant_id", &r.TenantID}, {"namespace", &r.Namespace}, {"stream", &r.Stream}, {"destination", &r.Destination}} {
		if *f.to, err = b.name(f.name); err != nil {
			return r, err
		}
	}
	n, isNumber := b["shard"].(json.Number)
	r.Shard, err = strconv.ParseInt(n.String(), 10, 32)
	if !isNumber || err != nil || r.Shard < 0 {
		return r, invalid("shard must be a whole number from 0")
	}
	if r.Kind, err = b.text("kind", kindOfStream); err == nil {
		err = checkKind(r.Kind)
	}
	if err != nil {
		return r, err
	}
	r.DryRun, err = b.boolean("dry_run")
	return r, err
}

func checkKind(kind string) error {
	if kind != kindOfStream && kind != kindOfCache {
		return invalid("kind must be %s or %s", kindOfStream, kindOfCache)
	}
	return nil
}

// shardNamed finds a shard. Those of caches have no place yet.
func (c *call) shardNamed(tenant, namespace, name, kind string, index int64) (*cluster.Partition, error) {
	t := c.image.Topic(tenant, namespace, name)
	if kind != kindOfStream || !visible(t) || index >= int64(len(t.Partitions)) {
		return nil, refuse(http.StatusNotFound, codeUnknownShard, "there is no shard %d of %s %s in namespace %s", index, kind, clip(name), clip(namespace))
	}
	return &t.Partitions[index], nil
}

// shardInPath finds the shard that a path and its parameter kind name.
func (c *call) shardInPath() (*cluster.Partition, error) {
	kind, err := c.query("kind")
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = kindOfStream
	}
	if err := checkKind(kind); err != nil {
		return nil, err
	}
	index, err := strconv.ParseInt(c.params["shard"], 10, 32)
	if err != nil || index < 0 {
		return nil, invalid("the number of a shard is a whole number from 0")
	}
	return c.shardNamed(c.params["owner"], c.params["namespace"], c.params["stream"], kind, index)
}

func cancelMove(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeManage); err != nil {
		return answer{}, err
	}
	if _, err := c.shardInPath(); err != nil {
		return answer{}, err
	}
	return answer{}, refuse(http.StatusConflict, codeNotMoving, "the shard is not moving")
}

// abandonShard refuses: a shard whose leader is live has lost nothing, and the others wait for their node.
func abandonShard(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeManage); err != nil {
		return answer{}, err
	}
	p, err := c.shardInPath()
	if err != nil {
		return answer{}, err
	}
	if n, there := c.image.Node(p.Leader); there && n.Live {
		return answer{}, refuse(http.StatusConflict, codeNotStranded, "node %s leads the shard", n.ID)
	}
	return answer{}, noMoves()
}

type pausedBody struct {
	Paused bool `json:"paused"`
}

func pausePlacement(c *call) (answer, error)  { return c.setPaused(true) }
func resumePlacement(c *call) (answer, error) { return c.setPaused(false) }

func (c *call) setPaused(paused bool) (answer, error) {
	if err := c.needCluster(auth.NodeManage); err != nil {
		return answer{}, err
	}
	if _, err := c.propose(cluster.PausePlacement{Paused: paused}); err != nil {
		return answer{}, err
	}
	return ok(pausedBody{paused}), nil
}

// The only action that a plan has without replication between nodes: such a shard waits for the node that holds it.
const actionWaiting = "waiting"

type plannedBody struct {
	shardName
	Action string `json:"action" enum:"place,staged,fenced,replacing,restoring,waiting,unplaceable"`
	Reason string `json:"reason"`
}

type replicationBody struct {
	shardName
	Leader          string   `json:"leader,omitempty" about:"left out while nobody leads"`
	Desired         int      `json:"desired_replicas"`
	Current         int      `json:"current_replicas"`
	UnderReplicated bool     `json:"under_replicated"`
	Unavailable     []string `json:"unavailable" about:"the nodes that should hold a copy and are not live"`
	Halted          []string `json:"halted"`
}

type replicationPage struct {
	UnderReplicated int               `json:"under_replicated" about:"of all shards"`
	Items           []replicationBody `json:"items"`
	NextCursor      string            `json:"next_cursor,omitempty"`
}

// nodesLive are the live nodes by broker number.
type nodesLive map[ids.BrokerID]bool

func liveNodes(m *cluster.Image) (live nodesLive, all bool) {
	live, all = nodesLive{}, true
	for _, n := range m.Nodes() {
		live[n.Broker] = n.Live
		all = all && n.Live
	}
	return live, all
}

func (s shard) name() shardName {
	return shardName{s.topic.Tenant, s.topic.Namespace, s.topic.Name, s.index, kindOfStream}
}

func (s shard) partition() *cluster.Partition { return &s.topic.Partitions[s.index] }

// under says that a replica of the shard is on a node that is not live.
func (s shard) under(live nodesLive) bool {
	p := s.partition()
	return !live[p.Leader] || slices.ContainsFunc(p.Replicas, func(b ids.BrokerID) bool { return !live[b] })
}

// shardsPage reads the page that a listing of shards was asked for. While every node is live no shard wants for anything, and none is
// looked at.
func (c *call) shardsPage(kind string, onlyUnder bool) (page, iter.Seq[shard], nodesLive, error) {
	p, err := c.pageOf(kind, 5)
	if err != nil {
		return p, nil, nil, err
	}
	from, err := shardsBehind(c.image, p)
	if err != nil {
		return p, nil, nil, err
	}
	live, all := liveNodes(c.image)
	switch {
	case onlyUnder && all:
		from = func(func(shard) bool) {}
	case onlyUnder:
		from = filter(from, func(s shard) bool { return s.under(live) })
	}
	return p, from, live, nil
}

func getPlan(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeView); err != nil {
		return answer{}, err
	}
	p, from, live, err := c.shardsPage("plan", true)
	if err != nil {
		return answer{}, err
	}
	from = filter(from, func(s shard) bool { return !live[s.partition().Leader] })
	return ok(fill(p, from, shard.key, func(s shard) any {
		return plannedBody{s.name(), actionWaiting, "node " + nodeName(c.image, s.partition().Leader) + ", which holds it, is not live"}
	})), nil
}

func getReplication(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeView); err != nil {
		return answer{}, err
	}
	only, err := c.flag("under_replicated")
	if err != nil {
		return answer{}, err
	}
	p, from, live, err := c.shardsPage("replication", only)
	if err != nil {
		return answer{}, err
	}
	out := replicationPage{UnderReplicated: underReplicated(c.image), Items: []replicationBody{}}
	list := fill(p, from, shard.key, func(s shard) any { return c.replicationOf(s, live) })
	for _, item := range list.Items {
		out.Items = append(out.Items, item.(replicationBody))
	}
	out.NextCursor = list.NextCursor
	return ok(out), nil
}

// underReplicated counts over all shards, unless every node is live.
func underReplicated(m *cluster.Image) (n int) {
	live, all := liveNodes(m)
	if all {
		return 0
	}
	m.EachTopic(func(t *cluster.Topic) bool {
		for i := range t.Partitions {
			if visible(t) && (shard{t, i}).under(live) {
				n++
			}
		}
		return true
	})
	return n
}

func (c *call) replicationOf(s shard, live nodesLive) replicationBody {
	p := s.partition()
	b := replicationBody{
		shardName: s.name(), Leader: nodeName(c.image, p.Leader), Desired: len(p.Replicas), UnderReplicated: s.under(live),
		Unavailable: []string{}, Halted: []string{},
	}
	for _, r := range p.Replicas {
		if live[r] {
			b.Current++
		} else {
			b.Unavailable = append(b.Unavailable, nodeName(c.image, r))
		}
	}
	return b
}
