package kafkaproto

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// produceRequestFor is an acks=all request of version 9 for one partition.
func produceRequestFor(topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(9)
	req.Acks = -1
	req.TimeoutMillis = 5000
	tp := kmsg.NewProduceRequestTopic()
	tp.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	tp.Partitions = append(tp.Partitions, p)
	req.Topics = append(req.Topics, tp)
	return req
}

func TestProduceVersions(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("ns", "a.b", 2)
	c := h.dial()
	for version := int16(3); version <= 13; version++ {
		for _, acks := range []int16{-1, 1} {
			req := produceRequestFor("ns.a.b", 1, makeBatch(t, 2, []byte("v")))
			req.SetVersion(version)
			req.Acks = acks
			if version >= 13 {
				req.Topics[0].Topic, req.Topics[0].TopicID = "", topic.ID
			}
			end := h.node.shard(topic, 1).Bounds().End
			resp := c.ask(req).(*kmsg.ProduceResponse)
			want := kmsg.NewProduceResponseTopicPartition()
			want.Partition, want.BaseOffset, want.LogAppendTime, want.LogStartOffset = 1, int64(end), -1, 0
			if version < 5 {
				want.LogStartOffset = resp.Topics[0].Partitions[0].LogStartOffset
			}
			want.ErrorRecords = resp.Topics[0].Partitions[0].ErrorRecords[:0]
			if got := resp.Topics[0].Partitions[0]; !cmp.Equal(got, want, cmp.AllowUnexported(kmsg.Tags{})) {
				t.Errorf("v%d acks %d: %s", version, acks, cmp.Diff(want, got, cmp.AllowUnexported(kmsg.Tags{})))
			}
			if version < 13 && resp.Topics[0].Topic != "ns.a.b" || version >= 13 && resp.Topics[0].TopicID != topic.ID {
				t.Errorf("v%d: topic %q %x", version, resp.Topics[0].Topic, resp.Topics[0].TopicID)
			}
		}
	}
}

func TestProduceErrors(t *testing.T) { // cases 24, 36
	h := newHarness(t, nil)
	h.node.add("default", "a", 1)
	hidden := &cluster.Topic{Tenant: testTenant, Namespace: "default", Name: "memory"}
	h.node.put(hidden, 1)
	h.node.put(&cluster.Topic{Tenant: testTenant, Namespace: "default", Name: "__internal", Durable: true, Internal: true}, 1)
	h.node.put(&cluster.Topic{Tenant: "other", Namespace: "default", Name: "theirs", Durable: true}, 1)
	h.node.addMoved("moved")
	c := h.dial()
	cases := []struct {
		name      string
		topic     string
		partition int32
		acks      int16
		batch     []byte
		want      int16
	}{
		{"unknown topic", "nope", 0, -1, makeBatch(t, 1, nil), 3},
		{"unknown partition", "a", 99, -1, makeBatch(t, 1, nil), 3},
		{"negative partition", "a", -1, -1, makeBatch(t, 1, nil), 3},
		{"in-memory stream", "memory", 0, -1, makeBatch(t, 1, nil), 3},
		{"internal topic", "__internal", 0, -1, makeBatch(t, 1, nil), 17},
		{"another tenant's", "theirs", 0, -1, makeBatch(t, 1, nil), 3},
		{"illegal name", "a/b", 0, -1, makeBatch(t, 1, nil), 17},
		{"default namespace as prefix", "default.a", 0, -1, makeBatch(t, 1, nil), 17},
		{"acks 2", "a", 0, 2, makeBatch(t, 1, nil), 21},
		{"not the leader", "moved", 0, -1, makeBatch(t, 1, nil), 6},
		{"not a batch", "a", 0, -1, []byte("x"), 87},
		{"null records", "a", 0, -1, nil, 87},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			req := produceRequestFor(tc.topic, tc.partition, tc.batch)
			req.Acks = tc.acks
			req.SetVersion(10)
			resp := c.ask(req).(*kmsg.ProduceResponse)
			p := resp.Topics[0].Partitions[0]
			if p.ErrorCode != tc.want || p.BaseOffset != -1 || p.LogAppendTime != -1 || p.LogStartOffset != -1 || p.ErrorMessage == nil {
				t.Errorf("got %+v, want error %d with a sentence and -1 everywhere", p, tc.want)
			}
			if tc.want == 6 { // case 38: the hint is what Metadata says
				if p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != 7 || len(resp.Brokers) != 1 ||
					resp.Brokers[0].Host != "other.example" || *resp.Brokers[0].Rack != "r2" {
					t.Errorf("hint %+v, brokers %+v", p.CurrentLeader, resp.Brokers)
				}
			} else if p.CurrentLeader.LeaderID != -1 {
				t.Errorf("hint %+v without reason", p.CurrentLeader)
			}
			if tc.name == "not a batch" && (len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1) {
				t.Errorf("record errors %+v", p.ErrorRecords)
			}
		})
	}
}

