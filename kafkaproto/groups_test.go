package kafkaproto

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

func pointer(s string) *string { return &s }

func TestGroupAPIsAnswerEveryVersion(t *testing.T) {
	h, _ := newGroupHarness(t, nil)
	c := h.dial()
	for _, a := range groupAPIs() {
		for v := a.min; v <= a.max; v++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			if resp := c.ask(req); resp.GetVersion() != v {
				t.Errorf("%s %d is answered in version %d", a.name, v, resp.GetVersion())
			}
		}
	}
}

func TestGroupsOff(t *testing.T) {
	h := newHarness(t, nil)
	resp := h.dial().ask(at(kmsg.NewPtrApiVersionsRequest(), 3)).(*kmsg.ApiVersionsResponse)
	for _, k := range resp.ApiKeys {
		for _, a := range groupAPIs() {
			if k.ApiKey == a.key {
				t.Errorf("%s is advertised without a coordinator", a.name)
			}
		}
	}
	c := h.dial()
	c.send(at(kmsg.NewPtrJoinGroupRequest(), 5))
	c.wantClosed()
}

func TestFindCoordinator(t *testing.T) {
	h, _ := newGroupHarness(t, func(o *Options) {
		o.Anonymous = &Caller{Tenant: testTenant, Rights: rights{
			"group.consume /": true, "group.consume /a1": true, "group.manage /b1": true, "group.consume /c1": true, "group.consume /d1": true, "group.consume /z": true,
		}}
	})
	c := h.dial()
	type found struct {
		Code       int16
		Node, Port int32
		Host       string
	}
	node1, node2 := found{0, 1, 9092, "127.0.0.1"}, found{0, 2, 9093, "other.example"}
	refused := func(k errcode.Kind) found { return found{k.Kafka(), -1, -1, ""} }
	cases := []struct {
		name    string
		keyType int8
		key     string
		from    int16
		want    found
	}{
		{"here", 0, "a1", 0, node1},
		{"elsewhere_by_who_may_manage", 0, "b1", 0, node2},
		{"empty_name", 0, "", 0, node1},
		{"no_leader", 0, "c1", 0, refused(errcode.CoordinatorNotAvailable)},
		{"leader_unknown", 0, "d1", 0, refused(errcode.CoordinatorNotAvailable)},
		{"no_such_shard", 0, "z", 0, refused(errcode.CoordinatorNotAvailable)},
		{"no_right", 0, "a2", 0, refused(errcode.UnauthorizedGroup)},
		{"transactional_id", 1, "a1", 1, refused(errcode.UnauthorizedTransactionalID)},
		{"share_group", 2, "a1:x:0", 6, refused(errcode.UnauthorizedGroup)},
		{"type_9", 9, "a1", 1, refused(errcode.InvalidRequest)},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			for v := tc.from; v <= 6; v++ {
				req := at(kmsg.NewPtrFindCoordinatorRequest(), v)
				req.CoordinatorKey, req.CoordinatorKeys, req.CoordinatorType = tc.key, []string{tc.key}, tc.keyType
				resp := c.ask(req).(*kmsg.FindCoordinatorResponse)
				got := found{resp.ErrorCode, resp.NodeID, resp.Port, resp.Host}
				text := plain(resp.ErrorMessage)
				if v >= 4 {
					r := resp.Coordinators[0]
					got, text = found{r.ErrorCode, r.NodeID, r.Port, r.Host}, plain(r.ErrorMessage)
				}
				if got != tc.want {
					t.Errorf("version %d: got %+v, want %+v", v, got, tc.want)
				}
				if v >= 1 && (text != "") != (got.Code != 0) {
					t.Errorf("version %d: message %q beside code %d", v, text, got.Code)
				}
			}
		})
	}
}

