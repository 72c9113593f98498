package ctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// cluster is a fake cluster of two nodes with topics orders (3 partitions) and payments (1), ten records in each partition of orders,
// written a second apart from base on.
type cluster struct {
	*kfake.Cluster
	t    *testing.T
	flag string
}

var base = time.UnixMilli(1767225600000)

func fakeCluster(t *testing.T, opts ...kfake.Opt) *cluster {
	t.Helper()
	f, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2), kfake.SeedTopics(3, "orders"), kfake.SeedTopics(1, "payments")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	c := &cluster{Cluster: f, t: t, flag: "--brokers=" + strings.Join(f.ListenAddrs(), ",")}
	client := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	for p := range int32(3) {
		for i := range 10 {
			r := &kgo.Record{Topic: "orders", Partition: p, Value: []byte("x"), Timestamp: base.Add(time.Duration(i) * time.Second)}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// commit gives a group committed offsets, as "orders/0": 4.
func (c *cluster) commit(group string, offsets map[string]int64) {
	c.t.Helper()
	client := c.client()
	defer client.Close()
	list := kadm.Offsets{}
	for name, offset := range offsets {
		topic, number, _ := strings.Cut(name, "/")
		list.Add(kadm.Offset{Topic: topic, Partition: int32(number[0] - '0'), At: offset, LeaderEpoch: -1, Metadata: fmt.Sprintf("at %d", offset)})
	}
	if err := kadm.NewClient(client).CommitAllOffsets(c.t.Context(), group, list); err != nil {
		c.t.Fatal(err)
	}
}

// committed are the group's offsets, as "orders/0": "4 metadata".
func (c *cluster) committed(group string) map[string]string {
	c.t.Helper()
	client := c.client()
	defer client.Close()
	fetched, err := kadm.NewClient(client).FetchOffsets(c.t.Context(), group)
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	fetched.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			out[fmt.Sprintf("%s/%d", o.Topic, o.Partition)] = strings.TrimSpace(fmt.Sprintf("%d %s", o.At, o.Metadata))
		}
	})
	return out
}

// join makes a member of a group and returns once it was assigned something.
func (c *cluster) join(ctx context.Context, group, clientID string, opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	assigned := make(chan struct{}, 16)
	m := c.client(append([]kgo.Opt{
		kgo.WithContext(ctx), kgo.ConsumerGroup(group), kgo.ConsumeTopics("orders"), kgo.ClientID(clientID), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { assigned <- struct{}{} }),
	}, opts...)...)
	c.t.Cleanup(m.Close)
	select {
	case <-assigned:
	case <-time.After(30 * time.Second):
		c.t.Fatalf("member %s of %s was assigned nothing", clientID, group)
	}
	return m
}

func TestGroupList(t *testing.T) {
	c := fakeCluster(t)
	want(t, exitOK, "", []string{"group", "list", c.flag}, "GROUP  STATE")
	if got := decode[[]groupRow](t, want(t, exitOK, "", []string{"group", "list", "-o", "json", c.flag})); got == nil || len(got) != 0 {
		t.Errorf("got %#v, want an empty list", got)
	}
	c.commit("idle", map[string]int64{"orders/0": 1})
	c.join(t.Context(), "billing", "biller")
	c.join(t.Context(), "custom", "other", kgo.GroupProtocol("sorting"))
	got := decode[[]groupRow](t, want(t, exitOK, "", []string{"group", "ls", "-o", "json", c.flag}))
	for i := range got {
		got[i].Coordinator = 0 // by hash
	}
	all := []groupRow{
		{Group: "billing", State: "Stable", Type: "classic", ProtocolType: "consumer", Members: 1},
		{Group: "custom", State: "Stable", Type: "classic", ProtocolType: "sorting", Members: 1},
		{Group: "idle", State: "Empty", Type: "classic", ProtocolType: got[2].ProtocolType, Members: 0},
	}
	if diff := cmp.Diff(got, all); diff != "" {
		t.Error(diff)
	}
	table := want(t, exitOK, "", []string{"group", "list", "--state", "empty,Dead", c.flag}, "idle", "Empty").out
	if strings.Contains(table, "billing") {
		t.Errorf("got %s, want only the empty group", table)
	}
	want(t, exitOK, "", []string{"__complete", c.flag, "group", "describe", "bi"}, "billing\n")
	want(t, exitOK, "", []string{"__complete", c.flag, "group", "reset-offsets", "i"}, "idle\n")
}

