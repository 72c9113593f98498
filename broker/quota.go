package broker

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// MaxPublishHold is the longest that a tenant is held for what it published: its overdraft ends there. Clients' request
// time-outs are several times as long.
const MaxPublishHold = 5 * time.Second

// MaxPublishBurst bounds PublishQuotas.Burst.
const MaxPublishBurst = time.Hour

// PublishRate is what a tenant may publish in a second on this node; 0 is unlimited. Each of the two limits on its own.
type PublishRate struct {
	Bytes    int64 // of batches as they are stored
	Messages int64 // records
}

// PublishQuotas are the publish budgets of tenants. The zero value limits nothing.
type PublishQuotas struct {
	Default PublishRate            // of every tenant, each on its own
	Tenants map[string]PublishRate // of these instead of Default
	Burst   time.Duration          // how far ahead of its rate a tenant may run
}

func (q PublishQuotas) validate() error {
	if q.Burst < 0 || q.Burst > MaxPublishBurst {
		return fmt.Errorf("broker: publish burst %v is not from 0 to %v", q.Burst, MaxPublishBurst)
	}
	if q.Default.Bytes < 0 || q.Default.Messages < 0 {
		return errors.New("broker: negative publish rate")
	}
	for tenant, r := range q.Tenants {
		if r.Bytes < 0 || r.Messages < 0 {
			return fmt.Errorf("broker: negative publish rate of tenant %q", tenant)
		}
	}
	return nil
}

// quotas hands out the budgets of tenants. A shard asks once, when it is opened: an append of a tenant without limits costs one
// comparison, one of a tenant with limits an atomic operation for each. A budget lives as long as the process, so that deleting and
// creating a topic clears no debt; there is one for each limited tenant that has had a shard open here, and tenants are few: they
// are made by whoever runs the cluster, never by a client.
type quotas struct {
	conf  PublishQuotas
	now   func() time.Time
	began time.Time

	mu      sync.Mutex
	budgets map[string]*publishBudget // guarded by mu
}

func newQuotas(conf PublishQuotas, now func() time.Time) *quotas {
	return &quotas{conf: conf, now: now, began: now(), budgets: map[string]*publishBudget{}}
}

// of returns the budget that all shards of a tenant share, nil if nothing limits it.
func (q *quotas) of(tenant string, delayed prometheus.Counter) *publishBudget {
	rate, own := q.conf.Tenants[tenant]
	if !own {
		rate = q.conf.Default
	}
	if rate == (PublishRate{}) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.budgets[tenant]
	if b == nil {
		b = &publishBudget{q: q, delayed: delayed}
		b.bytes.init(rate.Bytes, q.conf.Burst)
		b.messages.init(rate.Messages, q.conf.Burst)
		q.budgets[tenant] = b
	}
	return b
}

// publishBudget is what one tenant may still publish.
type publishBudget struct {
	q               *quotas
	bytes, messages bucket
	delayed         prometheus.Counter
}

// draw takes what was written from the budget. The result is how long the tenant is over it, 0 when it is not.
func (b *publishBudget) draw(bytes, messages int) time.Duration {
	now := b.q.now().Sub(b.q.began)
	hold := max(b.bytes.draw(now, bytes), b.messages.draw(now, messages))
	if hold > 0 {
		b.delayed.Inc()
	}
	return hold
}

// take draws a publish that is to be refused while the tenant is over its budget: then it takes nothing and returns for how long that
// will be so. A publish that is larger than what is left passes, and is waited out by the next one.
func (b *publishBudget) take(bytes, messages int) time.Duration {
	now := b.q.now().Sub(b.q.began)
	if over := b.bytes.take(now, bytes); over > 0 {
		return over
	}
	over := b.messages.take(now, messages)
	if over > 0 {
		b.bytes.giveBack(bytes)
	}
	return over
}

// giveBack undoes a take.
func (b *publishBudget) giveBack(bytes, messages int) {
	b.bytes.giveBack(bytes)
	b.messages.giveBack(messages)
}

// bucket is a token bucket told by time instead of tokens: paid is the moment up to which the rate has been used. Before now it is
// credit, of which burst may be kept; after now it is debt, which ends at MaxPublishHold. So there is nothing to refill.
type bucket struct {
	rate  int64 // tokens a second, 0 for no limit
	burst time.Duration
	paid  atomic.Int64 // nanoseconds since quotas.began
}

func (b *bucket) init(rate int64, burst time.Duration) {
	b.rate, b.burst = rate, burst
	b.paid.Store(math.MinInt64) // full, however soon the first draw comes
}

// draw takes n tokens and returns the time until the bucket is out of debt.
func (b *bucket) draw(now time.Duration, n int) time.Duration {
	if b.rate == 0 {
		return 0
	}
	cost := b.cost(n)
	for {
		old := b.paid.Load()
		paid := min(max(time.Duration(old), now-b.burst)+cost, now+MaxPublishHold)
		if b.paid.CompareAndSwap(old, int64(paid)) {
			return max(paid-now, 0)
		}
	}
}

// take draws n tokens unless the bucket is in debt, and then returns for how long it is.
func (b *bucket) take(now time.Duration, n int) time.Duration {
	if b.rate == 0 {
		return 0
	}
	cost := b.cost(n)
	for {
		old := b.paid.Load()
		if over := time.Duration(old) - now; old > 0 && over > 0 {
			return over
		}
		paid := min(max(time.Duration(old), now-b.burst)+cost, now+MaxPublishHold)
		if b.paid.CompareAndSwap(old, int64(paid)) {
			return 0
		}
	}
}

// giveBack returns n tokens. What a draw took beyond the longest hold was never counted, so more may come back than was taken: the next
// draw counts no more than the burst of it.
func (b *bucket) giveBack(n int) {
	if b.rate != 0 {
		b.paid.Add(-int64(b.cost(n)))
	}
}

// cost is the time that n tokens take at the rate, rounded up: with a rate beyond one a nanosecond no draw is free.
func (b *bucket) cost(n int) time.Duration {
	tokens := min(int64(n), math.MaxInt64/int64(time.Second)) // 9 GB, more than any batch has
	cost := tokens * int64(time.Second) / b.rate
	if cost*b.rate != tokens*int64(time.Second) {
		cost++
	}
	// Twice the longest hold and the credit: what is beyond makes no difference to the sum, and must not overflow it.
	return min(time.Duration(cost), 2*MaxPublishHold+b.burst)
}