func TestJoinGroupRequest(t *testing.T) {
	h, fake := newGroupHarness(t, nil)
	c := h.dial()
	for v := int16(0); v <= 9; v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			fake.set(func() { fake.joins = nil })
			req := at(kmsg.NewPtrJoinGroupRequest(), v)
			req.Group, req.MemberID, req.InstanceID = "a", "m", pointer("i")
			req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 20_000
			req.ProtocolType, req.Reason = "consumer", pointer("why")
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("x")}, {Name: "sticky"}, {Name: "range", Metadata: []byte("y")}}
			c.ask(req)
			want := groups.JoinRequest{
				Key: groupKey("a"), MemberID: "m", ClientID: "test", ClientHost: "/127.0.0.1",
				SessionTimeout: 10 * time.Second, RebalanceTimeout: 20 * time.Second, ProtocolType: "consumer",
				Protocols:       []groups.Protocol{{Name: "range", Metadata: []byte("x")}, {Name: "sticky", Metadata: []byte{}}},
				RequireMemberID: v >= 4, CanSkipAssignment: v >= 9,
			}
			if v < 1 {
				want.RebalanceTimeout = 10 * time.Second
			}
			if v >= 5 {
				want.InstanceID = "i"
			}
			if v >= 8 {
				want.Reason = "why"
			}
			if diff := cmp.Diff([]groups.JoinRequest{want}, noted(fake, &fake.joins)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestJoinGroupAnswer(t *testing.T) {
	h, fake := newGroupHarness(t, nil)
	c := h.dial()
	for v := int16(0); v <= 9; v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			fake.set(func() {
				fake.err = nil
				fake.join = groups.JoinResult{
					Generation: 3, ProtocolType: "consumer", Protocol: "range", Leader: "m", MemberID: "m", SkipAssignment: true,
					Members: []groups.JoinedMember{{MemberID: "m", InstanceID: "i", Metadata: []byte("x")}, {MemberID: "n"}},
				}
			})
			req := at(kmsg.NewPtrJoinGroupRequest(), v)
			req.Group, req.MemberID = "a", "old"
			got := c.ask(req).(*kmsg.JoinGroupResponse)
			if got.ErrorCode != 0 || got.Generation != 3 || plain(got.Protocol) != "range" || got.LeaderID != "m" || got.MemberID != "m" || len(got.Members) != 2 {
				t.Fatalf("got %+v", got)
			}
			if string(got.Members[0].ProtocolMetadata) != "x" || v >= 5 && plain(got.Members[0].InstanceID) != "i" || got.Members[1].InstanceID != nil {
				t.Errorf("members %+v", got.Members)
			}
			if v >= 7 && plain(got.ProtocolType) != "consumer" || got.SkipAssignment != (v >= 9) {
				t.Errorf("got %+v", got)
			}
			fake.set(func() { fake.err = groups.ErrUnknownMember })
			got = c.ask(req).(*kmsg.JoinGroupResponse)
			wantCode(t, "refused", got.ErrorCode, errcode.UnknownMember)
			if got.Generation != -1 || got.MemberID != "old" || got.LeaderID != "" || len(got.Members) != 0 || (got.Protocol == nil) != (v >= 7) {
				t.Errorf("refused: %+v", got)
			}
		})
	}
}

func TestSyncGroup(t *testing.T) {
	h, fake := newGroupHarness(t, nil)
	c := h.dial()
	fake.set(func() {
		fake.sync = groups.SyncResult{ProtocolType: "consumer", Protocol: "range", Assignment: []byte("mine")}
	})
	for v := int16(0); v <= 5; v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			fake.set(func() { fake.syncs, fake.err = nil, nil })
			req := at(kmsg.NewPtrSyncGroupRequest(), v)
			req.Group, req.MemberID, req.Generation, req.InstanceID = "a", "m", 3, pointer("i")
			req.ProtocolType, req.Protocol = pointer("consumer"), pointer("range")
			req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "m", MemberAssignment: []byte("x")}}
			got := c.ask(req).(*kmsg.SyncGroupResponse)
			if got.ErrorCode != 0 || string(got.MemberAssignment) != "mine" || v >= 5 && (plain(got.Protocol) != "range" || plain(got.ProtocolType) != "consumer") {
				t.Errorf("got %+v", got)
			}
			want := groups.SyncRequest{
				Key: groupKey("a"), MemberID: "m", Generation: 3,
				Assignments: []groups.Assignment{{MemberID: "m", Bytes: []byte("x")}},
			}
			if v >= 3 {
				want.InstanceID = "i"
			}
			if v >= 5 {
				want.ProtocolType, want.Protocol = "consumer", "range"
			}
			if diff := cmp.Diff([]groups.SyncRequest{want}, noted(fake, &fake.syncs)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			fake.set(func() { fake.err = groups.ErrRebalanceInProgress })
			got = c.ask(req).(*kmsg.SyncGroupResponse)
			wantCode(t, "refused", got.ErrorCode, errcode.RebalanceInProgress)
		})
	}
	for _, req := range []*kmsg.SyncGroupRequest{{Protocol: pointer("range")}, {ProtocolType: pointer("consumer")}} {
		req.Version, req.Group = 5, "a"
		wantCode(t, "version 5 without its protocol", c.ask(req).(*kmsg.SyncGroupResponse).ErrorCode, errcode.InconsistentGroupProtocol)
	}
}

func TestHeartbeat(t *testing.T) {
	h, fake := newGroupHarness(t, nil)
	c := h.dial()
	for v := int16(0); v <= 4; v++ {
		req := at(kmsg.NewPtrHeartbeatRequest(), v)
		req.Group, req.MemberID, req.Generation, req.InstanceID = "a", "m", 3, pointer("i")
		for _, err := range []error{nil, groups.ErrRebalanceInProgress, groups.ErrFencedInstance} {
			fake.set(func() { fake.err, fake.heartbeats = err, nil })
			wantCode(t, fmt.Sprint(v), c.ask(req).(*kmsg.HeartbeatResponse).ErrorCode, errcode.Of(err))
			want := "t1/a/m//3"
			if v >= 3 {
				want = "t1/a/m/i/3"
			}
			if diff := cmp.Diff([]string{want}, noted(fake, &fake.heartbeats)); diff != "" {
				t.Errorf("version %d: %s", v, diff)
			}
		}
	}
}

