package kafkaproto

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// fetchRequestFor is a sessionless request of version 12 for partitions of one topic, from offset 0, that does not wait.
func fetchRequestFor(topic string, partitions ...int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(12)
	req.MinBytes, req.MaxBytes = 1, 50<<20
	req.SessionEpoch = -1
	tp := kmsg.NewFetchRequestTopic()
	tp.Topic = topic
	for _, index := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = index, 1<<20
		tp.Partitions = append(tp.Partitions, p)
	}
	req.Topics = append(req.Topics, tp)
	return req
}

// produced appends batches of one record each and returns them as stored.
func produced(t testing.TB, sh *fakeShard, values ...string) []byte {
	t.Helper()
	var all []byte
	for _, v := range values {
		ref := buf.Wrap(makeBatch(t, 1, []byte(v)))
		if _, err := sh.Append(appendInput(ref)); err != nil {
			t.Fatal(err)
		}
		all = append(all, ref.Bytes()...)
	}
	return all
}

func TestFetchVersions(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("ns", "a", 2)
	stored := produced(t, h.node.shard(topic, 1), "one", "two", "three")
	c := h.dial()
	for version := int16(4); version <= 18; version++ {
		for _, committed := range []int8{0, 1} {
			req := fetchRequestFor("ns.a", 1, 0)
			req.SetVersion(version)
			req.IsolationLevel = committed
			if version >= 13 {
				req.Topics[0].Topic, req.Topics[0].TopicID = "", topic.ID
			}
			resp := c.ask(req).(*kmsg.FetchResponse)
			if resp.ErrorCode != 0 || resp.SessionID != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
				t.Fatalf("v%d: %+v", version, resp)
			}
			if version < 13 && resp.Topics[0].Topic != "ns.a" || version >= 13 && resp.Topics[0].TopicID != topic.ID {
				t.Errorf("v%d: topic %q %x", version, resp.Topics[0].Topic, resp.Topics[0].TopicID)
			}
			got := resp.Topics[0].Partitions[0]
			want := kmsg.NewFetchResponseTopicPartition()
			want.Partition, want.HighWatermark, want.LastStableOffset, want.RecordBatches = 1, 3, 3, stored
			want.LogStartOffset, want.PreferredReadReplica = got.LogStartOffset, -1
			if version >= 5 {
				want.LogStartOffset = 0
			}
			if committed == 1 {
				want.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(kmsg.Tags{})); diff != "" {
				t.Errorf("v%d isolation %d: %s", version, committed, diff)
			}
			empty := resp.Topics[0].Partitions[1]
			if empty.RecordBatches == nil || len(empty.RecordBatches) != 0 || empty.HighWatermark != 0 { // case 41, trap 7
				t.Errorf("v%d: empty partition %+v", version, empty)
			}
		}
	}
}

