package ctl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/client"
)

// subFlags are the settings of one sub command.
type subFlags struct {
	from, until, format, grep string
	shards                    []int32
	count                     int64
	exit                      bool
}

func (a *app) subCommand() *cobra.Command {
	var f subFlags
	sub := &cobra.Command{
		Use: "sub STREAM", Aliases: []string{"subscribe"}, Short: "Read records of a stream, as they come or from a place in it", Args: exactly(1),
		ValidArgsFunction: a.completeNative,
		Long: `Read records and print them: from now on, or from --from on, until --count of them or until --until; with --exit until the end that the
stream has now, shard by shard. Otherwise wait for more until interrupted. A server that is gone is waited for, and nothing is left out or
comes twice. Reading changes nothing.

Places: earliest, latest, an offset, -N (the last N of each shard) or @TIME, where TIME is a date, a time, milliseconds since 1970 or a
duration before now. Streams in memory have no offsets: they can be read from earliest and latest alone, without --exit.

Formats: raw (the value), offsets (SHARD:OFFSET and the value), json (an object a line), or a template: %t stream, %p shard, %o offset,
%s value, %S its size, %T milliseconds, %d time, \n, \t. Keys are not part of native events: felixctl consume shows them.`,
		Example: `  felixctl sub orders --from earliest
  felixctl sub orders --from -10 --exit --format '%p:%o %s\n'
  felixctl sub orders --from @2h --until @1h --grep error -o json`,
	}
	fl := sub.Flags()
	fl.StringVar(&f.from, "from", "", "earliest, latest, an offset, -N (the last N of each shard) or @TIME; latest, with --exit earliest")
	fl.StringVar(&f.until, "until", "", "stop before this offset or @TIME, or at the latest there is now")
	fl.Int64Var(&f.count, "count", 0, "stop after this many records; 0 is no bound")
	fl.Int32SliceVar(&f.shards, "shard", nil, "only these shards")
	fl.BoolVarP(&f.exit, "exit", "e", false, "stop at the end that the stream has now")
	fl.StringVar(&f.format, "format", "raw", "raw, offsets, json or a template")
	fl.StringVar(&f.grep, "grep", "", "only records whose value holds this text")
	places := []string{"earliest", "latest"}
	must(sub.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(places, cobra.ShellCompDirectiveNoFileComp)))
	must(sub.RegisterFlagCompletionFunc("until", cobra.FixedCompletions(places[1:], cobra.ShellCompDirectiveNoFileComp)))
	must(sub.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"raw", "offsets", "json"}, cobra.ShellCompDirectiveNoFileComp)))
	sub.RunE = func(cmd *cobra.Command, args []string) error { return a.sub(cmd.Context(), &f, args[0]) }
	return sub
}

// subscribing is one run of sub.
type subscribing struct {
	*native
	flags  *subFlags
	stream client.Stream
	print  formatter
	out    *bufio.Writer
	line   []byte
	read   int64
	shown  int64
	told   time.Time
}

func (a *app) sub(ctx context.Context, f *subFlags, name string) error {
	plan, err := f.parse(time.Now())
	if err != nil {
		return err
	}
	format := f.format
	if a.json() {
		format = "json"
	}
	printer, err := newEventFormatter(format, a.p.OutTerminal)
	if err != nil {
		return err
	}
	n, err := a.dialNative(ctx)
	if err != nil {
		return err
	}
	defer n.close()
	r := &subscribing{native: n, flags: f, stream: a.stream(name), print: printer, out: bufio.NewWriterSize(a.p.Out, 64<<10), told: time.Now()}
	n.watch.talk(true)
	err = r.run(ctx, plan)
	n.watch.talk(false)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // what was read is printed, and an interrupt is how a person ends a read that has no end
		if f.exit || f.count > 0 || f.until != "" {
			err = interruptedErrorf("interrupted before the end: %d record%s read", r.read, plural(r.read))
		}
	}
	if f.grep != "" {
		a.say("%d of %d records matched", r.shown, r.read)
	}
	return err
}

// subPlan is where to read from and until where.
type subPlan struct {
	from, until position
	bounded     bool // until counts
}

