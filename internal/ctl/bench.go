package ctl

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/client"
)

// benchFlags are the settings of a bench command.
type benchFlags struct {
	warmup, records, size, concurrency, fanout int
}

const (
	// maxBenchRecords bounds the times that are remembered.
	maxBenchRecords = 1_000_000
	// benchHeader is what the records of a measurement begin with: whose they are, their number, and when they were sent.
	benchHeader = 24
)

// benchResult is what was measured. Times are from the call that publishes: to the acknowledgement (ingest), or to the delivery.
type benchResult struct {
	Bench       string  `json:"bench"`
	Stream      string  `json:"stream"`
	Records     int     `json:"records"`
	Bytes       int     `json:"record_bytes"`
	Concurrency int     `json:"concurrency"`
	Fanout      int     `json:"fanout"`
	Measured    int     `json:"measured"` // acknowledgements or deliveries
	Lost        int     `json:"lost"`     // deliveries that did not come
	Seconds     float64 `json:"seconds"`
	PerSecond   float64 `json:"per_second"`
	MiBPerSec   float64 `json:"mib_per_second"`
	P50Ms       float64 `json:"p50_ms"`
	P99Ms       float64 `json:"p99_ms"`
	MaxMs       float64 `json:"max_ms"`
}

func (a *app) benchCommand() *cobra.Command {
	return family("bench", "Measure a stream: latency, fan-out, ingest (writes records to it)", nil,
		a.benchOf("latency", "Publish one record at a time and measure until it is delivered", 1, (*native).benchLatency),
		a.benchOf("fanout", "Publish to several subscriptions and measure each delivery", 1, (*native).benchFanout),
		a.benchOf("ingest", "Publish from several goroutines and measure until records are acknowledged", 64, (*native).benchIngest))
}

func (a *app) benchOf(name, short string, concurrency int, run func(*native, context.Context, *benchRun) error) *cobra.Command {
	var f benchFlags
	bench := &cobra.Command{
		Use: name + " STREAM", Short: short, Args: exactly(1), ValidArgsFunction: a.completeNative, Example: "  felixctl bench " + name + " scratch",
		Long: short + ". The records are written to the stream and stay there: use one made for it. Those of the warm-up are not counted.",
	}
	fl := bench.Flags()
	fl.IntVar(&f.warmup, "warmup", 500, "records before the measurement")
	fl.IntVar(&f.records, "records", 5000, "records that are measured")
	fl.IntVar(&f.size, "bytes", 256, "size of a record")
	f.concurrency, f.fanout = concurrency, 1
	switch name {
	case "fanout":
		fl.IntVar(&f.fanout, "fanout", 10, "subscriptions")
		fl.IntVar(&f.concurrency, "concurrency", 1, "records on the way at once")
	case "ingest":
		fl.IntVar(&f.concurrency, "concurrency", concurrency, "records on the way at once")
	}
	bench.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return a.withNative(func(ctx context.Context, n *native, args []string) error {
			b := &benchRun{flags: f, stream: a.stream(args[0]), began: time.Now()}
			_, _ = rand.Read(b.id[:]) // never fails
			b.result = benchResult{Bench: name, Stream: b.stream.String(), Bytes: f.size, Concurrency: f.concurrency, Fanout: f.fanout}
			if _, err := n.shardsOf(ctx, b.stream); err != nil {
				return err
			}
			var err error
			if b.publisher, err = n.NewPublisher(b.stream, client.PublisherOptions{AckOnCommit: true, DeliveryTimeout: a.timeout}); err != nil {
				return n.failed(ctx, "publish to "+b.stream.String(), err)
			}
			if err := run(n, ctx, b); err != nil {
				return n.failed(ctx, "bench "+b.stream.String(), err)
			}
			return a.printBench(b.finish())
		})(cmd, args)
	}
	return bench
}

