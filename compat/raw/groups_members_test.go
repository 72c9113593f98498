package raw_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var _ = register(
	Case{ID: "64.heartbeat-stable", What: "Heartbeat in Stable: right; older and newer generation; unknown member; unknown group; empty group id", Want: "0; ILLEGAL_GENERATION (22); ILLEGAL_GENERATION (22); UNKNOWN_MEMBER_ID (25); UNKNOWN_MEMBER_ID (25); INVALID_GROUP_ID (24)"},
	Case{ID: "64.heartbeat-preparing", What: "Heartbeat in PreparingRebalance", Want: "REBALANCE_IN_PROGRESS (27)"},
	Case{ID: "64.heartbeat-completing", What: "Heartbeat in CompletingRebalance", Want: "0"},
	Case{ID: "64.heartbeat-empty", What: "Heartbeat of a member that left: group Empty", Want: "UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "64.sync-wrong", What: "SyncGroup: unknown member, older and newer generation, empty group id", Want: "UNKNOWN_MEMBER_ID (25); ILLEGAL_GENERATION (22); ILLEGAL_GENERATION (22); INVALID_GROUP_ID (24)"},
	Case{ID: "64.sync-protocol", What: "SyncGroup v5 with another protocol type; another protocol name; neither", Want: "INCONSISTENT_GROUP_PROTOCOL (23); INCONSISTENT_GROUP_PROTOCOL (23); INCONSISTENT_GROUP_PROTOCOL (23)"},
	Case{ID: "64.sync-preparing", What: "SyncGroup in PreparingRebalance", Want: "REBALANCE_IN_PROGRESS (27)"},
	Case{ID: "64.sync-waits", What: "CompletingRebalance, a follower syncs before the leader", Want: "held; then its part"},
	Case{ID: "64.sync-unnamed", What: "a member whom the leader did not name", Want: "0, 0 bytes"},
	Case{ID: "64.sync-stable", What: "SyncGroup in Stable, by follower and by leader with other assignments", Want: "the current assignment; the current assignment"},
	Case{ID: "64.sync-result", What: "protocol type and name in the answer of v5", Want: "consumer range"},
	Case{ID: "64.sync-pending", What: "the leader does not sync within the rebalance timeout of 1 s", Want: "the follower's sync: REBALANCE_IN_PROGRESS (27); the leader: UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "64.commit", What: "OffsetCommit in Stable: right; older and newer generation; unknown member", Want: "0; ILLEGAL_GENERATION (22); ILLEGAL_GENERATION (22); UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "64.commit-preparing", What: "OffsetCommit in PreparingRebalance by a member of the last generation", Want: "0"},
	Case{ID: "64.commit-completing", What: "OffsetCommit in CompletingRebalance: generation of the coming assignment", Want: "REBALANCE_IN_PROGRESS (27)"},
	Case{ID: "67.killed", What: "a member is gone without leave while the others wait in JoinGroup (session timeout 6 s)", Want: "the others go on after the session timeout; it is unknown: UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "67.expired", What: "a member of a Stable group is silent for its session timeout", Want: "the other is told to rejoin after the session timeout; 1 member in generation 3"},
	Case{ID: "67.sessions", What: "8 s with a session timeout of 6 s: only heartbeats; only commits; waiting in JoinGroup; waiting in SyncGroup", Want: "all four still members"},
	Case{ID: "67.connection", What: "all connections of a member are lost", Want: "still a member: heartbeat from another connection 0"},
	Case{ID: "67.leave", What: "LeaveGroup v5 of a member in Stable", Want: "0 [0]; the other: REBALANCE_IN_PROGRESS (27)"},
	Case{ID: "67.leave-list", What: "LeaveGroup v5 with a member, the same again, and nobody", Want: "0 [0; UNKNOWN_MEMBER_ID (25); UNKNOWN_MEMBER_ID (25)]"},
	Case{ID: "67.leave-wrong", What: "LeaveGroup v5: empty group id; group that never existed", Want: "INVALID_GROUP_ID (24) []; 0 [UNKNOWN_MEMBER_ID (25)]"},
	Case{ID: "67.leave-v2", What: "LeaveGroup v2: a member, the same again", Want: "0; UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "67.leave-leader", What: "the leader leaves", Want: "the other leads generation 3"},
	Case{ID: "67.empty", What: "the last member leaves", Want: "Empty, 0 members"},
	Case{ID: "T28.leave", What: "a member leaves in PreparingRebalance, the last one that a held join waited for", Want: "the join completes at once: generation 3 with 2 members"},
	Case{ID: "T28.pending", What: "an id from 79 leaves, the last one that a held join waited for", Want: "0 [0]; the join completes at once: generation 2"},
	Case{ID: "T28.leave-completing", What: "a member leaves in CompletingRebalance while another waits in sync", Want: "the sync: REBALANCE_IN_PROGRESS (27); the others rejoin, generation 3"},
)

func TestCase64GroupHeartbeat(t *testing.T) {
	c := dial(t)
	members := form(t, 2, nil)
	m, group := members[1], members[0].group
	g := m.generation
	expect(t, "64.heartbeat-stable", names(m.beat(c), c.heartbeat(group, m.id, nil, g-1), c.heartbeat(group, m.id, nil, g+1),
		c.heartbeat(group, "nobody", nil, g), c.heartbeat(newGroup(t), m.id, nil, g), c.heartbeat("", m.id, nil, g)))
	members[0].beginJoin()
	c.awaitState(group, "PreparingRebalance", 2)
	expect(t, "64.heartbeat-preparing", name(m.beat(c)))
	regather(members)
	expect(t, "64.heartbeat-completing", name(m.beat(c)))
	settle(members)
	c.leave(group, members[0].id, members[1].id)
	expect(t, "64.heartbeat-empty", name(m.beat(c)))
}

func TestCase64GroupSync(t *testing.T) {
	c := dial(t)
	members := gather(t, newGroup(t), 3, nil)
	leader, m, unnamed := members[0], members[1], members[2]
	wrong := func(change func(*kmsg.SyncGroupRequest)) int16 {
		req := m.syncRequest(nil)
		change(req)
		return do[*kmsg.SyncGroupResponse](c, req).ErrorCode
	}
	expect(t, "64.sync-wrong", names(
		wrong(func(r *kmsg.SyncGroupRequest) { r.MemberID = "nobody" }),
		wrong(func(r *kmsg.SyncGroupRequest) { r.Generation-- }),
		wrong(func(r *kmsg.SyncGroupRequest) { r.Generation++ }),
		wrong(func(r *kmsg.SyncGroupRequest) { r.Group = "" }),
	))
	m.beginSync(nil)
	got := "not held"
	if m.silent() {
		got = "held"
	}
	parts := map[string]string{leader.id: "lead", m.id: "follow"}
	leader.noError("sync", leader.sync(parts).ErrorCode)
	resp := m.endSync()
	if resp.ErrorCode == 0 && string(resp.MemberAssignment) == "follow" {
		got += "; then its part"
	}
	expect(t, "64.sync-waits", got)
	expect(t, "64.sync-result", str(resp.ProtocolType)+" "+str(resp.Protocol))
	none := unnamed.sync(nil)
	expect(t, "64.sync-unnamed", fmt.Sprintf("%s, %d bytes", name(none.ErrorCode), len(none.MemberAssignment)))
	current := func(resp *kmsg.SyncGroupResponse, want string) string {
		if resp.ErrorCode == 0 && string(resp.MemberAssignment) == want {
			return "the current assignment"
		}
		return fmt.Sprintf("%s, %q", name(resp.ErrorCode), resp.MemberAssignment)
	}
	again := leader.sync(map[string]string{leader.id: "other", m.id: "other"})
	expect(t, "64.sync-stable", current(m.sync(nil), "follow")+"; "+current(again, "lead"))
	other := "other"
	expect(t, "64.sync-protocol", names(
		wrong(func(r *kmsg.SyncGroupRequest) { r.ProtocolType = &other }),
		wrong(func(r *kmsg.SyncGroupRequest) { r.Protocol = &other }),
		wrong(func(r *kmsg.SyncGroupRequest) { r.ProtocolType, r.Protocol = nil, nil }),
	))

	leader.beginJoin()
	c.awaitState(leader.group, "PreparingRebalance", 3)
	expect(t, "64.sync-preparing", name(m.sync(nil).ErrorCode))
}

func TestCase64GroupPendingSync(t *testing.T) {
	c := dial(t)
	members := gather(t, newGroup(t), 2, func(_ int, m *member) { m.rebalance = time.Second })
	members[1].beginSync(nil)
	code := members[1].endSync().ErrorCode
	expect(t, "64.sync-pending", fmt.Sprintf("the follower's sync: %s; the leader: %s", name(code), name(members[0].beat(c))))
}

func TestCase64GroupCommit(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	members := form(t, 2, nil)
	m := members[1]
	commit := func(id string, generation int32) int16 {
		req := commitRequest(8, m.group, topic, map[int32]int64{0: 7})
		req.MemberID, req.Generation = id, generation
		return c.commit(req)[0]
	}
	g := m.generation
	expect(t, "64.commit", names(commit(m.id, g), commit(m.id, g-1), commit(m.id, g+1), commit("nobody", g)))
	members[0].beginJoin()
	c.awaitState(m.group, "PreparingRebalance", 2)
	expect(t, "64.commit-preparing", name(commit(m.id, g)))
	regather(members)
	expect(t, "64.commit-completing", name(commit(m.id, m.generation)))
	settle(members)
}

func TestCase67GroupMemberKilled(t *testing.T) {
	t.Parallel()
	c := dial(t)
	members := form(t, 3, func(_ int, m *member) { m.session = 6 * time.Second })
	begin := time.Now()
	if err := members[2].Close(); err != nil {
		t.Fatal(err)
	}
	members[0].beginJoin()
	c.awaitState(members[0].group, "PreparingRebalance", 3)
	members[1].beginJoin()
	resp := members[0].endJoin()
	if other := members[1].endJoin(); resp.ErrorCode != 0 || other.ErrorCode != 0 || len(resp.Members) != 2 || resp.Generation != other.Generation {
		t.Fatalf("%s, %s, %d members, generations %d, %d", name(resp.ErrorCode), name(other.ErrorCode), len(resp.Members), resp.Generation, other.Generation)
	}
	got := fmt.Sprintf("the others go on after %v", time.Since(begin))
	if d := time.Since(begin); d > 5*time.Second && d < 11*time.Second {
		got = "the others go on after the session timeout"
	}
	expect(t, "67.killed", fmt.Sprintf("%s; it is unknown: %s", got, name(members[2].beat(c))))
}

func TestCase67GroupMemberSilent(t *testing.T) {
	t.Parallel()
	c := dial(t)
	members := form(t, 2, func(_ int, m *member) { m.session = 6 * time.Second })
	var code int16
	took := ticking(t, "the silent member's session", func() bool { return code != 0 }, func() { code = members[0].beat(c) })
	got := fmt.Sprintf("%s after %v", name(code), took)
	if code == 27 && took > 5*time.Second && took < 11*time.Second {
		got = "the other is told to rejoin after the session timeout"
	}
	resp := members[0].join()
	expect(t, "67.expired", fmt.Sprintf("%s; %d member in generation %d", got, len(resp.Members), resp.Generation))
}

func TestCase67GroupSessions(t *testing.T) {
	t.Parallel()
	c := dial(t)
	topic := c.topic(1)
	short := func(_ int, m *member) { m.session = 6 * time.Second }
	// In each group the first member's session is long, so that only the second one's may end.
	second := func(i int, m *member) {
		if i == 1 {
			m.session = 6 * time.Second
		}
	}
	beating, committing := form(t, 1, short)[0], form(t, 1, short)[0]
	joining, syncing := form(t, 2, second), gather(t, newGroup(t), 2, second)
	joining[1].offer("range", string(subscription("changed")))
	joining[1].beginJoin()
	syncing[1].beginSync(nil)
	begin := time.Now()
	ticking(t, "eight seconds", func() bool { return time.Since(begin) > 8*time.Second }, func() {
		if code := beating.beat(c); code != 0 {
			t.Fatalf("heartbeat after %v: %s", time.Since(begin), name(code))
		}
		req := commitRequest(8, committing.group, topic, map[int32]int64{0: 1})
		req.MemberID, req.Generation = committing.id, committing.generation
		if code := c.commit(req)[0]; code != 0 {
			t.Fatalf("commit after %v: %s", time.Since(begin), name(code))
		}
	})
	got := "all four still members"
	if joining[1].answered() || syncing[1].answered() {
		got = fmt.Sprintf("answered: join %v, sync %v", joining[1].answered(), syncing[1].answered())
	}
	regather(joining)
	settle(joining)
	parts := map[string]string{syncing[1].id: "x"}
	syncing[0].noError("sync", syncing[0].sync(parts).ErrorCode)
	syncing[1].noError("sync", syncing[1].endSync().ErrorCode)
	expect(t, "67.sessions", got)
}

func TestCase67GroupConnectionLost(t *testing.T) {
	c := dial(t)
	members := form(t, 2, nil)
	for _, m := range members {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := names(members[0].beat(c), members[1].beat(c))
	if d := c.describe(members[0].group); got == "0; 0" && d.State == "Stable" && len(d.Members) == 2 {
		got = "still a member: heartbeat from another connection 0"
	}
	expect(t, "67.connection", got)
}

func TestCase67GroupLeave(t *testing.T) {
	c := dial(t)
	members := form(t, 2, nil)
	group := members[0].group
	expect(t, "67.leave", fmt.Sprintf("%s; the other: %s", left(c.leave(group, members[0].id)), name(members[1].beat(c))))
	resp := members[1].mustJoin()
	got := fmt.Sprintf("leader %s", resp.LeaderID)
	if members[1].leader && len(resp.Members) == 1 {
		got = fmt.Sprintf("the other leads generation %d", resp.Generation)
	}
	expect(t, "67.leave-leader", got)
	settle(members[1:])
	expect(t, "67.leave-list", left(c.leave(group, members[1].id, members[1].id, "nobody")))
	d := c.describe(group)
	expect(t, "67.empty", fmt.Sprintf("%s, %d members", d.State, len(d.Members)))
	expect(t, "67.leave-wrong", left(c.leave("", "nobody"))+"; "+left(c.leave(newGroup(t), "nobody")))

	m := form(t, 1, nil)[0]
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = 2, m.group, m.id
	first, second := do[*kmsg.LeaveGroupResponse](c, req), do[*kmsg.LeaveGroupResponse](c, req)
	expect(t, "67.leave-v2", names(first.ErrorCode, second.ErrorCode))
}

func TestTrap28GroupLeave(t *testing.T) {
	c := dial(t)
	members := form(t, 3, nil)
	group := members[0].group
	members[0].beginJoin()
	c.awaitState(group, "PreparingRebalance", 3)
	members[1].beginJoin()
	if !members[0].silent() || !members[1].silent() {
		t.Error("the joins did not wait for the third member")
	}
	c.leave(group, members[2].id)
	resp := members[0].endJoin()
	members[1].noError("join", members[1].endJoin().ErrorCode)
	expect(t, "T28.leave", fmt.Sprintf("the join completes at once: generation %d with %d members", resp.Generation, len(resp.Members)))

	members[1].beginSync(nil)
	left3 := members[0]
	c.leave(group, left3.id)
	code := members[1].endSync().ErrorCode
	if code != 27 {
		t.Errorf("sync of a group whose leader left: %s", name(code))
	}

	members = form(t, 1, nil)
	group = members[0].group
	pending := newMember(t, group).admit()
	members[0].beginJoin()
	c.awaitState(group, "PreparingRebalance", 1)
	if !members[0].silent() {
		t.Error("the join did not wait for the member with an id from 79")
	}
	got := left(c.leave(group, pending.id))
	expect(t, "T28.pending", fmt.Sprintf("%s; the join completes at once: generation %d", got, members[0].endJoin().Generation))

	members = gather(t, newGroup(t), 3, nil)
	members[1].beginSync(nil)
	c.leave(members[0].group, members[2].id)
	code = members[1].endSync().ErrorCode
	regather(members[:2])
	settle(members[:2])
	expect(t, "T28.leave-completing", fmt.Sprintf("the sync: %s; the others rejoin, generation %d", name(code), members[0].generation))
}
