package kafkaproto

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

// overBudget is a harness with a topic of two partitions, a produce to the first of which is held for the given time, and one to the
// second for a third of it.
func overBudget(t *testing.T, hold time.Duration) (*harness, [2]*fakeShard) {
	t.Helper()
	h := newHarness(t, nil)
	topic := h.node.add("default", "a", 2)
	shards := [2]*fakeShard{h.node.shard(topic, 0), h.node.shard(topic, 1)}
	for i, s := range shards {
		s.set(func() { s.hold = hold / time.Duration(1+2*i) })
	}
	return h, shards
}

// produceToBoth is a request with a batch for each partition, so that the last is not the one that is held longest.
func produceToBoth(t *testing.T, version, acks int16, size int) *kmsg.ProduceRequest {
	req := produceRequestFor("a", 0, makeBatch(t, 1, make([]byte, size)))
	req.SetVersion(version)
	req.Acks = acks
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = 1, makeBatch(t, 1, nil)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	return req
}

// TestProduceThrottled covers case 37: what is over the budget is written and answered with the longest hold, and the next request
// is not read before; the same for versions whose clients do not wait themselves, and for acks=0, which has no answer.
func TestProduceThrottled(t *testing.T) {
	const hold = 60 * time.Millisecond
	for _, size := range []int{10, streamFrom} {
		for _, version := range []int16{3, 5, 6, 12} {
			for _, acks := range []int16{-1, 0, 1} {
				t.Run(fmt.Sprintf("%d_bytes_v%d_acks_%d", size, version, acks), func(t *testing.T) {
					h, shards := overBudget(t, hold)
					c := h.dial()
					req := produceToBoth(t, version, acks, size)
					began := time.Now()
					id := c.send(req)
					if acks != 0 {
						if resp := c.receive(req, id).(*kmsg.ProduceResponse); resp.ThrottleMillis != 60 {
							t.Errorf("throttle_time_ms %d, want 60", resp.ThrottleMillis)
						}
					}
					c.ask(kmsg.NewPtrMetadataRequest())
					if took := time.Since(began); took < hold {
						t.Errorf("the next request is answered after %v", took)
					}
					for i, s := range shards {
						if got := s.Bounds().End; got != 1 {
							t.Errorf("partition %d ends at %d, want 1: what is over the budget is written", i, got)
						}
					}
				})
			}
		}
	}
}

// TestUnwrittenProduceIsNotThrottled: nothing was drawn.
func TestUnwrittenProduceIsNotThrottled(t *testing.T) {
	h, shards := overBudget(t, maxThrottle)
	for _, s := range shards {
		s.set(func() { s.err = errcode.New(errcode.StorageFailed, "disk") })
	}
	c := h.dial()
	if resp := c.ask(produceToBoth(t, 9, -1, 10)).(*kmsg.ProduceResponse); resp.ThrottleMillis != 0 {
		t.Errorf("throttle_time_ms %d, want 0", resp.ThrottleMillis)
	}
}

// TestThrottledAnswerLeavesAtOnce: an answer that would have waited for those of requests at hand does not wait while they are
// not read, and no hold is longer than the longest.
func TestThrottledAnswerLeavesAtOnce(t *testing.T) {
	for _, size := range []int{10, streamFrom} {
		h, _ := overBudget(t, time.Hour)
		c := h.dial()
		req := produceToBoth(t, 9, 1, size)
		began := time.Now()
		c.write(append(encode(req, 1), encode(kmsg.NewPtrMetadataRequest(), 2)...))
		if resp := c.receive(req, 1).(*kmsg.ProduceResponse); resp.ThrottleMillis != 5000 {
			t.Errorf("throttle_time_ms %d, want 5000", resp.ThrottleMillis)
		}
		if took := time.Since(began); took >= maxThrottle {
			t.Errorf("answered after %v: not before the hold was over", took)
		}
		c.wantSilent()
	}
}

// TestCloseDoesNotWaitForAMute: a held connection gets what it is owed, and ends.
func TestCloseDoesNotWaitForAMute(t *testing.T) {
	h, shards := overBudget(t, maxThrottle)
	shards[0].manual()
	began := time.Now()
	unanswered, owed := h.dial(), h.dial()
	unanswered.send(produceToBoth(t, 9, 0, 10))
	eventually(t, "it is written", func() bool { return shards[1].Bounds().End == 1 })
	req := produceToBoth(t, 9, -1, 10)
	owed.send(req)
	eventually(t, "it waits", func() bool { return shards[0].waiting() == 1 })
	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		closed <- h.srv.Close(ctx)
	}()
	unanswered.wantClosed()
	shards[0].commitTo(2)
	if resp := owed.receive(req, 1).(*kmsg.ProduceResponse); resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Error("the produce that was owed an answer failed")
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(began); took >= maxThrottle {
		t.Errorf("closed after %v: the mutes were waited for", took)
	}
}
