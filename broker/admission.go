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
	// callerSteps is how many queued publishes a caller of Publish writes for others before a goroutine takes over: the connection that
	// it reads must not stand still for those of others.
	callerSteps = 8
	// fullRetry is what a publisher is told to wait when there is no room.
	fullRetry = 100 * time.Millisecond
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

// publishTenant is a tenant's part in the queue. Guarded by admission.mu.
type publishTenant struct {
	queued       int
	bytes        int64
	waiting      laneList // that have waiting publications
	disk, memory tenantTurns

	stalledLink tenantLink
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