func (f *benchFlags) check() error {
	switch {
	case f.records < 1 || f.records > maxBenchRecords || f.warmup < 0 || f.warmup > maxBenchRecords:
		return usageErrorf("--records and --warmup are at most %d, and --records at least 1", maxBenchRecords)
	case f.size < benchHeader || f.size > 8<<20:
		return usageErrorf("--bytes must be %d to %d", benchHeader, 8<<20)
	case f.concurrency < 1 || f.concurrency > 10_000:
		return usageErrorf("--concurrency must be 1 to 10000")
	case f.fanout < 1 || f.fanout > 1000:
		return usageErrorf("--fanout must be 1 to 1000")
	case f.records*f.fanout > 10*maxBenchRecords:
		return usageErrorf("--records times --fanout is at most %d", 10*maxBenchRecords)
	}
	return nil
}

// benchRun is one measurement.
type benchRun struct {
	flags     benchFlags
	stream    client.Stream
	publisher *client.Publisher
	id        [8]byte
	began     time.Time
	result    benchResult

	mu    sync.Mutex
	times []time.Duration // guarded by mu
}

// payload is the record of a number, sent now.
func (b *benchRun) payload(number int) []byte {
	p := make([]byte, b.flags.size)
	copy(p, b.id[:])
	binary.BigEndian.PutUint64(p[8:], uint64(number))
	binary.BigEndian.PutUint64(p[16:], uint64(time.Since(b.began)))
	return p
}

// parse reads a record of this measurement.
func (b *benchRun) parse(p []byte) (number int, sent time.Duration, ok bool) {
	if len(p) < benchHeader || [8]byte(p[:8]) != b.id {
		return 0, 0, false
	}
	return int(binary.BigEndian.Uint64(p[8:])), time.Duration(binary.BigEndian.Uint64(p[16:])), true
}

func (b *benchRun) took(d time.Duration) {
	b.mu.Lock()
	b.times = append(b.times, d)
	b.mu.Unlock()
}

