package ctl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFlags are the settings of one consume command.
type consumeFlags struct {
	from, format, key, grep string
	partitions              []int32
	count                   int64
	exit                    bool
}

func (a *app) consumeCommand() *cobra.Command {
	var f consumeFlags
	consume := &cobra.Command{
		Use: "consume TOPIC", Aliases: []string{"sub"}, Short: "Read records", Args: upTo(1),
		Long: `Read records and print them, from --from on, until --count of them, or with --exit until the end that the topic had at the
start; otherwise wait for more until interrupted. Nothing is committed anywhere: reading changes nothing.

Formats: raw (the value), offsets (PARTITION:OFFSET and the value), json (an object a line), or a template: %t topic,
%p partition, %o offset, %k key, %s value, %K and %S their sizes, %T milliseconds, %d time, %h headers, \n, \t.`,
		Example: `  felixctl consume greetings --exit
  felixctl consume orders --from -10 --format '%p:%o %k=%s\n'
  felixctl consume orders --from @15m --grep error -o json`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeTopics(cmd, args, prefix)
		},
	}
	fl := consume.Flags()
	fl.StringVar(&f.from, "from", "earliest", "earliest, latest, an offset, -N (the last N of each partition) or @TIME")
	fl.Int64VarP(&f.count, "count", "n", 0, "stop after this many records; 0 is no bound")
	fl.Int32SliceVarP(&f.partitions, "partition", "p", nil, "only these partitions")
	fl.BoolVarP(&f.exit, "exit", "e", false, "stop at the end that the topic has now")
	fl.StringVar(&f.format, "format", "raw", "raw, offsets, json or a template")
	fl.StringVarP(&f.key, "key", "k", "", "only records with this key")
	fl.StringVar(&f.grep, "grep", "", "only records whose key or value holds this text")
	must(consume.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"raw", "offsets", "json"}, cobra.ShellCompDirectiveNoFileComp)))
	must(consume.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"earliest", "latest"}, cobra.ShellCompDirectiveNoFileComp)))
	consume.RunE = func(cmd *cobra.Command, args []string) error { return a.consume(cmd.Context(), &f, args[0]) }
	return consume
}

func (a *app) consume(ctx context.Context, f *consumeFlags, topic string) error {
	from, err := parsePosition(f.from, time.Now())
	if err != nil {
		return err
	}
	if f.count < 0 {
		return usageErrorf("--count must not be negative")
	}
	format := f.format
	if a.json() {
		format = "json"
	}
	printer, err := newFormatter(format, a.p.OutTerminal)
	if err != nil {
		return err
	}
	r := &reader{app: a, flags: f, topic: topic, print: printer, ends: map[int32]int64{}}
	if err := r.start(ctx, from); err != nil {
		return err
	}
	defer r.client.Close()
	err = r.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // interrupted: what was read is printed, and that is all that was asked for
	}
	if f.grep != "" || f.key != "" {
		a.say("%d of %d records matched", r.printed, r.read)
	}
	return err
}

// reader is one run of consume.
type reader struct {
	app    *app
	flags  *consumeFlags
	client *client
	topic  string
	print  formatter

	ends          map[int32]int64 // with --exit: where each unfinished partition ends
	read, printed int64
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
	r.client, err = r.app.connect(setup, kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: offsets}))
	return err
}

// plan decides from which offset each partition is read, and where it ends.
func (r *reader) plan(ctx context.Context, c *client, from position) (map[int32]kgo.Offset, error) {
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
		r.ends[p] = end
	}
	return offsets, nil
}

// run prints records until there is a reason to stop.
func (r *reader) run(ctx context.Context) error {
	out := bufio.NewWriterSize(r.app.p.Out, 64<<10)
	var line []byte
	for !r.done() {
		fetches, idle := r.poll(ctx)
		if err := ctx.Err(); err != nil {
			return errors.Join(err, out.Flush())
		}
		if idle {
			break
		}
		for _, e := range fetches.Errors() {
			return errors.Join(refusal(fmt.Sprintf("read %s partition %d", e.Topic, e.Partition), e.Err, ""), out.Flush())
		}
		for iter := fetches.RecordIter(); !iter.Done() && !r.done(); {
			rec := iter.Next()
			if !r.wanted(rec) {
				continue
			}
			line = r.print(line[:0], rec)
			if _, err := out.Write(line); err != nil {
				return err
			}
			r.printed++
		}
		if r.flags.exit {
			r.finish(fetches)
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// exitIdle is how long --exit waits for the next records. The last offsets of a partition can be without any (compaction leaves
// holes), so the end that was seen at the start may never be reached by a record.
const exitIdle = 3 * time.Second

// poll waits for records; idle says that --exit need not wait any longer.
func (r *reader) poll(ctx context.Context) (fetches kgo.Fetches, idle bool) {
	if !r.flags.exit {
		return r.client.PollFetches(ctx), false
	}
	wait, cancel := context.WithTimeout(ctx, exitIdle)
	defer cancel()
	fetches = r.client.PollFetches(wait)
	return fetches, wait.Err() != nil && fetches.NumRecords() == 0
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

// finish drops partitions that were read to their end.
func (r *reader) finish(fetches kgo.Fetches) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if n := len(p.Records); n > 0 {
			if end, ok := r.ends[p.Partition]; ok && p.Records[n-1].Offset+1 >= end {
				delete(r.ends, p.Partition)
			}
		}
	})
}
