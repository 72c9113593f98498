package load

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// readPass consumes bytes of record values from offset 0 of all partitions with a fresh client, and returns the records read.
func readPass(ctx context.Context, spec *Spec, bytes int64, w *wire) (records int64, err error) {
	cl, err := kgo.NewClient(consumerOpts(spec, spec.Topic, allPartitions(spec.Partitions), kgo.NewOffset().AtStart(), w)...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	var got int64
	for got < bytes {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return records, err
		}
		for _, e := range fetches.Errors() {
			return records, fmt.Errorf("fetch of %s %d: %w", e.Topic, e.Partition, e.Err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				got += int64(len(r.Value))
			}
			records += int64(len(p.Records))
		})
	}
	return records, nil
}

// runConsume is Consume with franz-go: every consumer reads the whole topic for itself, again from the start after PassBytes.
func runConsume(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	w := &wire{}
	part := func(bytes int64) (int64, error) {
		var wg sync.WaitGroup
		var total atomic.Int64
		var failed atomic.Pointer[error]
		for range max(spec.Consumers, 1) {
			wg.Go(func() {
				for left := bytes; left > 0; {
					pass := left
					if spec.PassBytes > 0 {
						pass = min(left, spec.PassBytes)
					}
					n, err := readPass(ctx, spec, pass, w)
					total.Add(n)
					if err != nil {
						failed.CompareAndSwap(nil, &err)
						return
					}
					left -= pass
				}
			})
		}
		wg.Wait()
		if err := failed.Load(); err != nil {
			return total.Load(), *err
		}
		return total.Load(), nil
	}
	if spec.WarmBytes > 0 {
		if _, err := part(spec.WarmBytes); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	res := &Result{}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	wireBefore := w.read.Load()
	if res.Records, err = part(spec.Bytes); err != nil {
		return nil, err
	}
	if err := m.end(res); err != nil {
		return nil, err
	}
	res.Bytes = res.Records * int64(spec.RecordBytes)
	res.WireBytes = w.read.Load() - wireBefore
	return res, nil
}
