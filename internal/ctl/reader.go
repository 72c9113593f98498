package ctl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxPoll bounds one wait for records, so that outages and ends without records are seen.
const maxPoll = 500 * time.Millisecond

// reader is one run of consume.
type reader struct {
	app    *app
	flags  *consumeFlags
	client *kafkaClient
	watch  *watcher
	topic  string
	print  formatter

	ends          map[int32]int64 // with --exit: where each unfinished partition ends
	next          map[int32]int64 // the offset that each partition is read from next
	leaders       map[int32]int32 // who leads each partition
	read, printed int64

	since   time.Time     // when records came last, or the reading began
	counted map[int32]int // fetches answered by then
	trouble error         // why the server gave no records since then, as far as it said
}

// start finds the offsets and makes the client that reads from them.
func (r *reader) start(ctx context.Context, from position) error {
	setup, cancel := context.WithTimeout(ctx, r.app.timeout)
	defer cancel()
	// One client to look, another to read: what a client consumes is fixed when it is made.
	look, err := r.app.connect(setup)
	if err != nil {
		return err
	}
	defer look.Close()
	offsets, err := r.plan(setup, look, from)
	if err != nil {
		return err
	}
	r.client, err = r.app.connect(setup, kgo.KeepControlRecords(), kgo.KeepRetryableFetchErrors(), kgo.FetchMaxWait(r.pause()),
		kgo.WithHooks(r.watch), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: offsets}))
	return err
}

// pause is how long one wait lasts: a fraction of the time-out, so that several fit in.
func (r *reader) pause() time.Duration {
	return max(min(maxPoll, r.app.timeout/4), 10*time.Millisecond)
}

// plan decides from which offset each partition is read, and where it ends.
func (r *reader) plan(ctx context.Context, c *kafkaClient, from position) (map[int32]kgo.Offset, error) {
	details, err := c.topics(ctx, []string{r.topic})
	if err != nil {
		return nil, err
	}
	all, err := c.spans(ctx, []string{r.topic})
	if err != nil {
		return nil, err
	}
	for _, p := range r.flags.partitions {
		if _, ok := details[r.topic].Partitions[p]; !ok {
			return nil, missingErrorf("topic %s has no partition %d: it has %d, from 0", r.topic, p, len(details[r.topic].Partitions))
		}
	}
	spans := map[partitionKey]span{}
	for key, s := range all {
		if len(r.flags.partitions) == 0 || slices.Contains(r.flags.partitions, key.partition) {
			spans[key] = s
		}
	}
	starts, err := from.resolve(ctx, c, r.topic, spans)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]kgo.Offset{}
	for p, at := range starts {
		end := spans[partitionKey{r.topic, p}].end
		if r.flags.exit && at >= end {
			continue // nothing to read there
		}
		offsets[p] = kgo.NewOffset().At(at)
		r.next[p], r.ends[p] = at, end
		r.leaders[p] = details[r.topic].Partitions[p].Leader
	}
	return offsets, nil
}

