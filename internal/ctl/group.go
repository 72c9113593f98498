package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *app) groupCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "group", Aliases: []string{"groups"}, Short: "List, describe, move and delete consumer groups",
		Args: subcommands, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.AddCommand(a.groupList(), a.groupDescribe(), a.groupResetOffsets(), a.groupDelete(), a.groupDeleteOffsets())
	return group
}

// Kinds of group, as the server names them: which protocol its members speak.
const (
	kindClassic  = "classic"
	kindConsumer = "consumer" // KIP-848
)

const (
	// stateEmpty is a group without members.
	stateEmpty = "Empty"
	// stateDead is the state in which servers describe a group that they do not have, where the version has no error for it.
	stateDead = "Dead"
)

// groupStates are the states that --state takes.
var groupStates = []string{stateEmpty, "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", stateDead}

// parseStates reads the values of --state: names of states, in any case.
func parseStates(list []string) ([]string, error) {
	out := make([]string, 0, len(list))
	for _, s := range list {
		i := slices.IndexFunc(groupStates, func(known string) bool { return strings.EqualFold(known, s) })
		if i < 0 {
			return nil, usageErrorf("--state %q is none of %s", s, strings.Join(groupStates, ", "))
		}
		out = append(out, groupStates[i])
	}
	return out, nil
}

// groupRow is one group of a listing. Numbers that the server did not give are -1.
type groupRow struct {
	Group        string `json:"group"`
	State        string `json:"state"`
	Type         string `json:"type"` // classic or consumer; others are listed and no more
	ProtocolType string `json:"protocol_type"`
	Members      int    `json:"members"`
	Coordinator  int32  `json:"coordinator"`
}

func (a *app) groupList() *cobra.Command {
	var states []string
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List groups", Args: noArgs,
		Example: "  felixctl group list --state Empty,Dead",
	}
	list.Flags().StringSliceVar(&states, "state", nil, "only groups in one of these `states`: "+strings.Join(groupStates, ", "))
	must(list.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(groupStates, cobra.ShellCompDirectiveNoFileComp)))
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		wanted, err := parseStates(states)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
		defer cancel()
		c, err := a.connect(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		listed, err := c.admin.ListGroups(ctx, wanted...)
		if err != nil {
			return c.notListed(ctx, err) // what some nodes told would pass for the whole
		}
		rows, err := c.groupRows(ctx, listed, wanted)
		if err != nil {
			return err
		}
		table := make([][]string, len(rows))
		for i, r := range rows {
			table[i] = []string{r.Group, orWord(r.State), orWord(r.Type), orWord(r.ProtocolType), orDash(int64(r.Members))}
		}
		return a.emit(rows, []string{"GROUP", "STATE", "TYPE", "PROTOCOL TYPE", "MEMBERS"}, table)
	}
	return list
}

// notListed says why groups cannot be listed.
func (c *kafkaClient) notListed(ctx context.Context, err error) error {
	if !c.serves(ctx, keyListGroups) && ctx.Err() == nil {
		return refusedErrorf("list groups: the server serves no consumer groups")
	}
	return refusal("list groups", err, "")
}

