package kafkaproto

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
)

// metadataFor asks for topics by name.
func metadataFor(version int16, topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(version)
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

func topicNames(resp *kmsg.MetadataResponse) (out []string) {
	for _, t := range resp.Topics {
		out = append(out, *t.Topic)
	}
	return out
}

func TestMetadataVersions(t *testing.T) { // case 55
	h := newHarness(t, nil)
	topic := h.node.add("ns", "a.b", 2)
	h.node.add("default", "plain", 1)
	h.node.addMoved("moved")
	for _, unseen := range []*cluster.Topic{
		{Tenant: testTenant, Namespace: "default", Name: "memory"},
		{Tenant: testTenant, Namespace: "default", Name: "with.dot", Durable: true},
		{Tenant: testTenant, Namespace: "dotted.ns", Name: "x", Durable: true},
		{Tenant: testTenant, Namespace: "default", Name: "own", Durable: true, Internal: true},
		{Tenant: "other", Namespace: "default", Name: "theirs", Durable: true},
	} {
		h.node.put(unseen, 1)
	}
	c := h.dial()
	for version := int16(0); version <= 13; version++ {
		all := kmsg.NewPtrMetadataRequest()
		all.SetVersion(version)
		if version == 0 {
			all.Topics = []kmsg.MetadataRequestTopic{}
		}
		resp := c.ask(all).(*kmsg.MetadataResponse)
		if diff := cmp.Diff([]string{"moved", "plain", "ns.a.b"}, topicNames(resp)); diff != "" {
			t.Errorf("v%d all: %s", version, diff)
		}
		if len(resp.Brokers) != 2 || resp.Brokers[0].Host != "127.0.0.1" || resp.Brokers[0].Port != 9092 {
			t.Errorf("v%d brokers: %+v", version, resp.Brokers)
		}
		if version >= 1 && resp.ControllerID != 1 || version >= 2 && *resp.ClusterID != "test-cluster" {
			t.Errorf("v%d: controller %d", version, resp.ControllerID)
		}
		if version >= 1 {
			if resp := c.ask(metadataFor(version)).(*kmsg.MetadataResponse); len(resp.Topics) != 0 || len(resp.Brokers) != 2 {
				t.Errorf("v%d none: %+v", version, resp)
			}
		}
		req := metadataFor(version, "ns.a.b")
		req.AllowAutoTopicCreation = false
		resp = c.ask(req).(*kmsg.MetadataResponse)
		got := resp.Topics[0]
		if got.ErrorCode != 0 || len(got.Partitions) != 2 || got.Partitions[1].Partition != 1 || got.Partitions[1].Leader != 1 ||
			len(got.Partitions[1].Replicas) != 1 || len(got.Partitions[1].ISR) != 1 {
			t.Errorf("v%d topic: %+v", version, got)
		}
		if version >= 7 && got.Partitions[0].LeaderEpoch != 3 || version >= 10 && got.TopicID != topic.ID {
			t.Errorf("v%d: epoch %d id %x", version, got.Partitions[0].LeaderEpoch, got.TopicID)
		}
		if version >= 8 && got.AuthorizedOperations != noOperations {
			t.Errorf("v%d: operations %d though nobody asked", version, got.AuthorizedOperations)
		}
	}
}

func TestMetadataByID(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	c := h.dial()
	ask := func(version int16, id [16]byte, name *string) kmsg.MetadataResponseTopic {
		req := metadataFor(version)
		asked := kmsg.NewMetadataRequestTopic()
		asked.TopicID, asked.Topic = id, name
		req.Topics = append(req.Topics, asked)
		return c.ask(req).(*kmsg.MetadataResponse).Topics[0]
	}
	name := "a"
	if got := ask(12, topic.ID, nil); got.ErrorCode != 0 || got.Topic == nil || *got.Topic != "a" {
		t.Errorf("by id: %+v", got)
	}
	if got := ask(12, [16]byte{7}, nil); got.ErrorCode != 100 || got.Topic != nil || got.TopicID != [16]byte{7} {
		t.Errorf("unknown id: %+v", got)
	}
	if got := ask(10, topic.ID, nil); got.ErrorCode != 42 {
		t.Errorf("an id in v10: %+v", got)
	}
	if got := ask(11, [16]byte{}, nil); got.ErrorCode != 42 {
		t.Errorf("a null name in v11: %+v", got)
	}
	if got := ask(12, topic.ID, &name); got.ErrorCode != 42 {
		t.Errorf("both: %+v", got)
	}
}

func TestMetadataErrors(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.AutoCreate = false })
	h.node.add("default", "a", 1)
	c := h.dial()
	cases := []struct {
		topic string
		want  int16
	}{
		{"missing", 3},
		{"", 17},
		{".", 17},
		{"..", 17},
		{"a b", 17},
		{strings.Repeat("x", 250), 17},
		{strings.Repeat("x", 249), 3},
		{"default.a", 17},
		{"ns.", 17},
		{".x", 17},
	}
	for _, tc := range cases {
		got := c.ask(metadataFor(9, tc.topic)).(*kmsg.MetadataResponse).Topics[0]
		if got.ErrorCode != tc.want || *got.Topic != tc.topic || len(got.Partitions) != 0 {
			t.Errorf("%.20q: %+v, want %d", tc.topic, got, tc.want)
		}
	}
	if h.node.created != 0 {
		t.Errorf("%d topics made", h.node.created)
	}
}

