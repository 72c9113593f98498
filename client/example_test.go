package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/felixlog/felix/client"
)

// Connect to a server that `make run` started, publish a record and read it back.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{
		Addrs:  []string{"127.0.0.1:5000"},
		CAFile: "data/dev/ca.pem",
		Token:  client.TokenFile("data/dev/token"),
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	orders := client.Stream{Name: "orders"}
	p, err := c.NewPublisher(orders, client.PublisherOptions{})
	if err != nil {
		panic(err)
	}
	ack, err := p.Publish(ctx, client.Record{Key: []byte("customer-7"), Value: []byte("paid")})
	if err != nil {
		panic(err)
	}
	if err := p.Close(ctx); err != nil {
		panic(err)
	}

	page, err := c.Read(ctx, orders, ack.Shard, client.ReadOptions{From: ack.Offset})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", page.Records[0].Value)
}

// Records are taken on at once and sent together; done is called with each outcome.
func ExamplePublisher_PublishAsync() {
	ctx := context.Background()
	var c *client.Client // from Connect

	p, err := c.NewPublisher(client.Stream{Name: "clicks"}, client.PublisherOptions{MaxBufferedBytes: 32 << 20})
	if err != nil {
		panic(err)
	}
	for i := range 1_000_000 {
		r := client.Record{Key: fmt.Append(nil, "user-", i%1000), Value: []byte("click")}
		err := p.PublishAsync(ctx, r, func(_ client.Ack, err error) {
			if err != nil {
				fmt.Println("not stored:", err)
			}
		})
		if err != nil {
			panic(err)
		}
	}
	if err := p.Close(ctx); err != nil { // waits for the answers
		panic(err)
	}
}

// A subscription reads on over lost connections and restarts. To read on after a restart of one's own, keep the positions.
func ExampleClient_Subscribe() {
	ctx := context.Background()
	var c *client.Client            // from Connect
	var checkpoint map[uint32]int64 // from a database, nil the first time
	var save func(map[uint32]int64) // to it

	sub, err := c.Subscribe(ctx, client.Stream{Name: "orders"}, client.SubscribeOptions{Start: client.Earliest(), Offsets: checkpoint})
	if err != nil {
		panic(err)
	}
	defer sub.Close()
	for event, err := range sub.Events(ctx) {
		var lagged *client.LaggedError
		switch {
		case errors.As(err, &lagged):
			fmt.Println("too slow, but nothing is lost:", err)
			continue
		case err != nil:
			panic(err)
		}
		fmt.Printf("shard %d offset %d: %s\n", event.Shard, event.Offset, event.Value)
		save(sub.Positions())
	}
}

// What was written in the last hour, and from then on.
func ExampleSince() {
	ctx := context.Background()
	var c *client.Client // from Connect

	sub, err := c.Subscribe(ctx, client.Stream{Name: "orders"}, client.SubscribeOptions{
		Start: client.Since(time.Now().Add(-time.Hour)), Timestamps: true, FollowLag: true,
	})
	if err != nil {
		panic(err)
	}
	defer sub.Close()
	for {
		event, err := sub.Next(ctx)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(event.Time, string(event.Value))
	}
}

// Of several writers that expect the same offset, one succeeds: a lock, or a log with one author at a time.
func ExampleClient_PublishIf() {
	ctx := context.Background()
	var c *client.Client // from Connect

	journal := client.Stream{Name: "journal"}
	bounds, err := c.Bounds(ctx, journal, 0)
	if err != nil {
		panic(err)
	}
	_, err = c.PublishIf(ctx, journal, bounds.End, nil, []byte("entry"))
	var mismatch *client.OffsetMismatchError
	switch {
	case errors.As(err, &mismatch):
		fmt.Println("somebody else was faster; the next offset is", mismatch.Tail)
	case errors.Is(err, client.ErrOutcomeUnknown):
		fmt.Println("read offset", bounds.End, "to see whether it was written")
	case err != nil:
		panic(err)
	}
}

// An event and the state that it changes are stored in one record: readers see both or neither.
func ExampleClient_Commit() {
	ctx := context.Background()
	var c *client.Client // from Connect

	payments, order := client.Stream{Name: "payments"}, []byte("order-42")
	ack, err := c.Commit(ctx, payments, client.Commit{
		EntityKey: order,
		Event:     []byte("order 42 was paid"),
		Changes:   []client.Change{{Key: "status", Value: []byte("paid")}},
	})
	if err != nil {
		panic(err)
	}
	state, err := c.State(ctx, payments, order, "status")
	if err != nil {
		panic(err)
	}
	fmt.Println(string(state.Value), state.Version >= ack.Offset)
}

// A publisher that would rather lose a record than store it twice.
func ExampleGuarantee() {
	ctx := context.Background()
	var c *client.Client // from Connect

	p, err := c.NewPublisher(client.Stream{Name: "metrics"}, client.PublisherOptions{Guarantee: client.AtMostOnce})
	if err != nil {
		panic(err)
	}
	switch _, err := p.Publish(ctx, client.Record{Value: []byte("42")}); {
	case err == nil:
	case errors.Is(err, client.ErrOutcomeUnknown):
		fmt.Println("perhaps stored")
	case client.Retryable(err):
		fmt.Println("not stored, and worth another try")
	default:
		panic(err)
	}
}
