package ctl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// resetFlags are the settings of one reset-offsets command.
type resetFlags struct {
	topics                    []string
	allTopics                 bool
	execute, dryRun           bool
	earliest, latest, current bool
	offset, shift             int64
	datetime, ago, file       string
}

// targetFlags choose where to; exactly one is given.
var targetFlags = []string{"to-earliest", "to-latest", "to-offset", "shift-by", "to-datetime", "by-duration", "to-current", "from-file"}

func (a *app) groupResetOffsets() *cobra.Command {
	var f resetFlags
	reset := &cobra.Command{
		Use: "reset-offsets GROUP", Short: "Move a group's committed offsets", Args: upTo(1),
		Long: `Move the committed offsets of a group: choose partitions with --topic or --all-topics, and where to with one of --to-earliest,
--to-latest, --to-offset, --shift-by, --to-datetime, --by-duration, --to-current and --from-file.

It prints the plan and changes nothing, until --execute is given. A group with members is refused: stop its consumers first. An offset
outside of what the log holds becomes the nearest one inside, and the plan says so. A group that does not exist is made by --execute.

--from-file takes what felixctl group describe -o json printed, and needs neither --topic nor --all-topics; with --topic only those
partitions are taken from it.`,
		Example: `  felixctl group reset-offsets billing --topic orders --to-earliest
  felixctl group reset-offsets billing --topic orders:0,2 --to-datetime 2026-01-31T12:00:00Z --execute
  felixctl group reset-offsets billing --all-topics --shift-by -100 --execute
  felixctl group describe billing -o json > before.json; felixctl group reset-offsets billing --from-file before.json --execute`,
		ValidArgsFunction: a.completeGroup,
	}
	fl := reset.Flags()
	fl.StringArrayVar(&f.topics, "topic", nil, "`NAME or NAME:0,1,2`: a topic, or some of its partitions; may be repeated")
	fl.BoolVar(&f.allTopics, "all-topics", false, "every partition that the group has committed an offset of")
	fl.BoolVar(&f.earliest, "to-earliest", false, "to the first offset that the log holds")
	fl.BoolVar(&f.latest, "to-latest", false, "to the end")
	fl.Int64Var(&f.offset, "to-offset", 0, "to this `offset`")
	fl.Int64Var(&f.shift, "shift-by", 0, "by `N` offsets from the committed one; negative is back")
	fl.StringVar(&f.datetime, "to-datetime", "", "to the first record of this `time` or later, as 2026-01-31T12:00:00Z")
	fl.StringVar(&f.ago, "by-duration", "", "to the first record of this `duration` ago or later, as 90m or 36h")
	fl.BoolVar(&f.current, "to-current", false, "to where it is; the end where nothing is committed")
	fl.StringVar(&f.file, "from-file", "", "to the offsets in this `file`, as group describe -o json prints them; - is standard input")
	fl.BoolVar(&f.execute, "execute", false, "change the offsets, instead of only showing what would change")
	fl.BoolVar(&f.dryRun, "dry-run", false, "only show what would change; the default")
	fl.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name {
		case "to-time":
			name = "to-datetime"
		case "shift":
			name = "shift-by"
		}
		return pflag.NormalizedName(name)
	})
	reset.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := f.target(cmd.Flags(), time.Now())
		if err != nil {
			return err
		}
		return a.resetOffsets(cmd.Context(), args[0], &f, t)
	}
	return reset
}

// targetKind is how a target finds the new offset of a partition.
type targetKind int

const (
	toPosition targetKind = iota
	toShifted
	toCurrent
	toFile
)

// target is where offsets are moved to.
type target struct {
	kind  targetKind
	to    position                // of toPosition
	shift int64                   // of toShifted
	file  map[partitionKey]commit // of toFile
}

