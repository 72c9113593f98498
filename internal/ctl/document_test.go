package ctl

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var rewrite = flag.Bool("rewrite", false, "rewrite generated documents instead of comparing them")

const (
	document      = "../../docs/felixctl.md"
	documentBegin = "<!-- generated from the commands by make generate: begin -->\n"
	documentEnd   = "<!-- generated: end -->\n"
)

// TestDocument keeps docs/felixctl.md what the commands are.
//
//go:generate go test . -run ^TestDocument$ -rewrite
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), documentBegin)
	_, after, ok2 := strings.Cut(rest, documentEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no generated block", document)
	}
	want := before + documentBegin + commandsDocument() + "\n" + documentEnd + after
	if *rewrite {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(text), want); diff != "" {
		t.Errorf("%s differs (make generate rewrites it):\n%s", document, diff)
	}
}

// commandsDocument has a row for each command, and a section with its flags.
func commandsDocument() string {
	root := (&app{}).root()
	var b strings.Builder
	b.WriteString("\n| command | what it does | example | exit status |\n|---|---|---|---|\n")
	cell := func(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }
	for c := range commandsOf(root) {
		if c.HasSubCommands() || !c.Runnable() {
			continue
		}
		example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
		var statuses []string
		for _, s := range exitStatuses(c) {
			statuses = append(statuses, fmt.Sprint(s.status))
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", cell(useOf(c)), cell(c.Short), cell(strings.TrimSpace(example)), strings.Join(statuses, ", "))
	}
	b.WriteString("\n### Flags of all commands\n\n")
	flagRows(&b, root.PersistentFlags())
	b.WriteString("\n### Flags by command\n")
	for c := range commandsOf(root) {
		own := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "version" && root.PersistentFlags().Lookup(f.Name) != f {
				own.AddFlag(f)
			}
		})
		if !own.HasAvailableFlags() || c == root {
			continue
		}
		b.WriteString("\n`" + c.CommandPath() + "`")
		if c.HasSubCommands() {
			b.WriteString(" and the commands below it")
		}
		b.WriteString("\n\n")
		flagRows(&b, own)
	}
	return b.String()
}

// useOf is a command with its arguments.
func useOf(c *cobra.Command) string {
	return strings.TrimSuffix(strings.TrimPrefix(c.UseLine(), "felixctl "), " [flags]")
}

func flagRows(b *strings.Builder, flags *pflag.FlagSet) {
	b.WriteString("| flag | what it does |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(flagWord(f), "|", `\|`), strings.ReplaceAll(flagUsage(f), "|", `\|`))
	})
}

// TestCommandsAreDescribed: each command says what it does and shows how; its example is one that the command line takes.
func TestCommandsAreDescribed(t *testing.T) {
	root := (&app{}).root()
	for c := range commandsOf(root) {
		if c.Short == "" {
			t.Errorf("%s has no description", c.CommandPath())
		}
		if c.HasSubCommands() {
			continue
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			checkExample(t, c, strings.TrimSpace(line))
		}
	}
}

// checkExample finds the example's command and has its flags and arguments checked; nothing is run.
func checkExample(t *testing.T, c *cobra.Command, line string) {
	t.Helper()
	if i := strings.Index(line, c.CommandPath()); i >= 0 {
		line = line[i+len("felixctl "):]
	} else {
		t.Errorf("%s: the example %q does not call it", c.CommandPath(), line)
		return
	}
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " < ")
	line, _, _ = strings.Cut(line, " | ")
	words := shellWords(strings.TrimSuffix(line, ")"))
	fresh := (&app{}).root()
	found, rest, err := fresh.Find(words)
	if err != nil || found.CommandPath() != c.CommandPath() {
		t.Errorf("%s: the example %q calls %s, %v", c.CommandPath(), line, found.CommandPath(), err)
		return
	}
	if err := found.ParseFlags(rest); err != nil {
		t.Errorf("%s: the example %q: %v", c.CommandPath(), line, err)
		return
	}
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		t.Errorf("%s: the example %q: %v", c.CommandPath(), line, err)
	}
}

// shellWords splits a line as a shell does, as far as single and double quotes go.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	quote, inside := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inside = r, true
		case quote == 0 && r == ' ':
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if inside {
		words = append(words, word.String())
	}
	return words
}

// TestFlagsAreDescribed: help says what each flag is for.
func TestFlagsAreDescribed(t *testing.T) {
	for c := range commandsOf((&app{}).root()) {
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s has no description", c.CommandPath(), f.Name)
			}
		})
	}
}

func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	want(t, exitUsage, "", []string{"man"}, "--out-dir is missing")
	got := decode[struct{ Pages int }](t, want(t, exitOK, "", []string{"man", "--out-dir", dir, "--json"}))
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != got.Pages || got.Pages < 30 {
		t.Fatalf("got %d files, %d pages, %v", len(files), got.Pages, err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "felixctl-stream-create.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`.TH "FELIXCTL\-STREAM\-CREATE" "1"`, ".SH EXIT STATUS", `\-\-shards`, ".BR felixctl\\-stream (1)"} {
		if !strings.Contains(string(page), part) {
			t.Errorf("no %q in the page", part)
		}
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".B", ".BR", ".TP", ".nf", ".fi"}, strings.Fields(line)[0]) {
			t.Errorf("a line of text that troff takes for a request: %q", line)
		}
	}
	want(t, exitUsage, "", []string{"man", "--out-dir", filepath.Join(dir, "felixctl.1", "x")}, "--out-dir")
}

func TestCompletions(t *testing.T) {
	for _, shell := range shells {
		want(t, exitOK, "", []string{"completions", shell}, "felixctl")
	}
	want(t, exitUsage, "", []string{"completions", "tcsh"}, "none of bash, zsh, fish")
	want(t, exitUsage, "", []string{"completions"}, "is missing: felixctl completions")
	want(t, exitOK, "", []string{"__complete", "completions", ""}, "fish\n")
}
