package raw_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var _ = register(
	Case{ID: "68.unknown-group", What: "OffsetFetch v1 to v10 for a group that never existed, partitions 0 and 7 of a topic", Want: `0; 0: -1 epoch -1 "" 0; 7: -1 epoch -1 "" 0`},
	Case{ID: "68.nothing", What: "OffsetFetch for a partition without a committed offset beside one with", Want: `0; 0: 5 epoch 0 "" 0; 1: -1 epoch -1 "" 0`},
	Case{ID: "68.all", What: "OffsetFetch v2 to v10 with null topics", Want: "all that the group committed, sorted: a/0 1, a/2 3, b/0 4"},
	Case{ID: "68.all-none", What: "OffsetFetch v2 to v10 with null topics for a group that never existed", Want: "0, no topics"},
	Case{ID: "68.none", What: "OffsetFetch v8 with an empty list of topics", Want: "0, no topics"},
	Case{ID: "68.two-groups", What: "OffsetFetch v8 with two groups and one that never existed, one topic each", Want: "g1 0: 1; g2 0: 2; g3 0: -1"},
	Case{ID: "68.unknown-topic", What: "OffsetFetch v8 of a topic that does not exist", Want: `0; 0: -1 epoch -1 "" 0`},
	Case{ID: "68.unknown-id", What: "OffsetFetch v10 of a topic id that does not exist", Want: "UNKNOWN_TOPIC_ID (100), offset -1"},
	Case{ID: "68.stable", What: "OffsetFetch v7 with require_stable and no transaction", Want: `0; 0: 5 epoch 0 "" 0`},
	Case{ID: "68.member", What: "OffsetFetch v9 with a member id and epoch of nobody, classic group", Want: `0; 0: 5 epoch 0 "" 0`},
	Case{ID: "68.versions", What: "committed in v2 to v10, fetched in v1 to v10", Want: "the same offset and metadata"},
	Case{ID: "68.epoch", What: "leader epoch committed in v6: fetched in v5; committed in v5: fetched in v5", Want: "0; -1"},
	Case{ID: "68.metadata", What: "metadata null, empty, and text with characters outside ASCII", Want: `"", "", "zürich ✓"`},
	Case{ID: "69.outside", What: "OffsetCommit with generation -1 and no member id while the group has members", Want: "UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "69.new", What: "the same into a group that never existed: then state, protocol type", Want: `0; Empty ""`},
	Case{ID: "69.empty", What: "the same into a group that members have left", Want: "0; fetched 9"},
	Case{ID: "69.generation", What: "OffsetCommit with generation 3 and a member id into a group that never existed", Want: "ILLEGAL_GENERATION (22)"},
	Case{ID: "69.member", What: "OffsetCommit with generation 1 and a member id of nobody into a group that is Empty", Want: "UNKNOWN_MEMBER_ID (25)"},
	Case{ID: "69.metadata", What: "metadata of 4096 and of 5000 bytes in one request", Want: "0; OFFSET_METADATA_TOO_LARGE (12); the first one is committed, the second is not"},
	Case{ID: "69.unknown", What: "a topic that does not exist; a partition that does not exist, beside one that does (v8)", Want: "UNKNOWN_TOPIC_OR_PARTITION (3); UNKNOWN_TOPIC_OR_PARTITION (3); 0"},
	Case{ID: "69.unknown-id", What: "a topic id that does not exist (v10)", Want: "UNKNOWN_TOPIC_ID (100)"},
	Case{ID: "69.no-group-name", What: "OffsetCommit and OffsetFetch with an empty group id", Want: "0; fetched 3"},
	Case{ID: "69.overwrite", What: "a lower offset, and one beyond the end of the log", Want: "1; 1000000"},
	Case{ID: "69.deleted", What: "the topic is deleted and made again", Want: "before: 5; after: -1; the other topic's: 6"},
	Case{ID: "69.two-groups", What: "two groups commit on one partition", Want: "1; 2"},
)

// commitRequest commits offsets of one topic from outside a group.
func commitRequest(version int16, group, topic string, offsets map[int32]int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation, req.RetentionTimeMillis = version, group, -1, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	for _, partition := range slices.Sorted(maps.Keys(offsets)) {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch = partition, offsets[partition], 0
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// commit sends a commit and returns the error of each partition, in the order of the request. Names become ids in v10.
func (c *client) commit(req *kmsg.OffsetCommitRequest) []int16 {
	c.t.Helper()
	if req.Version >= 10 {
		for i := range req.Topics {
			if rt := &req.Topics[i]; rt.Topic != "" {
				rt.TopicID, rt.Topic = c.topicID(rt.Topic), ""
			}
		}
	}
	type place struct {
		topic     string
		id        [16]byte
		partition int32
	}
	answers := map[place]int16{}
	for _, rt := range do[*kmsg.OffsetCommitResponse](c, req).Topics {
		for _, p := range rt.Partitions {
			answers[place{rt.Topic, rt.TopicID, p.Partition}] = p.ErrorCode
		}
	}
	var codes []int16
	for _, rt := range req.Topics {
		for _, p := range rt.Partitions {
			code, ok := answers[place{rt.Topic, rt.TopicID, p.Partition}]
			if !ok {
				c.t.Fatalf("no answer for %s/%d", rt.Topic, p.Partition)
			}
			codes = append(codes, code)
		}
	}
	return codes
}

// mustCommit commits offsets of one topic from outside a group (v8).
func (c *client) mustCommit(group, topic string, offsets map[int32]int64) {
	c.t.Helper()
	for _, code := range c.commit(commitRequest(8, group, topic, offsets)) {
		if code != 0 {
			c.t.Fatalf("commit to %s: %s", group, name(code))
		}
	}
}

// committed is one answer of OffsetFetch, the same for all versions.
type committed struct {
	topic     string
	partition int32
	offset    int64
	epoch     int32
	metadata  string
	code      int16
}

func (o committed) String() string {
	return fmt.Sprintf("%d: %d epoch %d %q %s", o.partition, o.offset, o.epoch, o.metadata, name(o.code))
}

// offsetFetchRequest asks one group for some partitions of one topic; an empty topic asks for all (null topics).
func (c *client) offsetFetchRequest(version int16, group, topic string, partitions ...int32) *kmsg.OffsetFetchRequest {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = version
	if version < 8 {
		req.Group = group
		if topic != "" {
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = topic, partitions
			req.Topics = append(req.Topics, rt)
		}
		return req
	}
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group, rg.MemberEpoch = group, -1
	if topic != "" {
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.Partitions = topic, partitions
		if version >= 10 {
			rt.Topic, rt.TopicID = "", c.topicID(topic)
		}
		rg.Topics = append(rg.Topics, rt)
	}
	req.Groups = append(req.Groups, rg)
	return req
}

// offsetFetch sends a fetch for one group and returns its error and its offsets, sorted.
func (c *client) offsetFetch(req *kmsg.OffsetFetchRequest) (int16, []committed) {
	c.t.Helper()
	resp := do[*kmsg.OffsetFetchResponse](c, req)
	code, out := resp.ErrorCode, []committed{}
	if req.Version < 8 {
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				out = append(out, committed{rt.Topic, p.Partition, p.Offset, p.LeaderEpoch, str(p.Metadata), p.ErrorCode})
			}
		}
	} else {
		if len(resp.Groups) != 1 || resp.Groups[0].Group != req.Groups[0].Group {
			c.t.Fatalf("offset fetch for one group: %+v", resp.Groups)
		}
		code = resp.Groups[0].ErrorCode
		for _, rt := range resp.Groups[0].Topics {
			topic := rt.Topic
			if req.Version >= 10 {
				topic = fmt.Sprintf("%x", rt.TopicID)
			}
			for _, p := range rt.Partitions {
				out = append(out, committed{topic, p.Partition, p.Offset, p.LeaderEpoch, str(p.Metadata), p.ErrorCode})
			}
		}
	}
	slices.SortFunc(out, func(a, b committed) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return code, out
}

// fetched is one partition's committed offset (v8), without an error.
func (c *client) fetched(group, topic string, partition int32) int64 {
	c.t.Helper()
	code, all := c.offsetFetch(c.offsetFetchRequest(8, group, topic, partition))
	if code != 0 || len(all) != 1 || all[0].code != 0 {
		c.t.Fatalf("offset fetch of %s: %s, %v", group, name(code), all)
	}
	return all[0].offset
}

// offsetsText is an answer of OffsetFetch with everything in it.
func offsetsText(code int16, all []committed) string {
	text := name(code)
	for _, o := range all {
		text += "; " + o.String()
	}
	return text
}

func TestCase68GroupOffsetFetch(t *testing.T) {
	c := dial(t)
	topic, missing := c.topic(8), newGroup(t)
	got := map[int16]string{}
	for version := int16(1); version <= 10; version++ {
		code, all := c.offsetFetch(c.offsetFetchRequest(version, missing, topic, 0, 7))
		if version < 5 {
			for i := range all {
				if all[i].epoch != -1 {
					t.Fatalf("v%d: leader epoch %d", version, all[i].epoch) // not in the answer: kmsg's default
				}
			}
		}
		got[version] = offsetsText(code, all)
	}
	expect(t, "68.unknown-group", same(got))

	group := newGroup(t)
	c.mustCommit(group, topic, map[int32]int64{0: 5})
	expect(t, "68.nothing", offsetsText(c.offsetFetch(c.offsetFetchRequest(8, group, topic, 0, 1))))
	req := c.offsetFetchRequest(7, group, topic, 0)
	req.RequireStable = true
	expect(t, "68.stable", offsetsText(c.offsetFetch(req)))
	req = c.offsetFetchRequest(9, group, topic, 0)
	nobody := "nobody"
	req.Groups[0].MemberID, req.Groups[0].MemberEpoch = &nobody, 3
	expect(t, "68.member", offsetsText(c.offsetFetch(req)))
	expect(t, "68.unknown-topic", offsetsText(c.offsetFetch(c.offsetFetchRequest(8, group, newName(t), 0))))
	req = c.offsetFetchRequest(10, group, topic, 0)
	req.Groups[0].Topics[0].TopicID = [16]byte{1, 2, 3}
	_, all := c.offsetFetch(req)
	expect(t, "68.unknown-id", fmt.Sprintf("%s, offset %d", name(all[0].code), all[0].offset))
	req = c.offsetFetchRequest(8, group, "")
	req.Groups[0].Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	code, all := c.offsetFetch(req)
	expect(t, "68.none", noTopics(code, all))
}

// noTopics is an answer of OffsetFetch that should have none.
func noTopics(code int16, all []committed) string {
	if len(all) > 0 {
		return offsetsText(code, all)
	}
	return name(code) + ", no topics"
}

func TestCase68GroupAllOffsets(t *testing.T) {
	c := dial(t)
	group, missing := newGroup(t), newGroup(t)
	a, b := c.topic(3), c.topic(1)
	c.mustCommit(group, a, map[int32]int64{0: 1, 2: 3})
	c.mustCommit(group, b, map[int32]int64{0: 4})
	c.mustCommit(newGroup(t), a, map[int32]int64{1: 100})
	ids := map[string]string{a: fmt.Sprintf("%x", c.topicID(a)), b: fmt.Sprintf("%x", c.topicID(b))}
	got, none := map[int16]string{}, map[int16]string{}
	for version := int16(2); version <= 10; version++ {
		none[version] = noTopics(c.offsetFetch(c.offsetFetchRequest(version, missing, "")))
		code, all := c.offsetFetch(c.offsetFetchRequest(version, group, ""))
		found := map[string]int64{}
		for _, o := range all {
			for letter, topic := range map[string]string{"a": a, "b": b} {
				if o.topic == topic || o.topic == ids[topic] {
					found[fmt.Sprintf("%s/%d", letter, o.partition)] = o.offset
				}
			}
		}
		var texts []string
		for _, place := range slices.Sorted(maps.Keys(found)) {
			texts = append(texts, fmt.Sprintf("%s %d", place, found[place]))
		}
		got[version] = "all that the group committed, sorted: " + strings.Join(texts, ", ")
		if code != 0 || len(all) != 3 {
			got[version] = offsetsText(code, all)
		}
	}
	expect(t, "68.all", same(got))
	expect(t, "68.all-none", same(none))
}

func TestCase68GroupSeveralGroups(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	groups := []string{newGroup(t), newGroup(t), newGroup(t)}
	for i, group := range groups[:2] {
		c.mustCommit(group, topic, map[int32]int64{0: int64(i + 1)})
	}
	req := c.offsetFetchRequest(8, groups[0], topic, 0)
	for _, group := range groups[1:] {
		req.Groups = append(req.Groups, c.offsetFetchRequest(8, group, topic, 0).Groups[0])
	}
	resp := do[*kmsg.OffsetFetchResponse](c, req)
	texts := make([]string, len(groups))
	for _, g := range resp.Groups {
		i := slices.Index(groups, g.Group)
		if i < 0 || g.ErrorCode != 0 || len(g.Topics) != 1 || len(g.Topics[0].Partitions) != 1 {
			t.Fatalf("%+v", g)
		}
		p := g.Topics[0].Partitions[0]
		texts[i] = fmt.Sprintf("g%d %s: %d", i+1, name(p.ErrorCode), p.Offset)
	}
	expect(t, "68.two-groups", strings.Join(texts, "; "))
	expect(t, "69.two-groups", fmt.Sprintf("%d; %d", c.fetched(groups[0], topic, 0), c.fetched(groups[1], topic, 0)))
}

func TestCase68GroupOffsetVersions(t *testing.T) {
	c := dial(t)
	topic, group := c.topic(1), newGroup(t)
	got := "the same offset and metadata"
	for write := int16(2); write <= 10; write++ {
		req := commitRequest(write, group, topic, map[int32]int64{0: int64(write)})
		text := fmt.Sprintf("by v%d", write)
		req.Topics[0].Partitions[0].Metadata = &text
		if codes := c.commit(req); len(codes) != 1 || codes[0] != 0 {
			t.Fatalf("commit v%d: %s", write, names(codes...))
		}
		for read := int16(1); read <= 10; read++ {
			code, all := c.offsetFetch(c.offsetFetchRequest(read, group, topic, 0))
			if code != 0 || len(all) != 1 || all[0].code != 0 || all[0].offset != int64(write) || all[0].metadata != text {
				got = fmt.Sprintf("v%d read by v%d: %s", write, read, offsetsText(code, all))
			}
		}
	}
	expect(t, "68.versions", got)

	var epochs []string
	for _, version := range []int16{6, 5} {
		if codes := c.commit(commitRequest(version, group, topic, map[int32]int64{0: 1})); codes[0] != 0 {
			t.Fatal(name(codes[0]))
		}
		_, all := c.offsetFetch(c.offsetFetchRequest(5, group, topic, 0))
		epochs = append(epochs, fmt.Sprint(all[0].epoch))
	}
	expect(t, "68.epoch", strings.Join(epochs, "; "))

	var texts []string
	for _, metadata := range []*string{nil, kmsg.StringPtr(""), kmsg.StringPtr("zürich ✓")} {
		req := commitRequest(8, group, topic, map[int32]int64{0: 1})
		req.Topics[0].Partitions[0].Metadata = metadata
		if codes := c.commit(req); codes[0] != 0 {
			t.Fatal(name(codes[0]))
		}
		_, all := c.offsetFetch(c.offsetFetchRequest(8, group, topic, 0))
		texts = append(texts, fmt.Sprintf("%q", all[0].metadata))
	}
	expect(t, "68.metadata", strings.Join(texts, ", "))
}

func TestCase69GroupCommitFromOutside(t *testing.T) {
	c := dial(t)
	topic := c.topic(2)
	m := form(t, 1, nil)[0]
	outside := func(group string, offset int64) int16 {
		return c.commit(commitRequest(8, group, topic, map[int32]int64{0: offset}))[0]
	}
	expect(t, "69.outside", name(outside(m.group, 9)))
	c.leave(m.group, m.id)
	code := outside(m.group, 9)
	expect(t, "69.empty", fmt.Sprintf("%s; fetched %d", name(code), c.fetched(m.group, topic, 0)))
	req := commitRequest(8, m.group, topic, map[int32]int64{0: 10})
	req.MemberID, req.Generation = "nobody", 1
	expect(t, "69.member", name(c.commit(req)[0]))
	fresh := newGroup(t)
	req = commitRequest(8, newGroup(t), topic, map[int32]int64{0: 10})
	req.MemberID, req.Generation = "nobody", 3
	expect(t, "69.generation", name(c.commit(req)[0]))
	code = outside(fresh, 1)
	d := c.describe(fresh)
	expect(t, "69.new", fmt.Sprintf("%s; %s %q", name(code), d.State, d.ProtocolType))

	c.awaitCoordinator("")
	code = outside("", 3)
	expect(t, "69.no-group-name", fmt.Sprintf("%s; fetched %d", name(code), c.fetched("", topic, 0)))
	outside(fresh, 5)
	outside(fresh, 1)
	lower := c.fetched(fresh, topic, 0)
	outside(fresh, 1_000_000)
	expect(t, "69.overwrite", fmt.Sprintf("%d; %d", lower, c.fetched(fresh, topic, 0)))
}

func TestCase69GroupCommitRefusals(t *testing.T) {
	c := dial(t)
	topic, group := c.topic(2), newGroup(t)
	req := commitRequest(8, group, topic, map[int32]int64{0: 1, 1: 2})
	long, longest := strings.Repeat("m", 5000), strings.Repeat("m", 4096)
	req.Topics[0].Partitions[0].Metadata, req.Topics[0].Partitions[1].Metadata = &longest, &long
	got := names(c.commit(req)...)
	_, all := c.offsetFetch(c.offsetFetchRequest(8, group, topic, 0, 1))
	if len(all) == 2 && all[0].metadata == longest && all[1].offset == -1 {
		got += "; the first one is committed, the second is not"
	}
	expect(t, "69.metadata", got)

	req = commitRequest(8, group, newName(t), map[int32]int64{0: 1})
	both := commitRequest(8, group, topic, map[int32]int64{0: 1, 9: 1})
	codes := append(c.commit(req), c.commit(both)...)
	expect(t, "69.unknown", names(codes[0], codes[2], codes[1]))
	req = commitRequest(10, group, "", map[int32]int64{0: 1})
	req.Topics[0].TopicID = [16]byte{1, 2, 3}
	expect(t, "69.unknown-id", names(c.commit(req)...))
}

func TestCase69GroupDeletedTopic(t *testing.T) {
	c := dial(t)
	topic, other, group := c.topic(1), c.topic(1), newGroup(t)
	c.mustCommit(group, topic, map[int32]int64{0: 5})
	c.mustCommit(group, other, map[int32]int64{0: 6})
	before := c.fetched(group, topic, 0)
	if code := c.deleteTopic(topic).ErrorCode; code != 0 {
		t.Fatal(name(code))
	}
	await(t, "the topic to be gone", func() bool { return !c.exists(topic) })
	await(t, "its offsets to be gone", func() bool { return c.fetched(group, topic, 0) == -1 })
	c.createTopic(topic, 1)
	expect(t, "69.deleted", fmt.Sprintf("before: %d; after: %d; the other topic's: %d", before, c.fetched(group, topic, 0), c.fetched(group, other, 0)))
}
