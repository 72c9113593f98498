package ctl

import (
	"context"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"
)

// fieldChange is one field that a command changed.
type fieldChange struct {
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// emitChanges tells what changed, or that nothing did.
func (a *app) emitChanges(changes []fieldChange) error {
	rows := make([][]string, len(changes))
	for i, ch := range changes {
		rows[i] = []string{ch.Field, ch.Before, ch.After}
	}
	if len(changes) == 0 {
		a.say("nothing was different: nothing is changed")
	}
	return a.emit(changes, []string{"FIELD", "BEFORE", "AFTER"}, rows)
}

// changesOf compares two lists of the same facts.
func changesOf(before, after [][]string) []fieldChange {
	out := []fieldChange{}
	for i, row := range before {
		if i < len(after) && row[1] != after[i][1] {
			out = append(out, fieldChange{row[0], row[1], after[i][1]})
		}
	}
	return out
}

func (a *app) streamSet() *cobra.Command {
	var f streamFlags
	set := &cobra.Command{
		Use: "set NAME", Short: "Change retention, consistency or delivery of a stream", Args: exactly(1), ValidArgsFunction: a.completeStreams(false),
		Long: "Change what is named and print each field that changed. Everything else of a stream is fixed for its life.",
		Example: "  felixctl stream set orders --retention-secs 86400 --consistency quorum\n" +
			"  felixctl stream set orders --retention-bytes default",
	}
	f.changeable(set, "", "")
	set.RunE = func(cmd *cobra.Command, args []string) error {
		changed := cmd.Flags().Changed
		if !changed("consistency") && !changed("delivery") && !changed("retention-secs") && !changed("retention-bytes") {
			return usageErrorf("nothing to change: give --retention-secs, --retention-bytes, --consistency or --delivery")
		}
		return a.withControl(func(ctx context.Context, c *control, args []string) error {
			return a.setStream(ctx, c, cmd, &f, args[0])
		})(cmd, args)
	}
	return set
}

// setStream sends what changes. A change of one bound of the retention replaces both, so the other one goes along as it was read.
func (a *app) setStream(ctx context.Context, c *control, cmd *cobra.Command, f *streamFlags, name string) error {
	var patch struct {
		Consistency string        `json:"consistency,omitempty"`
		Delivery    string        `json:"delivery,omitempty"`
		Retention   *retentionRow `json:"retention,omitempty"`
	}
	changed := cmd.Flags().Changed
	seconds, err := bound("retention-secs", f.retentionSecs, secondUnits)
	if err != nil {
		return err
	}
	bytes, err := bound("retention-bytes", f.retentionBytes, byteUnits)
	if err != nil {
		return err
	}
	if changed("consistency") {
		if patch.Consistency, err = consistencies.parse("consistency", f.consistency); err != nil {
			return err
		}
	}
	if changed("delivery") {
		if patch.Delivery, err = deliveries.parse("delivery", f.delivery); err != nil {
			return err
		}
	}
	before, err := c.stream(ctx, name)
	if err != nil {
		return err
	}
	if changed("retention-secs") || changed("retention-bytes") {
		r := before.Retention
		if changed("retention-secs") {
			r.MaxAgeSeconds = seconds
		}
		if changed("retention-bytes") {
			r.MaxSizeBytes = bytes
		}
		patch.Retention = &r
	}
	after := streamRow{}
	if err := c.do(ctx, http.MethodPatch, c.inNamespace("streams", name), patch, &after); err != nil {
		return about("change stream "+name, err)
	}
	return a.emitChanges(changesOf(before.changing(), after.changing()))
}

// changing is what may change in a stream's life, under the names that the API has.
func (s *streamRow) changing() [][]string {
	number := func(n *int64) string {
		if n == nil {
			return "default"
		}
		return strconv.FormatInt(*n, 10)
	}
	return [][]string{
		{"retention.max_age_seconds", number(s.Retention.MaxAgeSeconds)},
		{"retention.max_size_bytes", number(s.Retention.MaxSizeBytes)},
		{"consistency", s.Consistency},
		{"delivery", s.Delivery},
	}
}
