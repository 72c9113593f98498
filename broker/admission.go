package broker

import (
	"context"
	"sync"
	"time"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
)

const (
	// fairnessQuantum is what a tenant may have written in its turn, in bytes, when several have publishes queued.
	fairnessQuantum = 64 << 10
	// callerSteps is how many queued publishes a caller of Publish writes for others before a goroutine takes over: the connection that
	// it reads must not stand still for those of others.
	callerSteps = 8
	// fullRetry is what a publisher is told to wait when there is no room.
	fullRetry = 100 * time.Millisecond
	// roomTries bounds how many tenants, and lanes of each, are looked at for a waiting publish that fits when one has been written. Those
	// that are not looked at come first the next time.
	roomTries = 4
)

// admission decides which publishes are written, when and by whom (streams rules, section 5; native.md 3).
//
// A publish to an idle shard is written by its caller while a worker's place is free. Otherwise it is queued in its shard's lane, and
// whoever has written one takes the next: of the tenant whose turn it is, by deficit round robin over bytes. What goes to memory has
// places and turns of its own, so that it does not stand still with the disk. Without room in the queue
// one that is answered on commit waits in its lane's waiting list, and whatever comes behind it to the same shard finds no room.
//
// Its lock is held for list operations and counters, never across a write, a wait or a callback.
type admission struct {
	depth, total   int // publications: of each tenant, and in all when tenants borrow
	tenantBytes    int64
	totalBytes     int64
	workers        int
	pipelined      int // publications of one shard that are written and not committed
	roomWait       time.Duration
	now            func() time.Time
	metrics        *metrics
	quorum, leader commitWaits

	wg       sync.WaitGroup // goroutines that write what callers left
	produced sync.Pool      // of *produced

	mu      sync.Mutex
	tenants map[string]*publishTenant // guarded by mu; as those with open shards: few, and made by whoever runs the cluster
	disk    work                      // guarded by mu: writes to logs
	memory  work                      // guarded by mu: writes to rings, which wait for no disk
	queued  int                       // guarded by mu: publications in queues, until they are written
	bytes   int64                     // guarded by mu: of them
	stalled tenantList                // guarded by mu: tenants with waiting publications
	room    deadlines                 // guarded by mu: waiting publications that are refused in the end; the next one first
	timer   *time.Timer               // guarded by mu; for room and for quotas that are waited out; nil until used
	wake    time.Time                 // guarded by mu: when the timer runs; zero: it does not
	closed  bool                      // guarded by mu
	idle    *sync.Cond                // of mu: nobody writes
}

// work is what may be written of one kind, and how many write it. Guarded by admission.mu.
type work struct {
	running int      // at most admission.workers
	ready   turnList // tenants with a lane whose head may be written, in the order of their turns
}

// publishTenant is a tenant's part in the queue. Guarded by admission.mu.
type publishTenant struct {
	queued       int
	bytes        int64
	waiting      laneList // that have waiting publications
	disk, memory tenantTurns

	stalledLink tenantLink
}

// tenantTurns are a tenant's turns at one kind of work. Guarded by admission.mu.
type tenantTurns struct {
	pending int      // publications that are queued and that nobody writes yet
	deficit int64    // bytes that may be written in its turn
	turn    bool     // the deficit has been raised for the turn that it is in
	lanes   laneList // whose head may be written

	readyLink turnLink
}

// publishLane is the way into one shard: its queue, and who waits to get into that. Guarded by admission.mu.
type publishLane struct {
	shard       *Shard
	tenant      *publishTenant
	turns       *tenantTurns // of tenant
	work        *work
	busy        bool // somebody writes to the shard
	uncommitted int  // written, and waiting for their commit
	queue       publicationList
	waiting     publicationList

	readyLink, waitingLink laneLink
}

func newAdmission(o *Options, m *metrics) *admission {
	a := &admission{
		depth: o.PublishQueueDepth, total: o.PublishQueueDepth * o.PublishWorkers, tenantBytes: o.TenantPublishBytes,
		totalBytes: o.PublishBytes, workers: o.PublishWorkers, pipelined: o.CommitConcurrency, roomWait: o.PublishQueueWait, now: o.Now,
		metrics: m, tenants: map[string]*publishTenant{},
	}
	a.idle = sync.NewCond(&a.mu)
	a.produced.New = func() any { return &produced{done: make(chan struct{}, 1)} }
	for _, w := range []*work{&a.disk, &a.memory} {
		w.ready.link = func(t *tenantTurns) *turnLink { return &t.readyLink }
	}
	a.stalled.link = func(t *publishTenant) *tenantLink { return &t.stalledLink }
	done := func(p *Publication, err error) { a.conclude(p, err) }
	a.quorum = commitWaits{limit: o.QuorumTimeout, err: ErrQuorumTimeout, now: o.Now, done: done}
	a.leader = commitWaits{limit: max(o.AckWait, o.QuorumTimeout+500*time.Millisecond), err: ErrUnacknowledged, now: o.Now, done: done}
	return a
}

