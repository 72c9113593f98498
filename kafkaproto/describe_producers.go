package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
)

// DescribeProducers, version 0.
//
// For each partition that this node leads, the idempotent producers that its log remembers (KIP-664). Takes the right to read the
// stream. There are no transactions: coordinator epoch and start offset are -1.

func handleDescribeProducers(c *call) {
	req := c.req.(*kmsg.DescribeProducersRequest)
	resp := c.response().(*kmsg.DescribeProducersResponse)
	view := c.view()
	resp.Topics = make([]kmsg.DescribeProducersResponseTopic, 0, len(req.Topics))
	for i := range req.Topics {
		asked := &req.Topics[i]
		t, topicErr := c.topic(view, asked.Topic, broker.StreamSubscribe)
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = asked.Topic
		out.Partitions = make([]kmsg.DescribeProducersResponseTopicPartition, 0, len(asked.Partitions))
		for _, index := range asked.Partitions {
			answer := kmsg.NewDescribeProducersResponseTopicPartition()
			answer.Partition = index
			answer.ActiveProducers = []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}
			err := topicErr
			if err == nil {
				err = c.activeProducers(t, index, &answer)
			}
			answer.ErrorCode, answer.ErrorMessage = c.describe(err)
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	c.reply(resp)
}

func (c *call) activeProducers(t *cluster.Topic, partition int32, answer *kmsg.DescribeProducersResponseTopicPartition) error {
	s, err := c.shardOf(t, partition)
	if err != nil {
		return err
	}
	s.Producers(func(p broker.ProducerState) bool {
		out := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		out.ProducerID, out.ProducerEpoch, out.LastSequence = p.ID, int32(p.Epoch), p.LastSequence
		out.LastTimestamp = p.LastTimestamp
		out.CoordinatorEpoch, out.CurrentTxnStartOffset = p.CoordinatorEpoch, int64(p.TxnStart)
		answer.ActiveProducers = append(answer.ActiveProducers, out)
		return true
	})
	return nil
}
