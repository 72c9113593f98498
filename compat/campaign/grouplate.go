package main

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/raw"
)

// lateCommit is what somebody could still send who does not know yet that the group went on without it.
type lateCommit struct {
	who        string
	group      string
	member     string
	instance   string
	generation int32
}

// stale is what members that are gone since the round before, and one member of each group that has not heard of its present generation,
// could send. The groups are at rest, so all of it is over.
func (g *groupsCampaign) stale() []lateCommit {
	var out []lateCommit
	add := func(m *groupMember, back int32, who string) {
		id, generation := m.cl.GroupMetadata()
		if id == "" || generation-back <= 0 {
			return // it never was in a generation
		}
		out = append(out, lateCommit{who + m.o.name, m.watch.group.name, id, m.o.instance, generation - back})
	}
	for _, m := range g.ending {
		add(m, 0, "the late ")
	}
	for _, group := range g.members {
		for _, m := range group {
			if m != nil {
				add(m, 1, "an old generation of ")
				break
			}
		}
	}
	return out
}

// commitLate sends the commits, each of which would take its group back to the beginning of a partition, and expects a refusal.
func (g *groupsCampaign) commitLate(commits []lateCommit) error {
	c, err := raw.Dial(g.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, late := range commits {
		resp, err := c.Do(late.request())
		if err != nil {
			return fmt.Errorf("commit of %s: %w", late.who, err)
		}
		answer, ok := resp.(*kmsg.OffsetCommitResponse)
		if !ok || len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
			return fmt.Errorf("commit of %s: answered with %+v", late.who, resp)
		}
		switch err := kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode); {
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedInstanceID),
			errors.Is(err, kerr.RebalanceInProgress):
			g.state.Totals.Late++
		default:
			g.log.violate("%s: a commit of %s in generation %d was answered with %v", late.group, late.who, late.generation, err)
		}
	}
	return nil
}

func (l lateCommit) request() *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 8, l.group, l.member, l.generation
	if l.instance != "" {
		req.InstanceID = &l.instance
	}
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = groupsTopic, append(t.Partitions, p) // partition 0, offset 0
	req.Topics = append(req.Topics, t)
	return req
}