// target checks the flags against each other and reads the ones that say where to; the file is read later.
func (f *resetFlags) target(fl *pflag.FlagSet, now time.Time) (target, error) {
	var chosen []string
	for _, name := range targetFlags {
		if fl.Changed(name) {
			chosen = append(chosen, name)
		}
	}
	switch {
	case len(chosen) != 1:
		return target{}, usageErrorf("say where to with exactly one of --%s", strings.Join(targetFlags, ", --"))
	case f.execute && f.dryRun:
		return target{}, usageErrorf("--execute and --dry-run are opposites: give one of them")
	case len(f.topics) > 0 && f.allTopics:
		return target{}, usageErrorf("--topic and --all-topics are opposites: give one of them")
	case len(f.topics) == 0 && !f.allTopics && chosen[0] != "from-file":
		return target{}, usageErrorf("say which partitions with --topic NAME, --topic NAME:0,1,2 or --all-topics")
	}
	for name, given := range map[string]bool{"to-earliest": f.earliest, "to-latest": f.latest, "to-current": f.current} {
		if chosen[0] == name && !given {
			return target{}, usageErrorf("--%s=false says nothing: leave it out", name)
		}
	}
	switch chosen[0] {
	case "to-earliest":
		return target{to: position{kind: fromEarliest}}, nil
	case "to-latest":
		return target{to: position{kind: fromLatest}}, nil
	case "to-offset":
		if f.offset < 0 {
			return target{}, usageErrorf("--to-offset must not be negative")
		}
		return target{to: position{kind: fromOffset, value: f.offset}}, nil
	case "shift-by":
		return target{kind: toShifted, shift: f.shift}, nil
	case "to-datetime":
		ms, err := parseTime(f.datetime, now)
		if err != nil {
			return target{}, usageErrorf("--to-datetime %q is no time: say 2026-01-31T12:00:00Z, 2026-01-31T12:00:00+02:00 or 2026-01-31", f.datetime)
		}
		return atTime(ms), nil
	case "by-duration":
		d, err := time.ParseDuration(f.ago)
		if err != nil || d < 0 {
			return target{}, usageErrorf("--by-duration %q is no duration: say 30s, 90m or 36h", f.ago)
		}
		return atTime(now.Add(-d).UnixMilli()), nil
	case "to-current":
		return target{kind: toCurrent}, nil
	default:
		return target{kind: toFile}, nil
	}
}

func (a *app) resetOffsets(ctx context.Context, group string, f *resetFlags, t target) error {
	sc, err := parseScope(f.topics)
	if err != nil {
		return err
	}
	if t.kind == toFile {
		if t.file, err = a.readOffsetFile(f.file, group); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	views, err := c.groups(ctx, []string{group})
	if err != nil {
		return err
	}
	v, exists := views[group]
	if err := v.busy("reset its offsets"); err != nil {
		return err
	}
	if !exists {
		if err := c.noGroup(ctx, group); f.allTopics || statusOf(err) != exitMissing {
			return err
		}
	}
	r := &resetter{app: a, client: c, group: group, scope: sc, target: t}
	if err := r.plan(ctx); err != nil {
		return err
	}
	var failed error
	if f.execute {
		failed = r.commit(ctx)
	}
	return errors.Join(r.print(f.execute, exists), failed)
}

// resetter makes and carries out one plan.
type resetter struct {
	app    *app
	client *kafkaClient
	group  string
	scope  scope // empty for every partition that is committed, or in the file
	target target

	commits map[partitionKey]commit
	rows    []*resetRow // by topic and partition
}

// atTime is a point in time. One before 1970 is 1970: a negative number has other meanings on the wire.
func atTime(ms int64) target { return target{to: position{kind: fromTime, value: max(ms, 0)}} }

// resetRow is one partition of a plan, and what became of it.
type resetRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Old       int64  `json:"old"` // -1 when nothing was committed
	New       int64  `json:"new"`
	Start     int64  `json:"log_start_offset"`
	End       int64  `json:"high_watermark"`
	Result    string `json:"result"` // planned, reset or failed
	Note      string `json:"note,omitempty"`
	Error     string `json:"error,omitempty"`

	metadata string // to be committed with New
}

// Results of a resetRow.
const (
	resultPlanned = "planned"
	resultReset   = "reset"
)

