package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/felixlog/felix/compat/clients/agent"
)

// Member uses the library's ConsumerGroup, on which its group Reader is built: that one does not tell what it owns. It commits what
// it has read even when the request leaves that to the library, since a ConsumerGroup commits nothing by itself.
func (library) Member(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	g := req.Group
	if g.Instance != "" {
		return fmt.Errorf("static members: %w", agent.ErrUnsupported)
	}
	c := kafka.ConsumerGroupConfig{
		ID: g.ID, Brokers: []string{req.Bootstrap}, Topics: []string{req.Topic}, StartOffset: kafka.FirstOffset, Dialer: dialer(),
		Timeout: 20 * time.Second, ErrorLogger: kafka.LoggerFunc(complain),
	}
	switch g.Assignor {
	case "":
	case agent.Range:
		c.GroupBalancers = []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}
	default:
		return fmt.Errorf("assignor %s: %w", g.Assignor, agent.ErrUnsupported)
	}
	if g.SessionMS != 0 {
		c.SessionTimeout = time.Duration(g.SessionMS) * time.Millisecond
		c.HeartbeatInterval = c.SessionTimeout / 10
		c.JoinGroupBackoff = 200 * time.Millisecond
	}
	group, err := kafka.NewConsumerGroup(c)
	if err != nil {
		return err
	}
	owner := agent.NewOwner(emit)
	for ctx.Err() == nil {
		gen, err := group.Next(ctx)
		if err != nil {
			if errors.Is(err, kafka.ErrGroupClosed) {
				break
			}
			// A coordinator that is away is asked again by the library.
			if ctx.Err() == nil {
				complain("next generation: %v", err)
			}
			continue
		}
		generation(gen, req, owner)
	}
	return group.Close()
}

// generation starts the reading of a generation's partitions; the library waits for all of it before it joins again or leaves.
func generation(gen *kafka.Generation, req agent.Request, owner *agent.Owner) {
	var partitions []int32
	for _, a := range gen.Assignments[req.Topic] {
		partitions = append(partitions, int32(a.ID))
	}
	owner.Assigned(partitions...)
	gen.Start(func(ctx context.Context) {
		var wg sync.WaitGroup
		for _, a := range gen.Assignments[req.Topic] {
			wg.Go(func() { consume(ctx, gen, req, int32(a.ID), a.Offset, owner) })
		}
		<-ctx.Done()
		wg.Wait()
		owner.RevokedAll()
	})
}

// consume reads one partition until its generation ends.
func consume(ctx context.Context, gen *kafka.Generation, req agent.Request, partition int32, from int64, owner *agent.Owner) {
	r, err := reader(req, partition, from, 200*time.Millisecond)
	if err != nil {
		return // SetOffset of a new reader fails only once it is closed
	}
	defer func() { _ = r.Close() }() // what was read is committed
	read(ctx, r, func(m kafka.Message) {
		owner.Record(record(m))
		// A commit that a rebalance overtook is the next owner's to make again.
		_ = gen.CommitOffsets(map[string]map[int]int64{req.Topic: {m.Partition: m.Offset + 1}})
	})
}

// Admin does one operation with the request client.
func (library) Admin(ctx context.Context, req agent.Request) (res agent.Response, err error) {
	cl, end := client(req)
	defer end()
	switch req.Op {
	case agent.OpDelete:
		var deleted *kafka.DeleteTopicsResponse
		if deleted, err = cl.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{req.Topic}}); err == nil {
			err = deleted.Errors[req.Topic]
		}
	case agent.OpAlter, agent.OpConfigs:
		res.Values, err = configs(ctx, cl, req)
	case agent.OpGroups:
		var listed *kafka.ListGroupsResponse
		if listed, err = cl.ListGroups(ctx, &kafka.ListGroupsRequest{}); err != nil {
			break
		}
		for _, g := range listed.Groups {
			res.Groups = append(res.Groups, agent.GroupInfo{ID: g.GroupID})
		}
		err = listed.Error
	case agent.OpDescribe:
		res.Groups, err = describe(ctx, cl, req.Group.ID)
	case agent.OpDeleteGroup:
		var deleted *kafka.DeleteGroupsResponse
		if deleted, err = cl.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{req.Group.ID}}); err == nil {
			err = deleted.Errors[req.Group.ID]
		}
	case agent.OpReset:
		err = reset(ctx, cl, req)
	case agent.OpCommitted:
		res.Offsets, err = committed(ctx, cl, req)
	default:
		err = agent.ErrUnsupported
	}
	return res, coded(err)
}

// describe asks for one group. The library decodes its members' subscriptions and fails at those newer than version 1, such as
// franz-go's.
func describe(ctx context.Context, cl *kafka.Client, id string) ([]agent.GroupInfo, error) {
	described, err := cl.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{id}})
	if err != nil {
		return nil, err
	}
	var groups []agent.GroupInfo
	for _, g := range described.Groups {
		info := agent.GroupInfo{ID: g.GroupID, State: g.GroupState}
		for _, m := range g.Members {
			info.Members = append(info.Members, m.ClientID)
		}
		groups = append(groups, info)
		err = errors.Join(err, g.Error)
	}
	return groups, err
}

func configs(ctx context.Context, cl *kafka.Client, req agent.Request) (map[string]string, error) {
	if req.Op == agent.OpAlter {
		resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: req.Topic}
		for name, value := range req.Config {
			resource.Configs = append(resource.Configs, kafka.IncrementalAlterConfigsRequestConfig{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet})
		}
		altered, err := cl.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{resource}})
		if err != nil {
			return nil, err
		}
		for _, r := range altered.Resources {
			err = errors.Join(err, r.Error)
		}
		return nil, err
	}
	described, err := cl.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: req.Topic},
	}})
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, r := range described.Resources {
		for _, e := range r.ConfigEntries {
			values[e.ConfigName] = e.ConfigValue
		}
		err = errors.Join(err, r.Error)
	}
	return values, err
}

func reset(ctx context.Context, cl *kafka.Client, req agent.Request) error {
	var commits []kafka.OffsetCommit
	for _, p := range req.Assign {
		commits = append(commits, kafka.OffsetCommit{Partition: int(p), Offset: req.From})
	}
	answer, err := cl.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: req.Group.ID, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{req.Topic: commits},
	})
	if err != nil {
		return err
	}
	for _, p := range answer.Topics[req.Topic] {
		err = errors.Join(err, p.Error)
	}
	return err
}

func committed(ctx context.Context, cl *kafka.Client, req agent.Request) ([]int64, error) {
	var partitions []int
	for _, p := range req.Assign {
		partitions = append(partitions, int(p))
	}
	answer, err := cl.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: req.Group.ID, Topics: map[string][]int{req.Topic: partitions}})
	if err != nil {
		return nil, err
	}
	err = answer.Error
	byPartition := map[int]int64{}
	for _, p := range answer.Topics[req.Topic] {
		byPartition[p.Partition] = p.CommittedOffset
		err = errors.Join(err, p.Error)
	}
	var out []int64
	for _, p := range partitions {
		offset, ok := byPartition[p]
		if !ok {
			return nil, errors.Join(err, fmt.Errorf("no answer for partition %d", p))
		}
		out = append(out, offset)
	}
	return out, err
}