func TestGroupDescribe(t *testing.T) {
	c := fakeCluster(t)
	c.commit("billing", map[string]int64{"orders/0": 4, "orders/1": 10, "payments/0": 0})
	c.join(t.Context(), "billing", "biller", kgo.InstanceID("till-1"))

	infos := decode[[]groupInfo](t, want(t, exitOK, "", []string{"group", "describe", "billing", "-o", "json", c.flag}))
	if len(infos) != 1 {
		t.Fatalf("got %+v", infos)
	}
	info := infos[0]
	if info.Group != "billing" || info.State != "Stable" || info.Type != "classic" || info.ProtocolType != "consumer" || info.Protocol == "" {
		t.Errorf("got %+v", info)
	}
	if info.Coordinator.Host != "127.0.0.1" || info.Coordinator.Port == 0 || info.MemberCount != 1 || len(info.Members) != 1 {
		t.Fatalf("got %+v", info)
	}
	m := info.Members[0]
	if m.ClientID != "biller" || !strings.Contains(m.Host, "127.0.0.1") || m.MemberID == "" {
		t.Errorf("got %+v", m)
	}
	if diff := cmp.Diff(m.Partitions, []topicPartitions{{"orders", []int32{0, 1, 2}}}); diff != "" {
		t.Error(diff)
	}
	offsets := []groupOffset{
		{Topic: "orders", Partition: 0, Committed: 4, Metadata: "at 4", End: 10, Lag: 6, Owner: m.MemberID},
		{Topic: "orders", Partition: 1, Committed: 10, Metadata: "at 10", End: 10, Lag: 0, Owner: m.MemberID},
		{Topic: "orders", Partition: 2, Committed: -1, End: 10, Lag: -1, Owner: m.MemberID},
		{Topic: "payments", Partition: 0, Committed: 0, Metadata: "at 0"},
	}
	if diff := cmp.Diff(info.Offsets, offsets, cmp.AllowUnexported(groupOffset{})); diff != "" {
		t.Error(diff)
	}
	if info.TotalLag == nil || *info.TotalLag != 6 {
		t.Errorf("got total lag %v, want 6", info.TotalLag)
	}
	want(t, exitOK, "", []string{"group", "describe", "billing", c.flag}, "state        Stable", "consumer, ", "orders:0-2", "HIGH WATERMARK", "TOTAL")
	want(t, exitMissing, "", []string{"group", "describe", "none", c.flag}, `group "none" does not exist`)
	want(t, exitMissing, "", []string{"group", "describe", "billing", "none", c.flag}, `group "none" does not exist`)
}

