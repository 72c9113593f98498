package kafkaproto

import (
	"errors"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// hints collects, for one answer, who leads the partitions that were asked of the wrong broker. Leader, epoch and address come from
// one view of the cluster, the one that Metadata shows; where they are not certain the hint is left out, since clients
// trust it over Metadata.
type hints struct {
	view  *cluster.Image
	nodes []cluster.Node // each broker named once
}

// find returns the hint for a failure, unset unless it says who leads and that broker is known and live.
func (h *hints) find(err error) leaderHint {
	var e *errcode.NotLeaderError
	if err == nil || !errors.As(err, &e) || e.Leader < 0 || e.Epoch < 0 {
		return leaderHint{leader: ids.NoBroker}
	}
	n, ok := h.view.Node(ids.BrokerID(e.Leader))
	if !ok || !n.Live || n.KafkaHost == "" {
		return leaderHint{leader: ids.NoBroker}
	}
	known := false
	for i := range h.nodes {
		known = known || h.nodes[i].Broker == n.Broker
	}
	if !known {
		h.nodes = append(h.nodes, n)
	}
	return leaderHint{leader: n.Broker, epoch: ids.LeaderEpoch(e.Epoch)}
}
