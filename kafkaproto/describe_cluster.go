package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

// DescribeCluster, versions 0 to 2.
//
//	1  endpoint type: 1 brokers, 2 controllers (KIP-919)
//	2  fenced brokers on demand
//
// Controllers have no listener of their own: type 2 is MISMATCHED_ENDPOINT_TYPE (114), and so is any other, for which Kafka has 115.

const brokerEndpoints int8 = 1

var errEndpoint = errcode.New(errcode.MismatchedEndpointType, "this listener knows the endpoints of brokers only")

func handleDescribeCluster(c *call) {
	req := c.req.(*kmsg.DescribeClusterRequest)
	resp := c.response().(*kmsg.DescribeClusterResponse)
	resp.EndpointType = brokerEndpoints
	resp.Brokers = []kmsg.DescribeClusterResponseBroker{}
	if req.EndpointType != brokerEndpoints {
		resp.ErrorCode, resp.ErrorMessage = c.describe(errEndpoint)
		resp.ControllerID = -1
		c.reply(resp)
		return
	}
	view := c.view()
	resp.ClusterID, resp.ControllerID = view.ClusterID(), int32(view.Controller())
	for i := range view.Nodes() {
		n := &view.Nodes()[i]
		if n.KafkaHost == "" || !n.Live && !req.IncludeFencedBrokers {
			continue
		}
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack, b.IsFenced = int32(n.Broker), n.KafkaHost, n.KafkaPort, rackOf(n), !n.Live
		resp.Brokers = append(resp.Brokers, b)
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations(c.caller())
	}
	c.reply(resp)
}