func TestGroupDescribeParts(t *testing.T) {
	c := fakeCluster(t)
	c.commit("idle", map[string]int64{"orders/0": 4})
	c.commit("other", map[string]int64{"orders/1": 4})
	tests := []struct {
		name     string
		args     []string
		has, not []string
	}{
		{"state", []string{"--state"}, []string{"state        Empty", "members      0"}, []string{"TOPIC", "MEMBER "}},
		{"members", []string{"--members"}, []string{"MEMBER "}, []string{"TOPIC", "state"}},
		{"offsets", []string{"--offsets"}, []string{"TOPIC", "TOTAL"}, []string{"MEMBER ", "state"}},
		{"two", []string{"--offsets", "--state"}, []string{"TOPIC", "state"}, []string{"MEMBER "}},
		{"all_of_an_idle_group", nil, []string{"TOPIC", "state"}, []string{"MEMBER "}},
		{"several_groups", []string{"--offsets", "other"}, []string{"group  idle\n\nTOPIC", "\n\ngroup  other\n\nTOPIC"}, []string{"state"}},
		{"named_twice", []string{"--offsets", "idle"}, []string{"TOPIC"}, []string{"group"}},
		{"json_of_members", []string{"--members", "-o", "json"}, []string{`"members": []`, `"state"`}, []string{`"offsets"`, "total_lag"}},
		{"json_of_offsets", []string{"--offsets", "-o", "json"}, []string{`"offsets": [`, `"total_lag": 6`}, []string{`"members"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := want(t, exitOK, "", append([]string{"group", "describe", "idle", c.flag}, tt.args...), tt.has...)
			for _, part := range tt.not {
				if strings.Contains(got.out, part) {
					t.Errorf("got %q in\n%s", part, got.out)
				}
			}
		})
	}
}

func TestGroupOfAnotherProtocolShowsSizesOnly(t *testing.T) {
	c := fakeCluster(t)
	c.join(t.Context(), "sorters", "sorter", kgo.GroupProtocol("sorting"))
	info := decode[[]groupInfo](t, want(t, exitOK, "", []string{"group", "describe", "sorters", "-o", "json", c.flag}))[0]
	if info.ProtocolType != "sorting" || len(info.Members) != 1 || info.Members[0].AssignmentBytes == 0 || len(info.Members[0].Partitions) != 0 || len(info.Offsets) != 0 {
		t.Errorf("got %+v, want a size and no partitions", info)
	}
	want(t, exitOK, "", []string{"group", "describe", "sorters", c.flag}, "assignment of ", "has no committed offsets")
}

func TestGroupOfTheNewProtocol(t *testing.T) {
	c := fakeCluster(t)
	ctx := context.WithValue(t.Context(), "opt_in_kafka_next_gen_balancer_beta", true) //nolint:revive,staticcheck // the client looks for this string
	m := c.join(ctx, "billing", "biller")
	info := decode[[]groupInfo](t, want(t, exitOK, "", []string{"group", "describe", "billing", "-o", "json", c.flag}))[0]
	if info.Type != "consumer" || info.MemberCount != 1 || info.Members[0].ClientID != "biller" || info.Coordinator.Port == 0 {
		t.Errorf("got %+v", info)
	}
	rows := decode[[]groupRow](t, want(t, exitOK, "", []string{"group", "list", "--state", "stable", "-o", "json", c.flag}))
	if len(rows) != 1 || rows[0].Type != "consumer" || rows[0].Members != 1 {
		t.Errorf("got %+v", rows)
	}
	want(t, exitRefused, "", []string{"group", "reset-offsets", "billing", "--topic", "orders", "--to-latest", "--execute", c.flag}, "has 1 member (biller at ")
	m.Close()
	want(t, exitOK, "", []string{"group", "reset-offsets", "billing", "--topic", "orders", "--to-latest", "--execute", c.flag}, "reset")
	want(t, exitOK, "", []string{"group", "delete", "billing", "--yes", c.flag}, "deleted")
}

func TestGroupsOfAnOldServer(t *testing.T) {
	c := fakeCluster(t, kfake.MaxVersions(kversion.V2_4_0()))
	c.commit("idle", map[string]int64{"orders/0": 4})
	want(t, exitOK, "", []string{"group", "list", "--state", "Empty", c.flag}, "idle")
	got := want(t, exitOK, "", []string{"group", "list", "--state", "Stable", c.flag}).out
	if strings.Contains(got, "idle") {
		t.Errorf("got %s, want the filter to hold without the server's help", got)
	}
	want(t, exitOK, "", []string{"group", "describe", "idle", c.flag}, "classic")
	want(t, exitMissing, "", []string{"group", "describe", "none", c.flag}, "does not exist")
}

func TestGroupsOfAServerWithoutThem(t *testing.T) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.ListGroups), -1)
	c := fakeCluster(t, kfake.MaxVersions(versions))
	want(t, exitRefused, "", []string{"group", "list", c.flag}, "list groups: the server serves no consumer groups")
}

func TestResetOffsets(t *testing.T) {
	const file = `[{"group": "g", "offsets": [
		{"topic": "orders", "partition": 0, "committed_offset": 7, "metadata": "kept"}, {"topic": "orders", "partition": 1, "committed_offset": 99},
		{"topic": "orders", "partition": 2, "committed_offset": -1}]}]`
	tests := []struct {
		name string
		args []string
		want map[string]string
	}{
		{"earliest", []string{"--topic", "orders", "--to-earliest"}, map[string]string{"orders/0": "0", "orders/1": "0", "orders/2": "0"}},
		{"latest", []string{"--topic", "orders:0,2", "--to-latest"}, map[string]string{"orders/0": "10", "orders/1": "9 at 9", "orders/2": "10"}},
		{"two_topics", []string{"--topic", "orders:0", "--topic", "payments", "--to-latest"}, map[string]string{"orders/0": "10", "orders/1": "9 at 9", "payments/0": "0"}},
		{"offset", []string{"--all-topics", "--to-offset", "3"}, map[string]string{"orders/0": "3", "orders/1": "3"}},
		{"offset_outside", []string{"--all-topics", "--to-offset", "300"}, map[string]string{"orders/0": "10", "orders/1": "10"}},
		{"shift_back", []string{"--all-topics", "--shift-by", "-5"}, map[string]string{"orders/0": "0", "orders/1": "4"}},
		{"shift_by_its_other_name", []string{"--all-topics", "--shift=2"}, map[string]string{"orders/0": "6", "orders/1": "10"}},
		{"shift_far", []string{"--all-topics", "--shift-by", "9223372036854775807"}, map[string]string{"orders/0": "10", "orders/1": "10"}},
		{"time", []string{"--all-topics", "--to-datetime", base.Add(2500 * time.Millisecond).UTC().Format(time.RFC3339Nano)}, map[string]string{"orders/0": "3", "orders/1": "3"}},
		{"time_by_its_other_name", []string{"--all-topics", "--to-time", "2001-01-01"}, map[string]string{"orders/0": "0", "orders/1": "0"}},
		{"time_after_all", []string{"--all-topics", "--to-datetime", "2101-01-01T00:00:00+02:00"}, map[string]string{"orders/0": "10", "orders/1": "10"}},
		{"duration", []string{"--all-topics", "--by-duration", "1000000h"}, map[string]string{"orders/0": "0", "orders/1": "0"}},
		{"current", []string{"--topic", "orders", "--to-current"}, map[string]string{"orders/0": "4 at 4", "orders/1": "9 at 9", "orders/2": "10"}},
		{"file", []string{"--from-file", "-"}, map[string]string{"orders/0": "7 kept", "orders/1": "10"}},
		{"file_in_part", []string{"--from-file", "-", "--topic", "orders:0,2"}, map[string]string{"orders/0": "7 kept", "orders/1": "9 at 9"}},
	}
	c := fakeCluster(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := map[string]string{"orders/0": "4 at 4", "orders/1": "9 at 9"}
			c.commit(tt.name, map[string]int64{"orders/0": 4, "orders/1": 9})
			args := append([]string{"group", "reset-offsets", tt.name, c.flag}, tt.args...)
			want(t, exitOK, file, args, "planned", "dry run: nothing was changed; add --execute")
			if diff := cmp.Diff(c.committed(tt.name), before); diff != "" {
				t.Errorf("a dry run changed offsets: %s", diff)
			}
			got := want(t, exitOK, file, append(args, "--execute"), "reset").out
			if strings.Contains(got, "planned") {
				t.Errorf("got %s, want no plan after the deed", got)
			}
			if diff := cmp.Diff(c.committed(tt.name), tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResetPlanIsJSON(t *testing.T) {
	c := fakeCluster(t)
	c.commit("billing", map[string]int64{"orders/0": 4})
	type plan struct {
		Group      string
		DryRun     bool `json:"dry_run"`
		Partitions []resetRow
	}
	args := []string{"group", "reset-offsets", "billing", "--topic", "orders:1,0", "--to-offset", "12", "-o", "json", c.flag}
	rows := []resetRow{
		{Topic: "orders", Partition: 0, Old: 4, New: 10, End: 10, Result: "planned", Note: "12 is outside of what the log holds"},
		{Topic: "orders", Partition: 1, Old: -1, New: 10, End: 10, Result: "planned", Note: "12 is outside of what the log holds"},
	}
	got := want(t, exitOK, "", args)
	if diff := cmp.Diff(decode[plan](t, got), plan{"billing", true, rows}, cmp.AllowUnexported(resetRow{})); diff != "" || got.err != "" {
		t.Error(diff, got.err)
	}
	rows[0].Result, rows[1].Result = "reset", "reset"
	if diff := cmp.Diff(decode[plan](t, want(t, exitOK, "", append(args, "--execute"))), plan{"billing", false, rows}, cmp.AllowUnexported(resetRow{})); diff != "" {
		t.Error(diff)
	}
}

func TestDescriptionBringsOffsetsBack(t *testing.T) {
	c := fakeCluster(t)
	c.commit("billing", map[string]int64{"orders/0": 4, "orders/2": 5, "payments/0": 0})
	before := c.committed("billing")
	file := filepath.Join(t.TempDir(), "before.json")
	if err := os.WriteFile(file, []byte(want(t, exitOK, "", []string{"group", "describe", "billing", "-o", "json", c.flag}).out), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitOK, "", []string{"group", "reset-offsets", "billing", "--all-topics", "--to-earliest", "--execute", c.flag}, "reset")
	want(t, exitOK, "", []string{"group", "reset-offsets", "billing", "--from-file", file, "--execute", c.flag}, "reset")
	if diff := cmp.Diff(c.committed("billing"), before); diff != "" {
		t.Error(diff)
	}
	want(t, exitOK, "", []string{"group", "reset-offsets", "copy", "--from-file", file, c.flag}, "of group billing", "copy does not exist yet: --execute makes it")
	want(t, exitOK, "", []string{"group", "reset-offsets", "copy", "--from-file", file, "--execute", c.flag}, "reset")
	if diff := cmp.Diff(c.committed("copy"), before); diff != "" {
		t.Error(diff)
	}
}

func TestResetOffsetsRefusals(t *testing.T) {
	c := fakeCluster(t)
	c.commit("idle", map[string]int64{"orders/0": 4})
	c.join(t.Context(), "billing", "biller")
	tests := []struct {
		name   string
		status int
		args   []string
		parts  []string
	}{
		{"members", exitRefused, []string{"billing", "--topic", "orders", "--to-earliest", "--execute"}, []string{`group "billing" has 1 member (biller at `, "stop them before you reset its offsets", "nothing was changed"}},
		{"members_dry_run", exitRefused, []string{"billing", "--topic", "orders", "--to-earliest"}, []string{"has 1 member"}},
		{"no_group", exitMissing, []string{"none", "--all-topics", "--to-earliest"}, []string{`group "none" does not exist`}},
		{"no_topic", exitMissing, []string{"idle", "--topic", "gone", "--to-earliest"}, []string{`group idle: topic "gone" does not exist`}},
		{"no_partition", exitMissing, []string{"idle", "--topic", "orders:7", "--to-earliest"}, []string{"group idle: orders has no partition 7: it has 3, from 0"}},
		{"nothing_to_shift", exitMissing, []string{"idle", "--topic", "orders", "--shift-by", "1"}, []string{"group idle, topic orders partition 1", "nothing is committed"}},
		{"nothing_in_the_file", exitMissing, []string{"idle", "--topic", "payments", "--from-file", "-"}, []string{"none of the partitions"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const file = `{"group": "x", "offsets": [{"topic": "orders", "partition": 0, "committed_offset": 1}]}`
			want(t, tt.status, file, append([]string{"group", "reset-offsets", c.flag}, tt.args...), tt.parts...)
		})
	}
}

// TestResetThatTheServerRefuses is the race with a member that joins after the look.
func TestResetThatTheServerRefuses(t *testing.T) {
	c := fakeCluster(t)
	c.commit("idle", map[string]int64{"orders/0": 4, "orders/1": 4})
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Partitions: []int32{1}, Err: kerr.UnknownMemberID, Count: 1})
	got := want(t, exitRefused, "", []string{"group", "reset-offsets", "idle", "--all-topics", "--to-latest", "--execute", c.flag},
		"reset offsets of group idle, topic orders partition 1", "UNKNOWN_MEMBER_ID", "the group has members: stop them first")
	if !strings.Contains(got.out, "failed") || !strings.Contains(got.out, "reset") {
		t.Errorf("got %s, want one partition reset and one failed", got.out)
	}
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownMemberID, Count: 1})
	got = want(t, exitRefused, "", []string{"group", "reset-offsets", "idle", "--all-topics", "--to-latest", "--execute", c.flag},
		"reset offsets of group idle in orders: ", "UNKNOWN_MEMBER_ID")
	if strings.Count(got.err, "UNKNOWN_MEMBER_ID") != 1 {
		t.Errorf("got %s, want one sentence", got.err)
	}
}

func TestGroupsThatMayNotBeSeen(t *testing.T) {
	c := fakeCluster(t)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	want(t, exitRefused, "", []string{"group", "describe", "billing", c.flag}, "group billing", "GROUP_AUTHORIZATION_FAILED", "no right to it")
}

// TestCommittedOffsetsOfATopicThatIsGone reads the answer of a server that kept the offsets of a topic which was deleted: before version
// 10 it names the topic, from then on there is only an id that nobody knows.
func TestCommittedOffsetsOfATopicThatIsGone(t *testing.T) {
	for _, version := range []int16{9, 10} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			versions := kversion.Stable()
			versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), version)
			c := fakeCluster(t, kfake.MaxVersions(versions))
			c.commit("idle", map[string]int64{"orders/0": 4})
			c.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
				group := kmsg.NewOffsetFetchResponseGroup()
				group.Group = "idle"
				topic := kmsg.NewOffsetFetchResponseGroupTopic()
				topic.Topic, topic.TopicID = "gone", [16]byte{7}
				topic.Partitions = append(topic.Partitions, kmsg.NewOffsetFetchResponseGroupTopicPartition())
				group.Topics = append(group.Topics, topic)
				resp.Groups = append(resp.Groups, group)
				return resp, nil, true
			})
			info := decode[[]groupInfo](t, want(t, exitOK, "", []string{"group", "describe", "idle", "-o", "json", c.flag}))[0]
			if len(info.Offsets) != 1 || info.Offsets[0].Topic == "" || info.Offsets[0].Error == "" || info.Offsets[0].End != -1 || *info.TotalLag != -1 {
				t.Errorf("got %+v, want the topic that is gone with an error", info.Offsets)
			}
			want(t, exitOK, "", []string{"group", "describe", "idle", c.flag}, "ERROR", "UNKNOWN_TOPIC_")
			want(t, exitMissing, "", []string{"group", "reset-offsets", "idle", "--all-topics", "--to-latest", c.flag}, "partition 0 does not exist: left out", "none of the partitions")
		})
	}
}

func TestGroupDelete(t *testing.T) {
	c := fakeCluster(t)
	c.commit("idle", map[string]int64{"orders/0": 4})
	c.commit("other", map[string]int64{"orders/0": 4})
	c.join(t.Context(), "billing", "biller")
	want(t, exitUsage, "", []string{"group", "delete", "idle", "other", c.flag}, "to delete groups idle, other with all committed offsets for good, say --yes")
	want(t, exitRefused, "", []string{"group", "delete", "idle", "billing", "--yes", c.flag}, "nothing was deleted", `group "billing" has 1 member`, "stop them before you delete it")
	want(t, exitMissing, "", []string{"group", "delete", "idle", "none", "--yes", c.flag}, "nothing was deleted", `group "none" does not exist`)
	want(t, exitOK, "", []string{"group", "rm", "idle", "idle", "--yes", c.flag}, "idle   deleted")
	want(t, exitMissing, "", []string{"group", "describe", "idle", c.flag}, "does not exist")

	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteGroups}, Err: kerr.NonEmptyGroup, Count: 1})
	want(t, exitRefused, "", []string{"group", "delete", "other", "--yes", c.flag}, "delete group other", "NON_EMPTY_GROUP", "the group has members: stop them first")
	got := want(t, exitOK, "", []string{"group", "delete", "other", "--yes", "-o", "json", c.flag}).out
	if !strings.Contains(got, `"deleted": true`) {
		t.Errorf("got %s", got)
	}
}

func TestGroupDeleteOffsets(t *testing.T) {
	c := fakeCluster(t)
	c.commit("billing", map[string]int64{"orders/0": 4, "orders/1": 5, "payments/0": 0})
	want(t, exitUsage, "", []string{"group", "delete-offsets", "billing", "--topic", "orders", c.flag}, "to delete 2 committed offsets of group billing in orders for good, say --yes")
	want(t, exitMissing, "", []string{"group", "delete-offsets", "billing", "--topic", "gone", "--yes", c.flag}, `group "billing" has no committed offset in topic "gone"`)
	want(t, exitMissing, "", []string{"group", "delete-offsets", "billing", "--topic", "orders:0,2", "--yes", c.flag}, `in topic "orders" partition 2`)
	want(t, exitMissing, "", []string{"group", "delete-offsets", "none", "--topic", "orders", "--yes", c.flag}, "does not exist")
	want(t, exitOK, "", []string{"group", "delete-offsets", "billing", "--topic", "orders:1", "--topic", "payments", "--yes", c.flag}, "orders", "payments", "deleted")
	if diff := cmp.Diff(c.committed("billing"), map[string]string{"orders/0": "4 at 4"}); diff != "" {
		t.Error(diff)
	}
	c.join(t.Context(), "billing", "biller")
	want(t, exitRefused, "", []string{"group", "delete-offsets", "billing", "--topic", "orders", "--yes", c.flag},
		"delete offsets of group billing, topic orders partition 0", "GROUP_SUBSCRIBED_TO_TOPIC", "stop them first")
}

func TestGroupMistakes(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"near_command", []string{"group", "lst"}, "did you mean list?"},
		{"bad_state", []string{"group", "list", "--state", "Happy"}, "none of Empty"},
		{"no_group", []string{"group", "describe"}, "is missing: felixctl "},
		{"no_target", []string{"group", "reset-offsets", "g", "--all-topics"}, "exactly one of --to-earliest"},
		{"two_targets", []string{"group", "reset-offsets", "g", "--all-topics", "--to-earliest", "--to-latest"}, "exactly one of"},
		{"no_scope", []string{"group", "reset-offsets", "g", "--to-earliest"}, "--topic NAME"},
		{"two_scopes", []string{"group", "reset-offsets", "g", "--to-earliest", "--all-topics", "--topic", "t"}, "opposites"},
		{"execute_dry", []string{"group", "reset-offsets", "g", "--to-earliest", "--all-topics", "--execute", "--dry-run"}, "opposites"},
		{"target_that_is_none", []string{"group", "reset-offsets", "g", "--all-topics", "--to-latest=false"}, "says nothing"},
		{"negative_offset", []string{"group", "reset-offsets", "g", "--all-topics", "--to-offset", "-1"}, "must not be negative"},
		{"bad_time", []string{"group", "reset-offsets", "g", "--all-topics", "--to-datetime", "noon"}, "is no time"},
		{"bad_duration", []string{"group", "reset-offsets", "g", "--all-topics", "--by-duration", "P1D"}, "is no duration"},
		{"negative_duration", []string{"group", "reset-offsets", "g", "--all-topics", "--by-duration", "-1h"}, "is no duration"},
		{"bad_partition", []string{"group", "reset-offsets", "g", "--topic", "t:0,x", "--to-earliest"}, "is not NAME or NAME:0,1,2"},
		{"no_topic_name", []string{"group", "reset-offsets", "g", "--topic", ":0", "--to-earliest"}, "is not NAME"},
		{"no_file", []string{"group", "reset-offsets", "g", "--from-file", "/none.json"}, "--from-file /none.json"},
		{"bad_file", []string{"group", "reset-offsets", "g", "--from-file", "-"}, "describe GROUP -o json"},
		{"offsets_of_what", []string{"group", "delete-offsets", "g"}, "say which offsets"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := runCtl(t, "no JSON", nil, tt.args...)
			if got.status != exitUsage || got.out != "" || !strings.Contains(got.err, tt.want) {
				t.Errorf("got %+v, want status %d and %q", got, exitUsage, tt.want)
			}
		})
	}
}

func TestNobodyThereForGroups(t *testing.T) {
	flag := "--brokers=" + nobody(t)
	for _, args := range [][]string{
		{"list"}, {"describe", "g"}, {"reset-offsets", "g", "--all-topics", "--to-latest"}, {"delete", "g", "--yes"}, {"delete-offsets", "g", "--topic", "t", "--yes"},
	} {
		t.Run(args[0], func(t *testing.T) {
			want(t, exitUnreachable, "", append([]string{"group", flag}, args...), "felix serve")
		})
	}
}

func TestRanges(t *testing.T) {
	for _, tt := range []struct {
		in   []int32
		want string
	}{{nil, ""}, {[]int32{3}, "3"}, {[]int32{0, 1}, "0-1"}, {[]int32{0, 1, 2, 5, 7, 8}, "0-2,5,7-8"}} {
		if got := ranges(tt.in); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestParseScope(t *testing.T) {
	tests := []struct {
		name string
		in   []string
		want scope
	}{
		{"none", nil, scope{}},
		{"whole", []string{"a"}, scope{"a": nil}},
		{"some", []string{"a:0,2"}, scope{"a": {0, 2}}},
		{"in_pieces", []string{"a:0", "b", "a:1,0"}, scope{"a": {0, 1}, "b": nil}},
		{"whole_after_some", []string{"a:0", "a"}, scope{"a": nil}},
		{"some_after_whole", []string{"a", "a:0"}, scope{"a": nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseScope(tt.in)
			if diff := cmp.Diff(got, tt.want); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
	for _, bad := range []string{"", ":", "a:", "a:-1", "a:1,", "a:2147483648", "a:b", "a:0:1"} {
		if got, err := parseScope([]string{bad}); err == nil || statusOf(err) != exitUsage {
			t.Errorf("%q: got %v, %v, want a refusal", bad, got, err)
		}
	}
}

func FuzzParseScope(f *testing.F) {
	for _, seed := range []string{"a", "a:0,1,2", "a: 1", ":", "a:9999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sc, err := parseScope([]string{text})
		if err != nil {
			return
		}
		for topic, partitions := range sc {
			again := topic
			if partitions != nil {
				again += ":" + join(partitions)
			}
			if got, err := parseScope([]string{again}); err != nil || cmp.Diff(got, sc) != "" || slices.Min(append(partitions, 0)) < 0 {
				t.Errorf("%q: got %v, then %v (%v)", text, sc, got, err)
			}
		}
	})
}

func TestParseOffsetFile(t *testing.T) {
	const part = `{"group": "a", "offsets": [{"topic": "t", "partition": 1, "committed_offset": 5, "metadata": "m"}, {"topic": "t", "partition": 2, "committed_offset": -1}]}`
	const other = `{"group": "b", "offsets": [{"topic": "t", "partition": 1, "committed_offset": 6}]}`
	tests := []struct {
		name, text, from string
		offset           int64
	}{
		{"list", "[" + part + "]", "a", 5},
		{"object", " " + part + "\n", "a", 5},
		{"of_another_group", "[" + other + "]", "b", 6},
		{"of_several", "[" + other + "," + part + "]", "a", 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from, got, err := parseOffsetFile([]byte(tt.text), "a")
			if err != nil || from != tt.from || len(got) != 1 || got[partitionKey{"t", 1}].offset != tt.offset {
				t.Errorf("got %q, %v, %v", from, got, err)
			}
		})
	}
	for name, text := range map[string]string{
		"empty": "", "nothing": "[]", "no_offsets": `[{"group": "a"}]`, "null": "null", "only_uncommitted": `[{"group": "a", "offsets": [{"topic": "t", "committed_offset": -1}]}]`,
		"not_there": "[" + other + "," + other + "]", "twice": `{"offsets": [{"topic": "t", "committed_offset": 1}, {"topic": "t", "committed_offset": 2}]}`,
		"negative": `{"offsets": [{"topic": "t", "partition": -1}]}`, "no_topic": `{"offsets": [{"committed_offset": 1}]}`, "more": part + part,
	} {
		if from, got, err := parseOffsetFile([]byte(text), "a"); err == nil {
			t.Errorf("%s: got %q, %v, want a refusal", name, from, got)
		}
	}
}

func FuzzParseOffsetFile(f *testing.F) {
	f.Add([]byte(`[{"group": "a", "offsets": [{"topic": "t", "partition": 1, "committed_offset": 5, "metadata": "m"}]}]`))
	f.Add([]byte(`{"group": "b", "state": "Empty", "offsets": [{"topic": "t", "committed_offset": -1}], "total_lag": 3}`))
	f.Add([]byte(`[{"offsets": null}, {}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		from, got, err := parseOffsetFile(text, "a")
		if err != nil {
			return
		}
		if len(got) == 0 || len(got) > len(text) {
			t.Errorf("got %d offsets of %d bytes from %q", len(got), len(text), from)
		}
		for key, c := range got {
			if key.topic == "" || key.partition < 0 || c.offset < 0 {
				t.Errorf("got %v at %v", c, key)
			}
		}
	})
}

func TestShiftedDoesNotWrap(t *testing.T) {
	const most = int64(^uint64(0) >> 1)
	for _, tt := range []struct{ offset, by, want int64 }{{5, 3, 8}, {5, -7, -2}, {5, most, most}, {most, most, most}, {0, -most - 1, -most - 1}} {
		if got := shifted(tt.offset, tt.by); got != tt.want {
			t.Errorf("%d by %d: got %d, want %d", tt.offset, tt.by, got, tt.want)
		}
	}
}

func TestGroupErrorsHaveAStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{{kerr.GroupIDNotFound, exitMissing}, {kerr.NonEmptyGroup, exitRefused}, {kerr.UnknownMemberID, exitRefused}, {errors.New("x"), exitFailure}} {
		if got := statusOf(refusal("x", tt.err, "")); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.err, got, tt.want)
		}
	}
}
