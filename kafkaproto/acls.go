package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

// DescribeAcls, CreateAcls and DeleteAcls, versions 1 to 3.
//
//	1  pattern types
//	2  flexible
//	3  the resource type of users (delegation tokens)
//
// Rules: Kafka request rules 4.15. There is no authorizer that these could reach: rights come with the login. Each answers what Kafka
// without an authorizer does, SECURITY_DISABLED, one for each creation or filter.

var errNoAuthorizer = errcode.New(errcode.SecurityDisabled, "no authorizer is configured: rights come with the login and are not changed over the Kafka protocol")

func handleDescribeACLs(c *call) {
	resp := c.response().(*kmsg.DescribeACLsResponse)
	resp.Resources = []kmsg.DescribeACLsResponseResource{}
	resp.ErrorCode, resp.ErrorMessage = c.describe(errNoAuthorizer)
	c.reply(resp)
}

func handleCreateACLs(c *call) {
	resp := c.response().(*kmsg.CreateACLsResponse)
	resp.Results = make([]kmsg.CreateACLsResponseResult, len(c.req.(*kmsg.CreateACLsRequest).Creations))
	for i := range resp.Results {
		resp.Results[i].Default()
		resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = c.describe(errNoAuthorizer)
	}
	c.reply(resp)
}

func handleDeleteACLs(c *call) {
	resp := c.response().(*kmsg.DeleteACLsResponse)
	resp.Results = make([]kmsg.DeleteACLsResponseResult, len(c.req.(*kmsg.DeleteACLsRequest).Filters))
	for i := range resp.Results {
		r := &resp.Results[i]
		r.Default()
		r.MatchingACLs = []kmsg.DeleteACLsResponseResultMatchingACL{}
		r.ErrorCode, r.ErrorMessage = c.describe(errNoAuthorizer)
	}
	c.reply(resp)
}
