package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/felixproto/wire"
)

// TestRestarts stops and starts a server while records flow. Each must be stored once, come once, and come in order.
func TestRestarts(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	stream := s.create("restarts", 2, true)
	sub, err := c.Subscribe(ctx, stream, client.SubscribeOptions{Start: client.Earliest()})
	must(t, err)
	p, err := c.NewPublisher(stream, client.PublisherOptions{MaxBufferedBytes: 2000})
	must(t, err)
	const n, restarts = 600, 3
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := range n {
			err := p.PublishAsync(ctx, client.Record{Key: fmt.Appendf(nil, "k%d", i%7), Value: fmt.Append(nil, i)}, func(_ client.Ack, err error) {
				if err != nil {
					t.Errorf("record %d: %v", i, err)
				}
			})
			if err != nil {
				t.Errorf("record %d: %v", i, err)
				return
			}
		}
	})
	last := map[uint32]int{}
	next := map[uint32]int64{}
	for got := range n {
		if got%(n/(restarts+1)) == n/(restarts+1)-1 && got < n-1 {
			s.stop()
			s.start()
		}
		e, err := sub.Next(ctx)
		must(t, err)
		var i int
		_, err = fmt.Sscan(string(e.Value), &i)
		must(t, err)
		if before, some := last[e.Shard]; some && i <= before || e.Offset != next[e.Shard] {
			t.Fatalf("shard %d: record %d at offset %d after %d, want offset %d", e.Shard, i, e.Offset, before, next[e.Shard])
		}
		last[e.Shard], next[e.Shard] = i, e.Offset+1
	}
	publishing.Wait()
	must(t, p.Close(ctx))
	positions := sub.Positions()
	must(t, sub.Close())

	// Another subscription goes on where that one was.
	p, err = c.NewPublisher(stream, client.PublisherOptions{})
	must(t, err)
	ack, err := p.Publish(ctx, client.Record{Key: []byte("k1"), Value: []byte("more")})
	must(t, err)
	sub, err = c.Subscribe(ctx, stream, client.SubscribeOptions{Offsets: positions})
	must(t, err)
	if e, err := sub.Next(ctx); err != nil || string(e.Value) != "more" || e.Offset != ack.Offset || e.Shard != ack.Shard {
		t.Errorf("got %+v, %v; published at %+v", e, err, ack)
	}
	must(t, sub.Close())
	must(t, p.Close(ctx))
}

