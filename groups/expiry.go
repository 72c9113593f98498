package groups

import (
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// expireLoop looks for offsets whose time has come until the coordinator is closed. One loop for all shards: an idle one costs a look.
func (c *Coordinator) expireLoop() {
	t := time.NewTicker(c.opts.ExpiryInterval)
	defer t.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-t.C:
			c.ExpireOnce()
		}
	}
}

// ExpireOnce looks once at all groups: offsets past their retention are forgotten, and so are those of topics that are gone, groups of
// which nothing is left, and groups of tenants that are gone.
func (c *Coordinator) ExpireOnce() {
	for _, s := range c.shards {
		s.forgetTenants()
		s.forgetTopics()
		s.expireOffsets()
	}
}

// expireOffsets goes over the groups of a shard a part at a time, so that calls get their turn.
func (s *shard) expireOffsets() {
	s.mu.Lock()
	all := make([]*entry, 0, len(s.groups))
	for _, e := range s.groups {
		all = append(all, e)
	}
	s.mu.Unlock()
	const part = 256
	for len(all) > 0 {
		n := min(part, len(all))
		var out outbox
		s.mu.Lock()
		if s.phase == ready {
			now := s.c.now()
			for _, e := range all[:n] {
				s.expireGroupLocked(e, now, &out)
			}
		}
		s.mu.Unlock()
		out.send()
		s.pump()
		all = all[n:]
	}
}

// expireGroupLocked forgets what is over its time in one group. A group whose offsets are changing is left for the next look.
func (s *shard) expireGroupLocked(e *entry, now time.Time, out *outbox) {
	if e.gone || e.pending > 0 {
		return
	}
	over := s.overLocked(e, now)
	if len(over) == len(e.offsets) && e.idle() {
		if len(over) == 0 && !e.recorded {
			s.removeLocked(e) // nothing of it is in the log
			return
		}
		s.c.metrics.offsetsExpired.Add(float64(len(over)))
		s.buryLocked(e, now, out)
		return
	}
	if len(over) == 0 {
		return
	}
	s.c.metrics.offsetsExpired.Add(float64(len(over)))
	b := s.batchLocked(len(over) * (offsetRecordBytes + len(e.id)))
	for _, at := range over {
		s.queueChangeLocked(b, now, change{e: e, at: at, gone: true})
	}
}

// overLocked returns the offsets of a group that are past their time: for a group that once had members, counted from the moment that the
// last one left; for one that never had any, from the commit. While there are members only offsets of topics that nobody is subscribed
// to can be over, and only in a settled group whose subscriptions can be read. Sources: KIP-211, KIP-496.
func (s *shard) overLocked(e *entry, now time.Time) []offsetKey {
	var since int64 // ms, -1: the commit of each
	subscribed := func(ids.TopicID) bool { return false }
	switch {
	case e.g.stage == stageEmpty && e.g.protocolType != "":
		since = e.g.changedAt
	case e.g.stage == stageEmpty:
		since = -1
	case e.g.stage == stageStable && e.g.protocolType == consumerType:
		since = -1
		var err error
		if subscribed, err = s.subscribedLocked(e); err != nil {
			return nil
		}
	default:
		return nil
	}
	var over []offsetKey
	ms, retention := now.UnixMilli(), s.c.opts.OffsetRetention.Milliseconds()
	for at, o := range e.offsets {
		until := o.expiresAt()
		if until < 0 {
			from := o.committedAt
			if since >= 0 {
				from = max(from, since)
			}
			until = from + retention
		}
		if ms >= until && !subscribed(s.topics.id(at)) {
			over = append(over, at)
		}
	}
	return over
}

// forgetTenants removes the groups of tenants that are gone, members or not.
func (s *shard) forgetTenants() {
	var out outbox
	s.mu.Lock()
	if s.phase == ready {
		s.forgetTenantsLocked(&out)
	}
	s.mu.Unlock()
	out.send()
	s.pump()
}

// forgetTenantsLocked asks the newest image, and only now that the lock is held: one taken before may not know what a group here is of.
func (s *shard) forgetTenantsLocked(out *outbox) {
	img := s.c.opts.Image()
	var over []*entry
	for _, e := range s.groups {
		if tenantGone(img, e.key) {
			over = append(over, e)
		}
	}
	now := s.c.now()
	for _, e := range over {
		if !e.recorded && e.pending == 0 && len(e.offsets) == 0 {
			e.g.abandon(ErrNotCoordinator, &out.fx)
			s.removeLocked(e)
			continue
		}
		s.buryLocked(e, now, out)
	}
	if len(over) > 0 {
		s.armLocked()
		s.c.logger.Info("groups of deleted tenants removed", zap.Int32("shard", s.index), zap.Int("groups", len(over)))
	}
}

// tenantGone says that the tenant of a group was deleted. One that is missing from an image that knows of no deletion since the tenant's
// creation is not gone but yet to be heard of: the log may hold groups that a leader with a newer image took.
func tenantGone(img *cluster.Image, k Key) bool {
	return !img.HasTenant(k.Tenant, k.Incarnation) && k.Incarnation < img.TenantsDeleted()
}

// forgetTopics removes the offsets of topics that are gone.
func (s *shard) forgetTopics() {
	s.mu.Lock()
	if s.phase == ready {
		s.forgetTopicsLocked()
	}
	s.mu.Unlock()
	s.pump()
}

// forgetTopicsLocked asks the newest image, and only now that the lock is held: an offset may be of a topic that one taken before lacks.
func (s *shard) forgetTopicsLocked() {
	img := s.c.opts.Image()
	is := make([]bool, len(s.topics.list))
	found := false
	for i, id := range s.topics.list {
		if s.topics.counts[i] > 0 && img.TopicByID(id) == nil {
			is[i], found = true, true
		}
	}
	if !found {
		return
	}
	now := s.c.now()
	var over []offsetKey
	for _, e := range s.groups {
		over = over[:0]
		for at := range e.offsets {
			if is[at.topic()] {
				over = append(over, at)
			}
		}
		if len(over) == 0 {
			continue
		}
		b := s.batchLocked(len(over) * (offsetRecordBytes + len(e.id)))
		for _, at := range over {
			s.queueChangeLocked(b, now, change{e: e, at: at, gone: true})
		}
	}
}
