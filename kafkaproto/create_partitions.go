package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/ids"
)

// CreatePartitions, versions 0 to 3.
//
//	1  throttling by the client
//	2  flexible
//	3  THROTTLING_QUOTA_EXCEEDED
//
// Rules: Kafka request rules 4.15. The count is the new total and must exceed the old one (37). Streams that were made natively map keys
// to shards for ever and refuse (37, design decision 9). A topic that is named twice is answered once, with INVALID_REQUEST.

func handleCreatePartitions(c *call) {
	req := c.req.(*kmsg.CreatePartitionsRequest)
	resp := c.response().(*kmsg.CreatePartitionsResponse)
	seen := duplicates[string]{}
	for i := range req.Topics {
		seen.add(req.Topics[i].Topic)
	}
	view := c.view()
	resp.Topics = make([]kmsg.CreatePartitionsResponseTopic, 0, len(req.Topics))
	var wanted []broker.MorePartitions
	var at []int
	for i := range req.Topics {
		asked := &req.Topics[i]
		twice := seen.repeated(asked.Topic)
		if seen.answered(asked.Topic) {
			continue
		}
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = asked.Topic
		t, err := c.topic(view, asked.Topic, broker.StreamManage)
		if twice {
			err = errTopicTwice
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = c.describe(err)
		} else {
			more := broker.MorePartitions{Topic: broker.TopicName{Namespace: t.Namespace, Stream: t.Name}, Count: asked.Count}
			if asked.Assignment != nil {
				more.Assignment = make([][]ids.BrokerID, len(asked.Assignment))
				for k := range asked.Assignment {
					more.Assignment[k] = placesOf(asked.Assignment[k].Replicas)
				}
			}
			wanted, at = append(wanted, more), append(at, len(resp.Topics))
		}
		resp.Topics = append(resp.Topics, out)
	}
	ctx, cancel := c.within(req.TimeoutMillis)
	defer cancel()
	for k, res := range c.admin().CreatePartitions(ctx, c.caller(), wanted, req.ValidateOnly) {
		resp.Topics[at[k]].ErrorCode, resp.Topics[at[k]].ErrorMessage = c.describe(res.Err)
	}
	c.reply(resp)
}