// publish sends records from first on, several at once, and calls answered for each with the time that its answer took.
func (b *benchRun) publish(ctx context.Context, first, n int, answered func(time.Duration)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range min(b.flags.concurrency, n) {
		key := []byte(strconv.Itoa(worker)) // spreads over shards
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				began := time.Now()
				if _, err := b.publisher.Publish(ctx, client.Record{Key: key, Value: b.payload(first + i)}); err != nil {
					cancel(err)
					return
				}
				answered(time.Since(began))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (n *native) benchIngest(ctx context.Context, b *benchRun) error {
	if err := b.publish(ctx, 0, b.flags.warmup, func(time.Duration) {}); err != nil {
		return err
	}
	began := time.Now()
	err := b.publish(ctx, b.flags.warmup, b.flags.records, b.took)
	b.result.Seconds = time.Since(began).Seconds()
	return err
}

func (n *native) benchLatency(ctx context.Context, b *benchRun) error {
	s, err := n.Subscribe(ctx, b.stream, client.SubscribeOptions{FollowLag: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	var began time.Time
	for i := range b.flags.warmup + b.flags.records {
		if i == b.flags.warmup {
			began = time.Now()
		}
		one, cancel := context.WithTimeout(ctx, n.app.timeout)
		_, err := b.publisher.Publish(one, client.Record{Value: b.payload(i)})
		for err == nil {
			var e client.Event
			if e, err = s.Next(one); err != nil {
				break
			}
			if number, sent, ok := b.parse(e.Value); ok && number == i {
				if i >= b.flags.warmup {
					b.took(time.Since(b.began) - sent)
				}
				break
			}
		}
		cancel()
		if err != nil {
			return err
		}
	}
	b.result.Seconds = time.Since(began).Seconds()
	return nil
}

func (n *native) benchFanout(ctx context.Context, b *benchRun) error {
	if err := b.publish(ctx, 0, b.flags.warmup, func(time.Duration) {}); err != nil {
		return err
	}
	subs := make([]*client.Subscription, 0, b.flags.fanout)
	defer func() {
		for _, s := range subs {
			_ = s.Close()
		}
	}()
	for range b.flags.fanout {
		s, err := n.Subscribe(ctx, b.stream, client.SubscribeOptions{FollowLag: true, ReuseBuffers: true})
		if err != nil {
			return err
		}
		subs = append(subs, s)
	}
	began := time.Now()
	var last atomic.Int64 // when the last delivery came, since began
	var wg sync.WaitGroup
	failed := make(chan error, len(subs))
	for _, s := range subs {
		wg.Go(func() { failed <- b.collect(ctx, s, n.app.timeout, func() { last.Store(int64(time.Since(began))) }) })
	}
	err := b.publish(ctx, b.flags.warmup, b.flags.records, func(time.Duration) {})
	wg.Wait()
	for range subs {
		err = errors.Join(err, <-failed)
	}
	b.result.Seconds = time.Duration(last.Load()).Seconds()
	return err
}

// collect measures the deliveries of one subscription until all have come, or none has for the time-out: then the rest is lost.
func (b *benchRun) collect(ctx context.Context, s *client.Subscription, timeout time.Duration, delivered func()) error {
	times := make([]time.Duration, 0, b.flags.records)
	defer func() {
		b.mu.Lock()
		b.times = append(b.times, times...)
		b.mu.Unlock()
	}()
	for len(times) < b.flags.records {
		wait, cancel := context.WithTimeout(ctx, timeout)
		events, err := s.NextBatch(wait)
		cancel()
		var gap *client.GapError
		switch {
		case errors.As(err, &gap):
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		now := time.Since(b.began)
		for _, e := range events {
			if number, sent, ok := b.parse(e.Value); ok && number >= b.flags.warmup {
				times = append(times, now-sent)
			}
		}
		delivered()
	}
	return nil
}

// finish makes numbers of the times.
func (b *benchRun) finish() *benchResult {
	slices.Sort(b.times)
	r := &b.result
	r.Records, r.Measured, r.Lost = b.flags.records, len(b.times), b.flags.records*b.flags.fanout-len(b.times)
	if r.Seconds > 0 {
		r.PerSecond = float64(r.Measured) / r.Seconds
		r.MiBPerSec = r.PerSecond * float64(b.flags.size) / (1 << 20)
	}
	at := func(share float64) float64 {
		if len(b.times) == 0 {
			return 0
		}
		return float64(b.times[min(int(share*float64(len(b.times))), len(b.times)-1)]) / float64(time.Millisecond)
	}
	r.P50Ms, r.P99Ms, r.MaxMs = at(0.5), at(0.99), at(1)
	return r
}

func (a *app) printBench(r *benchResult) error {
	var lost error
	if r.Lost > 0 {
		lost = fmt.Errorf("%d of %d deliveries did not come", r.Lost, r.Lost+r.Measured)
	}
	if a.json() {
		return errors.Join(a.emit(r, nil, nil), lost)
	}
	all := count(r.Records, "record")
	if r.Fanout > 1 {
		all = fmt.Sprintf("%d deliveries of %s", r.Records*r.Fanout, all)
	}
	what := map[string]string{"latency": "publish to delivery", "fanout": "publish to delivery", "ingest": "publish to acknowledgement"}[r.Bench]
	err := a.facts([][]string{
		{"rate", fmt.Sprintf("%.0f a second (%.1f MiB/s)", r.PerSecond, r.MiBPerSec)},
		{"p50", fmt.Sprintf("%.3f ms (%s)", r.P50Ms, what)},
		{"p99", fmt.Sprintf("%.3f ms", r.P99Ms)},
		{"max", fmt.Sprintf("%.3f ms", r.MaxMs)},
		{"measured", fmt.Sprintf("%d of %s of %d bytes, %d at once, fan-out %d",
			r.Measured, all, r.Bytes, r.Concurrency, r.Fanout)},
	})
	return errors.Join(err, lost)
}
