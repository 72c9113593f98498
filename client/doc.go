// Package client is the Go client of Felix: it publishes to streams, subscribes to them, reads them and looks into a server, over the
// native protocol (QUIC, ALPN felix/1).
//
// # Getting started
//
// Connect makes a Client, which may be shared by all goroutines of a program. A Publisher writes to one stream, a Subscription reads one.
//
//	c, err := client.Connect(ctx, client.Config{
//		Addrs:  []string{"127.0.0.1:5000"},
//		CAFile: "data/dev/ca.pem",
//		Token:  client.TokenFile("data/dev/token"),
//	})
//	...
//	defer c.Close()
//
//	orders := client.Stream{Name: "orders"}
//	p, err := c.NewPublisher(orders, client.PublisherOptions{})
//	...
//	defer p.Close(ctx)
//	ack, err := p.Publish(ctx, client.Record{Key: []byte("customer-7"), Value: []byte("paid")})
//
//	sub, err := c.Subscribe(ctx, orders, client.SubscribeOptions{Start: client.Earliest()})
//	...
//	defer sub.Close()
//	for event, err := range sub.Events(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.Shard, event.Offset, string(event.Value))
//	}
//
// # What is promised
//
// Publishing. Records of one Publisher to one shard are stored in the order in which Publish and PublishAsync were called: each shard has
// one queue and one transport stream, whose answers come back in order. By default a publisher is idempotent: what has no answer when a
// connection is lost is sent again under the same number, and is stored once. See Guarantee.
//
// Subscribing. A subscription of a durable stream goes on by itself after a lost connection, a restart of the server or a move of the
// shard, from the offset after the last event that was delivered: no event is left out, none comes twice. What cannot be made good is an
// error: a CursorError when retention has removed what comes next. A subscription of an ephemeral stream, which has no offsets, goes on
// with what is published from then on, and says so with a GapError.
//
// Waiting. Every call that may wait takes a context and ends with it. A server that has died is noticed within Config.IdleTimeout (6 s);
// then connections are tried again, at growing and random intervals, until they succeed or the call's time is over. Close of a Client,
// Publisher or Subscription returns when all its goroutines have ended.
//
// Memory. A publisher holds at most PublisherOptions.MaxBufferedBytes of records that are not answered. A subscription holds at most one
// stream window and two frames a shard; what is not read stays with the server.
//
// # Errors
//
// A refusal by the server is an *Error, with the server's code and with a class that says what may be done about it. Sentinels such as
// ErrNotFound match by code with errors.Is. Errors that carry more have a type of their own: CursorError, LaggedError, GapError,
// OffsetMismatchError, SequenceError, ConnectionError. ErrOutcomeUnknown matches whatever leaves it open whether a write has happened.
//
// # Concurrency
//
// Client and Publisher may be used by any number of goroutines. A Subscription may be read by one goroutine at a time; Close may be
// called from another.
//
// # Inside
//
// conn.go has connections and the streams that authenticate on them; client.go the places for connections; route.go where a shard is led, and
// redirects; partition.go the choice of shards. A Publisher has a lane for each shard (lane.go), whose settle.go decides what becomes of
// batches; lane.go opens with the rules.
// A Subscription has a reader for each shard (reader.go), which subscribes again where it was. A Client owns its connections; a publisher or
// subscription owns its goroutines, and a stream belongs to one goroutine that writes and at most one that reads.
//
// Invariants: a lane sends a batch only behind all that were taken on before it; a number of an idempotent lane that may have been applied
// never goes to another batch; a record is told one outcome, in order; a reader delivers each offset once, in order, or an error that says
// why not; an error is never taken for the end of a stream, nor the end for an error.
//
// Locks: Publisher.mu, then lane.mu, then Client.mu or budget.mu. No others are held together, and none while waiting.
//
// Non-obvious:
//   - an empty key is a key, and goes to another shard than none: what is copied into a reused buffer must not turn from one into the other.
//   - outcomes that are known early, behind a batch that is to be sent again, wait for it: callers rely on their order.
//   - after a refusal one batch is sent alone. Those behind it would be refused as out of sequence, and in step with a server that refuses
//     every so many requests nothing would ever go through.
//   - a stream that is given up resets what was not sent. Without answers a publisher ends its stream instead, and waits for the server's end.
//   - a server that does not know of named shards ignores them: what names one is not sent before the server has said that it takes them.
//   - under a new identity the server stores again what it has stored under the old one. So a batch that may have been applied fails when
//     the lane takes a new identity, wherever in the queue it waits.
//   - a server that hangs keeps its connections: only deadlines of our own notice it, of writes as of answers. The way into the cluster
//     moves on with each failure, or a call whose time is shorter than the dead servers take would never get to the one that lives.
//   - an event stream that is reset before its first frame was read is nobody's: a subscriber waits for its own only so long.
package client
