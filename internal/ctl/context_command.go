package ctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/auth"
)

func (a *app) contextCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "context", Aliases: []string{"contexts"}, Short: "Keep connection settings under names",
		Args: subcommands, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.AddCommand(a.contextAdd(), a.contextList(), a.contextUse(), a.contextRemove(), a.contextCurrent(), a.contextValidate())
	return group
}

// editContexts reads the file for a change; one that is not there is empty.
func (a *app) editContexts() (*contextFile, error) {
	f, err := a.contexts()
	if err != nil && (f.path == "" || !errors.Is(err, fs.ErrNotExist)) {
		return nil, usageErrorf("context file: %w", err)
	}
	return f, nil
}

// contextRow is a context as it is shown: without its tokens.
type contextRow struct {
	Name            string `json:"name"`
	Current         bool   `json:"current"`
	Brokers         string `json:"brokers"`
	KafkaBrokers    string `json:"kafka_brokers"`
	KafkaSecurity   string `json:"kafka_security,omitempty"`
	ControlPlaneURL string `json:"controlplane_url"`
	Tenant          string `json:"tenant"`
	Namespace       string `json:"namespace"`
	Token           string `json:"token"` // the name of its file, or "in the context"
	ControlToken    string `json:"controlplane_token"`
	File            string `json:"file"`
}

func rowOfContext(f *contextFile, name string) contextRow {
	c := f.contexts[name]
	token := func(text, file string) string {
		if c[text] != "" {
			return "in the context"
		}
		return c[file]
	}
	return contextRow{
		Name: name, Current: name == f.current, Brokers: c["brokers"], KafkaBrokers: c["kafka_brokers"], KafkaSecurity: c["kafka_security"],
		ControlPlaneURL: c["controlplane_url"], Tenant: c["tenant"], Namespace: c["namespace"], Token: token("token", "token_file"),
		ControlToken: token("controlplane_token", "controlplane_token_file"), File: f.path,
	}
}

func (a *app) contextAdd() *cobra.Command {
	var use bool
	var from, kafkaBrokers, kafkaSecurity string
	add := &cobra.Command{
		Use: "add NAME", Short: "Keep the connection flags of this command under a name", Args: exactly(1),
		Long: `Write the connection flags of this command into the context file under a name. Names of files are kept as absolute paths; tokens are
better kept in files. --from starts with the current context of another file, such as the one that a development node writes.`,
		Example: "  felixctl context add dev --from data/dev/felixctl.toml --use\n" +
			"  felixctl context add shop --controlplane-url https://felix.example:8443 --controlplane-token-file ~/.felix/api -n shop",
	}
	a.namespaced(add)
	fl := add.Flags()
	fl.BoolVar(&use, "use", false, "make it the current one")
	fl.StringVar(&from, "from", "", "`file` whose current context to start with")
	fl.StringVar(&kafkaBrokers, "kafka-brokers", "", "`host:port,...` of the Kafka listener")
	fl.StringVar(&kafkaSecurity, "kafka-security", "", "how the Kafka listener is spoken to: "+strings.Join(kafkaSecurities, ", "))
	must(add.RegisterFlagCompletionFunc("kafka-security", cobra.FixedCompletions(kafkaSecurities, cobra.ShellCompDirectiveNoFileComp)))
	add.RunE = func(cmd *cobra.Command, args []string) error {
		if kafkaSecurity != "" && !slices.Contains(kafkaSecurities, kafkaSecurity) {
			return usageErrorf("--kafka-security %q is none of %s", kafkaSecurity, strings.Join(kafkaSecurities, ", "))
		}
		f, err := a.editContexts()
		if err != nil {
			return err
		}
		if f.contexts[args[0]] != nil {
			return fmt.Errorf("context %s exists: remove it first with felixctl context rm %s", args[0], args[0])
		}
		c, err := a.givenSettings(cmd, from)
		if err != nil {
			return err
		}
		for key, value := range map[string]string{"kafka_brokers": kafkaBrokers, "kafka_security": kafkaSecurity} {
			if value != "" {
				c[key] = value
			}
		}
		if len(c) == 0 {
			return usageErrorf("a context needs settings: give connection flags, or --from a file that has some")
		}
		if err := f.put(args[0], c); err != nil {
			return err
		}
		if use {
			f.setCurrent(args[0])
		}
		if err := f.save(); err != nil {
			return err
		}
		text := "context %s is kept in %s"
		if use {
			text += " and is the current one"
		}
		return a.done(rowOfContext(f, args[0]), text, args[0], f.path)
	}
	return add
}