// plan finds the partitions and their new offsets. It changes nothing.
func (r *resetter) plan(ctx context.Context) error {
	var err error
	if r.commits, err = r.client.committed(ctx, r.group); err != nil {
		return err
	}
	keys, err := r.partitions(ctx)
	if err != nil {
		return err
	}
	chosen := map[partitionKey]bool{}
	for _, key := range keys {
		if done := r.commits[key]; done.err != nil {
			return refusal(r.about(key), done.err, "")
		}
		chosen[key] = true
	}
	spans, err := r.client.spans(ctx, topicsOf(chosen))
	if err != nil {
		return err
	}
	byTopic := map[string]map[partitionKey]span{}
	for _, key := range keys {
		s := spanOf(spans, key)
		if s.err != nil {
			return refusal(r.about(key), s.err, "")
		}
		if byTopic[key.topic] == nil {
			byTopic[key.topic] = map[partitionKey]span{}
		}
		byTopic[key.topic][key] = s
	}
	at := map[partitionKey]int64{}
	if r.target.kind == toPosition {
		for _, topic := range topicsOf(chosen) {
			found, err := r.target.to.resolve(ctx, r.client, topic, byTopic[topic])
			if err != nil {
				return err
			}
			for p, offset := range found {
				at[partitionKey{topic, p}] = offset
			}
		}
	}
	for _, key := range keys {
		row, err := r.aim(key, byTopic[key.topic][key], at[key])
		if err != nil {
			return err
		}
		r.rows = append(r.rows, row)
	}
	return nil
}

// about names the partition and the group in front of an error.
func (r *resetter) about(key partitionKey) string {
	return fmt.Sprintf("reset offsets of group %s, topic %s partition %d", r.group, key.topic, key.partition)
}

// partitions chooses what is reset, by topic and partition. Partitions that are named must exist; those that only the group or the file
// knows are left out with a word when they do not.
func (r *resetter) partitions(ctx context.Context) ([]partitionKey, error) {
	known := map[partitionKey]bool{} // by the file, or by the group
	for key := range r.commits {
		known[key] = true
	}
	if r.target.kind == toFile {
		clear(known)
		for key := range r.target.file {
			known[key] = true
		}
	}
	topics := r.scope.topics()
	if len(topics) == 0 {
		topics = topicsOf(known)
	}
	if len(topics) == 0 {
		return nil, missingErrorf("group %q has no committed offsets: name topics with --topic", r.group)
	}
	numbers, err := r.client.partitionNumbers(ctx, topics)
	if err != nil {
		return nil, err
	}
	chosen := map[partitionKey]bool{}
	for topic, partitions := range r.scope {
		if partitions == nil {
			partitions = numbers[topic]
		}
		if len(numbers[topic]) == 0 {
			return nil, missingErrorf("reset offsets of group %s: topic %q does not exist: see felixctl topic list", r.group, topic)
		}
		for _, p := range partitions {
			key := partitionKey{topic, p}
			if !slices.Contains(numbers[topic], p) {
				return nil, missingErrorf("reset offsets of group %s: %s has no partition %d: it has %d, from 0", r.group, topic, p, len(numbers[topic]))
			}
			if r.target.kind != toFile || known[key] {
				chosen[key] = true
			}
		}
	}
	if len(r.scope) == 0 {
		for _, key := range sortedPartitions(known) {
			if !slices.Contains(numbers[key.topic], key.partition) {
				r.app.warn("%s partition %d does not exist: left out", key.topic, key.partition)
				continue
			}
			chosen[key] = true
		}
	}
	if len(chosen) == 0 {
		return nil, missingErrorf("reset offsets of group %s: none of the partitions is there to be reset", r.group)
	}
	return sortedPartitions(chosen), nil
}

// partitionNumbers are the partitions of each topic, ascending; none for a topic that does not exist.
func (c *kafkaClient) partitionNumbers(ctx context.Context, topics []string) (map[string][]int32, error) {
	details, err := c.admin.ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return nil, refusal("look up topics", err, "")
	}
	out := map[string][]int32{}
	for _, topic := range topics {
		t, ok := details[topic]
		switch {
		case !ok || errors.Is(t.Err, kerr.UnknownTopicOrPartition):
		case t.Err != nil:
			return nil, refusal("look up topic "+topic, t.Err, "")
		default:
			out[topic] = t.Partitions.Numbers()
		}
	}
	return out, nil
}