func (f *subFlags) parse(now time.Time) (p subPlan, err error) {
	from := f.from
	if from == "" {
		if from = "latest"; f.exit {
			from = "earliest"
		}
	}
	if p.from, err = parsePosition(from, now); err != nil {
		return p, err
	}
	if f.count < 0 {
		return p, usageErrorf("--count must not be negative")
	}
	for _, s := range f.shards {
		if s < 0 {
			return p, usageErrorf("--shard must not be negative")
		}
	}
	if f.until == "" {
		return p, nil
	}
	p.bounded = true
	if p.until, err = parsePosition(f.until, now); err != nil {
		return p, err
	}
	if p.until.kind == fromEarliest || p.until.kind == fromLast {
		return p, usageErrorf("--until %q is no end: say an offset, @TIME or latest", f.until)
	}
	if p.from.kind == p.until.kind && (p.from.kind == fromOffset || p.from.kind == fromTime) && p.until.value < p.from.value {
		return p, usageErrorf("--until %s is before --from %s", f.until, from)
	}
	return p, nil
}

// run reads according to the plan: what ends before now is read from the log, everything else is subscribed to.
func (r *subscribing) run(ctx context.Context, plan subPlan) error {
	total, err := r.shardsOf(ctx, r.stream)
	if err != nil {
		return err
	}
	shards, err := r.flags.chosen(r.stream, total)
	if err != nil {
		return err
	}
	ahead := plan.bounded && plan.until.kind == fromTime && plan.until.value > time.Now().UnixMilli()
	if ahead {
		bounded, cancel := context.WithDeadlineCause(ctx, time.UnixMilli(plan.until.value), errUntil)
		defer cancel()
		err := r.follow(bounded, plan, shards)
		if errors.Is(err, errUntil) {
			return nil
		}
		return err
	}
	if r.flags.exit || plan.bounded && plan.until.kind != fromOffset {
		return r.readAll(ctx, plan, shards)
	}
	return r.follow(ctx, plan, shards)
}

// errUntil is why a read ends at a time that has come.
var errUntil = errors.New("the time of --until has come")

// chosen are the shards to read.
func (f *subFlags) chosen(s client.Stream, total int) ([]uint32, error) {
	var out []uint32
	for _, shard := range f.shards {
		if int(shard) >= total {
			return nil, missingErrorf("stream %s has no shard %d: it has %d, from 0", s, shard, total)
		}
		if !slices.Contains(out, uint32(shard)) {
			out = append(out, uint32(shard))
		}
	}
	if len(f.shards) == 0 {
		for shard := range total {
			out = append(out, uint32(shard))
		}
	}
	if from, err := strconv.ParseInt(f.from, 10, 64); err == nil && from >= 0 && len(out) > 1 {
		return nil, usageErrorf("--from %d is an offset of one shard, and %s has %d: name one with --shard", from, s, total)
	}
	if until, err := strconv.ParseInt(f.until, 10, 64); err == nil && until >= 0 && len(out) > 1 {
		return nil, usageErrorf("--until %d is an offset of one shard, and %s has %d: name one with --shard", until, s, total)
	}
	return out, nil
}

// take prints an event if it is wanted, and says whether that was enough.
func (r *subscribing) take(rec *kgo.Record) (enough bool, err error) {
	r.read++
	if r.flags.grep == "" || bytes.Contains(rec.Value, []byte(r.flags.grep)) {
		r.line = r.print(r.line[:0], rec)
		if _, err := r.out.Write(r.line); err != nil {
			return true, err
		}
		r.shown++
	}
	return r.flags.count > 0 && r.shown >= r.flags.count, nil
}

// record is an event in the form that formatters take.
func (r *subscribing) record(shard uint32, offset int64, value []byte, at time.Time) *kgo.Record {
	if value == nil {
		value = []byte{}
	}
	return &kgo.Record{Topic: r.stream.String(), Partition: int32(shard), Offset: offset, Value: value, Timestamp: at}
}

// follow subscribes and prints what comes until there is a reason to stop.
func (r *subscribing) follow(ctx context.Context, plan subPlan, shards []uint32) error {
	o := client.SubscribeOptions{Shards: shards, FollowLag: true, Timestamps: true, ReuseBuffers: true}
	what := "subscribe to " + r.stream.String()
	switch plan.from.kind {
	case fromEarliest:
		o.Start = client.Earliest()
	case fromLatest:
		o.Start = client.Latest()
	case fromTime:
		o.Start = client.Since(time.UnixMilli(plan.from.value))
	case fromOffset:
		o.Start = client.FromOffset(plan.from.value)
	case fromLast:
		o.Offsets = map[uint32]int64{}
		for _, shard := range shards {
			b, err := r.bounds(ctx, shard)
			if err != nil {
				return err
			}
			o.Offsets[shard] = max(b.Start, b.End-plan.from.value)
		}
	}
	s, err := r.Subscribe(ctx, r.stream, o)
	if err != nil {
		return r.failed(ctx, what, err)
	}
	defer func() { _ = s.Close() }()
	for {
		events, err := s.NextBatch(ctx)
		var gap *client.GapError
		switch {
		case errors.As(err, &gap):
			r.app.warn("shard %d: records may be missing, for the stream is in memory and the connection was interrupted", gap.Shard)
			continue
		case errors.Is(err, io.EOF):
			return r.out.Flush()
		case err != nil:
			return errors.Join(r.out.Flush(), r.failed(ctx, what, err))
		}
		for i := range events {
			e := &events[i]
			if plan.bounded && plan.until.kind == fromOffset && e.Offset >= plan.until.value {
				return r.out.Flush()
			}
			enough, err := r.take(r.record(e.Shard, e.Offset, e.Value, e.Time))
			if err != nil {
				return err
			}
			if enough || plan.bounded && plan.until.kind == fromOffset && e.Offset == plan.until.value-1 {
				return r.out.Flush()
			}
		}
		if err := r.out.Flush(); err != nil {
			return err
		}
	}
}