func TestFetchErrors(t *testing.T) { // cases 45, 47, 49
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	produced(t, sh, "a", "b", "c", "d")
	sh.mu.Lock()
	sh.start, sh.hw = 1, 3
	sh.mu.Unlock()
	moved := h.node.addMoved("moved")
	c := h.dial()
	cases := []struct {
		name   string
		topic  string
		change func(*kmsg.FetchRequestTopicPartition)
		want   int16
	}{
		{"below the log start", "a", func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 0 }, 1},
		{"above the log end", "a", func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 5 }, 1},
		{"negative", "a", func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = -1 }, 1},
		{"between high watermark and log end", "a", func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 4 }, 0},
		{"older leader epoch", "a", func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset, p.CurrentLeaderEpoch = 1, 2 }, 74},
		{"newer leader epoch", "a", func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset, p.CurrentLeaderEpoch = 1, 4 }, 75},
		{"current leader epoch", "a", func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset, p.CurrentLeaderEpoch = 1, 3 }, 0},
		{"unknown topic", "nope", func(*kmsg.FetchRequestTopicPartition) {}, 3},
		{"unknown partition", "a", func(p *kmsg.FetchRequestTopicPartition) { p.Partition = 9 }, 3},
		{"illegal name", "a/b", func(*kmsg.FetchRequestTopicPartition) {}, 3},
		{"not the leader", "moved", func(*kmsg.FetchRequestTopicPartition) {}, 6},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			req := fetchRequestFor(tc.topic, 0)
			tc.change(&req.Topics[0].Partitions[0])
			p := c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			if p.ErrorCode != tc.want {
				t.Errorf("error %d, want %d", p.ErrorCode, tc.want)
			}
			if tc.want != 0 && (p.HighWatermark != -1 || p.LastStableOffset != -1 || p.LogStartOffset != -1 || len(p.RecordBatches) != 0) {
				t.Errorf("fields of an error: %+v", p)
			}
			if tc.want == 0 && (p.HighWatermark != 3 || p.LogStartOffset != 1) {
				t.Errorf("fields: %+v", p)
			}
		})
	}
	byID := fetchRequestFor("", 0)
	byID.SetVersion(16)
	byID.Topics[0].TopicID = [16]byte{9}
	if p := c.ask(byID).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 100 {
		t.Errorf("made-up id: %d, want 100", p.ErrorCode)
	}
	byID.Topics[0].TopicID = moved.ID
	resp := c.ask(byID).(*kmsg.FetchResponse)
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 6 || p.CurrentLeader.LeaderID != 2 || len(resp.Brokers) != 1 {
		t.Errorf("not the leader in v16: %+v %+v", p, resp.Brokers)
	}
	replica := fetchRequestFor("a", 0)
	replica.ReplicaID = 5
	if p := c.ask(replica).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 29 {
		t.Errorf("replica: %d, want 29", p.ErrorCode)
	}
}

func TestFetchDivergingEpoch(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	produced(t, h.node.shard(topic, 0), "a", "b")
	req := fetchRequestFor("a", 0)
	req.Topics[0].Partitions[0].FetchOffset, req.Topics[0].Partitions[0].LastFetchedEpoch = 1, 5
	p := h.dial().ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.DivergingEpoch.Epoch != 2 || p.DivergingEpoch.EndOffset != 0 || len(p.RecordBatches) != 0 {
		t.Errorf("got %+v, want a diverging epoch and no records", p)
	}
}

func TestFetchLimits(t *testing.T) { // cases 42, 43, 44
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 3)
	large := string(make([]byte, 100_000))
	for i := range int32(3) {
		produced(t, h.node.shard(topic, i), large, "small")
	}
	c := h.dial()
	sizes := func(req *kmsg.FetchRequest) (out []int) {
		t.Helper()
		for _, p := range c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions {
			out = append(out, len(p.RecordBatches))
		}
		return out
	}
	one, both := len(makeBatch(t, 1, []byte(large))), len(makeBatch(t, 1, []byte(large)))+len(makeBatch(t, 1, []byte("small")))
	req := fetchRequestFor("a", 0, 1, 2)
	req.MaxBytes = 1
	if diff := cmp.Diff([]int{one, 0, 0}, sizes(req)); diff != "" {
		t.Errorf("max_bytes 1: %s", diff)
	}
	req = fetchRequestFor("a", 0, 1, 2)
	req.MaxBytes = int32(both) + 1000
	if diff := cmp.Diff([]int{both, 0, 0}, sizes(req)); diff != "" {
		t.Errorf("max_bytes for one partition: %s", diff)
	}
	req = fetchRequestFor("a", 0, 1, 2)
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].PartitionMaxBytes = 1
	}
	if diff := cmp.Diff([]int{one, 0, 0}, sizes(req)); diff != "" {
		t.Errorf("partition_max_bytes 1: %s", diff)
	}
}

