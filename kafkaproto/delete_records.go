package kafkaproto

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// DeleteRecords, versions 0 to 2.
//
//	1  throttling by the client
//	2  flexible
//
// Rules: Kafka request rules 4.15, KIP-107. Offset -1 is the high watermark; one past it is OFFSET_OUT_OF_RANGE. The new log start
// offset is durable when it is answered. Takes the right to manage the stream, as Kafka's DELETE on the topic.
//
// As in Kafka, a topic that is only compacted keeps its records: POLICY_VIOLATION.

var errCompacted = errcode.New(errcode.PolicyViolation, "records of a compacted topic are deleted by key: cleanup.policy has no delete")

func handleDeleteRecords(c *call) {
	req := c.req.(*kmsg.DeleteRecordsRequest)
	resp := c.response().(*kmsg.DeleteRecordsResponse)
	ctx, cancel := c.within(req.TimeoutMillis)
	defer cancel()
	view := c.view()
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, 0, len(req.Topics))
	for i := range req.Topics {
		asked := &req.Topics[i]
		t, topicErr := c.topic(view, asked.Topic, broker.StreamManage)
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = asked.Topic
		out.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, 0, len(asked.Partitions))
		for j := range asked.Partitions {
			p := &asked.Partitions[j]
			start, err := ids.NoOffset, topicErr
			if err == nil {
				start, err = c.deleteRecords(ctx, t, p)
			}
			answer := kmsg.NewDeleteRecordsResponseTopicPartition()
			answer.Partition, answer.LowWatermark, answer.ErrorCode = p.Partition, int64(start), c.code(err)
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	c.reply(resp)
}

func (c *call) deleteRecords(ctx context.Context, t *cluster.Topic, p *kmsg.DeleteRecordsRequestTopicPartition) (ids.Offset, error) {
	s, err := c.shardOf(t, p.Partition)
	switch {
	case err != nil:
		return ids.NoOffset, err
	case t.Config.CleanupCompact && !t.Config.CleanupDelete:
		return ids.NoOffset, errCompacted
	case p.Offset < -1:
		return ids.NoOffset, &errcode.RangeError{Requested: p.Offset, Start: int64(s.Bounds().Start), End: int64(s.Bounds().HighWatermark)}
	}
	start, err := s.DeleteRecords(ctx, ids.Offset(p.Offset))
	if err != nil {
		return ids.NoOffset, err
	}
	return start, nil
}
