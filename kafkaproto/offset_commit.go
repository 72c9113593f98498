package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// OffsetCommit, versions 2 to 10.
//
//	2-4  retention time
//	3    throttle_time_ms
//	6    leader epoch
//	7    group instance id
//	8    flexible
//	9    GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION for a member of a group that does not exist
//	10   topic ids instead of names
//
// Rules: Kafka request rules 4.12. Each partition is answered: with why it cannot be committed at all (topic, partition, rights), else
// with what the coordinator says. The answer comes when the offsets are durable, and the connection goes on reading meanwhile.
//
// Committing from outside a group needs no more rights than from inside: whoever may join an empty group may commit what it likes as
// its only member.

// commitPlace is where the answer to an offset stands.
type commitPlace struct{ topic, partition int }

func handleOffsetCommit(c *call) {
	req := c.req.(*kmsg.OffsetCommitRequest)
	resp := c.response().(*kmsg.OffsetCommitResponse)
	key, groupErr := c.group(req.Group, broker.GroupConsume)
	commit := &groups.CommitRequest{
		Key: key, MemberID: req.MemberID, InstanceID: orEmpty(req.InstanceID), Generation: req.Generation,
		RetentionMs: req.RetentionTimeMillis,
	}
	if c.version > 4 {
		commit.RetentionMs = -1
	}
	var places []commitPlace
	view := c.view()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		asked, out := &req.Topics[i], &resp.Topics[i]
		out.Default()
		out.Topic, out.TopicID = asked.Topic, asked.TopicID
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(asked.Partitions))
		t, err := c.offsetTopic(view, asked.Topic, asked.TopicID)
		if groupErr != nil {
			err = groupErr
		}
		for j := range asked.Partitions {
			p := &asked.Partitions[j]
			out.Partitions[j].Default()
			out.Partitions[j].Partition = p.Partition
			partitionErr := err
			if err == nil && (p.Partition < 0 || int(p.Partition) >= len(t.Partitions)) {
				partitionErr = errNoPartition
			}
			if partitionErr != nil {
				out.Partitions[j].ErrorCode = c.code(partitionErr)
				continue
			}
			places = append(places, commitPlace{i, j})
			commit.Offsets = append(commit.Offsets, groups.OffsetCommit{
				Topic: t.ID, Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: orEmpty(p.Metadata),
			})
		}
	}
	if len(places) == 0 {
		c.reply(resp)
		return
	}
	done := answerLater(c, outcome{err: groups.ErrNotCoordinator}, func(c *call, res outcome) {
		for i, at := range places {
			resp.Topics[at.topic].Partitions[at.partition].ErrorCode = c.code(res.of(i))
		}
		c.reply(resp)
	})
	c.srv.opts.Groups.Commit(commit, func(err error, each []error) { done(outcome{err, each}) })
}

// offsetTopic finds a topic whose offsets are to be committed or told: by name up to version 9 of these APIs, then by id. Errors:
// errForbidden, errNoTopic, errNoTopicID.
func (c *call) offsetTopic(view *cluster.Image, name string, id ids.TopicID) (*cluster.Topic, error) {
	if c.version < 10 {
		return c.topic(view, name, broker.StreamSubscribe)
	}
	t := view.TopicByID(id)
	switch {
	case !visible(t) || t.Tenant != c.caller().Tenant:
		return nil, errNoTopicID
	case !c.caller().Allowed(broker.StreamSubscribe, t.Namespace, t.Name):
		return nil, errForbidden
	default:
		return t, nil
	}
}
