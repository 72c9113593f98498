package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/bench/internal/gen"
	"github.com/felixlog/felix/compat/bench/internal/hist"
)

// runSync is Sync: InFlight workers on each of Producers clients, each worker waiting for one record's acknowledgement before it
// sends the next. With several workers a client, worker j of client i writes to partition i, so that each request holds one batch.
func runSync(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	values := gen.Values(spec.RecordBytes)
	w := &wire{}
	clients := make([]*kgo.Client, max(spec.Producers, 1))
	for i := range clients {
		opts, err := producerOpts(spec, w)
		if err != nil {
			return nil, err
		}
		if clients[i], err = kgo.NewClient(opts...); err != nil {
			return nil, err
		}
		defer clients[i].Close()
		if err := ping(ctx, clients[i]); err != nil {
			return nil, err
		}
	}
	part := func(seconds float64, limit int64) (*hist.Hist, error) {
		until := deadline(seconds)
		workers := len(clients) * max(spec.InFlight, 1)
		hists, errs := make([]hist.Hist, workers), make([]error, workers)
		var wg sync.WaitGroup
		for k := range workers {
			cl, choose := clients[k%len(clients)], spreader(spec, k%len(clients))
			share := limit / int64(workers) / int64(spec.RecordBytes)
			wg.Go(func() { errs[k] = syncWorker(ctx, cl, spec.Topic, values, choose, until, share, &hists[k]) })
		}
		wg.Wait()
		all := &hist.Hist{}
		for i := range hists {
			all.Merge(&hists[i])
		}
		return all, errors.Join(errs...)
	}
	res := &Result{}
	if spec.WarmSeconds > 0 {
		h, err := part(spec.WarmSeconds, spec.WarmBytes)
		if err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
		res.AllRecords = h.Count()
	}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	wireBefore, batchesBefore := w.written.Load(), w.batches.Load()
	h, err := part(spec.Seconds, spec.Bytes)
	if err != nil {
		return nil, err
	}
	if err := m.end(res); err != nil {
		return nil, err
	}
	res.Records = h.Count()
	res.AllRecords += h.Count()
	res.Bytes = res.Records * int64(spec.RecordBytes)
	res.WireBytes, res.Batches = w.written.Load()-wireBefore, w.batches.Load()-batchesBefore
	q := QuantilesOf(h)
	res.Ack = &q
	return res, nil
}

// syncWorker sends one record after the other until the time or its share of records (0: no bound) is used up.
func syncWorker(ctx context.Context, cl *kgo.Client, topic string, values [][]byte, choose func(int64) int32,
	until time.Time, share int64, h *hist.Hist,
) error {
	acked := make(chan error, 1)
	for n := int64(0); share == 0 || n < share; n++ {
		start := time.Now()
		if !until.IsZero() && start.After(until) {
			return nil
		}
		r := &kgo.Record{Topic: topic, Value: values[int(n)%len(values)]}
		if choose != nil {
			r.Partition = choose(n)
		}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) { acked <- err })
		if err := <-acked; err != nil {
			return err
		}
		h.Add(time.Since(start))
	}
	return nil
}
