package groups

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/felixlog/felix/internal/errcode"
)

// phase is what a shard can do.
type phase uint8

const (
	notLed   phase = iota // by this node
	loading               // its log is being read
	ready                 // serves
	failed                // its log could not be read; tried again after retryAt
	draining              // closing: writes that were accepted are waited for, nothing else is
	ended                 // closed
)

// refusals are what calls get in each phase; nil: they are served.
var refusals = [...]error{notLed: ErrNotCoordinator, loading: ErrLoading, ready: nil, failed: ErrNotAvailable, draining: ErrNotCoordinator, ended: ErrNotCoordinator}

// shard coordinates the groups of one internal shard. What the log holds below the high watermark is in the offsets of its entries;
// the machines of its groups run ahead of the log, and drop throws them away when the log does not follow.
type shard struct {
	c     *Coordinator
	index int32

	mu    sync.Mutex
	phase phase
	term  uint64     // rises each time that all of the following is thrown away
	led   leadership // as of the newest image
	log   Shard      // while ready and draining

	groups map[string]*entry // by encoded key
	topics topicTable
	due    deadlines   // entries with a deadline
	timer  *time.Timer // one for all that waits for time; nil before the first
	armed  time.Time   // when timer fires; zero: it does not

	writer                  // what is on its way to the log
	loadLater bool          // a load is to begin once the append that is under way returns
	retryAt   time.Time     // of a failed load
	failures  int           // loads that failed, one after the other
	idle      chan struct{} // closed when nothing is on its way; made by awaitIdle

	key, value []byte // scratch
}

// entry is one group of a shard.
type entry struct {
	key      Key
	id       string // the encoded key
	g        *group
	offsets  map[offsetKey]offset // committed, by topicTable key
	recorded bool                 // its record is in the log, or on the way there
	pending  int                  // changes of its offsets that are on the way to the log
	gone     bool                 // no longer in shard.groups
	held     int                  // what the machine holds for members, as counted in Coordinator.held

	at  int       // place in shard.due, -1: none
	due time.Time // while in shard.due: when to look at it, at or before the machine's deadline
}

// idle says that the machine holds nothing which the newest record does not: nobody is a member or about to become one, and no record is
// on its way.
func (e *entry) idle() bool {
	g := e.g
	return g.stage == stageEmpty && len(g.byID) == 0 && len(g.pending) == 0 && len(g.writes) == 0
}

// outbox gathers what is to be said once the lock is given up.
type outbox struct {
	fx    effects
	calls []func()
}

// send says it. Called without locks.
func (o *outbox) send() {
	for i := range o.fx.replies {
		r := &o.fx.replies[i]
		if r.joinDone != nil {
			r.joinDone(r.join)
		}
		if r.syncDone != nil {
			r.syncDone(r.sync)
		}
	}
	for _, call := range o.calls {
		call()
	}
}

// usableLocked says why calls are refused, nil if they are served.
func (s *shard) usableLocked() error { return refusals[s.phase] }

// findLocked returns a group that is known, or nil. It does not allocate.
func (s *shard) findLocked(k Key) *entry {
	s.key = appendGroupID(s.key[:0], k)
	return s.groups[string(s.key)]
}

// makeLocked returns a group, a new one if it is not known. Error: ErrTooManyGroups.
func (s *shard) makeLocked(k Key) (*entry, error) {
	if e := s.findLocked(k); e != nil {
		return e, nil
	}
	if s.c.groups.Load() >= int64(s.c.opts.MaxGroups) {
		return nil, ErrTooManyGroups
	}
	e := &entry{key: k, id: string(s.key), g: newGroup(k, &s.c.limits), at: -1}
	s.addLocked(e)
	return e, nil
}

func (s *shard) addLocked(e *entry) {
	s.groups[e.id] = e
	s.c.groups.Add(1)
}

// removeLocked forgets a group. What is on its way to the log for it still goes there.
func (s *shard) removeLocked(e *entry) {
	if e.gone {
		return
	}
	e.gone = true
	delete(s.groups, e.id)
	s.c.groups.Add(-1)
	s.topics.drop(e.offsets)
	s.unscheduleLocked(e)
	s.holdLocked(e, 0)
}

// holdLocked keeps the sum of what all groups hold for their members.
func (s *shard) holdLocked(e *entry, bytes int) {
	if bytes != e.held {
		s.c.held.Add(int64(bytes - e.held))
		e.held = bytes
	}
}

// settleLocked does what a step of a group's machine asked for, and forgets a group that nothing is left of.
func (s *shard) settleLocked(e *entry, fx *effects) {
	if e.gone {
		return
	}
	if fx.persist {
		fx.persist = false
		s.queueGroupLocked(e)
	}
	at, waits := e.g.deadline()
	s.holdLocked(e, e.g.bytes)
	if !e.recorded && e.pending == 0 && len(e.offsets) == 0 && e.idle() {
		s.removeLocked(e)
		return
	}
	s.scheduleLocked(e, at, waits)
}

// scheduleLocked has the machine looked at by its deadline. One that moved back is left in its place and found out when its time comes:
// heartbeats move it back all the time.
func (s *shard) scheduleLocked(e *entry, at time.Time, waits bool) {
	switch {
	case !waits:
		s.unscheduleLocked(e)
	case e.at < 0:
		e.due = at
		heap.Push(&s.due, e)
	case at.Before(e.due):
		e.due = at
		heap.Fix(&s.due, e.at)
	}
}