// TestReads looks at a shard in every way in which that is possible without a subscription.
func TestReads(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	stream := s.create("reads", 1, true)
	b, err := c.Bounds(ctx, stream, 0)
	if err != nil || b != (client.Bounds{}) {
		t.Errorf("bounds of an empty stream: %+v, %v", b, err)
	}
	p, err := c.NewPublisher(stream, client.PublisherOptions{})
	must(t, err)
	began := time.Now().Add(-time.Second)
	values := make([][]byte, 25)
	for i := range values {
		values[i] = []byte(named(i))
	}
	ack, err := p.PublishBatch(ctx, nil, values...)
	if err != nil || ack != (client.Ack{}) {
		t.Errorf("batch: %+v, %v", ack, err)
	}
	if ack, err = p.PublishBatch(ctx, nil); err != nil || ack.Offset != client.NoOffset {
		t.Errorf("an empty batch: %+v, %v", ack, err)
	}
	must(t, p.Close(ctx))
	if b, err = c.Bounds(ctx, stream, 0); err != nil || b != (client.Bounds{End: 25}) {
		t.Errorf("bounds: %+v, %v", b, err)
	}
	page, err := c.Read(ctx, stream, 0, client.ReadOptions{From: 5, To: 20, MaxRecords: 3})
	if err != nil || len(page.Records) != 3 || page.Next != 8 || string(page.Records[2].Value) != named(7) {
		t.Errorf("page: %+v, %v", page, err)
	}
	var got []string
	for r, err := range c.Records(ctx, stream, 0, client.ReadOptions{From: 5, To: 20, MaxRecords: 4}) {
		must(t, err)
		if r.Time.Before(began) || r.Time.After(time.Now()) {
			t.Errorf("written at %v", r.Time)
		}
		got = append(got, string(r.Value))
	}
	if len(got) != 15 || got[0] != named(5) || got[14] != named(19) {
		t.Errorf("records: %v", got)
	}
	var cursor *client.CursorError
	if _, err := c.Read(ctx, stream, 0, client.ReadOptions{From: 26}); !errors.As(err, &cursor) || cursor.Reason != client.InFuture || cursor.Available != 25 {
		t.Errorf("past the end: %v", err)
	}
	if _, err := c.Read(ctx, stream, 1, client.ReadOptions{}); !errors.Is(err, client.ErrInvalidRequest) {
		t.Errorf("a shard that is not there: %v", err)
	}
	for _, at := range []struct {
		time time.Time
		want int64
	}{{began, 0}, {time.Now().Add(time.Hour), client.NoOffset}} {
		if offset, err := c.OffsetForTime(ctx, stream, 0, at.time); err != nil || offset != at.want {
			t.Errorf("offset at %v: %d, %v", at.time, offset, err)
		}
	}
	ephemeral := s.create("reads-in-memory", 1, false)
	if _, err := c.Bounds(ctx, ephemeral, 0); !errors.Is(err, client.ErrInvalidRequest) {
		t.Errorf("an ephemeral stream: %v", err)
	}
}

// TestStarts begins subscriptions at every kind of place.
func TestStarts(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	stream := s.create("starts", 1, true)
	p, err := c.NewPublisher(stream, client.PublisherOptions{})
	must(t, err)
	publish := func(from, n int) {
		for i := from; i < from+n; i++ {
			_, err := p.Publish(ctx, client.Record{Value: []byte(named(i))})
			must(t, err)
		}
	}
	publish(0, 5)
	// Times count in milliseconds: the next ones must be written in a later one.
	page, err := c.Read(ctx, stream, 0, client.ReadOptions{From: 4})
	must(t, err)
	middle := page.Records[0].Time.Add(time.Millisecond)
	waitUntil(t, func() bool { return time.Now().After(middle.Add(time.Millisecond)) })
	publish(5, 5)
	open := map[string]*client.Subscription{}
	first := map[string]int{"earliest": 0, "offset": 3, "end": 10, "latest": 10, "since": 5, "since_the_beginning": 0, "since_tomorrow": 10}
	for name, start := range map[string]client.Start{
		"earliest": client.Earliest(), "offset": client.FromOffset(3), "end": client.FromOffset(10), "latest": client.Latest(),
		"since": client.Since(middle), "since_the_beginning": client.Since(time.Unix(0, 0)), "since_tomorrow": client.Since(time.Now().Add(24 * time.Hour)),
	} {
		sub, err := c.Subscribe(ctx, stream, client.SubscribeOptions{Start: start, Timestamps: name == "since", QueueCapacity: 100})
		must(t, err)
		state := sub.Shards()[0]
		if !state.Durable || state.Start != int64(first[name]) || state.Live != 10 || state.Next != state.Start || state.QueueCapacity != 100 {
			t.Errorf("%s: %+v", name, state)
		}
		open[name] = sub
	}
	publish(10, 3)
	for name, sub := range open {
		t.Run(name, func(t *testing.T) {
			for i := first[name]; i < 13; i++ {
				e, err := sub.Next(ctx)
				must(t, err)
				if e.Offset != int64(i) || string(e.Value) != named(i) {
					t.Errorf("got %+v, want record %d", e, i)
				}
				if name == "since" && (e.Time.Before(middle) || e.Time.After(time.Now())) {
					t.Errorf("written at %v", e.Time)
				}
			}
			must(t, sub.Close())
		})
	}
	must(t, p.Close(ctx))
	var cursor *client.CursorError
	_, err = c.Subscribe(ctx, stream, client.SubscribeOptions{Start: client.FromOffset(14)})
	if !errors.As(err, &cursor) || cursor.Reason != client.InFuture || cursor.Available != 13 {
		t.Errorf("past the end: %v", err)
	}
}

