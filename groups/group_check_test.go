package groups

import (
	"fmt"
	"maps"
	"time"
)

// brokenRule says which invariant of the machine does not hold, or "".
func brokenRule(g *group, now time.Time) string {
	waiting, owing, static, bytes := 0, 0, 0, 0
	supported := map[string]int{}
	for id, m := range g.byID {
		bytes += m.cost()
		if m.joinDone != nil {
			waiting++
		}
		if m.owesSync {
			owing++
		}
		if m.instance != "" {
			static++
			if g.byInstance[m.instance] != m {
				return fmt.Sprintf("static member %s is not under its instance id", id)
			}
		}
		for _, p := range m.protocols {
			supported[p.Name]++
		}
		switch {
		case m.id != id || m.life.owner != id:
			return fmt.Sprintf("member %s is filed under %s, its session under %s", m.id, id, m.life.owner)
		case g.pending[id] != nil:
			return fmt.Sprintf("member %s is also pending", id)
		case !m.isWaiting() && m.life.index < 0:
			return fmt.Sprintf("member %s has no session and waits for nothing", id)
		case m.fresh && m.life.index < 0:
			return fmt.Sprintf("new member %s waits without a bound", id)
		case m.joinDone != nil && g.stage != stagePreparing && (g.stage != stageStable || len(g.writes) == 0):
			return fmt.Sprintf("member %s waits for a join that nothing will answer", id)
		case m.syncDone != nil && g.stage != stageCompleting:
			return fmt.Sprintf("member %s waits for a sync that nothing will answer", id)
		}
	}
	for id, s := range g.pending {
		bytes += pendingCost + len(id)
		if s.owner != id || s.index < 0 {
			return fmt.Sprintf("pending id %s has no session", id)
		}
	}
	if !maps.Equal(supported, g.supported) {
		return fmt.Sprintf("protocols are %v, counted %v", supported, g.supported)
	}
	if w, o, s, b := g.waiting, g.unsynced, len(g.byInstance), g.bytes; w != waiting || o != owing || s != static || b != bytes {
		return fmt.Sprintf("waiting %d counted %d, owing %d counted %d, static %d counted %d, bytes %d counted %d",
			waiting, w, owing, o, static, s, bytes, b)
	}
	return brokenStage(g, now)
}

// brokenStage is brokenRule for what belongs to the state of the group.
func brokenStage(g *group, now time.Time) string {
	switch g.stage {
	case stageEmpty, stageDead:
		if len(g.byID) > 0 || g.leader != "" || g.protocol != "" {
			return "an empty group has members, a leader or a protocol"
		}
	case stagePreparing:
		if g.joinBy.IsZero() {
			return "a join phase without an end"
		}
	case stageCompleting, stageStable:
		if g.byID[g.leader] == nil {
			return fmt.Sprintf("leader %q is no member", g.leader)
		}
		if g.supported[g.protocol] != len(g.byID) {
			return fmt.Sprintf("protocol %q is not everybody's", g.protocol)
		}
	}
	switch {
	case g.stage != stagePreparing && !g.joinBy.IsZero():
		return "a join deadline outside the join phase"
	case (g.unsynced > 0) != !g.syncBy.IsZero():
		return "a sync deadline that is not wanted, or none"
	case g.assigning && g.stage != stageCompleting:
		return "assigning outside its state"
	case g.stage == stageCompleting && !g.assigning && g.unsynced == 0:
		return "everybody waits for a leader that has synced"
	case g.limits.maxBytes > 0 && g.bytes > g.limits.maxBytes:
		return fmt.Sprintf("%d bytes held", g.bytes)
	}
	for i, s := range g.sessions.list {
		if s.index != i || s.queued.After(s.expires) {
			return fmt.Sprintf("session of %s is misplaced", s.owner)
		}
		if m := g.byID[s.owner]; (m == nil || m.life != s) && g.pending[s.owner] != s {
			return fmt.Sprintf("session of %s, who is nobody", s.owner)
		}
	}
	if at, ok := g.deadline(); ok && at.Before(now) {
		return fmt.Sprintf("deadline passed %v ago", now.Sub(at))
	}
	return ""
}
