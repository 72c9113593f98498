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

	"github.com/felixlog/felix/internal/ids"
)

// groupInfo is group describe's answer for one group. The parts that were not asked for are left out.
type groupInfo struct {
	Group        string        `json:"group"`
	State        string        `json:"state"`
	Type         string        `json:"type"` // classic or consumer
	ProtocolType string        `json:"protocol_type"`
	Protocol     string        `json:"protocol"`
	Coordinator  coordinator   `json:"coordinator"`
	MemberCount  int           `json:"member_count"`
	Members      []groupMember `json:"members,omitzero"`
	Offsets      []groupOffset `json:"offsets,omitzero"`
	// TotalLag is the sum of the known lags; nil when offsets were not asked for, -1 when a partition's lag could not be found out.
	TotalLag *int64 `json:"total_lag,omitempty"`
}

// groupOffset is a partition that the group has committed an offset of, or that a member reads. Numbers that are not known are -1.
type groupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed_offset"`
	Metadata  string `json:"metadata,omitempty"` // what the consumer wrote beside the offset
	Start     int64  `json:"log_start_offset"`
	End       int64  `json:"high_watermark"`
	Lag       int64  `json:"lag"`   // records between the committed offset and the end; -1 where nothing is committed
	Owner     string `json:"owner"` // member id
	Error     string `json:"error,omitempty"`

	instance string // of the owner, shorter to read than its member id
}

// groupParts are the parts of a description that were asked for.
type groupParts struct{ offsets, members, state bool }

