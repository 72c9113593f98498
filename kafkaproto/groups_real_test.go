package kafkaproto

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// groupLog is an internal shard in memory, on which everything is committed as it is appended.
type groupLog struct {
	mu      sync.Mutex
	next    ids.Offset
	batches [][]byte
}

func (l *groupLog) Append(batch []byte) (base, next ids.Offset, err error) {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return 0, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	base = l.next
	l.next += ids.Offset(h.LastOffsetDelta) + 1
	l.batches = append(l.batches, bytes.Clone(batch))
	return base, l.next, nil
}

func (l *groupLog) Commit(bool) {}

func (l *groupLog) Wait(_ ids.Offset, notify func(error)) { notify(nil) }

func (l *groupLog) Scan(_ context.Context, yield func([]byte) error) error {
	l.mu.Lock()
	all := l.batches
	l.mu.Unlock()
	for _, b := range all {
		if err := yield(b); err != nil {
			return err
		}
	}
	return nil
}

// groupLogs are all shards of the topic of groups.
type groupLogs [cluster.GroupsPartitions]groupLog

// newCoordinatorHarness is a server over a real coordinator on logs, for a tenant, with the topic "t".
func newCoordinatorHarness(t *testing.T, logs *groupLogs, tenant string) (*harness, *groups.Coordinator) {
	t.Helper()
	prepare := func(n *fakeNode) {
		n.add("default", "t", 1)
		n.putGroupsTopic(slices.Repeat([]ids.BrokerID{1}, cluster.GroupsPartitions)...)
	}
	seen := newFakeNode() // what the coordinator sees, who has to be there before the server: the same as the server's
	prepare(seen)
	c, err := groups.New(groups.Options{
		Shard: func(p int32) (groups.Shard, error) { return &logs[p], nil },
		Image: seen.Image, InitialRebalanceDelay: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeCoordinator(t, c) })
	h := newHarness(t, func(o *Options) { o.Groups, o.Anonymous = c, &Caller{Tenant: tenant} })
	prepare(h.node)
	client := h.dial()
	eventually(t, "the groups are loaded", func() bool {
		return client.ask(at(kmsg.NewPtrListGroupsRequest(), 4)).(*kmsg.ListGroupsResponse).ErrorCode == 0
	})
	return h, c
}

// closeCoordinator may be called again.
func closeCoordinator(t *testing.T, c *groups.Coordinator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

// member is one client of a group.
type member struct {
	*client
	group, id  string
	generation int32
}

func (m *member) joinRequest(version int16) *kmsg.JoinGroupRequest {
	req := at(kmsg.NewPtrJoinGroupRequest(), version)
	req.Group, req.MemberID, req.ProtocolType = m.group, m.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 60_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff}}}
	return req
}

// joined takes the answer to a join.
func (m *member) joined(req *kmsg.JoinGroupRequest, id int32) *kmsg.JoinGroupResponse {
	m.t.Helper()
	resp := m.receive(req, id).(*kmsg.JoinGroupResponse)
	if resp.ErrorCode != 0 {
		m.t.Fatalf("join: %+v", resp)
	}
	m.id, m.generation = resp.MemberID, resp.Generation
	return resp
}

func (m *member) syncRequest(assignments ...string) *kmsg.SyncGroupRequest {
	req := at(kmsg.NewPtrSyncGroupRequest(), 5)
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	req.ProtocolType, req.Protocol = pointer("consumer"), pointer("range")
	for i := 0; i < len(assignments); i += 2 {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: assignments[i], MemberAssignment: []byte(assignments[i+1])})
	}
	return req
}

func (m *member) heartbeat() int16 {
	m.t.Helper()
	req := at(kmsg.NewPtrHeartbeatRequest(), 4)
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	return m.ask(req).(*kmsg.HeartbeatResponse).ErrorCode
}

