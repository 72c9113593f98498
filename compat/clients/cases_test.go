package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
)

// TestCase08Metadata: each client lists brokers at their advertised addresses and a topic with its leaders and ISR.
func TestCase08Metadata(t *testing.T) {
	topic := newTopic(t, 3, nil)
	host, port, err := net.SplitHostPort(suite.addr)
	if err != nil {
		t.Fatal(err)
	}
	forEach(t, "8", func(t *testing.T, c *driver.Client) {
		m := call(t, c, agent.Request{Op: agent.OpMetadata, Topic: topic}).Metadata
		if len(m.Brokers) != 1 || m.Brokers[0].Host != host || strconv.Itoa(m.Brokers[0].Port) != port {
			t.Errorf("brokers %+v, want one at %s", m.Brokers, suite.addr)
		}
		if len(m.Topics) != 1 || m.Topics[0].Name != topic || m.Topics[0].Error != "" || len(m.Topics[0].Partitions) != 3 {
			t.Fatalf("topics %+v, want %s with 3 partitions", m.Topics, topic)
		}
		for _, p := range m.Topics[0].Partitions {
			id := m.Brokers[0].ID
			if p.Leader != id || !slices.Equal(p.Replicas, []int32{id}) || !slices.Equal(p.ISR, []int32{id}) {
				t.Errorf("partition %+v, want leader, replicas and ISR %d", p, id)
			}
		}
	})
}

// TestCase15Defaults: each client connects and lists all topics with its default settings.
func TestCase15Defaults(t *testing.T) {
	topic := newTopic(t, 1, nil)
	forEach(t, "15", func(t *testing.T, c *driver.Client) {
		m := call(t, c, agent.Request{Op: agent.OpMetadata}).Metadata
		if !slices.ContainsFunc(m.Topics, func(listed agent.Topic) bool { return listed.Name == topic && listed.Error == "" }) {
			t.Errorf("%s is not among %d topics", topic, len(m.Topics))
		}
	})
}

// TestCase15Create: each client that has an admin client creates a topic with it.
func TestCase15Create(t *testing.T) {
	forEach(t, "15", func(t *testing.T, c *driver.Client) {
		if c.Features.NoCreate {
			without(t, "15", c, driver.NoAdmin)
		}
		topic := fmt.Sprintf("clients.t%d-created", topics.Add(1))
		call(t, c, agent.Request{Op: agent.OpCreate, Topic: topic, Partitions: 2, Config: map[string]string{"retention.ms": "1000000"}})
		eventually(t, 10*time.Second, "the created topic is listed with 2 partitions", func() bool {
			m := call(t, c, agent.Request{Op: agent.OpMetadata, Topic: topic}).Metadata
			return len(m.Topics) == 1 && m.Topics[0].Error == "" && len(m.Topics[0].Partitions) == 2
		})
		_, err := try(t, c, agent.Request{Op: agent.OpCreate, Topic: topic, Partitions: 2})
		var refused *driver.CallError
		if !errors.As(err, &refused) || refused.Code != 36 {
			t.Errorf("second creation: %v, want error 36", err)
		}
	})
}

// TestCase16KcatLines is the case as a user types it.
func TestCase16KcatLines(t *testing.T) {
	topic := newTopic(t, 3, nil)
	forClient(t, "16", client(t, "kcat"), func(t *testing.T, _ *driver.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		shell := func(line string) string {
			out, err := exec.CommandContext(ctx, "sh", "-c", line).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			return string(out)
		}
		shell(fmt.Sprintf(`printf 'a\nb\nc\n' | kcat -b %s -P -t %s -p 0 -X acks=all`, suite.addr, topic))
		got := shell(fmt.Sprintf(`kcat -b %s -C -t %s -p 0 -o beginning -e -q -f '%%o %%s\n'`, suite.addr, topic))
		if want := "0 a\n1 b\n2 c\n"; got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	})
}

