package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// OffsetForLeaderEpoch, versions 2 to 4.
//
//	2  current leader epoch in the request (checked); throttle_time_ms
//	3  replica id, ignored here
//	4  flexible
//
// Rules: Kafka request rules 4.6. Only the leader answers. An epoch newer than all known, or one asked of a log that knows
// none, gives epoch -1 and offset -1 without an error; consumers take that as "nothing to truncate".

func handleOffsetForLeaderEpoch(c *call) {
	req := c.req.(*kmsg.OffsetForLeaderEpochRequest)
	resp := c.response().(*kmsg.OffsetForLeaderEpochResponse)
	view := c.view()
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, 0, len(req.Topics))
	for i := range req.Topics {
		asked := &req.Topics[i]
		t, topicErr := c.topic(view, asked.Topic)
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = asked.Topic
		out.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, 0, len(asked.Partitions))
		for j := range asked.Partitions {
			p := &asked.Partitions[j]
			epoch, end, err := ids.NoEpoch, ids.NoOffset, topicErr
			if err == nil {
				epoch, end, err = c.endOfEpoch(t, p)
			}
			answer := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			answer.Partition, answer.ErrorCode = p.Partition, c.code(err)
			answer.LeaderEpoch, answer.EndOffset = int32(epoch), int64(end)
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	c.reply(resp)
}

func (c *call) endOfEpoch(t *cluster.Topic, p *kmsg.OffsetForLeaderEpochRequestTopicPartition) (ids.LeaderEpoch, ids.Offset, error) {
	s, err := c.shardOf(t, p.Partition)
	if err != nil {
		return ids.NoEpoch, ids.NoOffset, err
	}
	if err := s.CheckEpoch(ids.LeaderEpoch(p.CurrentLeaderEpoch)); err != nil {
		return ids.NoEpoch, ids.NoOffset, err
	}
	epoch, end := s.EndOfEpoch(ids.LeaderEpoch(p.LeaderEpoch))
	return epoch, end, nil
}
