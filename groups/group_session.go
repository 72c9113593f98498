package groups

import (
	"container/heap"
	"time"
)

// session is how long a member, or a member id that was given out, is believed in without a sign of life.
type session struct {
	owner   string    // member id
	expires time.Time // when it ends
	queued  time.Time // its place in the heap: never later than expires
	index   int       // in the heap, -1 outside
}

func newSession(owner string) *session { return &session{owner: owner, index: -1} }

// sessionHeap orders sessions by the time at which to look at them. A sign of life only moves expires, which costs nothing; a session
// that comes up early goes back in with its true end. So a member costs one turn of the heap a session, not one a heartbeat.
type sessionHeap struct{ list sessionList }

// set lets s end at a time.
func (h *sessionHeap) set(s *session, at time.Time) {
	s.expires = at
	switch {
	case s.index < 0:
		s.queued = at
		heap.Push(&h.list, s)
	case at.Before(s.queued):
		s.queued = at
		heap.Fix(&h.list, s.index)
	}
}

// drop takes s out.
func (h *sessionHeap) drop(s *session) {
	if s.index >= 0 {
		heap.Remove(&h.list, s.index)
	}
}

// next is when to look again, at the earliest.
func (h *sessionHeap) next() (time.Time, bool) {
	if len(h.list) == 0 {
		return time.Time{}, false
	}
	return h.list[0].queued, true
}

// ended takes out a session that is over, or returns nil when there is none.
func (h *sessionHeap) ended(now time.Time) *session {
	for len(h.list) > 0 && !now.Before(h.list[0].queued) {
		s := h.list[0]
		if !now.Before(s.expires) {
			heap.Remove(&h.list, 0)
			return s
		}
		s.queued = s.expires
		heap.Fix(&h.list, 0)
	}
	return nil
}

type sessionList []*session

func (l sessionList) Len() int           { return len(l) }
func (l sessionList) Less(i, j int) bool { return l[i].queued.Before(l[j].queued) }

func (l sessionList) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

// Push appends for container/heap.
func (l *sessionList) Push(x any) {
	s := x.(*session) //nolint:forcetypeassert // container/heap hands back what set put in
	s.index = len(*l)
	*l = append(*l, s)
}

// Pop takes the last one for container/heap.
func (l *sessionList) Pop() any {
	last := len(*l) - 1
	s := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	s.index = -1
	return s
}

// keepAlive starts m's session anew. While an answer is outstanding there is none: it starts with the answer.
func (g *group) keepAlive(m *member, now time.Time) {
	if !m.isWaiting() {
		g.sessions.set(m.life, now.Add(m.session))
	}
}

// deadline is the earliest time at which expire may find something to do. It may be early, never late.
func (g *group) deadline() (time.Time, bool) {
	at, ok := g.sessions.next()
	for _, t := range [...]time.Time{g.joinBy, g.syncBy} {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}

// expire does what is due: members that were silent for a session, member ids that were not used, the end of a join phase, members
// that did not ask for their assignment.
func (g *group) expire(now time.Time, fx *effects) {
	g.expireSessions(now, fx)
	if !g.joinBy.IsZero() && !now.Before(g.joinBy) {
		g.endJoin(now, fx)
	}
	if !g.syncBy.IsZero() && !now.Before(g.syncBy) {
		for _, m := range g.sorted() {
			if m.owesSync {
				g.remove(m, fx)
			}
		}
		g.rebalance(now, fx)
	}
}

// expireSessions removes everybody whose session is over before it looks at what follows for the rebalance, which is one step then.
func (g *group) expireSessions(now time.Time, fx *effects) {
	gone, pendingGone := false, false
	for s := g.sessions.ended(now); s != nil; s = g.sessions.ended(now) {
		if g.pending[s.owner] == s {
			g.dropPending(s.owner)
			pendingGone = true
			continue
		}
		m := g.byID[s.owner]
		if m == nil || m.isWaiting() && !m.fresh {
			continue // its session starts again with the answer
		}
		g.remove(m, fx)
		gone = true
	}
	switch {
	case gone:
		g.rebalance(now, fx)
	case pendingGone:
		g.maybeCompleteJoin(now, fx)
	}
}