func TestLeaveGroup(t *testing.T) {
	h, fake := newGroupHarness(t, nil)
	c := h.dial()
	for v := int16(0); v <= 5; v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			req := at(kmsg.NewPtrLeaveGroupRequest(), v)
			req.Group, req.MemberID = "a", "m"
			req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: "m", Reason: pointer("why")}, {InstanceID: pointer("i")}}
			fake.set(func() { fake.leaves, fake.err, fake.each = nil, nil, []error{nil, groups.ErrUnknownMember} })
			got := c.ask(req).(*kmsg.LeaveGroupResponse)
			want := []groups.Leaving{{MemberID: "m"}}
			if v >= 3 {
				want = append(want, groups.Leaving{InstanceID: "i"})
				if len(got.Members) != 2 || got.Members[0].ErrorCode != 0 || got.Members[0].MemberID != "m" || plain(got.Members[1].InstanceID) != "i" ||
					got.Members[1].ErrorCode != errcode.UnknownMember.Kafka() {
					t.Errorf("got %+v", got)
				}
			}
			if v >= 5 {
				want[0].Reason = "why"
			}
			if got.ErrorCode != 0 {
				t.Errorf("code %d", got.ErrorCode)
			}
			if diff := cmp.Diff(want, noted(fake, &fake.leaves)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			fake.set(func() { fake.each = []error{groups.ErrUnknownMember} })
			if got := c.ask(req).(*kmsg.LeaveGroupResponse); v < 3 {
				wantCode(t, "the one member", got.ErrorCode, errcode.UnknownMember)
			}
			fake.set(func() { fake.err = groups.ErrNotCoordinator })
			if got := c.ask(req).(*kmsg.LeaveGroupResponse); got.ErrorCode != errcode.NotCoordinator.Kafka() || len(got.Members) != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestGroupRights: without the right each API answers 30, and nothing reaches the coordinator.
func TestGroupRights(t *testing.T) {
	h, fake := newGroupHarness(t, func(o *Options) {
		o.Anonymous = &Caller{Tenant: testTenant, Rights: rights{"stream.subscribe default/t": true, "group.consume /b": true}}
	})
	h.node.add("default", "t", 1)
	c := h.dial()
	commit := at(kmsg.NewPtrOffsetCommitRequest(), 8)
	commit.Group = "a"
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	fetch := at(kmsg.NewPtrOffsetFetchRequest(), 7)
	fetch.Group = "a"
	remove := at(kmsg.NewPtrOffsetDeleteRequest(), 0)
	remove.Group = "b" // consuming is not managing
	remove.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	join, sync := at(kmsg.NewPtrJoinGroupRequest(), 5), at(kmsg.NewPtrSyncGroupRequest(), 3)
	heartbeat, leave := at(kmsg.NewPtrHeartbeatRequest(), 3), at(kmsg.NewPtrLeaveGroupRequest(), 3)
	join.Group, sync.Group, heartbeat.Group, leave.Group = "a", "a", "a", "a"
	describe, drop := at(kmsg.NewPtrDescribeGroupsRequest(), 6), at(kmsg.NewPtrDeleteGroupsRequest(), 2)
	describe.Groups, drop.Groups = []string{"a"}, []string{"b"}
	for what, got := range map[string]int16{
		"commit":    c.ask(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode,
		"fetch":     c.ask(fetch).(*kmsg.OffsetFetchResponse).ErrorCode,
		"remove":    c.ask(remove).(*kmsg.OffsetDeleteResponse).ErrorCode,
		"join":      c.ask(join).(*kmsg.JoinGroupResponse).ErrorCode,
		"sync":      c.ask(sync).(*kmsg.SyncGroupResponse).ErrorCode,
		"heartbeat": c.ask(heartbeat).(*kmsg.HeartbeatResponse).ErrorCode,
		"leave":     c.ask(leave).(*kmsg.LeaveGroupResponse).ErrorCode,
		"describe":  c.ask(describe).(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode,
		"delete":    c.ask(drop).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode,
	} {
		wantCode(t, what, got, errcode.UnauthorizedGroup)
	}
	if len(noted(fake, &fake.joins))+len(noted(fake, &fake.syncs))+len(noted(fake, &fake.asked))+len(noted(fake, &fake.deleted)) != 0 {
		t.Error("the coordinator was asked")
	}
}

// TestGroupCodes: what the shard behind a group may fail with is said in codes that the clients of these APIs know.
func TestGroupCodes(t *testing.T) {
	const join, heartbeat, commit, fetch, remove, describe = 11, 12, keyOffsetCommit, 9, 42, 15
	cases := []struct {
		kind         errcode.Kind
		key, version int16
		want         errcode.Kind
	}{
		{errcode.NotLeader, join, 9, errcode.NotCoordinator},
		{errcode.LeadershipLost, commit, 9, errcode.NotCoordinator},
		{errcode.StorageFailed, commit, 9, errcode.NotCoordinator},
		{errcode.QuorumTimeout, commit, 9, errcode.CoordinatorNotAvailable},
		{errcode.NotEnoughReplicas, commit, 9, errcode.CoordinatorNotAvailable},
		{errcode.NoLeader, fetch, 9, errcode.CoordinatorNotAvailable},
		{errcode.BatchTooLarge, commit, 9, errcode.InvalidCommitOffsetSize},
		{errcode.GroupMaxSizeReached, commit, 9, errcode.InvalidCommitOffsetSize},
		{errcode.GroupMaxSizeReached, join, 9, errcode.GroupMaxSizeReached},
		{errcode.BatchTooLarge, join, 9, errcode.Internal},
		{errcode.GroupIDNotFound, commit, 8, errcode.IllegalGeneration},
		{errcode.GroupIDNotFound, commit, 9, errcode.GroupIDNotFound},
		{errcode.GroupIDNotFound, heartbeat, 4, errcode.UnknownMember},
		{errcode.GroupIDNotFound, remove, 2, errcode.GroupIDNotFound},
		{errcode.GroupIDNotFound, describe, 6, errcode.GroupIDNotFound},
		{errcode.UnknownShard, commit, 9, errcode.UnknownShard},
		{errcode.UnknownTopicID, commit, 10, errcode.UnknownTopicID},
		{errcode.CoordinatorLoading, join, 0, errcode.CoordinatorLoading},
		{errcode.MemberIDRequired, join, 4, errcode.MemberIDRequired},
	}
	for _, tc := range cases {
		if got := wireCode(tc.kind, tc.key, tc.version); got != tc.want.Kafka() {
			t.Errorf("%v of API %d version %d: %d, want %d", tc.kind, tc.key, tc.version, got, tc.want.Kafka())
		}
	}
}

func TestListGroups(t *testing.T) {
	h, fake := newGroupHarness(t, func(o *Options) {
		o.Anonymous = &Caller{Tenant: testTenant, Rights: rights{"group.consume /a": true, "group.consume /b": true, "group.manage /c": true, "group.consume /other": true}}
	})
	c := h.dial()
	fake.set(func() {
		fake.lists[testTenant] = []groups.Overview{
			{Group: "a", ProtocolType: "consumer", State: "Stable", Type: "classic"},
			{Group: "b", ProtocolType: "connect", State: "Empty", Type: "classic"},
			{Group: "c", State: "Stable", Type: "classic"},
		}
	})
	fake.set(func() { fake.lists["t2"] = []groups.Overview{{Group: "other"}} })
	cases := []struct {
		name          string
		states, types []string
		want          string
	}{
		{"all", nil, nil, "a b"},
		{"state", []string{"stable"}, nil, "a"},
		{"states", []string{" EMPTY ", "Stable"}, nil, "a b"},
		{"state_unknown", []string{"Sleeping"}, nil, ""},
		{"type", nil, []string{"Classic"}, "a b"},
		{"other_type", nil, []string{"consumer", "share"}, ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			for v := int16(0); v <= 5; v++ {
				if tc.states != nil && v < 4 || tc.types != nil && v < 5 {
					continue
				}
				req := at(kmsg.NewPtrListGroupsRequest(), v)
				req.StatesFilter, req.TypesFilter = tc.states, tc.types
				resp := c.ask(req).(*kmsg.ListGroupsResponse)
				got := ""
				for i, g := range resp.Groups {
					if i > 0 {
						got += " "
					}
					got += g.Group
					if v >= 4 && g.GroupState == "" || v >= 5 && g.GroupType != "classic" || g.ProtocolType == "" {
						t.Errorf("version %d: %+v", v, g)
					}
				}
				if got != tc.want || resp.ErrorCode != 0 {
					t.Errorf("version %d: got %q and code %d, want %q", v, got, resp.ErrorCode, tc.want)
				}
			}
		})
	}
	fake.set(func() { fake.listErr = groups.ErrLoading })
	resp := c.ask(at(kmsg.NewPtrListGroupsRequest(), 5)).(*kmsg.ListGroupsResponse)
	if wantCode(t, "loading", resp.ErrorCode, errcode.CoordinatorLoading); len(resp.Groups) != 2 {
		t.Errorf("while loading: %+v", resp.Groups)
	}
}

func TestDescribeGroups(t *testing.T) {
	h, fake := newGroupHarness(t, func(o *Options) {
		o.Anonymous = &Caller{Tenant: testTenant, Rights: rights{"group.consume /a": true, "group.manage /a": true, "group.consume /gone": true}}
	})
	c := h.dial()
	fake.set(func() {
		fake.describe[groupKey("a")] = groups.Description{
			State: "Stable", ProtocolType: "consumer", Protocol: "range",
			Members: []groups.MemberDescription{{
				MemberID: "m", InstanceID: "i", ClientID: "c", ClientHost: "/1.2.3.4", Metadata: []byte("x"), Assignment: []byte("y"),
			}, {MemberID: "n"}},
		}
	})
	for v := int16(0); v <= 6; v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			req := at(kmsg.NewPtrDescribeGroupsRequest(), v)
			req.Groups, req.IncludeAuthorizedOperations = []string{"a", "gone", "denied", "a"}, true
			resp := c.ask(req).(*kmsg.DescribeGroupsResponse)
			if len(resp.Groups) != 3 {
				t.Fatalf("got %+v", resp.Groups)
			}
			a, gone, denied := resp.Groups[0], resp.Groups[1], resp.Groups[2]
			if a.ErrorCode != 0 || a.State != "Stable" || a.ProtocolType != "consumer" || a.Protocol != "range" || len(a.Members) != 2 {
				t.Errorf("got %+v", a)
			}
			m := a.Members[0]
			if m.MemberID != "m" || m.ClientID != "c" || m.ClientHost != "/1.2.3.4" || string(m.ProtocolMetadata) != "x" || string(m.MemberAssignment) != "y" ||
				v >= 4 && plain(m.InstanceID) != "i" || a.Members[1].InstanceID != nil {
				t.Errorf("members %+v", a.Members)
			}
			if want := int32(opRead | opDescribe | opDelete); v >= 3 && a.AuthorizedOperations != want {
				t.Errorf("operations %x, want %x", a.AuthorizedOperations, want)
			}
			if gone.State != "Dead" || (gone.ErrorCode != 0) != (v >= 6) || (gone.ErrorMessage != nil) != (v >= 6) {
				t.Errorf("a group that is not there: %+v", gone)
			}
			wantCode(t, "denied", denied.ErrorCode, errcode.UnauthorizedGroup)
			if v >= 3 && denied.AuthorizedOperations != noOperations {
				t.Errorf("operations of a group that may not be seen: %x", denied.AuthorizedOperations)
			}
			req.IncludeAuthorizedOperations = false
			if got := c.ask(req).(*kmsg.DescribeGroupsResponse).Groups[0].AuthorizedOperations; v >= 3 && got != noOperations {
				t.Errorf("operations that nobody asked for: %x", got)
			}
		})
	}
	fake.set(func() { fake.err = groups.ErrLoading })
	req := at(kmsg.NewPtrDescribeGroupsRequest(), 6)
	req.Groups = []string{"a"}
	wantCode(t, "loading", c.ask(req).(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode, errcode.CoordinatorLoading)
}

