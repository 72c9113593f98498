package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// DeleteTopics, versions 0 to 6.
//
//	1  throttle_time_ms
//	5  error messages
//	6  by name or by id; both come back in the answer
//
// Rules: Kafka request rules 4.15. Every topic asked for is answered, with its name where the caller may know it. A topic that is
// gone is gone at once: its next name-sake has another id. A topic that is named twice is answered once, with INVALID_REQUEST.
//
// Different from Kafka: version 0 is still served. An id of a topic that the caller may not know of is UNKNOWN_TOPIC_ID.

var (
	errNameAndID    = errcode.New(errcode.InvalidRequest, "a topic is deleted by name or by id, not by both")
	errNameOrID     = errcode.New(errcode.InvalidRequest, "neither a topic name nor an id is given")
	errTopicIDTwice = errcode.New(errcode.InvalidRequest, "duplicate topic id")
)

// deletion is one topic that a request names.
type deletion struct {
	name *string
	id   ids.TopicID
}

func (d deletion) key() string {
	if d.name != nil {
		return "n" + *d.name
	}
	return "i" + string(d.id[:])
}

func handleDeleteTopics(c *call) {
	req := c.req.(*kmsg.DeleteTopicsRequest)
	resp := c.response().(*kmsg.DeleteTopicsResponse)
	list := make([]deletion, 0, len(req.TopicNames)+len(req.Topics))
	for i := range req.TopicNames {
		list = append(list, deletion{name: &req.TopicNames[i]})
	}
	for i := range req.Topics {
		list = append(list, deletion{req.Topics[i].Topic, req.Topics[i].TopicID})
	}
	seen := duplicates[string]{}
	for _, d := range list {
		seen.add(d.key())
	}
	resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, 0, len(list))
	var wanted []broker.TopicName
	var at []int
	for _, d := range list {
		nothing := d.name == nil && d.id.IsZero() // each of these is answered, there being no name to answer once
		twice := seen.repeated(d.key()) && !nothing
		if !nothing && seen.answered(d.key()) {
			continue
		}
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = d.name, d.id
		want, err := c.deletionOf(d, twice)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = c.describe(err)
		} else {
			wanted, at = append(wanted, want), append(at, len(resp.Topics))
		}
		resp.Topics = append(resp.Topics, out)
	}
	ctx, cancel := c.within(req.TimeoutMillis)
	defer cancel()
	for k, res := range c.admin().DeleteTopics(ctx, c.caller(), wanted) {
		c.deletedTopic(&resp.Topics[at[k]], res)
	}
	c.reply(resp)
}

func (c *call) deletionOf(d deletion, twice bool) (broker.TopicName, error) {
	switch {
	case d.name != nil && !d.id.IsZero():
		return broker.TopicName{}, errNameAndID
	case d.name == nil && d.id.IsZero():
		return broker.TopicName{}, errNameOrID
	case twice && d.name != nil:
		return broker.TopicName{}, errTopicTwice
	case twice:
		return broker.TopicName{}, errTopicIDTwice
	case d.name == nil:
		// By id, a topic that Kafka clients cannot name does not exist for them.
		if t := c.view().TopicByID(d.id); !visible(t) || c.srv.names.join(t.Namespace, t.Name) == "" {
			return broker.TopicName{}, errNoTopicID
		}
		return broker.TopicName{ID: d.id}, nil
	default:
		namespace, stream, err := c.srv.names.split(*d.name)
		if err != nil {
			return broker.TopicName{}, errNoTopic
		}
		if t := c.view().Topic(c.caller().Tenant, namespace, stream); t != nil && !visible(t) &&
			c.caller().Allowed(broker.StreamManage, namespace, stream) {
			return broker.TopicName{}, errNoTopic
		}
		return broker.TopicName{Namespace: namespace, Stream: stream}, nil
	}
}

// deletedTopic fills in the outcome. A name that was not in the request is shown to those who may know the topic.
func (c *call) deletedTopic(out *kmsg.DeleteTopicsResponseTopic, res broker.TopicResult) {
	t := res.Topic
	if res.Err != nil {
		out.ErrorCode, out.ErrorMessage = c.describe(res.Err)
		t = c.view().TopicByID(out.TopicID)
		if out.Topic != nil || t == nil || errcode.Of(res.Err) == errcode.UnknownTopicID {
			return
		}
	}
	name := c.srv.names.join(t.Namespace, t.Name)
	out.Topic, out.TopicID = &name, t.ID
}
