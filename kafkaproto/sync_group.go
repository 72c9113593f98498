package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
)

// SyncGroup, versions 0 to 5.
//
//	1  throttle_time_ms
//	3  group instance id
//	4  flexible
//	5  protocol type and name, in both directions; the request must have them
//
// Rules: Kafka request rules 4.12. The answer comes when the leader has brought the assignments and they are durable; waiting is as for
// JoinGroup.

func handleSyncGroup(c *call) {
	req := c.req.(*kmsg.SyncGroupRequest)
	resp := c.response().(*kmsg.SyncGroupResponse)
	protocolType, protocol := orEmpty(req.ProtocolType), orEmpty(req.Protocol)
	key, err := c.group(req.Group, broker.GroupConsume)
	if err == nil && c.version >= 5 && (protocolType == "" || protocol == "") {
		err = groups.ErrInconsistentProtocol
	}
	if err != nil {
		c.synced(resp, &groups.SyncResult{Err: err})
		return
	}
	sync := &groups.SyncRequest{
		Key: key, MemberID: req.MemberID, InstanceID: orEmpty(req.InstanceID), Generation: req.Generation,
		ProtocolType: protocolType, Protocol: protocol,
		Assignments: make([]groups.Assignment, 0, len(req.GroupAssignment)),
	}
	for i := range req.GroupAssignment {
		a := &req.GroupAssignment[i]
		sync.Assignments = append(sync.Assignments, groups.Assignment{MemberID: a.MemberID, Bytes: a.MemberAssignment})
	}
	closing := &groups.SyncResult{Err: groups.ErrNotCoordinator}
	done := answerLater(c, closing, func(c *call, res *groups.SyncResult) { c.synced(resp, res) })
	c.srv.opts.Groups.Sync(sync, done)
}

func (c *call) synced(resp *kmsg.SyncGroupResponse, res *groups.SyncResult) {
	if res.Err != nil {
		resp.ErrorCode = c.code(res.Err)
		c.reply(resp)
		return
	}
	resp.ProtocolType, resp.Protocol = &res.ProtocolType, &res.Protocol
	resp.MemberAssignment = res.Assignment
	c.replyCharged(resp)
}