// givenSettings are the settings of the command line, over those of a file's current context.
func (a *app) givenSettings(cmd *cobra.Command, from string) (settingsContext, error) {
	c := settingsContext{}
	if from != "" {
		text, err := readLimited(from, maxContextFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, missingErrorf("--from: %w", err)
		}
		if err != nil {
			return nil, usageErrorf("--from: %w", err)
		}
		contexts, current, err := parseContexts(string(text))
		if err != nil {
			return nil, usageErrorf("--from: %s, %w", from, err)
		}
		if c = contexts[current]; c == nil {
			return nil, missingErrorf("--from: %s has no current context", from)
		}
	}
	native := setting{flag: "brokers", key: "brokers", into: func(s *settings) *string { return &s.brokers }}
	for _, s := range append(slices.Clone(settingTable), namespaceSetting, native) {
		if s.key == "" || !cmd.Flags().Changed(s.flag) {
			continue
		}
		value := *s.into(&a.settings)
		if strings.HasSuffix(s.key, "_file") {
			if abs, err := filepath.Abs(value); err == nil {
				value = abs
			}
		}
		for flag, other := range secretFile {
			if flag == s.flag {
				delete(c, strings.ReplaceAll(other, "-", "_"))
			}
		}
		c[s.key] = value
	}
	return c, nil
}

func (a *app) contextList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List contexts", Args: noArgs, Example: "  felixctl context ls",
		RunE: func(*cobra.Command, []string) error {
			f, err := a.editContexts()
			if err != nil {
				return err
			}
			rows := []contextRow{}
			table := [][]string{}
			for _, name := range f.names() {
				r := rowOfContext(f, name)
				rows = append(rows, r)
				mark := ""
				if r.Current {
					mark = "*"
				}
				table = append(table, []string{
					mark, r.Name, orWord(r.Brokers), orWord(r.KafkaBrokers), orWord(r.ControlPlaneURL), orWord(r.Tenant), orWord(r.Namespace),
				})
			}
			return a.emit(rows, []string{"", "NAME", "BROKERS", "KAFKA BROKERS", "CONTROL PLANE", "TENANT", "NAMESPACE"}, table)
		},
	}
}

func (a *app) contextUse() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Args: exactly(1), ValidArgsFunction: a.completeContext,
		Example: "  felixctl context use dev",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.editContexts()
			if err != nil {
				return err
			}
			if _, err := f.named(args[0]); err != nil {
				return err
			}
			f.setCurrent(args[0])
			if err := f.save(); err != nil {
				return err
			}
			return a.done(rowOfContext(f, args[0]), "context %s is the current one", args[0])
		},
	}
}

func (a *app) contextRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove"}, Short: "Remove a context; the files that it names stay", Args: exactly(1),
		ValidArgsFunction: a.completeContext, Example: "  felixctl context rm dev",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.editContexts()
			if err != nil {
				return err
			}
			if _, err := f.named(args[0]); err != nil {
				return err
			}
			row := rowOfContext(f, args[0])
			f.remove(args[0])
			if row.Current {
				f.setCurrent("")
			}
			if err := f.save(); err != nil {
				return err
			}
			if row.Current {
				a.say("there is no current context now: choose one with felixctl context use")
			}
			return a.done(row, "context %s is removed from %s", args[0], f.path)
		},
	}
}

// inUse is the context that commands use now.
func (a *app) inUse() (*contextFile, string, error) {
	f, err := a.editContexts()
	if err != nil {
		return nil, "", err
	}
	name := firstOf(a.contextName, f.current)
	if name == "" {
		return nil, "", missingErrorf("no context is in use: choose one with felixctl context use, or name one with --context")
	}
	_, err = f.named(name)
	return f, name, err
}

