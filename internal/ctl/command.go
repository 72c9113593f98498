package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// Version is the release, set by the linker in a build of the Makefile.
var Version = "unknown"

// Process is what a process has: its arguments without the program's name, its environment, and its streams.
type Process struct {
	Args    []string
	Environ []string
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	// InTerminal, OutTerminal and ErrTerminal say that a person sits at that stream.
	InTerminal, OutTerminal, ErrTerminal bool
}

// app is one run of a command: the process and the settings that all commands share.
type app struct {
	p     Process
	errMu sync.Mutex // one line at a time on p.Err
	settings
}

// Main runs the felixctl command line and returns the exit status of the process. When ctx ends, the command does.
func Main(ctx context.Context, p Process) int {
	a := &app{p: p}
	root := a.root()
	root.SetArgs(p.Args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	err = a.explain(ctx, err)
	status := statusOf(err)
	if status == exitFailure && outputClosed(err) {
		return exitOK
	}
	a.complain(err, status)
	return status
}

// explain puts the ends that no server gave a sentence to into words: an interrupt, and a server that keeps silent.
func (a *app) explain(ctx context.Context, err error) error {
	var known *statusError
	has := errors.As(err, &known)
	switch {
	case has && known.status == exitInterrupted:
		return err
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return interruptedErrorf("interrupted")
	case errors.Is(err, context.DeadlineExceeded) && (!has || known.status == exitUnreachable):
		return unreachableErrorf("no answer from the server at %s within %s: it hangs or is overloaded; --timeout waits longer", a.brokers, a.timeout)
	default:
		return err
	}
}

// complain tells of an error in the form that the person asked for.
func (a *app) complain(err error, status int) {
	text := err.Error()
	if a.json() {
		line, _ := json.Marshal(map[string]any{"error": text, "exit": status}) // strings and numbers marshal
		text = string(line)
	} else {
		text = "felixctl: " + text
	}
	a.errMu.Lock()
	defer a.errMu.Unlock()
	_, _ = fmt.Fprintln(a.p.Err, text) // nowhere is left to report it
}

// json says that output is for programs.
func (a *app) json() bool { return a.asJSON || a.output == outputJSON }

// Output forms of -o.
const (
	outputTable = "table"
	outputJSON  = "json"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "felixctl", Short: "Work with a Felix server: streams, caches, records, consumer groups and the cluster", Version: Version,
		Long: `Work with a Felix server. Three listeners are spoken to, each with settings of its own:

  the native one       pub, sub, topology, inspect, bench; --brokers, and a token for brokers (--token-file)
  the control API      tenant, namespace, stream, cache, node, shard, rbac, key, placement, cluster; --controlplane-url and a token for the API
  the Kafka one        topic, produce, consume, group; --brokers, and a login if the listener asks for one

Settings come from the flag, then the environment, then a context (felixctl context add). A development node writes one:
felixctl --config data/dev/felixctl.toml, or FELIX_CLI_CONFIG=data/dev/felixctl.toml.

Exit status: 0 success, 1 other failure, 2 arguments or settings, 3 nobody reachable, 4 refused, 5 not there, 130 interrupted.`,
		SilenceUsage: true, SilenceErrors: true,
		Args: subcommands, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
	}
	root.SetVersionTemplate("felixctl {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageErrorf("%w (see %s --help)", err, cmd.CommandPath())
	})
	a.addFlags(root)
	root.AddGroup(
		&cobra.Group{ID: string(nativeServer), Title: "Records, natively:"},
		&cobra.Group{ID: string(controlServer), Title: "Administration, by the control API:"},
		&cobra.Group{ID: string(kafkaServer), Title: "Topics, records and consumer groups, by the Kafka listener:"},
		&cobra.Group{ID: string(noServer), Title: "This machine:"},
	)
	root.SetHelpCommandGroupID(string(noServer))
	root.AddCommand(of(kafkaServer, a.topicCommand(), a.groupCommand(), a.produceCommand(), a.consumeCommand())...)
	root.AddCommand(a.controlCommands()...)
	root.AddCommand(a.nativeCommands()...)
	root.AddCommand(of(noServer, a.contextCommand(), a.tokenCommand(), a.versionCommand(), a.completionsCommand(), a.manCommand())...)
	return root
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of felixctl", Args: noArgs, Example: "  felixctl version",
		RunE: func(*cobra.Command, []string) error {
			if a.json() {
				return a.emit(map[string]string{"version": Version}, nil, nil)
			}
			_, err := fmt.Fprintf(a.p.Out, "felixctl %s\n", Version)
			return err
		},
	}
}