func (m *member) commit(topic string, offset int64, metadata string) int16 {
	m.t.Helper()
	req := offsetCommitFor(8, m.group, commitOf(topic, ids.TopicID{}, 0))
	req.MemberID, req.Generation = m.id, m.generation
	req.Topics[0].Partitions[0].Offset, req.Topics[0].Partitions[0].Metadata = offset, &metadata
	return m.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// committed is the offset of partition 0 of topic.
func (m *member) committed(topic string) int64 {
	m.t.Helper()
	req := at(kmsg.NewPtrOffsetFetchRequest(), 7)
	req.Group = m.group
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	resp := m.ask(req).(*kmsg.OffsetFetchResponse)
	if resp.ErrorCode != 0 {
		m.t.Fatalf("fetch offsets: %+v", resp)
	}
	return resp.Topics[0].Partitions[0].Offset
}

func (m *member) described(version int16) kmsg.DescribeGroupsResponseGroup {
	m.t.Helper()
	req := at(kmsg.NewPtrDescribeGroupsRequest(), version)
	req.Groups = []string{m.group}
	return m.ask(req).(*kmsg.DescribeGroupsResponse).Groups[0]
}

// TestGroupEndToEnd takes a group of two members through its life, over the real coordinator.
func TestGroupEndToEnd(t *testing.T) {
	logs := &groupLogs{}
	h, first := newCoordinatorHarness(t, logs, testTenant)
	a, b := &member{client: h.dial(), group: "g"}, &member{client: h.dial(), group: "g"}

	// The first comes with a version that has to ask for its member id, the second with one that must never be told to.
	req := a.joinRequest(4)
	asked := a.ask(req).(*kmsg.JoinGroupResponse)
	wantCode(t, "member id required", asked.ErrorCode, errcode.MemberIDRequired)
	if a.id = asked.MemberID; !strings.HasPrefix(a.id, "test-") {
		t.Errorf("member id %q", a.id)
	}
	req = a.joinRequest(4)
	if resp := a.joined(req, a.send(req)); resp.LeaderID != a.id || len(resp.Members) != 1 || resp.Generation != 1 {
		t.Errorf("got %+v", resp)
	}
	if resp := a.ask(a.syncRequest(a.id, "all")).(*kmsg.SyncGroupResponse); resp.ErrorCode != 0 || string(resp.MemberAssignment) != "all" {
		t.Errorf("got %+v", resp)
	}
	wantCode(t, "heartbeat", a.heartbeat(), errcode.OK)

	second := b.joinRequest(3)
	waits := b.send(second)
	eventually(t, "the group rebalances", func() bool { return a.heartbeat() == errcode.RebalanceInProgress.Kafka() })
	b.wantSilent()
	req = a.joinRequest(4)
	if resp := a.joined(req, a.send(req)); resp.Generation != 2 || len(resp.Members) != 2 {
		t.Errorf("got %+v", resp)
	}
	if resp := b.joined(second, waits); resp.Generation != 2 || len(resp.Members) != 0 || resp.LeaderID != a.id {
		t.Errorf("got %+v", resp)
	}
	follower := b.syncRequest()
	waits = b.send(follower)
	b.wantSilent()
	if resp := a.ask(a.syncRequest(a.id, "one", b.id, "two")).(*kmsg.SyncGroupResponse); string(resp.MemberAssignment) != "one" {
		t.Errorf("got %+v", resp)
	}
	if resp := b.receive(follower, waits).(*kmsg.SyncGroupResponse); resp.ErrorCode != 0 || string(resp.MemberAssignment) != "two" {
		t.Errorf("got %+v", resp)
	}

	outside := &member{client: h.dial(), group: "g", generation: -1}
	for _, c := range []struct {
		name string
		got  int16
		want errcode.Kind
	}{
		{"commit", b.commit("t", 7, "note"), errcode.OK},
		{"commit to a topic that is not there", b.commit("u", 7, ""), errcode.UnknownShard},
		{"metadata too large", b.commit("t", 8, strings.Repeat("x", 5000)), errcode.OffsetMetadataTooLarge},
		{"commit from outside", outside.commit("t", 9, ""), errcode.UnknownMember},
		{"wrong generation", (&member{client: b.client, group: "g", id: b.id, generation: 1}).commit("t", 9, ""), errcode.IllegalGeneration},
		{"unknown member", (&member{client: b.client, group: "g", id: "x", generation: 2}).heartbeat(), errcode.UnknownMember},
		{"delete while it has members", deleteGroup(a.client, "g"), errcode.NonEmptyGroup},
	} {
		wantCode(t, c.name, c.got, c.want)
	}
	if got := a.committed("t"); got != 7 {
		t.Errorf("committed %d, want 7", got)
	}
	if d := a.described(5); d.State != "Stable" || d.Protocol != "range" || len(d.Members) != 2 || d.Members[0].ClientHost != "/127.0.0.1" || d.Members[0].ClientID != "test" {
		t.Errorf("described as %+v", d)
	}
	list := a.ask(at(kmsg.NewPtrListGroupsRequest(), 5)).(*kmsg.ListGroupsResponse)
	if len(list.Groups) != 1 {
		t.Errorf("listed: %+v", list.Groups)
	} else if g := list.Groups[0]; g.Group != "g" || g.ProtocolType != "consumer" || g.GroupState != "Stable" || g.GroupType != "classic" {
		t.Errorf("listed: %+v", g)
	}

	// Another coordinator takes over: who was in the group still is, and what was committed is still there.
	closeCoordinator(t, first)
	h, _ = newCoordinatorHarness(t, logs, testTenant)
	a.client, b.client, outside.client = h.dial(), h.dial(), h.dial()
	wantCode(t, "heartbeat after the change", a.heartbeat(), errcode.OK)
	wantCode(t, "commit after the change", b.commit("t", 12, ""), errcode.OK)
	if got := a.committed("t"); got != 12 {
		t.Errorf("committed %d, want 12", got)
	}
	other, _ := newCoordinatorHarness(t, logs, "t2") // case 73: the same name in another tenant is another group
	foreign := &member{client: other.dial(), group: "g"}
	if d := foreign.described(5); d.State != "Dead" {
		t.Errorf("another tenant sees %+v", d)
	}

	remove := kmsg.NewPtrOffsetDeleteRequest()
	remove.Group = "g"
	remove.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	wantCode(t, "offsets of a topic that is subscribed to", a.ask(remove).(*kmsg.OffsetDeleteResponse).Topics[0].Partitions[0].ErrorCode, errcode.GroupSubscribedToTopic)
	leave := at(kmsg.NewPtrLeaveGroupRequest(), 5)
	leave.Group, leave.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: a.id}, {MemberID: "x"}, {MemberID: b.id}}
	left := a.ask(leave).(*kmsg.LeaveGroupResponse)
	if left.ErrorCode != 0 || len(left.Members) != 3 || left.Members[0].ErrorCode != 0 || left.Members[1].ErrorCode != errcode.UnknownMember.Kafka() || left.Members[2].ErrorCode != 0 {
		t.Errorf("left: %+v", left)
	}
	wantCode(t, "who has left", a.heartbeat(), errcode.UnknownMember)
	wantCode(t, "commit from outside an empty group", outside.commit("t", 20, ""), errcode.OK)
	wantCode(t, "offset of an empty group", a.ask(remove).(*kmsg.OffsetDeleteResponse).Topics[0].Partitions[0].ErrorCode, errcode.OK)
	if got := a.committed("t"); got != -1 {
		t.Errorf("committed %d, want nothing", got)
	}
	wantCode(t, "delete", deleteGroup(a.client, "g"), errcode.OK)
	wantCode(t, "delete again", deleteGroup(a.client, "g"), errcode.GroupIDNotFound)
	if d := a.described(5); d.State != "Dead" || d.ErrorCode != 0 {
		t.Errorf("a deleted group is described as %+v", d)
	}
	wantCode(t, "a deleted group in version 6", a.described(6).ErrorCode, errcode.GroupIDNotFound)
}

func deleteGroup(c *client, name string) int16 {
	c.t.Helper()
	req := at(kmsg.NewPtrDeleteGroupsRequest(), 2)
	req.Groups = []string{name}
	return c.ask(req).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode
}
