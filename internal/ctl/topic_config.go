package ctl

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// configEntry is one configuration of a topic.
type configEntry struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"` // topic, broker or default
	Own    bool   `json:"set_on_topic"`
	Secret bool   `json:"sensitive,omitempty"`
}

// configChange is one configuration that topic config changed.
type configChange struct {
	Topic string `json:"topic"`
	Name  string `json:"name"`
	Old   string `json:"old"`
	New   string `json:"new"`
}

func (a *app) topicConfig() *cobra.Command {
	var set, unset []string
	var all bool
	config := &cobra.Command{
		Use: "config NAME", Short: "Show or change a topic's configuration", Args: configArgs,
		Long: `Without --set and --unset, show what is set on the topic, or with --all everything that applies to it. With them, change it and
print each value before and after.`,
		Example: `  felixctl topic config orders --all
  felixctl topic config orders --set retention.ms=3600000 --unset cleanup.policy`,
		ValidArgsFunction: a.completeTopics,
	}
	config.Flags().StringArrayVar(&set, "set", nil, "`name=value` to set; may be repeated")
	config.Flags().StringArrayVar(&unset, "unset", nil, "`name` to return to the server's default; may be repeated")
	config.Flags().BoolVar(&all, "all", false, "show defaults as well")
	config.RunE = func(cmd *cobra.Command, args []string) error {
		changes, err := parseChanges(set, unset)
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
		if _, err := c.topics(ctx, args); err != nil {
			return err
		}
		before, err := c.configs(ctx, args)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			return a.printConfigs(before[args[0]], all)
		}
		return a.changeConfigs(ctx, c, args[0], changes, before[args[0]])
	}
	return config
}

// configArgs takes a name, and says how a value is set to those who write it as an argument.
func configArgs(cmd *cobra.Command, args []string) error {
	for _, arg := range args[min(1, len(args)):] {
		if strings.Contains(arg, "=") {
			return usageErrorf("%q: a value is set with --set %s", arg, arg)
		}
	}
	return upTo(1)(cmd, args)
}

func parseChanges(set, unset []string) ([]kadm.AlterConfig, error) {
	values, err := parseConfigs(set)
	if err != nil {
		return nil, err
	}
	var out []kadm.AlterConfig
	for name, v := range values {
		out = append(out, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: v})
	}
	for _, name := range unset {
		if _, both := values[name]; both || strings.Contains(name, "=") {
			return nil, usageErrorf("--unset %q: a name that is not set in the same command", name)
		}
		out = append(out, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	slices.SortFunc(out, func(x, y kadm.AlterConfig) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// configs returns the configuration of each topic, sorted by name.
func (c *kafkaClient) configs(ctx context.Context, topics []string) (map[string][]configEntry, error) {
	answers, err := c.admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, refusal("read configuration", err, "")
	}
	out := map[string][]configEntry{}
	for _, r := range answers {
		if r.Err != nil {
			return nil, refusal("read configuration of "+r.Name, r.Err, r.ErrMessage)
		}
		for _, e := range r.Configs {
			entry := configEntry{Name: e.Key, Value: e.MaybeValue(), Source: "broker", Secret: e.Sensitive}
			switch e.Source.String() {
			case "DYNAMIC_TOPIC_CONFIG":
				entry.Source, entry.Own = "topic", true
			case "DEFAULT_CONFIG":
				entry.Source = "default"
			}
			out[r.Name] = append(out[r.Name], entry)
		}
		slices.SortFunc(out[r.Name], func(x, y configEntry) int { return strings.Compare(x.Name, y.Name) })
	}
	return out, nil
}

func (a *app) printConfigs(entries []configEntry, all bool) error {
	shown := []configEntry{}
	var rows [][]string
	for _, e := range entries {
		if !all && !e.Own {
			continue
		}
		shown = append(shown, e)
		rows = append(rows, []string{e.Name, e.Value, e.Source})
	}
	if len(shown) == 0 {
		a.say("nothing is set on the topic; --all shows the defaults that apply")
		if !a.json() {
			return nil // a head without a table under it says nothing
		}
	}
	return a.emit(shown, []string{"NAME", "VALUE", "SOURCE"}, rows)
}

func (a *app) changeConfigs(ctx context.Context, c *kafkaClient, topic string, changes []kadm.AlterConfig, before []configEntry) error {
	answers, err := c.admin.AlterTopicConfigs(ctx, changes, topic)
	if err != nil {
		return refusal("change configuration", err, "")
	}
	for _, r := range answers {
		if r.Err != nil {
			return refusal("change configuration of "+topic, r.Err, r.ErrMessage)
		}
	}
	after, err := c.configs(ctx, []string{topic})
	if err != nil {
		return err
	}
	value := func(list []configEntry, name string) string {
		for _, e := range list {
			if e.Name == name {
				return e.Value
			}
		}
		return ""
	}
	out := make([]configChange, 0, len(changes))
	var rows [][]string
	for _, ch := range changes {
		line := configChange{Topic: topic, Name: ch.Name, Old: value(before, ch.Name), New: value(after[topic], ch.Name)}
		out = append(out, line)
		rows = append(rows, []string{line.Name, line.Old, line.New})
	}
	return a.emit(out, []string{"NAME", "BEFORE", "AFTER"}, rows)
}