func TestDeleteGroups(t *testing.T) {
	h, fake := newGroupHarness(t, func(o *Options) {
		o.Anonymous = &Caller{Tenant: testTenant, Rights: rights{"group.manage /a": true, "group.manage /busy": true, "group.consume /b": true}}
	})
	c := h.dial()
	for v := int16(0); v <= 2; v++ {
		for _, held := range []bool{false, true} {
			fake.set(func() { fake.deleted, fake.hold = nil, held })
			req := at(kmsg.NewPtrDeleteGroupsRequest(), v)
			req.Groups = []string{"a", "busy", "b", "a"}
			id := c.send(req)
			if held {
				eventually(t, "both deletions wait", func() bool { return fake.waiting() == 2 })
				fake.release()
			}
			resp := c.receive(req, id).(*kmsg.DeleteGroupsResponse)
			got := map[string]int16{}
			for _, g := range resp.Groups {
				got[g.Group] = g.ErrorCode
			}
			want := map[string]int16{"a": 0, "busy": errcode.NonEmptyGroup.Kafka(), "b": errcode.UnauthorizedGroup.Kafka()}
			if diff := cmp.Diff(want, got); diff != "" || len(resp.Groups) != 3 {
				t.Errorf("version %d: -want +got\n%s", v, diff)
			}
			if diff := cmp.Diff([]groups.Key{groupKey("a"), groupKey("busy")}, noted(fake, &fake.deleted)); diff != "" {
				t.Errorf("version %d: -want +got\n%s", v, diff)
			}
		}
	}
}

