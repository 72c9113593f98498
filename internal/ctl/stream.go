package ctl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// retentionRow is how long and how much of each shard is kept; what is absent is the broker's bound.
type retentionRow struct {
	MaxAgeSeconds *int64 `json:"max_age_seconds,omitempty"`
	MaxSizeBytes  *int64 `json:"max_size_bytes,omitempty"`
}

// streamRow is a stream of the control API.
type streamRow struct {
	TenantID          string       `json:"tenant_id,omitempty"`
	Namespace         string       `json:"namespace,omitempty"`
	Stream            string       `json:"stream"`
	Kind              string       `json:"kind"`
	Shards            int          `json:"shards"`
	ReplicationFactor int          `json:"replication_factor"`
	Retention         retentionRow `json:"retention"`
	Consistency       string       `json:"consistency"`
	Delivery          string       `json:"delivery"`
	Durable           bool         `json:"durable"`
	Region            string       `json:"region,omitempty"`
	Routing           string       `json:"routing,omitempty"` // the API leaves modulo out; so does a creation that leaves the choice to it
}

const routingModulo = "modulo"

// The words of the API.
var (
	kinds         = enum{"Stream", "Queue"}
	consistencies = enum{"Leader", "Quorum"}
	deliveries    = enum{"AtLeastOnce", "AtMostOnce"}
	routings      = enum{routingModulo, "jump_hash"}
)

func (a *app) streamCommand() *cobra.Command {
	return family("stream", "List, show, create, change and delete streams", []string{"streams"},
		a.streamList(), a.streamInfo(), a.streamCreate(), a.streamSet(), a.streamRemove())
}

func streamsPath(c *control) string { return c.inNamespace("streams") }

func (a *app) completeStreams(many bool) cobra.CompletionFunc {
	return a.completeFrom(streamsPath, "stream", many)
}

// stream asks for one stream.
func (c *control) stream(ctx context.Context, name string) (s streamRow, err error) {
	if err := c.do(ctx, http.MethodGet, c.inNamespace("streams", name), nil, &s); err != nil {
		return s, lookedUp("stream", name, err)
	}
	s.Routing = firstOf(s.Routing, routingModulo)
	return s, nil
}

func (a *app) streamList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the streams of a namespace that the token may manage", Args: noArgs,
		Example: "  felixctl stream ls -n shop -o json",
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			l := a.listing("STREAM", "SHARDS", "REPLICAS", "DURABLE", "CONSISTENCY", "MAX AGE", "MAX SIZE")
			for s, err := range pages[streamRow](ctx, c, streamsPath(c), nil) {
				if err != nil {
					return err
				}
				s.Routing = firstOf(s.Routing, routingModulo)
				age, size := s.Retention.words()
				err := l.add(s, s.Stream, strconv.Itoa(s.Shards), strconv.Itoa(s.ReplicationFactor), yesNo(s.Durable), typed(s.Consistency), age, size)
				if err != nil {
					return err
				}
			}
			return l.end()
		}),
	}
}

// words are the bounds for people.
func (r retentionRow) words() (age, size string) {
	age, size = "default", "default"
	if r.MaxAgeSeconds != nil {
		age = ageOf(*r.MaxAgeSeconds)
	}
	if r.MaxSizeBytes != nil {
		size = sizeOf(*r.MaxSizeBytes)
	}
	return age, size
}

// ageOf is a number of seconds for people: 1d12h.
func ageOf(seconds int64) string {
	if seconds <= 0 {
		return "0s"
	}
	var b strings.Builder
	for _, unit := range []struct {
		letter  string
		seconds int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}} {
		if n := seconds / unit.seconds; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10) + unit.letter)
			seconds -= n * unit.seconds
		}
	}
	return b.String()
}