func (a *app) groupDescribe() *cobra.Command {
	var parts groupParts
	describe := &cobra.Command{
		Use: "describe GROUP...", Aliases: []string{"info"}, Short: "Show state, members, committed offsets and lag", Args: upTo(0),
		Long: `Show groups: state, protocol and coordinator; members and what they read; and for each partition the committed offset, what the log
holds, the lag and who reads it. --state, --members and --offsets show only that part. Lag counts offsets from the committed one to the
high watermark; where nothing is committed there is none ("-", in JSON -1).

The JSON form is what reset-offsets --from-file reads: kept before a change, it brings the offsets back.`,
		Example: `  felixctl group describe billing --offsets
  felixctl group describe billing -o json > billing.json`,
		ValidArgsFunction: a.completeGroups,
	}
	describe.Flags().BoolVar(&parts.state, "state", false, "only state, protocol and coordinator")
	describe.Flags().BoolVar(&parts.members, "members", false, "only members")
	describe.Flags().BoolVar(&parts.offsets, "offsets", false, "only committed offsets and lag")
	describe.RunE = func(cmd *cobra.Command, names []string) error {
		if parts == (groupParts{}) {
			parts = groupParts{true, true, true}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
		defer cancel()
		c, err := a.connect(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		infos, err := c.describeGroups(ctx, unique(names), parts)
		if err != nil {
			return err
		}
		if a.json() {
			return a.emit(infos, nil, nil)
		}
		for i, info := range infos {
			if err := a.printGroup(info, parts, len(infos) > 1, i > 0); err != nil {
				return err
			}
		}
		return nil
	}
	return describe
}

// unique leaves out what was named before.
func unique(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// describeGroups describes groups in the order of their names on the command line; all of them must exist.
func (c *kafkaClient) describeGroups(ctx context.Context, names []string, parts groupParts) ([]groupInfo, error) {
	views, err := c.groups(ctx, names)
	if err != nil {
		return nil, err
	}
	infos := make([]groupInfo, 0, len(names))
	for _, name := range names {
		v, ok := views[name]
		if !ok {
			return nil, c.noGroup(ctx, name)
		}
		info := groupInfo{
			Group: name, State: v.State, Type: v.Type, ProtocolType: v.ProtocolType, Protocol: v.Protocol, Coordinator: v.Coordinator,
			MemberCount: len(v.Members),
		}
		if parts.members {
			info.Members = v.Members
		}
		if parts.offsets {
			if info.Offsets, err = c.groupOffsets(ctx, v); err != nil {
				return nil, err
			}
			total := totalLag(info.Offsets)
			info.TotalLag = &total
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// commit is a committed offset.
type commit struct {
	offset   int64
	metadata string
	err      error
}

// committed asks for every committed offset of a group.
func (c *kafkaClient) committed(ctx context.Context, group string) (map[partitionKey]commit, error) {
	fetched, err := c.admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // most servers say that a group which is not there has committed nothing
		return nil, refusal("read committed offsets of group "+group, err, "")
	}
	out := map[partitionKey]commit{}
	fetched.Each(func(o kadm.OffsetResponse) {
		topic := o.Topic
		if topic == "" {
			topic = ids.TopicID(o.TopicID).String() // the topic is gone, and its name with it
		}
		if o.Err != nil || o.At >= 0 {
			out[partitionKey{topic, o.Partition}] = commit{offset: o.At, metadata: o.Metadata, err: o.Err}
		}
	})
	return out, nil
}

// groupOffsets joins what is committed with what members read and what the logs hold, by topic and partition.
func (c *kafkaClient) groupOffsets(ctx context.Context, v groupView) ([]groupOffset, error) {
	commits, err := c.committed(ctx, v.Name)
	if err != nil {
		return nil, err
	}
	rows := map[partitionKey]*groupOffset{}
	row := func(key partitionKey) *groupOffset {
		if rows[key] == nil {
			rows[key] = &groupOffset{Topic: key.topic, Partition: key.partition, Committed: -1, Start: -1, End: -1, Lag: -1}
		}
		return rows[key]
	}
	for key, done := range commits {
		r := row(key)
		r.Committed, r.Metadata = done.offset, done.metadata
		if done.err != nil {
			r.Committed, r.Error = -1, done.err.Error()
		}
	}
	for _, m := range v.Members {
		for _, t := range m.Partitions {
			for _, p := range t.Partitions {
				r := row(partitionKey{t.Topic, p})
				r.Owner, r.instance = m.MemberID, m.InstanceID
			}
		}
	}
	spans := map[partitionKey]span{}
	if topics := topicsOf(rows); len(topics) > 0 { // no name at all would ask for every topic
		if spans, err = c.spans(ctx, topics); err != nil {
			return nil, err
		}
	}
	out := make([]groupOffset, 0, len(rows))
	for _, key := range sortedPartitions(rows) {
		r := rows[key]
		r.measure(spanOf(spans, key))
		out = append(out, *r)
	}
	return out, nil
}

// measure adds what the log holds, and the lag.
func (r *groupOffset) measure(s span) {
	if s.err != nil {
		if r.Error == "" {
			r.Error = s.err.Error()
		}
		return
	}
	r.Start, r.End = s.start, s.end
	if r.Committed >= 0 {
		r.Lag = max(s.end-r.Committed, 0)
	}
}

// errNoPartition is what is wrong with a partition that the topic does not have.
var errNoPartition = errors.New("the topic has no such partition")

// spanOf finds a partition's offsets. A topic that is not there is listed under a partition -1, with the reason.
func spanOf(spans map[partitionKey]span, key partitionKey) span {
	if s, ok := spans[key]; ok {
		return s
	}
	if s, ok := spans[partitionKey{key.topic, -1}]; ok && s.err != nil {
		return s
	}
	return span{err: errNoPartition}
}

func topicsOf[T any](rows map[partitionKey]T) []string {
	var topics []string
	for key := range rows {
		if !slices.Contains(topics, key.topic) {
			topics = append(topics, key.topic)
		}
	}
	slices.Sort(topics)
	return topics
}

func sortedPartitions[T any](rows map[partitionKey]T) []partitionKey {
	keys := make([]partitionKey, 0, len(rows))
	for key := range rows {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y partitionKey) int {
		if c := strings.Compare(x.topic, y.topic); c != 0 {
			return c
		}
		return int(x.partition) - int(y.partition)
	})
	return keys
}

// totalLag sums the lags, or is -1 when one is not known for a failure: the sum of the others would pass for the whole.
func totalLag(offsets []groupOffset) int64 {
	var total int64
	for _, o := range offsets {
		if o.Error != "" {
			return -1
		}
		total += max(o.Lag, 0)
	}
	return total
}

// printGroup shows the parts of one group that were asked for; with several groups each begins with its name.
func (a *app) printGroup(info groupInfo, parts groupParts, several, gap bool) error {
	if err := a.blank(gap); err != nil {
		return err
	}
	facts := [][]string{{"group", info.Group}}
	if parts.state {
		facts = append(facts, [][]string{
			{"state", info.State},
			{"type", info.Type},
			{"protocol", protocolOf(info)},
			{"coordinator", fmt.Sprintf("%d (%s:%d)", info.Coordinator.ID, info.Coordinator.Host, info.Coordinator.Port)},
			{"members", fmt.Sprint(info.MemberCount)},
		}...)
	}
	if parts.state || several {
		if err := errors.Join(a.facts(facts), a.blank(parts.members || parts.offsets)); err != nil {
			return err
		}
	}
	if parts.members && (len(info.Members) > 0 || !parts.offsets) {
		if err := a.printMembers(info.Members); err != nil {
			return err
		}
		if err := a.blank(parts.offsets); err != nil {
			return err
		}
	}
	if parts.offsets {
		return a.printOffsets(info)
	}
	return nil
}

// protocolOf is the protocol in words: "consumer, range", or "-" where the group has none.
func protocolOf(info groupInfo) string {
	if info.Protocol == "" {
		return orWord(info.ProtocolType)
	}
	return orWord(info.ProtocolType) + ", " + info.Protocol
}

func (a *app) printMembers(members []groupMember) error {
	rows := make([][]string, len(members))
	for i, m := range members {
		rows[i] = []string{m.MemberID, orWord(m.InstanceID), orWord(m.ClientID), m.Host, assignmentOf(m)}
	}
	return a.table([]string{"MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"}, rows)
}

// assignmentOf is what a member reads: "orders:0-3,5 payments:1", or the size of an assignment that only its group can read.
func assignmentOf(m groupMember) string {
	if m.AssignmentBytes > 0 {
		return "assignment of " + sizeOf(int64(m.AssignmentBytes))
	}
	words := make([]string, len(m.Partitions))
	for i, t := range m.Partitions {
		words[i] = t.Topic + ":" + ranges(t.Partitions)
	}
	return orWord(strings.Join(words, " "))
}

// ranges writes ascending numbers with runs as first-last.
func ranges(list []int32) string {
	var words []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		word := fmt.Sprint(list[i])
		if j > i {
			word += "-" + fmt.Sprint(list[j])
		}
		words = append(words, word)
		i = j + 1
	}
	return strings.Join(words, ",")
}

func (a *app) printOffsets(info groupInfo) error {
	if len(info.Offsets) == 0 {
		a.say("group %s has no committed offsets", info.Group)
	}
	header := []string{"TOPIC", "PARTITION", "COMMITTED", "START", "HIGH WATERMARK", "LAG", "OWNER"}
	var failures []string
	rows := make([][]string, 0, len(info.Offsets)+1)
	for _, o := range info.Offsets {
		owner := o.instance
		if owner == "" {
			owner = orWord(o.Owner)
		}
		rows = append(rows, []string{o.Topic, fmt.Sprint(o.Partition), orDash(o.Committed), orDash(o.Start), orDash(o.End), orDash(o.Lag), owner})
		failures = append(failures, o.Error)
	}
	if len(info.Offsets) > 0 {
		rows = append(rows, []string{"TOTAL", "", "", "", "", orDash(*info.TotalLag), ""})
		failures = append(failures, "")
	}
	header, rows = withColumn(header, rows, "ERROR", failures)
	return a.table(header, rows)
}