// TestJoinWaits: the answer of a join may come at any time; the connection goes on reading, and answers keep their order.
func TestJoinWaits(t *testing.T) {
	h, fake := newGroupHarness(t, nil)
	c := h.dial()
	fake.set(func() { fake.hold, fake.join = true, groups.JoinResult{Generation: 1, MemberID: "m"} })
	join := at(kmsg.NewPtrJoinGroupRequest(), 5)
	join.Group = "a"
	first := c.send(join)
	heartbeat := at(kmsg.NewPtrHeartbeatRequest(), 3)
	heartbeat.Group = "a"
	second := c.send(heartbeat)
	eventually(t, "the heartbeat behind it is handled", func() bool {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		return len(fake.held) == 1 && len(fake.heartbeats) == 1
	})
	c.wantSilent()
	fake.release()
	if got := c.receive(join, first).(*kmsg.JoinGroupResponse); got.ErrorCode != 0 || got.MemberID != "m" {
		t.Errorf("got %+v", got)
	}
	c.receive(heartbeat, second)
}

// TestServerClosesOnWaitingGroups: who waits is told to look for another coordinator, and an answer that comes later is dropped.
func TestServerClosesOnWaitingGroups(t *testing.T) {
	h, fake := newGroupHarness(t, nil)
	h.node.add("default", "t", 1)
	fake.set(func() { fake.hold = true })
	join, sync := at(kmsg.NewPtrJoinGroupRequest(), 5), at(kmsg.NewPtrSyncGroupRequest(), 3)
	leave, drop := at(kmsg.NewPtrLeaveGroupRequest(), 1), at(kmsg.NewPtrDeleteGroupsRequest(), 2)
	commit := at(kmsg.NewPtrOffsetCommitRequest(), 8)
	join.Group, sync.Group, leave.Group, drop.Groups, commit.Group = "a", "a", "a", []string{"a"}, "a"
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	c := h.dial()
	all := []kmsg.Request{join, sync, leave, drop, commit}
	for _, req := range all {
		c.send(req)
	}
	eventually(t, "all wait", func() bool { return fake.waiting() == len(all) })
	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		closed <- h.srv.Close(ctx)
	}()
	for i, req := range all {
		var got int16
		switch resp := c.receive(req, int32(i+1)).(type) {
		case *kmsg.JoinGroupResponse:
			got = resp.ErrorCode
		case *kmsg.SyncGroupResponse:
			got = resp.ErrorCode
		case *kmsg.LeaveGroupResponse:
			got = resp.ErrorCode
		case *kmsg.DeleteGroupsResponse:
			got = resp.Groups[0].ErrorCode
		case *kmsg.OffsetCommitResponse:
			got = resp.Topics[0].Partitions[0].ErrorCode
		}
		wantCode(t, fmt.Sprintf("%T", req), got, errcode.NotCoordinator)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	fake.release()
}

