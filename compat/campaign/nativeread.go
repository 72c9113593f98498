package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// forEver is the limit of a read whose connection is closed by the one who reads.
const forEver = 24 * time.Hour

// nativeFollower reads a shard from its beginning to the end of the campaign, and subscribes again after the last record that it had
// whenever it loses the server.
type nativeFollower struct {
	c     *nativeCampaign
	place nativePlace
	next  atomic.Int64
	count atomic.Int64 // subscriptions
}

// run follows until ctx ends.
func (f *nativeFollower) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		err := f.session(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errLagged):
			f.c.lags.Add(1)
			continue
		case errors.Is(err, io.EOF):
			f.c.check.violate("%v: the event stream ended as if it were over", f.place)
			return
		case !f.c.inOutage(began):
			f.c.check.violate("%v at %d: %v", f.place, f.next.Load(), err)
			return
		}
		_ = pause(ctx, 100*time.Millisecond)
	}
}

// errLagged is the end of a subscription that fell behind.
var errLagged = errors.New("fell behind")

// session is one subscription.
func (f *nativeFollower) session(ctx context.Context) error {
	next := f.next.Load()
	sub, err := f.c.target.subscribe(ctx, subscribeRequest{
		stream: f.place.stream, shard: f.place.shard, start: map[string]int64{"offset": next}, features: offeredFeatures,
	})
	if err != nil {
		return err
	}
	defer sub.close()
	defer context.AfterFunc(ctx, sub.close)()
	f.count.Add(1)
	if sub.start != next || sub.live < next {
		f.c.check.violate("%v: subscribed at %d, and granted from %d, live from %d", f.place, next, sub.start, sub.live)
	}
	for {
		e, end, err := sub.next(forEver)
		if err != nil {
			return err
		}
		if end != nil {
			return f.c.ended(f.place, f.next.Load(), end)
		}
		if err := f.c.contiguous(f.place, f.next.Load(), e); err != nil {
			return err
		}
		for i, v := range e.values {
			f.c.check.follow(f.place, e.base+int64(i), v)
		}
		f.next.Store(e.base + int64(len(e.values)))
	}
}

// contiguous checks that a batch goes on where the last one ended.
func (c *nativeCampaign) contiguous(p nativePlace, next int64, e nativeEvents) error {
	if e.base-e.skipped != next || len(e.values) == 0 {
		c.check.violate("%v: %d events at offset %d with %d skipped, after offset %d", p, len(e.values), e.base, e.skipped, next-1)
		return errViolated
	}
	return nil
}

// ended judges the last message of an event stream.
func (c *nativeCampaign) ended(p nativePlace, next int64, end *nativeReply) error {
	if end.Type != "subscription_lagged" || end.ResumeFrom == nil {
		return fmt.Errorf("the event stream ended with %s", end.Type)
	}
	if *end.ResumeFrom != next {
		c.check.violate("%v: fell behind at %d, the last event was %d", p, *end.ResumeFrom, next-1)
	}
	return errLagged
}

// replay reads pieces of history until stop ends: from the oldest record or from an offset, across the point where it joins the present.
func (c *nativeCampaign) replay(ctx, stop context.Context, random *rand.Rand) {
	for stop.Err() == nil {
		f := c.followers[random.IntN(len(c.followers))]
		had := f.next.Load()
		from := int64(-1)
		if random.IntN(2) == 0 {
			from = max(0, had-random.Int64N(4000))
		}
		began := time.Now()
		err := c.replayOnce(stop, f.place, from, 1+random.IntN(60))
		var cursor *cursorError
		switch {
		case stop.Err() != nil:
			return
		case errors.Is(err, errLagged):
			c.lags.Add(1)
		case errors.As(err, &cursor) && cursor.reason == "too_old" && from >= 0 && cursor.available > from:
			c.tooOld.Add(1)
		case err != nil && (errors.Is(err, io.EOF) || errors.As(err, &cursor) || !c.inOutage(began)):
			c.check.violate("%v: replay from %d, while records up to %d were known: %v", f.place, from, had-1, err)
			return
		case err == nil:
			c.replays.Add(1)
		}
		if pause(ctx, time.Second) != nil {
			return
		}
	}
}

// replayOnce reads from an offset (-1: the oldest) to some records beyond the present.
func (c *nativeCampaign) replayOnce(ctx context.Context, p nativePlace, from int64, beyond int) error {
	o := subscribeRequest{stream: p.stream, shard: p.shard, start: "earliest", features: offeredFeatures}
	if from >= 0 {
		o.start = map[string]int64{"offset": from}
	}
	sub, err := c.target.subscribe(ctx, o)
	if err != nil {
		return err
	}
	defer sub.close()
	defer context.AfterFunc(ctx, sub.close)()
	if from >= 0 && sub.start != from || sub.start < 0 || sub.live < sub.start {
		c.check.violate("%v: subscribed at %d, and granted from %d, live from %d", p, from, sub.start, sub.live)
	}
	for next := sub.start; next < sub.live+int64(beyond); {
		e, end, err := sub.next(nativeLimit)
		if err != nil {
			return err
		}
		if end != nil {
			return c.ended(p, next, end)
		}
		if err := c.contiguous(p, next, e); err != nil {
			return err
		}
		for i, v := range e.values {
			c.check.meet(p, e.base+int64(i), v)
		}
		next = e.base + int64(len(e.values))
	}
	return nil
}

// fallBehind subscribes and does not read until the server gives up: everything before the first loss must come, then the notice with the
// offset of the first loss, and a subscription there goes on without a gap.
func (c *nativeCampaign) fallBehind(ctx context.Context, p nativePlace) error {
	began := time.Now()
	dropped, err := c.metric(ctx, metricDropped)
	if err != nil {
		return err
	}
	sub, err := c.target.subscribe(ctx, subscribeRequest{
		stream: p.stream, shard: p.shard, start: "latest", capacity: 4, window: smallWindow, features: offeredFeatures,
	})
	if err != nil {
		return err
	}
	defer sub.close()
	for {
		now, err := c.metric(ctx, metricDropped)
		if err != nil {
			return err
		}
		if now > dropped {
			break
		}
		if time.Since(began) > lagLimit {
			return fmt.Errorf("%v: a subscriber that reads nothing had lost nothing after %v", p, lagLimit)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	next := sub.start
	for {
		e, end, err := sub.next(nativeLimit)
		if err != nil {
			return err
		}
		if end != nil {
			if err := c.ended(p, next, end); !errors.Is(err, errLagged) {
				return err
			}
			break
		}
		if err := c.contiguous(p, next, e); err != nil {
			return err
		}
		for i, v := range e.values {
			c.check.meet(p, e.base+int64(i), v)
		}
		next = e.base + int64(len(e.values))
	}
	c.behind.Add(1)
	return c.replayOnce(ctx, p, next, 10)
}

const (
	// smallWindow is the flow control window of a subscriber that is to fall behind.
	smallWindow = 8 << 10
	// lagLimit is how long it may take until it has.
	lagLimit = 60 * time.Second
)