func waitUntil(t *testing.T, cond func() bool) {
	t.Helper()
	ctx := limited(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("waited in vain")
		}
	}
}

// TestConditionalWrites covers what is written only at an expected offset, and commits.
func TestConditionalWrites(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	stream := s.create("conditional", 1, true)
	ack, err := c.PublishIf(ctx, stream, 0, nil, []byte("a"), []byte("b"))
	if err != nil || ack.Offset != 0 {
		t.Fatalf("got %+v, %v", ack, err)
	}
	var mismatch *client.OffsetMismatchError
	if _, err := c.PublishIf(ctx, stream, 1, nil, []byte("c")); !errors.As(err, &mismatch) || mismatch.Tail != 2 {
		t.Errorf("at a stale offset: %v", err)
	}
	if _, err := c.PublishIf(ctx, stream, 2, nil); !errors.Is(err, client.ErrInvalidRequest) {
		t.Errorf("nothing: %v", err)
	}
	entity := []byte("order 7")
	ack, err = c.Commit(ctx, stream, client.Commit{
		EntityKey: entity, Event: []byte("paid"), Changes: []client.Change{{Key: "status", Value: []byte("paid")}, {Key: "due", Value: []byte("no")}},
	})
	must(t, err)
	state, err := c.State(ctx, stream, entity, "status")
	if err != nil || string(state.Value) != "paid" || state.Version != ack.Offset || state.AsOf < ack.Offset {
		t.Errorf("state: %+v, %v; committed at %+v", state, err, ack)
	}
	stale := int64(0)
	if _, err := c.Commit(ctx, stream, client.Commit{EntityKey: entity, Event: []byte("x"), Expected: &stale}); !errors.As(err, &mismatch) {
		t.Errorf("at a stale offset: %v", err)
	}
	next := ack.Offset + 1
	ack, err = c.Commit(ctx, stream, client.Commit{EntityKey: entity, Event: []byte("gone"), Changes: []client.Change{{Key: "due", Delete: true}}, Expected: &next})
	if err != nil || ack.Offset != next {
		t.Errorf("got %+v, %v", ack, err)
	}
	if state, err := c.State(ctx, stream, entity, "due"); err != nil || state.Value != nil || state.Version != client.NoOffset {
		t.Errorf("a deleted key: %+v, %v", state, err)
	}
	page, err := c.Read(ctx, stream, 0, client.ReadOptions{})
	must(t, err)
	var got []string
	for _, r := range page.Records {
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, []string{"a", "b", "paid", "gone"}) {
		t.Errorf("the stream holds %q", got)
	}
}

// TestKeys sends records where their keys belong.
func TestKeys(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	const shards = 8
	stream := s.create("keys", shards, true)
	if n, err := c.Shards(ctx, stream); n != shards || err != nil {
		t.Errorf("%d shards, %v", n, err)
	}
	owners, err := c.Owners(ctx, stream)
	if err != nil || len(owners) != shards || owners[3].Shard != 3 || owners[3].NodeID == "" || owners[3].Unavailable != "" {
		t.Errorf("owners: %+v, %v", owners, err)
	}
	p, err := c.NewPublisher(stream, client.PublisherOptions{})
	must(t, err)
	for _, key := range [][]byte{nil, {}, []byte("a"), []byte("customer-0"), []byte("customer-1"), {0, 255}} {
		ack, err := p.Publish(ctx, client.Record{Key: key, Value: []byte("v")})
		must(t, err)
		want, err := c.ShardOf(ctx, stream, key)
		must(t, err)
		b, err := c.Bounds(ctx, stream, ack.Shard)
		must(t, err)
		if ack.Shard != want || b.End != ack.Offset+1 || key == nil && ack.Shard != 0 {
			t.Errorf("key %q: published at %+v, belongs to shard %d with bounds %+v", key, ack, want, b)
		}
	}
	must(t, p.Close(ctx))
	if _, err := c.Shards(ctx, client.Stream{Name: "nowhere"}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a stream that is not there: %v", err)
	}
}

