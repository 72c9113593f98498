package kafkaproto

import "github.com/twmb/franz-go/pkg/kmsg"

// ListPartitionReassignments, version 0.
//
// Rules: Kafka request rules 4.15. Only running reassignments are listed, and none ever runs: see AlterPartitionReassignments. Topics that
// are asked for and do not exist are left out, as in Kafka.

func handleListPartitionReassignments(c *call) {
	resp := c.response().(*kmsg.ListPartitionReassignmentsResponse)
	resp.Topics = []kmsg.ListPartitionReassignmentsResponseTopic{}
	if !c.caller().Known() {
		resp.ErrorCode, resp.ErrorMessage = c.describe(errNoTenant)
	}
	c.reply(resp)
}
