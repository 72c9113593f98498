package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// interruptGrace is how long an interrupted command waits for the acknowledgements that are on their way.
const interruptGrace = 2 * time.Second

// writer hands records to the client and counts what came of them.
type writer struct {
	client  *kafkaClient
	flags   *produceFlags
	headers []kgo.RecordHeader
	watch   *watcher
	tally   *tally
	app     *app
	told    time.Time // when progress was told last; the reading side's
}

// run writes everything that the input holds. It returns when all of it is acknowledged, or says what ended it.
func (w *writer) run(ctx context.Context, message []string) error {
	w.watch.talk(true)
	defer w.watch.talk(false)
	// Delivery outlives an interrupt by a grace, so it does not end with ctx.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	finished := make(chan error, 1)
	var wg sync.WaitGroup
	// Nobody waits for it where it is stuck in a read of a terminal or a pipe: the process ends then.
	wg.Go(func() {
		err := w.app.eachRecord(ctx, &w.flags.inputFlags, message, func(line []byte, null bool) error { return w.send(ctx, sending, line, null) })
		finished <- errors.Join(err, w.client.Flush(sending))
	})
	err := w.supervise(ctx, finished)
	w.tally.freeze()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		n, left := w.tally.state()
		err = interruptedErrorf("interrupted: %d record%s acknowledged%s", n, plural(n), unacknowledged(left))
	}
	return err
}

// unacknowledged is the end of a sentence about records whose fate is not known.
func unacknowledged(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d not acknowledged (written or not)", n)
}

// patience is for how long nothing has been acknowledged while something was to be.
type patience struct {
	since time.Time
	acked int
}

// lasted says how long that has been, given how many records are acknowledged now and how many are not.
func (p *patience) lasted(acked, left int) time.Duration {
	if now := time.Now(); acked != p.acked || left == 0 || p.since.IsZero() {
		p.since, p.acked = now, acked
	}
	return time.Since(p.since)
}

// supervise waits for the end of the work, an interrupt, a refusal, or a time-out without any acknowledgement.
func (w *writer) supervise(ctx context.Context, finished <-chan error) error {
	tick := time.NewTicker(max(min(maxPoll, w.app.timeout/4), 10*time.Millisecond))
	defer tick.Stop()
	interrupt := ctx.Done()
	var waited patience
	var grace <-chan time.Time
	for {
		select {
		case err := <-finished:
			return errors.Join(err, w.tally.failure())
		case <-interrupt:
			interrupt = nil
			t := time.NewTimer(interruptGrace)
			defer t.Stop()
			grace = t.C
		case <-grace:
			return ctx.Err()
		case <-w.tally.changed:
		case <-tick.C:
		}
		n, left := w.tally.state()
		silent := waited.lasted(n, left)
		_, lost := w.watch.lost()
		switch failure := w.tally.failure(); {
		case failure != nil && left == 0:
			return failure // whatever the input still holds
		case grace != nil && (left == 0 || lost != nil):
			return ctx.Err()
		case silent >= w.app.timeout:
			return w.stalled(ctx, left)
		}
	}
}

// stalled says why nothing was acknowledged for the whole time-out.
func (w *writer) stalled(ctx context.Context, left int) error {
	rest := w.tally.unanswered(left, w.app.timeout)
	if addr, lost := w.watch.lost(); lost != nil {
		return unreachableErrorf("%s: the server at %s is gone: %w", rest, addr, lost)
	}
	// The client library retries refusals like that of a failed disk without a word, but a question is answered with them.
	ask, cancel := context.WithTimeout(ctx, min(w.app.timeout, interruptGrace))
	defer cancel()
	spans, err := w.client.spans(ask, []string{w.tally.topic})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return unreachableErrorf("%s: the server at %s does not answer: it hangs or is overloaded", rest, w.app.brokers)
	}
	keys := make([]partitionKey, 0, len(spans))
	for key := range spans {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y partitionKey) int { return int(x.partition - y.partition) })
	for _, key := range keys {
		if err := spans[key].err; err != nil {
			return refusal(fmt.Sprintf("%s: partition %d", rest, key.partition), err, "")
		}
	}
	return fmt.Errorf("%s, although the server at %s answers: --timeout waits longer", rest, w.app.brokers)
}

// send hands a record to the client, as often as the flags say. It ends with reading, and so does the input.
func (w *writer) send(reading, sending context.Context, line []byte, null bool) error {
	key, line, err := w.flags.split(line)
	if err != nil {
		return err
	}
	if line == nil && !null {
		line = []byte{}
	}
	for range w.flags.count {
		switch {
		case reading.Err() != nil:
			return reading.Err()
		case w.tally.failure() != nil:
			return nil //nolint:nilerr // the failure is reported once, by supervise
		}
		w.tally.handed()
		w.client.Produce(sending, &kgo.Record{Key: key, Value: line, Headers: w.headers, Partition: max(w.flags.partition, 0)}, w.tally.done)
	}
	if now := time.Now(); now.Sub(w.told) > progressEvery && sending.Err() == nil {
		if n, _ := w.tally.state(); !w.told.IsZero() {
			w.app.say("%d record%s acknowledged", n, plural(n))
		}
		w.told = now
	}
	return nil
}
