package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
)

// Heartbeat, versions 0 to 4.
//
//	1  throttle_time_ms
//	3  group instance id
//	4  flexible
//
// Rules: Kafka request rules 4.12.

func handleHeartbeat(c *call) {
	req := c.req.(*kmsg.HeartbeatRequest)
	resp := c.response().(*kmsg.HeartbeatResponse)
	key, err := c.group(req.Group, broker.GroupConsume)
	if err == nil {
		err = c.srv.opts.Groups.Heartbeat(key, req.MemberID, orEmpty(req.InstanceID), req.Generation)
	}
	resp.ErrorCode = c.code(err)
	c.reply(resp)
}
