package raw_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
)

var _ = register(
	Case{ID: "55.v0", What: "Metadata v0, empty list", Want: "all"},
	Case{ID: "55.v1-null", What: "Metadata v1, null list", Want: "all"},
	Case{ID: "55.v1-empty", What: "Metadata v1, empty list", Want: "none, brokers listed"},
	Case{ID: "55.id", What: "Metadata v12 by id", Want: "0, the topic"},
	Case{ID: "55.unknown-id", What: "Metadata v12, unknown id", Want: "UNKNOWN_TOPIC_ID (100), null name"},
	Case{ID: "55.id-v10", What: "Metadata v10 with an id; v11 with a null name", Want: "INVALID_REQUEST (42); INVALID_REQUEST (42)"},
	Case{ID: "55.name", What: "Metadata for an invalid name, creation allowed", Want: "INVALID_TOPIC_EXCEPTION (17)"},
	Case{ID: "55.dots", What: "Metadata for `.`, `..` and a name of 250 characters", Want: "INVALID_TOPIC_EXCEPTION (17); INVALID_TOPIC_EXCEPTION (17); INVALID_TOPIC_EXCEPTION (17)"},
	Case{
		ID: "55.prefixed", What: "Metadata for a topic of the default namespace by its prefixed name (default.x)", Want: "INVALID_TOPIC_EXCEPTION (17)",
		WantKafka: "UNKNOWN_TOPIC_OR_PARTITION (3)", Why: "design.md section 6: streams of the default namespace have one name, without prefix; Kafka has no namespaces",
	},
	Case{ID: "55.operations", What: "authorized operations when not asked for (v8, v12)", Want: "-2147483648 -2147483648"},
	Case{ID: "56.off", What: "missing topic, creation not allowed by the request", Want: "UNKNOWN_TOPIC_OR_PARTITION (3), not created"},
	Case{ID: "56.on", What: "missing topic, creation allowed, 50 requests in parallel", Want: "created once, every answer 0, 3 or 5"},
	Case{ID: "56.v0", What: "missing topic with Metadata v1, which has no flag", Want: "created"},
	Case{ID: "57.same", What: "Metadata and DescribeCluster on several connections and versions", Want: "same cluster id, controller, broker ids, addresses and topic ids"},
	Case{ID: "T10.controller", What: "controller id", Want: "a broker of the list"},
	Case{ID: "T11.address", What: "leaders and replicas are in the broker list, by the address that the client used", Want: "yes"},
	Case{
		ID: "T21.at-once", What: "produce right after CreateTopics was answered", Want: "0",
		WantKafka: "0, or a retriable error", Why: "spec/kafka.md 4.7: a create that was answered is visible at once on the answering broker; Kafka's log may come a moment later",
	},
	Case{ID: "T21.partitions", What: "auto-created topic: answers with code 0 and no partitions", Want: "none"},
	Case{ID: "T24.new-id", What: "delete and create under one name: topic id, log end, leader epoch", Want: "new id, empty, epoch 0"},
	Case{
		ID: "60.tenants", What: "two tenants with the same topic name", Want: "separate data, listings and ids",
		OnlyFelix: "Kafka has no tenants",
	},
)

