package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
)

// DescribeLogDirs, versions 1 to 5.
//
//	2  flexible
//	3  top-level error
//	4  total and usable bytes of the volume (KIP-827)
//	5  cordoned directories (KIP-1066); none here
//
// A node has one directory. A caller sees the sizes of its own topics; partitions that do not exist, or are not here, are left
// out, as in Kafka. Opening shards only to measure them would undo their being lazy: one that was never written has size 0.

func handleDescribeLogDirs(c *call) {
	req := c.req.(*kmsg.DescribeLogDirsRequest)
	resp := c.response().(*kmsg.DescribeLogDirsResponse)
	resp.Dirs = []kmsg.DescribeLogDirsResponseDir{}
	if !c.caller().Known() {
		resp.ErrorCode = c.code(errNoTenant)
		c.reply(resp)
		return
	}
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = c.admin().LogDir()
	dir.TotalBytes, dir.UsableBytes = c.admin().DiskSpace()
	view := c.view()
	dir.Topics = []kmsg.DescribeLogDirsResponseDirTopic{}
	if req.Topics == nil {
		view.TopicsOf(c.caller().Tenant, func(t *cluster.Topic) bool {
			name := c.srv.names.join(t.Namespace, t.Name)
			if name != "" && visible(t) && mayDescribe(c.caller(), t.Namespace, t.Name) {
				c.measure(&dir, name, t, nil)
			}
			return true
		})
	}
	for i := range req.Topics {
		if t, err := c.topic(view, req.Topics[i].Topic); err == nil && len(req.Topics[i].Partitions) > 0 {
			c.measure(&dir, req.Topics[i].Topic, t, req.Topics[i].Partitions)
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	c.reply(resp)
}

// measure adds the sizes of a topic's partitions that this node holds: all of them, or those asked for.
func (c *call) measure(dir *kmsg.DescribeLogDirsResponseDir, name string, t *cluster.Topic, asked []int32) {
	if asked == nil {
		asked = make([]int32, len(t.Partitions))
		for i := range asked {
			asked[i] = int32(i)
		}
	}
	out := kmsg.NewDescribeLogDirsResponseDirTopic()
	out.Topic = name
	for _, p := range asked {
		if p < 0 || int(p) >= len(t.Partitions) || t.Partitions[p].Leader != c.admin().Self() {
			continue
		}
		part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		part.Partition, part.Size = p, c.admin().shardSize(t, p)
		out.Partitions = append(out.Partitions, part)
	}
	if len(out.Partitions) > 0 {
		dir.Topics = append(dir.Topics, out)
	}
}