func (s *streamRow) facts() [][]string {
	age, size := s.Retention.words()
	rows := [][]string{
		{"stream", s.Stream},
		{"namespace", s.Namespace},
		{"tenant", s.TenantID},
		{"kind", typed(s.Kind)},
		{"shards", strconv.Itoa(s.Shards)},
		{"replicas", strconv.Itoa(s.ReplicationFactor)},
		{"durable", yesNo(s.Durable)},
		{"consistency", typed(s.Consistency)},
		{"delivery", typed(s.Delivery)},
		{"max age", age},
		{"max size", size + perShard(s.Retention)},
		{"routing", s.Routing},
	}
	if s.Region != "" {
		rows = append(rows, []string{"region", s.Region})
	}
	return rows
}

func perShard(r retentionRow) string {
	if r.MaxSizeBytes == nil {
		return ""
	}
	return " a shard"
}

// streamFlags are the settings of stream create and stream set.
type streamFlags struct {
	shards, replication           int
	kind, consistency, delivery   string
	durable                       bool
	retentionSecs, retentionBytes string
	region, routing               string
}

// changeable adds the flags of what may change in a stream's life.
func (f *streamFlags) changeable(cmd *cobra.Command, consistency, delivery string) {
	fl := cmd.Flags()
	fl.StringVar(&f.consistency, "consistency", consistency, "`level` of what is acknowledged: "+strings.Join(consistencies.typed(), " or "))
	fl.StringVar(&f.delivery, "delivery", delivery, "at-least-once or at-most-once; recorded only")
	fl.StringVar(&f.retentionSecs, "retention-secs", "", "keep records for so many `seconds`, or 12h, 7d, 2w; default is the broker's bound")
	fl.StringVar(&f.retentionBytes, "retention-bytes", "", "keep so many `bytes` of each shard, or 500MB, 1GiB; default is the broker's bound")
	consistencies.complete(cmd, "consistency")
	deliveries.complete(cmd, "delivery")
}

// unit is a word behind a number and what it makes of it.
type unit struct {
	word   string
	factor int64
}

// What a bound may be counted in; the empty word is the unit of the flag's name.
var (
	secondUnits = []unit{{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 604800}}
	byteUnits   = []unit{
		{"", 1},
		{"B", 1},
		{"kB", 1e3},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"TB", 1e12},
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"TiB", 1 << 40},
	}
)

// bound reads a whole number above 0 with one of the units, or default.
func bound(flag, s string, units []unit) (*int64, error) {
	if s == "" || s == "default" {
		return nil, nil
	}
	word := strings.TrimLeft(s, "0123456789")
	n, err := strconv.ParseInt(strings.TrimSuffix(s, word), 10, 64)
	for _, u := range units {
		if err == nil && u.word == word && n > 0 && n <= math.MaxInt64/u.factor {
			n *= u.factor
			return &n, nil
		}
	}
	var words []string
	for _, u := range units[1:] {
		words = append(words, u.word)
	}
	return nil, usageErrorf("--%s %q is neither a number above 0, alone or with one of %s behind it, nor default", flag, s, strings.Join(words, ", "))
}

func (a *app) streamCreate() *cobra.Command {
	var f streamFlags
	create := &cobra.Command{
		Use: "create NAME", Short: "Create a stream", Args: exactly(1),
		Long: `Create a stream. One that exists as asked is a success; one that exists otherwise is refused. What can be changed later is said by
stream set --help; everything else is fixed for the stream's life.`,
		Example: "  felixctl stream create orders --shards 4 --retention-secs 604800\n  felixctl stream create positions --durable=false",
	}
	fl := create.Flags()
	fl.IntVar(&f.shards, "shards", 1, "number of shards, 1 to 1024")
	fl.IntVar(&f.replication, "replication", 1, "number of replicas, 1 to 7")
	fl.StringVar(&f.kind, "kind", "stream", "stream or queue; recorded only")
	fl.BoolVar(&f.durable, "durable", true, "keep records on disk; --durable=false keeps the latest in memory alone")
	fl.StringVar(&f.region, "region", "", "where its replicas may stand; anywhere if not given")
	fl.StringVar(&f.routing, "routing", "", "how a key finds its shard: modulo or jump-hash; the server's choice if not given")
	f.changeable(create, "leader", "at-least-once")
	kinds.complete(create, "kind")
	routings.complete(create, "routing")
	create.RunE = a.withControl(func(ctx context.Context, c *control, args []string) error {
		in, err := f.newStream(args[0])
		if err != nil {
			return err
		}
		var made struct {
			streamRow
			Result string `json:"result"`
		}
		status, err := c.call(ctx, http.MethodPost, streamsPath(c), in, &made.streamRow)
		if err != nil {
			return about("create stream "+args[0], c.otherwise(ctx, err, in))
		}
		made.Routing, made.Result = firstOf(made.Routing, routingModulo), "created"
		text := "stream %s is created with %s"
		if status == http.StatusOK {
			made.Result, text = "unchanged", "stream %s exists as asked, with %s"
		}
		return a.done(made, text, made.Stream, count(made.Shards, "shard"))
	})
	return create
}

