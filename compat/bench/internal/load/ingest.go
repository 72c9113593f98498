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

	"github.com/felixlog/felix/compat/bench/internal/gen"
	"github.com/felixlog/felix/compat/bench/internal/native"
)

// ingest is one native publisher.
type ingest struct {
	spec *Spec
	conn *native.Conn
	out  *native.Stream
	wg   sync.WaitGroup

	// frames are ready publishes, acked or not; ids are written into the acked ones.
	frames, asking [][]byte
	sent           int64 // publishes
	asked          int64 // of them with an answer
	answered       atomic.Int64
	offset         atomic.Int64 // of the last answered publish, -1 without
	failed         atomic.Pointer[error]
	ending         atomic.Bool
	wake           chan struct{}
}

// frameBytes is what the ready publishes take together, at most.
const frameBytes = 4 << 20

func newIngest(ctx context.Context, spec *Spec) (*ingest, error) {
	in := &ingest{spec: spec, wake: make(chan struct{}, 1)}
	if spec.Bus == nil || spec.Bus.Native == nil || spec.Bus.Window < 1 || spec.Bus.Batch < 1 {
		return in, errors.New("an ingest load needs a native server, a window and a batch")
	}
	batches := batchesOf(gen.Values(spec.RecordBytes), spec.Bus.Batch)
	for _, b := range batches[:max(1, min(len(batches), frameBytes/(spec.RecordBytes*spec.Bus.Batch)))] {
		for _, acked := range []bool{false, true} {
			f, err := native.AppendPublish(nil, spec.Bus.Stream, 0, acked, b...)
			if err != nil {
				return in, err
			}
			if acked {
				in.asking = append(in.asking, f)
			} else {
				in.frames = append(in.frames, f)
			}
		}
	}
	var err error
	if in.conn, err = spec.Bus.Native.Dial(ctx); err != nil {
		return in, err
	}
	if in.out, err = in.conn.Open(ctx); err != nil {
		return in, err
	}
	in.wg.Go(func() {
		err := in.out.Acks(func(n int, offset int64) {
			in.offset.Store(offset)
			in.answered.Add(int64(n))
			in.look()
		})
		if !in.ending.Load() {
			in.failed.CompareAndSwap(nil, &err)
			in.look()
		}
	})
	return in, nil
}

func (in *ingest) look() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *ingest) close() {
	in.ending.Store(true)
	if in.conn != nil {
		_ = in.conn.Close()
	}
	in.wg.Wait()
}

// next is the next publish, good until as many more were taken as there are frames.
func (in *ingest) next(acked bool) []byte {
	i := int(in.sent) % len(in.frames)
	in.sent++
	if !acked {
		return in.frames[i]
	}
	in.asked++
	f := in.asking[i]
	binary.BigEndian.PutUint64(f[native.HeaderBytes:], uint64(in.asked))
	return f
}

// wait waits until at most n publishes are unanswered.
func (in *ingest) wait(ctx context.Context, n int64) error {
	var timeout <-chan time.Time
	for {
		if err := in.failed.Load(); err != nil {
			return *err
		}
		if in.asked-in.answered.Load() <= n {
			return nil
		}
		if timeout == nil {
			t := time.NewTimer(patience)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-in.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return fmt.Errorf("%d publishes, %d answered", in.asked, in.answered.Load())
		}
	}
}

// run publishes for a time and ends with an answered publish, so that everything before it was taken.
func (in *ingest) run(ctx context.Context, d time.Duration) error {
	window := int64(in.spec.Bus.Window)
	for until := time.Now().Add(d); time.Now().Before(until); {
		if err := in.out.Write(in.next(in.spec.Bus.Acked)); err != nil {
			return err
		}
		if err := in.wait(ctx, window-1); err != nil {
			return err
		}
	}
	if err := in.out.Write(in.next(true)); err != nil {
		return err
	}
	return in.wait(ctx, 0)
}

// runSingles publishes records one by one with the window full: each answer lets the next one go, and those that came together go
// together.
func (in *ingest) runSingles(ctx context.Context, d time.Duration) error {
	window := int64(in.spec.Bus.Window)
	var b []byte
	for until := time.Now().Add(d); time.Now().Before(until); {
		b = b[:0]
		for free := window - (in.asked - in.answered.Load()); free > 0; free-- {
			b = append(b, in.next(true)...)
		}
		if err := in.out.Write(b); err != nil {
			return err
		}
		if err := in.wait(ctx, window-1); err != nil {
			return err
		}
	}
	return in.wait(ctx, 0)
}

// runIngest is Ingest and Singles: publishes without subscribers.
func runIngest(ctx context.Context, spec *Spec, out io.Writer) (*Result, error) {
	in, err := newIngest(ctx, spec)
	defer in.close()
	if err != nil {
		return nil, err
	}
	run := in.run
	if spec.Kind == Singles {
		run = in.runSingles
	}
	if err := run(ctx, seconds(spec.WarmSeconds)); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	sent := in.sent
	m, err := begin(out, spec.ServerPID)
	if err != nil {
		return nil, err
	}
	res := &Result{}
	if err := errors.Join(run(ctx, seconds(spec.Seconds)), m.end(res)); err != nil {
		return nil, err
	}
	per := int64(spec.Bus.Batch)
	res.Records, res.AllRecords, res.Batches = (in.sent-sent)*per, in.sent*per, in.sent-sent
	res.Bytes = res.Records * int64(spec.RecordBytes)
	// Offsets are dense: the last publish tells how many records the log has.
	if o := in.offset.Load(); o >= 0 && o+per != res.AllRecords {
		return nil, fmt.Errorf("%d records published, the last one's offset is %d", res.AllRecords, o+per-1)
	}
	return res, nil
}
