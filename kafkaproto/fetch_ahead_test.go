package kafkaproto

import (
	"bytes"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/ids"
)

func counted(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.Counter.GetValue()
}

// bulk fills a shard with n batches of one record of 300 KiB and returns them as stored.
func bulk(t *testing.T, sh *fakeShard, n int) []byte {
	t.Helper()
	var all []byte
	for i := range n {
		all = append(all, produced(t, sh, string(bytes.Repeat([]byte{'a' + byte(i)}, 300<<10)))...)
	}
	return all
}

// fetchFrom asks for at most 400 KiB from an offset.
func fetchFrom(c *client, topic string, from ids.Offset) *kmsg.FetchResponseTopicPartition {
	req := fetchRequestFor(topic, 0)
	req.Topics[0].Partitions[0].FetchOffset, req.Topics[0].Partitions[0].PartitionMaxBytes = int64(from), 400<<10
	return &c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

func TestReadAheadOfSequentialFetches(t *testing.T) {
	h := newHarness(t, nil)
	sh := h.node.shard(h.node.add("default", "a", 1), 0)
	want := bulk(t, sh, 8)
	c := h.dial()
	var got []byte
	for from := range ids.Offset(8) {
		got = append(got, fetchFrom(c, "a", from).RecordBatches...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, want %d as stored", len(got), len(want))
	}
	// The first fetch follows nothing; from the second on each read is ahead of its fetch, but none behind the last record.
	if n := sh.reads.Load(); n != 8 {
		t.Errorf("%d reads of the log for 8 fetches", n)
	}
	if used := counted(t, h.srv.metrics.aheadUsed); used != 6 {
		t.Errorf("%v reads ahead were used, want 6", used)
	}
	eventually(t, "all memory for answers is free", func() bool { return h.srv.answers.used.Load() == 0 })
}

func TestReadAheadIsChecked(t *testing.T) {
	h := newHarness(t, nil)
	sh := h.node.shard(h.node.add("default", "a", 1), 0)
	bulk(t, sh, 8)
	c := h.dial()
	fetchFrom(c, "a", 0)
	fetchFrom(c, "a", 1)
	eventually(t, "a read ahead", func() bool { return sh.reads.Load() == 3 })
	sh.set(func() { sh.start = 3 })
	if p := fetchFrom(c, "a", 2); p.ErrorCode != 1 || len(p.RecordBatches) != 0 {
		t.Errorf("records that were deleted after they were read ahead: error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	if p := fetchFrom(c, "a", 3); p.ErrorCode != 0 || len(p.RecordBatches) < 300<<10 {
		t.Errorf("records that are left: error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
}

// TestReadAheadIsNotAllThereIs: what was read ahead ended where the log did; what came since, and what the client allows since, counts.
func TestReadAheadIsNotAllThereIs(t *testing.T) {
	h := newHarness(t, nil)
	sh := h.node.shard(h.node.add("default", "a", 1), 0)
	want := bulk(t, sh, 3)
	c := h.dial()
	fetchFrom(c, "a", 0)
	fetchFrom(c, "a", 1)
	eventually(t, "a read ahead", func() bool { return sh.reads.Load() == 3 })
	want = append(want, bulk(t, sh, 4)...)
	req := fetchRequestFor("a", 0)
	req.MinBytes, req.MaxWaitMillis = 1<<20, 5000
	req.Topics[0].Partitions[0].FetchOffset, req.Topics[0].Partitions[0].PartitionMaxBytes = 2, 50<<20
	p := &c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if rest := want[len(want)/7*2:]; !bytes.Equal(p.RecordBatches, rest) {
		t.Errorf("%d bytes, want the %d that there are", len(p.RecordBatches), len(rest))
	}
}

// TestReadAheadExpires: a client that does not ask for more does not hold memory, neither connected nor gone.
func TestReadAheadExpires(t *testing.T) {
	h := newHarness(t, nil)
	sh := h.node.shard(h.node.add("default", "a", 1), 0)
	bulk(t, sh, 8)
	for range 2 {
		c := h.dial()
		fetchFrom(c, "a", 0)
		fetchFrom(c, "a", 1)
		eventually(t, "all memory for answers is free", func() bool { return h.srv.answers.used.Load() == 0 })
		_ = c.nc.Close()
	}
	eventually(t, "two reads ahead that nobody used", func() bool { return counted(t, h.srv.metrics.aheadUnused) == 2 })
}

func TestTrailRests(t *testing.T) {
	var tr trail
	reads := 0
	for range 1000 { // what is read is never used
		if tr.mayRead() {
			reads++
			tr.unused = true
		}
	}
	if reads > 30 {
		t.Errorf("%d reads ahead in vain of 1000", reads)
	}
	tr.unused, tr.resting, tr.rest = false, 0, 0
	for range 100 { // used each time
		if !tr.mayRead() {
			t.Fatal("a used read ahead was followed by a rest")
		}
		tr.unused = false
	}
}