func TestFetchWaits(t *testing.T) { // cases 39, 40; traps 33, 45
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 2)
	sh := h.node.shard(topic, 1)
	c := h.dial()

	req := fetchRequestFor("a", 0, 1)
	req.MaxWaitMillis = 20_000
	id := c.send(req)
	eventually(t, "it waits on both", func() bool { return sh.waiting() == 1 && h.node.shard(topic, 0).waiting() == 1 })
	c.wantSilent()
	stored := produced(t, sh, "x")
	resp := c.receive(req, id).(*kmsg.FetchResponse)
	if !bytes.Equal(resp.Topics[0].Partitions[1].RecordBatches, stored) {
		t.Errorf("got %+v", resp.Topics[0].Partitions[1])
	}
	if h.node.shard(topic, 0).waiting() != 0 {
		t.Error("the other partition's waiter is left")
	}

	began := time.Now()
	req.MaxWaitMillis, req.MinBytes = 60, 1<<20
	resp = c.ask(req).(*kmsg.FetchResponse)
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("answered after %v with less than min_bytes", took)
	}
	if !bytes.Equal(resp.Topics[0].Partitions[1].RecordBatches, stored) {
		t.Error("the answer at the time limit lacks what there is")
	}

	req.MaxWaitMillis = 20_000
	req.MinBytes = int32(2 * len(stored))
	id = c.send(req)
	eventually(t, "it waits for more", func() bool { return sh.waiting() == 1 })
	produced(t, sh, "y")
	if resp = c.receive(req, id).(*kmsg.FetchResponse); len(resp.Topics[0].Partitions[1].RecordBatches) != 2*len(stored) {
		t.Errorf("got %d bytes", len(resp.Topics[0].Partitions[1].RecordBatches))
	}

	req.MinBytes = 10 << 20
	req.Topics[0].Partitions = req.Topics[0].Partitions[1:]
	req.Topics[0].Partitions[0].PartitionMaxBytes = 10
	if resp = c.ask(req).(*kmsg.FetchResponse); len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Error("min_bytes above what may be sent: no records")
	}
}

func TestFetchWaitEndsOnError(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	c := h.dial()
	req := fetchRequestFor("a", 0)
	req.MaxWaitMillis = 20_000
	id := c.send(req)
	eventually(t, "it waits", func() bool { return sh.waiting() == 1 })
	sh.fail(errcode.New(errcode.UnknownShard, "deleted"))
	if p := c.receive(req, id).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 3 {
		t.Errorf("error %d, want 3", p.ErrorCode)
	}
}

func TestAbandonedFetchLeavesNothing(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	c := h.dial()
	req := fetchRequestFor("a", 0)
	req.MaxWaitMillis = 20_000
	c.send(req)
	eventually(t, "it waits", func() bool { return sh.waiting() == 1 })
	c.nc.Close()
	eventually(t, "the waiter is taken back", func() bool { return sh.waiting() == 0 })
}

func TestFetchFanOut(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	sh := h.node.shard(topic, 0)
	req := fetchRequestFor("a", 0)
	req.MaxWaitMillis = 20_000
	var consumers []*client
	for range 20 {
		c := h.dial()
		c.send(req)
		consumers = append(consumers, c)
	}
	eventually(t, "all wait", func() bool { return sh.waiting() == 20 })
	stored := produced(t, sh, "x")
	for _, c := range consumers {
		if p := c.receive(req, 1).(*kmsg.FetchResponse).Topics[0].Partitions[0]; !bytes.Equal(p.RecordBatches, stored) {
			t.Errorf("got %x", p.RecordBatches)
		}
	}
}

func TestFetchWithoutMemoryForAnswers(t *testing.T) {
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 1)
	stored := produced(t, h.node.shard(topic, 0), "x")
	h.srv.answers.force(h.srv.answers.limit)
	c := h.dial()
	req := fetchRequestFor("a", 0)
	req.MaxWaitMillis = 20
	if p := c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark != 1 {
		t.Errorf("at the time limit: %+v, want an empty answer", p)
	}
	req.MaxWaitMillis = 20_000
	id := c.send(req)
	c.wantSilent()
	h.srv.answers.put(h.srv.answers.limit)
	if p := c.receive(req, id).(*kmsg.FetchResponse).Topics[0].Partitions[0]; !bytes.Equal(p.RecordBatches, stored) {
		t.Errorf("once there is memory: %+v", p)
	}
}

