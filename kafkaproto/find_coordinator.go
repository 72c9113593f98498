package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

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
// Different from Kafka: there are no groups and no transactions yet. The API is served to say so: left out, clients wait for a
// coordinator without a word. Groups get GROUP_AUTHORIZATION_FAILED (30), transactional ids
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53), both with a sentence and both final for the client.

var (
	errNoGroups = errcode.New(errcode.UnauthorizedGroup,
		"this server does not serve consumer groups yet: assign partitions by hand, without a group id")
	errKeyType = errcode.New(errcode.InvalidRequest, "unknown type of coordinator key")
)

func handleFindCoordinator(c *call) {
	req := c.req.(*kmsg.FindCoordinatorRequest)
	resp := c.response().(*kmsg.FindCoordinatorResponse)
	code, text := c.describe(coordinatorRefusal(req.CoordinatorType, c.version))
	if c.version < 4 {
		resp.ErrorCode, resp.ErrorMessage = code, text
		resp.NodeID, resp.Port = -1, -1
		c.reply(resp)
		return
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, 0, len(req.CoordinatorKeys))
	for _, key := range req.CoordinatorKeys {
		out := kmsg.NewFindCoordinatorResponseCoordinator()
		out.Key, out.ErrorCode, out.ErrorMessage = key, code, text
		out.NodeID, out.Port = -1, -1
		resp.Coordinators = append(resp.Coordinators, out)
	}
	c.reply(resp)
}

func coordinatorRefusal(keyType int8, version int16) error {
	switch {
	case keyType == 0, keyType == 2 && version >= 6:
		return errNoGroups
	case keyType == 1:
		return errNoTransactions
	default:
		return errKeyType
	}
}
