package raw_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
	"github.com/felixlog/felix/compat/raw"
)

var _ = register(Case{
	ID: "100.quotas-restart", What: "a user's quota after a clean restart; after kill -9", Want: "producer_byte_rate 1000; producer_byte_rate 1000",
})

// TestCase34Case47Case54Case97Case100Trap32Restarts holds every row that needs a restart, since a JVM takes seconds for one: a
// clean one first, then one after kill -9.
func TestCase34Case47Case54Case97Case100Trap32Restarts(t *testing.T) {
	c := dial(t)
	s := newSequences(c)
	marksTopic := c.topic(1)
	c.mustProduce(marksTopic, 0, values("a", "b", "c"))
	marksBefore := atTheEnd(c, marksTopic)
	kept := c.topic(1)
	for range 20 {
		c.mustProduce(kept, 0, values("x"))
	}
	if code, low := c.deleteRecords(kept, 0, 10); code != 0 || low != 10 {
		t.Fatal(name(code), low)
	}
	user := newName(t)
	if code := do[*kmsg.AlterClientQuotasResponse](c, quotaRequest(1, user, 1000)).Entries[0].ErrorCode; code != 0 {
		t.Fatal(name(code))
	}
	await(t, "the quota", func() bool { return c.quotaOf(1, user) != "none" })

	restart(t, false)
	c = dial(t)
	s.afterCleanRestart(t, c)
	if server.Kind() == peer.Kafka { // it checkpoints the log start once a minute, so it may be lost by a kill
		expect(t, "97.restart", fmt.Sprint(c.offset(kept, 0, -2)))
	}
	if got := atTheEnd(c, marksTopic); got != marksBefore {
		t.Errorf("after a clean restart %s, before %s", got, marksBefore)
	}

	quota := c.quotaOf(1, user)

	restart(t, true)
	c = dial(t)
	s.afterKill(t, c)
	expect(t, "100.quotas-restart", quota+"; "+c.quotaOf(1, user))
	do[*kmsg.AlterClientQuotasResponse](c, quotaRequest(1, user, 0))
	if server.Kind() == peer.Felix {
		expect(t, "97.restart", fmt.Sprint(c.offset(kept, 0, -2)))
		if start := c.fetch(kept, 0, 15).LogStartOffset; start != 10 {
			t.Errorf("log start in a fetch after the kill: %d", start)
		}
	}
	got := atTheEnd(c, marksTopic)
	if got == marksBefore {
		got = "as before"
	}
	expect(t, "T32.restart", got)
	leaderEpochs(t, c, marksTopic)
}

// atTheEnd is what a read_committed reader at offset 3 sees.
func atTheEnd(c *client, topic string) string {
	c.t.Helper()
	req := fetchRequest(topic, 0, 3)
	req.IsolationLevel = 1
	p := c.fetchOne(req)
	return fmt.Sprintf("%s %s %d", name(p.ErrorCode), marks(p), c.offset(topic, 0, -1))
}