// TestFetchDecodesLikeKmsg compares the hand-written decoder with kmsg's.
func TestFetchDecodesLikeKmsg(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		req := kmsg.NewPtrFetchRequest()
		req.SetVersion(version)
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 1, 2, 3, 1
		req.SessionID, req.SessionEpoch, req.ReplicaID, req.ReplicaState.ID = 4, 5, 6, 6
		req.Rack = "rack"
		for i := range 3 {
			tp := kmsg.NewFetchRequestTopic()
			tp.Topic, tp.TopicID = string(rune('a'+i)), [16]byte{byte(i + 1)}
			for j := range i + 1 {
				p := kmsg.NewFetchRequestTopicPartition()
				p.Partition, p.CurrentLeaderEpoch, p.FetchOffset = int32(j), int32(10+j), int64(20+j)
				p.LastFetchedEpoch, p.LogStartOffset, p.PartitionMaxBytes = int32(30+j), int64(40+j), int32(50+j)
				p.ReplicaDirectoryID = [16]byte{1}
				tp.Partitions = append(tp.Partitions, p)
			}
			req.Topics = append(req.Topics, tp)
			gone := kmsg.NewFetchRequestForgottenTopic()
			gone.Topic, gone.TopicID, gone.Partitions = tp.Topic, tp.TopicID, []int32{7, 8}
			req.ForgottenTopics = append(req.ForgottenTopics, gone)
		}
		f := &fetch{api: &dataAPIs()[1], version: version}
		got, ok := f.decode(req.AppendTo(nil))
		if !ok {
			t.Fatalf("v%d: refused", version)
		}
		if got.maxWait != time.Millisecond || got.minBytes != 2 || got.maxBytes != 3 || !got.readCommitted || got.replica != 6 {
			t.Errorf("v%d: %+v", version, got)
		}
		if version >= 7 && (got.session != 4 || got.epoch != 5 || len(got.forgotten) != 6) || version < 7 && got.epoch != -1 {
			t.Errorf("v%d: session %d epoch %d forgotten %v", version, got.session, got.epoch, got.forgotten)
		}
		p := f.parts[5]
		want := fetchPart{name: "c", index: 2, offset: 22, maxBytes: 52, epoch: ids.NoEpoch, lastEpoch: ids.NoEpoch}
		if version >= 9 {
			want.epoch = 12
		}
		if version >= 12 {
			want.lastEpoch = 32
		}
		if version >= 13 {
			want.name, want.id = "", ids.TopicID{3}
		}
		if len(f.parts) != 6 || p.name != want.name || p.id != want.id || p.index != want.index || p.offset != want.offset ||
			p.maxBytes != want.maxBytes || p.epoch != want.epoch || p.lastEpoch != want.lastEpoch {
			t.Errorf("v%d: %d parts, last %+v, want %+v", version, len(f.parts), p, want)
		}
	}
}

func appendInput(ref *buf.Ref) broker.AppendInput {
	return broker.AppendInput{Records: ref.Bytes(), Owner: ref}
}

func BenchmarkFetchDecode(b *testing.B) {
	body := fetchRequestFor("topic", 0, 1, 2, 3).AppendTo(nil)
	f := &fetch{api: &dataAPIs()[1], version: 12}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := f.decode(body); !ok {
			b.Fatal("refused")
		}
		f.dropParts()
		f.names = f.names[:0]
	}
}

func BenchmarkFetchEncode(b *testing.B) {
	chunk := broker.Chunk{Data: make([]byte, 1<<20)}
	f := &fetch{api: &dataAPIs()[1], version: 12}
	f.decode(fetchRequestFor("topic", 0, 1, 2, 3).AppendTo(nil))
	for i := range f.parts {
		f.chunks = append(f.chunks, chunk)
		f.parts[i].firstChunk, f.parts[i].endChunk, f.parts[i].bytes = i, i+1, len(chunk.Data)
	}
	free := newBudget(1)
	b.ReportAllocs()
	b.SetBytes(4 << 20)
	for b.Loop() {
		r := newResponse()
		r.begin(1, f.api, 12)
		f.encode(r)
		r.seal()
		r.release(free)
	}
}
