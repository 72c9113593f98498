package kafkaproto

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/cluster"
)

// quotaEdit is one entry of AlterClientQuotas. Entities are "user=a,client-id=*": * is the default. A value of 0 removes.
type quotaEdit struct {
	entity, key string
	value       float64
}

func alterQuotas(c *client, validateOnly bool, edits ...quotaEdit) string {
	c.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version, req.ValidateOnly = 1, validateOnly
	for _, e := range edits {
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		for _, part := range strings.Split(e.entity, ",") {
			if part == "" {
				continue
			}
			kind, name, _ := strings.Cut(part, "=")
			p := kmsg.AlterClientQuotasRequestEntryEntity{Type: kind, Name: &name}
			if name == "*" {
				p.Name = nil
			}
			entry.Entity = append(entry.Entity, p)
		}
		entry.Ops = append(entry.Ops, kmsg.AlterClientQuotasRequestEntryOp{Key: e.key, Value: e.value, Remove: e.value == 0})
		req.Entries = append(req.Entries, entry)
	}
	var got []string
	for i, e := range c.ask(req).(*kmsg.AlterClientQuotasResponse).Entries {
		if len(e.Entity) != len(req.Entries[i].Entity) {
			c.t.Errorf("entry %d comes back as %+v", i, e)
		}
		got = append(got, fmt.Sprint(e.ErrorCode))
	}
	return strings.Join(got, " ")
}

// describeQuotas asks with components like "user=a", "user=*" for the default, "user" for any.
func describeQuotas(c *client, strict bool, components ...string) string {
	c.t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Version, req.Strict = 1, strict
	for _, text := range components {
		kind, name, exact := strings.Cut(text, "=")
		part := kmsg.DescribeClientQuotasRequestComponent{EntityType: kind, MatchType: matchAny}
		if exact {
			part.MatchType, part.Match = matchExact, &name
		}
		if name == "*" {
			part.MatchType, part.Match = matchDefault, nil
		}
		req.Components = append(req.Components, part)
	}
	resp := c.ask(req).(*kmsg.DescribeClientQuotasResponse)
	if resp.ErrorCode != 0 {
		return fmt.Sprint(resp.ErrorCode)
	}
	var got []string
	for _, e := range resp.Entries {
		var parts []string
		for _, p := range e.Entity {
			name := "*"
			if p.Name != nil {
				name = *p.Name
			}
			parts = append(parts, p.Type+"="+name)
		}
		for _, v := range e.Values {
			parts = append(parts, fmt.Sprint(strings.TrimSuffix(v.Key, "_byte_rate"), ":", v.Value))
		}
		got = append(got, strings.Join(parts, ","))
	}
	return strings.Join(got, " ")
}

const (
	producerRate = "producer_byte_rate"
	consumerRate = "consumer_byte_rate"
)