// TestCase20AcksZero: a thousand records without acknowledgement are all stored, in order.
func TestCase20AcksZero(t *testing.T) {
	topic := newTopic(t, int32(len(suite.clients)), nil)
	config := map[string]map[string]string{"java": {"acks": "0", "enable.idempotence": "false"}}
	for i, c := range suite.clients {
		forClient(t, "20", c, func(t *testing.T, c *driver.Client) {
			settings := config[c.Name]
			if settings == nil {
				settings = map[string]string{"acks": "0"}
			}
			records := make([]agent.Record, 1000)
			for n := range records {
				records[n] = agent.Record{Partition: int32(i), Value: fmt.Appendf(nil, "%d", n)}
			}
			call(t, c, agent.Request{Op: agent.OpProduce, Topic: topic, Records: records, Config: settings})
			franz := client(t, "franz-go")
			eventually(t, 10*time.Second, "1000 records are stored", func() bool {
				return call(t, franz, agent.Request{Op: agent.OpWatermarks, Topic: topic, Partition: int32(i)}).Offsets[1] >= 1000
			})
			got := call(t, franz, agent.Request{Op: agent.OpConsume, Topic: topic, Assign: []int32{int32(i)}, From: agent.FromBeginning}).Records
			if len(got) != 1000 {
				t.Fatalf("%d records stored, want 1000", len(got))
			}
			for n, r := range got {
				if string(r.Value) != strconv.Itoa(n) {
					t.Fatalf("offset %d holds %q", n, r.Value)
				}
			}
		})
	}
}

// TestIdempotent: every client that has an idempotent producer writes with it: batches carry a producer id, its first epoch and
// sequences without a gap, and every record is there once and in order.
func TestIdempotent(t *testing.T) {
	const count = 300
	topic := newTopic(t, int32(len(suite.clients)), nil)
	for i, c := range suite.clients {
		if why := c.Features.NoIdempotence; why != "" {
			suite.results.Without("idempotent", c.Name, why)
			continue
		}
		forClient(t, "idempotent", c, func(t *testing.T, c *driver.Client) {
			records := make([]agent.Record, count)
			for n := range records {
				records[n] = agent.Record{Partition: int32(i), Value: fmt.Appendf(nil, "%d", n)}
			}
			call(t, c, agent.Request{Op: agent.OpProduce, Topic: topic, Records: records, Config: map[string]string{"enable.idempotence": "true"}})
			next := map[int64]int32{} // sequence that a producer's next batch begins with
			for _, b := range stored(t, topic, int32(i), 0) {
				if b.producer < 0 || b.epoch != 0 || b.sequence != next[b.producer] {
					t.Errorf("batch at offset %d: producer %d, epoch %d, sequence %d, want a producer, 0, %d", b.base, b.producer, b.epoch, b.sequence, next[b.producer])
				}
				next[b.producer] += b.count
			}
			got := call(t, client(t, "franz-go"), agent.Request{Op: agent.OpConsume, Topic: topic, Assign: []int32{int32(i)}, From: agent.FromBeginning}).Records
			if len(got) != count {
				t.Fatalf("%d records stored, want %d", len(got), count)
			}
			for n, r := range got {
				if string(r.Value) != strconv.Itoa(n) {
					t.Fatalf("offset %d holds %q", n, r.Value)
				}
			}
		})
	}
}

// TestCase25JavaSplits: the topic takes 100 kB, the producer gathers 300 kB in a batch; it must be told 10 and split.
func TestCase25JavaSplits(t *testing.T) {
	topic := newTopic(t, 1, map[string]string{"max.message.bytes": "100000"})
	forClient(t, "25", client(t, "java"), func(t *testing.T, c *driver.Client) {
		res := call(t, c, agent.Request{Op: "java.split", Topic: topic})
		if res.Metrics["batch-split-total"] < 1 {
			t.Errorf("batch-split-total is %v, want at least 1", res.Metrics["batch-split-total"])
		}
		if len(res.Offsets) != 150 {
			t.Errorf("%d records acknowledged, want 150", len(res.Offsets))
		}
		got := call(t, client(t, "franz-go"), agent.Request{Op: agent.OpConsume, Topic: topic, Assign: []int32{0}, From: agent.FromBeginning}).Records
		if len(got) != 150 {
			t.Fatalf("%d records stored, want 150", len(got))
		}
		for i, r := range got {
			if !bytes.HasPrefix(r.Value, fmt.Appendf(nil, "%d/", i)) || res.Offsets[i] != r.Offset {
				t.Fatalf("record %d at offset %d begins %.10q, acknowledged at %d", i, r.Offset, r.Value, res.Offsets[i])
			}
		}
	})
}

