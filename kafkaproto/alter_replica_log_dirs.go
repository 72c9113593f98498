package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/errcode"
)

// AlterReplicaLogDirs, versions 1 and 2.
//
//	2  flexible
//
// A node has one directory. To ask for a partition to be there is granted, since it is; any other directory does not exist (57).

var errNoLogDir = errcode.New(errcode.LogDirNotFound, "the node has no such directory")

func handleAlterReplicaLogDirs(c *call) {
	req := c.req.(*kmsg.AlterReplicaLogDirsRequest)
	resp := c.response().(*kmsg.AlterReplicaLogDirsResponse)
	view := c.view()
	resp.Topics = []kmsg.AlterReplicaLogDirsResponseTopic{}
	at := map[string]int{} // place in resp.Topics: a topic may be asked into several directories
	for i := range req.Dirs {
		dir := &req.Dirs[i]
		for j := range dir.Topics {
			asked := &dir.Topics[j]
			k, known := at[asked.Topic]
			if !known {
				k = len(resp.Topics)
				at[asked.Topic] = k
				out := kmsg.NewAlterReplicaLogDirsResponseTopic()
				out.Topic = asked.Topic
				resp.Topics = append(resp.Topics, out)
			}
			t, err := c.topic(view, asked.Topic, broker.StreamManage)
			for _, p := range asked.Partitions {
				out := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				out.Partition = p
				refused := err
				switch {
				case err != nil:
				case p < 0 || int(p) >= len(t.Partitions):
					refused = errNoPartition
				case dir.Dir != c.admin().LogDir():
					refused = errNoLogDir
				}
				out.ErrorCode = c.code(refused)
				resp.Topics[k].Partitions = append(resp.Topics[k].Partitions, out)
			}
		}
	}
	c.reply(resp)
}
