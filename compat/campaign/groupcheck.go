package main

import (
	"fmt"
	"sync"
	"time"
)

// The groups campaign's bounds. A disturbance of a group is what the campaign does to it: a member starts, leaves, crashes, is cut off or
// comes back. While the server is down no bound runs; its start, and each disturbance, begin them anew for the group.
const (
	groupSession   = 6 * time.Second
	groupRebalance = 6 * time.Second // what members allow for joining again
	groupHeartbeat = 600 * time.Millisecond
	// groupSlack is for what both ends add: heartbeats that tell of a rebalance, a second round of it, back-off, a busy machine.
	groupSlack = 3 * time.Second
	// unownedLimit is how long a partition of a group that has members may be owned by none. A member that died is noticed after a session;
	// one that died while it joined is given partitions first, and holds the rebalance up for its session once more.
	unownedLimit = groupSession + groupRebalance + groupSlack
	// silentLimit is how long a member may go without a record and without an acknowledged commit, and how long leaving may take.
	silentLimit = unownedLimit + 5*time.Second
)

// groupChecker knows what the groups were promised and who owns what. It does no IO and has no clock of its own: times come in. Members and
// the watching client call it at the same time, hence the lock, which is taken before that of the log's checker.
type groupChecker struct {
	violate func(format string, args ...any)

	mu     sync.Mutex
	up     time.Time // since when the server runs; zero while it does not
	groups []*groupWatch

	consumed, repeated int64 // records that came to a group for the first time, and again
	commits            int64 // partitions of acknowledged commits
	assignments        int64
	longestUnowned     time.Duration
	longestSilence     time.Duration
}

// groupWatch is one group.
type groupWatch struct {
	name       string
	next       []int64 // of each partition: every record before it came to a member
	floor      []int64 // of each partition: the highest offset that was acknowledged as committed, or told by the server
	generation int32   // the highest that a member was told
	disturbed  time.Time
	members    map[*memberWatch]bool
	unowned    []time.Time // since when nobody owns a partition; zero if somebody does
	reported   []bool      // that it is unowned for too long
}

// memberWatch is one life of a member.
type memberWatch struct {
	name       string
	group      *groupWatch
	owns       map[int32]bool
	since      time.Time // it started, or its connection came back
	cut        bool      // it lives without a connection: what it believes to own does not count
	leaving    time.Time
	record     time.Time // when the last one came
	commit     time.Time // when the last one was acknowledged
	generation int32     // what it is told next is not below
	reported   bool
}

func newGroupChecker(groups, partitions int, violate func(format string, args ...any)) *groupChecker {
	c := &groupChecker{violate: violate}
	for i := range groups {
		g := &groupWatch{
			name: fmt.Sprintf("campaign.group-%d", i+1), members: map[*memberWatch]bool{}, next: make([]int64, partitions), floor: make([]int64, partitions),
			unowned: make([]time.Time, partitions), reported: make([]bool, partitions),
		}
		for p := range g.floor {
			g.floor[p] = -1 // no commit
		}
		c.groups = append(c.groups, g)
	}
	return c
}

// serverUp says that the server answers since now; serverDown, that it is about to be ended.
func (c *groupChecker) serverUp(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up = now
}

func (c *groupChecker) serverDown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up = time.Time{}
}

// started adds a member that begins to join.
func (c *groupChecker) started(group int, name string, now time.Time) *memberWatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[group]
	m := &memberWatch{name: name, group: g, owns: map[int32]bool{}, since: now, generation: g.generation}
	g.members[m] = true
	g.disturbed = now
	c.refreshLocked(g, now)
	return m
}

// left notes that a member begins to leave. It owns what it owns until it says otherwise.
func (c *groupChecker) left(m *memberWatch, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.leaving, m.group.disturbed = now, now
}

// gone takes a member out: it crashed, or has left. What it says from now on does not count.
func (c *groupChecker) gone(m *memberWatch, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(m.group.members, m)
	m.group.disturbed = now
	c.refreshLocked(m.group, now)
}

// cutOff takes a member's connection away, or gives it back.
func (c *groupChecker) cutOff(m *memberWatch, cut bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.cut, m.since, m.group.disturbed = cut, now, now
	c.refreshLocked(m.group, now)
}

