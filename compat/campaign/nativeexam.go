package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// metricDropped counts records that a subscriber's queue had no room for.
const metricDropped = "felix_sub_queue_dropped_total"

const (
	examRate     = 60                      // records a second of each stream of an exam
	examCapacity = 8                       // batches in the queue of the slow subscriber
	examQuiet    = 1500 * time.Millisecond // without an event: its queue has drained
)

// exam compares what subscribers missed with what the server says that it dropped. Two streams have a publisher of their own each: an
// ephemeral one, where nobody is told, and a durable one, whose readers do not understand the notice and see the losses in the offsets.
// Each has a subscriber that reads and one that stalls again and again. At the end the publishers pause, the queues drain, a last record
// comes to everybody, and then the sums must be equal.
type exam struct {
	c       *nativeCampaign
	streams []*examStream
	wg      sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

// examStream is one stream of an exam.
type examStream struct {
	name    string
	durable bool
	id      int32
	readers []*examReader
	sent    int64 // numbers sent; owned by the publisher, then by the exam
}

// examReader is one subscriber.
type examReader struct {
	s        *examStream
	sub      *nativeSubscription
	stalls   bool
	drain    chan struct{} // closed: no more stalls
	got      int64
	gaps     int64 // by offsets
	finished chan struct{}
	quiet    quietness
}

// quietness is when a reader had its latest event.
type quietness struct {
	mu sync.Mutex
	at time.Time
}

func (q *quietness) touch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at = time.Now()
}

func (q *quietness) since() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Since(q.at)
}

// run holds an exam until stop ends, and judges it.
func (c *nativeCampaign) exam(ctx, stop context.Context, random *rand.Rand) error {
	x := &exam{c: c}
	before, err := c.metric(ctx, metricDropped)
	if err != nil {
		return err
	}
	lags := c.lags.Load()
	for _, s := range []*examStream{{name: streamFading}, {name: streamGaps, durable: true}} {
		s.id = c.examID // another number each time, so that an exam knows its records
		c.examID++
		x.streams = append(x.streams, s)
		for _, stalls := range []bool{false, true} {
			r, err := x.reader(ctx, s, stalls)
			if err != nil {
				return err
			}
			defer r.sub.close()
			s.readers = append(s.readers, r)
		}
	}
	publishing := sync.WaitGroup{}
	for _, s := range x.streams {
		publishing.Go(func() { x.note(x.publish(ctx, stop, s, -1)) })
		for _, r := range s.readers {
			seed := random.Uint64()
			x.wg.Go(func() { x.note(r.read(ctx, rand.New(rand.NewPCG(seed, 0)))) })
		}
	}
	publishing.Wait()
	if err := x.settle(ctx); err != nil {
		return err
	}
	after, err := c.metric(ctx, metricDropped)
	if err != nil {
		return err
	}
	x.judge(int64(after-before), c.lags.Load() > lags)
	return nil
}

func (x *exam) note(err error) {
	if err == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.errs = append(x.errs, err)
}

func (x *exam) failed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return errors.Join(x.errs...)
}

func (x *exam) reader(ctx context.Context, s *examStream, stalls bool) (*examReader, error) {
	o := subscribeRequest{stream: s.name, start: "latest", features: offeredFeatures &^ offerLagged}
	if stalls {
		o.capacity, o.window = examCapacity, smallWindow
	}
	sub, err := x.c.target.subscribe(ctx, o)
	if err != nil {
		return nil, err
	}
	if s.durable != (sub.start >= 0) || stalls && sub.capacity != examCapacity {
		x.c.check.violate("%s: subscribed with start offset %d and capacity %d", s.name, sub.start, sub.capacity)
	}
	r := &examReader{s: s, sub: sub, stalls: stalls, drain: make(chan struct{}), finished: make(chan struct{})}
	r.quiet.touch()
	return r, nil
}

// lastMark is in the number of the record that ends an exam.
const lastMark = 1 << 40

// publish publishes until stop ends; or, with a number, that one record.
func (x *exam) publish(ctx, stop context.Context, s *examStream, only int64) error {
	conn, err := x.c.target.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseWithError(0, "") }()
	out, err := x.c.target.open(ctx, conn, offeredFeatures)
	if err != nil {
		return err
	}
	tick := time.NewTicker(time.Second / examRate)
	defer tick.Stop()
	for request := uint64(1); ; request++ {
		number := only
		if only < 0 {
			select {
			case <-tick.C:
			case <-stop.Done():
				return nil
			}
			number = s.sent
		}
		p := nativePublish{request: request, stream: s.name, payloads: [][]byte{nativeValue(s.id, number, x.c.o.size)}}
		if _, err := out.out.Write(p.appendTo(nil)); err != nil {
			return err
		}
		a, err := out.answer(nativeLimit)
		if err = errors.Join(err, a.err); err != nil {
			return fmt.Errorf("publish to %s: %w", s.name, err)
		}
		if s.durable != (a.offset >= 0) {
			return fmt.Errorf("publish to %s: answered with offset %d", s.name, a.offset)
		}
		if only >= 0 {
			return nil
		}
		s.sent++
	}
}