func (a *app) contextCurrent() *cobra.Command {
	return &cobra.Command{
		Use: "current", Short: "Show which context commands use", Args: noArgs, Example: "  felixctl context current",
		RunE: func(*cobra.Command, []string) error {
			f, name, err := a.inUse()
			if err != nil {
				return err
			}
			return a.done(rowOfContext(f, name), "%s", name)
		},
	}
}

func (a *app) completeContext(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.contextNames(), cobra.ShellCompDirectiveNoFileComp
}

// checkRow is the result of trying one listener.
type checkRow struct {
	Server  string `json:"server"`
	Address string `json:"address"`
	OK      bool   `json:"ok"`
	Result  string `json:"result"`
	Exit    int    `json:"exit"`
}

func (a *app) contextValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate [NAME]", Short: "Try every listener and token of a context", ValidArgsFunction: a.completeContext,
		Long: `Speak to each listener that the context names, with its token, and say which fails and why. Flags and variables count as they do for
other commands. The exit status is that of the first failure.`,
		Example: "  felixctl context validate dev",
		Args:    optional,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.contextName = args[0]
			}
			f, name, err := a.inUse()
			if err != nil {
				return err
			}
			return a.validate(cmd, f.contexts[name])
		},
	}
}

func (a *app) validate(cmd *cobra.Command, c settingsContext) error {
	checks := []struct {
		server serverKind
		key    string
		try    func(*app, context.Context) (address, result string, err error)
	}{
		{controlServer, "controlplane_url", (*app).tryControl},
		{nativeServer, "brokers", (*app).tryNative},
		{kafkaServer, "kafka_brokers", (*app).tryKafka},
	}
	rows, table := []checkRow{}, [][]string{}
	var failed error
	for _, check := range checks {
		if c[check.key] == "" {
			continue
		}
		of := &app{p: a.p, settings: a.settings}
		err := of.take(cmd, check.server, c)
		row := checkRow{Server: string(check.server), Address: c[check.key], OK: true}
		if err == nil {
			row.Address, row.Result, err = check.try(of, cmd.Context())
		}
		if err != nil {
			err = of.explain(cmd.Context(), err)
			row.OK, row.Result, row.Exit = false, err.Error(), statusOf(err)
			if failed == nil {
				failed = &statusError{status: row.Exit, err: errors.New("not everything in the context works")}
			}
		}
		rows = append(rows, row)
		state := "ok"
		if !row.OK {
			state = "FAILED"
		}
		table = append(table, []string{row.Server, row.Address, state, row.Result})
	}
	return errors.Join(a.emit(rows, []string{"SERVER", "ADDRESS", "STATE", "RESULT"}, table), failed)
}

func (a *app) tryKafka(ctx context.Context) (address, result string, err error) {
	c, err := a.connect(ctx)
	if err != nil {
		return a.brokers, "", err
	}
	c.Close()
	result = "answers; no login is configured"
	if a.tenant != "" {
		result = "login accepted"
	}
	return a.brokers, result, nil
}

func (a *app) tryControl(ctx context.Context) (address, result string, err error) {
	c, err := a.control()
	if err != nil {
		return a.controlURL, "", err
	}
	defer c.close()
	if err := c.do(ctx, http.MethodGet, "/v1/system/ready", nil, nil); err != nil {
		return a.controlURL, "", err
	}
	// Any listing of the tenant says whether the token is taken; whether it has the right is another question.
	err = c.do(ctx, http.MethodGet, c.inTenant("namespaces")+"?limit=1", nil, nil)
	var no *apiRefusal
	if errors.As(err, &no) && no.Status == http.StatusForbidden {
		err = nil
	}
	return a.controlURL, "ready; token accepted for tenant " + c.tenant + untilWhen(c.token), err
}

// untilWhen says when a token ends, if it says so.
func untilWhen(token string) string {
	said, err := auth.Look(token)
	if err != nil {
		return ""
	}
	return " until " + said.Expires.UTC().Format("2006-01-02 15:04 MST")
}
