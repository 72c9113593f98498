package ctl

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/auth"
)

// tenantRow is a tenant of the control API.
type tenantRow struct {
	TenantID    string `json:"tenant_id"`
	DisplayName string `json:"display_name"`
}

func (a *app) tenantCommand() *cobra.Command {
	return family("tenant", "List, show, create and delete tenants (for operators)", []string{"tenants"},
		a.tenantList(), a.tenantInfo(), a.tenantCreate(), a.tenantRemove())
}

func tenantsPath(*control) string { return path("v1", "tenants") }

func (a *app) completeTenants() cobra.CompletionFunc {
	return a.completeFrom(tenantsPath, "tenant_id", false)
}

func (a *app) tenantList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List tenants", Args: noArgs, Example: "  felixctl tenant ls",
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			l := a.listing("TENANT", "DISPLAY NAME")
			for t, err := range pages[tenantRow](ctx, c, tenantsPath(c), nil) {
				if err != nil {
					return err
				}
				if err := l.add(t, t.TenantID, orWord(t.DisplayName)); err != nil {
					return err
				}
			}
			return l.end()
		}),
	}
}

func (a *app) tenantInfo() *cobra.Command {
	return &cobra.Command{
		Use: "info NAME", Aliases: []string{"show"}, Short: "Show a tenant", Args: exactly(1), ValidArgsFunction: a.completeTenants(),
		Example: "  felixctl tenant info acme",
		RunE: a.withControl(func(ctx context.Context, c *control, args []string) error {
			t, err := c.tenantRow(ctx, args[0])
			if err != nil {
				return lookedUp("tenant", args[0], err)
			}
			return a.show(t, [][]string{{"tenant", t.TenantID}, {"display name", orWord(t.DisplayName)}})
		}),
	}
}

// tenantRow asks for one tenant. To one that is not there the API answers as to a token that it does not take; the listing tells them apart.
func (c *control) tenantRow(ctx context.Context, name string) (t tenantRow, err error) {
	err = c.do(ctx, http.MethodGet, path("v1", "tenants", name), nil, &t)
	var no *apiRefusal
	if !errors.As(err, &no) || no.Status != http.StatusUnauthorized {
		return t, err
	}
	for found, listed := range pages[tenantRow](ctx, c, tenantsPath(c), nil) {
		if listed != nil || found.TenantID == name {
			return t, err
		}
	}
	return t, missingErrorf("tenant %s does not exist: see felixctl tenant ls", name)
}

func (a *app) tenantCreate() *cobra.Command {
	var display string
	create := &cobra.Command{
		Use: "create NAME", Short: "Create a tenant with its first signing key", Args: exactly(1),
		Example: "  felixctl tenant create acme --display-name 'Acme Ltd'",
	}
	create.Flags().StringVar(&display, "display-name", "", "name that people are shown")
	create.RunE = a.withControl(func(ctx context.Context, c *control, args []string) error {
		var t tenantRow
		if err := c.do(ctx, http.MethodPost, tenantsPath(c), tenantRow{args[0], display}, &t); err != nil {
			return about("create tenant "+args[0], err)
		}
		return a.done(t, "tenant %s is created", t.TenantID)
	})
	return create
}

// developmentToken says that the command's own token is one that a development node signed.
func (c *control) developmentToken() bool {
	said, err := auth.Look(c.token)
	return err == nil && strings.HasPrefix(said.KeyID, auth.DevelopmentKeyPrefix)
}

func (a *app) tenantRemove() *cobra.Command {
	r := removal{
		kind: "tenant", path: func(_ *control, name string) string { return path("v1", "tenants", name) },
		goes: func(ctx context.Context, c *control, name string) (string, error) {
			_, err := c.tenantRow(ctx, name)
			if err == nil && name == developmentTenant && c.developmentToken() {
				a.warn("tenant %s is the development node's own: %s", name, developmentDies)
			}
			return "with its namespaces, streams with their records, caches, rules and signing keys", err
		},
	}
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove", "delete"}, Short: "Delete a tenant with everything in it", Args: exactly(1),
		ValidArgsFunction: a.completeTenants(), RunE: r.run(a), Example: "  felixctl tenant rm acme --yes",
	}
}
