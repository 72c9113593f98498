package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

// CreateDelegationToken and DescribeDelegationToken, versions 1 to 3; RenewDelegationToken and ExpireDelegationToken, 1 and 2.
//
//	2  flexible
//	3  owner and requester of a token (KIP-373)
//
// Rules: Kafka request rules 4.15. Kafka's delegation tokens do not exist here, and each request gets what Kafka answers while they are
// off: 61, or 64 on a listener without logins, which Kafka looks at first.

var (
	errTokensDisabled = errcode.New(errcode.DelegationTokensDisabled, "delegation tokens are not served")
	errTokensNoLogin  = errcode.New(errcode.DelegationTokenNotAllowed, "delegation tokens take a login")
)

func (c *call) tokenRefusal() error {
	if c.srv.opts.Verifier == nil {
		return errTokensNoLogin
	}
	return errTokensDisabled
}

func handleCreateDelegationToken(c *call) {
	resp := c.response().(*kmsg.CreateDelegationTokenResponse)
	resp.ErrorCode = c.code(c.tokenRefusal())
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp, resp.HMAC = -1, -1, -1, []byte{}
	c.reply(resp)
}

func handleRenewDelegationToken(c *call) {
	resp := c.response().(*kmsg.RenewDelegationTokenResponse)
	resp.ErrorCode, resp.ExpiryTimestamp = c.code(c.tokenRefusal()), -1
	c.reply(resp)
}

func handleExpireDelegationToken(c *call) {
	resp := c.response().(*kmsg.ExpireDelegationTokenResponse)
	resp.ErrorCode, resp.ExpiryTimestamp = c.code(c.tokenRefusal()), -1
	c.reply(resp)
}

func handleDescribeDelegationToken(c *call) {
	resp := c.response().(*kmsg.DescribeDelegationTokenResponse)
	resp.ErrorCode = c.code(c.tokenRefusal())
	resp.TokenDetails = []kmsg.DescribeDelegationTokenResponseTokenDetail{}
	c.reply(resp)
}