func TestMetadataCreates(t *testing.T) { // case 56
	h := newHarness(t, nil)
	c := h.dial()
	req := metadataFor(9, "new")
	req.AllowAutoTopicCreation = false
	if got := c.ask(req).(*kmsg.MetadataResponse).Topics[0]; got.ErrorCode != 3 {
		t.Errorf("not allowed: %+v", got)
	}
	hold := make(chan struct{})
	h.node.mu.Lock()
	h.node.hold = hold
	h.node.mu.Unlock()
	req.AllowAutoTopicCreation = true
	var wg sync.WaitGroup
	for range 50 {
		c := h.dial()
		wg.Go(func() {
			if got := c.ask(req).(*kmsg.MetadataResponse).Topics[0]; got.ErrorCode != 0 || len(got.Partitions) != 1 {
				t.Errorf("created: %+v", got)
			}
		})
	}
	close(hold)
	wg.Wait()
	if n := h.node.Image().TopicCount(); n != 1 {
		t.Errorf("%d topics, want 1", n)
	}
	if n := counted(t, h.srv.metrics.topicsMade); n != 1 {
		t.Errorf("%v topics count as made because a client named them, want 1", n)
	}
	if got := c.ask(metadataFor(3, "old-clients-always-create")).(*kmsg.MetadataResponse).Topics[0]; got.ErrorCode != 0 {
		t.Errorf("v3: %+v", got)
	}
}

// someRights allows an action on streams whose name begins with it.
type someRights struct{}

func (someRights) Allowed(a broker.Action, _, stream string) bool {
	return strings.HasPrefix(stream, a.String())
}

func TestMetadataRights(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.Anonymous = &Caller{Tenant: testTenant, Rights: someRights{}} })
	for _, name := range []string{"stream.subscribe", "stream.publish", "hidden"} {
		h.node.add("n", name, 1)
	}
	c := h.dial()
	all := kmsg.NewPtrMetadataRequest()
	all.SetVersion(9)
	if diff := cmp.Diff([]string{"n.stream.publish", "n.stream.subscribe"}, topicNames(c.ask(all).(*kmsg.MetadataResponse))); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]int16{"n.hidden": 29, "n.missing": 29, "n.stream.publish": 0, "n.stream.publish2": 29, "n.stream.manage": 0} {
		req := metadataFor(9, name)
		req.AllowAutoTopicCreation = true
		if got := c.ask(req).(*kmsg.MetadataResponse).Topics[0]; got.ErrorCode != want {
			t.Errorf("%s: %d, want %d", name, got.ErrorCode, want)
		}
	}
	produce := produceRequestFor("n.stream.subscribe", 0, makeBatch(t, 1, nil))
	if got := c.ask(produce).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; got.ErrorCode != 29 {
		t.Errorf("produce without the right: %d", got.ErrorCode)
	}
	if got := c.ask(fetchRequestFor("n.stream.publish", 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]; got.ErrorCode != 29 {
		t.Errorf("fetch without the right: %d", got.ErrorCode)
	}
	if got := c.ask(fetchRequestFor("n.nothing", 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]; got.ErrorCode != 29 {
		t.Errorf("fetch of what may not exist: %d", got.ErrorCode)
	}
	req := metadataFor(9, "n.stream.subscribe")
	req.IncludeTopicAuthorizedOperations = true
	if got := c.ask(req).(*kmsg.MetadataResponse).Topics[0]; got.AuthorizedOperations != opRead|opDescribe|opDescribeConfigs {
		t.Errorf("operations %b", got.AuthorizedOperations)
	}
}

func TestNamesBothWays(t *testing.T) {
	n := names{defaultNamespace: "default"}
	for _, tc := range []struct{ topic, namespace, stream string }{
		{"orders", "default", "orders"},
		{"shop.orders", "shop", "orders"},
		{"shop.orders.eu", "shop", "orders.eu"},
		{"a-b_c.x", "a-b_c", "x"},
	} {
		namespace, stream, err := n.split(tc.topic)
		if err != nil || namespace != tc.namespace || stream != tc.stream {
			t.Errorf("split %q: %q %q %v", tc.topic, namespace, stream, err)
		}
		if got := n.join(namespace, stream); got != tc.topic {
			t.Errorf("join %q %q: %q, want %q", namespace, stream, got, tc.topic)
		}
	}
	if allocs := testing.AllocsPerRun(10, func() { _, _, _ = n.split("shop.orders") }); allocs != 0 {
		t.Errorf("split allocates %v times", allocs)
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "a.b", ".", "..", "a..b", "default.x", "x.", ".x", "é", strings.Repeat("a", 249)} {
		f.Add(s)
	}
	n := names{defaultNamespace: "default"}
	f.Fuzz(func(t *testing.T, topic string) {
		namespace, stream, err := n.split(topic)
		if err != nil {
			return
		}
		if got := n.join(namespace, stream); got != topic {
			t.Errorf("%q is stream %q of namespace %q, which is %q", topic, stream, namespace, got)
		}
	})
}
