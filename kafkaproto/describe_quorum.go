package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// DescribeQuorum, versions 0 to 2, flexible.
//
//	1  when a replica fetched and was level last (KIP-836)
//	2  error messages, directory ids, endpoints of the controllers (KIP-853)
//
// Rules: Kafka request rules 4.15. The one partition that can be asked about is 0 of __cluster_metadata. What stands for it here is the
// controller's command log: its leader is the node that takes administrative requests, its high watermark the version of the metadata that
// this node has, its epoch the number of that node's registrations. Live nodes are voters at that version.
//
// Different from Kafka: times are not kept (-1), and controllers have no endpoints that a Kafka client could dial.

const metadataTopic = "__cluster_metadata"

func handleDescribeQuorum(c *call) {
	req := c.req.(*kmsg.DescribeQuorumRequest)
	resp := c.response().(*kmsg.DescribeQuorumResponse)
	resp.Topics = []kmsg.DescribeQuorumResponseTopic{}
	resp.Nodes = []kmsg.DescribeQuorumResponseNode{}
	if !c.caller().Known() {
		resp.ErrorCode, resp.ErrorMessage = c.describe(errNoTenant)
		c.reply(resp)
		return
	}
	view := c.view()
	// As in Kafka, a request about anything else beside it is refused for all it asks about.
	sound := len(req.Topics) == 1 && req.Topics[0].Topic == metadataTopic && len(req.Topics[0].Partitions) == 1 && req.Topics[0].Partitions[0].Partition == 0
	for i := range req.Topics {
		out := kmsg.NewDescribeQuorumResponseTopic()
		out.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			p := kmsg.NewDescribeQuorumResponseTopicPartition()
			p.Partition = req.Topics[i].Partitions[j].Partition
			p.CurrentVoters = []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}
			p.Observers = []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}
			if sound {
				describeQuorum(view, &p)
			} else {
				p.ErrorCode, p.ErrorMessage = c.describe(errNoTopic)
				p.LeaderID, p.LeaderEpoch, p.HighWatermark = -1, -1, -1
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if sound && c.version >= 2 {
		for i := range view.Nodes() {
			if n := &view.Nodes()[i]; n.Live {
				node := kmsg.NewDescribeQuorumResponseNode()
				node.NodeID, node.Listeners = int32(n.Broker), []kmsg.DescribeQuorumResponseNodeListener{}
				resp.Nodes = append(resp.Nodes, node)
			}
		}
	}
	c.reply(resp)
}

func describeQuorum(view *cluster.Image, p *kmsg.DescribeQuorumResponseTopicPartition) {
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = int32(view.Controller()), -1, int64(view.Version())
	for i := range view.Nodes() {
		n := &view.Nodes()[i]
		if !n.Live {
			continue
		}
		if n.Broker == view.Controller() {
			p.LeaderEpoch = int32(n.Incarnation)
		}
		v := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		v.ReplicaID, v.LogEndOffset = int32(n.Broker), int64(view.Version())
		v.LastFetchTimestamp, v.LastCaughtUpTimestamp = -1, -1
		p.CurrentVoters = append(p.CurrentVoters, v)
	}
	if len(p.CurrentVoters) == 0 {
		p.ErrorCode = errcode.NoLeader.Kafka()
	}
}
