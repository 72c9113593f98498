package ctl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// realGroups is a real node with topics orders (3 partitions, ten records each, written a second apart from base on) and payments (1,
// empty), and the flag that names it.
func realGroups(t *testing.T) (addr, flag string) {
	t.Helper()
	flag = serve(t)
	addr = strings.TrimPrefix(flag, "--brokers=")
	want(t, exitOK, "", []string{"topic", "create", "orders", "-p", "3", flag})
	want(t, exitOK, "", []string{"topic", "create", "payments", "-p", "1", flag})
	cl := realClient(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	var records []*kgo.Record
	for p := range int32(3) {
		for i := range 10 {
			records = append(records, &kgo.Record{Topic: "orders", Partition: p, Value: []byte("x"), Timestamp: base.Add(time.Duration(i) * time.Second)})
		}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return addr, flag
}

func realClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// consumer joins group as a member of orders and returns once it has partitions.
func consumer(t *testing.T, addr, group string) *kgo.Client {
	t.Helper()
	assigned := make(chan struct{}, 1)
	cl := realClient(t, addr, kgo.ConsumerGroup(group), kgo.ConsumeTopics("orders"), kgo.ClientID("biller"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			select {
			case assigned <- struct{}{}:
			default:
			}
		}))
	t.Cleanup(cl.Close)
	select {
	case <-assigned:
	case <-time.After(30 * time.Second):
		t.Fatalf("the member of %s was assigned nothing", group)
	}
	return cl
}

// consumed reads all thirty records and commits what was read.
func consumed(t *testing.T, cl *kgo.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for n := 0; n < 30; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		n += fetches.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
}

// committedText are a group's offsets as its description has them: "orders/0:4" and so on, with the lag behind, in order.
func committedText(t *testing.T, flag, group string) string {
	t.Helper()
	info := decode[[]groupInfo](t, want(t, exitOK, "", []string{"group", "describe", group, "-o", "json", flag}))[0]
	var out []string
	for _, o := range info.Offsets {
		out = append(out, fmt.Sprintf("%s/%d:%d-%d", o.Topic, o.Partition, o.Committed, o.Lag))
	}
	return strings.Join(out, " ")
}

// TestGroupsOfARealServer takes a group from its first member to its end on a node, once with tables and once with JSON.
func TestGroupsOfARealServer(t *testing.T) {
	addr, b := realGroups(t)
	want(t, exitOK, "", []string{"group", "list", b}, "GROUP  STATE")
	want(t, exitMissing, "", []string{"group", "describe", "billing", b}, `group "billing" does not exist`)
	want(t, exitMissing, "", []string{"group", "delete", "billing", "--yes", b}, `group "billing" does not exist`)

	member := consumer(t, addr, "billing")
	consumed(t, member)
	rows := decode[[]groupRow](t, want(t, exitOK, "", []string{"group", "list", "-o", "json", b}))
	if len(rows) != 1 || rows[0].Group != "billing" || rows[0].State != "Stable" || rows[0].Type != "classic" || rows[0].ProtocolType != "consumer" || rows[0].Members != 1 {
		t.Errorf("got %+v", rows)
	}
	want(t, exitOK, "", []string{"group", "list", b}, "billing  Stable  classic  consumer       1")
	want(t, exitOK, "", []string{"group", "list", "--state", "Stable", b}, "billing")
	if got := want(t, exitOK, "", []string{"group", "list", "--state", "Empty", b}).out; strings.Contains(got, "billing") {
		t.Errorf("got %s, want no group", got)
	}

	// With members: described with owners and lag, and neither moved nor deleted.
	want(t, exitOK, strings.Repeat("y\n", 4), []string{"produce", "orders", "--partition", "1", b}, "4 records")
	info := decode[[]groupInfo](t, want(t, exitOK, "", []string{"group", "describe", "billing", "-o", "json", b}))[0]
	if info.State != "Stable" || info.MemberCount != 1 || len(info.Members) != 1 || info.Members[0].ClientID != "biller" || info.Coordinator.Port == 0 || info.Protocol == "" {
		t.Fatalf("got %+v", info)
	}
	if diff := cmp.Diff([]topicPartitions{{"orders", []int32{0, 1, 2}}}, info.Members[0].Partitions); diff != "" {
		t.Error(diff)
	}
	if info.TotalLag == nil || *info.TotalLag != 4 || len(info.Offsets) != 3 || info.Offsets[1].End != 14 || info.Offsets[1].Lag != 4 || info.Offsets[1].Owner != info.Members[0].MemberID {
		t.Errorf("got %+v", info.Offsets)
	}
	want(t, exitOK, "", []string{"group", "describe", "billing", b}, "state        Stable", "orders:0-2", "HIGH WATERMARK", "biller", "TOTAL")
	for _, args := range [][]string{
		{"reset-offsets", "billing", "--all-topics", "--to-earliest", "--execute"}, {"delete", "billing", "--yes"},
	} {
		want(t, exitRefused, "", append(append([]string{"group"}, args...), b), `group "billing" has 1 member (biller at `, "nothing was changed")
	}
	want(t, exitRefused, "", []string{"group", "delete-offsets", "billing", "--topic", "orders", "--yes", b}, "billing")

	member.Close()
	want(t, exitOK, "", []string{"group", "describe", "billing", "--state", b}, "state        Empty", "members      0")
	if got := committedText(t, b, "billing"); got != "orders/0:10-0 orders/1:10-4 orders/2:10-0" {
		t.Errorf("got %s", got)
	}

	want(t, exitUsage, "", []string{"group", "delete-offsets", "billing", "--topic", "orders:2", b}, "--yes")
	deleted := want(t, exitOK, "", []string{"group", "delete-offsets", "billing", "--topic", "orders:2", "--yes", "-o", "json", b}).out
	if !strings.Contains(deleted, `"orders"`) {
		t.Errorf("got %s", deleted)
	}
	want(t, exitOK, "", []string{"group", "delete-offsets", "billing", "--topic", "orders:1", "--yes", b}, "orders", "deleted")
	if got := committedText(t, b, "billing"); got != "orders/0:10-0" {
		t.Errorf("got %s", got)
	}

	want(t, exitUsage, "", []string{"group", "delete", "billing", b}, "--yes")
	want(t, exitOK, "", []string{"group", "reset-offsets", "other", "--topic", "payments", "--to-latest", "--execute", b}, "reset")
	want(t, exitOK, "", []string{"group", "delete", "billing", "--yes", b}, "billing", "deleted")
	want(t, exitMissing, "", []string{"group", "describe", "billing", b}, "does not exist")
	if got := want(t, exitOK, "", []string{"group", "delete", "other", "--yes", "-o", "json", b}).out; !strings.Contains(got, `"deleted": true`) {
		t.Errorf("got %s", got)
	}
	if rows := decode[[]groupRow](t, want(t, exitOK, "", []string{"group", "list", "-o", "json", b})); len(rows) != 0 {
		t.Errorf("got %+v, want none", rows)
	}
}

// TestResetOffsetsOnARealServer moves a group in each way that there is.
func TestResetOffsetsOnARealServer(t *testing.T) {
	_, b := realGroups(t)
	at := func(offset int64) string {
		return base.Add(time.Duration(offset) * time.Second).UTC().Format(time.RFC3339)
	}
	const file = `[{"group": "g", "offsets": [{"topic": "orders", "partition": 0, "committed_offset": 7}, {"topic": "orders", "partition": 1, "committed_offset": 2}]}]`
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"earliest", []string{"--topic", "orders", "--to-earliest"}, "orders/0:0-10 orders/1:0-10 orders/2:0-10"},
		{"latest", []string{"--topic", "orders:0,2", "--to-latest"}, "orders/0:10-0 orders/1:4-6 orders/2:10-0"},
		{"two_topics", []string{"--topic", "orders:0", "--topic", "payments", "--to-latest"}, "orders/0:10-0 orders/1:4-6 orders/2:4-6 payments/0:0-0"},
		{"offset", []string{"--all-topics", "--to-offset", "3"}, "orders/0:3-7 orders/1:3-7 orders/2:3-7"},
		{"offset_outside", []string{"--all-topics", "--to-offset", "300"}, "orders/0:10-0 orders/1:10-0 orders/2:10-0"},
		{"shift_back", []string{"--all-topics", "--shift-by", "-3"}, "orders/0:1-9 orders/1:1-9 orders/2:1-9"},
		{"shift_far", []string{"--all-topics", "--shift-by", "100"}, "orders/0:10-0 orders/1:10-0 orders/2:10-0"},
		{"time", []string{"--all-topics", "--to-datetime", at(6)}, "orders/0:6-4 orders/1:6-4 orders/2:6-4"},
		{"time_after_all", []string{"--all-topics", "--to-datetime", "2101-01-01"}, "orders/0:10-0 orders/1:10-0 orders/2:10-0"},
		{"duration", []string{"--all-topics", "--by-duration", "1000000h"}, "orders/0:0-10 orders/1:0-10 orders/2:0-10"},
		{"current", []string{"--topic", "orders:1", "--to-current"}, "orders/0:4-6 orders/1:4-6 orders/2:4-6"},
		{"file", []string{"--from-file", "-"}, "orders/0:7-3 orders/1:2-8 orders/2:4-6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want(t, exitOK, "", []string{"group", "reset-offsets", tt.name, "--topic", "orders", "--to-offset", "4", "--execute", b}, "reset")
			const before = "orders/0:4-6 orders/1:4-6 orders/2:4-6"
			args := append([]string{"group", "reset-offsets", tt.name, b}, tt.args...)
			want(t, exitOK, file, args, "planned", "dry run: nothing was changed; add --execute")
			if got := committedText(t, b, tt.name); got != before {
				t.Errorf("after a dry run: %s", got)
			}
			done := want(t, exitOK, file, append(args, "--execute", "-o", "json")).out
			if !strings.Contains(done, `"dry_run": false`) || strings.Contains(done, "planned") {
				t.Errorf("got %s", done)
			}
			if got := committedText(t, b, tt.name); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}

	// What a description printed brings the offsets back, also of a group that is not there any more.
	kept := filepath.Join(t.TempDir(), "kept.json")
	if err := os.WriteFile(kept, []byte(want(t, exitOK, "", []string{"group", "describe", "file", "-o", "json", b}).out), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitOK, "", []string{"group", "delete", "file", "--yes", b}, "deleted")
	want(t, exitOK, "", []string{"group", "reset-offsets", "file", "--from-file", kept, "--execute", b}, "reset")
	if got := committedText(t, b, "file"); got != "orders/0:7-3 orders/1:2-8 orders/2:4-6" {
		t.Errorf("got %s", got)
	}
}
