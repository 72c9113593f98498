package node

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
)

// progressEvery is the pause between two lines of progress of a long check.
const progressEvery = 2 * time.Second

// offline is one run of felix log inspect or verify.
type offline struct {
	p          Process
	dataDir    string
	output     string
	segments   bool
	verify     bool
	repairTail bool
}

func newLog(p Process) *cobra.Command {
	group := &cobra.Command{
		Use: "log", Short: "Look at the logs of a stopped node", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.AddCommand(
		newOffline(p, false, "inspect", "Tell what a start would say of the logs", "Tell what a start would say of each log, with the code of the start, and without writing anything."),
		newOffline(p, true, "verify", "Check every checksum of the logs", "Read every segment, check every checksum, and tell what a start would say, without writing anything."),
	)
	return group
}

func newOffline(p Process, verify bool, name, short, long string) *cobra.Command {
	o := &offline{p: p, verify: verify}
	cmd := &cobra.Command{
		Use: name + " [DATA-DIR] [TOPIC-ID[/PARTITION]...]", Short: short,
		Long: long + ` The node must be stopped.

The exit status is 0 when all is clean, 6 when a start would repair something that was never acknowledged as synced (a torn
tail, a missing index), 7 when it would refuse a log or records are damaged, and 1 when the files cannot be read or the directory
is none of Felix's. "damaged" is a log that a start opens, whose damaged records it cannot serve; only verify finds those.

TOPIC-ID is the folder's name under shards/, or the same id as Kafka's tools print it (base64).`,
	}
	cmd.Flags().StringVar(&o.dataDir, "data-dir", "", "data directory, as for serve (default data)")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "`table` for people or json for programs")
	cmd.Flags().BoolVar(&o.segments, "segments", false, "list segments as well (json always does)")
	cmd.Flags().BoolVar(&o.repairTail, "repair-checksum-tail", false, "judge as a start with storage.repair_checksum_tail")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return o.run(args) }
	return cmd
}

func (o *offline) run(args []string) error {
	if o.output != "table" && o.output != "json" {
		return usageError(fmt.Errorf("-o %q is neither table nor json", o.output))
	}
	if o.dataDir == "" && len(args) > 0 {
		o.dataDir, args = args[0], args[1:]
	}
	if o.dataDir == "" {
		o.dataDir = "data"
	}
	wanted, err := parseShards(args)
	if err != nil {
		return usageError(err)
	}
	release, err := o.keepOut()
	if err != nil {
		return err
	}
	defer release()

	began := time.Now()
	told := began
	opts := log.InspectOptions{VerifyAll: o.verify, RepairChecksumTail: o.repairTail, Shards: wanted}
	report, err := log.Inspect(vfs.OS{}, o.dataDir, opts, func(done, total int, _ *log.ShardReport) {
		if now := time.Now(); now.Sub(told) >= progressEvery && done < total {
			told = now
			_, _ = fmt.Fprintf(o.p.Err, "%d of %d logs after %s\n", done, total, now.Sub(began).Round(time.Second)) // talk that nobody reads is no failure
		}
	})
	if err != nil {
		return err
	}
	if err := o.print(report, time.Since(began)); err != nil {
		return err
	}
	return verdictError(report.Verdict())
}

// verdictError turns a verdict into the exit status; the report has told the rest.
func verdictError(v log.Verdict) error {
	switch v {
	case log.Clean:
		return nil
	case log.WouldRepair:
		return &statusError{status: exitRepair, err: errors.New("a start would repair"), quiet: true}
	case log.Damaged:
		return &statusError{status: exitRefuse, err: errors.New("records are damaged"), quiet: true}
	default:
		return &statusError{status: exitRefuse, err: errors.New("a start would refuse"), quiet: true}
	}
}

// keepOut makes sure that no node has the directory open, and keeps one from opening it during the check. It writes nothing: a
// directory that no node ever locked has no lock file, and is left without one.
func (o *offline) keepOut() (release func(), err error) {
	info, err := os.Stat(o.dataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("data directory: %s is a file", o.dataDir)
	}
	if !isDataDir(o.dataDir) {
		return nil, fmt.Errorf("no Felix data directory here: %s holds neither %s, meta/node.json nor shards/", o.dataDir, lockName)
	}
	f, err := os.Open(filepath.Join(o.dataDir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		holder := holderOf(f)
		err = errors.Join(err, f.Close())
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use%s: stop the node first", o.dataDir, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", filepath.Join(o.dataDir, lockName), err)
	}
	return func() { _ = f.Close() }, nil
}

