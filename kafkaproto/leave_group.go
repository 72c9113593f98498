package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
)

// LeaveGroup, versions 0 to 5.
//
//	1  throttle_time_ms
//	3  any number of members, each by member id or by instance id, an error each; before it one, whose error is the answer's
//	4  flexible
//	5  reason
//
// Rules: Kafka request rules 4.12.

func handleLeaveGroup(c *call) {
	req := c.req.(*kmsg.LeaveGroupRequest)
	resp := c.response().(*kmsg.LeaveGroupResponse)
	key, err := c.group(req.Group, broker.GroupConsume)
	if err != nil {
		resp.ErrorCode = c.code(err)
		c.reply(resp)
		return
	}
	members := []groups.Leaving{{MemberID: req.MemberID}}
	if c.version >= 3 {
		members = make([]groups.Leaving, 0, len(req.Members))
		for i := range req.Members {
			m := &req.Members[i]
			members = append(members, groups.Leaving{MemberID: m.MemberID, InstanceID: orEmpty(m.InstanceID), Reason: orEmpty(m.Reason)})
		}
	}
	done := answerLater(c, outcome{err: groups.ErrNotCoordinator}, func(c *call, res outcome) { c.left(resp, members, res) })
	c.srv.opts.Groups.Leave(key, members, func(err error, each []error) { done(outcome{err, each}) })
}

func (c *call) left(resp *kmsg.LeaveGroupResponse, members []groups.Leaving, res outcome) {
	switch {
	case res.err != nil:
		resp.ErrorCode = c.code(res.err)
	case c.version < 3:
		resp.ErrorCode = c.code(res.of(0))
	default:
		resp.Members = make([]kmsg.LeaveGroupResponseMember, 0, len(members))
		for i := range members {
			m := kmsg.NewLeaveGroupResponseMember()
			m.MemberID, m.InstanceID = members[i].MemberID, nullable(members[i].InstanceID)
			m.ErrorCode = c.code(res.of(i))
			resp.Members = append(resp.Members, m)
		}
	}
	c.reply(resp)
}