// TestSlowSubscriber falls behind on purpose: it is told, and still gets every record once.
func TestSlowSubscriber(t *testing.T) {
	for _, follow := range []bool{false, true} {
		t.Run(fmt.Sprint(follow), func(t *testing.T) {
			s := startServer(t)
			c := s.connect(func(cfg *client.Config) { cfg.StreamWindowBytes = 1 << 14 })
			ctx := limited(t)
			stream := s.create("slow", 1, true)
			sub, err := c.Subscribe(ctx, stream, client.SubscribeOptions{QueueCapacity: 4, FollowLag: follow})
			must(t, err)
			p, err := c.NewPublisher(stream, client.PublisherOptions{MaxBatchRecords: 1})
			must(t, err)
			// Whoever reads, however slowly, is not told: the server waits for a while whether anything moves. A subscription that has
			// not yet met the present reads the log at its own pace, and so there are rounds.
			const n, rounds = 200, 10
			value := make([]byte, 2000)
			next, lags, stalled := int64(0), 0, false
			for round := 1; round <= rounds && !stalled; round++ {
				for range n {
					must(t, p.PublishAsync(ctx, client.Record{Value: value}, nil))
				}
				must(t, p.Wait(ctx))
				stalled = dropping(t, c, stream.Name)
				for next < int64(round*n) {
					e, err := sub.Next(ctx)
					var lag *client.LaggedError
					if errors.As(err, &lag) {
						if lag.ResumeFrom != next {
							t.Errorf("resumes from %d, and %d is next", lag.ResumeFrom, next)
						}
						lags++
						continue
					}
					must(t, err)
					if e.Offset != next {
						t.Fatalf("offset %d, want %d", e.Offset, next)
					}
					next++
				}
			}
			if !stalled || lags == 0 != follow {
				t.Errorf("fell behind: %v, told %d times", stalled, lags)
			}
			must(t, p.Close(ctx))
			must(t, sub.Close())
		})
	}
}

// dropping waits a while until a subscriber of a stream is not given some event.
func dropping(t *testing.T, c *client.Client, name string) bool {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 10*time.Second; <-tick.C {
		for _, err := range c.Subscriptions(limited(t), "", client.SubscriptionFilter{Stream: name, Dropping: true}) {
			must(t, err)
			return true
		}
	}
	return false
}