// isDataDir says that a node has had the directory, or that its logs were copied there: a wrong path must not read as clean. A node
// that was killed in its first start may have left no more than the lock file.
func isDataDir(dir string) bool {
	for _, name := range []string{lockName, filepath.Join("meta", "node.json"), "shards"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// parseTopicID reads a topic id as it stands on disk, or as Kafka's tools print it: URL-safe base64, with or without padding.
func parseTopicID(text string) (ids.TopicID, error) {
	id, err := ids.ParseTopicID(text)
	if err == nil {
		return id, nil
	}
	raw, notBase64 := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if notBase64 != nil || len(raw) != len(id) {
		return id, err
	}
	return ids.TopicID(raw), nil
}

// parseShards reads TOPIC-ID[/PARTITION] arguments into a filter; none is nil, which is all.
func parseShards(args []string) (func(ids.ShardID) bool, error) {
	if len(args) == 0 {
		return nil, nil // all
	}
	topics := map[ids.TopicID]bool{}
	shards := map[ids.ShardID]bool{}
	for _, arg := range args {
		text, number, one := strings.Cut(arg, "/")
		topic, err := parseTopicID(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not TOPIC-ID[/PARTITION] (the id is the folder's name under shards/, or its base64 form): %w", arg, err)
		}
		if !one {
			topics[topic] = true
			continue
		}
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q: %q is no partition", arg, number)
		}
		shards[ids.ShardID{Topic: topic, Partition: int32(n)}] = true
	}
	return func(s ids.ShardID) bool { return topics[s.Topic] || shards[s] }, nil
}

func (o *offline) print(r *log.Report, took time.Duration) error {
	if o.output == "json" {
		enc := json.NewEncoder(o.p.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(reportJSON(r, took))
	}
	w := tabwriter.NewWriter(o.p.Out, 0, 0, 2, ' ', 0)
	var total, read int64
	counts := map[log.Verdict]int{}
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) } // tabwriter keeps the error for Flush
	line("LOG\tVERDICT\tSTART\tEND\tDURABLE\tEPOCH\tSEGMENTS\tBYTES\tCHECKED")
	line("journal\t%s\t\t\t\t\t\t\t", r.JournalVerdict)
	for i := range r.Shards {
		s := &r.Shards[i]
		counts[s.Verdict]++
		total, read = total+s.Bytes, read+s.Scanned
		line("%s/%d\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%d", s.Shard.Topic, s.Shard.Partition, s.Verdict, s.Start, s.End,
			orDash(int64(s.Mark)), orDash(int64(s.Epoch)), len(s.Segments), s.Bytes, s.Scanned)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return o.printDetails(r, fmt.Sprintf("%d logs with %d bytes, %d checked in %s: %d clean, %d would be repaired, %d damaged, %d would be refused\n",
		len(r.Shards), total, read, took.Round(time.Millisecond), counts[log.Clean], counts[log.WouldRepair], counts[log.Damaged], counts[log.WouldRefuse]))
}

// printDetails prints segments, findings and the summary below the table.
func (o *offline) printDetails(r *log.Report, summary string) error {
	var b strings.Builder
	if o.segments {
		for i := range r.Shards {
			for _, s := range r.Shards[i].Segments {
				state := "active"
				if s.Sealed {
					state = "sealed"
				}
				fmt.Fprintf(&b, "segment %s/%d %020d to %d, %d bytes, %s\n", r.Shards[i].Shard.Topic, r.Shards[i].Shard.Partition, s.Base, s.End, s.Bytes, state)
			}
		}
	}
	finding := func(f *log.Finding) {
		fmt.Fprintf(&b, "%s: %s at %d: %s", f.Verdict, f.File, f.Position, f.Reason)
		switch {
		case f.Places == 1:
			fmt.Fprintf(&b, " (1 bad place, %d bytes)", f.Bytes)
		case f.Places > 1:
			fmt.Fprintf(&b, " (the first of %d bad places, %d bytes)", f.Places, f.Bytes)
		case f.Bytes > 0:
			fmt.Fprintf(&b, " (%d bytes)", f.Bytes)
		}
		b.WriteString("\n")
	}
	for i := range r.Journal {
		finding(&r.Journal[i])
	}
	for i := range r.Shards {
		for j := range r.Shards[i].Findings {
			finding(&r.Shards[i].Findings[j])
		}
	}
	b.WriteString(summary)
	_, err := io.WriteString(o.p.Out, b.String())
	return err
}

// orDash is a number, or "-" when it is negative: not known.
func orDash(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
