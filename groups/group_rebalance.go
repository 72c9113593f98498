package groups

import (
	"time"
)

// leastRebalance is what members get that ask for a rebalance timeout of nothing: enough to answer once, and to come to an end.
const leastRebalance = time.Second

// rebalance is what follows when somebody joins, leaves, or is removed: the next generation is prepared, or, where that is under way,
// one reason to wait may be gone.
func (g *group) rebalance(now time.Time, fx *effects) {
	if g.stage == stagePreparing {
		g.maybeCompleteJoin(now, fx)
		return
	}
	g.prepare(now, fx)
}

// prepare begins a join phase. Who waits for an assignment of the present generation will not get it and must join again.
func (g *group) prepare(now time.Time, fx *effects) {
	if g.stage == stageCompleting {
		g.failSyncs(now, ErrRebalanceInProgress, fx)
	}
	if g.unsynced > 0 {
		for _, m := range g.byID {
			m.owesSync = false
		}
	}
	g.unsynced, g.syncBy = 0, time.Time{}
	g.initial, g.extended = g.stage == stageEmpty, false
	g.enter(stagePreparing, now)
	timeout := g.rebalanceTimeout()
	if delay := g.limits.initialRebalanceDelay; g.initial && delay > 0 {
		// The first members of a group come one after another: waiting for more saves one rebalance for each.
		g.joinBy, g.initEnd = now.Add(delay), now.Add(max(timeout, delay))
		return
	}
	g.initial = false
	g.joinBy = now.Add(timeout)
	g.maybeCompleteJoin(now, fx)
}

// maybeCompleteJoin ends the join phase if nobody is left to wait for. The first phase of a group lasts its delay in any case.
func (g *group) maybeCompleteJoin(now time.Time, fx *effects) {
	if g.stage == stagePreparing && !g.initial && g.waiting == len(g.byID) && len(g.pending) == 0 {
		g.completeJoin(now, fx)
	}
}

// endJoin is the end of the time for joining.
func (g *group) endJoin(now time.Time, fx *effects) {
	if g.initial && g.extended && now.Before(g.initEnd) {
		g.extended = false
		g.joinBy = now.Add(g.limits.initialRebalanceDelay)
		if g.joinBy.After(g.initEnd) {
			g.joinBy = g.initEnd
		}
		return
	}
	g.completeJoin(now, fx)
}

// completeJoin begins the next generation with those that joined. Dynamic members that did not are removed. Static ones stay with what
// they said last, because they are known to come back: their session, or their failing to sync, removes them.
func (g *group) completeJoin(now time.Time, fx *effects) {
	if g.waiting < len(g.byID) {
		for _, m := range g.sorted() {
			if m.joinDone == nil && m.instance == "" {
				g.remove(m, fx)
			}
		}
	}
	if len(g.byID) == 0 {
		g.becomeEmpty(now, fx)
		return
	}
	if !g.electLeader() {
		g.joinBy = now.Add(g.rebalanceTimeout())
		return
	}
	g.generation++
	g.protocol = g.vote()
	g.joinBy, g.initial, g.extended = time.Time{}, false, false
	g.enter(stageCompleting, now)
	g.syncBy = now.Add(g.rebalanceTimeout())
	for _, m := range g.sorted() {
		if m.joinDone != nil {
			g.answerJoin(m, g.joinResult(m), fx)
		}
		m.fresh, m.owesSync = false, true
		g.keepAlive(m, now)
	}
	g.unsynced = len(g.byID)
}

// becomeEmpty ends the last generation that had members.
func (g *group) becomeEmpty(now time.Time, fx *effects) {
	g.generation++
	g.protocol, g.leader = "", ""
	g.joinBy, g.initial, g.extended = time.Time{}, false, false
	g.enter(stageEmpty, now)
	g.persist(write{kind: writeEmpty}, fx)
}

// electLeader keeps the leader if it joined, or takes the oldest member that did. It reports false if nobody did.
func (g *group) electLeader() bool {
	if m := g.byID[g.leader]; m != nil && m.joinDone != nil {
		return true
	}
	first := g.oldest(func(m *member) bool { return m.joinDone != nil })
	if first == nil {
		return false
	}
	g.leader = first.id
	return true
}

// vote chooses the protocol: each member votes for the first of its own that all members speak. Of those with equal votes the one
// that the leader likes better is chosen, so that the same members choose the same.
func (g *group) vote() string {
	votes := map[string]int{}
	for _, m := range g.byID {
		for i := range m.protocols {
			if name := m.protocols[i].Name; g.supported[name] == len(g.byID) {
				votes[name]++
				break
			}
		}
	}
	chosen := ""
	leader := g.byID[g.leader]
	if leader == nil {
		return chosen
	}
	for i := range leader.protocols {
		if name := leader.protocols[i].Name; votes[name] > votes[chosen] {
			chosen = name
		}
	}
	return chosen
}

// rebalanceTimeout is the longest that any member asks for.
func (g *group) rebalanceTimeout() time.Duration {
	longest := leastRebalance
	for _, m := range g.byID {
		longest = max(longest, m.rebalance)
	}
	return longest
}