func TestProduceTransactional(t *testing.T) {
	h := newHarness(t, nil)
	h.node.add("default", "a", 1)
	req := produceRequestFor("a", 0, makeBatch(t, 1, nil))
	id := "txn"
	req.TransactionID = &id
	resp := h.dial().ask(req).(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 53 {
		t.Errorf("error %d, want 53", code)
	}
}

func TestProduceUnknownTopicID(t *testing.T) {
	h := newHarness(t, nil)
	req := produceRequestFor("", 0, makeBatch(t, 1, nil))
	req.SetVersion(13)
	req.Topics[0].TopicID = [16]byte{1, 2, 3}
	resp := h.dial().ask(req).(*kmsg.ProduceResponse)
	if got := resp.Topics[0]; got.Partitions[0].ErrorCode != 100 || got.TopicID != req.Topics[0].TopicID {
		t.Errorf("got %+v, want 100 under the same id", got)
	}
}

func TestProduceOnePartitionFailing(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 3)
	req := produceRequestFor("a", 0, makeBatch(t, 1, nil))
	for i, batch := range [][]byte{[]byte("broken"), makeBatch(t, 3, nil)} {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i+1), batch
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	resp := h.dial().ask(req).(*kmsg.ProduceResponse)
	var got []int16
	for _, p := range resp.Topics[0].Partitions {
		got = append(got, p.ErrorCode)
	}
	if diff := cmp.Diff([]int16{0, 87, 0}, got); diff != "" {
		t.Error(diff)
	}
	if end := h.node.shard(topic, 2).Bounds().End; end != 3 {
		t.Errorf("log end %d, want 3", end)
	}
}

func TestProduceAcksZero(t *testing.T) { // cases 20, 21
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	c := h.dial()
	for range 10 {
		req := produceRequestFor("a", 0, makeBatch(t, 1, []byte("x")))
		req.Acks = 0
		c.send(req)
	}
	eventually(t, "all stored", func() bool { return h.node.shard(topic, 0).Bounds().End == 10 })
	c.wantSilent()
	metadata := kmsg.NewPtrMetadataRequest()
	id := c.send(metadata)
	bad := produceRequestFor("nope", 0, makeBatch(t, 1, nil))
	bad.Acks = 0
	c.send(bad)
	c.receive(metadata, id) // what was owed before comes first
	c.wantClosed()
}

func TestProduceWaitsForCommit(t *testing.T) { // case 23
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 2)
	one, two := h.node.shard(topic, 0), h.node.shard(topic, 1)
	one.manual()
	two.manual()
	c := h.dial()
	req := produceRequestFor("a", 0, makeBatch(t, 2, nil))
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = 1, makeBatch(t, 1, nil)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	id := c.send(req)
	eventually(t, "both wait", func() bool { return one.waiting()+two.waiting() == 2 })
	one.commitTo(2)
	c.wantSilent()
	two.commitTo(1)
	if resp := c.receive(req, id).(*kmsg.ProduceResponse); resp.Topics[0].Partitions[1].ErrorCode != 0 {
		t.Errorf("got %+v", resp)
	}

	req = produceRequestFor("a", 0, makeBatch(t, 1, nil))
	id = c.send(req)
	eventually(t, "it waits", func() bool { return one.waiting() == 1 })
	one.fail(&errcode.NotLeaderError{Leader: 2, Epoch: 9})
	if resp := c.receive(req, id).(*kmsg.ProduceResponse); resp.Topics[0].Partitions[0].ErrorCode != 6 {
		t.Errorf("leadership lost: %+v", resp.Topics[0].Partitions[0])
	}

	req = produceRequestFor("a", 0, makeBatch(t, 1, nil))
	req.TimeoutMillis = 20
	if resp := c.ask(req).(*kmsg.ProduceResponse); resp.Topics[0].Partitions[0].ErrorCode != 7 {
		t.Errorf("time limit: %+v", resp.Topics[0].Partitions[0])
	}
	if one.waiting() != 0 {
		t.Error("the waiter outlives its request")
	}
}

