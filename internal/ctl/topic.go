package ctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/felixlog/felix/internal/ids"
)

func (a *app) topicCommand() *cobra.Command {
	topic := &cobra.Command{
		Use: "topic", Aliases: []string{"topics"}, Short: "List, create, describe, delete and configure topics",
		Args: subcommands, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	topic.AddCommand(a.topicList(), a.topicCreate(), a.topicDescribe(), a.topicDelete(), a.topicConfig())
	return topic
}

// topicRow is one topic of a listing. Numbers that the server did not give are -1.
type topicRow struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
	Records    int64  `json:"records"`
	Bytes      int64  `json:"bytes"`

	Failed []failedPartition `json:"failed,omitempty"`
}

// failedPartition is a partition that the server does not serve.
type failedPartition struct {
	Partition int32  `json:"partition"`
	Error     string `json:"error"`
}

func (a *app) topicList() *cobra.Command {
	var internal bool
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List topics", Args: noArgs, Example: "  felixctl topic list -o json",
		Long: `List topics with the offsets that they span (compacted topics hold fewer records than that) and their size on disk.`,
	}
	list.Flags().BoolVar(&internal, "internal", false, "internal topics too")
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
		defer cancel()
		c, err := a.connect(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		details, err := c.admin.ListTopicsWithInternal(ctx)
		if err != nil {
			return refusal("list topics", err, "")
		}
		if !internal {
			details.FilterInternal()
		}
		rows, err := c.summarize(ctx, details)
		if err != nil {
			return err
		}
		return a.printTopics(rows)
	}
	return list
}

// printTopics shows a listing. A topic with failed partitions is marked, and each of them is told of beside the data.
func (a *app) printTopics(rows []topicRow) error {
	header := []string{"NAME", "PARTITIONS", "REPLICAS", "OFFSETS", "SIZE"}
	states := make([]string, len(rows))
	table := make([][]string, len(rows))
	for i, r := range rows {
		table[i] = []string{r.Name, fmt.Sprint(r.Partitions), fmt.Sprint(r.Replicas), orDash(r.Records), sizeOf(r.Bytes)}
		if len(r.Failed) > 0 {
			states[i] = fmt.Sprintf("%d of %d failed", len(r.Failed), r.Partitions)
		}
	}
	header, table = withColumn(header, table, "STATE", states)
	err := a.emit(rows, header, table)
	for _, r := range rows {
		for _, f := range r.Failed {
			a.say("%s partition %d: %s", r.Name, f.Partition, f.Error)
		}
	}
	return err
}