// TestClientLeavesWhileItWaits: the connection is forgotten at once, and the coordinator's answer goes nowhere.
func TestClientLeavesWhileItWaits(t *testing.T) {
	h, fake := newGroupHarness(t, nil)
	fake.set(func() { fake.hold = true })
	c := h.dial()
	join := at(kmsg.NewPtrJoinGroupRequest(), 5)
	join.Group = "a"
	c.send(join)
	eventually(t, "it waits", func() bool { return fake.waiting() == 1 })
	if err := c.nc.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is in flight", func() bool { return h.srv.metrics.inFlight.Load() == 0 })
	eventually(t, "the connection is forgotten", func() bool {
		h.srv.mu.Lock()
		defer h.srv.mu.Unlock()
		return h.srv.conns.n == 0
	})
	fake.release()
}

// TestLaterAnswersOnce lets all that may end a waiting request race.
func TestLaterAnswersOnce(t *testing.T) {
	for range 50 {
		h, fake := newGroupHarness(t, nil)
		fake.set(func() { fake.hold = true })
		c := h.dial()
		join := at(kmsg.NewPtrJoinGroupRequest(), 5)
		join.Group = "a"
		for range 4 {
			c.send(join)
		}
		eventually(t, "all wait", func() bool { return fake.waiting() == 4 })
		done := make(chan struct{}, 3)
		go func() { fake.release(); done <- struct{}{} }()
		go func() { _ = c.nc.Close(); done <- struct{}{} }()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := h.srv.Close(ctx); err != nil {
				t.Error(err)
			}
			done <- struct{}{}
		}()
		for range 3 {
			<-done
		}
	}
}

func offsetCommitFor(version int16, group string, topics ...kmsg.OffsetCommitRequestTopic) *kmsg.OffsetCommitRequest {
	req := at(kmsg.NewPtrOffsetCommitRequest(), version)
	req.Group, req.Topics = group, topics
	return req
}

func commitOf(name string, id ids.TopicID, partitions ...int32) kmsg.OffsetCommitRequestTopic {
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = name, id
	for _, n := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = n, 100+int64(n), 7, pointer("note")
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

func TestOffsetCommit(t *testing.T) {
	h, fake := newGroupHarness(t, func(o *Options) {
		o.Anonymous = &Caller{Tenant: testTenant, Rights: rights{
			"group.consume /a": true, "stream.subscribe default/t": true, "stream.subscribe default/gone": true, "stream.publish default/denied": true,
		}}
	})
	topic, denied := h.node.add("default", "t", 2), h.node.add("default", "denied", 1)
	foreign := &cluster.Topic{Tenant: "t2", Namespace: "default", Name: "t", Durable: true}
	h.node.put(foreign, 1)
	c := h.dial()
	for v := int16(2); v <= 10; v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			fake.set(func() { fake.commits, fake.each, fake.err = nil, []error{nil, groups.ErrOffsetMetadataTooLarge}, nil })
			req := offsetCommitFor(v, "a",
				commitOf("t", topic.ID, 0, 5, 1, -1), commitOf("gone", ids.TopicID{1: 9}, 0), commitOf("denied", denied.ID, 0), commitOf(".", foreign.ID, 0))
			req.MemberID, req.Generation, req.InstanceID, req.RetentionTimeMillis = "m", 3, pointer("i"), 1000
			resp := c.ask(req).(*kmsg.OffsetCommitResponse)
			var got [][]int16
			for i := range resp.Topics {
				got = append(got, nil)
				for j := range resp.Topics[i].Partitions {
					got[i] = append(got[i], resp.Topics[i].Partitions[j].ErrorCode)
				}
			}
			missing := int16(3)
			if v >= 10 {
				missing = 100
			}
			want := [][]int16{{0, 3, 12, 3}, {missing}, {29}, {missing}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			epoch, retention, instance := int32(-1), int64(-1), ""
			if v >= 6 {
				epoch = 7
			}
			if v <= 4 {
				retention = 1000
			}
			if v >= 7 {
				instance = "i"
			}
			commit := groups.CommitRequest{
				Key: groupKey("a"), MemberID: "m", InstanceID: instance, Generation: 3, RetentionMs: retention,
				Offsets: []groups.OffsetCommit{
					{Topic: topic.ID, Partition: 0, Offset: 100, LeaderEpoch: epoch, Metadata: "note"},
					{Topic: topic.ID, Partition: 1, Offset: 101, LeaderEpoch: epoch, Metadata: "note"},
				},
			}
			if diff := cmp.Diff([]groups.CommitRequest{commit}, noted(fake, &fake.commits)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if v < 10 && resp.Topics[0].Topic != "t" || v >= 10 && ids.TopicID(resp.Topics[0].TopicID) != topic.ID {
				t.Errorf("topic %+v", resp.Topics[0])
			}
			fake.set(func() { fake.err = groups.ErrIllegalGeneration })
			resp = c.ask(req).(*kmsg.OffsetCommitResponse)
			wantCode(t, "refused as a whole", resp.Topics[0].Partitions[0].ErrorCode, errcode.IllegalGeneration)
			wantCode(t, "what is not there stays so", resp.Topics[0].Partitions[1].ErrorCode, errcode.UnknownShard)
		})
	}
}

