package controller

import (
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

func setClientQuotas(b *cluster.Builder, list []cluster.QuotaChange) []cluster.ItemResult {
	items := make([]cluster.ItemResult, len(list))
	for i := range list {
		items[i].Err = setClientQuota(b, &list[i])
	}
	return items
}

// setClientQuota changes what one entity has. A rate that is named twice has the later value.
func setClientQuota(b *cluster.Builder, c *cluster.QuotaChange) error {
	m := b.Current()
	if m.Tenant(c.Entity.Tenant) == nil {
		return errcode.Newf(errcode.PolicyViolation, "tenant %q does not exist", c.Entity.Tenant)
	}
	if err := checkQuotaEntity(&c.Entity); err != nil {
		return err
	}
	next := cluster.ClientQuota{Entity: c.Entity}
	have := m.Quotas(c.Entity.Tenant)
	old := have.Get(c.Entity.User, c.Entity.Client)
	if old != nil {
		next = *old
	}
	for _, r := range c.Rates {
		if err := checkQuotaRate(r); err != nil {
			return err
		}
		next.SetRate(r.Rate, r.Value)
	}
	if old == nil && next.Producer|next.Consumer != 0 && len(have.List()) >= cluster.MaxClientQuotas {
		return errcode.Newf(errcode.PolicyViolation, "the tenant has %d client quotas, which is as many as are kept", cluster.MaxClientQuotas)
	}
	if old == nil && next.Producer|next.Consumer != 0 && m.QuotaCount() >= cluster.MaxQuotas {
		return errcode.Newf(errcode.PolicyViolation, "the cluster has %d client quotas, which is as many as are kept", cluster.MaxQuotas)
	}
	b.PutQuota(next)
	return nil
}

func checkQuotaEntity(e *cluster.QuotaEntity) error {
	if e.User.Kind == cluster.QuotaAny && e.Client.Kind == cluster.QuotaAny {
		return errcode.Newf(errcode.InvalidRequest, "the entity names neither a user nor a client id")
	}
	for _, n := range [...]cluster.QuotaName{e.User, e.Client} {
		switch {
		case n.Kind > cluster.QuotaNamed || n.Kind != cluster.QuotaNamed && n.Name != "":
			return errcode.Newf(errcode.Internal, "entity name of kind %d", n.Kind) // a fault of ours, never of the client
		case n.Kind == cluster.QuotaNamed && n.Name == "":
			return errcode.Newf(errcode.InvalidRequest, "a user or client id of a quota is empty; null stands for the default")
		case len(n.Name) > cluster.MaxQuotaNameLength:
			return errcode.Newf(errcode.InvalidRequest, "a user or client id of a quota has more than %d bytes", cluster.MaxQuotaNameLength)
		}
	}
	return nil
}

func checkQuotaRate(r cluster.RateChange) error {
	switch {
	case r.Rate != cluster.ProducerByteRate && r.Rate != cluster.ConsumerByteRate:
		return errcode.Newf(errcode.Internal, "unknown quota rate %d", r.Rate)
	case r.Value < 0:
		return errcode.Newf(errcode.InvalidRequest, "quota %s must be greater than 0", r.Rate)
	}
	return nil
}

// minQuotaEntity is the fewest bytes that an entity takes.
const minQuotaEntity = 1 + 2 + 2

func (w *writer) quotaEntity(e *cluster.QuotaEntity) {
	w.text(e.Tenant)
	for _, n := range [...]cluster.QuotaName{e.User, e.Client} {
		w.byte(byte(n.Kind))
		w.text(n.Name)
	}
}

func (r *reader) quotaEntity() cluster.QuotaEntity {
	e := cluster.QuotaEntity{Tenant: r.text()}
	for _, n := range [...]*cluster.QuotaName{&e.User, &e.Client} {
		if n.Kind = cluster.QuotaNameKind(r.byte()); n.Kind > cluster.QuotaNamed {
			r.fail("unknown kind of entity name")
		}
		n.Name = r.text()
	}
	return e
}

func (w *writer) quotaChange(c *cluster.QuotaChange) {
	w.quotaEntity(&c.Entity)
	w.count(len(c.Rates))
	for _, rate := range c.Rates {
		w.byte(byte(rate.Rate))
		w.int(rate.Value)
	}
}

func (r *reader) quotaChange() cluster.QuotaChange {
	c := cluster.QuotaChange{Entity: r.quotaEntity()}
	c.Rates = make([]cluster.RateChange, r.count(2))
	for i := range c.Rates {
		c.Rates[i] = cluster.RateChange{Rate: cluster.QuotaRate(r.byte()), Value: r.int()}
	}
	return c
}

func (w *writer) quota(q *cluster.ClientQuota) {
	w.quotaEntity(&q.Entity)
	w.int(q.Producer)
	w.int(q.Consumer)
}

// quotas reads a snapshot's quotas, which are sorted, so that each of them is appended.
func (r *reader) quotas(build *cluster.Builder) {
	for range r.count(minQuotaEntity + 2) {
		q := cluster.ClientQuota{Entity: r.quotaEntity(), Producer: r.int(), Consumer: r.int()}
		switch {
		case r.err != nil:
			return
		case q.Producer < 0 || q.Consumer < 0 || q.Producer|q.Consumer == 0 || checkQuotaEntity(&q.Entity) != nil:
			r.fail("client quota that cannot be")
			return
		case build.Current().Quotas(q.Entity.Tenant).Get(q.Entity.User, q.Entity.Client) != nil:
			r.fail("client quota that is there twice")
			return
		}
		build.PutQuota(q)
	}
}
