package client_test

import (
	"fmt"
	"testing"

	"github.com/felixlog/felix/client"
)

// BenchmarkPublish publishes through a node in this process: what waits for each answer, and what does not.
func BenchmarkPublish(b *testing.B) {
	s := startServer(b)
	c := s.connect()
	for i, o := range []client.PublisherOptions{{}, {Guarantee: client.AtMostOnce}} {
		for _, size := range []int{100, 1000} {
			name := fmt.Sprintf("%s_%d", []string{"idempotent", "plain"}[i], size)
			stream := s.create(name, 1, true)
			p, err := c.NewPublisher(stream, o)
			must(b, err)
			r := client.Record{Value: make([]byte, size)}
			b.Run("async_"+name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					must(b, p.PublishAsync(b.Context(), r, nil))
				}
				must(b, p.Wait(b.Context()))
			})
			b.Run("sync_"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, err := p.Publish(b.Context(), r)
					must(b, err)
				}
			})
			must(b, p.Close(limited(b)))
		}
	}
}

// BenchmarkSubscribe reads what lies in a node in this process.
func BenchmarkSubscribe(b *testing.B) {
	s := startServer(b)
	c := s.connect()
	stream := s.create("read", 1, true)
	p, err := c.NewPublisher(stream, client.PublisherOptions{})
	must(b, err)
	const n, size = 200_000, 100
	for range n {
		must(b, p.PublishAsync(b.Context(), client.Record{Value: make([]byte, size)}, nil))
	}
	must(b, p.Close(limited(b)))
	for _, reuse := range []bool{false, true} {
		b.Run(fmt.Sprintf("reuse_%v", reuse), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(size)
			var sub *client.Subscription
			at := n
			for b.Loop() {
				if at == n {
					if sub != nil {
						must(b, sub.Close())
					}
					sub, err = c.Subscribe(b.Context(), stream, client.SubscribeOptions{Start: client.Earliest(), ReuseBuffers: reuse})
					must(b, err)
					at = 0
				}
				_, err := sub.Next(b.Context())
				must(b, err)
				at++
			}
			must(b, sub.Close())
		})
	}
}
