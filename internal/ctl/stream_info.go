package ctl

import (
	"context"
	"strconv"
	"time"

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
	info.Flags().BoolVar(&shards, "shards", false,
		"show each shard's leader, replicas and offsets (takes node.view on the cluster, and for offsets a token for brokers)")
	info.RunE = a.withControl(func(ctx context.Context, c *control, args []string) error {
		s, err := c.stream(ctx, args[0])
		if err != nil {
			return err
		}
		out := streamInfo{streamRow: s}
		if shards {
			if out.ShardList, err = c.shardsOf(ctx, s.TenantID, s.Namespace, s.Stream); err != nil {
				return about("shards of "+args[0], err)
			}
			a.addBounds(ctx, &out)
		}
		if a.json() {
			return a.emit(out, nil, nil)
		}
		if err := a.facts(s.facts()); err != nil || !shards {
			return err
		}
		rows := make([][]string, len(out.ShardList))
		for i, r := range out.ShardList {
			rows[i] = []string{
				strconv.Itoa(r.Shard), orWord(r.Leader), join(r.Replicas), strconv.FormatInt(r.Generation, 10), r.State, orUnknown(r.First), orUnknown(r.Next),
			}
		}
		if err := a.blank(true); err != nil {
			return err
		}
		return a.table([]string{"SHARD", "LEADER", "REPLICAS", "GENERATION", "STATE", "FIRST OFFSET", "NEXT OFFSET"}, rows)
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

// addBounds asks brokers for the offsets that each shard holds, if the settings hold a token for them. Streams in memory have none.
func (a *app) addBounds(ctx context.Context, info *streamInfo) {
	if !info.Durable || a.token == "" && a.tokenFile == "" {
		return
	}
	n, err := a.dialNative(ctx)
	if err != nil {
		a.warn("without offsets: %v", err)
		return
	}
	defer n.close()
	told := time.Now()
	for i := range info.ShardList {
		shard := &info.ShardList[i]
		b, err := n.Bounds(ctx, a.stream(info.Stream), uint32(shard.Shard))
		if err != nil {
			a.warn("without all offsets: %v", n.failed(ctx, "shard "+strconv.Itoa(shard.Shard), err))
			return
		}
		shard.First, shard.Next = &b.Start, &b.End
		a.progress(&told, "%d of %d shards", i+1, len(info.ShardList))
	}
}
