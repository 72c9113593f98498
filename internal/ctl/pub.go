package ctl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/client"
)

// pubFlags are the settings of one pub command.
type pubFlags struct {
	inputFlags
	ack        string
	idempotent bool
}

func (a *app) pubCommand() *cobra.Command {
	var f pubFlags
	pub := &cobra.Command{
		Use: "pub STREAM [MESSAGE]", Aliases: []string{"publish"}, Short: "Publish records to a stream", ValidArgsFunction: a.completeNative,
		Args: upTo(2),
		Long: `Publish one record with the message, or one for each line of standard input or of --file. Records of one key go to one shard and stay
in order; those without a key go to shard 0. The command ends when the server has acknowledged all of them, and tells their offsets.

With --ack none nothing is acknowledged: records count once they are sent, and what is refused or lost is not known. A server that is gone is
waited for, as long as --timeout without any acknowledgement. The first interrupt ends the command with status 130; records that were not
acknowledged may have been stored.`,
		Example: `  felixctl pub orders 'two teas' --key anna
  printf 'anna:2 teas\ncarl:1 coffee\n' | felixctl pub orders --key-delim :
  felixctl pub images --file cat.png --whole`,
	}
	f.add(pub.Flags())
	pub.Flags().StringVar(&f.ack, "ack", "all", "`all`: wait for the server; none: do not")
	pub.Flags().BoolVar(&f.idempotent, "idempotent", true, "store each record once even if its answer is lost; --idempotent=false may store it twice")
	must(pub.RegisterFlagCompletionFunc("ack", cobra.FixedCompletions([]string{"all", "none"}, cobra.ShellCompDirectiveNoFileComp)))
	pub.RunE = func(cmd *cobra.Command, args []string) error {
		f.keyed = cmd.Flags().Changed("key")
		if err := f.check(len(args) > 1); err != nil {
			return err
		}
		o, err := f.options(cmd.Flags().Changed("idempotent"))
		if err != nil {
			return err
		}
		o.DeliveryTimeout = 2*a.timeout + time.Second // run notices sooner that nothing is answered, and knows why
		return a.withNative(func(ctx context.Context, n *native, args []string) error { return n.pub(ctx, &f, o, args) })(cmd, args)
	}
	return pub
}

// options are what the flags ask of the publisher.
func (f *pubFlags) options(asked bool) (client.PublisherOptions, error) {
	o := client.PublisherOptions{AckOnCommit: true}
	switch {
	case f.ack == "none" && f.idempotent && asked:
		return o, usageErrorf("--idempotent takes answers: leave out --ack none")
	case f.ack == "none":
		o.Guarantee, o.Ack, o.AckOnCommit = client.AtMostOnce, client.AckNone, false
	case f.ack != "all":
		return o, usageErrorf("--ack %q is neither all nor none", f.ack)
	case !f.idempotent:
		o.Guarantee = client.AtLeastOnce
	}
	return o, nil
}

// publishing is one run of pub.
type publishing struct {
	*native
	flags *pubFlags
	p     *client.Publisher
	tally *tally
	told  time.Time
}

func (n *native) pub(ctx context.Context, f *pubFlags, o client.PublisherOptions, args []string) error {
	s := n.app.stream(args[0])
	if _, err := n.shardsOf(ctx, s); err != nil {
		return err
	}
	p, err := n.NewPublisher(s, o)
	if err != nil {
		return n.failed(ctx, "publish to "+s.String(), err)
	}
	w := &publishing{native: n, flags: f, p: p, tally: newTally(s.String(), f.ack == "none"), told: time.Now()}
	err = w.run(ctx, args[1:])
	w.tally.freeze()
	return errors.Join(w.report(err), err)
}

// run publishes everything that the input holds. It returns when all of it is answered, or says what ended it.
func (w *publishing) run(ctx context.Context, message []string) error {
	// Delivery outlives an interrupt by a grace, so it does not end with ctx.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	w.watch.talk(true)
	defer w.watch.talk(false)
	finished := make(chan error, 1)
	answered := func(ack client.Ack, err error) {
		w.tally.answered(int32(ack.Shard), ack.Offset, w.failed(sending, "publish to "+w.tally.topic, err))
	}
	var wg sync.WaitGroup
	// Nobody waits for it where it is stuck in a read of a terminal or a pipe: the process ends then.
	wg.Go(func() {
		err := w.app.eachRecord(ctx, &w.flags.inputFlags, message, func(line []byte, _ bool) error { return w.send(ctx, sending, line, answered) })
		finished <- errors.Join(err, w.p.Close(sending))
	})
	tick := time.NewTicker(max(min(maxPoll, w.app.timeout/4), 10*time.Millisecond))
	defer tick.Stop()
	var waited patience
	for {
		select {
		case err := <-finished:
			return w.outcome(ctx, err)
		case <-ctx.Done():
			grace, end := context.WithTimeout(sending, interruptGrace)
			defer end()
			_ = w.p.Close(grace) // what is not answered by then is told below
			return w.outcome(ctx, ctx.Err())
		case <-w.tally.changed:
		case <-tick.C:
		}
		n, left := w.tally.state()
		silent := waited.lasted(n, left)
		if failure := w.tally.failure(); failure != nil {
			return failure // whatever the input still holds
		}
		if silent >= w.app.timeout {
			return w.stalled(left)
		}
	}
}

