package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixlog/felix/client"
)

// clientPublisher publishes numbered records to one stream for as long as it may.
type clientPublisher struct {
	c      *clientCampaign
	p      *client.Publisher
	id     int
	stream string
	kind   clientKind
	async  bool
	batch  int // records a call
	rate   int // calls a second
	keys   int // 0 is none

	sent int64 // owned by run until it returns
	acks atomic.Int64
}

// run publishes until stop ends, then waits for all answers.
func (p *clientPublisher) run(ctx, stop context.Context, random *rand.Rand) {
	tick := time.NewTicker(time.Second / time.Duration(p.rate))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop.Done():
			closing, cancel := context.WithTimeout(ctx, clientCall)
			defer cancel()
			if err := p.p.Close(closing); err != nil && ctx.Err() == nil {
				p.c.check.violate("publisher %d: close: %v", p.id, err)
			}
			return
		}
		var key []byte
		if p.keys > 0 {
			key = fmt.Appendf(nil, "key %d", random.IntN(p.keys))
		}
		first := p.sent
		values := make([][]byte, p.batch)
		for i := range values {
			values[i] = clientValue(clientRecord{p.id, first + int64(i)}, p.c.o.size)
		}
		p.sent += int64(p.batch)
		calling, cancel := context.WithTimeout(ctx, clientCall)
		p.publish(calling, first, key, values)
		cancel()
	}
}

func (p *clientPublisher) publish(ctx context.Context, first int64, key []byte, values [][]byte) {
	switch {
	case p.async:
		err := p.p.PublishAsync(ctx, client.Record{Key: key, Value: values[0]}, func(ack client.Ack, err error) { p.told(first, 1, ack, err) })
		if err != nil {
			p.told(first, 1, client.Ack{}, err)
		}
	case p.batch == 1:
		ack, err := p.p.Publish(ctx, client.Record{Key: key, Value: values[0]})
		p.told(first, 1, ack, err)
	default:
		ack, err := p.p.PublishBatch(ctx, key, values...)
		p.told(first, p.batch, ack, err)
	}
}

// told takes an answer to the checker.
func (p *clientPublisher) told(first int64, count int, ack client.Ack, err error) {
	at := clientPlace{p.stream, ack.Shard}
	for i := range int64(count) {
		r := clientRecord{p.id, first + i}
		if err != nil {
			p.c.check.fail(r, errors.Is(err, client.ErrOutcomeUnknown), err)
		} else {
			p.c.check.acknowledge(r, at, ack.Offset+i)
		}
	}
	if err == nil {
		p.acks.Add(1)
	}
}

// clientFollower reads all shards of one stream.
type clientFollower struct {
	c      *clientCampaign
	stream string
	anew   bool // now and then it ends its subscription and begins another from its positions
	late   bool // it begins with what comes after it

	events atomic.Int64
	mu     sync.Mutex
	at     map[uint32]int64 // guarded by mu: the next offset by shard
}

func (f *clientFollower) next(shard uint32) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[shard]
}

// run reads until ctx ends.
func (f *clientFollower) run(ctx context.Context) {
	f.at = map[uint32]int64{}
	var cursor clientCursor
	options := client.SubscribeOptions{Start: client.Earliest()}
	if f.late {
		options.Start = client.Latest()
	}
	for ctx.Err() == nil {
		sub, err := f.c.readers.Subscribe(ctx, client.Stream{Name: f.stream}, options)
		if err != nil {
			if ctx.Err() == nil {
				f.c.check.violate("subscribe to %s: %v", f.stream, err)
			}
			return
		}
		f.mu.Lock()
		for shard, next := range sub.Positions() {
			f.at[shard] = next
		}
		f.mu.Unlock()
		f.read(ctx, sub, &cursor)
		options.Offsets = sub.Positions()
		if err := sub.Close(); err != nil {
			f.c.check.violate("close of a subscription: %v", err)
		}
		f.c.resumed.Add(1)
	}
}

// anewAfter is how many events a follower reads before it begins another subscription.
const anewAfter = 3000

func (f *clientFollower) read(ctx context.Context, sub *client.Subscription, cursor *clientCursor) {
	n := 0
	for e, err := range sub.Events(ctx) {
		var lagged *client.LaggedError
		switch {
		case errors.As(err, &lagged):
			f.c.lags.Add(1)
			continue
		case err != nil:
			if ctx.Err() == nil {
				f.c.check.violate("subscription of %s: %v", f.stream, err)
			}
			return
		}
		at := clientPlace{f.stream, e.Shard}
		if err := cursor.step(at, e.Offset, e.SkippedBefore); err != nil {
			f.c.check.violate("%v", err)
			return
		}
		if !f.late {
			f.c.check.observe(at, e.Offset, e.Value)
		}
		f.mu.Lock()
		f.at[e.Shard] = e.Offset + 1
		f.mu.Unlock()
		f.events.Add(1)
		if n++; f.anew && n >= anewAfter {
			return
		}
	}
}
