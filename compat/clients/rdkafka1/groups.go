package main

import (
	"context"

	"github.com/confluentinc/confluent-kafka-go/kafka"

	"github.com/felixlog/felix/compat/clients/agent"
)

// groupAdmin is what librdkafka 1.9 did not have yet.
func groupAdmin(context.Context, *kafka.AdminClient, agent.Request) (agent.Response, error) {
	return agent.Response{}, agent.ErrUnsupported
}
