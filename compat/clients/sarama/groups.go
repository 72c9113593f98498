package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/felixlog/felix/compat/clients/agent"
)

// member is one group member; its methods are the callbacks of the library's group consumer.
type member struct {
	req   agent.Request
	owner *agent.Owner
}

// Setup tells of the session's partitions.
func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.owner.Assigned(s.Claims()[m.req.Topic]...)
	return nil
}

// Cleanup runs when no claim is consumed any more and before the member joins again.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.owner.RevokedAll()
	return nil
}

// ConsumeClaim runs for each partition in a goroutine of its own.
func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			m.owner.Record(record(message))
			s.MarkMessage(message, "")
			if m.req.Group.Commit {
				s.Commit()
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

// Member consumes session after session, as the library's users do.
func (library) Member(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	c, err := config(req)
	if err != nil {
		return err
	}
	g := req.Group
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = !g.Commit
	c.Consumer.Group.InstanceId = g.Instance
	switch g.Assignor {
	case "":
	case agent.Range:
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	default:
		return fmt.Errorf("assignor %s: %w", g.Assignor, agent.ErrUnsupported)
	}
	if g.SessionMS != 0 {
		c.Consumer.Group.Session.Timeout = time.Duration(g.SessionMS) * time.Millisecond
		c.Consumer.Group.Heartbeat.Interval = c.Consumer.Group.Session.Timeout / 10
		c.Consumer.Group.Rebalance.Retry.Backoff = 200 * time.Millisecond
	}
	group, err := sarama.NewConsumerGroup([]string{req.Bootstrap}, g.ID, c)
	if err != nil {
		return coded(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range group.Errors() { // errors of a broker that is away; the next session comes round
		}
	}()
	m := &member{req: req, owner: agent.NewOwner(emit)}
	for ctx.Err() == nil {
		// A failed session (the broker is away) is followed by another, not before a short pause.
		if err := group.Consume(ctx, []string{req.Topic}, m); err != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	m.owner.RevokedAll()
	err = group.Close()
	<-drained
	return coded(err)
}

// Admin does one operation with the admin client.
func (library) Admin(_ context.Context, req agent.Request) (res agent.Response, err error) {
	cl, err := client(req, true)
	if err != nil {
		return res, err
	}
	admin, err := sarama.NewClusterAdminFromClient(cl)
	if err != nil {
		return res, errors.Join(coded(err), cl.Close())
	}
	defer func() { _ = admin.Close() }() // nothing is pending
	switch req.Op {
	case agent.OpDelete:
		err = admin.DeleteTopic(req.Topic)
	case agent.OpAlter:
		entries := map[string]sarama.IncrementalAlterConfigsEntry{}
		for name, value := range pointers(req.Config) {
			entries[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: value}
		}
		err = admin.IncrementalAlterConfig(sarama.TopicResource, req.Topic, entries, false)
	case agent.OpConfigs:
		var described []*sarama.ConfigResourceResult
		described, err = admin.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: req.Topic}}, sarama.DescribeConfigsOptions{})
		res.Values = map[string]string{}
		for _, resource := range described {
			for _, e := range resource.Configs {
				res.Values[e.Name] = e.Value
			}
		}
	case agent.OpGroups:
		var groups map[string]string
		groups, err = admin.ListConsumerGroups()
		for id := range groups {
			res.Groups = append(res.Groups, agent.GroupInfo{ID: id})
		}
	case agent.OpDescribe:
		var groups []*sarama.GroupDescription
		groups, err = admin.DescribeConsumerGroups([]string{req.Group.ID})
		for _, g := range groups {
			info := agent.GroupInfo{ID: g.GroupId, State: g.State}
			for _, m := range g.Members {
				info.Members = append(info.Members, m.ClientId)
			}
			res.Groups = append(res.Groups, info)
		}
	case agent.OpDeleteGroup:
		err = admin.DeleteConsumerGroup(req.Group.ID)
	case agent.OpReset:
		err = reset(admin, req)
	case agent.OpCommitted:
		res.Offsets, err = committed(admin, req)
	default:
		err = agent.ErrUnsupported
	}
	return res, coded(err)
}

func reset(admin sarama.ClusterAdmin, req agent.Request) error {
	offsets := map[int32]sarama.OffsetAndMetadata{}
	for _, p := range req.Assign {
		offsets[p] = sarama.OffsetAndMetadata{Offset: req.From, LeaderEpoch: -1}
	}
	answer, err := admin.AlterConsumerGroupOffsets(req.Group.ID, map[string]map[int32]sarama.OffsetAndMetadata{req.Topic: offsets}, nil)
	if err != nil {
		return err
	}
	for _, partitions := range answer.Errors {
		for _, code := range partitions {
			if code != sarama.ErrNoError {
				return code
			}
		}
	}
	return nil
}

func committed(admin sarama.ClusterAdmin, req agent.Request) ([]int64, error) {
	answer, err := admin.ListConsumerGroupOffsets(req.Group.ID, map[string][]int32{req.Topic: req.Assign})
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, p := range req.Assign {
		block := answer.GetBlock(req.Topic, p)
		if block == nil {
			return nil, errNoAnswer
		}
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		out = append(out, block.Offset)
	}
	return out, nil
}