func TestClientQuotas(t *testing.T) {
	h := newRealHarness(t, nil)
	c := h.client
	tests := []struct {
		name  string
		edits []quotaEdit
		want  string
	}{
		{"user", []quotaEdit{{"user=a", producerRate, 5}}, "0"},
		{"more", []quotaEdit{{"user=a", consumerRate, 6}, {"user=*", producerRate, 7}, {"client-id=c,user=a", producerRate, 8}, {"client-id=*", consumerRate, 9}}, "0 0 0 0"},
		{"not_enforced", []quotaEdit{{"user=a", "request_percentage", 50}, {"user=a", "controller_mutation_rate", 5}, {"user=a", "speed", 5}}, "40 40 42"},
		{"by_address", []quotaEdit{{"ip=127.0.0.1", "connection_creation_rate", 5}}, "42"},
		{"bad_entities", []quotaEdit{{"", producerRate, 1}, {"user=", producerRate, 1}, {"host=x", producerRate, 1}, {"user=x,user=y", producerRate, 1}}, "42 42 42 42"},
		{"bad_values", []quotaEdit{{"user=x", producerRate, -1}, {"user=y", producerRate, 0.5}, {"user=z", producerRate, 1e19}, {"user=v", producerRate, 1.5}}, "42 42 42 42"},
		{"twice", []quotaEdit{{"user=t", producerRate, 1}, {"user=t", consumerRate, 1}, {"user=a", producerRate, 5}}, "42 42 0"},
		{"remove_what_is_not_there", []quotaEdit{{"user=nobody", producerRate, 0}}, "0"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := alterQuotas(c, false, tc.edits...); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if got := alterQuotas(c, true, quotaEdit{"user=v", producerRate, 1}); got != "0" {
		t.Errorf("validate only: %s", got)
	}
	const (
		byDefaultClient = "client-id=*,consumer:9"
		byDefaultUser   = "user=*,producer:7"
		byUser          = "user=a,producer:5,consumer:6"
		byBoth          = "user=a,client-id=c,producer:8"
	)
	all := strings.Join([]string{byDefaultClient, byDefaultUser, byUser, byBoth}, " ")
	for _, tc := range []struct {
		strict     bool
		components string
		want       string
	}{
		{false, "", all},
		{true, "", ""},
		{false, "user", strings.Join([]string{byDefaultUser, byUser, byBoth}, " ")},
		{true, "user", byDefaultUser + " " + byUser},
		{true, "user client-id", byBoth},
		{false, "user=a", byUser + " " + byBoth},
		{true, "user=a", byUser},
		{true, "user=*", byDefaultUser},
		{false, "client-id=*", byDefaultClient},
		{true, "client-id=c user=a", byBoth},
		{false, "user=b", ""},
		{false, "ip", ""},
		{false, "user user=a", "42"},
		{false, "ip user", "42"},
		{false, "host", "35"},
	} {
		if got := describeQuotas(c, tc.strict, strings.Fields(tc.components)...); got != tc.want {
			t.Errorf("strict %v, %q: got %q, want %q", tc.strict, tc.components, got, tc.want)
		}
	}
	if got := alterQuotas(c, false, quotaEdit{"user=a", producerRate, 0}, quotaEdit{"user=*", producerRate, 0}); got != "0 0" {
		t.Errorf("remove: %s", got)
	}
	if got := describeQuotas(c, true, "user"); got != "user=a,consumer:6" {
		t.Errorf("after removing: %q", got)
	}
}

func TestClientQuotasTakeTheRight(t *testing.T) {
	c := newRealHarness(t, only("stream.manage default/a")).client
	if got := alterQuotas(c, false, quotaEdit{"user=a", producerRate, 5}); got != "31" {
		t.Errorf("alter: %s", got)
	}
	if got := describeQuotas(c, false); got != "31" {
		t.Errorf("describe: %s", got)
	}
	c = newRealHarness(t, only("tenant.manage /")).client
	if got := alterQuotas(c, false, quotaEdit{"user=a", producerRate, 5}); got != "0" {
		t.Errorf("alter with the right: %s", got)
	}
}

// TestProduceOverClientQuota: what is over the quota is written, and the connection held; by name of the client, whole and streamed.
func TestProduceOverClientQuota(t *testing.T) {
	for _, size := range []int{1000, streamFrom} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			h := newRealHarness(t, nil)
			h.make(1, "a")
			if got := alterQuotas(h.client, false, quotaEdit{"client-id=test", producerRate, float64(size) * 2}, quotaEdit{"client-id=*", producerRate, 1}); got != "0 0" {
				t.Fatal(got)
			}
			throttle := int32(0)
			sent := int64(0)
			first := time.Now()
			for throttle == 0 && sent < 100 {
				resp := h.ask(produceRequestFor("a", 0, makeBatch(t, 1, make([]byte, size)))).(*kmsg.ProduceResponse)
				throttle = resp.ThrottleMillis
				sent++
			}
			// Two batches a second, a second of it at once, and what a slow machine's sending has earned meanwhile.
			most := 4 + int64(2*time.Since(first).Seconds())
			if sent < 2 || sent > most || throttle < 1 || throttle > 2500 {
				t.Errorf("held for %d ms at produce %d: not by its own quota", throttle, sent)
			}
			began := time.Now()
			list := kmsg.NewPtrListOffsetsRequest()
			list.Version = 7
			list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "a", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1, CurrentLeaderEpoch: -1}}}}
			end := h.ask(list).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
			if took := time.Since(began); end != sent || took < time.Duration(throttle)*time.Millisecond/2 {
				t.Errorf("%d of %d written, the next request answered after %v of %d ms", end, sent, took, throttle)
			}
		})
	}
}

