package ctl

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// namespaceRow is a namespace of the control API.
type namespaceRow struct {
	TenantID    string `json:"tenant_id,omitempty"`
	Namespace   string `json:"namespace"`
	DisplayName string `json:"display_name"`
}

func (a *app) namespaceCommand() *cobra.Command {
	return family("namespace", "List, create and delete namespaces", []string{"namespaces", "ns"},
		a.namespaceList(), a.namespaceCreate(), a.namespaceRemove())
}

func namespacesPath(c *control) string { return c.inTenant("namespaces") }

func (a *app) completeNamespaces() cobra.CompletionFunc {
	return a.completeFrom(namespacesPath, "namespace", true)
}

func (a *app) namespaceList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the namespaces that the token may manage", Args: noArgs, Example: "  felixctl namespace ls",
		RunE: a.withControl(func(ctx context.Context, c *control, _ []string) error {
			l := a.listing("NAMESPACE", "DISPLAY NAME")
			for n, err := range pages[namespaceRow](ctx, c, namespacesPath(c), nil) {
				if err != nil {
					return err
				}
				if err := l.add(n, n.Namespace, orWord(n.DisplayName)); err != nil {
					return err
				}
			}
			return l.end()
		}),
	}
}

func (a *app) namespaceCreate() *cobra.Command {
	var display string
	create := &cobra.Command{Use: "create NAME", Short: "Create a namespace", Args: exactly(1), Example: "  felixctl namespace create shop"}
	create.Flags().StringVar(&display, "display-name", "", "name that people are shown")
	create.RunE = a.withControl(func(ctx context.Context, c *control, args []string) error {
		var n namespaceRow
		if err := c.do(ctx, http.MethodPost, namespacesPath(c), namespaceRow{Namespace: args[0], DisplayName: display}, &n); err != nil {
			return about("create namespace "+args[0], err)
		}
		return a.done(n, "namespace %s is created", n.Namespace)
	})
	return create
}

func (a *app) namespaceRemove() *cobra.Command {
	r := removal{
		kind: "namespace", path: func(c *control, name string) string { return c.inTenant("namespaces", name) },
		goes: func(ctx context.Context, c *control, name string) (string, error) {
			if err := c.do(ctx, http.MethodGet, c.inTenant("namespaces", name), nil, nil); err != nil {
				return "", err
			}
			// Counting takes rights of its own; without them it is said without numbers.
			streams, err := countPages(ctx, c, c.inTenant("namespaces", name, "streams"))
			if err != nil {
				return "with its streams and their records, and its caches", nil //nolint:nilerr // the deletion itself is allowed or not
			}
			caches, err := countPages(ctx, c, c.inTenant("namespaces", name, "caches"))
			if err != nil {
				return fmt.Sprintf("with all records of its %s, and its caches", count(streams, "stream")), nil //nolint:nilerr // as above
			}
			return fmt.Sprintf("with all records of its %s, and %s", count(streams, "stream"), count(caches, "cache")), nil
		},
	}
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove", "delete"}, Short: "Delete namespaces with everything in them", Args: upTo(0),
		Long:              "Delete namespaces with everything in them. When one of the names does not exist, nothing is deleted.",
		ValidArgsFunction: a.completeNamespaces(), RunE: r.run(a), Example: "  felixctl namespace rm shop --yes",
	}
}