func TestOffsetFetch(t *testing.T) {
	h, fake := newGroupHarness(t, func(o *Options) {
		o.Anonymous = &Caller{Tenant: testTenant, Rights: rights{
			"group.consume /a": true, "group.consume /new": true, "stream.subscribe default/t": true, "stream.subscribe default/gone": true,
		}}
	})
	topic, denied := h.node.add("default", "t", 2), h.node.add("default", "denied", 1)
	gone := ids.TopicID{1: 9}
	fake.set(func() { fake.offsets[groupKey("a")] = map[groups.TopicPartition]groups.CommittedOffset{} })
	fake.set(func() {
		for i, id := range []ids.TopicID{topic.ID, denied.ID, gone} {
			fake.offsets[groupKey("a")][groups.TopicPartition{Topic: id, Partition: 1}] = groups.CommittedOffset{
				Topic: id, Partition: 1, Offset: 100 + int64(i), LeaderEpoch: 7, Metadata: "note",
			}
		}
	})
	c := h.dial()
	type part struct {
		Topic     string
		Partition int32
		Offset    int64
		Epoch     int32
		Metadata  string
		Code      int16
	}
	// fetch asks for one group and returns its code and partitions, whatever the version.
	fetch := func(t *testing.T, v int16, group string, all bool, partitions ...int32) (int16, []part) {
		t.Helper()
		req := at(kmsg.NewPtrOffsetFetchRequest(), v)
		asked := kmsg.NewOffsetFetchRequestGroup()
		asked.Group = group
		req.Group = group
		if !all {
			for _, tp := range []struct {
				name string
				id   ids.TopicID
			}{{"t", topic.ID}, {"gone", gone}, {"denied", denied.ID}} {
				req.Topics = append(req.Topics, kmsg.OffsetFetchRequestTopic{Topic: tp.name, Partitions: partitions})
				asked.Topics = append(asked.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: tp.name, TopicID: tp.id, Partitions: partitions})
			}
		}
		req.Groups = []kmsg.OffsetFetchRequestGroup{asked}
		resp := c.ask(req).(*kmsg.OffsetFetchResponse)
		code, list := resp.ErrorCode, []part(nil)
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				list = append(list, part{rt.Topic, p.Partition, p.Offset, p.LeaderEpoch, plain(p.Metadata), p.ErrorCode})
			}
		}
		if v >= 8 {
			if len(resp.Groups) != 1 || resp.Groups[0].Group != group {
				t.Fatalf("got %+v", resp.Groups)
			}
			code = resp.Groups[0].ErrorCode
			for _, rt := range resp.Groups[0].Topics {
				name := rt.Topic
				if v >= 10 {
					name = map[ids.TopicID]string{topic.ID: "t", gone: "gone", denied.ID: "denied"}[rt.TopicID]
				}
				for _, p := range rt.Partitions {
					list = append(list, part{name, p.Partition, p.Offset, p.LeaderEpoch, plain(p.Metadata), p.ErrorCode})
				}
			}
		}
		return code, list
	}
	for v := int16(1); v <= 10; v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			fake.set(func() { fake.err = nil })
			epoch, missing := int32(-1), int16(0)
			if v >= 5 {
				epoch = 7
			}
			if v >= 10 {
				missing = 100
			}
			code, got := fetch(t, v, "a", false, 1, 0, 1)
			want := []part{
				{"t", 1, 100, epoch, "note", 0},
				{"t", 0, -1, -1, "", 0},
				{"gone", 1, -1, -1, "", missing},
				{"gone", 0, -1, -1, "", missing},
				{"denied", 1, -1, -1, "", 29},
				{"denied", 0, -1, -1, "", 29},
			}
			if diff := cmp.Diff(want, got); diff != "" || code != 0 {
				t.Errorf("asked: code %d, -want +got\n%s", code, diff)
			}
			if code, got = fetch(t, v, "new", false, 0); code != 0 || got[0] != (part{"t", 0, -1, -1, "", 0}) {
				t.Errorf("a group that never was: %d, %+v", code, got)
			}
			if v >= 2 {
				code, got = fetch(t, v, "a", true)
				if diff := cmp.Diff([]part{{"t", 1, 100, epoch, "note", 0}}, got); diff != "" || code != 0 {
					t.Errorf("all: code %d, -want +got\n%s", code, diff)
				}
			}
			refusals := map[string]errcode.Kind{"denied": errcode.UnauthorizedGroup, "a": errcode.CoordinatorLoading}
			fake.set(func() { fake.err = groups.ErrLoading })
			for group, kind := range refusals {
				code, got = fetch(t, v, group, false, 0)
				if v == 1 {
					if len(got) != 3 || got[0] != (part{"t", 0, -1, -1, "", kind.Kafka()}) {
						t.Errorf("%s: %+v", group, got)
					}
				} else if wantCode(t, group, code, kind); len(got) != 0 {
					t.Errorf("%s: %+v", group, got)
				}
			}
		})
	}
}