func must(err error) {
	if err != nil {
		panic(err) // a flag is named wrong in this file
	}
}

// checkOutput refuses a form of output that there is not.
func (a *app) checkOutput() error {
	if a.output != outputTable && a.output != outputJSON {
		return usageErrorf("-o %q is neither table nor json", a.output)
	}
	return nil
}

type environ map[string]string

func environment(list []string) environ {
	env := environ{}
	for _, kv := range list {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

// noArgs refuses arguments with the status of a mistake on the command line.
func noArgs(cmd *cobra.Command, args []string) error {
	return asArguments(cmd, args, cobra.NoArgs(cmd, args))
}

// subcommands refuses a word that is no command, and names those that it may have meant.
func subcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.SuggestionsMinimumDistance == 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageErrorf("unknown command %q for %q: %s", args[0], cmd.CommandPath(), hint)
}

// exactly takes n arguments, optional one or none.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return asArguments(cmd, args, cobra.ExactArgs(n)(cmd, args))
	}
}

func optional(cmd *cobra.Command, args []string) error {
	return asArguments(cmd, args, cobra.MaximumNArgs(1)(cmd, args))
}

// upTo takes one to n arguments; n below 1 is no upper bound.
func upTo(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n < 1 {
			return asArguments(cmd, args, cobra.MinimumNArgs(1)(cmd, args))
		}
		return asArguments(cmd, args, cobra.RangeArgs(1, n)(cmd, args))
	}
}

// asArguments puts a wrong number of arguments into words: which one is missing, or which is too many, and how the command is called.
func asArguments(cmd *cobra.Command, args []string, err error) error {
	if err == nil {
		return nil
	}
	words := strings.Fields(cmd.Use)[1:]
	call := strings.Join(append([]string{cmd.CommandPath()}, words...), " ")
	if len(args) < len(words) {
		return usageErrorf("%s is missing: %s (see %s --help)", strings.TrimSuffix(words[len(args)], "..."), call, cmd.CommandPath())
	}
	if len(args) == len(words) {
		return asUsage(err) // the form says nothing about it
	}
	return usageErrorf("%q is one argument too many: %s (see %s --help)", args[len(words)], call, cmd.CommandPath())
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{status: exitUsage, err: err}
}

// confirm asks before something is done, as in "delete orders for good": on a terminal with [y/N], elsewhere it takes --yes.
func (a *app) confirm(deed string) error {
	if a.yes {
		return nil
	}
	if !a.p.InTerminal || !a.p.OutTerminal {
		return usageErrorf("nobody is there to confirm it: to %s, say --yes", deed)
	}
	if _, err := fmt.Fprintf(a.p.Err, "%s%s? [y/N] ", strings.ToUpper(deed[:1]), deed[1:]); err != nil {
		return err
	}
	var reply string
	if _, err := fmt.Fscanln(a.p.In, &reply); err != nil && !errors.Is(err, io.EOF) && reply == "" {
		reply = "n" // an empty line is "no"
	}
	if r := strings.ToLower(reply); r != "y" && r != "yes" {
		return &statusError{status: exitFailure, err: errors.New("not confirmed; nothing was done")}
	}
	return nil
}