// bounds is what can be read of a shard. Streams in memory have no offsets, and are said to have none.
func (r *subscribing) bounds(ctx context.Context, shard uint32) (client.Bounds, error) {
	b, err := r.Bounds(ctx, r.stream, shard)
	if errors.Is(err, client.ErrInvalidRequest) {
		return b, refusedErrorf("%s has no offsets to read from, for it is in memory alone: read it with --from earliest or latest, and without "+
			"--exit and --until", r.stream)
	}
	return b, r.failed(ctx, "look at "+r.stream.String(), err)
}

// readAll reads ranges that end where the shards end now, or before, one shard after the other. It never waits for records.
func (r *subscribing) readAll(ctx context.Context, plan subPlan, shards []uint32) error {
	for _, shard := range shards {
		from, to, err := r.span(ctx, plan, shard)
		if err != nil {
			return err
		}
		if from >= to {
			continue
		}
		enough, err := r.readShard(ctx, shard, from, to)
		if err != nil || enough {
			return errors.Join(r.out.Flush(), err)
		}
	}
	return r.out.Flush()
}

func (r *subscribing) readShard(ctx context.Context, shard uint32, from, to int64) (enough bool, err error) {
	for rec, err := range r.Records(ctx, r.stream, shard, client.ReadOptions{From: from, To: to}) {
		if err != nil {
			return false, r.failed(ctx, "read "+r.stream.String(), err)
		}
		enough, err := r.take(r.record(shard, rec.Offset, rec.Value, rec.Time))
		if err != nil || enough {
			return true, err
		}
		r.app.progress(&r.told, "%d record%s read, shard %d at offset %d of %d", r.read, plural(r.read), shard, rec.Offset, to)
	}
	return false, nil
}

// span is the range of a shard that the plan means: from <= offset < to.
func (r *subscribing) span(ctx context.Context, plan subPlan, shard uint32) (from, to int64, err error) {
	b, err := r.bounds(ctx, shard)
	if err != nil {
		return 0, 0, err
	}
	at := func(p position) (int64, error) {
		switch p.kind {
		case fromEarliest:
			return b.Start, nil
		case fromOffset:
			return p.value, nil // beyond the end it is refused below, or is an end that is cut to it
		case fromLast:
			return max(b.Start, b.End-p.value), nil
		case fromTime:
			offset, err := r.OffsetForTime(ctx, r.stream, shard, time.UnixMilli(p.value))
			if err != nil {
				return 0, r.failed(ctx, "find the time in "+r.stream.String(), err)
			}
			if offset != client.NoOffset {
				return offset, nil
			}
		case fromLatest:
		}
		return b.End, nil
	}
	if from, err = at(plan.from); err != nil {
		return 0, 0, err
	}
	if plan.from.kind == fromOffset && from > b.End {
		return 0, 0, refusedErrorf("read %s: shard %d: there is no offset %d yet, the next is %d: read from there, or with --from latest",
			r.stream, shard, from, b.End)
	}
	if to = b.End; plan.bounded {
		if to, err = at(plan.until); err != nil {
			return 0, 0, err
		}
		to = min(to, b.End)
	}
	return from, to, nil
}

// newEventFormatter is newFormatter for native events, which have no keys and headers, and an object of their own.
func newEventFormatter(format string, terminal bool) (formatter, error) {
	if format == "json" {
		return appendEvent, nil
	}
	for _, verb := range []string{"%k", "%K", "%h"} {
		if strings.Contains(strings.ReplaceAll(format, "%%", ""), verb) {
			return nil, usageErrorf("--format: native events carry neither keys nor headers (%s): felixctl consume shows them", verb)
		}
	}
	return newFormatter(format, terminal)
}