func TestCase55Metadata(t *testing.T) {
	c := dial(t)
	topic, other := c.topic(2), c.topic(1)
	id := c.topicID(topic)
	has := func(resp *kmsg.MetadataResponse) string {
		var found int
		for _, m := range resp.Topics {
			if *m.Topic == topic || *m.Topic == other {
				found++
			}
		}
		if found == 2 {
			return "all"
		}
		return fmt.Sprintf("%d topics, %d of ours", len(resp.Topics), found)
	}
	v0 := metadataRequest(0)
	v0.Topics = []kmsg.MetadataRequestTopic{}
	expect(t, "55.v0", has(do[*kmsg.MetadataResponse](c, v0)))
	expect(t, "55.v1-null", has(c.metadata(1)))
	v1 := metadataRequest(1)
	v1.Topics = []kmsg.MetadataRequestTopic{}
	resp := do[*kmsg.MetadataResponse](c, v1)
	none := fmt.Sprintf("%d topics", len(resp.Topics))
	if len(resp.Topics) == 0 && len(resp.Brokers) > 0 {
		none = "none, brokers listed"
	}
	expect(t, "55.v1-empty", none)

	byID := func(version int16, id [16]byte) kmsg.MetadataResponseTopic {
		req := metadataRequest(version)
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = id
		if version < 12 && id != [16]byte{} {
			rt.Topic = kmsg.StringPtr("")
		}
		req.Topics = append(req.Topics, rt)
		return do[*kmsg.MetadataResponse](c, req).Topics[0]
	}
	found := byID(12, id)
	got := name(found.ErrorCode)
	if found.Topic != nil && *found.Topic == topic && len(found.Partitions) == 2 && found.TopicID == id {
		got += ", the topic"
	}
	expect(t, "55.id", got)
	unknown := byID(12, [16]byte{9, 9, 9})
	got = name(unknown.ErrorCode)
	if unknown.Topic == nil {
		got += ", null name"
	}
	expect(t, "55.unknown-id", got)
	allowed := metadataRequest(12, "raw.not legal")
	allowed.AllowAutoTopicCreation = true
	expect(t, "55.name", name(do[*kmsg.MetadataResponse](c, allowed).Topics[0].ErrorCode))
	allowed = metadataRequest(12, ".", "..", strings.Repeat("n", 250))
	allowed.AllowAutoTopicCreation = true
	var codes []int16
	for _, m := range do[*kmsg.MetadataResponse](c, allowed).Topics {
		codes = append(codes, m.ErrorCode)
	}
	expect(t, "55.dots", names(codes...))
	expect(t, "55.prefixed", name(c.metadata(12, "default."+strings.TrimPrefix(newName(t), "raw.")).Topics[0].ErrorCode))
	operations := func(version int16) int32 { return c.metadata(version, topic).Topics[0].AuthorizedOperations }
	expect(t, "55.operations", fmt.Sprint(operations(8), operations(12)))
}

func TestCase55OldVersionsWithIDs(t *testing.T) {
	code := func(version int16, topic *string, id [16]byte) string {
		c := dial(t)
		req := metadataRequest(version)
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic, rt.TopicID = topic, id
		req.Topics = append(req.Topics, rt)
		frame, correlation := c.Encode(req)
		if topic == nil {
			// kmsg writes an empty name where v10 and v11 cannot have null: take the length byte of the name back to null.
			i := strings.LastIndex(string(frame), string(append(id[:], 1)))
			frame[i+16] = 0
		}
		if err := c.SendBytes(frame); err != nil {
			t.Fatal(err)
		}
		resp, err := c.Receive(req, correlation)
		if err != nil {
			return err.Error()
		}
		return name(resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode)
	}
	id := [16]byte{7, 7, 7}
	expect(t, "55.id-v10", code(10, kmsg.StringPtr(newName(t)), id)+"; "+code(11, nil, id))
}

func TestCase56AutoCreation(t *testing.T) {
	c := dial(t)
	missing := newName(t)
	first := name(c.metadata(12, missing).Topics[0].ErrorCode)
	if c.metadata(12, missing).Topics[0].ErrorCode == 3 {
		first += ", not created"
	}
	expect(t, "56.off", first)

	topic := newName(t)
	const parallel = 50
	answers := make([]string, parallel)
	var empty sync.Map
	var wait sync.WaitGroup
	for i := range parallel {
		d := dial(t)
		wait.Go(func() {
			req := metadataRequest(9, topic)
			req.AllowAutoTopicCreation = true
			resp, err := d.Do(req)
			if err != nil {
				answers[i] = err.Error()
				return
			}
			m := resp.(*kmsg.MetadataResponse).Topics[0]
			if code := m.ErrorCode; code != 0 && code != 3 && code != 5 {
				answers[i] = name(code)
			}
			if m.ErrorCode == 0 && len(m.Partitions) == 0 {
				empty.Store(i, true)
			}
		})
	}
	wait.Wait()
	got := "created once, every answer 0, 3 or 5"
	for _, a := range answers {
		if a != "" {
			got = a
		}
	}
	await(t, "the created topic", func() bool { return c.metadata(9, topic).Topics[0].ErrorCode == 0 })
	id := c.topicID(topic)
	c.metadata(9, topic)
	if c.topicID(topic) != id {
		got = "created twice"
	}
	expect(t, "56.on", got)
	none := "none"
	empty.Range(func(any, any) bool {
		none = "some"
		return false
	})
	expect(t, "T21.partitions", none)

	old := newName(t)
	c.metadata(1, old)
	await(t, "creation by Metadata v1", func() bool { return c.metadata(9, old).Topics[0].ErrorCode == 0 })
	expect(t, "56.v0", "created")
}

