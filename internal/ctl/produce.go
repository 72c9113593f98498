package ctl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// progressEvery is the pause between two lines of progress on long work.
const progressEvery = 2 * time.Second

// produceFlags are the settings of one produce command.
type produceFlags struct {
	inputFlags
	compression, acks string
	headers           []string
	partition         int32
}

func (a *app) produceCommand() *cobra.Command {
	var f produceFlags
	produce := &cobra.Command{
		Use: "produce TOPIC [MESSAGE]", Short: "Write records", Args: upTo(2),
		Long: `Write one record with the message, or one for each line of standard input or of --file. Every record is written exactly once,
in order within its partition, and the command ends when the server has acknowledged all of them.

A server that is gone is waited for, as long as --timeout without any acknowledgement. The first interrupt ends the reading and the
command, with status 130; the count of records that were not acknowledged is told, and those may have been written or not.`,
		Example: `  felixctl produce greetings hello --key anna
  printf 'a:1\nb:2\n' | felixctl produce pairs --key-delim :
  felixctl produce images --file cat.png --whole`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeTopics(cmd, args, prefix)
		},
	}
	fl := produce.Flags()
	f.add(fl)
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "header `name=value`; may be repeated")
	fl.Int32VarP(&f.partition, "partition", "p", -1, "partition; -1 chooses by key, or else any")
	fl.BoolVar(&f.null, "null", false, "the value is null (a tombstone where the topic is compacted); needs --key")
	fl.StringVarP(&f.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	fl.StringVar(&f.acks, "acks", "all", "wait for all replicas, 1 (the leader) or 0 (nobody)")
	must(produce.RegisterFlagCompletionFunc("compression", cobra.FixedCompletions(slices.Sorted(mapKeys(codecs)), cobra.ShellCompDirectiveNoFileComp)))
	must(produce.RegisterFlagCompletionFunc("acks", cobra.FixedCompletions([]string{"all", "1", "0"}, cobra.ShellCompDirectiveNoFileComp)))
	produce.RunE = func(cmd *cobra.Command, args []string) error { return a.produce(cmd, f, args) }
	return produce
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// options are the client options that the flags ask for; it refuses combinations that cannot be.
func (f *produceFlags) options(topic string, hasMessage bool) ([]kgo.Opt, error) {
	codec, ok := codecs[f.compression]
	switch {
	case !ok:
		return nil, usageErrorf("--compression %q is none of none, gzip, snappy, lz4, zstd", f.compression)
	case f.null && (f.key == "" || f.file != "" || f.whole):
		return nil, usageErrorf("--null writes one record without a value: give --key, and neither --file nor --whole")
	}
	if err := f.check(hasMessage); err != nil {
		return nil, err
	}
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(0)}
	if f.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	switch f.acks {
	case "all":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, usageErrorf("--acks %q is none of all, 1, 0", f.acks)
	}
	return opts, nil
}

func (a *app) produce(cmd *cobra.Command, f produceFlags, args []string) error {
	opts, err := f.options(args[0], len(args) > 1)
	if err != nil {
		return err
	}
	headers, err := parseHeaders(f.headers)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	watch := newWatcher(a)
	c, err := a.connect(ctx, append(opts, kgo.WithHooks(watch))...)
	if err != nil {
		return err
	}
	defer c.Close()

	if err := f.checkPartition(ctx, a, c, args[0]); err != nil {
		return err
	}
	w := &writer{client: c, flags: &f, headers: headers, watch: watch, app: a, tally: newTally(args[0], f.acks == "0")}
	err = w.run(ctx, args[1:])
	return errors.Join(w.tally.report(a, err), err)
}

// checkPartition refuses a partition that the topic has not. A topic that is not there yet may be made by the first record.
func (f *produceFlags) checkPartition(ctx context.Context, a *app, c *kafkaClient, topic string) error {
	if f.partition < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	details, err := c.admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return refusal("look up topics", err, "")
	}
	t, ok := details[topic]
	if _, has := t.Partitions[f.partition]; ok && t.Err == nil && !has {
		return missingErrorf("topic %s has no partition %d: it has %d, from 0", topic, f.partition, len(t.Partitions))
	}
	return nil
}

func parseHeaders(list []string) ([]kgo.RecordHeader, error) {
	out := make([]kgo.RecordHeader, 0, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usageErrorf("--header %q is not name=value", kv)
		}
		out = append(out, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	return out, nil
}