// read reads, with stalls, up to the last record.
func (r *examReader) read(ctx context.Context, random *rand.Rand) error {
	defer close(r.finished)
	defer context.AfterFunc(ctx, r.sub.close)()
	next, latest := r.sub.start, int64(-1)
	for stallAt := time.Now(); ; {
		if r.stalls && time.Now().After(stallAt) {
			stalled := time.NewTimer(4*time.Second + time.Duration(random.Int64N(int64(3*time.Second))))
			select {
			case <-stalled.C:
			case <-r.drain:
				stalled.Stop()
				r.stalls = false
			case <-ctx.Done():
				stalled.Stop()
				return context.Cause(ctx)
			}
			stallAt = time.Now().Add(500*time.Millisecond + time.Duration(random.Int64N(int64(time.Second))))
		}
		e, end, err := r.sub.next(nativeLimit)
		if err != nil {
			return fmt.Errorf("%s: %w", r.s.name, err)
		}
		if end != nil {
			return fmt.Errorf("%s: the event stream ended with %s", r.s.name, end.Type)
		}
		r.quiet.touch()
		if r.s.durable {
			r.gaps += e.base - next - e.skipped
			next = e.base + int64(len(e.values))
		}
		for _, v := range e.values {
			rec, ok := parseNative(v)
			if !ok || rec.publisher != r.s.id || rec.number <= latest {
				return fmt.Errorf("%s: %v (%.60q) after number %d", r.s.name, rec, v, latest)
			}
			latest = rec.number
			if latest == lastMark {
				return nil
			}
			r.got++
		}
	}
}

// settle ends the stalls, waits until the queues have drained, and sends the last record.
func (x *exam) settle(ctx context.Context) error {
	for _, s := range x.streams {
		for _, r := range s.readers {
			r.quiet.touch()
			close(r.drain)
		}
	}
	for _, s := range x.streams {
		for _, r := range s.readers {
			for r.quiet.since() < examQuiet {
				if err := pause(ctx, 100*time.Millisecond); err != nil {
					return err
				}
			}
		}
		x.note(x.publish(ctx, ctx, s, lastMark))
	}
	x.wg.Wait()
	return x.failed()
}

// judge compares the sums.
func (x *exam) judge(counted int64, others bool) {
	missed := int64(0)
	for _, s := range x.streams {
		for _, r := range s.readers {
			lost := s.sent - r.got
			missed += lost
			if s.durable && r.gaps != lost {
				x.c.check.violate("%s: %d records missed, %d by the offsets", s.name, lost, r.gaps)
			}
			if !r.stalls && r.sub.capacity == 0 && lost > 0 {
				fmt.Printf("%s: a subscriber that reads at once missed %d of %d records\n", s.name, lost, s.sent)
			}
		}
		x.c.examined.Add(s.sent)
	}
	x.c.missed.Add(missed)
	switch {
	case missed == 0:
		x.c.check.violate("subscribers that stalled missed nothing: nothing was shown")
	case counted < missed, counted > missed && !others:
		// Others that fell behind meanwhile are in the counter with what they did not get at once.
		x.c.check.violate("subscribers missed %d records, the server counted %d", missed, counted)
	}
}

// sample looks at the server, and at what the publishers have got.
func (c *nativeCampaign) sample(ctx context.Context) (nativeSample, error) {
	out := nativeSample{at: time.Now()}
	var err error
	if out.footprint, err = footprintOf(ctx, c.server); err != nil {
		return out, err
	}
	out.acked, _, _ = c.check.counts()
	return out, nil
}

// metric is one metric of the server, without labels.
func (c *nativeCampaign) metric(ctx context.Context, name string) (float64, error) {
	page, err := metricsOf(ctx, c.server)
	if err != nil {
		return 0, err
	}
	return page.value(name)
}

// alive is an error if the server has ended.
func (c *nativeCampaign) alive() error {
	if err := syscall.Kill(c.server.PID(), 0); err != nil {
		return fmt.Errorf("the server had ended by itself: %w", err)
	}
	return nil
}
