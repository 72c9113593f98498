package kafkaproto

import (
	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
)

// onBroker is the node over a real broker.
type onBroker struct{ *broker.Broker }

var (
	_ node  = onBroker{}
	_ shard = (*broker.Shard)(nil)
)

// Shard implements node.
func (b onBroker) Shard(t *cluster.Topic, partition int32) (shard, error) {
	s, err := b.Broker.Shard(t, partition)
	if err != nil {
		return nil, err
	}
	return s, nil
}
