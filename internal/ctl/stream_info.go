package ctl

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
)

// streamInfo is stream info's answer.
type streamInfo struct {
	streamRow
	ShardList []shardRow `json:"shard_list,omitzero"` // with --shards
}

func (a *app) streamInfo() *cobra.Command {
	var shards bool
	info := &cobra.Command{
		Use: "info NAME", Aliases: []string{"show", "describe"}, Short: "Show a stream, with --shards where each shard is", Args: exactly(1),
		ValidArgsFunction: a.completeStreams(false), Example: "  felixctl stream info orders --shards",
	}
	info.Flags().BoolVar(&shards, "shards", false, "show each shard's leader, replicas and generation (takes node.view on the cluster)")
	info.RunE = a.withControl(func(ctx context.Context, c *control, args []string) error {
		s, err := c.stream(ctx, args[0])
		if err != nil {
			return err
		}
		out := streamInfo{streamRow: s}
		if shards {
			if out.ShardList, err = c.shardsOf(ctx, kindStream, s.TenantID, s.Namespace, s.Stream); err != nil {
				return about("shards of "+args[0], err)
			}
		}
		if a.json() {
			return a.emit(out, nil, nil)
		}
		if err := a.facts(s.facts()); err != nil || !shards {
			return err
		}
		rows := make([][]string, len(out.ShardList))
		for i, r := range out.ShardList {
			rows[i] = []string{strconv.Itoa(r.Shard), orWord(r.Leader), join(r.Replicas), strconv.FormatInt(r.Generation, 10), r.State}
		}
		if _, err := fmt.Fprintln(a.p.Out); err != nil {
			return err
		}
		return a.table([]string{"SHARD", "LEADER", "REPLICAS", "GENERATION", "STATE"}, rows)
	})
	return info
}

// show writes one thing: v as JSON, or its facts, a line each.
func (a *app) show(v any, facts [][]string) error {
	if a.json() {
		return a.emit(v, nil, nil)
	}
	return a.facts(facts)
}
