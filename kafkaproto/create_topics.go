package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// CreateTopics, versions 0 to 7.
//
//	1  validate_only; error messages
//	4  -1 partitions and replicas mean the broker's defaults; earlier versions get them too
//	5  partitions, replication factor and configurations in the answer
//	6  THROTTLING_QUOTA_EXCEEDED
//	7  topic id
//
// Rules: Kafka request rules 4.15. Streams are durable; a missing namespace is made along in single-node mode or with the right to make
// it. A topic is ready when it is answered: Metadata shows it, with leaders.
//
// Different from Kafka: versions 0 and 1 are still served; names that differ only in '.' and '_' do not collide; a topic may have 100,000
// partitions. A topic that is named twice is answered once, with INVALID_REQUEST, as in Kafka.

var errTopicTwice = errcode.New(errcode.InvalidRequest, "duplicate topic name")

func handleCreateTopics(c *call) {
	req := c.req.(*kmsg.CreateTopicsRequest)
	resp := c.response().(*kmsg.CreateTopicsResponse)
	seen := duplicates[string]{}
	for i := range req.Topics {
		seen.add(req.Topics[i].Topic)
	}
	resp.Topics = make([]kmsg.CreateTopicsResponseTopic, 0, len(req.Topics))
	var wanted []broker.NewTopic
	var at []int // index in resp.Topics of each wanted one
	for i := range req.Topics {
		asked := &req.Topics[i]
		twice := seen.repeated(asked.Topic)
		if seen.answered(asked.Topic) {
			continue
		}
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = asked.Topic
		want, err := c.newTopic(asked)
		switch {
		case twice:
			out.ErrorCode, out.ErrorMessage = c.describe(errTopicTwice)
		case err != nil:
			out.ErrorCode, out.ErrorMessage = c.describe(err)
		default:
			wanted, at = append(wanted, want), append(at, len(resp.Topics))
		}
		resp.Topics = append(resp.Topics, out)
	}
	ctx, cancel := c.within(req.TimeoutMillis)
	defer cancel()
	defaults := c.srv.node.Image().Defaults()
	for k, res := range c.admin().CreateTopics(ctx, c.caller(), wanted, req.ValidateOnly) {
		c.createdTopic(&resp.Topics[at[k]], res, defaults, req.ValidateOnly)
	}
	c.reply(resp)
}

// newTopic translates one topic of a request. Errors here are of the request's form; the controller judges its content.
func (c *call) newTopic(asked *kmsg.CreateTopicsRequestTopic) (broker.NewTopic, error) {
	namespace, stream, err := c.srv.names.split(asked.Topic)
	if err != nil {
		return broker.NewTopic{}, err
	}
	t := broker.NewTopic{
		Namespace: namespace, Stream: stream,
		Partitions: asked.NumPartitions, ReplicationFactor: asked.ReplicationFactor,
	}
	if !c.caller().Allowed(broker.StreamManage, namespace, stream) {
		return t, nil // the broker refuses it, before anything else is said about it
	}
	if len(asked.ReplicaAssignment) > 0 {
		if asked.NumPartitions != -1 || asked.ReplicationFactor != -1 {
			return t, errcode.Newf(errcode.InvalidRequest, "with replicas assigned by hand, the number of partitions and the replication factor must both be -1")
		}
		if t.Assignment, err = assignmentOf(asked.ReplicaAssignment); err != nil {
			return t, err
		}
	}
	for i := range asked.Configs {
		if asked.Configs[i].Value == nil {
			return t, errcode.Newf(errcode.InvalidConfig, "null value not supported for topic configs: %s", asked.Configs[i].Name)
		}
		if t.Configs == nil {
			t.Configs = make(map[string]string, len(asked.Configs))
		}
		t.Configs[asked.Configs[i].Name] = *asked.Configs[i].Value
	}
	return t, nil
}

// assignmentOf orders the assigned replicas by partition; every partition from 0 on must be there once.
func assignmentOf(list []kmsg.CreateTopicsRequestTopicReplicaAssignment) ([][]ids.BrokerID, error) {
	out := make([][]ids.BrokerID, len(list))
	for i := range list {
		p := list[i].Partition
		if p < 0 || int(p) >= len(list) {
			return nil, errcode.Newf(errcode.InvalidReplicaAssignment, "partitions assigned by hand must be numbered from 0 without a gap: %d of %d", p, len(list))
		}
		if out[p] != nil {
			return nil, errcode.Newf(errcode.InvalidReplicaAssignment, "partition %d is assigned twice", p)
		}
		out[p] = placesOf(list[i].Replicas)
	}
	return out, nil
}

func (c *call) createdTopic(out *kmsg.CreateTopicsResponseTopic, res broker.TopicResult, defaults *cluster.TopicConfig, validateOnly bool) {
	if res.Err != nil {
		out.ErrorCode, out.ErrorMessage = c.describe(res.Err)
		return
	}
	if !validateOnly {
		out.TopicID = res.Topic.ID
	}
	if c.version < 5 {
		return
	}
	out.NumPartitions, out.ReplicationFactor = int32(len(res.Topic.Partitions)), int16(res.Topic.ReplicationFactor())
	out.Configs = make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(cluster.TopicConfigs()))
	for _, d := range cluster.TopicConfigs() {
		value, source := topicConfigValue(&d, res.Topic, defaults)
		cfg := kmsg.NewCreateTopicsResponseTopicConfig()
		cfg.Name, cfg.Value, cfg.Source = d.Name, &value, int8(source)
		out.Configs = append(out.Configs, cfg)
	}
}
