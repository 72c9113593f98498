package raw_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var _ = register(
	Case{ID: "65.join", What: "JoinGroup v5 to v9 with an instance id and an empty member id", Want: "joined directly, never 79"},
	Case{ID: "65.restart", What: "static follower joins with an empty member id, Stable, unchanged subscription", Want: "a new id, generation 2 at once; its assignment by sync; heartbeat of the other 0; Stable"},
	Case{ID: "65.fenced", What: "the old member id with its instance id: heartbeat, sync, commit, join, leave", Want: "FENCED_INSTANCE_ID (82); FENCED_INSTANCE_ID (82); FENCED_INSTANCE_ID (82); FENCED_INSTANCE_ID (82); FENCED_INSTANCE_ID (82)"},
	Case{ID: "65.old-id", What: "the old member id without an instance id: heartbeat, join", Want: "UNKNOWN_MEMBER_ID (25); UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "65.leader-v8", What: "static leader restarts, JoinGroup v8", Want: "0; leader: the old id; 0 members; Stable"},
	Case{ID: "65.leader-v9", What: "static leader restarts, JoinGroup v9", Want: "0; leader: itself; 2 members, assignment to be skipped; Stable"},
	Case{ID: "65.changed", What: "static follower restarts with other metadata of the chosen protocol", Want: "generation 2 at once"},
	Case{ID: "65.protocol", What: "static follower restarts without the protocol that was chosen", Want: "rebalance, generation 3 with the other one"},
	Case{ID: "65.unknown-instance", What: "join with a member id of another: instance id that nobody has", Want: "UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "65.list", What: "instance ids in the leader's list and in DescribeGroups", Want: "leader: [a b]; described: [a b]"},
	Case{ID: "65.leave", What: "LeaveGroup by instance id: of a member, of nobody", Want: "0 [0; UNKNOWN_MEMBER_ID (25)]"},
	Case{ID: "65.dynamic", What: "a dynamic and a static member in one group", Want: "one generation"},
	Case{ID: "T28.static", What: "static member restarts in CompletingRebalance while the others wait in sync", Want: "the others: REBALANCE_IN_PROGRESS (27); they rejoin and sync, generation 3"},
	Case{ID: "T28.static-waiting", What: "static member restarts while its own join is held", Want: "the old join: FENCED_INSTANCE_ID (82); rebalance completes, generation 2"},
)

// restarted is the same static member as its client comes back: on a new connection, without a member id.
func (m *member) restarted() *member {
	m.t.Helper()
	again := *m
	again.client, again.id, again.generation, again.waiting = dial(m.t), "", -1, nil
	return &again
}

// twoStatic is a Stable group of the static members a, which leads, and b.
func twoStatic(t *testing.T) []*member {
	t.Helper()
	return form(t, 2, func(i int, m *member) { m.static([]string{"a", "b"}[i]) })
}

func TestCase65GroupStaticJoin(t *testing.T) {
	got := map[int16]string{}
	for version := int16(5); version <= 9; version++ {
		m := newMember(t, newGroup(t)).static("x")
		m.version = version
		resp := do[*kmsg.JoinGroupResponse](m.client, m.joinRequest())
		got[version] = name(resp.ErrorCode)
		if resp.ErrorCode == 0 && resp.MemberID != "" && resp.LeaderID == resp.MemberID && len(resp.Members) == 1 && str(resp.Members[0].InstanceID) == "x" {
			got[version] = "joined directly, never 79"
		}
	}
	expect(t, "65.join", same(got))

	members := form(t, 2, func(i int, m *member) {
		if i == 1 {
			m.static("x")
		}
	})
	expect(t, "65.dynamic", map[bool]string{true: "one generation"}[members[0].generation == members[1].generation])
}

func TestCase65GroupStaticRestart(t *testing.T) {
	c := dial(t)
	members := twoStatic(t)
	group, old := members[0].group, members[1]
	again := old.restarted()
	resp := again.join()
	got := fmt.Sprintf("generation %d at once", resp.Generation)
	if resp.ErrorCode == 0 && resp.MemberID != old.id && len(resp.Members) == 0 && resp.LeaderID == members[0].id {
		got = "a new id, " + got
	}
	if s := again.sync(nil); s.ErrorCode == 0 && string(s.MemberAssignment) == "part 1" {
		got += "; its assignment by sync"
	}
	got += fmt.Sprintf("; heartbeat of the other %s; %s", name(members[0].beat(c)), c.describe(group).State)
	expect(t, "65.restart", got)

	topic := c.topic(1)
	commit := commitRequest(8, group, topic, map[int32]int64{0: 1})
	commit.MemberID, commit.InstanceID, commit.Generation = old.id, old.instance, old.generation
	leaving := kmsg.NewPtrLeaveGroupRequest()
	leaving.Version, leaving.Group = 5, group
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID, lm.InstanceID = old.id, old.instance
	leaving.Members = append(leaving.Members, lm)
	expect(t, "65.fenced", names(old.beat(c), old.sync(nil).ErrorCode, c.commit(commit)[0], old.join().ErrorCode,
		do[*kmsg.LeaveGroupResponse](c, leaving).Members[0].ErrorCode))
	old.instance = nil
	expect(t, "65.old-id", names(old.beat(c), old.join().ErrorCode))
	nobody := newMember(t, group).static("nobody")
	nobody.id = again.id
	expect(t, "65.unknown-instance", name(nobody.join().ErrorCode))

	again = again.restarted()
	again.offer("range", string(subscription("changed")))
	again.beginJoin()
	await(t, "an answer or a rebalance", func() bool { return again.answered() || c.describe(group).State == "PreparingRebalance" })
	if !again.answered() {
		t.Fatal("a static member with other metadata begins a rebalance")
	}
	expect(t, "65.changed", fmt.Sprintf("generation %d at once", again.endJoin().Generation))
	again.noError("sync", again.sync(nil).ErrorCode)

	expect(t, "65.leave", left(c.leave(group, "instance:b", "instance:nobody")))
	if code := again.beat(c); code != 25 {
		t.Errorf("heartbeat after leaving: %s", name(code))
	}
}

func TestCase65GroupStaticProtocol(t *testing.T) {
	members := form(t, 2, func(i int, m *member) {
		m.static([]string{"a", "b"}[i]).offer("x", string(subscription()), "y", string(subscription()))
	})
	members[1] = members[1].restarted()
	members[1].offer("y", string(subscription()))
	members[1].beginJoin()
	dial(t).awaitState(members[0].group, "PreparingRebalance", 2)
	resp := members[0].join()
	members[1].noError("join", members[1].endJoin().ErrorCode)
	got := fmt.Sprintf("rebalance, generation %d", resp.Generation)
	if str(resp.Protocol) == "y" {
		got += " with the other one"
	}
	expect(t, "65.protocol", got)
}

func TestCase65GroupStaticLeaderRestart(t *testing.T) {
	c := dial(t)
	for _, version := range []int16{8, 9} {
		members := twoStatic(t)
		again := members[0].restarted()
		again.version = version
		resp := again.join()
		leader := resp.LeaderID
		switch leader {
		case members[0].id:
			leader = "the old id"
		case again.id:
			leader = "itself"
		}
		got := fmt.Sprintf("%s; leader: %s; %d members", name(resp.ErrorCode), leader, len(resp.Members))
		if resp.SkipAssignment {
			got += ", assignment to be skipped"
		}
		if s := again.sync(nil); s.ErrorCode != 0 || string(s.MemberAssignment) != "part 0" {
			got += fmt.Sprintf("; sync: %s, %q", name(s.ErrorCode), s.MemberAssignment)
		}
		expect(t, fmt.Sprintf("65.leader-v%d", version), got+"; "+c.describe(again.group).State)
	}
}

func TestCase65GroupInstanceIDs(t *testing.T) {
	c := dial(t)
	members := twoStatic(t)
	members[0].beginJoin()
	c.awaitState(members[0].group, "PreparingRebalance", 2)
	members[1].beginJoin()
	var listed, described []string
	for _, m := range members[0].endJoin().Members {
		listed = append(listed, str(m.InstanceID))
	}
	members[1].noError("join", members[1].endJoin().ErrorCode)
	settle(members)
	for _, m := range c.describe(members[0].group).Members {
		described = append(described, str(m.InstanceID))
	}
	slices.Sort(listed)
	slices.Sort(described)
	expect(t, "65.list", fmt.Sprintf("leader: %v; described: %v", listed, described))
}

func TestTrap28GroupStaticRejoins(t *testing.T) {
	c := dial(t)
	configure := func(i int, m *member) { m.static([]string{"a", "b", "c"}[i]) }
	members := gather(t, newGroup(t), 3, configure)
	members[1].beginSync(nil)
	members[2] = members[2].restarted()
	members[2].beginJoin()
	code := members[1].endSync().ErrorCode
	if state := c.describe(members[0].group).State; state != "PreparingRebalance" {
		t.Errorf("after the restart the group is %s", state)
	}
	regather(members)
	settle(members)
	expect(t, "T28.static", fmt.Sprintf("the others: %s; they rejoin and sync, generation %d", name(code), members[0].generation))

	group := newGroup(t)
	members = []*member{newMember(t, group).static("a"), newMember(t, group).static("b")}
	members[0].mustJoin()
	settle(members[:1])
	members[1].beginJoin()
	c.awaitState(group, "PreparingRebalance", 2)
	old := members[1]
	members[1] = old.restarted()
	members[1].beginJoin()
	got := fmt.Sprintf("the old join: %s", name(old.endJoin().ErrorCode))
	regather(members)
	settle(members)
	expect(t, "T28.static-waiting", fmt.Sprintf("%s; rebalance completes, generation %d", got, members[0].generation))
}
