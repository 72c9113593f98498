package raw_test

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteRecords asks one partition's log to start at an offset; -1 means the high watermark.
func (c *client) deleteRecords(topic string, partition int32, offset int64) (code int16, lowWatermark int64) {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 10000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	p := do[*kmsg.DeleteRecordsResponse](c, req).Topics[0].Partitions[0]
	return p.ErrorCode, p.LowWatermark
}

// deleteTopic deletes a topic by name (DeleteTopics v6) and returns the answer.
func (c *client) deleteTopic(topic string) kmsg.DeleteTopicsResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 10000
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	return do[*kmsg.DeleteTopicsResponse](c, req).Topics[0]
}