// stalled says why nothing was acknowledged for the whole time-out.
func (w *publishing) stalled(left int) error {
	rest := w.tally.unanswered(left, w.app.timeout)
	if addr, lost := w.watch.lost(); lost != nil {
		return unreachableErrorf("%s: the server at %s is gone: %w", rest, addr, lost)
	}
	return unreachableErrorf("%s: the server at %s does not answer: it hangs or is overloaded; --timeout waits longer", rest, w.app.brokers)
}

// outcome chooses what to say of an end: the first refusal, or an interrupt, or what failed.
func (w *publishing) outcome(ctx context.Context, err error) error {
	if failure := w.tally.failure(); failure != nil {
		return failure
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		n, left := w.tally.state()
		return interruptedErrorf("interrupted: %d record%s acknowledged%s", n, plural(n), unacknowledged(left))
	}
	return w.failed(ctx, "publish to "+w.tally.topic, err)
}

// send hands a record to the publisher, as often as the flags say.
func (w *publishing) send(reading, sending context.Context, line []byte, answered func(client.Ack, error)) error {
	key, value, err := w.flags.split(line)
	if err != nil {
		return err
	}
	for range w.flags.count {
		if reading.Err() != nil {
			return reading.Err()
		}
		if w.tally.failure() != nil {
			return nil //nolint:nilerr // the failure is reported once, by run
		}
		w.tally.handed()
		if err := w.p.PublishAsync(sending, client.Record{Key: key, Value: value}, answered); err != nil {
			answered(client.Ack{}, err) // counted as any other failure, which run reports
			break
		}
	}
	n, _ := w.tally.state()
	w.app.progress(&w.told, "%d record%s acknowledged", n, plural(n))
	return nil
}

// publishedSpan is the range of offsets that one shard got; null where acknowledgements carry none.
type publishedSpan struct {
	Shard   int32  `json:"shard"`
	Records int    `json:"records"`
	First   *int64 `json:"first_offset"`
	Last    *int64 `json:"last_offset"`
}

// report writes what was acknowledged; of a failure that let nothing through, people read the failure alone.
func (w *publishing) report(failure error) error {
	n, left := w.tally.state()
	spans := []publishedSpan{}
	without := 0
	for _, s := range w.tally.sorted() {
		span := publishedSpan{Shard: s.Partition, Records: s.Records}
		if s.First >= 0 {
			span.First, span.Last = &s.First, &s.Last
		} else {
			without += s.Records
		}
		spans = append(spans, span)
	}
	why := "an ephemeral stream has no offsets"
	if w.tally.blind {
		why = "nothing is acknowledged with --ack none"
	}
	if w.app.json() {
		out := map[string]any{"stream": w.tally.topic, "published": n, "unacknowledged": left, "offsets": spans, "without_offset": without}
		if without > 0 {
			out["without_offset_reason"] = why
		}
		return w.app.emit(out, nil, nil)
	}
	if failure != nil && n == 0 {
		return nil
	}
	rest := ""
	if without := w.tally.unacknowledged(); without > 0 {
		rest = fmt.Sprintf(", %d not acknowledged", without)
	}
	lines := fmt.Sprintf("%s to %s%s\n", count(n, "record"), visible(w.tally.topic), rest)
	for _, s := range spans {
		switch {
		case s.First == nil:
			lines += fmt.Sprintf("  shard %d: no offset: %s\n", s.Shard, why)
		case *s.First == *s.Last:
			lines += fmt.Sprintf("  shard %d: offset %d\n", s.Shard, *s.First)
		default:
			lines += fmt.Sprintf("  shard %d: offsets %d to %d\n", s.Shard, *s.First, *s.Last)
		}
	}
	_, err := fmt.Fprint(w.app.p.Out, lines)
	return err
}
