package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/bench/internal/gen"
	"github.com/felixlog/felix/compat/bench/internal/hist"
)

// epoch is the zero of the times written into records; both ends are in this process, so its monotonic clock serves.
var epoch = time.Now()

// stamped returns a copy of value that starts with the intended send time.
func stamped(value []byte, intended time.Time) []byte {
	v := append([]byte(nil), value...)
	binary.BigEndian.PutUint64(v, uint64(intended.Sub(epoch)))
	return v
}

// stampOf returns the intended send time of a record made by stamped.
func stampOf(value []byte) time.Time {
	return epoch.Add(time.Duration(binary.BigEndian.Uint64(value)))
}

// flow is one open-loop stream of records from producers to consumers.
type flow struct {
	spec      *Spec
	producers []*kgo.Client
	consumers []*kgo.Client
	w         *wire
	values    [][]byte
	choose    []func(int64) int32

	// from is the first intended time that counts, in nanoseconds after epoch; set when the measured part starts.
	from     atomic.Int64
	mu       sync.Mutex // guards ack, which promises of several clients add to
	ack      hist.Hist
	end      []hist.Hist // one a consumer
	sent     int64
	acked    atomic.Int64
	received atomic.Int64
	failed   atomic.Pointer[error]
	wg       sync.WaitGroup
}

// newFlow connects the clients of a flow. Each consumer takes its share of the partitions, from their start: the topic is new, and
// a consumer that asks for the end may ask after the first records came.
func newFlow(ctx context.Context, spec *Spec) (*flow, error) {
	f := &flow{spec: spec, w: &wire{}, values: gen.Values(spec.RecordBytes), end: make([]hist.Hist, spec.Consumers)}
	f.from.Store(1 << 62)
	for i := range spec.Consumers {
		var mine []int32
		for p := i; p < spec.Partitions; p += spec.Consumers {
			mine = append(mine, int32(p))
		}
		cl, err := kgo.NewClient(consumerOpts(spec, spec.Topic, mine, kgo.NewOffset().AtStart(), f.w)...)
		if err != nil {
			return f, err
		}
		f.consumers = append(f.consumers, cl)
		if err := ping(ctx, cl); err != nil {
			return f, err
		}
	}
	for i := range max(spec.Producers, 1) {
		opts, err := producerOpts(spec, f.w)
		if err != nil {
			return f, err
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			return f, err
		}
		f.producers = append(f.producers, cl)
		f.choose = append(f.choose, spreader(spec, i))
		if err := ping(ctx, cl); err != nil {
			return f, err
		}
	}
	return f, nil
}

// close ends the clients and the consumers' goroutines.
func (f *flow) close() {
	for _, cl := range f.producers {
		cl.Close()
	}
	for _, cl := range f.consumers {
		cl.Close()
	}
	f.wg.Wait()
}

// consume starts a goroutine for each consumer, which ends when its client is closed or ctx ends.
func (f *flow) consume(ctx context.Context) {
	for i, cl := range f.consumers {
		f.wg.Go(func() {
			for {
				fetches := cl.PollFetches(ctx)
				if fetches.IsClientClosed() || ctx.Err() != nil {
					return
				}
				for _, e := range fetches.Errors() {
					err := fmt.Errorf("fetch of %s %d: %w", e.Topic, e.Partition, e.Err)
					f.failed.CompareAndSwap(nil, &err)
					return
				}
				now := time.Now()
				from := epoch.Add(time.Duration(f.from.Load()))
				fetches.EachRecord(func(r *kgo.Record) {
					if t := stampOf(r.Value); !t.Before(from) {
						f.end[i].Add(now.Sub(t))
					}
				})
				f.received.Add(int64(fetches.NumRecords()))
			}
		})
	}
}

// send is the sender of pace: producers take turns.
func (f *flow) send(ctx context.Context) func(int64, time.Time) {
	return func(i int64, intended time.Time) {
		k := int(i % int64(len(f.producers)))
		r := &kgo.Record{Topic: f.spec.Topic, Value: stamped(f.values[int(i)%len(f.values)], intended)}
		if f.choose[k] != nil {
			r.Partition = f.choose[k](i)
		}
		f.sent++
		f.producers[k].Produce(ctx, r, f.done)
	}
}

func (f *flow) done(r *kgo.Record, err error) {
	if err != nil {
		f.failed.CompareAndSwap(nil, &err)
		return
	}
	f.acked.Add(1)
	now := time.Now()
	if t := stampOf(r.Value); int64(t.Sub(epoch)) >= f.from.Load() {
		f.mu.Lock()
		f.ack.Add(now.Sub(t))
		f.mu.Unlock()
	}
}

// drain waits until everything sent is acknowledged and received.
func (f *flow) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for _, cl := range f.producers {
		if err := cl.Flush(ctx); err != nil {
			return err
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(f.consumers) > 0 && f.received.Load() < f.sent {
		if f.failed.Load() != nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d records sent, %d received: %w", f.sent, f.received.Load(), ctx.Err())
		case <-tick.C:
		}
	}
	if err := f.failed.Load(); err != nil {
		return *err
	}
	if f.acked.Load() != f.sent || (len(f.consumers) > 0 && f.received.Load() != f.sent) {
		return fmt.Errorf("%d records sent, %d acknowledged, %d received", f.sent, f.acked.Load(), f.received.Load())
	}
	return nil
}

// runFlow is Latency and Sustain: a warm-up at the same rate, then the measured part.
func runFlow(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	if spec.Rate <= 0 || spec.RecordBytes < 16 {
		return nil, errors.New("an open loop needs a rate and records of at least 16 bytes")
	}
	f, err := newFlow(ctx, spec)
	defer f.close()
	if err != nil {
		return nil, err
	}
	f.consume(ctx)
	exact := spec.Kind == Latency
	// One record to every partition first, so that every consumer is in its waiting fetch and every path is open.
	pace(ctx, exact, spec.Rate, time.Duration(max(spec.WarmSeconds, 0.1)*float64(time.Second)), f.send(ctx))
	if err := f.drain(ctx); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	res := &Result{}
	stop := func() []int64 { return nil }
	if spec.Kind == Sustain {
		stop = sampleRSS(spec.ServerPID)
	}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	wireBefore := f.w.written.Load() + f.w.read.Load()
	f.from.Store(int64(time.Since(epoch)))
	res.Records = pace(ctx, exact, spec.Rate, time.Duration(spec.Seconds*float64(time.Second)), f.send(ctx))
	err = f.drain(ctx)
	if err := errors.Join(err, m.end(res)); err != nil {
		return nil, err
	}
	res.RSS = stop()
	res.Bytes = res.Records * int64(spec.RecordBytes)
	res.WireBytes = f.w.written.Load() + f.w.read.Load() - wireBefore
	res.AllRecords = f.sent
	end := &hist.Hist{}
	for i := range f.end {
		end.Merge(&f.end[i])
	}
	ack, e2e := QuantilesOf(&f.ack), QuantilesOf(end)
	res.Ack, res.End = &ack, &e2e
	return res, nil
}
