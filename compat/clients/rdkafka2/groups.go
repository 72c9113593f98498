package main

import (
	"context"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/felixlog/felix/compat/clients/agent"
)

// groupAdmin lists, describes and deletes groups.
func groupAdmin(ctx context.Context, admin *kafka.AdminClient, req agent.Request) (agent.Response, error) {
	var res agent.Response
	switch req.Op {
	case agent.OpGroups:
		listed, err := admin.ListConsumerGroups(ctx)
		if err != nil {
			return res, coded(err)
		}
		for _, err := range listed.Errors {
			return res, coded(err)
		}
		for _, g := range listed.Valid {
			res.Groups = append(res.Groups, agent.GroupInfo{ID: g.GroupID, State: g.State.String()})
		}
	case agent.OpDescribe:
		described, err := admin.DescribeConsumerGroups(ctx, []string{req.Group.ID})
		if err != nil {
			return res, coded(err)
		}
		for _, g := range described.ConsumerGroupDescriptions {
			if g.Error.Code() != kafka.ErrNoError {
				return res, coded(g.Error)
			}
			info := agent.GroupInfo{ID: g.GroupID, State: g.State.String()}
			for _, m := range g.Members {
				info.Members = append(info.Members, m.ClientID)
			}
			res.Groups = append(res.Groups, info)
		}
	case agent.OpDeleteGroup:
		deleted, err := admin.DeleteConsumerGroups(ctx, []string{req.Group.ID})
		if err != nil {
			return res, coded(err)
		}
		for _, g := range deleted.ConsumerGroupResults {
			if g.Error.Code() != kafka.ErrNoError {
				return res, coded(g.Error)
			}
		}
	default:
		return res, agent.ErrUnsupported
	}
	return res, nil
}
