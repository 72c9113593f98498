package broker

import (
	"time"

	"github.com/felixlog/felix/internal/errcode"
)

// roomTries bounds how many tenants, and lanes of each, are looked at for a waiting publish that fits when one has been written. Those
// that are not looked at come first the next time.
const roomTries = 4

// waitForRoomLocked puts a publication for which there is no room behind those that wait for it already.
func (a *admission) waitForRoomLocked(lane *publishLane, p *Publication) {
	p.Shard.tenant.full.delayed.Inc()
	a.waitLocked(lane, p)
	if p.mode == OnCommit {
		began := p.Arrived
		if began.IsZero() {
			began = a.now()
		}
		deadline := began.Add(a.roomWait)
		a.room.add(p, deadline)
		a.wakeLocked(deadline)
	}
}

// draw takes a publication from its tenant's quota. It returns for how long the tenant is over it, and then takes nothing.
func (a *admission) draw(p *Publication) time.Duration {
	s := p.Shard
	if s.budget == nil || p.charged {
		return 0
	}
	over := s.budget.take(p.Bytes, p.Records)
	p.charged = over == 0
	return over
}

// refund gives back what draw took, for a publish that is refused.
func (s *Shard) refund(p *Publication) {
	if p.charged {
		s.budget.giveBack(p.Bytes, p.Records)
		p.charged = false
	}
}

// fitsLocked tells whether there is room for one more publication. A tenant has its depth and its bytes whatever the others do; what it
// has beyond that is borrowed, and the last depth is not lent. One that has nothing queued may always queue one.
func (a *admission) fitsLocked(t *publishTenant, cost int64) bool {
	if t.queued >= a.depth && a.queued >= a.total-a.depth {
		return false
	}
	return t.bytes == 0 || t.bytes+cost <= a.tenantBytes || a.bytes+cost <= a.totalBytes
}

// releaseLocked gives back the room of a publication that was written, and lets in who waited for it.
func (a *admission) releaseLocked(t *publishTenant, cost int64) {
	a.queued--
	a.bytes -= cost
	t.queued--
	t.bytes -= cost
	if a.stalled.first == nil {
		return
	}
	a.letInLocked(t, roomTries)
	for range min(roomTries, a.stalled.count) {
		other := a.stalled.first
		a.stalled.remove(other)
		a.stalled.push(other)
		a.letInLocked(other, roomTries)
	}
}

// letInLocked queues waiting publications of a tenant as far as there is room and quota, from each lane in order, until tries lanes had
// none that could be.
func (a *admission) letInLocked(t *publishTenant, tries int) {
	for tries = min(tries, t.waiting.count); tries > 0 && t.waiting.first != nil; tries-- {
		lane := t.waiting.first
		t.waiting.remove(lane)
		t.waiting.push(lane)
		for p := lane.waiting.first; p != nil; p = lane.waiting.first {
			if over := a.draw(p); over > 0 {
				a.wakeLocked(a.now().Add(over))
				break
			}
			if !a.fitsLocked(t, p.cost) {
				break
			}
			a.leaveLocked(p)
			a.enqueueLocked(lane, p)
		}
	}
}

// waitLocked puts a publication at the end of its lane's waiting list.
func (a *admission) waitLocked(lane *publishLane, p *Publication) {
	t := lane.tenant
	lane.waiting.push(p)
	if !lane.waitingLink.in {
		t.waiting.push(lane)
	}
	if !t.stalledLink.in {
		a.stalled.push(t)
	}
}

// leaveLocked takes a publication out of its lane's waiting list.
func (a *admission) leaveLocked(p *Publication) {
	lane := &p.Shard.lane
	t := lane.tenant
	lane.waiting.remove(p)
	a.room.remove(p)
	if lane.waiting.first == nil {
		t.waiting.remove(lane)
	}
	if t.waiting.first == nil {
		a.stalled.remove(t)
	}
}

// wakeLocked has the timer run at t at the latest.
func (a *admission) wakeLocked(t time.Time) {
	if a.closed || !a.wake.IsZero() && !a.wake.After(t) {
		return
	}
	a.wake = t
	d := max(t.Sub(a.now()), time.Millisecond)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.tick)
	} else {
		a.timer.Reset(d)
	}
}

// tick refuses who has waited for too long, and lets in who may be queued.
func (a *admission) tick() {
	a.mu.Lock()
	a.wake = time.Time{}
	now := a.now()
	var due publicationList
	for p := a.room.first; p != nil && !p.deadline.After(now); p = a.room.first {
		a.leaveLocked(p)
		due.push(p)
	}
	for range a.stalled.count {
		if t := a.stalled.first; t != nil {
			a.stalled.remove(t)
			a.stalled.push(t)
			a.letInLocked(t, t.waiting.count)
		}
	}
	if p := a.room.first; p != nil {
		a.wakeLocked(p.deadline)
	}
	a.kickLocked()
	a.mu.Unlock()
	for p := due.first; p != nil; p = due.first {
		due.remove(p)
		p.Shard.refund(p)
		a.refuse(p, &OverloadError{Reason: errcode.PublishQueueFull, RetryAfter: fullRetry})
	}
}