// summarize adds offsets and sizes to the details, sorted by name.
func (c *kafkaClient) summarize(ctx context.Context, details kadm.TopicDetails) ([]topicRow, error) {
	rows := make([]topicRow, 0, len(details))
	if len(details) == 0 {
		return rows, nil
	}
	spans, err := c.spans(ctx, details.Names())
	if err != nil {
		return nil, err
	}
	sizes := c.sizes(ctx, details)
	for _, t := range details.Sorted() {
		row := topicRow{Name: t.Topic, ID: ids.TopicID(t.ID).String(), Partitions: len(t.Partitions), Replicas: t.Partitions.NumReplicas(), Bytes: -1}
		for _, p := range t.Partitions.Numbers() {
			s := spans[partitionKey{t.Topic, p}]
			if s.err != nil {
				row.Failed = append(row.Failed, failedPartition{Partition: p, Error: s.err.Error()})
			}
			row.Records += s.end - s.start
		}
		if len(row.Failed) > 0 {
			row.Records = -1 // the sum of what is served would pass for the whole
		} else if sizes != nil {
			row.Bytes = 0
			for p := range t.Partitions {
				row.Bytes += sizes[partitionKey{t.Topic, p}]
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

type partitionKey struct {
	topic     string
	partition int32
}

// span is the range of offsets that a partition holds, or why it is not known.
type span struct {
	start, end int64
	err        error
}

// spans asks for the first offset and the high watermark of every partition of the topics.
func (c *kafkaClient) spans(ctx context.Context, topics []string) (map[partitionKey]span, error) {
	starts, err := c.admin.ListStartOffsets(ctx, topics...)
	if err != nil && len(starts) == 0 {
		return nil, refusal("list offsets", err, "")
	}
	ends, err := c.admin.ListEndOffsets(ctx, topics...)
	if err != nil && len(ends) == 0 {
		return nil, refusal("list offsets", err, "")
	}
	out := map[partitionKey]span{}
	starts.Each(func(o kadm.ListedOffset) {
		out[partitionKey{o.Topic, o.Partition}] = span{start: o.Offset, err: o.Err}
	})
	ends.Each(func(o kadm.ListedOffset) {
		key := partitionKey{o.Topic, o.Partition}
		s, ok := out[key]
		if !ok {
			s.err = errors.New("the first offset is not known")
		}
		s.end = o.Offset
		if s.err == nil {
			s.err = o.Err
		}
		out[key] = s
	})
	return out, nil
}

// sizes asks for bytes on disk; nil when the server does not tell (no right to it, or a server without that request).
func (c *kafkaClient) sizes(ctx context.Context, details kadm.TopicDetails) map[partitionKey]int64 {
	set := kadm.TopicsSet{}
	for _, t := range details {
		for p := range t.Partitions {
			set.Add(t.Topic, p)
		}
	}
	dirs, err := c.admin.DescribeAllLogDirs(ctx, set)
	if err != nil {
		return nil
	}
	out := map[partitionKey]int64{}
	failed := false
	dirs.Each(func(d kadm.DescribedLogDir) {
		failed = failed || d.Err != nil
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) { out[partitionKey{p.Topic, p.Partition}] += p.Size })
	})
	if failed {
		return nil
	}
	return out
}

func (a *app) topicCreate() *cobra.Command {
	var partitions int32
	var replicas int16
	var configs topicConfigs
	var ifNotExists bool
	create := &cobra.Command{
		Use: "create NAME...", Short: "Create topics", Args: upTo(0),
		Example: "  felixctl topic create orders --partitions 4 --config retention.ms=86400000",
	}
	create.Flags().Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 is the server's default")
	create.Flags().Int16VarP(&replicas, "replicas", "r", -1, "number of replicas; -1 is the server's default")
	create.Flags().VarP(&configs, "set", "c", "topic configuration `name=value`; may be repeated")
	create.Flags().Var(&configOrFile{&configs, &a.contextFile}, "config", "with `name=value` the same as --set; with a file the contexts, as everywhere")
	create.Flags().BoolVar(&ifNotExists, "if-not-exists", false, "a topic that exists is no error")
	create.RunE = func(cmd *cobra.Command, names []string) error {
		values, err := parseConfigs(configs)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
		defer cancel()
		c, err := a.connect(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		made, err := c.admin.CreateTopics(ctx, partitions, replicas, values, names...)
		if err != nil {
			return refusal("create topics", err, "")
		}
		return a.reportCreated(made, names, ifNotExists)
	}
	return create
}

// topicConfigs collects name=value.
type topicConfigs []string

// Set takes one configuration.
func (c *topicConfigs) Set(s string) error {
	if _, err := parseConfigs([]string{s}); err != nil {
		return err
	}
	*c = append(*c, s)
	return nil
}

// String is what has been collected; pflag asks for it to find that there is no default.
func (c *topicConfigs) String() string { return strings.Join(*c, ",") }

// Type is the kind of value that help names.
func (c *topicConfigs) Type() string { return "name=value" }

// configOrFile is the --config of topic create, where Kafka's users write name=value and everybody else the file that every command takes.
// A name of a configuration has no slash, so a path with = in it remains a path.
type configOrFile struct {
	configs *topicConfigs
	file    *string
}

// Set takes either.
func (c *configOrFile) Set(s string) error {
	if name, _, ok := strings.Cut(s, "="); ok && !strings.ContainsAny(name, `/\`) {
		return c.configs.Set(s)
	}
	*c.file = s
	return nil
}

// String is empty, for there is no default.
func (c *configOrFile) String() string { return "" }

// Type is the kind of value that help names.
func (c *configOrFile) Type() string { return "name=value" }

// created is one line of topic create.
type created struct {
	Name       string `json:"name"`
	ID         string `json:"id,omitempty"`
	Partitions int32  `json:"partitions,omitempty"`
	Replicas   int16  `json:"replicas,omitempty"`
	Created    bool   `json:"created"`
	Error      string `json:"error,omitempty"`
}

func (a *app) reportCreated(made kadm.CreateTopicResponses, names []string, ifNotExists bool) error {
	var out results[created]
	for _, name := range names {
		r, ok := made[name]
		if !ok {
			r.Err = errors.New("the server's answer does not mention the topic")
		}
		line := created{Name: name}
		result, counts := "created", []string{"-", "-"}
		var err error
		switch {
		case r.Err == nil:
			line.ID, line.Created = ids.TopicID(r.ID).String(), true
			line.Partitions, line.Replicas = max(r.NumPartitions, 0), max(r.ReplicationFactor, 0)
			counts = []string{fmt.Sprint(line.Partitions), fmt.Sprint(line.Replicas)}
		case ifNotExists && errors.Is(r.Err, kerr.TopicAlreadyExists):
			result = "exists"
		default:
			err = refusal("create topic "+name, r.Err, r.ErrMessage)
			line.Error = err.Error()
		}
		out.add(line, result, err, name, counts[0], counts[1])
	}
	return out.emit(a, "NAME", "PARTITIONS", "REPLICAS")
}

func parseConfigs(list []string) (map[string]*string, error) {
	out := map[string]*string{}
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usageErrorf("%q is not name=value", kv)
		}
		out[k] = &v
	}
	return out, nil
}

func (a *app) topicDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Aliases: []string{"rm"}, Short: "Delete topics and their records", Args: upTo(0),
		Example:           "  felixctl topic delete orders --yes",
		Long:              `Delete topics with all their records. When one of the names does not exist, nothing is deleted.`,
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx := cmd.Context()
			c, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			details, err := c.topics(ctx, names)
			if err != nil {
				if len(names) > 1 {
					a.say("nothing was deleted")
				}
				return err
			}
			rows, err := c.summarize(ctx, details)
			if err != nil {
				return err
			}
			if err := a.confirm(fmt.Sprintf("delete %s with %s for good", visible(strings.Join(names, ", ")), recordsOf(rows))); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, a.timeout)
			defer cancel()
			gone, err := c.admin.DeleteTopics(ctx, names...)
			if err != nil {
				return refusal("delete topics", err, "")
			}
			return a.reportDeleted(gone, names)
		},
	}
}

// recordsOf is how many records the topics hold together, in words.
func recordsOf(rows []topicRow) string {
	var n int64
	for _, r := range rows {
		if r.Records < 0 {
			return "records of unknown number (a partition has failed)"
		}
		n += r.Records
	}
	return fmt.Sprintf("%d record%s", n, plural(n))
}

func (a *app) reportDeleted(gone kadm.DeleteTopicResponses, names []string) error {
	var out results[removed]
	for _, name := range names {
		r, ok := gone[name]
		if !ok {
			r.Err = errors.New("the server's answer does not mention the topic")
		}
		err := refusal("delete topic "+name, r.Err, r.ErrMessage)
		out.add(removed{name, err == nil, textOf(err)}, "deleted", err, name)
	}
	return out.emit(a, "NAME")
}

// topics returns the details of named topics, all of which must exist.
func (c *kafkaClient) topics(ctx context.Context, names []string) (kadm.TopicDetails, error) {
	details, err := c.admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, refusal("look up topics", err, "")
	}
	for _, name := range names {
		t, ok := details[name]
		switch {
		case !ok || errors.Is(t.Err, kerr.UnknownTopicOrPartition):
			return nil, missingErrorf("topic %q does not exist: see felixctl topic list, or make it with felixctl topic create %s", name, name)
		case t.Err != nil:
			return nil, refusal("look up topic "+name, t.Err, "")
		}
	}
	return details, nil
}

// completeTopics completes topic names from the server.
func (a *app) completeTopics(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeKafka(cmd, given, prefix, func(ctx context.Context, c *kafkaClient) ([]string, error) {
		details, err := c.admin.ListTopics(ctx)
		return details.Names(), err
	})
}