// orWord is a word for a table, or "-" when there is none.
func orWord(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// groupRows adds the members to a listing, sorted by name. A server from before the filter ignores it, and one from before the states
// gives none: both are made good here. A group that went away in between is left out.
func (c *kafkaClient) groupRows(ctx context.Context, listed kadm.ListedGroups, states []string) ([]groupRow, error) {
	var names []string
	for name, g := range listed {
		if g.GroupType == "" || strings.EqualFold(g.GroupType, kindClassic) || strings.EqualFold(g.GroupType, kindConsumer) {
			names = append(names, name)
		}
	}
	views, err := c.groups(ctx, names)
	if err != nil {
		return nil, err
	}
	rows := make([]groupRow, 0, len(listed))
	for _, g := range listed.Sorted() {
		row := groupRow{
			Group: g.Group, State: g.State, Type: strings.ToLower(g.GroupType), ProtocolType: g.ProtocolType, Members: -1, Coordinator: g.Coordinator,
		}
		if slices.Contains(names, g.Group) {
			v, ok := views[g.Group]
			if !ok {
				continue
			}
			row.State, row.Type, row.ProtocolType, row.Members = v.State, v.Type, v.ProtocolType, len(v.Members)
		}
		if len(states) > 0 && !slices.Contains(states, row.State) {
			continue
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// groupView is a group as its coordinator describes it, whichever protocol its members speak.
type groupView struct {
	Name         string
	State        string
	Type         string // classic or consumer
	ProtocolType string // "consumer" for consumers; empty where the group has only committed offsets
	Protocol     string // the assignor; empty while there is none
	Coordinator  coordinator
	Members      []groupMember
}

// coordinator is the node that keeps a group.
type coordinator struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

// groupMember is one member and what it reads.
type groupMember struct {
	MemberID   string            `json:"member_id"`
	InstanceID string            `json:"instance_id,omitempty"`
	ClientID   string            `json:"client_id"`
	Host       string            `json:"host"`
	Partitions []topicPartitions `json:"partitions"`
	// AssignmentBytes is the size of an assignment of another protocol type, which is opaque here; 0 where Partitions tells it.
	AssignmentBytes int `json:"assignment_bytes,omitempty"`
}

// topicPartitions are partitions of one topic, ascending.
type topicPartitions struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// groups describes those of the named groups that exist.
func (c *kafkaClient) groups(ctx context.Context, names []string) (map[string]groupView, error) {
	out := map[string]groupView{}
	if len(names) == 0 {
		return out, nil
	}
	described, err := c.admin.DescribeGroups(ctx, names...)
	if err != nil {
		return nil, refusal("look up "+groupWords(names), err, "")
	}
	var others []string // not there, or not of the classic protocol: servers tell both the same way
	for _, name := range names {
		g, ok := described[name]
		switch {
		case ok && g.Err == nil && g.State != stateDead:
			if out[name] = classicView(g); len(g.Members) == 0 && g.State != stateEmpty {
				others = append(others, name) // members that this request does not show
			}
		case !ok || g.Err == nil || errors.Is(g.Err, kerr.GroupIDNotFound):
			others = append(others, name)
		default:
			return nil, refusal("look up group "+name, g.Err, g.ErrMessage)
		}
	}
	if len(others) == 0 || !c.serves(ctx, keyConsumerGroupDescribe) {
		return out, nil
	}
	next, err := c.admin.DescribeConsumerGroups(ctx, others...)
	if err != nil {
		return nil, refusal("look up "+groupWords(others), err, "")
	}
	for _, g := range next {
		switch {
		case g.Err == nil && g.State != stateDead:
			out[g.Group] = consumerView(g)
		case g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound):
			return nil, refusal("look up group "+g.Group, g.Err, "")
		}
	}
	return out, nil
}

// group describes one group that must exist.
func (c *kafkaClient) group(ctx context.Context, name string) (groupView, error) {
	views, err := c.groups(ctx, []string{name})
	if err != nil {
		return groupView{}, err
	}
	v, ok := views[name]
	if !ok {
		return groupView{}, c.noGroup(ctx, name)
	}
	return v, nil
}

// noGroup says why a group was not described: it is not there, or of a type that has other requests.
func (c *kafkaClient) noGroup(ctx context.Context, name string) error {
	listed, err := c.admin.ListGroups(ctx)
	if g, ok := listed[name]; err == nil && ok && g.GroupType != "" && !strings.EqualFold(g.GroupType, kindClassic) && !strings.EqualFold(g.GroupType, kindConsumer) {
		return refusedErrorf("group %q is of type %s: felixctl works with groups of type %s and %s", name, g.GroupType, kindClassic, kindConsumer)
	}
	return missingErrorf("group %q does not exist: see felixctl group list", name)
}

// groupWords names groups in a sentence, the first few of many.
func groupWords(names []string) string {
	const shown = 5
	more := ""
	if len(names) > shown {
		more, names = fmt.Sprintf(" and %d more", len(names)-shown), names[:shown]
	}
	return "group" + plural(int64(len(names))) + " " + strings.Join(names, ", ") + more
}

// Numbers of requests that a server may not have.
const (
	keyListGroups            = 16
	keyConsumerGroupDescribe = 69 // groups of KIP-848
)

// serves says that some node answers requests of this kind, or that none can be asked.
func (c *kafkaClient) serves(ctx context.Context, key int16) bool {
	versions, err := c.admin.ApiVersions(ctx)
	if err != nil {
		return true
	}
	asked := false
	for _, v := range versions {
		if _, _, ok := v.KeyVersions(key); ok {
			return true
		}
		asked = asked || v.Err == nil
	}
	return !asked
}

func coordinatorOf(b kadm.BrokerDetail) coordinator {
	return coordinator{ID: b.NodeID, Host: b.Host, Port: b.Port}
}

func classicView(g kadm.DescribedGroup) groupView {
	v := groupView{
		Name: g.Group, State: g.State, Type: kindClassic, ProtocolType: g.ProtocolType, Protocol: g.Protocol, Coordinator: coordinatorOf(g.Coordinator),
		Members: make([]groupMember, 0, len(g.Members)),
	}
	for _, m := range g.Members {
		member := groupMember{MemberID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: []topicPartitions{}}
		if m.InstanceID != nil {
			member.InstanceID = *m.InstanceID
		}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			// Bytes that end early were read as far as they go: what a client wrote is shown, never judged.
			set := kadm.TopicsSet{}
			for _, t := range assigned.Topics {
				set.Add(t.Topic, t.Partitions...)
			}
			member.Partitions = partitionsOf(set)
		} else if connect, ok := m.Assigned.AsConnect(); ok {
			member.AssignmentBytes = len(connect.AppendTo(nil))
		} else if raw, ok := m.Assigned.Raw(); ok {
			member.AssignmentBytes = len(raw)
		}
		v.Members = append(v.Members, member)
	}
	return v
}

func consumerView(g kadm.DescribedConsumerGroup) groupView {
	v := groupView{
		Name: g.Group, State: g.State, Type: kindConsumer, ProtocolType: "consumer", Protocol: g.AssignorName, Coordinator: coordinatorOf(g.Coordinator),
		Members: make([]groupMember, 0, len(g.Members)),
	}
	for _, m := range g.Members {
		member := groupMember{MemberID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Partitions: partitionsOf(m.Assignment)}
		if m.InstanceID != nil {
			member.InstanceID = *m.InstanceID
		}
		v.Members = append(v.Members, member)
	}
	return v
}

// partitionsOf lists a set by topic and partition.
func partitionsOf(set kadm.TopicsSet) []topicPartitions {
	out := make([]topicPartitions, 0, len(set))
	for topic, partitions := range set {
		if topic == "" {
			continue // a server that knows only the topic's id
		}
		list := make([]int32, 0, len(partitions))
		for p := range partitions {
			list = append(list, p)
		}
		slices.Sort(list)
		out = append(out, topicPartitions{Topic: topic, Partitions: list})
	}
	slices.SortFunc(out, func(x, y topicPartitions) int { return strings.Compare(x.Topic, y.Topic) })
	return out
}

// busy refuses what a group with members does not allow, as in busy("reset its offsets"); nil when it has none.
func (v groupView) busy(deed string) error {
	n := int64(len(v.Members))
	if n == 0 {
		return nil
	}
	const shown = 3
	var who []string
	for _, m := range v.Members[:min(n, shown)] {
		who = append(who, m.ClientID+" at "+m.Host)
	}
	if n > shown {
		who = append(who, fmt.Sprintf("%d more", n-shown))
	}
	return refusedErrorf("group %q has %d member%s (%s): stop them before you %s; nothing was changed",
		v.Name, n, plural(n), visible(strings.Join(who, ", ")), deed)
}

// completeGroups completes group names from the server.
func (a *app) completeGroups(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeKafka(cmd, given, prefix, func(ctx context.Context, c *kafkaClient) ([]string, error) {
		listed, err := c.admin.ListGroups(ctx)
		return listed.Groups(), err
	})
}

// completeGroup completes the one group of a command.
func (a *app) completeGroup(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeGroups(cmd, given, prefix)
}