func TestProduceWaitDoesNotStopReading(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	sh.manual()
	c := h.dial()
	for range 20 {
		c.send(produceRequestFor("a", 0, makeBatch(t, 1, []byte("x"))))
	}
	eventually(t, "all are appended while none is committed", func() bool { return sh.Bounds().End == 20 })
	sh.commitTo(20)
	for i := range 20 {
		resp := c.receive(produceRequestFor("a", 0, nil), int32(i+1)).(*kmsg.ProduceResponse)
		if got := resp.Topics[0].Partitions[0].BaseOffset; got != int64(i) {
			t.Errorf("answer %d has base offset %d", i, got)
		}
	}
}

func TestAbandonedProduceLeavesNothing(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	sh.manual()
	c := h.dial()
	c.send(produceRequestFor("a", 0, makeBatch(t, 1, nil)))
	eventually(t, "it waits", func() bool { return sh.waiting() == 1 })
	c.nc.Close()
	eventually(t, "the waiter is taken back", func() bool { return sh.waiting() == 0 })
	sh.commitTo(1)
}

// TestProduceDecodesLikeKmsg compares the hand-written decoder with kmsg's.
func TestProduceDecodesLikeKmsg(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(version)
		req.Acks, req.TimeoutMillis = 1, 1234
		for i := range 3 {
			tp := kmsg.NewProduceRequestTopic()
			tp.Topic = fmt.Sprintf("topic-%d", i)
			tp.TopicID = [16]byte{byte(i), 1}
			for j := range i {
				p := kmsg.NewProduceRequestTopicPartition()
				p.Partition, p.Records = int32(j), bytes.Repeat([]byte{byte(j)}, 100*j)
				tp.Partitions = append(tp.Partitions, p)
			}
			req.Topics = append(req.Topics, tp)
		}
		p := &produce{api: &dataAPIs()[0], version: version}
		if _, ok := p.decode(req.AppendTo(nil)); !ok {
			t.Fatalf("v%d: refused", version)
		}
		if p.acks != 1 || p.timeout != 1234*time.Millisecond || len(p.topics) != 3 || len(p.parts) != 3 {
			t.Fatalf("v%d: acks %d timeout %v topics %d parts %d", version, p.acks, p.timeout, len(p.topics), len(p.parts))
		}
		if version < 13 && string(p.topics[2].name) != "topic-2" || version >= 13 && p.topics[2].id != req.Topics[2].TopicID {
			t.Errorf("v%d: topic %q %v", version, p.topics[2].name, p.topics[2].id)
		}
		if got := p.parts[2]; got.index != 1 || !bytes.Equal(got.records, req.Topics[2].Partitions[1].Records) {
			t.Errorf("v%d: part %+v", version, got)
		}
	}
}

func BenchmarkProduceDecode(b *testing.B) {
	req := produceRequestFor("topic", 0, makeBatch(b, 1, make([]byte, 1024)))
	body := req.AppendTo(nil)
	row := &dataAPIs()[0]
	p := &produce{api: row, version: 9}
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, ok := p.decode(body); !ok {
			b.Fatal("refused")
		}
		p.topics, p.parts, p.names = p.topics[:0], p.parts[:0], p.names[:0]
	}
}

func BenchmarkProduceEncode(b *testing.B) {
	p := &produce{api: &dataAPIs()[0], version: 9}
	p.decode(produceRequestFor("topic", 0, makeBatch(b, 1, nil)).AppendTo(nil))
	r := newResponse()
	b.ReportAllocs()
	for b.Loop() {
		r.head = r.head[:0]
		r.begin(1, p.api, 9)
		r.head = p.encode(r.head)
		r.seal()
	}
	r.head = r.head[:0]
	r.release(newBudget(1))
}

func TestHotPathAllocations(t *testing.T) {
	body := produceRequestFor("topic", 0, makeBatch(t, 1, make([]byte, 1024))).AppendTo(nil)
	p := &produce{api: &dataAPIs()[0], version: 9}
	p.decode(body)
	p.topics, p.parts, p.names = p.topics[:0], p.parts[:0], p.names[:0]
	pool := buf.NewPool(1 << 20)
	if n := testing.AllocsPerRun(100, func() {
		ref := pool.Get(len(body))
		copy(ref.Bytes(), body)
		if _, ok := p.decode(ref.Bytes()); !ok {
			t.Fatal("refused")
		}
		r := newResponse()
		r.begin(1, p.api, 9)
		r.head = p.encode(r.head)
		r.seal()
		r.release(newBudgetForTest)
		p.topics, p.parts, p.names = p.topics[:0], p.parts[:0], p.names[:0]
		ref.Release()
	}); n > poolSlack {
		t.Errorf("decoding and answering a produce allocates %v times, want 0", n)
	}
}

var newBudgetForTest = newBudget(1 << 20)
