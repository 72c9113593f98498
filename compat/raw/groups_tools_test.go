package raw_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var _ = register(
	Case{ID: "71.list", What: "ListGroups v5: a group with members, one that they left, one with only offsets", Want: "consumer Stable classic; consumer Empty classic; \"\" Empty classic"},
	Case{ID: "71.list-v3", What: "ListGroups v3, the same groups", Want: "consumer; consumer; \"\""},
	Case{ID: "71.list-rebalance", What: "ListGroups v4 in PreparingRebalance and in CompletingRebalance", Want: "PreparingRebalance; CompletingRebalance"},
	Case{ID: "71.list-states", What: "ListGroups v4 with the states Empty; stable; Dead; an unknown one; none", Want: "empty and offsets; members; none; none; all"},
	Case{ID: "71.list-types", What: "ListGroups v5 with the types classic; Classic and Stable; consumer", Want: "all; members; none"},
	Case{ID: "71.describe", What: "DescribeGroups v5, Stable", Want: "Stable consumer range: client id, host with a slash, metadata and assignment as stored"},
	Case{ID: "71.describe-rebalance", What: "DescribeGroups v5 in PreparingRebalance; in CompletingRebalance", Want: "PreparingRebalance consumer \"\", 2 members without metadata, with assignment; CompletingRebalance consumer \"\", 2 members without metadata, with assignment"},
	Case{ID: "71.describe-empty", What: "DescribeGroups v5 of a group that all left; of one with only offsets", Want: "Empty consumer \"\", 0 members; Empty \"\" \"\", 0 members"},
	Case{ID: "71.describe-many", What: "DescribeGroups v6 with a group and one that never existed", Want: "0 Stable; GROUP_ID_NOT_FOUND (69) Dead"},
	Case{ID: "71.describe-operations", What: "DescribeGroups v3 with and without the permitted operations", Want: "READ, DELETE, DESCRIBE and more; -2147483648"},
	Case{ID: "T27.dead", What: "DescribeGroups v0 to v5 of a group that never existed", Want: "0 Dead \"\" \"\", 0 members"},
	Case{ID: "T27.not-found", What: "DescribeGroups v6 of a group that never existed", Want: "GROUP_ID_NOT_FOUND (69) with a sentence, Dead"},
	Case{ID: "71.delete", What: "DeleteGroups: with members; never existed; Empty with offsets; the last one again", Want: "NON_EMPTY_GROUP (68); GROUP_ID_NOT_FOUND (69); 0; GROUP_ID_NOT_FOUND (69)"},
	Case{ID: "71.deleted", What: "after DeleteGroups: DescribeGroups v6, OffsetFetch, ListGroups, a commit from outside", Want: "GROUP_ID_NOT_FOUND (69); -1; not listed; 0"},
	Case{ID: "71.delete-offsets", What: "OffsetDelete from a Stable group: a topic that it subscribes to, one that it does not", Want: "0: GROUP_SUBSCRIBED_TO_TOPIC (86); 0; offsets 1, -1"},
	Case{ID: "71.delete-offsets-empty", What: "OffsetDelete from an Empty group, a partition with and one without an offset", Want: "0: 0; 0; offset -1"},
	Case{ID: "71.delete-offsets-refused", What: "OffsetDelete: group that never existed; a topic that does not exist", Want: "GROUP_ID_NOT_FOUND (69); UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "71.delete-offsets-type", What: "OffsetDelete from a group with members that are not consumers", Want: "NON_EMPTY_GROUP (68)"},
	Case{ID: "71.reset", What: "OffsetCommit with generation -1 on a group that its members have left", Want: "fetched 0"},
	Case{ID: "T38.connect", What: "protocol type connect with arbitrary bytes as metadata and assignment, two members", Want: "joined, assigned and described byte for byte"},
	Case{ID: "T38.consumer", What: "protocol type consumer with metadata that is none: empty; ff ff; version 7 with more bytes", Want: "joined, assigned and described byte for byte"},
	Case{
		ID: "T38.large-count", What: "protocol type consumer with metadata that promises 2^31-1 topics", Want: "joined, assigned and described byte for byte",
		OnlyFelix: "Kafka 4.3.1 looks into it, fails, and leaves the join without an answer",
	},
	Case{ID: "T38.delete-offsets", What: "OffsetDelete from a Stable group whose consumer metadata cannot be read", Want: "GROUP_SUBSCRIBED_TO_TOPIC (86)"},
)

// listGroups is ListGroups, by group id.
func (c *client) listGroups(version int16, states, types []string) map[string]kmsg.ListGroupsResponseGroup {
	c.t.Helper()
	req := kmsg.NewPtrListGroupsRequest()
	req.Version, req.StatesFilter, req.TypesFilter = version, states, types
	resp := do[*kmsg.ListGroupsResponse](c, req)
	if resp.ErrorCode != 0 {
		c.t.Fatalf("list groups: %s", name(resp.ErrorCode))
	}
	out := map[string]kmsg.ListGroupsResponseGroup{}
	for _, g := range resp.Groups {
		if _, twice := out[g.Group]; twice {
			c.t.Errorf("%s is listed twice", g.Group)
		}
		out[g.Group] = g
	}
	return out
}

func TestCase71GroupList(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	members := form(t, 1, nil)
	gone := form(t, 1, nil)[0]
	c.leave(gone.group, gone.id)
	offsets := newGroup(t)
	c.mustCommit(offsets, topic, map[int32]int64{0: 1})
	groups := []string{members[0].group, gone.group, offsets}
	text := func(listed map[string]kmsg.ListGroupsResponseGroup, field func(kmsg.ListGroupsResponseGroup) string) string {
		var out []string
		for _, group := range groups {
			if g, ok := listed[group]; ok {
				out = append(out, field(g))
			} else {
				out = append(out, "not listed")
			}
		}
		return strings.Join(out, "; ")
	}
	kind := func(g kmsg.ListGroupsResponseGroup) string {
		if g.ProtocolType == "" {
			return `""`
		}
		return g.ProtocolType
	}
	expect(t, "71.list", text(c.listGroups(5, nil, nil), func(g kmsg.ListGroupsResponseGroup) string {
		return kind(g) + " " + g.GroupState + " " + g.GroupType
	}))
	expect(t, "71.list-v3", text(c.listGroups(3, nil, nil), kind))

	which := func(listed map[string]kmsg.ListGroupsResponseGroup) string {
		var out []string
		for i, what := range []string{"members", "empty", "offsets"} {
			if _, ok := listed[groups[i]]; ok {
				out = append(out, what)
			}
		}
		switch len(out) {
		case 0:
			return "none"
		case 3:
			return "all"
		default:
			return strings.Join(out, " and ")
		}
	}
	var got []string
	for _, state := range []string{"Empty", "stable", "Dead", "Asleep"} {
		got = append(got, which(c.listGroups(4, []string{state}, nil)))
	}
	expect(t, "71.list-states", strings.Join(append(got, which(c.listGroups(4, nil, nil))), "; "))
	expect(t, "71.list-types", strings.Join([]string{
		which(c.listGroups(5, nil, []string{"classic"})), which(c.listGroups(5, []string{"Stable"}, []string{"Classic"})),
		which(c.listGroups(5, nil, []string{"consumer"})),
	}, "; "))

	members[0].beginJoin()
	members[0].noError("join", members[0].endJoin().ErrorCode)
	completing := c.listGroups(4, nil, nil)[members[0].group].GroupState
	settle(members)
	second := newMember(t, members[0].group)
	second.beginJoin()
	c.awaitState(second.group, "PreparingRebalance", 2)
	expect(t, "71.list-rebalance", c.listGroups(4, nil, nil)[second.group].GroupState+"; "+completing)
}

// described is what DescribeGroups says of a group as a whole.
func described(g kmsg.DescribeGroupsResponseGroup) string {
	has := map[bool]string{true: "with", false: "without"}
	data := ""
	for _, m := range g.Members {
		data = fmt.Sprintf(" %s metadata, %s assignment", has[len(m.ProtocolMetadata) > 0], has[len(m.MemberAssignment) > 0])
	}
	kind := g.ProtocolType
	if kind == "" {
		kind = `""`
	}
	return fmt.Sprintf("%s %s %q, %d members%s", g.State, kind, g.Protocol, len(g.Members), data)
}

func TestCase71GroupDescribe(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	members := form(t, 2, nil)
	group := members[0].group
	d := c.describe(group)
	got := fmt.Sprintf("%s %s %s: ", d.State, d.ProtocolType, d.Protocol)
	for i, m := range members {
		at := slices.IndexFunc(d.Members, func(x kmsg.DescribeGroupsResponseGroupMember) bool { return x.MemberID == m.id })
		if at < 0 {
			t.Fatalf("member %d is not described", i)
		}
		x := d.Members[at]
		if x.ClientID != "raw" || x.ClientHost != "/127.0.0.1" || x.InstanceID != nil ||
			string(x.ProtocolMetadata) != string(subscription()) || string(x.MemberAssignment) != fmt.Sprintf("part %d", i) {
			got = fmt.Sprintf("%+v", x)
		}
	}
	expect(t, "71.describe", got+"client id, host with a slash, metadata and assignment as stored")

	req := kmsg.NewPtrDescribeGroupsRequest()
	missing := newGroup(t)
	req.Version, req.Groups = 6, []string{group, missing}
	states := map[string]string{}
	for _, g := range do[*kmsg.DescribeGroupsResponse](c, req).Groups {
		states[g.Group] = name(g.ErrorCode) + " " + g.State
	}
	expect(t, "71.describe-many", states[group]+"; "+states[missing])

	req.Version, req.Groups = 3, []string{group}
	without := do[*kmsg.DescribeGroupsResponse](c, req).Groups[0].AuthorizedOperations
	req.IncludeAuthorizedOperations = true
	with := do[*kmsg.DescribeGroupsResponse](c, req).Groups[0].AuthorizedOperations
	const readDeleteDescribe = 1<<3 | 1<<6 | 1<<8
	got = fmt.Sprintf("%b", with)
	if with >= 0 && with&readDeleteDescribe == readDeleteDescribe {
		got = "READ, DELETE, DESCRIBE and more"
	}
	expect(t, "71.describe-operations", fmt.Sprintf("%s; %d", got, without))

	members[0].beginJoin()
	c.awaitState(group, "PreparingRebalance", 2)
	got = described(c.describe(group))
	regather(members)
	expect(t, "71.describe-rebalance", got+"; "+described(c.describe(group)))
	settle(members)
	c.leave(group, members[0].id, members[1].id)
	offsets := newGroup(t)
	c.mustCommit(offsets, topic, map[int32]int64{0: 1})
	expect(t, "71.describe-empty", described(c.describe(group))+"; "+described(c.describe(offsets)))
}

func TestTrap27GroupDead(t *testing.T) {
	c := dial(t)
	missing := newGroup(t)
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{missing}
	got := map[int16]string{}
	for version := range int16(6) {
		req.Version = version
		g := do[*kmsg.DescribeGroupsResponse](c, req).Groups[0]
		got[version] = name(g.ErrorCode) + " " + described(g)
	}
	expect(t, "T27.dead", same(got))
	req.Version = 6
	g := do[*kmsg.DescribeGroupsResponse](c, req).Groups[0]
	text := name(g.ErrorCode)
	if g.ErrorMessage != nil && len(*g.ErrorMessage) > 10 {
		text += " with a sentence"
	}
	expect(t, "T27.not-found", text+", "+g.State)
}

// deleteGroups is DeleteGroups v2; the errors are in the order of the request.
func (c *client) deleteGroups(groups ...string) []int16 {
	c.t.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version, req.Groups = 2, groups
	answers := map[string]int16{}
	for _, g := range do[*kmsg.DeleteGroupsResponse](c, req).Groups {
		answers[g.Group] = g.ErrorCode
	}
	var codes []int16
	for _, group := range groups {
		code, ok := answers[group]
		if !ok {
			c.t.Fatalf("no answer about %s", group)
		}
		codes = append(codes, code)
	}
	return codes
}

func TestCase71GroupDelete(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	active, empty := form(t, 1, nil)[0], form(t, 1, nil)[0]
	c.leave(empty.group, empty.id)
	c.mustCommit(empty.group, topic, map[int32]int64{0: 1})
	codes := c.deleteGroups(active.group, newGroup(t), empty.group)
	expect(t, "71.delete", names(append(codes, c.deleteGroups(empty.group)...)...))

	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 6, []string{empty.group}
	code := do[*kmsg.DescribeGroupsResponse](c, req).Groups[0].ErrorCode
	listed := "not listed"
	if _, ok := c.listGroups(5, nil, nil)[empty.group]; ok {
		listed = "listed"
	}
	offset := c.fetched(empty.group, topic, 0)
	again := c.commit(commitRequest(8, empty.group, topic, map[int32]int64{0: 2}))
	expect(t, "71.deleted", fmt.Sprintf("%s; %d; %s; %s", name(code), offset, listed, names(again...)))
}

// offsetDelete is OffsetDelete of partition 0 of each topic: the group's error and the topics' in the order of the request.
func (c *client) offsetDelete(group string, topics ...string) (int16, []int16) {
	c.t.Helper()
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	for _, topic := range topics {
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = topic
		rt.Partitions = append(rt.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
	}
	resp := do[*kmsg.OffsetDeleteResponse](c, req)
	var codes []int16
	for _, topic := range topics {
		for _, rt := range resp.Topics {
			if rt.Topic == topic {
				for _, p := range rt.Partitions {
					codes = append(codes, p.ErrorCode)
				}
			}
		}
	}
	return resp.ErrorCode, codes
}

func TestCase71GroupOffsetDelete(t *testing.T) {
	c := dial(t)
	subscribed, other := c.topic(1), c.topic(1)
	m := form(t, 1, func(_ int, m *member) { m.offer("range", string(subscription(subscribed))) })[0]
	for _, topic := range []string{subscribed, other} {
		req := commitRequest(8, m.group, topic, map[int32]int64{0: 1})
		req.MemberID, req.Generation = m.id, m.generation
		if code := c.commit(req)[0]; code != 0 {
			t.Fatal(name(code))
		}
	}
	code, codes := c.offsetDelete(m.group, subscribed, other)
	expect(t, "71.delete-offsets", fmt.Sprintf("%s: %s; offsets %d, %d", name(code), names(codes...),
		c.fetched(m.group, subscribed, 0), c.fetched(m.group, other, 0)))
	c.leave(m.group, m.id)
	code, codes = c.offsetDelete(m.group, subscribed, other)
	expect(t, "71.delete-offsets-empty", fmt.Sprintf("%s: %s; offset %d", name(code), names(codes...), c.fetched(m.group, subscribed, 0)))
	code, _ = c.offsetDelete(newGroup(t), subscribed)
	_, codes = c.offsetDelete(m.group, newName(t))
	expect(t, "71.delete-offsets-refused", name(code)+"; "+names(codes...))
	connect := form(t, 1, func(_ int, m *member) { m.protocolType = "connect" })[0]
	code, codes = c.offsetDelete(connect.group, subscribed)
	expect(t, "71.delete-offsets-type", names(append([]int16{code}, codes...)...))
	c.mustCommit(m.group, subscribed, map[int32]int64{0: 0})
	expect(t, "71.reset", fmt.Sprintf("fetched %d", c.fetched(m.group, subscribed, 0)))
}

// opaque has two members of a protocol type join with some metadata and get a part that is no consumer assignment either.
func opaque(t *testing.T, protocolType, metadata string) (string, *member) {
	t.Helper()
	c := dial(t)
	group := newGroup(t)
	members := []*member{newMember(t, group), newMember(t, group)}
	for _, m := range members {
		m.protocolType = protocolType
		m.offer("p", metadata)
	}
	if resp := members[0].join(); resp.ErrorCode != 0 {
		return "join: " + name(resp.ErrorCode), members[0]
	}
	members[1].beginJoin()
	c.awaitState(group, "PreparingRebalance", 2)
	lead := members[0].mustJoin()
	members[1].noError("join", members[1].endJoin().ErrorCode)
	for _, m := range lead.Members {
		if string(m.ProtocolMetadata) != metadata {
			return fmt.Sprintf("the leader sees %q", m.ProtocolMetadata), members[0]
		}
	}
	part := "\xff\x00part\xfe"
	if s := members[0].sync(map[string]string{members[0].id: part, members[1].id: part}); s.ErrorCode != 0 {
		return "sync: " + name(s.ErrorCode), members[0]
	}
	for _, m := range members {
		if s := m.sync(nil); s.ErrorCode != 0 || string(s.MemberAssignment) != part {
			return fmt.Sprintf("sync: %s, %q", name(s.ErrorCode), s.MemberAssignment), m
		}
	}
	for _, m := range c.describe(group).Members {
		if string(m.ProtocolMetadata) != metadata || string(m.MemberAssignment) != part {
			return fmt.Sprintf("described with %q, %q", m.ProtocolMetadata, m.MemberAssignment), members[0]
		}
	}
	return "joined, assigned and described byte for byte", members[0]
}

func TestTrap38GroupOpaqueBytes(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	got, _ := opaque(t, "connect", "\x00\x01\xff\xfe\x00\x00any bytes")
	expect(t, "T38.connect", got)
	texts := map[int16]string{}
	for i, metadata := range []string{"", "\xff\xff", "\x00\x07" + string(subscription("a")[2:]) + "more"} {
		got, _ := opaque(t, "consumer", metadata)
		texts[int16(i)] = got
	}
	expect(t, "T38.consumer", same(texts))
	if !onlyFelix(t, "T38.large-count") {
		got, _ = opaque(t, "consumer", "\x00\x01\x7f\xff\xff\xff")
		expect(t, "T38.large-count", got)
	}

	_, m := opaque(t, "consumer", "\xff\xff")
	req := commitRequest(8, m.group, topic, map[int32]int64{0: 1})
	req.MemberID, req.Generation = m.id, m.generation
	c.commit(req)
	code, codes := c.offsetDelete(m.group, topic)
	if code != 0 {
		codes = append(codes, code)
	}
	expect(t, "T38.delete-offsets", names(codes...))
}