// run prints records until there is a reason to stop.
func (r *reader) run(ctx context.Context) error {
	out := bufio.NewWriterSize(r.app.p.Out, 64<<10)
	r.progressed()
	for !r.done() {
		fetches := r.poll(ctx)
		// Records that came with an error come before it: they are printed first.
		if err := r.printAll(fetches, out); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.heed(ctx, fetches); err != nil {
			return err
		}
		if r.flags.exit && !r.done() {
			if err := r.settle(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) poll(ctx context.Context) kgo.Fetches {
	wait, cancel := context.WithTimeout(ctx, r.pause())
	defer cancel()
	return r.client.PollFetches(wait)
}

func (r *reader) printAll(fetches kgo.Fetches, out *bufio.Writer) error {
	var line []byte
	for iter := fetches.RecordIter(); !iter.Done() && !r.done(); {
		rec := iter.Next()
		r.next[rec.Partition] = rec.Offset + 1
		if !r.wanted(rec) {
			continue
		}
		line = r.print(line[:0], rec)
		if _, err := out.Write(line); err != nil {
			return err
		}
		r.printed++
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if fetches.NumRecords() > 0 {
		r.progressed() // after the output has taken them: the time that it takes is not the server's
	}
	for p, end := range r.ends {
		if r.flags.exit && r.next[p] >= end {
			delete(r.ends, p)
		}
	}
	return nil
}

// progressed notes that the server gives what it has.
func (r *reader) progressed() {
	r.since, r.counted, r.trouble = time.Now(), r.watch.answered(), nil
}

// heed acts on the errors of a poll: what passes with time is waited for, the rest ends the command.
func (r *reader) heed(ctx context.Context, fetches kgo.Fetches) error {
	var passing error
	for _, e := range fetches.Errors() {
		if e.Topic == "" && errors.Is(e.Err, context.DeadlineExceeded) {
			continue // the poll is over
		}
		where := fmt.Sprintf("read %s partition %d at offset %d", r.topic, e.Partition, r.next[e.Partition])
		if _, unfinished := r.ends[e.Partition]; r.flags.exit && !unfinished {
			continue // read to its end already
		}
		if !passes(e.Err) {
			return refusal(where, e.Err, "")
		}
		passing = refusal(where, e.Err, "")
	}
	if passing == nil {
		return nil
	}
	if r.trouble == nil && !errors.Is(passing, context.Canceled) {
		if _, lost := r.watch.lost(); lost == nil { // an outage is told by the watcher
			r.app.warn("%v: retrying", passing)
		}
	}
	r.trouble, r.counted = passing, r.watch.answered()
	// The client library asks again at once for what it was told to hand over: it is the caller that waits.
	pace := time.NewTimer(r.pause())
	defer pace.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pace.C:
		return nil
	}
}

// passes says that a fetch's error may be gone with the next try. Damage and a failed disk do not heal while one waits.
func passes(err error) bool {
	if errors.Is(err, kerr.CorruptMessage) || errors.Is(err, kerr.KafkaStorageError) {
		return false
	}
	return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || errors.Is(err, context.DeadlineExceeded)
}

// settle decides about an --exit that gets no records: the rest of the offsets holds none, or the time is up.
func (r *reader) settle(ctx context.Context) error {
	if r.drained() {
		return r.verify(ctx)
	}
	if time.Since(r.since) < r.app.timeout {
		return nil
	}
	var left []string
	for _, p := range slices.Sorted(maps.Keys(r.ends)) {
		left = append(left, fmt.Sprintf("partition %d at offset %d of %d", p, r.next[p], r.ends[p]))
	}
	rest := strings.Join(left, ", ")
	addr, lost := r.watch.lost()
	switch {
	case lost != nil:
		return unreachableErrorf("%s was not read to its end (%s): the server at %s is gone: %w", r.topic, rest, addr, lost)
	case r.trouble != nil:
		return r.trouble
	default:
		return unreachableErrorf("%s was not read to its end (%s): the server at %s gave nothing for %s; --timeout waits longer",
			r.topic, rest, r.app.brokers, r.app.timeout)
	}
}

// drained says that every leader of an unfinished partition answered two fetches since records or errors came last. The client asks a
// node again only after what the answer before held was taken, so the first of the two held nothing.
func (r *reader) drained() bool {
	now := r.watch.answered()
	for p := range r.ends {
		if leader := r.leaders[p]; now[leader] < r.counted[leader]+2 {
			return false
		}
	}
	return true
}

// verify ends the partitions that have nothing more to give. The last offsets can be without a record, for compaction leaves holes; an
// end that fell below the one seen at the start is loss, and said to be.
func (r *reader) verify(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, r.app.timeout)
	defer cancel()
	spans, err := r.client.spans(wait, []string{r.topic})
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(r.ends)) {
		s, ok := spans[partitionKey{r.topic, p}]
		switch {
		case !ok:
			return missingErrorf("%s partition %d is gone: it was read to offset %d of %d", r.topic, p, r.next[p], r.ends[p])
		case s.err != nil:
			return refusal(fmt.Sprintf("read %s partition %d at offset %d", r.topic, p, r.next[p]), s.err, "")
		case s.end < r.ends[p]:
			return fmt.Errorf("%s partition %d ends at offset %d now, and ended at %d when the command began: records are lost", r.topic, p, s.end, r.ends[p])
		}
		delete(r.ends, p)
	}
	return nil
}

// wanted counts a record and says whether it is printed.
func (r *reader) wanted(rec *kgo.Record) bool {
	end, bounded := r.ends[rec.Partition]
	if r.flags.exit && (!bounded || rec.Offset >= end) {
		return false
	}
	if rec.Attrs.IsControl() {
		return false
	}
	r.read++
	if r.flags.key != "" && string(rec.Key) != r.flags.key {
		return false
	}
	text := []byte(r.flags.grep)
	return len(text) == 0 || bytes.Contains(rec.Value, text) || bytes.Contains(rec.Key, text)
}

// done says that nothing more is to be printed.
func (r *reader) done() bool {
	return r.flags.count > 0 && r.printed >= r.flags.count || r.flags.exit && len(r.ends) == 0
}
