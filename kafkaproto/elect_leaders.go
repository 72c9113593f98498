package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// ElectLeaders, versions 0 to 2.
//
//	1  election types: 0 the preferred replica, 1 unclean; a top-level error
//	2  flexible
//
// Rules: Kafka request rules 4.15. A partition that is led as asked for is ELECTION_NOT_NEEDED (84). Null for the topics means every
// partition of the caller, and then those are not listed, while their topics are: without partitions, as Kafka has it.
//
// Different from Kafka: leaders are named by the controller alone, so that an election that would be needed is refused: 80 for the preferred
// replica, 83 for an unclean one. Kafka's right is on the cluster; here it is stream.manage on each topic.

const (
	preferredElection int8 = 0
	uncleanElection   int8 = 1
)

var (
	errElectionNotNeeded = errcode.New(errcode.ElectionNotNeeded, "the partition has the leader that was asked for")
	errNoPreferred       = errcode.New(errcode.PreferredLeaderNotAvailable, "the controller names leaders: it makes the preferred replica leader when it may")
	errNoEligible        = errcode.New(errcode.EligibleLeadersNotAvailable, "no replica may lead without losing records")
)

func handleElectLeaders(c *call) {
	req := c.req.(*kmsg.ElectLeadersRequest)
	resp := c.response().(*kmsg.ElectLeadersResponse)
	resp.Topics = []kmsg.ElectLeadersResponseTopic{}
	switch {
	case !c.caller().Known():
		resp.ErrorCode = c.code(errNoTenant)
	case req.ElectionType != preferredElection && req.ElectionType != uncleanElection:
		resp.ErrorCode = c.kindCode(errcode.InvalidRequest)
	case req.Topics == nil:
		c.electAll(req.ElectionType, resp)
	default:
		view := c.view()
		for i := range req.Topics {
			out := kmsg.NewElectLeadersResponseTopic()
			out.Topic = req.Topics[i].Topic
			t, err := c.topic(view, out.Topic, broker.StreamManage)
			for _, p := range req.Topics[i].Partitions {
				outcome := err
				if err == nil {
					outcome = election(view, t, p, req.ElectionType)
				}
				out.Partitions = append(out.Partitions, c.elected(p, outcome))
			}
			resp.Topics = append(resp.Topics, out)
		}
	}
	c.reply(resp)
}

// electAll answers for every topic that the caller may manage, with those of its partitions that lack the leader asked for.
func (c *call) electAll(kind int8, resp *kmsg.ElectLeadersResponse) {
	view := c.view()
	view.TopicsOf(c.caller().Tenant, func(t *cluster.Topic) bool {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic, out.Partitions = c.srv.names.join(t.Namespace, t.Name), []kmsg.ElectLeadersResponseTopicPartition{}
		if out.Topic == "" || !visible(t) || !c.caller().Allowed(broker.StreamManage, t.Namespace, t.Name) {
			return true
		}
		for p := range t.Partitions {
			if err := election(view, t, int32(p), kind); errcode.Of(err) != errcode.ElectionNotNeeded {
				out.Partitions = append(out.Partitions, c.elected(int32(p), err))
			}
		}
		resp.Topics = append(resp.Topics, out)
		return true
	})
}

func (c *call) elected(partition int32, err error) kmsg.ElectLeadersResponseTopicPartition {
	out := kmsg.NewElectLeadersResponseTopicPartition()
	out.Partition = partition
	out.ErrorCode, out.ErrorMessage = c.describe(err)
	return out
}

// election is how an election of one partition ends: always with an error.
func election(view *cluster.Image, t *cluster.Topic, partition int32, kind int8) error {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return errNoPartition
	}
	p := &t.Partitions[partition]
	leader, _ := view.Node(p.Leader)
	led := p.Leader != ids.NoBroker && leader.Live
	switch {
	case led && (kind == uncleanElection || p.Leader == p.Replicas[0]):
		return errElectionNotNeeded
	case kind == uncleanElection:
		return errNoEligible
	default:
		return errNoPreferred
	}
}
