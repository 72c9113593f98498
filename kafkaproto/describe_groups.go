package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/errcode"
)

// DescribeGroups, versions 0 to 6.
//
//	1  throttle_time_ms
//	3  authorized operations
//	4  group instance ids
//	5  flexible
//	6  GROUP_ID_NOT_FOUND and a message for a group that does not exist; before it a group without an error in the state Dead
//
// Rules: Kafka request rules 4.12. The protocol, and the metadata and assignments of members, are told of a stable group only.
//
// Different from Kafka: a group that is named twice is answered once, so that an answer is no larger than what is stored. Of the rights
// on a group those on its configuration are never shown: groups have none here.

// stateDead is the state of a group that is not there.
const stateDead = "Dead"

func handleDescribeGroups(c *call) {
	req := c.req.(*kmsg.DescribeGroupsRequest)
	resp := c.response().(*kmsg.DescribeGroupsResponse)
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, 0, len(req.Groups))
	seen := make(map[string]struct{}, len(req.Groups))
	for _, name := range req.Groups {
		if _, again := seen[name]; again {
			continue
		}
		seen[name] = struct{}{}
		out := c.describedGroup(name)
		if out.AuthorizedOperations = noOperations; req.IncludeAuthorizedOperations && out.ErrorCode == 0 {
			out.AuthorizedOperations = groupOperations(c.caller(), name)
		}
		resp.Groups = append(resp.Groups, out)
	}
	c.replyCharged(resp)
}

func (c *call) describedGroup(name string) kmsg.DescribeGroupsResponseGroup {
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group = name
	out.Members = []kmsg.DescribeGroupsResponseGroupMember{}
	key, err := c.group(name, broker.GroupConsume)
	if err != nil {
		out.ErrorCode, out.ErrorMessage = c.describe(err)
		return out
	}
	d, err := c.srv.opts.Groups.Describe(key)
	if errcode.Of(err) == errcode.GroupIDNotFound {
		out.State = stateDead
		if c.version >= 6 {
			out.ErrorCode, out.ErrorMessage = c.describe(err)
		}
		return out
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = c.describe(err)
		return out
	}
	out.State, out.ProtocolType, out.Protocol = d.State, d.ProtocolType, d.Protocol
	for i := range d.Members {
		from := &d.Members[i]
		m := kmsg.NewDescribeGroupsResponseGroupMember()
		m.MemberID, m.InstanceID, m.ClientID, m.ClientHost = from.MemberID, nullable(from.InstanceID), from.ClientID, from.ClientHost
		m.ProtocolMetadata, m.MemberAssignment = from.Metadata, from.Assignment
		out.Members = append(out.Members, m)
	}
	return out
}

// groupOperations are the operations on a group that the caller's rights amount to.
func groupOperations(caller *Caller, name string) int32 {
	var ops int32
	if caller.AllowedGroup(broker.GroupConsume, name) {
		ops |= opRead | opDescribe
	}
	if caller.AllowedGroup(broker.GroupManage, name) {
		ops |= opDelete | opDescribe
	}
	return ops
}