// TestFetchOverClientQuota: a client over its quota is answered at once, without records, and held; then it goes on.
func TestFetchOverClientQuota(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(1, "a")
	for range 3 {
		h.ask(produceRequestFor("a", 0, makeBatch(t, 1, make([]byte, 10_000))))
	}
	if got := alterQuotas(h.client, false, quotaEdit{"user=anonymous", consumerRate, 20_000}); got != "0" {
		t.Fatal(got)
	}
	req := fetchRequestFor("a", 0)
	req.MaxWaitMillis = 20_000
	first := h.ask(req).(*kmsg.FetchResponse) // 30 kB: 20 are the first second's
	if got := first.Topics[0].Partitions[0]; len(got.RecordBatches) < 30_000 || first.ThrottleMillis != 0 {
		t.Fatalf("%d bytes, held for %d ms", len(got.RecordBatches), first.ThrottleMillis)
	}
	began := time.Now()
	second := h.ask(req).(*kmsg.FetchResponse)
	if got := second.Topics[0].Partitions[0]; len(got.RecordBatches) != 0 || got.ErrorCode != 0 || got.HighWatermark != 3 || second.ThrottleMillis < 100 {
		t.Errorf("over the quota: %d bytes, code %d, held for %d ms", len(got.RecordBatches), got.ErrorCode, second.ThrottleMillis)
	}
	if took := time.Since(began); took > 300*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
	third := h.ask(req).(*kmsg.FetchResponse)
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("the next is answered after %v: the connection was not held", took)
	}
	if len(third.Topics[0].Partitions[0].RecordBatches) < 30_000 {
		t.Error("no records when the time is over")
	}
}

// TestWaitingFetchOverClientQuota: a fetch that began to wait before its client went over the quota reads nothing either.
func TestWaitingFetchOverClientQuota(t *testing.T) {
	h := newHarness(t, nil)
	sh := h.node.shard(h.node.add("default", "a", 1), 0)
	b := cluster.NewBuilder(h.node.Image())
	b.PutQuota(cluster.ClientQuota{Entity: cluster.QuotaEntity{Tenant: testTenant, User: cluster.QuotaName{Kind: cluster.QuotaDefault}}, Consumer: 1})
	h.node.mu.Lock()
	h.node.image = b.Build(h.node.image.Version() + 1)
	h.node.mu.Unlock()
	c := h.dial()
	req := fetchRequestFor("a", 0)
	req.MaxWaitMillis = 20_000
	id := c.send(req)
	eventually(t, "it waits", func() bool { return sh.waiting() == 1 })
	h.node.mu.Lock()
	h.node.held = map[cluster.QuotaRate]time.Duration{cluster.ConsumerByteRate: 70 * time.Millisecond}
	h.node.mu.Unlock()
	produced(t, sh, "x")
	resp := c.receive(req, id).(*kmsg.FetchResponse)
	if n := len(resp.Topics[0].Partitions[0].RecordBatches); n != 0 || resp.ThrottleMillis != 70 {
		t.Errorf("%d bytes, throttle_time_ms %d", n, resp.ThrottleMillis)
	}
	h.node.mu.Lock()
	h.node.held = nil
	h.node.mu.Unlock()
	if n := len(c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches); n == 0 {
		t.Error("no records after the hold")
	}
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	if last := h.node.drawn[len(h.node.drawn)-1]; last.client != "test" || last.bytes == 0 || last.rate != cluster.ConsumerByteRate {
		t.Errorf("drawn last: %+v", last)
	}
}
