package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/clients/agent"
)

var _ agent.GroupLibrary = franz{}

// Member polls and commits in one goroutine. Rebalances wait for the end of each poll's records, so that none is handed out after
// its partition is given up.
func (franz) Member(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	g := req.Group
	owner := agent.NewOwner(emit)
	revoked := func(_ context.Context, cl *kgo.Client, gone map[string][]int32) {
		// With a callback of one's own, committing before partitions go is one's own affair too, also when commits are automatic.
		_ = cl.CommitUncommittedOffsets(context.WithoutCancel(ctx))
		if partitions := gone[req.Topic]; len(partitions) > 0 && ctx.Err() == nil {
			owner.Revoked(slices.Clone(partitions)...)
		}
	}
	lost := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
		if partitions := gone[req.Topic]; len(partitions) > 0 && ctx.Err() == nil {
			owner.Revoked(slices.Clone(partitions)...)
		}
	}
	opts := []kgo.Opt{
		kgo.ClientID("franz-go-compat"), kgo.ConsumerGroup(g.ID), kgo.ConsumeTopics(req.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsRevoked(revoked), kgo.OnPartitionsLost(lost),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			owner.Assigned(slices.Clone(got[req.Topic])...)
		}),
	}
	if g.Commit {
		opts = append(opts, kgo.DisableAutoCommit())
	}
	switch g.Assignor {
	case "":
	case agent.Range:
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	case agent.CooperativeSticky:
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	default:
		return fmt.Errorf("assignor %s: %w", g.Assignor, agent.ErrUnsupported)
	}
	if g.Instance != "" {
		opts = append(opts, kgo.InstanceID(g.Instance))
	}
	if g.SessionMS != 0 {
		session := time.Duration(g.SessionMS) * time.Millisecond
		opts = append(opts, kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/10), kgo.RebalanceTimeout(session))
	}
	cl, err := dial(req, opts...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		// Errors of a broker that is away are retried by the library.
		fetches.EachRecord(func(r *kgo.Record) { owner.Record(record(r)) })
		if g.Commit && fetches.NumRecords() > 0 {
			// A commit that a rebalance overtook is the next owner's to make again.
			_ = cl.CommitUncommittedOffsets(ctx)
		}
		cl.AllowRebalance()
	}
	owner.RevokedAll()
	cl.CloseAllowingRebalance()
	return nil
}

// Admin does one operation with kadm.
func (franz) Admin(ctx context.Context, req agent.Request) (res agent.Response, err error) {
	cl, err := dial(req)
	if err != nil {
		return res, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	group := req.Group.ID
	switch req.Op {
	case agent.OpDelete:
		var deleted kadm.DeleteTopicResponse
		if deleted, err = adm.DeleteTopic(ctx, req.Topic); err == nil {
			err = deleted.Err
		}
	case agent.OpAlter:
		var configs []kadm.AlterConfig
		for name, value := range req.Config {
			configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
		}
		var altered kadm.AlterConfigsResponses
		altered, err = adm.AlterTopicConfigs(ctx, configs, req.Topic)
		for _, r := range altered {
			err = errors.Join(err, r.Err)
		}
	case agent.OpConfigs:
		var described kadm.ResourceConfigs
		described, err = adm.DescribeTopicConfigs(ctx, req.Topic)
		res.Values = map[string]string{}
		for _, r := range described {
			err = errors.Join(err, r.Err)
			for _, c := range r.Configs {
				res.Values[c.Key] = c.MaybeValue()
			}
		}
	case agent.OpGroups:
		var listed kadm.ListedGroups
		listed, err = adm.ListGroups(ctx)
		for _, g := range listed.Sorted() {
			res.Groups = append(res.Groups, agent.GroupInfo{ID: g.Group, State: g.State})
		}
	case agent.OpDescribe:
		var described kadm.DescribedGroups
		described, err = adm.DescribeGroups(ctx, group)
		for _, g := range described.Sorted() {
			info := agent.GroupInfo{ID: g.Group, State: g.State}
			for _, m := range g.Members {
				info.Members = append(info.Members, m.ClientID)
			}
			res.Groups = append(res.Groups, info)
			err = errors.Join(err, g.Err)
		}
	case agent.OpDeleteGroup:
		var deleted kadm.DeleteGroupResponse
		if deleted, err = adm.DeleteGroup(ctx, group); err == nil {
			err = deleted.Err
		}
	case agent.OpReset:
		offsets := kadm.Offsets{}
		for _, p := range req.Assign {
			offsets.AddOffset(req.Topic, p, req.From, -1)
		}
		err = adm.CommitAllOffsets(ctx, group, offsets)
	case agent.OpCommitted:
		var found kadm.OffsetResponses
		found, err = adm.FetchOffsets(ctx, group)
		for _, p := range req.Assign {
			offset := int64(-1)
			if o, ok := found.Lookup(req.Topic, p); ok {
				offset = o.At
			}
			res.Offsets = append(res.Offsets, offset)
		}
	default:
		err = agent.ErrUnsupported
	}
	return res, coded(err)
}
