package raw_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var _ = register(
	Case{ID: "63.v3", What: "JoinGroup v0 to v3 with an empty member id, first and again with the id", Want: "joined directly with an id made of client id and more; generation 1, then the leader rejoins into 2"},
	Case{ID: "63.v4", What: "JoinGroup v4 to v9 with an empty member id, then with the id", Want: "MEMBER_ID_REQUIRED (79) with an id made of client id and more, generation -1; then generation 1"},
	Case{ID: "T06.never-79", What: "JoinGroup v0 to v3 with an empty member id into a group with members", Want: "never MEMBER_ID_REQUIRED (79); an id each"},
	Case{ID: "T06.id", What: "the member id in MEMBER_ID_REQUIRED (79), twice asked", Want: "two different ids, never empty"},
	Case{ID: "63.no-group", What: "JoinGroup with an empty group id", Want: "INVALID_GROUP_ID (24)"},
	Case{ID: "63.session", What: "session timeouts of 5999 ms, 1800001 ms, 6000 ms, 1800000 ms", Want: "INVALID_SESSION_TIMEOUT (26); INVALID_SESSION_TIMEOUT (26); 0; 0"},
	Case{ID: "63.no-protocol", What: "JoinGroup without protocols; with an empty protocol type", Want: "INCONSISTENT_GROUP_PROTOCOL (23); INCONSISTENT_GROUP_PROTOCOL (23)"},
	Case{ID: "63.type", What: "protocol type differs from the group's", Want: "INCONSISTENT_GROUP_PROTOCOL (23)"},
	Case{ID: "63.common", What: "no protocol name in common with all members", Want: "INCONSISTENT_GROUP_PROTOCOL (23)"},
	Case{ID: "63.not-common", What: "a protocol that only some of the members have, offered by a third", Want: "INCONSISTENT_GROUP_PROTOCOL (23)"},
	Case{ID: "63.unknown", What: "unknown member id: in a group with members, in one that never existed", Want: "UNKNOWN_MEMBER_ID (25); UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "63.refused", What: "the refusal of an unknown member id in v0 to v9", Want: "generation -1, no protocol, no leader, no members, the member id as sent"},
	Case{ID: "63.pending", What: "heartbeat and sync with an id from 79 that has not joined", Want: "UNKNOWN_MEMBER_ID (25); UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "63.forgotten", What: "an id from 79 used after its session timeout", Want: "UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "63.leader", What: "Stable, the leader rejoins unchanged", Want: "rebalance: held until the others rejoined, generation 3"},
	Case{ID: "63.follower", What: "Stable, a follower rejoins unchanged", Want: "generation 2 at once, leader named, no members; Stable"},
	Case{ID: "63.changed", What: "Stable, a follower rejoins with changed metadata", Want: "rebalance: held until the others rejoined, generation 3; the leader sees the change"},
	Case{ID: "63.completing", What: "CompletingRebalance, leader and follower rejoin unchanged (lost answers)", Want: "generation 2 at once with 2 members; generation 2 at once with 0 members"},
	Case{ID: "63.members", What: "the list of members, three members, two protocols", Want: "leader: all with the metadata of the chosen protocol; others: empty"},
	Case{ID: "63.protocol", What: "protocol chosen: a member offers a,b, two offer b,a, one of them c too", Want: "b"},
	Case{ID: "63.held", What: "a join of a third member while the group is Stable", Want: "held; PreparingRebalance; one generation for all three when the others rejoined"},
	Case{ID: "63.timeout", What: "v1 and later, rebalance timeout 1 s, session 30 s: a member does not rejoin", Want: "the others go on after the rebalance timeout; it is unknown: UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "63.timeout-v0", What: "v0, session timeout 6 s: a member heartbeats and does not rejoin", Want: "the others go on after the session timeout; it is unknown: UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "63.type-and-name", What: "protocol type and name in answers: v6, v7", Want: "<null> range; consumer range"},
	Case{ID: "63.empty-again", What: "all members leave, another joins", Want: "Empty; generation 3"},
	Case{ID: "63.other-type", What: "a group that became Empty is joined with another protocol type", Want: "0 connect"},
)

// idOfClient says whether a member id is what a server makes: the client id, a dash, and something that nobody can guess.
func idOfClient(id string) string {
	if rest, ok := strings.CutPrefix(id, "raw-"); ok && len(rest) >= 16 {
		return "an id made of client id and more"
	}
	return "id " + id
}

// same returns the one text that all versions gave, or all of them.
func same(byVersion map[int16]string) string {
	var all []string
	different := map[string]bool{}
	for version := range int16(20) {
		if text, ok := byVersion[version]; ok {
			all = append(all, fmt.Sprintf("v%d: %s", version, text))
			different[text] = true
		}
	}
	if len(different) == 1 {
		for text := range different {
			return text
		}
	}
	return strings.Join(all, "; ")
}

func TestCase63GroupJoinByVersion(t *testing.T) {
	got := map[int16]string{}
	for version := range int16(4) {
		m := newMember(t, newGroup(t))
		m.version = version
		first := do[*kmsg.JoinGroupResponse](m.client, m.joinRequest())
		m.noError("join", first.ErrorCode)
		m.id, m.generation, m.leader = first.MemberID, first.Generation, true
		settle([]*member{m})
		second := m.mustJoin()
		got[version] = fmt.Sprintf("joined directly with %s; generation %d, then the leader rejoins into %d",
			idOfClient(first.MemberID), first.Generation, second.Generation)
		if first.LeaderID != first.MemberID || second.MemberID != first.MemberID || len(first.Members) != 1 {
			got[version] = fmt.Sprintf("%+v, %+v", first, second)
		}
	}
	expect(t, "63.v3", same(got))
	got = map[int16]string{}
	for version := int16(4); version <= 9; version++ {
		m := newMember(t, newGroup(t))
		m.version = version
		first := do[*kmsg.JoinGroupResponse](m.client, m.joinRequest())
		m.id = first.MemberID
		second := m.mustJoin()
		got[version] = fmt.Sprintf("%s with %s, generation %d; then generation %d",
			name(first.ErrorCode), idOfClient(first.MemberID), first.Generation, second.Generation)
		if second.MemberID != first.MemberID || second.LeaderID != second.MemberID || len(second.Members) != 1 {
			got[version] = fmt.Sprintf("%+v", second)
		}
	}
	expect(t, "63.v4", same(got))
}

func TestTrap06GroupMemberIDRequired(t *testing.T) {
	group := newGroup(t)
	members := []*member{newMember(t, group)}
	members[0].mustJoin()
	settle(members)
	for version := range int16(4) {
		m := newMember(t, group)
		m.version = version
		m.beginJoin()
		members = append(members, m)
	}
	dial(t).awaitState(group, "PreparingRebalance", 5)
	members[0].beginJoin()
	ids := map[string]bool{}
	got := "never MEMBER_ID_REQUIRED (79); an id each"
	for _, m := range members {
		if resp := m.endJoin(); resp.ErrorCode != 0 || resp.MemberID == "" || ids[resp.MemberID] {
			got = fmt.Sprintf("v%d: %s, id %q", m.version, name(resp.ErrorCode), resp.MemberID)
		}
		ids[m.id] = true
	}
	expect(t, "T06.never-79", got)

	first, second := newMember(t, group).admit(), newMember(t, group).admit()
	got = "two different ids, never empty"
	if first.id == second.id {
		got = "twice " + first.id
	}
	expect(t, "T06.id", got)
}

func TestCase63GroupJoinRefusals(t *testing.T) {
	m := newMember(t, "")
	expect(t, "63.no-group", name(do[*kmsg.JoinGroupResponse](m.client, m.joinRequest()).ErrorCode))

	var codes []int16
	for _, ms := range []int{5999, 1_800_001, 6000, 1_800_000} {
		m := newMember(t, newGroup(t))
		m.session = time.Duration(ms) * time.Millisecond
		req := m.joinRequest()
		req.Version = 3
		codes = append(codes, do[*kmsg.JoinGroupResponse](m.client, req).ErrorCode)
	}
	expect(t, "63.session", names(codes...))

	none, untyped := newMember(t, newGroup(t)), newMember(t, newGroup(t))
	none.version, none.protocols = 3, nil
	untyped.version, untyped.protocolType = 3, ""
	expect(t, "63.no-protocol", names(none.join().ErrorCode, untyped.join().ErrorCode))

	members := form(t, 2, func(i int, m *member) {
		if i == 0 {
			m.offer("x", "", "y", "")
		} else {
			m.offer("x", "", "z", "")
		}
	})
	group := members[0].group
	stranger := newMember(t, group)
	stranger.version = 3 // answered as it is, not with an id first
	stranger.offer("x", "")
	stranger.protocolType = "connect"
	expect(t, "63.type", name(stranger.join().ErrorCode))
	stranger = newMember(t, group)
	stranger.version = 3
	stranger.offer("w", "")
	expect(t, "63.common", name(stranger.join().ErrorCode))
	stranger.offer("z", "", "y", "")
	expect(t, "63.not-common", name(stranger.join().ErrorCode))

	stranger.id = "nobody"
	stranger.offer("x", "")
	elsewhere := newMember(t, newGroup(t))
	elsewhere.id = "nobody"
	expect(t, "63.unknown", names(stranger.join().ErrorCode, elsewhere.join().ErrorCode))
	got := map[int16]string{}
	for version := range int16(10) {
		stranger.version = version
		resp := stranger.join()
		got[version] = "generation -1, no protocol, no leader, no members, the member id as sent"
		protocol := resp.Protocol == nil || *resp.Protocol == ""
		if resp.ErrorCode != 25 || resp.Generation != -1 || !protocol || resp.ProtocolType != nil || resp.LeaderID != "" ||
			resp.MemberID != "nobody" || len(resp.Members) > 0 || resp.SkipAssignment {
			got[version] = fmt.Sprintf("%s, %s %s, %+v", name(resp.ErrorCode), str(resp.ProtocolType), str(resp.Protocol), resp)
		}
	}
	expect(t, "63.refused", same(got))
	if d := dial(t).describe(group); d.State != "Stable" || len(d.Members) != 2 {
		t.Errorf("after refusals only: %s with %d members", d.State, len(d.Members))
	}

	pending := newMember(t, group)
	pending.offer("x", "")
	pending.admit()
	pending.generation = members[0].generation
	expect(t, "63.pending", names(pending.beat(pending.client), pending.sync(nil).ErrorCode))
}

func TestCase63GroupForgottenID(t *testing.T) {
	t.Parallel()
	members := form(t, 1, nil)
	m := newMember(t, members[0].group)
	m.session = 6 * time.Second
	m.admit()
	c := dial(t)
	// Nothing shows from outside that the id was forgotten, save that the leader's rejoin no longer waits for it.
	members[0].beginJoin()
	ticking(t, "the leader's rejoin", members[0].answered, func() { members[0].beat(c) })
	members[0].noError("join", members[0].endJoin().ErrorCode)
	expect(t, "63.forgotten", name(m.join().ErrorCode))
}

// rebalanced has the others rejoin whom a member that has begun a join waits for, and describes what happened.
func rebalanced(c *client, who *member, all []*member) string {
	c.t.Helper()
	got := "rebalance"
	c.awaitState(who.group, "PreparingRebalance", len(all))
	if who.silent() {
		got += ": held until the others rejoined"
	}
	regather(all)
	return fmt.Sprintf("%s, generation %d", got, who.generation)
}

func TestCase63GroupRejoin(t *testing.T) {
	c := dial(t)
	members := form(t, 2, nil)
	members[0].beginJoin()
	expect(t, "63.leader", rebalanced(c, members[0], members))

	members = form(t, 2, nil)
	resp := members[1].join()
	got := fmt.Sprintf("generation %d at once", resp.Generation)
	if resp.ErrorCode == 0 && resp.LeaderID == members[0].id && str(resp.Protocol) == "range" {
		got += ", leader named"
	}
	if len(resp.Members) == 0 {
		got += ", no members"
	}
	expect(t, "63.follower", got+"; "+c.describe(members[0].group).State)

	members[1].offer("range", string(subscription("changed")))
	members[1].beginJoin()
	got = "rebalance"
	c.awaitState(members[1].group, "PreparingRebalance", 2)
	if members[1].silent() {
		got += ": held until the others rejoined"
	}
	seen := "the leader does not see the change"
	lead := members[0].mustJoin()
	for _, m := range lead.Members {
		if m.MemberID == members[1].id && string(m.ProtocolMetadata) == string(subscription("changed")) {
			seen = "the leader sees the change"
		}
	}
	expect(t, "63.changed", fmt.Sprintf("%s, generation %d; %s", got, members[1].endJoin().Generation, seen))
	settle(members)

	members = gather(t, newGroup(t), 2, nil)
	again, follower := members[0].join(), members[1].join()
	expect(t, "63.completing", fmt.Sprintf("generation %d at once with %d members; generation %d at once with %d members",
		again.Generation, len(again.Members), follower.Generation, len(follower.Members)))
	settle(members)
}

func TestCase63GroupJoinResult(t *testing.T) {
	c := dial(t)
	group := newGroup(t)
	offers := [][]string{{"a", "a of 0", "b", "b of 0"}, {"b", "b of 1", "a", "a of 1"}, {"b", "b of 2", "a", "a of 2", "c", ""}}
	members := make([]*member, len(offers))
	for i := range members {
		members[i] = newMember(t, group)
		members[i].protocolType = "custom"
		members[i].offer(offers[i]...)
	}
	members[0].mustJoin()
	settle(members[:1])
	for _, m := range members[1:] {
		m.beginJoin()
	}
	c.awaitState(group, "PreparingRebalance", 3)
	got := "not held"
	if members[1].silent() && members[2].silent() {
		got = "held; " + c.describe(group).State
	}
	lead := members[0].mustJoin()
	others := []*kmsg.JoinGroupResponse{members[1].endJoin(), members[2].endJoin()}
	if g := lead.Generation; others[0].Generation == g && others[1].Generation == g {
		got += "; one generation for all three when the others rejoined"
	}
	expect(t, "63.held", got)
	expect(t, "63.protocol", str(lead.Protocol))

	got = "leader: all with the metadata of the chosen protocol"
	if len(lead.Members) != 3 {
		got = fmt.Sprintf("leader: %d members", len(lead.Members))
	}
	for _, m := range lead.Members {
		i := slices.IndexFunc(members, func(x *member) bool { return x.id == m.MemberID })
		if want := fmt.Sprintf("b of %d", i); string(m.ProtocolMetadata) != want || m.InstanceID != nil {
			got = fmt.Sprintf("leader: %q for %s", m.ProtocolMetadata, want)
		}
	}
	if len(others[0].Members)+len(others[1].Members) == 0 {
		got += "; others: empty"
	}
	expect(t, "63.members", got)

	six, seven := newMember(t, newGroup(t)), newMember(t, newGroup(t))
	six.version, seven.version = 6, 7
	a, b := six.mustJoin(), seven.mustJoin()
	expect(t, "63.type-and-name", fmt.Sprintf("%s %s; %s %s", str(a.ProtocolType), str(a.Protocol), str(b.ProtocolType), str(b.Protocol)))

	members = form(t, 1, nil)
	if got := left(c.leave(members[0].group, members[0].id)); got != "0 [0]" {
		t.Fatal(got)
	}
	got = c.describe(members[0].group).State
	next := newMember(t, members[0].group)
	expect(t, "63.empty-again", fmt.Sprintf("%s; generation %d", got, next.mustJoin().Generation))
	c.leave(next.group, next.id)
	next = newMember(t, members[0].group)
	next.protocolType = "connect"
	next.offer("default", "")
	resp := next.join()
	expect(t, "63.other-type", fmt.Sprintf("%s %s", name(resp.ErrorCode), str(resp.ProtocolType)))
}

func TestCase63GroupRebalanceTimeout(t *testing.T) {
	c := dial(t)
	members := form(t, 2, func(_ int, m *member) { m.rebalance = time.Second })
	absent := members[0]
	members[1].offer("range", string(subscription("changed")))
	members[1].beginJoin()
	c.awaitState(absent.group, "PreparingRebalance", 2)
	took := ticking(t, "the rebalance timeout", members[1].answered, func() { absent.beat(c) })
	expect(t, "63.timeout", withoutTheAbsent(c, members[1], absent, took, "rebalance", time.Second))
}

func TestCase63GroupRebalanceTimeoutV0(t *testing.T) {
	t.Parallel()
	c := dial(t)
	members := form(t, 2, func(_ int, m *member) {
		m.version, m.session, m.rebalance = 0, 6*time.Second, time.Second
	})
	absent := members[0]
	members[1].offer("range", string(subscription("changed")))
	members[1].beginJoin()
	c.awaitState(absent.group, "PreparingRebalance", 2)
	took := ticking(t, "the session timeout", members[1].answered, func() { absent.beat(c) })
	expect(t, "63.timeout-v0", withoutTheAbsent(c, members[1], absent, took, "session", 6*time.Second))
}

// withoutTheAbsent describes a join that ended because of a timeout.
func withoutTheAbsent(c *client, m, absent *member, took time.Duration, which string, timeout time.Duration) string {
	c.t.Helper()
	resp := m.endJoin()
	if resp.ErrorCode != 0 || !m.leader || len(resp.Members) != 1 {
		return fmt.Sprintf("%s, leader %v, %d members", name(resp.ErrorCode), m.leader, len(resp.Members))
	}
	// The timeout ran before ticking began, by as much as it took to see the state.
	if took < timeout*8/10 || took > timeout+5*time.Second {
		return fmt.Sprintf("the others go on after %v", took)
	}
	return fmt.Sprintf("the others go on after the %s timeout; it is unknown: %s", which, name(absent.beat(c)))
}
