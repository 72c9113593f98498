package node

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/kafkaproto"
)

// What the packages ask of each other, proved where they are wired.
var (
	_ groups.Shard      = groupShard{}
	_ kafkaproto.Groups = (*groups.Coordinator)(nil)
)

// groupShard is an internal shard as the coordinator of groups sees it.
type groupShard struct{ *broker.Shard }

// Append implements groups.Shard.
func (s groupShard) Append(batch []byte) (base, next ids.Offset, err error) {
	return s.AppendInternal(batch)
}

// Wait implements groups.Shard.
func (s groupShard) Wait(until ids.Offset, notify func(error)) {
	waiting, err := s.Shard.Wait(&broker.Waiter{Until: until, Notify: notify})
	if !waiting {
		notify(err)
	}
}

// ensureGroupsTopic makes the topic that groups are kept in, if there is none.
func (n *Node) ensureGroupsTopic(ctx context.Context) error {
	if n.controller.Image().TopicByID(cluster.GroupsTopicID) != nil {
		return nil
	}
	res, err := n.propose(ctx, cluster.CreateTopics{Topics: []cluster.NewTopic{cluster.GroupsTopic()}})
	if err == nil && len(res.Items) == 1 {
		err = res.Items[0].Err
	}
	if err != nil && errcode.Of(err) != errcode.TopicExists {
		return fmt.Errorf("create the topic of groups: %w", err)
	}
	return nil
}

// openGroups starts the coordinator of groups. It opens the shards that it needs, and answers calls about the others' groups meanwhile.
func (n *Node) openGroups(ctx context.Context, now func() time.Time) error {
	g := &n.config.Groups
	c, err := groups.New(groups.Options{
		Shard: n.groupShard, Image: n.broker.Image, HighWatermark: n.highWatermark,
		DefaultNamespace:  n.config.Kafka.DefaultNamespace,
		MinSessionTimeout: g.MinSessionTimeout, MaxSessionTimeout: g.MaxSessionTimeout,
		InitialRebalanceDelay: orNone(g.InitialRebalanceDelay),
		MaxGroupSize:          g.MaxSize, MaxGroups: g.MaxGroups,
		OffsetRetention: g.OffsetsRetention, OffsetMetadataMax: g.OffsetMetadataMax,
		CommitTimeout: g.OffsetsCommitTimeout, ExpiryInterval: g.OffsetsRetentionCheck,
		MaxLagSeries: orUnlimited(g.MaxLagSeries, -1),
		Logger:       n.parts, Registerer: n.registry, Now: now,
	})
	if err != nil {
		return fmt.Errorf("make coordinator of groups: %w", err)
	}
	if err := c.Start(ctx); err != nil {
		return fmt.Errorf("start coordinator of groups: %w", err)
	}
	n.groups = c
	return nil
}

// follow tells those who act on a change of the metadata by themselves of each newer image, until stopFollowing: the coordinator of groups
// first, so that whoever waits for a group of a tenant that went is answered before the connection is closed.
func (n *Node) follow(ctx context.Context) {
	follow, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.stopFollowing = cancel
	n.wg.Go(func() {
		for {
			changed := n.controller.Changed()
			img := n.controller.Image()
			if n.groups != nil {
				n.groups.Apply(img)
			}
			if n.kafka != nil {
				n.kafka.Apply(img)
			}
			select {
			case <-follow.Done():
				return
			case <-changed:
			}
		}
	})
}

// closeGroups ends the coordinator while the broker can still write: it comes before the clients are let go, because members that wait for
// others would otherwise be waited for.
func (n *Node) closeGroups(ctx context.Context) {
	if n.stopFollowing != nil {
		defer n.stopFollowing()
	}
	if n.groups == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.config.Groups.OffsetsCommitTimeout)
	defer cancel()
	if err := n.groups.Close(ctx); err != nil {
		n.logger.Warn("coordinator of groups closed with an error", zap.Error(err))
	}
}

// groupShard opens a shard of the groups' topic.
func (n *Node) groupShard(p int32) (groups.Shard, error) {
	t := n.broker.Image().TopicByID(cluster.GroupsTopicID)
	if t == nil {
		return nil, broker.ErrUnknownShard
	}
	s, err := n.broker.Shard(t, p)
	if err != nil {
		return nil, err
	}
	return groupShard{s}, nil
}

// highWatermark is that of a shard that is open here.
func (n *Node) highWatermark(t *cluster.Topic, partition int32) (ids.Offset, bool) {
	s := n.broker.OpenShard(t, partition)
	if s == nil {
		return 0, false
	}
	return s.Bounds().HighWatermark, true
}

// orNone turns a setting's 0, which is "none", into what an option says for that.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
