package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/kafka"

	"github.com/felixlog/felix/compat/clients/agent"
)

var _ agent.GroupLibrary = library{}

// memberConfig is the configuration of a group member.
func memberConfig(req agent.Request) *kafka.ConfigMap {
	g := req.Group
	m := kafka.ConfigMap{
		"group.id":                 g.ID,
		"auto.offset.reset":        "earliest",
		"check.crcs":               true,
		"enable.auto.commit":       !g.Commit,
		"reconnect.backoff.max.ms": 500,
	}
	if g.Assignor != "" {
		m["partition.assignment.strategy"] = g.Assignor
	}
	if g.Instance != "" {
		m["group.instance.id"] = g.Instance
	}
	if g.SessionMS != 0 {
		m["session.timeout.ms"] = g.SessionMS
		m["heartbeat.interval.ms"] = max(1, g.SessionMS/10)
	}
	return config(req, m)
}

// numbers are the partition numbers of a list.
func numbers(partitions []kafka.TopicPartition) []int32 {
	out := make([]int32, 0, len(partitions))
	for _, p := range partitions {
		out = append(out, p.Partition)
	}
	return out
}

// Member polls and commits from one goroutine, in which the rebalance callback runs too.
func (library) Member(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	c, err := kafka.NewConsumer(memberConfig(req))
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	owner := agent.NewOwner(emit)
	closed := false
	// What the callback does not assign or unassign, the binding does after it.
	rebalanced := func(_ *kafka.Consumer, event kafka.Event) error {
		switch e := event.(type) {
		case kafka.AssignedPartitions:
			owner.Assigned(numbers(e.Partitions)...)
		case kafka.RevokedPartitions:
			if !closed {
				owner.Revoked(numbers(e.Partitions)...)
			}
		}
		return nil
	}
	if err := c.SubscribeTopics([]string{req.Topic}, rebalanced); err != nil {
		return errors.Join(coded(err), c.Close())
	}
	for ctx.Err() == nil && err == nil {
		switch e := c.Poll(pollMS).(type) {
		case *kafka.Message:
			if e.TopicPartition.Error != nil {
				err = coded(e.TopicPartition.Error)
				break
			}
			owner.Record(record(e))
			if req.Group.Commit {
				err = commit(c, e)
			}
		case kafka.Error:
			if e.IsFatal() {
				err = coded(e)
			}
		}
	}
	owner.RevokedAll()
	closed = true
	return errors.Join(err, coded(c.Close()))
}

// commit commits one record. A commit that a rebalance overtook is the next owner's to make again, and one that a restarted server
// lost is repeated with the next record.
func commit(c *kafka.Consumer, m *kafka.Message) error {
	_, err := c.CommitMessage(m)
	var kerr kafka.Error
	if errors.As(err, &kerr) {
		switch kerr.Code() {
		case kafka.ErrIllegalGeneration, kafka.ErrUnknownMemberID, kafka.ErrRebalanceInProgress, kafka.ErrState:
			return nil
		}
	}
	return coded(err)
}

// Admin does what both versions have: topics, configs, and committed offsets by way of a consumer that is no member. The rest is
// groupAdmin, which each version has its own of.
func (library) Admin(ctx context.Context, req agent.Request) (agent.Response, error) {
	switch req.Op {
	case agent.OpReset, agent.OpCommitted:
		return offsetsOfGroup(req)
	}
	admin, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": req.Bootstrap})
	if err != nil {
		return agent.Response{}, fmt.Errorf("admin client: %w", err)
	}
	defer admin.Close()
	switch req.Op {
	case agent.OpDelete:
		results, err := admin.DeleteTopics(ctx, []string{req.Topic})
		if err == nil && len(results) == 1 && results[0].Error.Code() != kafka.ErrNoError {
			err = results[0].Error
		}
		return agent.Response{}, coded(err)
	case agent.OpAlter:
		resource := kafka.ConfigResource{Type: kafka.ResourceTopic, Name: req.Topic, Config: kafka.StringMapToConfigEntries(req.Config, kafka.AlterOperationSet)}
		results, err := admin.AlterConfigs(ctx, []kafka.ConfigResource{resource})
		if err == nil && len(results) == 1 && results[0].Error.Code() != kafka.ErrNoError {
			err = results[0].Error
		}
		return agent.Response{}, coded(err)
	case agent.OpConfigs:
		results, err := admin.DescribeConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: req.Topic}})
		if err == nil && len(results) == 1 && results[0].Error.Code() != kafka.ErrNoError {
			err = results[0].Error
		}
		if err != nil {
			return agent.Response{}, coded(err)
		}
		values := map[string]string{}
		for name, entry := range results[0].Config {
			values[name] = entry.Value
		}
		return agent.Response{Values: values}, nil
	}
	return groupAdmin(ctx, admin, req)
}

// offsetsOfGroup reads or sets committed offsets, outside the group's membership.
func offsetsOfGroup(req agent.Request) (agent.Response, error) {
	c, err := kafka.NewConsumer(config(req, kafka.ConfigMap{"group.id": req.Group.ID, "enable.auto.commit": false}))
	if err != nil {
		return agent.Response{}, fmt.Errorf("consumer: %w", err)
	}
	defer func() { _ = c.Close() }() // it is no member
	var partitions []kafka.TopicPartition
	for _, p := range req.Assign {
		partitions = append(partitions, kafka.TopicPartition{Topic: &req.Topic, Partition: p, Offset: kafka.Offset(req.From)})
	}
	if req.Op == agent.OpReset {
		_, err := c.CommitOffsets(partitions)
		return agent.Response{}, coded(err)
	}
	committed, err := c.Committed(partitions, callTimeoutMS)
	if err != nil {
		return agent.Response{}, coded(err)
	}
	res := agent.Response{}
	for _, p := range committed {
		if p.Error != nil {
			return agent.Response{}, coded(p.Error)
		}
		if p.Offset == kafka.OffsetInvalid {
			p.Offset = -1
		}
		res.Offsets = append(res.Offsets, int64(p.Offset))
	}
	return res, nil
}
