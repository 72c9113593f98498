package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/bench/internal/gen"
)

// slab is how many records are allocated at once, so that the generator costs the client next to nothing.
const slab = 512

// franzProducer is one client and what it has sent.
type franzProducer struct {
	cl     *kgo.Client
	choose func(n int64) int32
	n      int64 // records sent
	acked  atomic.Int64
	failed atomic.Pointer[error]
}

// done is the promise of every record.
func (p *franzProducer) done(_ *kgo.Record, err error) {
	if err != nil {
		p.failed.CompareAndSwap(nil, &err)
		return
	}
	p.acked.Add(1)
}

// send produces values until limit bytes are sent or until is past, then waits for the acknowledgements.
func (p *franzProducer) send(ctx context.Context, topics []string, partitions int, values [][]byte, limit int64, until time.Time) (records int64, err error) {
	size := int64(len(values[0]))
	for records*size < limit && (until.IsZero() || time.Now().Before(until)) {
		recs := make([]kgo.Record, slab)
		for i := range recs {
			r := &recs[i]
			r.Topic, r.Value = topics[0], values[int(p.n)%len(values)]
			if p.choose != nil {
				at := int(p.choose(p.n))
				r.Topic, r.Partition = topics[at/partitions], int32(at%partitions)
			}
			p.n++
			p.cl.Produce(ctx, r, p.done)
		}
		records += slab
		if err := p.failed.Load(); err != nil {
			return records, *err
		}
	}
	if err := p.cl.Flush(ctx); err != nil {
		return records, err
	}
	if err := p.failed.Load(); err != nil {
		return records, *err
	}
	return records, nil
}

// runProduce is Produce with franz-go.
func runProduce(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	values := gen.Values(spec.RecordBytes)
	w := &wire{}
	producers := make([]*franzProducer, max(spec.Producers, 1))
	for i := range producers {
		opts, err := producerOpts(spec, w)
		if err != nil {
			return nil, err
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			return nil, err
		}
		defer cl.Close()
		if err := ping(ctx, cl); err != nil {
			return nil, err
		}
		producers[i] = &franzProducer{cl: cl, choose: spreader(spec, i)}
	}
	topics := spec.TopicNames()
	part := func(bytes int64, seconds float64) (int64, error) {
		return eachProducer(producers, func(p *franzProducer) (int64, error) {
			return p.send(ctx, topics, spec.Partitions, values, bytes/int64(len(producers)), deadline(seconds))
		})
	}
	if spec.WarmBytes > 0 {
		if _, err := part(spec.WarmBytes, spec.WarmSeconds); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	res := &Result{}
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	wireBefore, batchesBefore := w.written.Load(), w.batches.Load()
	if res.Records, err = part(spec.Bytes, spec.Seconds); err != nil {
		return nil, err
	}
	if err := m.end(res); err != nil {
		return nil, err
	}
	res.Bytes = res.Records * int64(spec.RecordBytes)
	res.WireBytes, res.Batches = w.written.Load()-wireBefore, w.batches.Load()-batchesBefore
	for _, p := range producers {
		if p.acked.Load() != p.n {
			return nil, fmt.Errorf("%d records sent, %d acknowledged", p.n, p.acked.Load())
		}
		res.AllRecords += p.n
	}
	return res, nil
}

// eachProducer runs f for all producers at once and adds the counts.
func eachProducer[P any](producers []P, f func(P) (int64, error)) (int64, error) {
	var wg sync.WaitGroup
	var total atomic.Int64
	errs := make([]error, len(producers))
	for i, p := range producers {
		wg.Go(func() {
			n, err := f(p)
			total.Add(n)
			errs[i] = err
		})
	}
	wg.Wait()
	return total.Load(), errors.Join(errs...)
}

func deadline(seconds float64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(seconds * float64(time.Second)))
}
