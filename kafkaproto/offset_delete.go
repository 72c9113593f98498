package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
)

// OffsetDelete, version 0.
//
// Rules: Kafka request rules 4.12. Partitions of a topic that a member is subscribed to are refused with GROUP_SUBSCRIBED_TO_TOPIC; what
// was never committed is deleted without an error. The answer comes when the deletion is durable. An error of the group's own is the
// answer's, without topics.

func handleOffsetDelete(c *call) {
	req := c.req.(*kmsg.OffsetDeleteRequest)
	resp := c.response().(*kmsg.OffsetDeleteResponse)
	key, err := c.group(req.Group, broker.GroupManage)
	if err != nil {
		resp.ErrorCode = c.code(err)
		c.reply(resp)
		return
	}
	var places []commitPlace
	var list []groups.TopicPartition
	view := c.view()
	topics := make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	for i := range req.Topics {
		asked, out := &req.Topics[i], &topics[i]
		out.Default()
		out.Topic = asked.Topic
		out.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(asked.Partitions))
		t, err := c.topic(view, asked.Topic, broker.StreamSubscribe)
		for j := range asked.Partitions {
			p := asked.Partitions[j].Partition
			out.Partitions[j].Default()
			out.Partitions[j].Partition = p
			switch {
			case err != nil:
				out.Partitions[j].ErrorCode = c.code(err)
			case p < 0 || int(p) >= len(t.Partitions):
				out.Partitions[j].ErrorCode = c.code(errNoPartition)
			default:
				places = append(places, commitPlace{i, j})
				list = append(list, groups.TopicPartition{Topic: t.ID, Partition: p})
			}
		}
	}
	if len(list) == 0 && len(topics) > 0 {
		resp.Topics = topics
		c.reply(resp)
		return
	}
	done := answerLater(c, outcome{err: groups.ErrNotCoordinator}, func(c *call, res outcome) {
		if resp.ErrorCode = c.code(res.err); res.err == nil {
			for i, at := range places {
				topics[at.topic].Partitions[at.partition].ErrorCode = c.code(res.of(i))
			}
			resp.Topics = topics
		}
		c.reply(resp)
	})
	c.srv.opts.Groups.DeleteOffsets(key, list, func(err error, each []error) { done(outcome{err, each}) })
}
