package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (a *app) groupDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete GROUP...", Aliases: []string{"rm"}, Short: "Delete groups and their committed offsets", Args: upTo(0),
		Example:           "  felixctl group delete billing --yes",
		Long:              `Delete groups with all their committed offsets. When one of them does not exist or has members, nothing is deleted.`,
		ValidArgsFunction: a.completeGroups,
		RunE: func(cmd *cobra.Command, names []string) error {
			names = unique(names)
			ctx := cmd.Context()
			c, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := a.deletable(ctx, c, names); err != nil {
				return err
			}
			if err := a.confirm(fmt.Sprintf("delete %s with all committed offsets for good", visible(groupWords(names)))); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, a.timeout)
			defer cancel()
			gone, err := c.admin.DeleteGroups(ctx, names...)
			if err != nil && len(gone) == 0 {
				return refusal("delete "+groupWords(names), err, "")
			}
			return a.reportGroupsDeleted(gone, err, names)
		},
	}
}

// deletable refuses when one of the groups is not there or has members.
func (a *app) deletable(ctx context.Context, c *kafkaClient, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	views, err := c.groups(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		v, ok := views[name]
		if !ok {
			err = c.noGroup(ctx, name)
		} else {
			err = v.busy("delete it")
		}
		if err != nil {
			if len(names) > 1 {
				a.say("nothing was deleted")
			}
			return err
		}
	}
	return nil
}

// reportGroupsDeleted shows what became of each group; cause is why some have no answer.
func (a *app) reportGroupsDeleted(gone kadm.DeleteGroupResponses, cause error, names []string) error {
	type deleted struct {
		Group   string `json:"group"`
		Deleted bool   `json:"deleted"`
		Error   string `json:"error,omitempty"`
	}
	var out results[deleted]
	for _, name := range names {
		r, ok := gone[name]
		if !ok {
			if r.Err = cause; cause == nil {
				r.Err = errors.New("the server's answer does not mention the group")
			}
		}
		err := refusal("delete group "+name, r.Err, r.ErrMessage)
		out.add(deleted{name, err == nil, textOf(err)}, "deleted", err, name)
	}
	return out.emit(a, "GROUP")
}

func (a *app) groupDeleteOffsets() *cobra.Command {
	var topics []string
	del := &cobra.Command{
		Use: "delete-offsets GROUP", Short: "Delete some of a group's committed offsets", Args: upTo(1),
		Long: `Delete the committed offsets of some topics or partitions. The group may have members, as long as none of them is subscribed to the
topic.`,
		Example:           `  felixctl group delete-offsets billing --topic orders --topic payments:0,1`,
		ValidArgsFunction: a.completeGroup,
	}
	del.Flags().StringArrayVar(&topics, "topic", nil, "`NAME or NAME:0,1,2`: a topic, or some of its partitions; may be repeated")
	del.RunE = func(cmd *cobra.Command, args []string) error {
		sc, err := parseScope(topics)
		if err != nil {
			return err
		}
		if len(sc) == 0 {
			return usageErrorf("say which offsets with --topic NAME or --topic NAME:0,1,2")
		}
		ctx := cmd.Context()
		c, err := a.connect(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		commits, err := a.commitsIn(ctx, c, args[0], sc)
		if err != nil {
			return err
		}
		words := fmt.Sprintf("delete %d committed offset%s of group %s in %s for good", len(commits), plural(len(commits)), args[0], strings.Join(sc.topics(), ", "))
		if err := a.confirm(visible(words)); err != nil {
			return err
		}
		return a.deleteOffsets(ctx, c, args[0], commits)
	}
	return del
}

// commitsIn are the committed offsets of a group in a scope; whatever the scope names must have one.
func (a *app) commitsIn(ctx context.Context, c *kafkaClient, group string, sc scope) (map[partitionKey]commit, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if _, err := c.group(ctx, group); err != nil {
		return nil, err
	}
	all, err := c.committed(ctx, group)
	if err != nil {
		return nil, err
	}
	out := map[partitionKey]commit{}
	for key, done := range all {
		if sc.has(key) {
			out[key] = done
		}
	}
	committed := topicsOf(out)
	for topic, partitions := range sc {
		if !slices.Contains(committed, topic) {
			return nil, missingErrorf("group %q has no committed offset in topic %q: see felixctl group describe %s --offsets", group, topic, group)
		}
		for _, p := range partitions {
			if _, ok := out[partitionKey{topic, p}]; !ok {
				return nil, missingErrorf("group %q has no committed offset in topic %q partition %d: see felixctl group describe %s --offsets", group, topic, p, group)
			}
		}
	}
	return out, nil
}

func (a *app) deleteOffsets(ctx context.Context, c *kafkaClient, group string, commits map[partitionKey]commit) error {
	type deleted struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Committed int64  `json:"committed_offset"` // before
		Deleted   bool   `json:"deleted"`
		Error     string `json:"error,omitempty"`
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	set := kadm.TopicsSet{}
	for key := range commits {
		set.Add(key.topic, key.partition)
	}
	answers, err := c.admin.DeleteOffsets(ctx, group, set)
	if err != nil {
		return refusal(fmt.Sprintf("delete offsets of group %s in %s", group, strings.Join(topicsOf(commits), ", ")), err, "")
	}
	var out results[deleted]
	for _, key := range sortedPartitions(commits) {
		err, ok := answers.Lookup(key.topic, key.partition)
		if !ok {
			err = errNotMentioned
		}
		err = refusal(fmt.Sprintf("delete offsets of group %s, topic %s partition %d", group, key.topic, key.partition), err, "")
		before := commits[key].offset
		out.add(deleted{key.topic, key.partition, before, err == nil, textOf(err)}, "deleted", err, key.topic, fmt.Sprint(key.partition), orDash(before))
	}
	return out.emit(a, "TOPIC", "PARTITION", "COMMITTED")
}
