package ctl

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/auth"
)

// keyRow is a signing key of the tenant.
type keyRow struct {
	ID    string `json:"kid"`
	State string `json:"state"` // signing or verifying
}

const (
	keySigning   = "signing"
	keyVerifying = "verifying"
)

func (a *app) keyCommand() *cobra.Command {
	return family("key", "List, create, activate and remove the keys that sign a tenant's tokens", []string{"keys"},
		a.keyList(), a.keyCreate(), a.keyActivate(), a.keyRemove())
}

// keys lists the keys, the signing one first.
func (c *control) keys(ctx context.Context) ([]keyRow, error) {
	var answer struct {
		Current   string   `json:"current"`
		Verifying []string `json:"verifying"`
	}
	if err := c.do(ctx, http.MethodGet, c.inTenant("signing-keys"), nil, &answer); err != nil {
		return nil, about("signing keys", err)
	}
	rows := []keyRow{}
	if answer.Current != "" {
		rows = append(rows, keyRow{answer.Current, keySigning})
	}
	for _, id := range answer.Verifying {
		if id != answer.Current {
			rows = append(rows, keyRow{id, keyVerifying})
		}
	}
	return rows, nil
}

func (a *app) keyList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the tenant's signing keys", Args: noArgs, Example: "  felixctl key ls",
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			rows, err := c.keys(ctx)
			if err != nil {
				return err
			}
			l := a.listing("KEY", "STATE")
			for _, k := range rows {
				if err := l.add(k, k.ID, k.State); err != nil {
					return err
				}
			}
			return l.end()
		}),
	}
}

func (a *app) completeKeys(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 || a.prepare(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := a.control()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.close()
	rows, _ := c.keys(cmd.Context()) // nothing is offered when nobody answers
	var out []string
	for _, k := range rows {
		if k.State != keySigning {
			out = append(out, k.ID)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) keyCreate() *cobra.Command {
	return &cobra.Command{
		Use: "create", Short: "Stage a new key: it is published and does not sign yet", Args: noArgs, Example: "  felixctl key create",
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			k := keyRow{State: keyVerifying}
			if err := c.do(ctx, http.MethodPost, c.inTenant("signing-keys"), nil, &k); err != nil {
				return about("create a signing key", err)
			}
			a.say("wait until brokers know it (an hour on several nodes, nothing on one), then: felixctl key activate %s", k.ID)
			return a.done(k, "%s", k.ID)
		}),
	}
}

func (a *app) keyActivate() *cobra.Command {
	return &cobra.Command{
		Use: "activate KEY", Short: "Sign with a key from now on; the former one still verifies", Args: exactly(1), ValidArgsFunction: a.completeKeys,
		Example: "  felixctl key activate f3a1c0",
		RunE: a.withControl(func(ctx context.Context, c *control, args []string) error {
			if err := c.do(ctx, http.MethodPost, c.inTenant("signing-keys", args[0], "activate"), nil, nil); err != nil {
				return about("activate key "+args[0], err)
			}
			return a.done(keyRow{args[0], keySigning}, "key %s signs from now on", args[0])
		}),
	}
}

// developmentDies is what becomes of a development node whose key is no more.
const developmentDies = "its files token and api-token, this command's own token if it is one of them, and what token mint makes are refused " +
	"from then on; for a new key remove signing-key.pem beside them and restart the node"

func (a *app) keyRemove() *cobra.Command {
	r := removal{
		kind: "signing key", path: func(c *control, name string) string { return c.inTenant("signing-keys", name) },
		goes: func(ctx context.Context, c *control, name string) (string, error) {
			rows, err := c.keys(ctx)
			if err != nil {
				return "", err
			}
			for _, k := range rows {
				if k.ID == name {
					if strings.HasPrefix(name, auth.DevelopmentKeyPrefix) {
						a.warn("%s is the key of a development node: %s", name, developmentDies)
					}
					return "(tokens that it signed are refused from then on)", nil
				}
			}
			return "", missingErrorf("signing key %s does not exist: see felixctl key ls", name)
		},
	}
	return &cobra.Command{
		Use: "rm KEY", Aliases: []string{"remove", "retire"}, Short: "Remove a key that does not sign", Args: exactly(1), ValidArgsFunction: a.completeKeys,
		RunE: r.run(a), Example: "  felixctl key rm f3a1c0 --yes",
	}
}