// otherwise adds to a refusal of a stream that exists otherwise in what it differs from what was asked for, when that can be found out.
func (c *control) otherwise(ctx context.Context, err error, asked streamRow) error {
	var no *apiRefusal
	if !errors.As(err, &no) || no.Status != http.StatusConflict {
		return err
	}
	have, looked := c.stream(ctx, asked.Stream)
	if looked != nil {
		return err
	}
	asked.TenantID, asked.Namespace, asked.Routing = have.TenantID, have.Namespace, firstOf(asked.Routing, have.Routing)
	return differs(err, changesOf(have.comparable(), asked.comparable()))
}

// comparable are the facts of a stream, exact ones for the bounds, and a region even if it has none.
func (s *streamRow) comparable() [][]string {
	without := *s
	without.Region, without.Retention = "", retentionRow{}
	return append(append(without.facts(), []string{"region", orWord(s.Region)}), s.changing()[:2]...)
}

// differs adds to a refusal what the thing that exists has and what was asked for.
func differs(err error, changes []fieldChange) error {
	var words []string
	for _, ch := range changes {
		words = append(words, fmt.Sprintf("%s %s, not %s", ch.Field, ch.Before, ch.After))
	}
	if len(words) == 0 {
		return err
	}
	return &statusError{status: statusOf(err), err: &sentence{text: err.Error() + ": it has " + strings.Join(words, "; "), cause: err}}
}

func (f *streamFlags) newStream(name string) (s streamRow, err error) {
	s = streamRow{Stream: name, Shards: f.shards, ReplicationFactor: f.replication, Durable: f.durable, Region: f.region}
	if s.Kind, err = kinds.parse("kind", f.kind); err != nil {
		return s, err
	}
	if s.Consistency, err = consistencies.parse("consistency", f.consistency); err != nil {
		return s, err
	}
	if s.Delivery, err = deliveries.parse("delivery", f.delivery); err != nil {
		return s, err
	}
	if f.routing != "" {
		if s.Routing, err = routings.parse("routing", f.routing); err != nil {
			return s, err
		}
	}
	if s.Retention.MaxAgeSeconds, err = bound("retention-secs", f.retentionSecs, secondUnits); err != nil {
		return s, err
	}
	s.Retention.MaxSizeBytes, err = bound("retention-bytes", f.retentionBytes, byteUnits)
	return s, err
}

func (a *app) streamRemove() *cobra.Command {
	r := removal{
		kind: "stream", path: func(c *control, name string) string { return c.inNamespace("streams", name) },
		goes: func(ctx context.Context, c *control, name string) (string, error) {
			var s streamRow // not c.stream: the caller says which stream it is
			err := c.do(ctx, http.MethodGet, c.inNamespace("streams", name), nil, &s)
			return "with its records (" + count(s.Shards, "shard") + ")", err
		},
	}
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove", "delete"}, Short: "Delete streams with their records", Args: upTo(0),
		Long:              "Delete streams with all their records. When one of the names does not exist, nothing is deleted.",
		ValidArgsFunction: a.completeStreams(true), RunE: r.run(a), Example: "  felixctl stream rm orders --yes",
	}
}