// assigned adds what a member got, in the generation that it was told.
func (c *groupChecker) assigned(m *memberWatch, generation int32, partitions []int32, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := m.group
	if !g.members[m] {
		return
	}
	c.assignments++
	if generation < m.generation {
		c.violate("%s: %s was told generation %d after %d was known", g.name, m.name, generation, m.generation)
	}
	m.generation, g.generation = max(m.generation, generation), max(g.generation, generation)
	for _, p := range partitions {
		m.owns[p] = true
	}
	c.refreshLocked(g, now)
}

// revoked takes away what a member gave up. It joins after that, so it must be told a generation that is not below any known by now.
func (c *groupChecker) revoked(m *memberWatch, partitions []int32, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range partitions {
		delete(m.owns, p)
	}
	m.generation = max(m.generation, m.group.generation)
	c.refreshLocked(m.group, now)
}

// refreshLocked keeps since when partitions are owned by nobody.
func (c *groupChecker) refreshLocked(g *groupWatch, now time.Time) {
	for p := range g.unowned {
		owners := g.ownersOf(int32(p))
		switch {
		case owners == 0 && g.unowned[p].IsZero():
			g.unowned[p] = now
		case owners > 0 && !g.unowned[p].IsZero():
			if !c.up.IsZero() {
				c.longestUnowned = max(c.longestUnowned, now.Sub(c.begunLocked(g, g.unowned[p])))
			}
			g.unowned[p], g.reported[p] = time.Time{}, false
		}
	}
}

// ownersOf counts the members that own a partition and can be reached.
func (g *groupWatch) ownersOf(p int32) int {
	n := 0
	for m := range g.members {
		if m.owns[p] && !m.cut {
			n++
		}
	}
	return n
}

// begunLocked is when a bound of a group began to run that would have begun at a time.
func (c *groupChecker) begunLocked(g *groupWatch, at time.Time) time.Time {
	for _, later := range []time.Time{g.disturbed, c.up} {
		if later.After(at) {
			at = later
		}
	}
	return at
}

// took notes a record that came to a member. A group reads each partition from its committed offset on, so nothing may be left out.
func (c *groupChecker) took(m *memberWatch, partition int32, offset int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := m.group
	m.record = now
	switch next := g.next[partition]; {
	case offset < next:
		c.repeated++
		return
	case offset > next:
		c.violate("%s partition %d: offset %d came to %s, and %d to %d came to no member", g.name, partition, offset, m.name, next, offset-1)
	}
	c.consumed++
	g.next[partition] = offset + 1
}

// floors are the offsets below which nothing that is sent from now on may find or put a group.
func (c *groupChecker) floors(g *groupWatch) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int64(nil), g.floor...)
}

// committed notes an acknowledged commit; floor is that of the moment at which it was sent. A member that may commit below it was given
// a position that the group had left behind, or is a member no longer.
func (c *groupChecker) committed(m *memberWatch, partition int32, offset, floor int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := m.group
	m.commit = now
	c.commits++
	if offset < floor {
		c.violate("%s partition %d: a commit of %d by %s was accepted, %d was committed before it was sent", g.name, partition, offset, m.name, floor)
	}
	g.floor[partition] = max(g.floor[partition], offset)
}

// fetched checks what the server says is committed, -1 for nothing; floor is that of the moment at which it was asked.
func (c *groupChecker) fetched(g *groupWatch, partition int32, offset, floor int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offset < floor {
		c.violate("%s partition %d: committed is %d, it was %d before", g.name, partition, offset, floor)
	}
	if next := g.next[partition]; offset > next {
		c.violate("%s partition %d: committed is %d, the members have had only what is before %d", g.name, partition, offset, next)
	}
	g.floor[partition] = max(g.floor[partition], offset)
}

