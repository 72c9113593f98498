package null

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ranges are the versions served. Fetch stays below the flexible versions, which keeps the answer's header at a fixed form;
// neither has topic ids, so clients use names. FindCoordinator is there because librdkafka derives its use of lz4 from it.
var ranges = []struct{ key, low, high int16 }{
	{0, 3, 9},  // Produce
	{1, 4, 11}, // Fetch
	{2, 1, 6},  // ListOffsets
	{3, 0, 9},  // Metadata
	{10, 0, 2}, // FindCoordinator
	{18, 0, 3}, // ApiVersions
	{22, 0, 4}, // InitProducerId
	{60, 0, 0}, // DescribeCluster
}

func served(key int16) (low, high int16, ok bool) {
	for _, r := range ranges {
		if r.key == key {
			return r.low, r.high, true
		}
	}
	return 0, 0, false
}

func apiVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	for _, r := range ranges {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = r.key, r.low, r.high
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return resp
}

// control answers everything but ApiVersions, Produce and Fetch.
func (s *Server) control(req kmsg.Request) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		return s.metadata(req)
	case *kmsg.ListOffsetsRequest:
		return listOffsets(req)
	case *kmsg.InitProducerIDRequest:
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ProducerID, resp.ProducerEpoch = s.producerID.Add(1), 0
		return resp
	case *kmsg.FindCoordinatorRequest:
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		resp.ErrorCode = 15 // COORDINATOR_NOT_AVAILABLE: no groups here
		return resp
	case *kmsg.DescribeClusterRequest:
		resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
		resp.ClusterID, resp.ControllerID = "null", 1
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port = 1, s.host, s.port
		resp.Brokers = append(resp.Brokers, b)
		return resp
	}
	return nil
}

func (s *Server) metadata(req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ClusterID, resp.ControllerID = kmsg.StringPtr("null"), 1
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = 1, s.host, s.port
	resp.Brokers = append(resp.Brokers, b)
	for _, t := range req.Topics {
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = t.Topic
		for p := range s.opts.Partitions {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition, rp.Leader, rp.Replicas, rp.ISR = int32(p), 1, []int32{1}, []int32{1}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// listOffsets pretends that every partition starts at 0 and never ends.
func listOffsets(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Timestamp, rp.Offset, rp.LeaderEpoch = p.Partition, -1, 0, 0
			if p.Timestamp == -1 {
				rp.Offset = math.MaxInt64 / 2
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// produce acknowledges everything at offset 0 and keeps nothing.
func (s *Server) produce(req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.LogAppendTime, rp.LogStartOffset = p.Partition, -1, 0
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
