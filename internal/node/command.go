package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// Process is what a process has: its arguments without the program's name, its environment, its streams and its signals.
type Process struct {
	Args    []string
	Environ []string
	Out     io.Writer
	Err     io.Writer
	Signals <-chan os.Signal
	Began   time.Time
}

// Exit statuses of the felix binary.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitRepair  = 6 // offline tools: a start would repair
	exitRefuse  = 7 // offline tools: a start would refuse, or records are damaged
)

// statusError is an error that has an exit status of its own. quiet says that the command has already told the person.
type statusError struct {
	status int
	err    error
	quiet  bool
}

// Error is the cause's sentence.
func (e *statusError) Error() string { return e.err.Error() }

// Unwrap is the cause.
func (e *statusError) Unwrap() error { return e.err }

func usageError(err error) error { return &statusError{status: exitUsage, err: err} }

// Main runs the felix command line and returns the exit status of the process.
func Main(ctx context.Context, p Process) int {
	// What the process makes is its user's alone, also where a library makes it: signing keys, records and passwords lie in the data
	// directory. Files for others (the ready file, an exported certificate) get their mode by themselves.
	unix.Umask(0o077)
	root := newRoot(p)
	root.SetArgs(p.Args)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var s *statusError
	if !errors.As(err, &s) {
		s = &statusError{status: exitFailure, err: err}
	}
	if !s.quiet {
		_, _ = fmt.Fprintln(p.Err, "felix:", err) // nowhere is left to report it
	}
	return s.status
}

func newRoot(p Process) *cobra.Command {
	root := &cobra.Command{
		Use: "felix", Short: "Felix is a log server that speaks the Kafka protocol", Version: Version,
		SilenceUsage: true, SilenceErrors: true,
		Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("felix {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath()))
	})
	root.AddCommand(newServe(p), newLog(p), newVersion(p))
	return root
}

func newVersion(p Process) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Out, "felix", Version)
			return err
		},
	}
}

func newServe(p Process) *cobra.Command {
	var configFile string
	var printConfig bool
	serve := &cobra.Command{
		Use: "serve", Short: "Run the server",
		Long: `Run the server. Without any setting this is one development node: Kafka on 127.0.0.1:9092 without a login, the native
protocol on 127.0.0.1:5000 and the API on 127.0.0.1:8443 with tokens that it keeps under ./data/dev, metrics on
127.0.0.1:8080, records under ./data. Settings come from flags, then the environment, then the file of --config, then
defaults; docs/configuration.md lists them all. SIGINT and SIGTERM stop the node and lose nothing.`,
		Args: noArgs,
	}
	serve.Flags().StringVar(&configFile, "config", "", "file of settings (YAML); also "+configEnv)
	serve.Flags().BoolVar(&printConfig, "print-config", false, "print every setting with its origin and exit")
	addSettingFlags(serve.Flags())
	serve.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := Load(Sources{Flags: givenFlags(cmd.Flags()), ConfigFile: configFile, Environ: p.Environ})
		if printConfig && l != nil { // with settings that contradict each other too: then above all
			for _, w := range l.Warnings {
				_, _ = fmt.Fprintln(p.Err, "felix: warning:", w) // nowhere is left to report it
			}
			if err := l.Print(p.Out); err != nil {
				return err
			}
		}
		if err != nil {
			return usageError(err)
		}
		if printConfig {
			return nil
		}
		err = Run(cmd.Context(), l, RunOptions{Out: p.Out, Signals: p.Signals, Began: p.Began})
		if errors.Is(err, ErrForced) {
			return &statusError{status: exitFailure, err: err, quiet: true} // the log has said what was cut off
		}
		return err
	}
	return serve
}

// noArgs refuses arguments with the exit status of a mistake on the command line.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError(err)
	}
	return nil
}

// addSettingFlags makes a flag of each setting that has one. Flags take text, which Load parses: one parser for all sources. Truth
// values may stand alone (--allow-insecure).
func addSettingFlags(flags *pflag.FlagSet) {
	for _, s := range settings() {
		if s.Flag == "" {
			continue
		}
		usage := strings.ReplaceAll(s.Doc, "`", "") // in a flag's usage a backquoted word would name its value
		if s.Default != "" {
			usage += " Default " + s.Default + "."
		}
		flags.Var(&settingFlag{kind: s.Kind}, s.Flag, usage+" ("+s.Env+")")
		if s.Kind == "bool" {
			flags.Lookup(s.Flag).NoOptDefVal = "true"
		}
	}
}

// settingFlag keeps the text of a flag.
type settingFlag struct{ text, kind string }

// String is the text that was given.
func (f *settingFlag) String() string { return f.text }

// Set keeps the text.
func (f *settingFlag) Set(s string) error { f.text = s; return nil }

// Type is the kind of the setting, as help shows it.
func (f *settingFlag) Type() string { return f.kind }

// givenFlags are the settings that the command line gave.
func givenFlags(flags *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	flags.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*settingFlag); ok {
			out[f.Name] = v.text
		}
	})
	return out
}