func (s *shard) unscheduleLocked(e *entry) {
	if e.at >= 0 {
		heap.Remove(&s.due, e.at)
	}
}

// armLocked sets the timer to the next thing that waits for time, and stops it if nothing does.
func (s *shard) armLocked() {
	next := s.writer.timeout()
	if len(s.due) > 0 {
		next = earlier(next, s.due[0].due)
	}
	if s.phase == failed {
		next = earlier(next, s.retryAt)
	}
	switch {
	case next.IsZero():
		if s.timer != nil {
			s.timer.Stop()
		}
		s.armed = time.Time{}
		return
	case !s.armed.IsZero() && !next.Before(s.armed):
		return // it will look again then
	}
	s.armed = next
	// Not sooner than minTick: time that does not pass must not become a busy loop.
	d := max(next.Sub(s.c.now()), minTick)
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.tick)
		return
	}
	s.timer.Reset(d)
}

const minTick = time.Millisecond

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// tick is the timer.
func (s *shard) tick() {
	var out outbox
	s.mu.Lock()
	if s.phase == ended {
		s.mu.Unlock()
		return
	}
	s.c.wg.Add(1)
	defer s.c.wg.Done()
	now := s.c.now()
	s.armed = time.Time{}
	if s.phase == failed && !now.Before(s.retryAt) {
		s.phase = loading
		if s.appending {
			s.loadLater = true
		} else {
			s.startLoadLocked()
		}
	}
	var over []*entry // each once, whatever its machine says of its next deadline
	for len(s.due) > 0 && !now.Before(s.due[0].due) {
		over = append(over, heap.Pop(&s.due).(*entry)) //nolint:forcetypeassert // the heap holds nothing else
	}
	for _, e := range over {
		e.g.expire(now, &out.fx)
		s.settleLocked(e, &out.fx)
	}
	s.timeOutLocked(now, &out)
	s.armLocked()
	s.mu.Unlock()
	out.send()
	s.pump()
}

// leadershipChanged takes up or gives up the shard if who leads it, or at which epoch, is not as before.
func (s *shard) leadershipChanged(to leadership) {
	var out outbox
	s.mu.Lock()
	if s.led != to && s.phase != ended && s.phase != draining {
		s.led, s.failures = to, 0
		s.dropLocked(ErrNotCoordinator, &out)
	}
	s.mu.Unlock()
	out.send()
}

// dropLocked throws away everything that is held of the shard and loads it again. Whoever waits is told why.
func (s *shard) dropLocked(why error, out *outbox) {
	s.forgetLocked(why, out)
	s.phase = loading
	if s.failures > 1 {
		// The log refuses again and again: loading at once would only find out the same.
		s.phase, s.retryAt = failed, s.c.now().Add(retryPause(s.failures))
		s.armLocked()
		return
	}
	if s.appending {
		s.loadLater = true // the scan must see what is being written
		return
	}
	s.startLoadLocked()
}

// forgetLocked ends the term.
func (s *shard) forgetLocked(why error, out *outbox) {
	s.term++
	s.writer.abandon(why, out)
	for _, e := range s.groups {
		e.gone, e.at = true, -1
		s.holdLocked(e, 0)
		e.g.abandon(why, &out.fx)
	}
	out.fx.persist = false
	s.c.groups.Add(int64(-len(s.groups)))
	s.groups, s.due, s.topics, s.log = nil, nil, topicTable{}, nil
	s.armLocked()
}

// drain refuses calls and answers everybody who waits for others.
func (s *shard) drain() {
	var out outbox
	s.mu.Lock()
	if s.phase == ready {
		s.phase = draining
		for _, e := range s.groups {
			e.g.abandon(ErrNotCoordinator, &out.fx)
			s.unscheduleLocked(e)
		}
	} else {
		s.forgetLocked(ErrNotCoordinator, &out)
		s.phase = ended
	}
	s.mu.Unlock()
	out.send()
}

// awaitIdle waits until nothing is on its way to the log, or ctx ends.
func (s *shard) awaitIdle(ctx context.Context) {
	s.mu.Lock()
	if !s.writing && len(s.queue) == 0 || s.phase == ended {
		s.mu.Unlock()
		return
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

func (s *shard) idleLocked() {
	if s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// close ends the shard: no goroutine starts after it.
func (s *shard) close() {
	var out outbox
	s.mu.Lock()
	if s.phase != ended {
		s.forgetLocked(ErrNotCoordinator, &out)
		s.phase = ended
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	out.send()
}

// deadlines is a heap of entries by due.
type deadlines []*entry

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i, j
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	e := x.(*entry) //nolint:forcetypeassert // container/heap hands back what was put in
	e.at = len(*d)
	*d = append(*d, e)
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	n := len(*d) - 1
	e := (*d)[n]
	(*d)[n] = nil
	*d = (*d)[:n]
	e.at = -1
	return e
}

// answerFor is what a client is told when the log refused or lost a write.
func answerFor(err error) error {
	switch errcode.Of(err) {
	case errcode.OK:
		return nil
	case errcode.RecordListTooLarge, errcode.BatchTooLarge:
		return ErrTooLarge
	case errcode.NotLeader, errcode.NoLeader, errcode.LeadershipLost, errcode.UnknownShard, errcode.NotCoordinator:
		return ErrNotCoordinator
	case errcode.CoordinatorLoading:
		return ErrLoading
	default:
		return ErrNotAvailable
	}
}
