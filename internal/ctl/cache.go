package ctl

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// cacheRow is a cache of the control API.
type cacheRow struct {
	TenantID          string `json:"tenant_id,omitempty"`
	Namespace         string `json:"namespace,omitempty"`
	Cache             string `json:"cache"`
	DisplayName       string `json:"display_name"`
	Shards            int    `json:"shards"`
	ReplicationFactor int    `json:"replication_factor"`
	Consistency       string `json:"consistency"`
}

func (a *app) cacheCommand() *cobra.Command {
	return family("cache", "List, show, create, change and delete caches", []string{"caches"},
		a.cacheList(), a.cacheInfo(), a.cacheCreate(), a.cacheSet(), a.cacheRemove())
}

func cachesPath(c *control) string { return c.inNamespace("caches") }

func (a *app) completeCaches(many bool) cobra.CompletionFunc {
	return a.completeFrom(cachesPath, "cache", many)
}

func (c *control) cache(ctx context.Context, name string) (row cacheRow, err error) {
	return row, lookedUp("cache", name, c.do(ctx, http.MethodGet, c.inNamespace("caches", name), nil, &row))
}

func (a *app) cacheList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the caches of a namespace that the token may manage", Args: noArgs,
		Example: "  felixctl cache ls",
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			l := a.listing("CACHE", "SHARDS", "REPLICAS", "CONSISTENCY", "DISPLAY NAME")
			for r, err := range pages[cacheRow](ctx, c, cachesPath(c), nil) {
				if err != nil {
					return err
				}
				err := l.add(r, r.Cache, strconv.Itoa(r.Shards), strconv.Itoa(r.ReplicationFactor), typed(r.Consistency), orWord(r.DisplayName))
				if err != nil {
					return err
				}
			}
			return l.end()
		}),
	}
}

func (a *app) cacheInfo() *cobra.Command {
	return &cobra.Command{
		Use: "info NAME", Aliases: []string{"show"}, Short: "Show a cache", Args: exactly(1), ValidArgsFunction: a.completeCaches(false),
		Example: "  felixctl cache info sessions",
		RunE: a.withControl(func(ctx context.Context, c *control, args []string) error {
			r, err := c.cache(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(r, [][]string{
				{"cache", r.Cache},
				{"namespace", r.Namespace},
				{"tenant", r.TenantID},
				{"display name", orWord(r.DisplayName)},
				{"shards", strconv.Itoa(r.Shards)},
				{"replicas", strconv.Itoa(r.ReplicationFactor)},
				{"consistency", typed(r.Consistency)},
			})
		}),
	}
}

func (a *app) cacheCreate() *cobra.Command {
	var in cacheRow
	var consistency string
	create := &cobra.Command{
		Use: "create NAME", Short: "Create a cache", Args: exactly(1), Example: "  felixctl cache create sessions --shards 4",
		Long: "Create a cache. One that exists as asked is a success; one that exists otherwise is refused.",
	}
	fl := create.Flags()
	fl.IntVar(&in.Shards, "shards", 1, "number of shards; fixed for the cache's life")
	fl.IntVar(&in.ReplicationFactor, "replication", 1, "number of replicas; fixed for the cache's life")
	fl.StringVar(&consistency, "consistency", "leader", "`level` of what is acknowledged: "+strings.Join(consistencies.typed(), " or "))
	fl.StringVar(&in.DisplayName, "display-name", "", "name that people are shown")
	consistencies.complete(create, "consistency")
	create.RunE = a.withControl(func(ctx context.Context, c *control, args []string) error {
		var err error
		if in.Consistency, err = consistencies.parse("consistency", consistency); err != nil {
			return err
		}
		in.Cache = args[0]
		var made struct {
			cacheRow
			Result string `json:"result"`
		}
		status, err := c.call(ctx, http.MethodPost, cachesPath(c), in, &made.cacheRow)
		if err != nil {
			return about("create cache "+args[0], c.otherCache(ctx, err, in))
		}
		made.Result = "created"
		text := "cache %s is created with %s"
		if status == http.StatusOK {
			made.Result, text = "unchanged", "cache %s exists as asked, with %s"
		}
		return a.done(made, text, made.Cache, count(made.Shards, "shard"))
	})
	return create
}

// otherCache is otherwise for caches.
func (c *control) otherCache(ctx context.Context, err error, asked cacheRow) error {
	var no *apiRefusal
	if !errors.As(err, &no) || no.Status != http.StatusConflict {
		return err
	}
	have, looked := c.cache(ctx, asked.Cache)
	if looked != nil {
		return err
	}
	facts := func(r cacheRow) [][]string {
		return [][]string{
			{"shards", strconv.Itoa(r.Shards)},
			{"replicas", strconv.Itoa(r.ReplicationFactor)},
			{"consistency", typed(r.Consistency)},
			{"display name", orWord(r.DisplayName)},
		}
	}
	return differs(err, changesOf(facts(have), facts(asked)))
}

func (a *app) cacheSet() *cobra.Command {
	var display string
	set := &cobra.Command{
		Use: "set NAME", Short: "Change the display name of a cache", Args: exactly(1), ValidArgsFunction: a.completeCaches(false),
		Example: "  felixctl cache set sessions --display-name 'Sessions of the shop'",
	}
	set.Flags().StringVar(&display, "display-name", "", "name that people are shown")
	set.RunE = a.withControl(func(ctx context.Context, c *control, args []string) error {
		if !set.Flags().Changed("display-name") {
			return usageErrorf("nothing to change: give --display-name")
		}
		before, err := c.cache(ctx, args[0])
		if err != nil {
			return err
		}
		var after cacheRow
		err = c.do(ctx, http.MethodPatch, c.inNamespace("caches", args[0]), map[string]string{"display_name": display}, &after)
		if err != nil {
			return about("change cache "+args[0], err)
		}
		return a.emitChanges(changesOf([][]string{{"display_name", before.DisplayName}}, [][]string{{"display_name", after.DisplayName}}))
	})
	return set
}

func (a *app) cacheRemove() *cobra.Command {
	r := removal{
		kind: "cache", path: func(c *control, name string) string { return c.inNamespace("caches", name) },
		goes: func(ctx context.Context, c *control, name string) (string, error) {
			return "with its keys and counters", c.do(ctx, http.MethodGet, c.inNamespace("caches", name), nil, nil)
		},
	}
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove", "delete"}, Short: "Delete caches with their keys and counters", Args: upTo(0),
		ValidArgsFunction: a.completeCaches(true), RunE: r.run(a), Example: "  felixctl cache rm sessions --yes",
	}
}