// join prepares the lane of a shard that is being opened.
func (a *admission) join(s *Shard, tenant string, durable bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tenants[tenant]
	if t == nil {
		t = &publishTenant{}
		t.waiting.link = func(l *publishLane) *laneLink { return &l.waitingLink }
		for _, turns := range []*tenantTurns{&t.disk, &t.memory} {
			turns.lanes.link = func(l *publishLane) *laneLink { return &l.readyLink }
		}
		a.tenants[tenant] = t
	}
	s.lane = publishLane{shard: s, tenant: t, turns: &t.memory, work: &a.memory}
	if durable {
		s.lane.turns, s.lane.work = &t.disk, &a.disk
	}
}

// publish takes one publication whose shard could take it.
func (a *admission) publish(p *Publication) {
	s := p.Shard
	lane := &s.lane
	over := a.draw(p)
	if over > 0 && (p.mode != FireAndForget || !p.Wait) {
		a.refuse(p, &OverloadError{Reason: errcode.TenantQuota, RetryAfter: over})
		return
	}
	a.mu.Lock()
	switch {
	case a.closed:
		a.mu.Unlock()
		s.refund(p)
		p.finish(ErrDraining)
	case over > 0:
		s.tenant.quota.delayed.Inc()
		a.waitLocked(lane, p)
		a.wakeLocked(a.now().Add(over))
		a.mu.Unlock()
	case a.beginLocked(lane):
		a.mu.Unlock()
		a.step(p)
		a.carryOn(lane, 0, callerSteps)
	case lane.waiting.first == nil && a.fitsLocked(lane.tenant, p.cost):
		a.accept(lane, p)
	case p.mode == OnCommit || p.mode == FireAndForget && p.Wait:
		a.waitForRoomLocked(lane, p)
		a.mu.Unlock()
	default:
		a.mu.Unlock()
		s.refund(p)
		a.refuse(p, &OverloadError{Reason: errcode.PublishQueueFull, RetryAfter: fullRetry})
	}
}

// beginLocked takes the lane and a worker's place for the caller, if it may write to the shard at once.
func (a *admission) beginLocked(lane *publishLane) bool {
	if lane.waiting.first != nil || lane.work.running >= a.workers || !a.idleLocked(lane) {
		return false
	}
	lane.busy = true
	lane.work.running++
	return true
}

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

// produced is a Kafka client's batch on its way into a shard.
type produced struct {
	p    Publication
	in   log.AppendInput
	res  log.AppendResult
	err  error
	done chan struct{} // of room 1
}

