package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
)

// TestCase50OffsetsOfTimes: `kcat -Q` and the other clients' lookups by time (trap 18); the Java consumer's is case 58.
func TestCase50OffsetsOfTimes(t *testing.T) {
	topic, times := timedTopic(t)
	forEach(t, "50", func(t *testing.T, c *driver.Client) {
		if got := call(t, c, agent.Request{Op: agent.OpWatermarks, Topic: topic}).Offsets; !slices.Equal(got, []int64{0, int64(len(times))}) {
			t.Errorf("first and next offset %v, want 0 and %d", got, len(times))
		}
		lookups := []int64{times[0] - 1000, times[0], times[4] - 500, times[4], times[9], times[9] + 3_600_000}
		got := call(t, c, agent.Request{Op: agent.OpOffsets, Topic: topic, Times: lookups}).Offsets
		want := []int64{0, 0, 4, 4, 9, -1}
		if c.Features.FutureIsEnd {
			want[5] = int64(len(times))
		}
		if !slices.Equal(got, want) {
			t.Errorf("offsets of times %v, want %v", got, want)
		}
	})
}

// timedTopic is a topic with ten records, a batch each, one second apart, starting an hour ago.
func timedTopic(t *testing.T) (topic string, times []int64) {
	t.Helper()
	topic = newTopic(t, 1, nil)
	cl := dial(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	start := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i := range 10 {
		at := start.Add(time.Duration(i) * time.Second)
		times = append(times, at.UnixMilli())
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: fmt.Appendf(nil, "%d", i), Timestamp: at}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return topic, times
}

// TestCase58SeekAndOffsets: assign, seek into the middle, beginning and end offsets, offsets of times; at Java's consumer, and at
// each other client that can.
func TestCase58SeekAndOffsets(t *testing.T) {
	topic, times := timedTopic(t)
	forEach(t, "58", func(t *testing.T, c *driver.Client) {
		needsRead(t, c)
		if got := call(t, c, agent.Request{Op: agent.OpWatermarks, Topic: topic}).Offsets; !slices.Equal(got, []int64{0, 10}) {
			t.Errorf("beginning and end offset %v, want 0 and 10", got)
		}
		for _, from := range []int64{agent.FromBeginning, 0, 7, 9} {
			got := call(t, c, agent.Request{Op: agent.OpConsume, Topic: topic, Assign: []int32{0}, From: from}).Records
			first := max(from, 0)
			if len(got) != int(10-first) {
				t.Fatalf("%d records from offset %d, want %d", len(got), from, 10-first)
			}
			for i, r := range got {
				if r.Offset != first+int64(i) || string(r.Value) != fmt.Sprint(r.Offset) || r.Timestamp != times[r.Offset] {
					t.Errorf("from %d: record %d is %d %q at %d", from, i, r.Offset, r.Value, r.Timestamp)
				}
			}
		}
		lookups := []int64{times[3], times[3] + 1, times[9] + 1}
		want := []int64{3, 4, -1}
		if c.Features.FutureIsEnd {
			want[2] = 10
		}
		if got := call(t, c, agent.Request{Op: agent.OpOffsets, Topic: topic, Times: lookups}).Offsets; !slices.Equal(got, want) {
			t.Errorf("offsets of times %v, want %v", got, want)
		}
	})
}

// TestCase35LogAppendTime: what consumers of a LogAppendTime topic see is the server's time, whatever the producer wrote.
func TestCase35LogAppendTime(t *testing.T) {
	topic := newTopic(t, 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	before := time.Now().Truncate(time.Millisecond).UnixMilli()
	call(t, client(t, "franz-go"), agent.Request{Op: agent.OpProduce, Topic: topic, Codec: "zstd", Records: []agent.Record{
		{Value: []byte("a"), Timestamp: 1000}, {Value: []byte("b"), Timestamp: 2000},
	}})
	after := time.Now().UnixMilli()
	for _, b := range stored(t, topic, 0, 0) {
		if !b.appendTime {
			t.Errorf("batch at offset %d has no LogAppendTime bit", b.base)
		}
	}
	forEach(t, "35", func(t *testing.T, c *driver.Client) {
		needsRead(t, c)
		got := call(t, c, agent.Request{Op: agent.OpConsume, Topic: topic, Assign: []int32{0}, From: agent.FromBeginning}).Records
		if len(got) != 2 {
			t.Fatalf("%d records, want 2", len(got))
		}
		if c.Features.NoAppendTime {
			if got[0].Timestamp != 1000 || got[1].Timestamp != 2000 {
				t.Errorf("timestamps %d and %d, want the producer's 1000 and 2000: the library knows no other", got[0].Timestamp, got[1].Timestamp)
			}
			without(t, "35", c, "takes no notice of a batch's LogAppendTime bit and shows the producer's times")
		}
		for _, r := range got {
			if r.Timestamp < before || r.Timestamp > after {
				t.Errorf("offset %d has timestamp %d, want between %d and %d", r.Offset, r.Timestamp, before, after)
			}
		}
	})
}

// TestCase59GapsAndEmptyBatches: a compacted topic whose first offsets are gone. Partition 0 keeps empty batches (the last one of a
// producer stays as a header, so that its sequence is not forgotten), partition 1 has a bare gap. Where the server has transactions,
// partition 2 ends with a control record. Every client passes over all of it and reaches the end (trap 19).
func TestCase59GapsAndEmptyBatches(t *testing.T) {
	topic := newTopic(t, 3, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0",
		"min.compaction.lag.ms": "0", "max.compaction.lag.ms": "1",
	})
	write := func(cl *kgo.Client, partition int32, round int) {
		t.Helper()
		var records []*kgo.Record
		for _, key := range []string{"a", "b", "c"} {
			// A segment's age is told by timestamps; each round is a minute later than the one before.
			at := time.Now().Add(time.Duration(round-60) * time.Minute)
			records = append(records, &kgo.Record{Partition: partition, Key: []byte(key), Value: fmt.Appendf(nil, "%d", round), Timestamp: at})
		}
		if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	producer := func(opts ...kgo.Opt) *kgo.Client {
		return dial(t, append(opts, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	}
	one := producer()
	for round := range 3 {
		write(producer(), 0, round)
		write(one, 1, round)
	}
	assign := []int32{0, 1}
	if transactions(t) {
		txn := producer(kgo.TransactionalID("clients-case-59"))
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		write(txn, 2, 0)
		if err := txn.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		assign = append(assign, 2)
	}
	// The first round is gone once it is cleaned. Whether the second one stays depends on the last round's segment being active still.
	var left []string // what the last look found, for a failure
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("stored: ", strings.Join(left, "; "))
		}
	})
	eventually(t, 60*time.Second, "the cleaner removes the overwritten records", func() bool {
		left = left[:0]
		gone := true
		for p := range int32(2) {
			for _, b := range stored(t, topic, p, 0) {
				left = append(left, fmt.Sprintf("partition %d, offsets %d to %d: %d records", p, b.base, b.last, b.count))
				gone = gone && (b.last >= 3 || b.count == 0)
			}
		}
		return gone
	})
	empty := 0
	for _, b := range stored(t, topic, 0, 0) {
		if b.count == 0 {
			empty++
		}
	}
	t.Logf("%d empty batches in partition 0", empty)
	forEach(t, "59", func(t *testing.T, c *driver.Client) {
		needsRead(t, c)
		for _, p := range assign {
			for _, from := range []int64{agent.FromBeginning, 1, 2} {
				var got []int64
				for _, r := range call(t, c, agent.Request{Op: agent.OpConsume, Topic: topic, Assign: []int32{p}, From: from}).Records {
					got = append(got, r.Offset)
				}
				want := [][]int64{{3, 4, 5, 6, 7, 8}, {6, 7, 8}}
				if p == 2 {
					all := []int64{0, 1, 2}
					if c.Features.ShowsControl {
						suite.results.Without("59", c.Name, "gives out the control records of transactions as records")
						all = append(all, 3)
					}
					want = [][]int64{all[max(from, 0):]}
				}
				if !slices.ContainsFunc(want, func(w []int64) bool { return slices.Equal(got, w) }) {
					t.Errorf("partition %d from %d: offsets %v, want one of %v", p, from, got, want)
				}
			}
		}
	})
}

// transactions says whether the server advertises EndTxn.
func transactions(t *testing.T) bool {
	t.Helper()
	return served(t, kmsg.EndTxn)
}

// served says whether the server advertises an API.
func served(t *testing.T, api kmsg.Key) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	raw, err := dial(t).Request(ctx, &kmsg.ApiVersionsRequest{Version: 3, ClientSoftwareName: "clients", ClientSoftwareVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(raw.(*kmsg.ApiVersionsResponse).ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
		return k.ApiKey == int16(api)
	})
}