// TestCase29JavaMillion: a million records with the producer's defaults, which are idempotent, exactly once and in order. (The
// case's leader moves need more brokers.)
func TestCase29JavaMillion(t *testing.T) {
	const partitions, count = 4, 1_000_000
	topic := newTopic(t, partitions, nil)
	forClient(t, "29", client(t, "java"), func(t *testing.T, c *driver.Client) {
		res := call(t, c, agent.Request{Op: "java.bulk", Topic: topic, Partitions: partitions, From: count})
		if res.Offsets[0] != count {
			t.Fatalf("%d records acknowledged, want %d", res.Offsets[0], count)
		}
		assign := map[int32]kgo.Offset{}
		for p := range int32(partitions) {
			assign[p] = kgo.NewOffset().AtStart()
		}
		cl := dial(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assign}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var next [partitions]int64
		for total := 0; total < count; {
			fetches := cl.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatalf("after %d records: %v", total, err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if want := next[r.Partition]; r.Offset != want || string(r.Value) != strconv.FormatInt(want, 10) {
					t.Fatalf("partition %d: %q at offset %d, want %d", r.Partition, r.Value, r.Offset, want)
				}
				next[r.Partition]++
				total++
			})
		}
		for p := range int32(partitions) {
			if end := call(t, client(t, "franz-go"), agent.Request{Op: agent.OpWatermarks, Topic: topic, Partition: p}).Offsets[1]; end != count/partitions {
				t.Errorf("partition %d ends at %d, want %d", p, end, count/partitions)
			}
		}
	})
}

// TestCase39Tail: a consumer that waits at the end with a long max_wait gets a record when it is committed, not when the wait ends
// (trap 33). The bound is far below the wait and far above what a busy machine adds.
func TestCase39Tail(t *testing.T) {
	const rounds, bound = 20, 100 * time.Millisecond
	topic := newTopic(t, 1, nil)
	wait := map[string]string{"fetch.wait.max.ms": "2000"}
	forEach(t, "39", func(t *testing.T, c *driver.Client) {
		if c.Features.NoTail {
			without(t, "39", c, driver.GroupsOnly)
		}
		config := wait
		if c.Name == "java" {
			config = map[string]string{"fetch.max.wait.ms": "2000"}
		}
		events := make(chan agent.Event, rounds+2)
		stop := stream(t, c, agent.Request{Op: agent.OpTail, Topic: topic, Assign: []int32{0}, Config: config}, func(e agent.Event) { events <- e })
		defer func() {
			if _, err := stop(); err != nil {
				t.Error(err)
			}
		}()
		next := func() agent.Event {
			select {
			case e := <-events:
				return e
			case <-time.After(30 * time.Second):
				t.Fatal("nothing arrived within 30 s")
			}
			return agent.Event{}
		}
		if e := next(); !e.Ready {
			t.Fatalf("first event %+v, want ready", e)
		}
		cl := dial(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
		var took []time.Duration
		for i := range rounds {
			value := fmt.Sprintf("%s %d", c.Name, i)
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte(value)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			acknowledged := time.Now()
			if e := next(); e.Record == nil || string(e.Record.Value) != value {
				t.Fatalf("event %+v, want record %q", e, value)
			}
			took = append(took, time.Since(acknowledged))
		}
		slices.Sort(took)
		t.Logf("after the acknowledgement: median %v, worst %v", took[rounds/2], took[rounds-1])
		if took[rounds/2] > bound {
			t.Errorf("median %v after the acknowledgement, want at most %v", took[rounds/2], bound)
		}
	})
}