// look checks the bounds that run.
func (c *groupChecker) look(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up.IsZero() {
		return
	}
	for _, g := range c.groups {
		reachable := 0
		for m := range g.members {
			if !m.cut && m.leaving.IsZero() {
				reachable++
			}
			c.lookAtLocked(m, now)
		}
		if reachable == 0 {
			continue // nobody is there to own anything
		}
		for p, since := range g.unowned {
			if since.IsZero() || g.reported[p] {
				continue
			}
			if d := now.Sub(c.begunLocked(g, since)); d > unownedLimit {
				g.reported[p] = true
				c.violate("%s partition %d is owned by no member for %v (at most %v)", g.name, p, d.Round(time.Millisecond), unownedLimit)
			}
		}
	}
}

// lookAtLocked checks that a member goes on, or comes to its end.
func (c *groupChecker) lookAtLocked(m *memberWatch, now time.Time) {
	if m.cut || m.reported {
		return
	}
	doing, since := "has had no record and no acknowledged commit", m.since
	if last := m.progress(); last.After(since) {
		since = last
	}
	if !m.leaving.IsZero() {
		doing, since = "has been leaving", m.leaving
	}
	silence := now.Sub(c.begunLocked(m.group, since))
	c.longestSilence = max(c.longestSilence, silence)
	if silence > silentLimit {
		m.reported = true
		c.violate("%s: %s %s for %v (at most %v)", m.group.name, m.name, doing, silence.Round(time.Millisecond), silentLimit)
	}
}

// progress is when the member had last done both: take a record and commit.
func (m *memberWatch) progress() time.Time {
	if m.record.Before(m.commit) {
		return m.record
	}
	return m.commit
}

// unsettled says what is still to happen before every group is at rest: each partition has one owner, and each member took and committed
// something since the last disturbance.
func (c *groupChecker) unsettled() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up.IsZero() {
		return []string{"the server is down"}
	}
	var out []string
	for _, g := range c.groups {
		for m := range g.members {
			switch {
			case m.cut:
				out = append(out, m.name+" is cut off")
			case !m.leaving.IsZero():
				out = append(out, m.name+" is leaving")
			case !m.progress().After(c.begunLocked(g, m.since)):
				out = append(out, m.name+" has not gone on")
			}
		}
		for p := range g.unowned {
			if n := g.ownersOf(int32(p)); n != 1 {
				out = append(out, fmt.Sprintf("%s partition %d has %d owners", g.name, p, n))
			}
		}
	}
	return out
}

// behind says which groups have not had everything before the ends.
func (c *groupChecker) behind(ends map[int32]int64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, g := range c.groups {
		for p, end := range ends {
			if g.next[p] < end {
				out = append(out, fmt.Sprintf("%s partition %d is at %d of %d", g.name, p, g.next[p], end))
			}
		}
	}
	return out
}

// uncommitted says which groups are not known to have committed everything before the ends.
func (c *groupChecker) uncommitted(ends map[int32]int64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, g := range c.groups {
		for p, end := range ends {
			if g.floor[p] != end {
				out = append(out, fmt.Sprintf("%s partition %d: %d of %d is committed", g.name, p, g.floor[p], end))
			}
		}
	}
	return out
}

// savedGroup is what an interrupted campaign keeps of a group.
type savedGroup struct {
	Name       string  `json:"name"`
	Next       []int64 `json:"next"`
	Floor      []int64 `json:"floor"`
	Generation int32   `json:"generation"`
	Live       []bool  `json:"live"` // which of its places were taken
}

// save returns what is known of the groups.
func (c *groupChecker) save() []savedGroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []savedGroup
	for _, g := range c.groups {
		out = append(out, savedGroup{Name: g.name, Next: append([]int64(nil), g.next...), Floor: append([]int64(nil), g.floor...), Generation: g.generation})
	}
	return out
}

// restore takes up what was saved. What the members consumed after that is not known, so the committed offsets, which must not be below
// what was saved, say where the groups are.
func (c *groupChecker) restore(saved []savedGroup, committed map[string][]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range saved {
		if i >= len(c.groups) || c.groups[i].name != s.Name {
			continue
		}
		g := c.groups[i]
		g.generation = s.Generation
		for p := range g.next {
			at := committed[g.name][p]
			if at < s.Floor[p] {
				c.violate("%s partition %d: committed is %d, it was %d before the campaign was interrupted", g.name, p, at, s.Floor[p])
			}
			g.floor[p], g.next[p] = max(s.Floor[p], at), max(s.Next[p], at)
		}
	}
}
