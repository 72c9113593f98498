package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/disk"
	"github.com/felixlog/felix/compat/bench/internal/hist"
	"github.com/felixlog/felix/compat/bench/internal/procfs"
)

// runCold is Cold: an open-loop producer to SideTopic, Seconds of it alone, then beside one consumer that reads PassBytes of Topic
// after its files were dropped from the page cache. Rate, seconds and processor time in the result are those of the consumption.
func runCold(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	side := *spec
	side.Topic, side.Consumers, side.Partitions = spec.SideTopic, 0, 1
	f, err := newFlow(ctx, &side)
	defer f.close()
	if err != nil {
		return nil, err
	}
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	pace(ctx, false, spec.Rate, second(spec.WarmSeconds), f.send(ctx))
	res := &Result{}

	f.from.Store(int64(time.Since(epoch)))
	pace(ctx, false, spec.Rate, second(spec.Seconds), f.send(ctx))
	if err := f.drain(ctx); err != nil {
		return nil, fmt.Errorf("producer alone: %w", err)
	}
	base := QuantilesOf(&f.ack)
	res.Base = &base
	f.ack = hist.Hist{} // nothing is in flight

	if res.Resident, err = disk.Evict(spec.Files); err != nil {
		return nil, fmt.Errorf("evict: %w", err)
	}
	f.from.Store(int64(time.Since(epoch)))
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { pace(stop, false, spec.Rate, time.Hour, f.send(ctx)) })
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		cancel()
		wg.Wait()
		return nil, err
	}
	w := &wire{}
	res.Records, err = readPass(ctx, spec, spec.PassBytes, w)
	err = errors.Join(err, m.end(res))
	cancel()
	wg.Wait()
	if err := errors.Join(err, f.drain(ctx)); err != nil {
		return nil, err
	}
	res.Bytes, res.WireBytes = res.Records*int64(spec.RecordBytes), w.read.Load()
	ack := QuantilesOf(&f.ack)
	res.Ack = &ack
	return res, nil
}

// sampleRSS reads a process's resident memory once a second until the returned function is called, which returns the samples.
func sampleRSS(pid int) (stop func() []int64) {
	var samples []int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if m, err := procfs.ReadMemory(pid); err == nil {
					samples = append(samples, m.RSS)
				}
			}
		}
	})
	return func() []int64 {
		close(done)
		wg.Wait()
		return samples
	}
}