// append writes a validated batch of a Kafka client. It passes the same admission as native publishes, but its caller waits: for its
// turn, and before that for room, up to Options.PublishQueueWait. Errors: those of replica.Replica.Append, *OverloadError, ErrDraining;
// after the last two nothing was written.
func (a *admission) append(s *Shard, in log.AppendInput) (log.AppendResult, error) {
	lane := &s.lane
	a.mu.Lock()
	switch {
	case a.closed:
		a.mu.Unlock()
		return log.AppendResult{}, ErrDraining
	case a.beginLocked(lane):
		a.mu.Unlock()
		res, err := s.replica.Append(in)
		a.carryOn(lane, 0, callerSteps)
		return res, err
	}
	k := a.produced.Get().(*produced)
	k.in = in
	k.p = Publication{Shard: s, mode: OnCommit, cost: int64(len(in.Batch)), produced: k}
	if lane.waiting.first == nil && a.fitsLocked(lane.tenant, k.p.cost) {
		a.enqueueLocked(lane, &k.p)
		a.kickLocked()
	} else {
		a.waitForRoomLocked(lane, &k.p)
	}
	a.mu.Unlock()
	<-k.done
	res, err := k.res, k.err
	k.p, k.in, k.res, k.err = Publication{}, log.AppendInput{}, log.AppendResult{}, nil
	a.produced.Put(k)
	return res, err
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

// refuse ends a publication of which nothing was queued, or sheds it.
func (a *admission) refuse(p *Publication, err *OverloadError) {
	c := &p.Shard.tenant.full
	if err.Reason == errcode.TenantQuota {
		c = &p.Shard.tenant.quota
	}
	if p.mode == FireAndForget {
		c.shed.Inc()
		a.metrics.ingressDropped.Inc()
	} else {
		c.refused.Inc()
	}
	p.finish(err)
}

// accept queues a publication. The caller holds mu, which is released.
func (a *admission) accept(lane *publishLane, p *Publication) {
	if p.mode != OnAccept {
		a.enqueueLocked(lane, p)
		a.kickLocked()
		a.mu.Unlock()
		return
	}
	a.enqueueLocked(lane, takeAccepted(p))
	a.kickLocked()
	a.mu.Unlock()
	p.Batch = nil
	p.Done(p, PublishResult{Offset: ids.NoOffset})
}

// idleLocked tells whether the next publish to a lane may be written at once.
func (a *admission) idleLocked(lane *publishLane) bool {
	return !lane.busy && lane.queue.first == nil && lane.uncommitted < a.pipelined
}

// fitsLocked tells whether there is room for one more publication. A tenant has its depth and its bytes whatever the others do; what it
// has beyond that is borrowed, and the last depth is not lent. One that has nothing queued may always queue one.
func (a *admission) fitsLocked(t *publishTenant, cost int64) bool {
	if t.queued >= a.depth && a.queued >= a.total-a.depth {
		return false
	}
	return t.bytes == 0 || t.bytes+cost <= a.tenantBytes || a.bytes+cost <= a.totalBytes
}

func (a *admission) enqueueLocked(lane *publishLane, p *Publication) {
	t := lane.tenant
	a.queued++
	a.bytes += p.cost
	t.queued++
	t.bytes += p.cost
	lane.turns.pending++
	lane.queue.push(p)
	a.readyLocked(lane)
}

// readyLocked has the lane's head written when its tenant's turn comes, if it may be.
func (a *admission) readyLocked(lane *publishLane) {
	if lane.busy || lane.queue.first == nil || lane.uncommitted >= a.pipelined || lane.readyLink.in {
		return
	}
	t := lane.turns
	t.lanes.push(lane)
	if t.readyLink.in {
		return
	}
	if t.turn {
		lane.work.ready.pushFront(t) // its lanes were only busy: its turn goes on
	} else {
		lane.work.ready.push(t)
	}
}

// pickLocked takes the next publication to write, nil if there is none that may be. Its lane is busy from then on.
func (w *work) pickLocked() *Publication {
	for passed := 0; ; passed++ {
		t := w.ready.first
		if t == nil {
			return nil
		}
		lane := t.lanes.first
		p := lane.queue.first
		if !t.turn {
			t.turn = true
			t.deficit += fairnessQuantum
		}
		if t.deficit < p.cost {
			t.turn = false
			w.ready.remove(t)
			w.ready.push(t)
			if passed > 0 && passed%w.ready.count == 0 {
				w.skipTurnsLocked()
			}
			continue
		}
		t.deficit -= p.cost
		t.lanes.remove(lane)
		lane.queue.remove(p)
		lane.busy = true
		if t.pending--; t.pending == 0 {
			t.deficit, t.turn = 0, false
		}
		if t.lanes.first == nil {
			w.ready.remove(t)
		}
		return p
	}
}

// skipTurnsLocked gives every ready tenant as many turns at once as it takes for the first of them to have a publication written, less
// the one that it is about to get: a round of turns in which nothing can happen costs nothing.
func (w *work) skipTurnsLocked() {
	turns := int64(1 << 62)
	for t := w.ready.first; t != nil; t = t.readyLink.next {
		short := t.lanes.first.queue.first.cost - t.deficit
		turns = min(turns, (short+fairnessQuantum-1)/fairnessQuantum)
	}
	for t := w.ready.first; t != nil && turns > 1; t = t.readyLink.next {
		t.deficit += (turns - 1) * fairnessQuantum
	}
}

// carryOn ends the write that the caller made to a lane, and makes the next ones: steps of them at most, then a goroutine goes on. cost
// is what the written publication took of the queue, 0 if it was never in it.
func (a *admission) carryOn(lane *publishLane, cost int64, steps int) {
	for {
		a.mu.Lock()
		lane.busy = false
		a.readyLocked(lane)
		if cost > 0 {
			a.releaseLocked(lane.tenant, cost)
		}
		w := lane.work // what is written next is of the same kind
		p := w.pickLocked()
		if p == nil {
			if w.running--; w.running == 0 && a.closed {
				a.idle.Broadcast()
			}
			a.mu.Unlock()
			return
		}
		a.kickLocked() // of those who waited for room several may have been let in
		if steps == 0 {
			a.wg.Go(func() { a.write(p) })
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
		steps--
		lane, cost = &p.Shard.lane, p.cost
		a.step(p)
	}
}

// write writes a publication that was picked, and then what comes.
func (a *admission) write(p *Publication) {
	lane, cost := &p.Shard.lane, p.cost
	a.step(p)
	a.carryOn(lane, cost, -1)
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

// kickLocked starts goroutines for what may be written and nobody writes, while a place is free: lanes that could not go on when the place
// became free, or in which there was nothing. So there is never both, and a caller that finds a place free overtakes nobody.
func (a *admission) kickLocked() {
	for _, w := range [...]*work{&a.disk, &a.memory} {
		for w.running < a.workers {
			p := w.pickLocked()
			if p == nil {
				break
			}
			w.running++
			a.wg.Go(func() { a.write(p) })
		}
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

// await has a written publication answered when it is committed, or when that is given up. Its lane may go on meanwhile, until too much
// of it is uncommitted.
func (a *admission) await(p *Publication) {
	s := p.Shard
	a.mu.Lock()
	s.lane.uncommitted++
	a.mu.Unlock()
	if p.self != p {
		p.self, p.waiter.Notify = p, p.committed
	}
	p.waits = &a.leader
	if s.topic.Load().Consistency == cluster.ConsistencyQuorum {
		p.waits = &a.quorum
	}
	p.waits.add(p)
	waiting, err := s.Wait(&p.waiter)
	if waiting {
		return // p may be in use again already
	}
	if err != nil {
		err = commitFailed(err)
	}
	if p.waits.remove(p, err) {
		a.conclude(p, err)
	}
}

// committed is the Notify of a publication that waits for its commit.
func (p *Publication) committed(err error) {
	if err != nil {
		err = commitFailed(err)
	}
	if p.waits.remove(p, err) {
		p.Shard.b.admission.conclude(p, err)
	}
}

// conclude answers a publication that waited for its commit, and lets its lane go on.
func (a *admission) conclude(p *Publication, err error) {
	lane := &p.Shard.lane
	if err == nil {
		err = p.refusal()
	}
	p.finish(err)
	a.mu.Lock()
	lane.uncommitted--
	a.readyLocked(lane)
	a.kickLocked()
	a.mu.Unlock()
}

// close refuses what comes and what waits for room, and returns when what was queued has been written, or with ctx: then what is left in
// the lanes of shards is refused too.
func (a *admission) close(ctx context.Context, shards []*Shard) {
	a.mu.Lock()
	a.closed = true
	var left publicationList
	for t := a.stalled.first; t != nil; t = a.stalled.first {
		p := t.waiting.first.waiting.first
		a.leaveLocked(p)
		left.push(p)
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.mu.Unlock()
	refuseAll(&left)
	a.mu.Lock()
	stop := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		a.idle.Broadcast()
		a.mu.Unlock()
	})
	for ctx.Err() == nil && (a.disk.running > 0 || a.memory.running > 0 || a.queued > 0) {
		a.idle.Wait()
	}
	stop()
	for _, s := range shards {
		a.dropLocked(&s.lane, &left)
	}
	a.mu.Unlock()
	refuseAll(&left)
	a.wg.Wait()
	a.quorum.end()
	a.leader.end()
}

// refuseAll ends publications that are not going to be written, since the broker closes.
func refuseAll(l *publicationList) {
	for p := l.first; p != nil; p = l.first {
		l.remove(p)
		p.Shard.refund(p)
		p.finish(ErrDraining)
	}
}

// dropLocked moves what a lane has queued to left.
func (a *admission) dropLocked(lane *publishLane, left *publicationList) {
	t, turns := lane.tenant, lane.turns
	for p := lane.queue.first; p != nil; p = lane.queue.first {
		lane.queue.remove(p)
		left.push(p)
		a.queued--
		a.bytes -= p.cost
		t.queued--
		t.bytes -= p.cost
		turns.pending--
	}
	if lane.readyLink.in {
		turns.lanes.remove(lane)
		if turns.lanes.first == nil {
			lane.work.ready.remove(turns)
		}
	}
}
