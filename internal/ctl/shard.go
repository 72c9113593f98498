package ctl

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
)

// shardRow is a shard's assignment as the control API has it.
type shardRow struct {
	TenantID   string   `json:"tenant_id"`
	Namespace  string   `json:"namespace"`
	Stream     string   `json:"stream"` // the name of a cache too
	Shard      int      `json:"shard"`
	Kind       string   `json:"kind"`
	Leader     string   `json:"leader"`
	Replicas   []string `json:"replicas"`
	Generation int64    `json:"generation"`
	State      string   `json:"state"`
	Successor  string   `json:"successor,omitempty"`
	Joining    string   `json:"joining,omitempty"`
	Routing    string   `json:"routing,omitempty"`

	// First and Next are the offsets that the shard holds, first <= offset < next; stream info asks a broker for them.
	First *int64 `json:"first_offset,omitempty"`
	Next  *int64 `json:"next_offset,omitempty"`
}

// kindStream is the kind of a stream's shards; those of caches have another.
const kindStream = "stream"

func shardsPath(*control) string { return path("v1", "shard-assignments") }

func (a *app) shardCommand() *cobra.Command {
	return family("shard", "List which node leads and holds each shard", []string{"shards"}, a.shardList())
}

func (a *app) shardList() *cobra.Command {
	var leader, name string
	list := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List which node leads and holds each shard, of all tenants", Args: noArgs,
		Long: "List the shards of all tenants with the nodes that lead and hold them. --tenant and --namespace, where they are given as flags,\n" +
			"keep only theirs.",
		Example: "  felixctl shard ls --name orders\n  felixctl shard ls --leader node-1 -o json",
	}
	list.Flags().StringVar(&leader, "leader", "", "only shards that this node leads")
	list.Flags().StringVar(&name, "name", "", "only shards of the stream or cache of this name")
	must(list.RegisterFlagCompletionFunc("leader", a.completeNodes()))
	list.RunE = func(cmd *cobra.Command, args []string) error {
		flag := cmd.Flags().Changed
		return a.withControl(func(ctx context.Context, c *control, _ []string) error {
			l := a.listing("TENANT", "NAMESPACE", "KIND", "NAME", "SHARD", "LEADER", "REPLICAS", "GENERATION", "STATE")
			for s, err := range pages[shardRow](ctx, c, shardsPath(c), only("leader", leader)) {
				if err != nil {
					return err
				}
				if name != "" && s.Stream != name || flag("tenant") && s.TenantID != a.tenant || flag("namespace") && s.Namespace != a.namespace {
					continue
				}
				err := l.add(s, s.TenantID, s.Namespace, s.Kind, s.Stream, strconv.Itoa(s.Shard), orWord(s.Leader), join(s.Replicas),
					strconv.FormatInt(s.Generation, 10), s.State)
				if err != nil {
					return err
				}
			}
			return l.end()
		})(cmd, args)
	}
	return list
}

// shardsOf finds the shards of one stream. The listing has no filter for it but an order, so reading stops behind it.
func (c *control) shardsOf(ctx context.Context, tenant, namespace, name string) ([]shardRow, error) {
	out := []shardRow{}
	for s, err := range pages[shardRow](ctx, c, shardsPath(c), nil) {
		if err != nil {
			return nil, err
		}
		switch slices.Compare([]string{s.TenantID, s.Namespace, s.Kind, s.Stream}, []string{tenant, namespace, kindStream, name}) {
		case 0:
			out = append(out, s)
		case 1:
			return sortShards(out), nil
		}
	}
	return sortShards(out), nil
}

func sortShards(list []shardRow) []shardRow {
	slices.SortFunc(list, func(x, y shardRow) int { return cmp.Compare(x.Shard, y.Shard) })
	return list
}
