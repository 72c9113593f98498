package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// OffsetFetch, versions 1 to 10.
//
//	2   null topics mean all; an error of the group's own, which version 1 repeats at each partition
//	3   throttle_time_ms
//	5   committed leader epoch
//	6   flexible
//	7   require_stable
//	8   several groups a request
//	9   member id and epoch, which only the groups of KIP-848 look at
//	10  topic ids instead of names
//
// Rules: Kafka request rules 4.12. What was never committed is offset -1 and no error, whether the group exists or not. Of all offsets
// those are told whose topics still exist and may be read. There are no transactions, so every offset is stable.
//
// Different from Kafka: a group, or a partition of a topic, that is named twice is answered once, so that an answer is no larger than what
// is stored and asked for.

// wantedOffsets is the part of a request about one group.
type wantedOffsets struct {
	group  string
	all    bool
	topics []kmsg.OffsetFetchRequestGroupTopic
}

func handleOffsetFetch(c *call) {
	req := c.req.(*kmsg.OffsetFetchRequest)
	resp := c.response().(*kmsg.OffsetFetchResponse)
	c.conn.awaitOffsets(c.slot)
	f := offsetFetch{c: c, view: c.view()}
	if c.version < 8 {
		want := wantedOffsets{group: req.Group, all: c.version >= 2 && req.Topics == nil}
		for i := range req.Topics {
			want.topics = append(want.topics, kmsg.OffsetFetchRequestGroupTopic{Topic: req.Topics[i].Topic, Partitions: req.Topics[i].Partitions})
		}
		found := f.group(&want)
		resp.ErrorCode, resp.Topics = found.ErrorCode, oldOffsetTopics(found.Topics)
		c.replyCharged(resp)
		return
	}
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, 0, len(req.Groups))
	seen := make(map[string]struct{}, len(req.Groups))
	for i := range req.Groups {
		asked := &req.Groups[i]
		if _, again := seen[asked.Group]; again {
			continue
		}
		seen[asked.Group] = struct{}{}
		resp.Groups = append(resp.Groups, f.group(&wantedOffsets{group: asked.Group, all: asked.Topics == nil, topics: asked.Topics}))
	}
	c.replyCharged(resp)
}

type offsetFetch struct {
	c    *call
	view *cluster.Image
}

func (f *offsetFetch) group(want *wantedOffsets) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = want.group
	key, err := f.c.group(want.group, broker.GroupConsume)
	switch {
	case err != nil:
	case want.all:
		out.Topics, err = f.all(key)
	default:
		out.Topics, err = f.asked(key, want.topics)
	}
	switch {
	case err == nil:
	case f.c.version >= 2:
		out.ErrorCode = f.c.code(err)
		out.Topics = []kmsg.OffsetFetchResponseGroupTopic{}
	default:
		out.Topics = f.failed(want.topics, err)
	}
	return out
}

// asked answers for the partitions that are named. An error is of the group.
func (f *offsetFetch) asked(key groups.Key, topics []kmsg.OffsetFetchRequestGroupTopic) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	// Asked before any topic, so that who names none, or none that exists, hears of a coordinator that moved too.
	if _, _, err := f.c.srv.opts.Groups.Offset(key, ids.TopicID{}, 0); err != nil {
		return nil, err
	}
	out := make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(topics))
	seen := map[partitionKey]struct{}{}
	for i := range topics {
		asked := &topics[i]
		name := asked.Topic
		if f.c.version >= 10 {
			name = string(asked.TopicID[:])
		}
		t, topicErr := f.c.offsetTopic(f.view, asked.Topic, asked.TopicID)
		if f.c.version < 10 && errcode.Of(topicErr) == errcode.UnknownShard {
			topicErr = nil // by name, a topic that does not exist has nothing committed
		}
		answer := kmsg.NewOffsetFetchResponseGroupTopic()
		answer.Topic, answer.TopicID = asked.Topic, asked.TopicID
		answer.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, 0, len(asked.Partitions))
		for _, p := range asked.Partitions {
			if _, again := seen[partitionKey{name, p}]; again {
				continue
			}
			seen[partitionKey{name, p}] = struct{}{}
			part := nothingCommitted(p)
			switch {
			case topicErr != nil:
				part.ErrorCode = f.c.code(topicErr)
			case t != nil:
				o, ok, err := f.c.srv.opts.Groups.Offset(key, t.ID, p)
				if err != nil {
					return nil, err
				}
				if ok {
					part = committed(&o)
				}
			}
			answer.Partitions = append(answer.Partitions, part)
		}
		out = append(out, answer)
	}
	return out, nil
}

// all answers with everything that is committed, as far as the caller may see it.
func (f *offsetFetch) all(key groups.Key) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	list, err := f.c.srv.opts.Groups.AllOffsets(key)
	if err != nil {
		return nil, err
	}
	out := []kmsg.OffsetFetchResponseGroupTopic{}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Topic == list[0].Topic {
			n++
		}
		if name := f.nameOf(list[0].Topic); name != "" {
			answer := kmsg.NewOffsetFetchResponseGroupTopic()
			answer.Topic, answer.TopicID = name, list[0].Topic
			for i := range list[:n] {
				answer.Partitions = append(answer.Partitions, committed(&list[i]))
			}
			out = append(out, answer)
		}
		list = list[n:]
	}
	return out, nil
}

// nameOf is the name of a topic that the caller may read, else "".
func (f *offsetFetch) nameOf(id ids.TopicID) string {
	t, caller := f.view.TopicByID(id), f.c.caller()
	if !visible(t) || t.Tenant != caller.Tenant || !caller.Allowed(broker.StreamSubscribe, t.Namespace, t.Name) {
		return ""
	}
	return f.c.srv.names.join(t.Namespace, t.Name)
}

// failed is a group's error as version 1 has it: at each partition.
func (f *offsetFetch) failed(topics []kmsg.OffsetFetchRequestGroupTopic, err error) []kmsg.OffsetFetchResponseGroupTopic {
	out := make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(topics))
	for i := range topics {
		answer := kmsg.NewOffsetFetchResponseGroupTopic()
		answer.Topic = topics[i].Topic
		for _, p := range topics[i].Partitions {
			part := nothingCommitted(p)
			part.ErrorCode = f.c.code(err)
			answer.Partitions = append(answer.Partitions, part)
		}
		out = append(out, answer)
	}
	return out
}

func nothingCommitted(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	out := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	out.Partition, out.Offset, out.LeaderEpoch, out.Metadata = partition, -1, -1, new(string)
	return out
}

func committed(o *groups.CommittedOffset) kmsg.OffsetFetchResponseGroupTopicPartition {
	out := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	out.Partition, out.Offset, out.LeaderEpoch, out.Metadata = o.Partition, o.Offset, o.LeaderEpoch, &o.Metadata
	return out
}

// oldOffsetTopics is the form of the answer up to version 7.
func oldOffsetTopics(list []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseTopic {
	out := make([]kmsg.OffsetFetchResponseTopic, 0, len(list))
	for i := range list {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = list[i].Topic
		t.Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, 0, len(list[i].Partitions))
		for j := range list[i].Partitions {
			from := &list[i].Partitions[j]
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch = from.Partition, from.Offset, from.LeaderEpoch
			p.Metadata, p.ErrorCode = from.Metadata, from.ErrorCode
			t.Partitions = append(t.Partitions, p)
		}
		out = append(out, t)
	}
	return out
}
