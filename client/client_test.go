package client_test

import (
	"fmt"
	"testing"

	"github.com/felixlog/felix/client"
)

func TestPublishSubscribe(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	for _, durable := range []bool{true, false} {
		stream := s.create(fmt.Sprintf("durable-%v", durable), 3, durable)
		for _, guarantee := range []client.Guarantee{client.Idempotent, client.AtLeastOnce, client.AtMostOnce} {
			for _, ack := range []client.AckMode{client.AckBatch, client.AckMessage, client.AckNone} {
				if ack == client.AckNone && guarantee != client.AtMostOnce {
					continue
				}
				t.Run(fmt.Sprintf("%v_%d_%d", durable, guarantee, ack), func(t *testing.T) {
					sub, err := c.Subscribe(ctx, stream, client.SubscribeOptions{})
					must(t, err)
					defer func() { must(t, sub.Close()) }()
					p, err := c.NewPublisher(stream, client.PublisherOptions{Guarantee: guarantee, Ack: ack})
					must(t, err)
					const n = 500
					for i := range n {
						must(t, p.PublishAsync(ctx, client.Record{Value: []byte(named(i))}, func(_ client.Ack, err error) {
							if err != nil {
								t.Error(err)
							}
						}))
					}
					must(t, p.Close(ctx))
					for i, v := range take(t, sub, n) {
						if v != named(i) {
							t.Fatalf("event %d is %q", i, v)
						}
					}
				})
			}
		}
	}
}
