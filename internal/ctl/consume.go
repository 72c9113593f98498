package ctl

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
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
		Use: "consume TOPIC", Short: "Read records", Args: upTo(1),
		Long: `Read records and print them, from --from on, until --count of them, or with --exit until the end that the topic had at the
start; otherwise wait for more until interrupted. Nothing is committed anywhere: reading changes nothing.

With --exit, status 0 says that everything up to that end was read. A server that is gone is waited for: with --exit for as long as
--timeout, otherwise until it is back. Records that the server cannot read (damage on its disk) end the command with status 4.

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
	r := &reader{
		app: a, flags: f, topic: topic, print: printer, watch: newWatcher(a),
		ends: map[int32]int64{}, next: map[int32]int64{}, leaders: map[int32]int32{},
	}
	if err := r.start(ctx, from); err != nil {
		return err
	}
	defer r.client.Close()
	r.watch.talk(true)
	defer r.watch.talk(false)
	err = r.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // what was read is printed, and an interrupt is how a person ends a read that has no end
		if f.exit || f.count > 0 {
			err = interruptedErrorf("interrupted before the end: %d record%s read", r.read, plural(r.read))
		}
	}
	if f.grep != "" || f.key != "" {
		a.say("%d of %d records matched", r.printed, r.read)
	}
	return err
}
