package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// FindCoordinator, versions 0 to 6.
//
//	1  key type (0 group, 1 transactional id), error message
//	3  flexible
//	4  several keys a request, an answer each
//	5  TRANSACTION_ABORTABLE
//	6  key type 2: share group partitions
//
// Rules: Kafka request rules 4.12. A group's coordinator is the leader of its shard of the internal topic, as this node's view of the
// cluster has it. Whoever may use or manage a group may ask; the empty name is a group like others.
//
// Different from Kafka: there are no transactions and no share groups yet, and groups may be off. The API then says so: left out, clients
// wait for a coordinator without a word. Groups get GROUP_AUTHORIZATION_FAILED (30), transactional ids
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53), both with a sentence and both final for the client.

var (
	errNoGroups = errcode.New(errcode.UnauthorizedGroup,
		"this server does not serve consumer groups: assign partitions by hand, without a group id")
	errNoShareGroups = errcode.New(errcode.UnauthorizedGroup, "this server does not serve share groups yet: use a consumer group")
	errKeyType       = errcode.New(errcode.InvalidRequest, "unknown type of coordinator key")
	errNoCoordinator = errcode.New(errcode.CoordinatorNotAvailable, "the group's shard has no leader that clients can reach now")
)

func handleFindCoordinator(c *call) {
	req := c.req.(*kmsg.FindCoordinatorRequest)
	resp := c.response().(*kmsg.FindCoordinatorResponse)
	view := c.view()
	if c.version < 4 {
		found := c.coordinator(view, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = found.ErrorCode, found.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = found.NodeID, found.Host, found.Port
		c.reply(resp)
		return
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, 0, len(req.CoordinatorKeys))
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, c.coordinator(view, req.CoordinatorType, key))
	}
	c.reply(resp)
}

// coordinator answers for one key.
func (c *call) coordinator(view *cluster.Image, keyType int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key, out.NodeID, out.Port = key, -1, -1
	n, err := c.findCoordinator(view, keyType, key)
	if err != nil {
		out.ErrorCode, out.ErrorMessage = c.describe(err)
		return out
	}
	out.NodeID, out.Host, out.Port = int32(n.Broker), n.KafkaHost, n.KafkaPort
	return out
}

func (c *call) findCoordinator(view *cluster.Image, keyType int8, key string) (cluster.Node, error) {
	switch {
	case keyType == 0:
		return c.findGroup(view, key)
	case keyType == 1:
		return cluster.Node{}, errNoTransactions
	case keyType == 2 && c.version >= 6 && c.srv.opts.Groups == nil:
		return cluster.Node{}, errNoGroups
	case keyType == 2 && c.version >= 6:
		return cluster.Node{}, errNoShareGroups
	default:
		return cluster.Node{}, errKeyType
	}
}

func (c *call) findGroup(view *cluster.Image, name string) (cluster.Node, error) {
	if c.srv.opts.Groups == nil {
		return cluster.Node{}, errNoGroups
	}
	key, err := c.group(name, broker.GroupConsume, broker.GroupManage)
	if err != nil {
		return cluster.Node{}, err
	}
	t := view.TopicByID(cluster.GroupsTopicID)
	p := c.srv.opts.Groups.ShardOf(key)
	if t == nil || p < 0 || int(p) >= len(t.Partitions) {
		return cluster.Node{}, errNoCoordinator
	}
	n, known := view.Node(t.Partitions[p].Leader)
	if !known || !n.Live || n.KafkaHost == "" {
		return cluster.Node{}, errNoCoordinator
	}
	return n, nil
}