// leaderEpochs are cases 47 and 54 on a topic whose leader epoch a kill has raised (design.md decision 4): offsets 0 to 2
// were written in an older one.
func leaderEpochs(t *testing.T, c *client, topic string) {
	t.Helper()
	epoch := c.metadata(9, topic).Topics[0].Partitions[0].LeaderEpoch
	if epoch < 1 {
		t.Fatalf("leader epoch %d after a kill", epoch)
	}
	var fetch, list, ends []int16
	for _, e := range []int32{epoch - 1, epoch + 1, epoch, -1} {
		req := fetchRequest(topic, 0, 0)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = e
		fetch = append(fetch, c.fetchOne(req).ErrorCode)
		lo := listOffsetsRequest(7, topic, 0, -1)
		lo.Topics[0].Partitions[0].CurrentLeaderEpoch = e
		list = append(list, do[*kmsg.ListOffsetsResponse](c, lo).Topics[0].Partitions[0].ErrorCode)
		ends = append(ends, c.epochEnd(topic, e, epoch).ErrorCode)
	}
	expect(t, "47.fetch", names(fetch...))
	expect(t, "47.list", names(list...))
	expect(t, "47.epoch", names(ends...))
	c.mustProduce(topic, 0, values("d"))
	expect(t, "54.current", end(c.epochEnd(topic, -1, epoch), epoch, 4))
	expect(t, "54.older", end(c.epochEnd(topic, -1, epoch-1), c.batches(topic, 0, 0)[0].LeaderEpoch, 3))
	older := c.batches(topic, 0, 0)[0].LeaderEpoch
	if code, low := c.deleteRecords(topic, 0, 3); code != 0 || low != 3 {
		t.Fatal(name(code), low)
	}
	if older != 0 {
		t.Errorf("the first batch has leader epoch %d", older)
	}
	expect(t, "54.oldest", end(c.epochEnd(topic, -1, 0), -9, 0))
	stored := c.batches(topic, 0, 3)
	if e := stored[0].LeaderEpoch; e != epoch {
		t.Errorf("stored batch has leader epoch %d, Metadata says %d", e, epoch)
	}
}

// sequences is the state of case 34: an idempotent producer's batches before the restarts.
type sequences struct {
	id              int64
	topic, segments string // batches of ten records; of one, over several segments
}

func newSequences(c *client) *sequences {
	c.t.Helper()
	s := &sequences{id: c.producerID(), topic: c.topic(1), segments: c.topic(1, "segment.bytes=1048576")}
	c.mustProduce(s.topic, 0, batchOf(s.id, 0, 0, 10))
	// Three segments with snapshots between them, the last batch alone in a new one.
	filler := strings.Repeat("f", 400_000)
	for i := range 8 {
		b := raw.NewBatch(now(), raw.Values(filler)...).Idempotent(s.id, 0, int32(i))
		c.mustProduce(s.segments, 0, b.Encode())
	}
	return s
}

// again sends the batch of a sequence once more, which was stored at an offset, and then the next new one.
func (s *sequences) again(c *client, topic string, sequence, next int32, offset int64) string {
	c.t.Helper()
	n := 10
	if topic == s.segments {
		n = 1
	}
	end := c.offset(topic, 0, -1)
	p := c.produce(topic, 0, batchOf(s.id, 0, sequence, n))
	got := "the original offset"
	if p.ErrorCode != 0 || p.BaseOffset != offset {
		got = at(p)
	}
	if c.offset(topic, 0, -1) == end {
		got += "; log unchanged"
	}
	if q := c.produce(topic, 0, batchOf(s.id, 0, next, n)); q.ErrorCode == 0 && q.BaseOffset == end {
		got += "; the next sequence accepted"
	} else {
		got += "; the next sequence: " + at(q)
	}
	return got
}

func (s *sequences) afterCleanRestart(t *testing.T, c *client) {
	t.Helper()
	expect(t, "34.restart", s.again(c, s.topic, 0, 10, 0))
	older := at(c.produce(s.segments, 0, batchOf(s.id, 0, 5, 1)))
	if older == "0 at 5" {
		older = "the original offset"
	}
	expect(t, "34.older", older)
	expect(t, "34.snapshot", s.again(c, s.segments, 7, 8, 7))
}

func (s *sequences) afterKill(t *testing.T, c *client) {
	t.Helper()
	expect(t, "34.kill", s.again(c, s.topic, 10, 20, 10))
	if p := c.produce(s.segments, 0, batchOf(s.id, 0, 8, 1)); p.ErrorCode != 0 || p.BaseOffset != 8 {
		t.Errorf("several segments, duplicate after the kill: %s", at(p))
	}
	if next := c.producerID(); next <= s.id {
		t.Errorf("producer id %d after the restarts, %d before", next, s.id)
	}
}
