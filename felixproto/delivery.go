package felixproto

import "sync/atomic"

// deliveryBudget bounds the memory of frames that wait in the queues of all subscriptions of the process. A frame that many queues
// share counts once. It is never waited for: above it a subscription that has something queued already drops instead of queueing more,
// so whoever keeps up goes on.
type deliveryBudget struct {
	limit int64
	used  atomic.Int64
}

func (b *deliveryBudget) take(n int) {
	if b != nil {
		b.used.Add(int64(n))
	}
}

func (b *deliveryBudget) give(n int) {
	if b != nil {
		b.used.Add(-int64(n))
	}
}

// over reports that more is held than the budget allows.
func (b *deliveryBudget) over() bool { return b != nil && b.used.Load() > b.limit }
