package ctl

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/felixlog/felix/auth"
)

// policyRow says that a subject may do an action to an object.
type policyRow struct {
	Subject string `json:"subject"`
	Object  string `json:"object"`
	Action  string `json:"action"`
}

// groupingRow says that a user has what a role's policies allow.
type groupingRow struct {
	User string `json:"user"`
	Role string `json:"role"`
}

func (a *app) rbacCommand() *cobra.Command {
	return family("rbac", "List, add and remove access rules", nil,
		family("policy", "Rules: who may do what to which object", []string{"policies"}, a.policyList(), a.policyAdd(), a.policyRemove()),
		family("grouping", "Who has which role", []string{"groupings"}, a.groupingList(), a.groupingAdd(), a.groupingRemove()),
	)
}

func policiesPath(c *control) string  { return c.inTenant("rbac", "policies") }
func groupingsPath(c *control) string { return c.inTenant("rbac", "groupings") }

// only is a query for what has a value; none for an empty one.
func only(name, value string) url.Values {
	if value == "" {
		return nil
	}
	return url.Values{name: {value}}
}

// parsePolicy checks a rule as the server will, before it is asked.
func parsePolicy(args []string) (policyRow, error) {
	p := policyRow{args[0], args[1], args[2]}
	if p.Subject == "" {
		return p, usageErrorf("the subject is empty: name a principal (p:NAME), a role (role:NAME) or a group")
	}
	if _, err := auth.ParsePermission(p.Action + ":" + p.Object); err != nil {
		return p, usageErrorf("%w%s", err, knownActions(p.Action))
	}
	return p, nil
}

// knownActions ends a sentence about an action that there is not with those that there are.
func knownActions(action string) string {
	if _, err := auth.ParseAction(action); err == nil {
		return ""
	}
	return ": the actions are " + strings.Join(actionNames(), ", ")
}

// actionNames are all actions.
func actionNames() []string {
	var out []string
	for a := auth.StreamPublish; a.String() != ""; a++ {
		out = append(out, a.String())
	}
	return out
}

func (a *app) policyList() *cobra.Command {
	var subject string
	list := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the rules that the token may see", Args: noArgs,
		Example: "  felixctl rbac policy ls --subject role:reader",
	}
	list.Flags().StringVar(&subject, "subject", "", "only rules of this subject")
	list.RunE = a.withControl(func(ctx context.Context, c *control, _ []string) error {
		l := a.listing("SUBJECT", "OBJECT", "ACTION")
		for p, err := range pages[policyRow](ctx, c, policiesPath(c), only("subject", subject)) {
			if err != nil {
				return err
			}
			if err := l.add(p, p.Subject, p.Object, p.Action); err != nil {
				return err
			}
		}
		return l.end()
	})
	return list
}

func (a *app) policyAdd() *cobra.Command {
	return &cobra.Command{
		Use: "add SUBJECT OBJECT ACTION", Short: "Add a rule", Args: exactly(3),
		Long: `Add a rule. The subject is a principal, a role (role:NAME by convention) or a group; the object is tenant:T, namespace:T/NS,
stream:T/NS/NAME, cache:T/NS/NAME and so on, with * for all names; the action is one of those that its kind of object has. Both are checked
before the server is asked. The actions are
` + strings.Join(actionNames(), ", ") + ".",
		Example:           "  felixctl rbac policy add role:reader 'stream:default/default/*' stream.subscribe",
		ValidArgsFunction: completeAction,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := parsePolicy(args)
			if err != nil {
				return err
			}
			return a.withControl(func(ctx context.Context, c *control, _ []string) error {
				return a.addRule(ctx, c, policiesPath(c), p, "%s may %s on %s", p.Subject, p.Action, p.Object)
			})(cmd, args)
		},
	}
}

func completeAction(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(given) == 2 {
		return actionNames(), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// addRule adds a policy or a grouping; the sentence says what holds now.
func (a *app) addRule(ctx context.Context, c *control, path string, rule any, format string, args ...any) error {
	status, err := c.call(ctx, http.MethodPost, path, rule, nil)
	if err != nil {
		return about("add the rule", err)
	}
	if status == http.StatusOK {
		format += ", as before"
	}
	return a.done(rule, format, args...)
}

// removeRule removes one, after a person has agreed.
func (a *app) removeRule(ctx context.Context, c *control, path string, rule any, what string) error {
	if err := a.confirm("remove " + what); err != nil {
		return err
	}
	if err := c.do(ctx, http.MethodDelete, path, rule, nil); err != nil {
		return about("remove "+what, err)
	}
	return a.done(rule, "removed: %s", what)
}

func (a *app) policyRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm SUBJECT OBJECT ACTION", Aliases: []string{"remove"}, Short: "Remove a rule", Args: exactly(3), ValidArgsFunction: completeAction,
		Example: "  felixctl rbac policy rm role:reader 'stream:default/default/*' stream.subscribe --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := parsePolicy(args)
			if err != nil {
				return err
			}
			return a.withControl(func(ctx context.Context, c *control, _ []string) error {
				return a.removeRule(ctx, c, policiesPath(c), p, "the rule that "+p.Subject+" may "+p.Action+" on "+p.Object)
			})(cmd, args)
		},
	}
}

func (a *app) groupingList() *cobra.Command {
	var role string
	list := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List who has which role", Args: noArgs, Example: "  felixctl rbac grouping ls --role role:reader",
	}
	list.Flags().StringVar(&role, "role", "", "only users of this role")
	list.RunE = a.withControl(func(ctx context.Context, c *control, _ []string) error {
		l := a.listing("USER", "ROLE")
		for g, err := range pages[groupingRow](ctx, c, groupingsPath(c), only("role", role)) {
			if err != nil {
				return err
			}
			if err := l.add(g, g.User, g.Role); err != nil {
				return err
			}
		}
		return l.end()
	})
	return list
}

func (a *app) groupingAdd() *cobra.Command {
	return &cobra.Command{
		Use: "add USER ROLE", Short: "Give a user a role", Args: exactly(2), Example: "  felixctl rbac grouping add p:alice role:reader",
		RunE: a.withControl(func(ctx context.Context, c *control, args []string) error {
			return a.addRule(ctx, c, groupingsPath(c), groupingRow{args[0], args[1]}, "%s has %s", args[0], args[1])
		}),
	}
}

func (a *app) groupingRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm USER ROLE", Aliases: []string{"remove"}, Short: "Take a role from a user", Args: exactly(2),
		Example: "  felixctl rbac grouping rm p:alice role:reader --yes",
		RunE: a.withControl(func(ctx context.Context, c *control, args []string) error {
			return a.removeRule(ctx, c, groupingsPath(c), groupingRow{args[0], args[1]}, args[1]+" from "+args[0])
		}),
	}
}
