package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// family makes a command that only holds others.
func family(use, short string, aliases []string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Aliases: aliases,
		Args: subcommands, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(commands...)
	return c
}

// controlCommands are the commands of the control API.
func (a *app) controlCommands() []*cobra.Command {
	inNamespaces := a.namespaced(a.streamCommand(), a.cacheCommand(), a.shardCommand())
	return of(controlServer, append(inNamespaces, a.tenantCommand(), a.namespaceCommand(), a.nodeCommand(), a.rbacCommand(), a.keyCommand(),
		a.placementCommand(), a.clusterCommand())...)
}

// withControl runs a command's work with a way to the control API.
func (a *app) withControl(work func(ctx context.Context, c *control, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.control()
		if err != nil {
			return err
		}
		defer c.close()
		return work(cmd.Context(), c, args)
	}
}

// about puts what was asked for before a refusal, as in "create stream orders: ...".
func about(what string, err error) error {
	if err == nil {
		return nil
	}
	return &statusError{status: statusOf(err), err: &sentence{text: what + ": " + err.Error(), cause: err}}
}

// lookedUp says why something was not found, and where names are.
func lookedUp(kind, name string, err error) error {
	if err == nil || statusOf(err) != exitMissing {
		return about(kind+" "+visible(name), err)
	}
	text := err.Error()
	var no *apiRefusal
	if errors.As(err, &no) {
		text = no.Message
		if kind != "signing key" {
			text += ": see felixctl " + kind + " ls"
		}
	}
	return &statusError{status: exitMissing, err: &sentence{text: text, cause: err}}
}

// removal is how one kind of thing is deleted.
type removal struct {
	kind string // as in "stream"
	path func(c *control, name string) string
	// goes says what goes with one thing, as in "with its records"; the error says why it cannot be deleted.
	goes func(ctx context.Context, c *control, name string) (string, error)
}

// removed is one line of a deletion.
type removed struct {
	Name    string `json:"name"`
	Deleted bool   `json:"deleted"`
	Error   string `json:"error,omitempty"`
}

// run deletes what is named, after all of it was looked up and a person has agreed.
func (r removal) run(a *app) func(*cobra.Command, []string) error {
	return a.withControl(func(ctx context.Context, c *control, names []string) error {
		names = unique(names)
		deeds := make([]string, len(names))
		for i, name := range names {
			goes, err := r.goes(ctx, c, name)
			if err != nil {
				if len(names) > 1 {
					a.say("nothing was deleted")
				}
				return lookedUp(r.kind, name, err)
			}
			deeds[i] = strings.TrimSpace(r.kind + " " + visible(name) + " " + goes)
		}
		if err := a.confirm("delete " + strings.Join(deeds, ", ") + " for good"); err != nil {
			return err
		}
		var out results[removed]
		for _, name := range names {
			err := about("delete "+r.kind+" "+name, c.do(ctx, http.MethodDelete, r.path(c, name), nil, nil))
			out.add(removed{name, err == nil, textOf(err)}, "deleted", err, name)
		}
		return out.emit(a, "NAME")
	})
}

// count says how many there are of something, as in "3 streams".
func count(n int, what string) string { return fmt.Sprintf("%d %s%s", n, what, plural(n)) }

// countPages goes through a listing for its length alone.
func countPages(ctx context.Context, c *control, path string) (int, error) {
	n := 0
	for _, err := range pages[struct{}](ctx, c, path, nil) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// completeFrom completes names from a listing of the control API: the first argument, or with many every one.
func (a *app) completeFrom(path func(*control) string, field string, many bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 && !many || a.prepare(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.control()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.close()
		// One page: whoever has more than that types another letter, and is not made to wait.
		var page struct{ Items []map[string]any }
		if c.do(cmd.Context(), http.MethodGet, path(c), nil, &page) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, item := range page.Items {
			if name, ok := item[field].(string); ok {
				names = append(names, name)
			}
		}
		return offer(names, given, prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// enum is the words that the API has for something; people write them in lower case, with hyphens.
type enum []string

// typed is how people write a word: AtLeastOnce is at-least-once.
func typed(word string) string {
	var b strings.Builder
	for i, r := range word {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

func (e enum) typed() []string {
	out := make([]string, len(e))
	for i, w := range e {
		out[i] = typed(w)
	}
	return out
}

// parse finds a word, however it is spelled.
func (e enum) parse(flag, s string) (string, error) {
	plain := strings.NewReplacer("-", "", "_", "").Replace(s)
	for _, w := range e {
		if strings.EqualFold(plain, strings.ReplaceAll(w, "_", "")) {
			return w, nil
		}
	}
	return "", usageErrorf("--%s %q is none of %s", flag, s, strings.Join(e.typed(), ", "))
}

// complete offers the words for a flag.
func (e enum) complete(cmd *cobra.Command, flag string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(e.typed(), cobra.ShellCompDirectiveNoFileComp)))
}
