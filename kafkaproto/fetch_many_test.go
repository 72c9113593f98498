package kafkaproto

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// manyTimes names one partition n times, which a fetch treats as n partitions.
func manyTimes(n int) *kmsg.FetchRequest {
	req := fetchRequestFor("a", 0)
	p := req.Topics[0].Partitions[0]
	req.Topics[0].Partitions = nil
	for range n {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	return req
}

func TestFullAnswerIsNotSearchedOn(t *testing.T) {
	h := newHarness(t, nil)
	sh := h.node.shard(h.node.add("default", "a", 1), 0)
	size := len(produced(t, sh, string(make([]byte, 100_000))))
	c := h.dial()
	req := manyTimes(1000)
	req.MaxBytes = int32(2*size + size/2)
	filled := 0
	for _, p := range c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions {
		if len(p.RecordBatches) > 0 {
			filled++
		}
	}
	if n := sh.reads.Load(); filled != 2 || n > 2+maxMisses {
		t.Errorf("%d partitions with records after %d reads, want 2 after at most %d", filled, n, 2+maxMisses)
	}
}

// TestWakingManyPartitionsIsNotQuadratic has one append wake all of a fetch's partitions, none of which gives enough to answer.
func TestWakingManyPartitionsIsNotQuadratic(t *testing.T) {
	const n = 2000
	h := newHarness(t, nil)
	sh := h.node.shard(h.node.add("default", "a", 1), 0)
	size := len(makeBatch(t, 1, []byte("x")))
	c := h.dial()
	req := manyTimes(n)
	req.MaxWaitMillis, req.MinBytes = 20_000, int32(n*size+n*size/2)
	id := c.send(req)
	eventually(t, "all wait", func() bool { return sh.waiting() == n })
	before := sh.looks.Load()
	produced(t, sh, "x")
	eventually(t, "all wait again", func() bool { return sh.waiting() == n })
	c.wantSilent()
	if looks := sh.looks.Load() - before; looks > 20*n {
		t.Errorf("%d looks for one append", looks)
	}
	produced(t, sh, "x")
	if resp := c.receive(req, id).(*kmsg.FetchResponse); len(resp.Topics[0].Partitions[n-1].RecordBatches) != 2*size {
		t.Errorf("got %d bytes", len(resp.Topics[0].Partitions[n-1].RecordBatches))
	}
	if sh.waiting() != 0 {
		t.Error("waiters are left")
	}
}