// TestStalledNeighbour has subscriptions on one connection that nobody reads: another one loses nothing and waits for nobody.
func TestStalledNeighbour(t *testing.T) {
	s := startServer(t)
	c := s.connect(func(cfg *client.Config) { cfg.StreamWindowBytes = 1 << 16 })
	ctx := limited(t)
	stream := s.create("neighbours", 1, true)
	var stalled []*client.Subscription
	for range 20 {
		sub, err := c.Subscribe(ctx, stream, client.SubscribeOptions{})
		must(t, err)
		stalled = append(stalled, sub)
	}
	sub, err := c.Subscribe(ctx, stream, client.SubscribeOptions{})
	must(t, err)
	p, err := c.NewPublisher(stream, client.PublisherOptions{})
	must(t, err)
	const n = 3000
	value := make([]byte, 1000) // 3 MB: many windows
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for range n {
			if err := p.PublishAsync(ctx, client.Record{Value: value}, nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for next := int64(0); next < n; {
		e, err := sub.Next(ctx)
		var lag *client.LaggedError
		if errors.As(err, &lag) {
			continue // this machine was too slow for the server's queue, which is nobody's fault
		}
		must(t, err)
		if e.Offset != next {
			t.Fatalf("offset %d, want %d", e.Offset, next)
		}
		next++
	}
	publishing.Wait()
	must(t, p.Close(ctx))
	for _, sub := range append(stalled, sub) {
		must(t, sub.Close())
	}
}

// TestManySubscriptions spreads more subscriptions than one connection takes.
func TestManySubscriptions(t *testing.T) {
	s := startServer(t)
	c := s.connect(func(cfg *client.Config) { cfg.SubscriptionsPerConnection = 3 })
	ctx := limited(t)
	stream := s.create("many", 10, true)
	sub, err := c.Subscribe(ctx, stream, client.SubscribeOptions{ReuseBuffers: true})
	must(t, err)
	p, err := c.NewPublisher(stream, client.PublisherOptions{})
	must(t, err)
	seen := map[uint32]bool{}
	for i := 0; len(seen) < 10; i++ {
		ack, err := p.Publish(ctx, client.Record{Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
		must(t, err)
		batch, err := sub.NextBatch(ctx)
		must(t, err)
		if len(batch) != 1 || batch[0].Shard != ack.Shard || batch[0].Offset != ack.Offset || string(batch[0].Value) != fmt.Sprint(i) {
			t.Fatalf("record %d at %+v came as %+v", i, ack, batch)
		}
		seen[ack.Shard] = true
	}
	must(t, p.Close(ctx))
	must(t, sub.Close())
}

// TestInspect looks into the server.
func TestInspect(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	stream := s.create("inspected", 2, true)
	sub, err := c.Subscribe(ctx, stream, client.SubscribeOptions{})
	must(t, err)
	p, err := c.NewPublisher(stream, client.PublisherOptions{})
	must(t, err)
	_, err = p.Publish(ctx, client.Record{Value: []byte("v")})
	must(t, err)
	must(t, p.Close(ctx))
	for _, addr := range []string{"", s.listen["native"]} {
		v, err := c.InspectShard(ctx, addr, stream, 0)
		if err != nil || v.Shards != 2 || v.Role != "leader" || !v.Serving || v.Tail != 1 || v.Committed != 1 {
			t.Errorf("%q: %+v, %v", addr, v, err)
		}
	}
	shards := map[uint32]bool{}
	for v, err := range c.Subscriptions(ctx, "", client.SubscriptionFilter{Stream: "inspected"}) {
		must(t, err)
		shards[v.Shard] = true
		if v.Stream != (client.Stream{Namespace: "default", Name: "inspected"}) || v.Peer == "" || v.Principal == "" {
			t.Errorf("%+v", v)
		}
	}
	if len(shards) != 2 {
		t.Errorf("subscriptions of shards %v", shards)
	}
	for _, err := range c.Subscriptions(ctx, "", client.SubscriptionFilter{Stream: "another"}) {
		t.Errorf("a subscription of another stream, %v", err)
	}
	servers, err := c.Servers(ctx)
	if err != nil || len(servers) > 1 {
		t.Errorf("servers %v, %v", servers, err)
	}
	must(t, sub.Close())
}

// TestLimits refuses what cannot be sent before anything is.
func TestLimits(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	stream := s.create("limits", 1, true)
	p, err := c.NewPublisher(stream, client.PublisherOptions{})
	must(t, err)
	if _, err := p.Publish(ctx, client.Record{Value: make([]byte, wire.DefaultMaxFrameBytes)}); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, err := p.Publish(ctx, client.Record{Key: make([]byte, 70_000)}); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	// Too large for the server alone: refused, and the next one goes through.
	if _, err := p.Publish(ctx, client.Record{Value: make([]byte, 13_000_000)}); !errors.Is(err, client.ErrInvalidRequest) {
		t.Errorf("got %v", err)
	}
	big := make([]byte, 11_000_000)
	ack, err := p.Publish(ctx, client.Record{Value: big})
	must(t, err)
	sub, err := c.Subscribe(ctx, stream, client.SubscribeOptions{Start: client.FromOffset(ack.Offset)})
	must(t, err)
	if e, err := sub.Next(ctx); err != nil || len(e.Value) != len(big) {
		t.Errorf("%d bytes, %v", len(e.Value), err)
	}
	must(t, sub.Close())
	must(t, p.Close(ctx))
	for _, o := range []client.PublisherOptions{
		{Ack: client.AckNone}, {Guarantee: 7}, {Partitioner: 2}, {MaxInFlight: -1}, {DeliveryTimeout: -1},
	} {
		if _, err := c.NewPublisher(stream, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if _, err := c.NewPublisher(client.Stream{}, client.PublisherOptions{}); err == nil {
		t.Error("a stream without a name is taken")
	}
	for _, o := range []client.SubscribeOptions{
		{Start: client.FromOffset(-1)}, {Offsets: map[uint32]int64{0: -1}}, {QueueCapacity: -1}, {Shards: []uint32{0, 0}}, {Shards: []uint32{9}},
	} {
		if _, err := c.Subscribe(ctx, stream, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for _, change := range []func(*client.Config){
		func(c *client.Config) { c.Addrs = nil }, func(c *client.Config) { c.Token = nil }, func(c *client.Config) { c.CAFile = "/nowhere" },
		func(c *client.Config) { c.SubscriptionsPerConnection = 1000 }, func(c *client.Config) { c.BackoffMax = 1 }, func(c *client.Config) { c.Connections = -1 },
	} {
		cfg := s.config()
		change(&cfg)
		if _, err := client.Connect(ctx, cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

// TestCancelledPublish ends a call's context: the record may still come, and the publisher goes on.
func TestCancelledPublish(t *testing.T) {
	f := newFake(t, "n1")
	f.publish = func(int, *wire.BinaryPublish) verdict { return verdict{silent: true} }
	c := f.connect()
	p, err := c.NewPublisher(fakeName, client.PublisherOptions{AnswerTimeout: 2 * time.Second})
	must(t, err)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = p.Publish(short, client.Record{Value: []byte("0")})
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	f.set(func() { f.publish = nil })
	_, err = p.Publish(limited(t), client.Record{Value: []byte("1")})
	must(t, err)
	must(t, p.Close(limited(t)))
	if got := f.stored(); !slices.Equal(got, numbers(0, 2)) && !slices.Equal(got, []string{"1"}) {
		t.Errorf("stored %v", got)
	}
}

// TestSharedPublisher has many goroutines use one publisher: the records of each stay in the order of its calls.
func TestSharedPublisher(t *testing.T) {
	s := startServer(t)
	c := s.connect(func(cfg *client.Config) { cfg.Connections = 2 })
	ctx := limited(t)
	stream := s.create("shared", 4, true)
	p, err := c.NewPublisher(stream, client.PublisherOptions{MaxBufferedBytes: 500})
	must(t, err)
	const goroutines, n = 8, 100
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range n {
				r := client.Record{Key: fmt.Appendf(nil, "k%d", i%5), Value: fmt.Appendf(nil, "%d %d", g, i)}
				var err error
				if i%10 == 0 {
					_, err = p.Publish(ctx, r)
				} else {
					err = p.PublishAsync(ctx, r, nil)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	must(t, p.Close(ctx))
	total := 0
	for shard := range uint32(4) {
		last := map[int]int{}
		for r, err := range c.Records(ctx, stream, shard, client.ReadOptions{}) {
			must(t, err)
			var g, i int
			_, err = fmt.Sscan(string(r.Value), &g, &i)
			must(t, err)
			if before, some := last[g]; some && i <= before {
				t.Fatalf("shard %d: record %d of goroutine %d after %d", shard, i, g, before)
			}
			last[g] = i
			total++
		}
	}
	if total != goroutines*n {
		t.Errorf("%d records are stored", total)
	}
}
