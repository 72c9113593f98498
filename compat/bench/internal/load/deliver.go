package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/gen"
	"github.com/felixlog/felix/compat/bench/internal/hist"
)

// deliveries is one publisher and its subscribers, all in this process.
type deliveries struct {
	spec   *Spec
	bus    bus
	subs   []*receiver
	failed atomic.Pointer[error]
	// ending says that clients are being closed: what they say then is no failure.
	ending atomic.Bool
	wake   chan struct{} // somebody received enough for the publisher to look again
	sent   int64         // records
}

// receiver is one subscriber.
type receiver struct {
	received atomic.Int64
	from     atomic.Int64 // the first intended time that counts, as in flow
	end      hist.Hist
	_        [64]byte // the next one's counter is another processor's
}

// lookEvery is after how many publishes a subscriber has the publisher look again; windows are multiples of it.
const lookEvery = 32

// patience bounds how long nothing may happen.
const patience = 30 * time.Second

// newDeliveries connects publisher and subscribers.
func newDeliveries(ctx context.Context, spec *Spec) (*deliveries, error) {
	d := &deliveries{spec: spec, wake: make(chan struct{}, 1)}
	var err error
	d.bus, err = newBus(ctx, spec.Bus, d.fail)
	if err != nil {
		return d, err
	}
	for range spec.Bus.Fanout {
		r := &receiver{}
		r.from.Store(1 << 62)
		d.subs = append(d.subs, r)
		deliver := d.count(r)
		if spec.Kind == Deliver {
			deliver = d.time(r)
		}
		if err := d.bus.subscribe(ctx, deliver, d.fail); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (d *deliveries) close() {
	d.ending.Store(true)
	if d.bus != nil {
		d.bus.close()
	}
}

func (d *deliveries) fail(err error) {
	if err == nil || d.ending.Load() {
		return
	}
	d.failed.CompareAndSwap(nil, &err)
	d.look()
}

func (d *deliveries) look() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// count receives records whose number alone matters.
func (d *deliveries) count(r *receiver) func([]byte) {
	every := int64(lookEvery * d.spec.Bus.Batch)
	return func([]byte) {
		if r.received.Add(1)%every == 0 {
			d.look()
		}
	}
}

// time receives records that begin with their intended send time.
func (d *deliveries) time(r *receiver) func([]byte) {
	return func(payload []byte) {
		now := time.Now()
		if t := stampOf(payload); int64(t.Sub(epoch)) >= r.from.Load() {
			r.end.Add(now.Sub(t))
		}
		r.received.Add(1)
	}
}

// slowest is how many records every subscriber has.
func (d *deliveries) slowest() int64 {
	n := d.sent
	for _, r := range d.subs {
		n = min(n, r.received.Load())
	}
	return n
}

// wait waits until every subscriber has n records.
func (d *deliveries) wait(ctx context.Context, n int64) error {
	var late <-chan time.Time
	for {
		if err := d.failed.Load(); err != nil {
			return *err
		}
		if d.slowest() >= n {
			return nil
		}
		if late == nil {
			t := time.NewTimer(patience)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-d.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("%d records sent, %d received by the slowest subscriber: the rest is lost", d.sent, d.slowest())
		}
	}
}

// drain waits until everything sent is received.
func (d *deliveries) drain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		for {
			select {
			case <-tick.C:
				d.look()
			case <-ctx.Done():
				return
			}
		}
	}()
	err := d.wait(ctx, d.sent)
	cancel()
	return err
}

// exactly checks that nothing was delivered twice.
func (d *deliveries) exactly() error {
	for i, r := range d.subs {
		if n := r.received.Load(); n != d.sent {
			return fmt.Errorf("subscriber %d received %d records, %d were sent", i, n, d.sent)
		}
	}
	return nil
}

// runDeliver is Deliver: an open loop of single records, from the intended send time to each subscriber.
func runDeliver(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	if spec.Bus == nil || spec.Bus.Batch != 1 || spec.Rate <= 0 || spec.RecordBytes < 16 || spec.Bus.Fanout < 1 {
		return nil, errors.New("a delivery load needs a rate, subscribers and single records of at least 16 bytes")
	}
	d, err := newDeliveries(ctx, spec)
	defer d.close()
	if err != nil {
		return nil, err
	}
	values := gen.Values(spec.RecordBytes)
	one := make([][]byte, 1)
	send := func(i int64, intended time.Time) {
		one[0] = stamped(values[int(i)%len(values)], intended)
		if err := d.bus.publish(one); err != nil {
			d.fail(err)
		}
		d.sent++
	}
	pace(ctx, true, spec.Rate, seconds(spec.WarmSeconds), send)
	if err := d.drain(ctx); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	from := int64(time.Since(epoch))
	for _, r := range d.subs {
		r.from.Store(from)
	}
	res := &Result{}
	res.Records = pace(ctx, true, spec.Rate, seconds(spec.Seconds), send)
	err = d.drain(ctx)
	if err := errors.Join(err, m.end(res), d.exactly()); err != nil {
		return nil, err
	}
	d.close()
	end := &hist.Hist{}
	for _, r := range d.subs {
		end.Merge(&r.end)
	}
	e2e := QuantilesOf(end)
	res.End, res.AllRecords = &e2e, d.sent
	res.Deliveries = res.Records * int64(spec.Bus.Fanout)
	res.Bytes = res.Deliveries * int64(spec.RecordBytes)
	return res, nil
}

// runFanout is Fanout: batches as fast as the slowest subscriber takes them, with Window of them under way.
func runFanout(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	if spec.Bus == nil || spec.Bus.Fanout < 1 || spec.Bus.Window < 2*lookEvery || spec.Bus.Window%lookEvery != 0 {
		return nil, fmt.Errorf("a fanout load needs subscribers and a window that is a multiple of %d, at least twice that", lookEvery)
	}
	d, err := newDeliveries(ctx, spec)
	defer d.close()
	if err != nil {
		return nil, err
	}
	batches := batchesOf(gen.Values(spec.RecordBytes), spec.Bus.Batch)
	ahead := int64(spec.Bus.Window * spec.Bus.Batch)
	run := func(d2 time.Duration) error {
		for until := time.Now().Add(d2); time.Now().Before(until); {
			b := batches[int(d.sent)/spec.Bus.Batch%len(batches)]
			if err := d.bus.publish(b); err != nil {
				return err
			}
			d.sent += int64(len(b))
			if err := d.wait(ctx, d.sent-ahead); err != nil {
				return err
			}
		}
		return nil
	}
	if err := run(seconds(spec.WarmSeconds)); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	// The measured part begins and ends with the pipe full: what is under way is the same at both ends.
	received := func() (n int64) {
		for _, r := range d.subs {
			n += r.received.Load()
		}
		return n
	}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	before, sent := received(), d.sent
	res := &Result{}
	if err := errors.Join(run(seconds(spec.Seconds)), m.end(res)); err != nil {
		return nil, err
	}
	res.Deliveries = received() - before
	res.Records = d.sent - sent
	if err := errors.Join(d.drain(ctx), d.exactly()); err != nil {
		return nil, err
	}
	res.Bytes = res.Deliveries * int64(spec.RecordBytes)
	res.AllRecords = d.sent
	return res, nil
}

// batchesOf groups values; none is left over.
func batchesOf(values [][]byte, size int) [][][]byte {
	var out [][][]byte
	for len(values) >= size {
		out = append(out, values[:size])
		values = values[size:]
	}
	return out
}
