package kafkaproto

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
)

// JoinGroup, versions 0 to 9.
//
//	1  rebalance timeout; before it the session timeout is taken for that as well
//	2  throttle_time_ms
//	4  MEMBER_ID_REQUIRED: a dynamic member without an id is told one, and comes again with it
//	5  group instance id: static members
//	6  flexible
//	7  protocol type in the answer; no protocol name beside an error
//	8  reason
//	9  skip_assignment
//
// Rules: Kafka request rules 4.12. The answer comes when the rebalance is over; meanwhile the connection goes on reading, and no
// goroutine waits. A member whose connection is lost stays in the group until its session ends. When the server closes, who still waits
// is told NOT_COORDINATOR and looks for the group's next coordinator.
//
// Different from Kafka: requests that a client sends behind one that waits are handled before its answer leaves, in which order they
// came; a protocol that is named twice counts as named first.

func handleJoinGroup(c *call) {
	req := c.req.(*kmsg.JoinGroupRequest)
	resp := c.response().(*kmsg.JoinGroupResponse)
	key, err := c.group(req.Group, broker.GroupConsume)
	if err != nil {
		c.joined(resp, &groups.JoinResult{Err: err})
		return
	}
	join := &groups.JoinRequest{
		Key: key, MemberID: req.MemberID, InstanceID: orEmpty(req.InstanceID),
		ClientID: string(c.client), ClientHost: c.clientHost(),
		SessionTimeout:    time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		RebalanceTimeout:  time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		ProtocolType:      req.ProtocolType,
		Protocols:         protocolsOf(req.Protocols),
		RequireMemberID:   c.version >= 4,
		CanSkipAssignment: c.version >= 9,
		Reason:            orEmpty(req.Reason),
	}
	if c.version < 1 {
		join.RebalanceTimeout = join.SessionTimeout
	}
	closing := &groups.JoinResult{Err: groups.ErrNotCoordinator, MemberID: req.MemberID}
	done := answerLater(c, closing, func(c *call, res *groups.JoinResult) { c.joined(resp, res) })
	c.srv.opts.Groups.Join(join, done)
}

// clientHost is the client's address as Kafka's tools show it.
func (c *call) clientHost() string { return "/" + c.conn.addr.String() }

// protocolsOf keeps each name once.
func protocolsOf(list []kmsg.JoinGroupRequestProtocol) []groups.Protocol {
	out := make([]groups.Protocol, 0, len(list))
	seen := make(map[string]struct{}, len(list))
	for i := range list {
		if _, again := seen[list[i].Name]; again {
			continue
		}
		seen[list[i].Name] = struct{}{}
		out = append(out, groups.Protocol{Name: list[i].Name, Metadata: list[i].Metadata})
	}
	return out
}

func (c *call) joined(resp *kmsg.JoinGroupResponse, res *groups.JoinResult) {
	resp.MemberID = res.MemberID
	resp.Members = []kmsg.JoinGroupResponseMember{}
	if res.Err != nil {
		resp.ErrorCode = c.code(res.Err)
		resp.Generation = -1
		c.reply(resp)
		return
	}
	resp.Generation, resp.LeaderID, resp.SkipAssignment = res.Generation, res.Leader, res.SkipAssignment
	resp.ProtocolType, resp.Protocol = &res.ProtocolType, &res.Protocol
	for i := range res.Members {
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID, m.InstanceID = res.Members[i].MemberID, nullable(res.Members[i].InstanceID)
		m.ProtocolMetadata = res.Members[i].Metadata
		resp.Members = append(resp.Members, m)
	}
	c.replyCharged(resp)
}