// aim makes the row of one partition; at is what the position was resolved to, where the target is one.
func (r *resetter) aim(key partitionKey, s span, at int64) (*resetRow, error) {
	done, has := r.commits[key]
	row := &resetRow{Topic: key.topic, Partition: key.partition, Old: -1, Start: s.start, End: s.end, Result: resultPlanned}
	if has {
		row.Old = done.offset
	}
	asked := at
	switch r.target.kind {
	case toPosition:
		if row.New = at; r.target.to.kind == fromOffset {
			asked = r.target.to.value
		}
	case toShifted:
		if !has {
			return nil, missingErrorf("%s: nothing is committed that could be shifted: choose another target for it", r.about(key))
		}
		asked = shifted(done.offset, r.target.shift)
	case toCurrent:
		if row.New = s.end; has {
			row.New = done.offset // wherever it is: it stays
		} else {
			row.Note = "nothing was committed: the end"
		}
		asked = row.New
	case toFile:
		asked = r.target.file[key].offset
	}
	if r.target.kind == toShifted || r.target.kind == toFile {
		row.New = min(max(asked, s.start), s.end)
	}
	if row.New != asked {
		row.Note = fmt.Sprintf("%d is outside of what the log holds", asked)
	}
	switch {
	case r.target.kind == toFile && row.New == asked:
		row.metadata = r.target.file[key].metadata
	case has && row.New == done.offset:
		row.metadata = done.metadata // it belongs to the offset, which stays
	}
	return row, nil
}

// shifted is offset + by, without wrapping around.
func shifted(offset, by int64) int64 {
	if by > 0 && offset > math.MaxInt64-by {
		return math.MaxInt64
	}
	return offset + by // an offset is never negative, so going back cannot wrap
}

// errNotMentioned is what is known of a partition that the server did not answer for.
var errNotMentioned = errors.New("the server's answer does not mention the partition")

// commit writes the plan, and each row's result into it.
func (r *resetter) commit(ctx context.Context) error {
	offsets := kadm.Offsets{}
	for _, row := range r.rows {
		// No leader epoch: the one of the old offset does not fit the new one.
		offsets.Add(kadm.Offset{Topic: row.Topic, Partition: row.Partition, At: row.New, LeaderEpoch: -1, Metadata: row.metadata})
	}
	answers, err := r.client.admin.CommitOffsets(ctx, r.group, offsets)
	if err != nil {
		err = refusal("reset offsets of group "+r.group, err, "")
		for _, row := range r.rows {
			row.Result, row.Error = resultFailed, err.Error()
		}
		return err
	}
	var failed error
	causes := map[error]bool{} // nil for those that went well
	topics := map[partitionKey]bool{}
	for _, row := range r.rows {
		key := partitionKey{row.Topic, row.Partition}
		answer, ok := answers.Lookup(row.Topic, row.Partition)
		if !ok {
			answer.Err = errNotMentioned
		}
		causes[answer.Err], topics[key] = true, true
		if row.Result = resultReset; answer.Err != nil {
			err := refusal(r.about(key), answer.Err, "")
			row.Result, row.Error = resultFailed, err.Error()
			failed = errors.Join(failed, err)
		}
	}
	if len(causes) == 1 && failed != nil {
		for cause := range causes { // one sentence instead of one for each partition
			return refusal(fmt.Sprintf("reset offsets of group %s in %s", r.group, strings.Join(topicsOf(topics), ", ")), cause, "")
		}
	}
	return failed
}

// print shows the plan, and that it was none but a plan.
func (r *resetter) print(executed, exists bool) error {
	out := struct {
		Group      string      `json:"group"`
		DryRun     bool        `json:"dry_run"` // nothing was changed
		Partitions []*resetRow `json:"partitions"`
	}{r.group, !executed, r.rows}
	header := []string{"TOPIC", "PARTITION", "BEFORE", "AFTER", "CHANGE", "START", "HIGH WATERMARK", "RESULT"}
	noted := slices.ContainsFunc(r.rows, func(row *resetRow) bool { return row.Note != "" })
	if noted {
		header = append(header, "NOTE")
	}
	rows := make([][]string, len(r.rows))
	for i, row := range r.rows {
		change := "-"
		switch {
		case row.Old == row.New:
			change = "0"
		case row.Old >= 0:
			change = fmt.Sprintf("%+d", row.New-row.Old)
		}
		rows[i] = []string{
			row.Topic, fmt.Sprint(row.Partition), orDash(row.Old), fmt.Sprint(row.New), change, orDash(row.Start), orDash(row.End), row.Result,
		}
		if noted {
			rows[i] = append(rows[i], row.Note)
		}
	}
	err := r.app.emit(out, header, rows)
	if !executed {
		if !exists {
			r.app.say("group %s does not exist yet: --execute makes it", r.group)
		}
		r.app.say("dry run: nothing was changed; add --execute to reset the offsets of group %s", r.group)
	}
	return err
}
