package ctl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) manCommand() *cobra.Command {
	var dir string
	man := &cobra.Command{
		Use: "man", Short: "Write manual pages", Args: noArgs, Example: "  felixctl man --out-dir ~/.local/share/man/man1",
		Long: "Write a manual page for each command into a directory, which is made if it is not there.",
	}
	man.Flags().StringVar(&dir, "out-dir", "", "`directory` to write to")
	must(man.MarkFlagDirname("out-dir"))
	man.RunE = func(cmd *cobra.Command, _ []string) error {
		if dir == "" {
			return usageErrorf("--out-dir is missing: name the directory to write to, such as ~/.local/share/man/man1")
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return usageErrorf("--out-dir: %w", err)
		}
		n := 0
		for c := range commandsOf(cmd.Root()) {
			file := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
			if err := os.WriteFile(file, manPage(c), 0o644); err != nil {
				return usageErrorf("--out-dir: %w", err)
			}
			n++
		}
		return a.done(map[string]any{"directory": dir, "pages": n}, "%s in %s", count(n, "manual page"), dir)
	}
	return man
}

// commandsOf goes through the commands that people see, each before those below it.
func commandsOf(root *cobra.Command) func(yield func(*cobra.Command) bool) {
	return func(yield func(*cobra.Command) bool) { walk(root, yield) }
}

func walk(c *cobra.Command, yield func(*cobra.Command) bool) bool {
	if !yield(c) {
		return false
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && !walk(sub, yield) {
			return false
		}
	}
	return true
}

// manPage is the manual of a command in the man macros of troff.
func manPage(c *cobra.Command) []byte {
	var b strings.Builder
	section := func(name string) { b.WriteString(".SH " + name + "\n") }
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH \"%s\" \"1\" \"\" \"felixctl %s\" \"Felix\"\n", strings.ToUpper(roff(name)), roff(Version))
	section("NAME")
	b.WriteString(roff(name) + " \\- " + roff(c.Short) + "\n")
	section("SYNOPSIS")
	b.WriteString(".B " + roff(c.UseLine()) + "\n")
	if c.Long != "" {
		section("DESCRIPTION")
		preformatted(&b, c.Long)
	}
	flagSections(&b, c)
	if c.Example != "" {
		section("EXAMPLES")
		preformatted(&b, c.Example)
	}
	section("EXIT STATUS")
	for _, s := range exitStatuses(c) {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", s.status, roff(s.means))
	}
	var related []string
	if c.HasParent() {
		related = append(related, c.Parent().CommandPath())
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			related = append(related, sub.CommandPath())
		}
	}
	if len(related) > 0 {
		section("SEE ALSO")
		for i, r := range related {
			end := ","
			if i == len(related)-1 {
				end = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(strings.ReplaceAll(r, " ", "-")), end)
		}
	}
	return []byte(b.String())
}

func flagSections(b *strings.Builder, c *cobra.Command) {
	for _, part := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"OPTIONS", c.NonInheritedFlags()}, {"OPTIONS OF ALL COMMANDS", c.InheritedFlags()}} {
		if !part.flags.HasAvailableFlags() {
			continue
		}
		b.WriteString(".SH " + part.title + "\n")
		part.flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			b.WriteString(".TP\n.B " + roff(flagWord(f)) + "\n" + roff(flagUsage(f)) + "\n")
		})
	}
}

// flagWord is how a flag is written: -n, --namespace string.
func flagWord(f *pflag.Flag) string {
	word := "--" + f.Name
	if f.Shorthand != "" {
		word = "-" + f.Shorthand + ", " + word
	}
	if kind, _ := pflag.UnquoteUsage(f); kind != "" {
		word += " " + kind
	}
	return word
}

// flagUsage is what a flag does, and its default where that says something.
func flagUsage(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	if !slices.Contains([]string{"", "false", "0", "[]"}, f.DefValue) {
		usage += " (default " + f.DefValue + ")"
	}
	return usage
}

// roff escapes what troff would take for its own.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// preformatted writes text whose lines stay as they are.
func preformatted(b *strings.Builder, text string) {
	b.WriteString(".nf\n")
	for line := range strings.Lines(text) {
		b.WriteString(roff(strings.TrimSuffix(line, "\n")) + "\n")
	}
	b.WriteString(".fi\n")
}
