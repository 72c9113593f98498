package broker

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// Client quotas bound the bytes that one user, one client id, or one client of one user moves through this node, over all its
// connections. They are set over the Kafka protocol and kept by the controller. The tenant's publish budget, which whoever runs the
// node sets, bounds the tenant beside them: of two holds the longer counts.

const (
	// clientQuotaBurst is how far ahead of its rate a client may run: the first second costs nothing.
	clientQuotaBurst = time.Second
	// maxClientBudgets bounds the budgets remembered, since clients choose their ids. Beyond it a budget that owes nothing makes room,
	// and while none does, new clients share one budget for each quota.
	maxClientBudgets = 10_000
	// sweepPause is the least time between two searches for budgets that owe nothing.
	sweepPause = time.Second
)

// clientKey is who shares a budget: a part that the quota does not tell by is empty.
type clientKey struct {
	tenant, user, client string
	kind                 budgetKind
	rate                 cluster.QuotaRate
}

// budgetKind keeps apart the budgets of a user, of a client id, of both together, and the shared one of a quota.
type budgetKind uint8

const (
	userBudget budgetKind = iota
	clientBudget
	bothBudget
	sharedBudget
)

// clientQuotas are the budgets of clients. They are looked up for each request of a tenant that has quotas, and not at all for one of
// a tenant without.
type clientQuotas struct {
	now   func() time.Time
	began time.Time

	produced, consumed prometheus.Counter // holds given

	mu      sync.Mutex
	budgets map[clientKey]*bucket // guarded by mu
	swept   time.Duration         // guarded by mu: when it was last, since began
}

func newClientQuotas(now func() time.Time, m *metrics) *clientQuotas {
	return &clientQuotas{
		now: now, began: now(), budgets: map[clientKey]*bucket{}, swept: -sweepPause,
		produced: m.clientsThrottled.WithLabelValues(cluster.ProducerByteRate.String()),
		consumed: m.clientsThrottled.WithLabelValues(cluster.ConsumerByteRate.String()),
	}
}

// DrawClientQuota takes bytes that a client of the caller moved from what its quota allows. The result is how long the client is
// over the quota, 0 when it is not or nothing bounds it, at most MaxPublishHold. With 0 bytes it only asks. client is not kept.
func (b *Broker) DrawClientQuota(caller *Caller, client string, rate cluster.QuotaRate, bytes int) time.Duration {
	quotas := b.Image().Quotas(caller.Tenant)
	q := quotas.Find(rate, caller.Principal, client)
	if q == nil {
		return 0
	}
	if len(client) > cluster.MaxQuotaNameLength {
		client = client[:cluster.MaxQuotaNameLength] // longer ones that begin alike share a budget: they cannot be named either
	}
	return b.clientQuotas.draw(keyOf(q, caller, client, rate), q, rate, bytes)
}

// keyOf is who shares the budget that q gives a client: a default quota gives each user, client id or pair that it stands for its own.
func keyOf(q *cluster.ClientQuota, caller *Caller, client string, rate cluster.QuotaRate) clientKey {
	k := clientKey{tenant: caller.Tenant, rate: rate, kind: bothBudget}
	byUser, byClient := q.Entity.User.Kind != cluster.QuotaAny, q.Entity.Client.Kind != cluster.QuotaAny
	if byUser {
		k.user = caller.Principal
	}
	if byClient {
		k.client = client
	}
	switch {
	case !byClient:
		k.kind = userBudget
	case !byUser:
		k.kind = clientBudget
	}
	return k
}

func (c *clientQuotas) draw(k clientKey, q *cluster.ClientQuota, rate cluster.QuotaRate, bytes int) time.Duration {
	now := c.now().Sub(c.began)
	c.mu.Lock()
	b := c.findLocked(k, q, now)
	if v := q.Rate(rate); b.rate != v {
		// The quota was changed. What is owed stays as a time, whose length the new rate cannot tell.
		b.rate = v
	}
	hold := b.draw(now, bytes)
	c.mu.Unlock()
	if hold > 0 && bytes > 0 {
		if rate == cluster.ConsumerByteRate {
			c.consumed.Inc()
		} else {
			c.produced.Inc()
		}
	}
	return hold
}

func (c *clientQuotas) findLocked(k clientKey, q *cluster.ClientQuota, now time.Duration) *bucket {
	if b := c.budgets[k]; b != nil {
		return b
	}
	if len(c.budgets) >= maxClientBudgets && !c.sweepLocked(now) {
		k = clientKey{tenant: k.tenant, user: entityText(q.Entity.User), client: entityText(q.Entity.Client), rate: k.rate, kind: sharedBudget}
		if b := c.budgets[k]; b != nil {
			return b
		}
	}
	k.client = strings.Clone(k.client)
	b := new(bucket)
	b.init(q.Rate(k.rate), clientQuotaBurst)
	c.budgets[k] = b
	return b
}

// entityText makes the parts of two quotas different texts.
func entityText(n cluster.QuotaName) string { return string('0'+rune(n.Kind)) + n.Name }

// sweepLocked forgets the budgets that are full again: one made anew is the same. It reports whether there is room.
func (c *clientQuotas) sweepLocked(now time.Duration) bool {
	if now-c.swept < sweepPause {
		return false
	}
	c.swept = now
	for k, b := range c.budgets {
		if time.Duration(b.paid.Load()) <= now-b.burst {
			delete(c.budgets, k)
		}
	}
	return len(c.budgets) < maxClientBudgets
}

// ClientQuotas returns what the caller's tenant has set, in the order of entities. Errors: UnauthorizedCluster.
func (b *Broker) ClientQuotas(caller *Caller) ([]*cluster.ClientQuota, error) {
	if !caller.Allowed(TenantManage, "", "") {
		return nil, errNotTenantManager
	}
	return b.Image().Quotas(caller.Tenant).List(), nil
}

// AlterClientQuotas changes client quotas of the caller's tenant, whatever tenant the changes name, each entity on its own terms; on
// return they hold here. The errors are by change, in the same order: UnauthorizedCluster; InvalidRequest; PolicyViolation when the
// tenant has as many as are kept; QuorumTimeout when it is not known whether it was done, NotController.
func (b *Broker) AlterClientQuotas(ctx context.Context, caller *Caller, changes []cluster.QuotaChange, validateOnly bool) []error {
	out := make([]error, len(changes))
	var err error
	if !caller.Allowed(TenantManage, "", "") {
		err = errNotTenantManager
	}
	if err == nil && len(changes) > 0 {
		for i := range changes {
			changes[i].Entity.Tenant = caller.Tenant
		}
		var res cluster.Result
		res, err = b.opts.Metadata.Propose(ctx, caller.guarded(cluster.SetClientQuotas{Changes: changes, ValidateOnly: validateOnly}))
		if err == nil {
			err = res.Err
		}
		if err == nil && len(res.Items) != len(changes) {
			err = errcode.Newf(errcode.Internal, "broker: %d results for %d items", len(res.Items), len(changes))
		}
		for i := range res.Items {
			if err == nil {
				out[i] = res.Items[i].Err
			}
		}
	}
	if err != nil {
		for i := range out {
			out[i] = err
		}
	}
	return out
}

var errNotTenantManager = errcode.New(errcode.UnauthorizedCluster, TenantManage.String()+" is needed for client quotas")