func TestCase57OneView(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	views := map[string]bool{}
	for range 3 {
		d := dial(t)
		for version := int16(10); version <= 12; version++ {
			m := d.metadata(version, topic)
			b := m.Brokers[0]
			views[fmt.Sprintf("%s %d %d %s:%d %x", *m.ClusterID, m.ControllerID, b.NodeID, b.Host, b.Port, m.Topics[0].TopicID)] = true
		}
		req := kmsg.NewPtrDescribeClusterRequest()
		cluster := do[*kmsg.DescribeClusterResponse](d, req)
		b := cluster.Brokers[0]
		views[fmt.Sprintf("%s %d %d %s:%d %x", cluster.ClusterID, cluster.ControllerID, b.NodeID, b.Host, b.Port, d.topicID(topic))] = true
	}
	got := "same cluster id, controller, broker ids, addresses and topic ids"
	if len(views) != 1 {
		got = fmt.Sprint(views)
	}
	expect(t, "57.same", got)
}

func TestTrap10And11Brokers(t *testing.T) {
	c := dial(t)
	topic := c.topic(3)
	m := c.metadata(12, topic)
	var ids []int32
	addresses := "yes"
	host, portText, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range m.Brokers {
		ids = append(ids, b.NodeID)
		if b.Host != host || b.Port != int32(port) {
			addresses = fmt.Sprintf("%s:%d", b.Host, b.Port)
		}
	}
	got := "a broker of the list"
	if !slices.Contains(ids, m.ControllerID) {
		got = fmt.Sprintf("%d, brokers %v", m.ControllerID, ids)
	}
	expect(t, "T10.controller", got)
	for _, p := range m.Topics[0].Partitions {
		if !slices.Contains(ids, p.Leader) || len(p.Replicas) == 0 || !slices.Contains(ids, p.Replicas[0]) || len(p.ISR) == 0 {
			addresses = fmt.Sprintf("leader %d replicas %v in-sync %v", p.Leader, p.Replicas, p.ISR)
		}
	}
	expect(t, "T11.address", addresses)
}

func TestTrap21ProduceAtOnce(t *testing.T) {
	c := dial(t)
	got := "0"
	for range 20 {
		topic := newName(t)
		resp := do[*kmsg.CreateTopicsResponse](c, createRequest(topic, 1, 1))
		if code := resp.Topics[0].ErrorCode; code != 0 {
			t.Fatal(name(code))
		}
		if code := c.produce(topic, 0, values("x")).ErrorCode; code != 0 {
			got = name(code)
			if code == 3 || code == 5 || code == 6 {
				got = "a retriable error"
			}
		}
	}
	if server.Kind() == peer.Kafka && (got == "0" || got == "a retriable error") {
		got = "0, or a retriable error"
	}
	expect(t, "T21.at-once", got)
}

func TestTrap24Recreation(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	id := c.topicID(topic)
	c.mustProduce(topic, 0, values("a", "b"))
	if code := c.deleteTopic(topic).ErrorCode; code != 0 {
		t.Fatal(name(code))
	}
	await(t, "the topic to be gone", func() bool { return c.metadata(9, topic).Topics[0].ErrorCode != 0 })
	c.createTopic(topic, 1)
	got := "old id"
	if c.topicID(topic) != id {
		got = "new id"
	}
	if c.offset(topic, 0, -1) == 0 && c.stored(topic, 0) == "" {
		got += ", empty"
	}
	got += fmt.Sprintf(", epoch %d", c.metadata(9, topic).Topics[0].Partitions[0].LeaderEpoch)
	expect(t, "T24.new-id", got)
}

func TestCase60Tenants(t *testing.T) {
	if onlyFelix(t, "60.tenants") {
		return
	}
	a, b := dialSASL(t, "acme", "acme-secret"), dialSASL(t, "beta", "beta-secret")
	topic := newName(t)
	a.createTopic(topic, 1)
	got := "separate data, listings and ids"
	if code := b.metadata(12, topic).Topics[0].ErrorCode; code != 3 && code != 29 {
		got = "beta sees acme's topic: " + name(code)
	}
	for _, m := range b.metadata(12).Topics {
		if *m.Topic == topic {
			got = "beta lists acme's topic"
		}
	}
	b.createTopic(topic, 1)
	a.mustProduce(topic, 0, values("of acme"))
	b.mustProduce(topic, 0, values("of beta"))
	if sa, sb := a.stored(topic, 0), b.stored(topic, 0); sa != "of acme" || sb != "of beta" {
		got = sa + "|" + sb
	}
	id := a.topicID(topic)
	if b.topicID(topic) == id {
		got = "one id for both"
	}
	req := fetchRequest("", 0, 0)
	req.Version, req.Topics[0].TopicID = 13, id
	if p := b.fetchOne(req); p.ErrorCode == 0 {
		got = "beta reads acme's topic by its id"
	}
	expect(t, "60.tenants", got)
}
