package client

import (
	"testing"
	"time"
)

// TestQueueMoves counts what moves when batches leave one by one: as much as there are, and not the whole queue each time.
func TestQueueMoves(t *testing.T) {
	const n = 10_000
	l := testLane(PublisherOptions{Ack: AckMessage})
	for range n {
		l.mustAdd([]byte{0}, nil)
	}
	moved := 0
	for left := n; left > 0; left-- {
		l.queue[0].state, l.sent = settled, 1
		l.leaveLocked()
		if len(l.queue) != left-1 || l.sent != 0 {
			t.Fatalf("%d batches are left, want %d", len(l.queue), left-1)
		}
		if l.gone == 0 {
			moved += len(l.queue)
		}
		for _, b := range l.whole[:l.gone] {
			if b != nil {
				t.Fatal("a batch that has left is still held")
			}
		}
	}
	if moved > 2*n {
		t.Errorf("%d batches were moved for %d that left", moved, n)
	}
}

// TestJoining has a record join a batch that waits, but not one that is soon given up: it would be given up with it.
func TestJoining(t *testing.T) {
	l := testLane(PublisherOptions{DeliveryTimeout: time.Hour})
	l.mustAdd([]byte{0}, nil)
	l.mustAdd([]byte{2}, nil)
	if len(l.queue) != 1 {
		t.Fatalf("%d batches", len(l.queue))
	}
	l.queue[0].since = l.queue[0].since.Add(-50 * time.Minute)
	l.mustAdd([]byte{4}, nil)
	if len(l.queue) != 2 || l.queue[0].count != 2 {
		t.Errorf("%d batches, the first with %d records", len(l.queue), l.queue[0].count)
	}
}