// TestOffsetFetchOfSeveralGroups: each group has its own outcome, and one that is named twice is answered once.
func TestOffsetFetchOfSeveralGroups(t *testing.T) {
	h, fake := newGroupHarness(t, func(o *Options) {
		o.Anonymous = &Caller{Tenant: testTenant, Rights: rights{"group.consume /a": true, "stream.subscribe default/t": true}}
	})
	topic := h.node.add("default", "t", 1)
	fake.set(func() {
		fake.offsets[groupKey("a")] = map[groups.TopicPartition]groups.CommittedOffset{
			{Topic: topic.ID}: {Topic: topic.ID, Offset: 5, LeaderEpoch: -1},
		}
	})
	for v := int16(8); v <= 10; v++ {
		req := at(kmsg.NewPtrOffsetFetchRequest(), v)
		for _, name := range []string{"a", "denied", "a"} {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = name
			req.Groups = append(req.Groups, g)
		}
		resp := h.dial().ask(req).(*kmsg.OffsetFetchResponse)
		if len(resp.Groups) != 2 || resp.Groups[0].ErrorCode != 0 || resp.Groups[0].Topics[0].Partitions[0].Offset != 5 {
			t.Fatalf("got %+v", resp.Groups)
		}
		wantCode(t, "denied", resp.Groups[1].ErrorCode, errcode.UnauthorizedGroup)
	}
}

// TestOffsetFetchSeesCommitsBefore: a client that does not wait for the answer to its commit reads what it wrote.
func TestOffsetFetchSeesCommitsBefore(t *testing.T) {
	h, fake := newGroupHarness(t, nil)
	topic := h.node.add("default", "t", 1)
	fake.set(func() { fake.hold = true })
	c := h.dial()
	commit := offsetCommitFor(8, "a", commitOf("t", topic.ID, 0))
	fetch := at(kmsg.NewPtrOffsetFetchRequest(), 7)
	fetch.Group = "a"
	first, second := c.send(commit), c.send(fetch)
	eventually(t, "the commit waits", func() bool { return fake.waiting() == 1 })
	c.wantSilent()
	fake.release()
	c.receive(commit, first)
	if got := c.receive(fetch, second).(*kmsg.OffsetFetchResponse); len(got.Topics) != 1 || got.Topics[0].Partitions[0].Offset != 100 {
		t.Errorf("got %+v", got)
	}
	// A connection that ends meanwhile does not keep its reader.
	fake.set(func() { fake.hold = true })
	c.send(commit)
	c.send(fetch)
	eventually(t, "the second commit waits", func() bool { return fake.waiting() == 1 })
}

func TestOffsetDelete(t *testing.T) {
	h, fake := newGroupHarness(t, func(o *Options) {
		o.Anonymous = &Caller{Tenant: testTenant, Rights: rights{"group.manage /a": true, "stream.subscribe default/t": true}}
	})
	h.node.add("default", "t", 2)
	c := h.dial()
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "a"
	for _, name := range []string{"t", "denied"} {
		req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 7}, {Partition: 1}}})
	}
	fake.set(func() { fake.each = []error{nil, groups.ErrSubscribedToTopic} })
	resp := c.ask(req).(*kmsg.OffsetDeleteResponse)
	var got []int16
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			got = append(got, p.ErrorCode)
		}
	}
	if diff := cmp.Diff([]int16{0, 3, 86, 29, 29, 29}, got); diff != "" || resp.ErrorCode != 0 {
		t.Errorf("code %d, -want +got\n%s", resp.ErrorCode, diff)
	}
	fake.set(func() { fake.err = groups.ErrNonEmptyGroup })
	resp = c.ask(req).(*kmsg.OffsetDeleteResponse)
	if wantCode(t, "the group's error", resp.ErrorCode, errcode.NonEmptyGroup); len(resp.Topics) != 0 {
		t.Errorf("got %+v", resp)
	}
	req.Topics = nil
	wantCode(t, "no topics", c.ask(req).(*kmsg.OffsetDeleteResponse).ErrorCode, errcode.NonEmptyGroup)
}

// TestOutcome keeps a coordinator that answers for fewer than it was asked from being an index out of range.
func TestOutcome(t *testing.T) {
	failed := errors.New("x")
	o := outcome{each: []error{failed}}
	if !errors.Is(o.of(0), failed) || o.of(1) != nil {
		t.Error("outcomes of items are mixed up")
	}
	if all := (&outcome{err: failed}); !errors.Is(all.of(3), failed) {
		t.Error("the outcome of all is not that of one")
	}
}
