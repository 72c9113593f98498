package api

import (
	"iter"
	"strconv"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

type assignmentBody struct {
	TenantID   string   `json:"tenant_id"`
	Namespace  string   `json:"namespace"`
	Stream     string   `json:"stream"`
	Shard      int      `json:"shard"`
	Kind       string   `json:"kind" enum:"stream,cache"`
	Leader     string   `json:"leader,omitempty" about:"left out while nobody leads"`
	Replicas   []string `json:"replicas"`
	Generation int64    `json:"generation" about:"the leader epoch"`
	State      string   `json:"state" enum:"assigning,active,draining"`
	Routing    string   `json:"routing,omitempty" enum:"modulo,jump_hash" about:"left out for modulo"`
}

// What holds shards. Those of caches have no place yet, so none is listed.
const (
	kindOfStream = "stream"
	kindOfCache  = "cache"
)

// shard is one partition of a topic, on its way into a listing.
type shard struct {
	topic *cluster.Topic
	index int
}

func (s shard) key() []string {
	return []string{s.topic.Tenant, s.topic.Namespace, kindOfStream, s.topic.Name, strconv.Itoa(s.index)}
}

func listAssignments(c *call) (answer, error) {
	if err := c.needCluster(auth.NodeView); err != nil {
		return answer{}, err
	}
	p, err := c.pageOf("shard-assignments", 5)
	if err != nil {
		return answer{}, err
	}
	leader, err := c.query("leader")
	if err != nil {
		return answer{}, err
	}
	from, err := shardsBehind(c.image, p)
	if err != nil {
		return answer{}, err
	}
	if leader != "" {
		n, there := c.image.NodeByID(ids.NodeID(leader))
		from = filter(from, func(s shard) bool { return there && s.topic.Partitions[s.index].Leader == n.Broker })
	}
	return ok(fill(p, from, shard.key, func(s shard) any { return assignmentOf(c.image, s) })), nil
}

// shardsBehind iterates over the shards that follow the start of a page, by tenant, namespace, kind, name and number.
func shardsBehind(m *cluster.Image, p page) (iter.Seq[shard], error) {
	topics, last, next := topicsBehind(m, "", "", ""), (*cluster.Topic)(nil), 0
	if p.after != nil {
		n, err := strconv.ParseUint(p.after[4], 10, 31)
		if err != nil {
			return nil, invalid("cursor must be the next_cursor of a page of this listing")
		}
		topics = topicsBehind(m, p.after[0], p.after[1], p.after[3])
		last, next = m.Topic(p.after[0], p.after[1], p.after[3]), int(n)+1
	}
	return func(yield func(shard) bool) {
		if last != nil && !yieldShards(last, next, yield) {
			return
		}
		for t := range topics {
			if !yieldShards(t, 0, yield) {
				return
			}
		}
	}, nil
}

func yieldShards(t *cluster.Topic, first int, yield func(shard) bool) bool {
	if !visible(t) {
		return true
	}
	for i := first; i < len(t.Partitions); i++ {
		if !yield(shard{t, i}) {
			return false
		}
	}
	return true
}

func assignmentOf(m *cluster.Image, s shard) assignmentBody {
	t, p := s.topic, &s.topic.Partitions[s.index]
	b := assignmentBody{
		TenantID: t.Tenant, Namespace: t.Namespace, Stream: t.Name, Shard: s.index, Kind: kindOfStream,
		Leader: nodeName(m, p.Leader), Replicas: make([]string, len(p.Replicas)), Generation: int64(p.Epoch), State: "active",
	}
	for i, r := range p.Replicas {
		b.Replicas[i] = nodeName(m, r)
	}
	if b.Leader == "" {
		b.State = "assigning"
	}
	if t.Routing != cluster.RoutingModulo {
		b.Routing = t.Routing.String()
	}
	return b
}

func nodeName(m *cluster.Image, b ids.BrokerID) string {
	n, _ := m.Node(b)
	return string(n.ID)
}
