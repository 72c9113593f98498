package kafkaproto

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// AlterPartitionReassignments, versions 0 and 1, flexible.
//
//	1  whether the replication factor may change (KIP-860)
//
// Rules: Kafka request rules 4.15. Null replicas cancel a running reassignment, of which there is never one: 85. To be where it is, is granted
// to a partition at once. A set with an unknown broker, one twice or none at all is INVALID_REPLICA_ASSIGNMENT (39).
//
// Different from Kafka: replicas are placed by the controller, so any other set is 39 as well, with a sentence. Kafka's right is on
// the cluster; here it is stream.manage on each topic.

var (
	errNothingToCancel = errcode.New(errcode.NoReassignmentInProgress, "no reassignment of the partition is running")
	errNotMoved        = errcode.New(errcode.InvalidReplicaAssignment, "the controller places replicas: those of an existing partition are not moved over the Kafka protocol")
)

func handleAlterPartitionReassignments(c *call) {
	req := c.req.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := c.response().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	resp.Topics = []kmsg.AlterPartitionAssignmentsResponseTopic{}
	if !c.caller().Known() {
		resp.ErrorCode, resp.ErrorMessage = c.describe(errNoTenant)
		c.reply(resp)
		return
	}
	view := c.view()
	for i := range req.Topics {
		asked := &req.Topics[i]
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = asked.Topic
		t, err := c.topic(view, asked.Topic, broker.StreamManage)
		for j := range asked.Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition = asked.Partitions[j].Partition
			outcome := err
			if err == nil {
				outcome = reassignment(view, t, p.Partition, asked.Partitions[j].Replicas)
			}
			p.ErrorCode, p.ErrorMessage = c.describe(outcome)
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	c.reply(resp)
}

// reassignment is how it ends: nil when the partition has these replicas.
func reassignment(view *cluster.Image, t *cluster.Topic, partition int32, replicas []int32) error {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return errNoPartition
	}
	if replicas == nil {
		return errNothingToCancel
	}
	if len(replicas) == 0 {
		return errcode.Newf(errcode.InvalidReplicaAssignment, "the list of replicas is empty")
	}
	want := placesOf(replicas)
	for i, b := range want {
		if _, known := view.Node(b); !known {
			return errcode.Newf(errcode.InvalidReplicaAssignment, "there is no broker %d", b)
		}
		if slices.Contains(want[:i], b) {
			return errcode.Newf(errcode.InvalidReplicaAssignment, "broker %d is named twice", b)
		}
	}
	if !slices.Equal(want, t.Partitions[partition].Replicas) {
		return errNotMoved
	}
	return nil
}
