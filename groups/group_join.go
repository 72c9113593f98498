package groups

import (
	"strings"
	"time"
)

// join asks for a place in the next generation, or for news of the present one where nothing would change. newMemberID is the id that
// a member without one gets. done is called with the answer by way of fx, now or later.
func (g *group) join(now time.Time, newMemberID string, r *JoinRequest, done func(*JoinResult), fx *effects) {
	replaced := g.replacedBy(r)
	present := g.byID[r.MemberID]
	if present == nil {
		present = replaced
	}
	switch {
	case g.key.Group == "":
		fx.joinFailed(done, r.MemberID, ErrInvalidGroupID)
	case r.SessionTimeout < g.limits.minSession || r.SessionTimeout > g.limits.maxSession:
		fx.joinFailed(done, r.MemberID, ErrInvalidSessionTimeout)
	case g.stage == stageDead:
		fx.joinFailed(done, r.MemberID, ErrNotAvailable)
	case !g.hasPlaceFor(present, len(newMemberID), r):
		g.turnAway(now, r.MemberID, present, fx)
		fx.joinFailed(done, "", ErrGroupFull)
	case !g.canSpeak(r):
		fx.joinFailed(done, r.MemberID, ErrInconsistentProtocol)
	case replaced != nil:
		g.replaceStatic(now, replaced, newMemberID, r, done, fx)
	case r.MemberID == "" && r.InstanceID == "" && r.RequireMemberID:
		g.addPending(strings.Clone(newMemberID), now, r.SessionTimeout)
		fx.joinFailed(done, newMemberID, ErrMemberIDRequired)
	case r.MemberID == "":
		g.joinNew(now, newMemberID, r, done, fx)
	case r.InstanceID == "" && g.pending[r.MemberID] != nil:
		g.dropPending(r.MemberID)
		g.joinNew(now, r.MemberID, r, done, fx)
	default:
		m, err := g.member(r.MemberID, r.InstanceID)
		if err != nil {
			fx.joinFailed(done, r.MemberID, err)
			return
		}
		g.rejoin(now, m, r, done, fx)
	}
}

// replacedBy is the static member whose place r takes: it says its instance id and knows no member id, as a process does that has
// just started.
func (g *group) replacedBy(r *JoinRequest) *member {
	if r.MemberID != "" || r.InstanceID == "" {
		return nil
	}
	return g.byInstance[r.InstanceID]
}

// hasPlaceFor applies the bounds of the group. present is who asks, nil if it is not a member; its id may become one of idBytes.
func (g *group) hasPlaceFor(present *member, idBytes int, r *JoinRequest) bool {
	more := protocolsCost(r.Protocols) + max(idBytes, len(r.MemberID))
	if present != nil {
		more -= protocolsCost(present.protocols) + len(present.id)
	} else {
		more += memberCost + len(r.InstanceID) + len(r.ClientID) + len(r.ClientHost)
	}
	if !g.fits(more) {
		return false
	}
	most := g.limits.maxSize
	if most <= 0 {
		return true
	}
	// Ids that were given out take up places, but only against others that ask for one: who comes back with such an id, or with an
	// older one, is not kept out by ids that may never be used.
	taken := len(g.byID)
	if g.stage == stagePreparing {
		// Old members take up a place once they have joined again, so that the last ones are turned away when the bound was lowered.
		taken = g.waiting
		if present != nil && present.joinDone != nil {
			return true
		}
	} else if present != nil {
		return true
	}
	if r.MemberID == "" && present == nil {
		taken += len(g.pending)
	}
	return taken < most
}

// turnAway takes somebody who was refused a place out of the group, so that nobody waits for it.
func (g *group) turnAway(now time.Time, id string, present *member, fx *effects) {
	switch {
	case present != nil && g.stage == stagePreparing:
		g.remove(present, fx)
		g.maybeCompleteJoin(now, fx)
	case g.pending[id] != nil:
		g.dropPending(id)
		g.maybeCompleteJoin(now, fx)
	}
}

// canSpeak tells whether the group would still have a protocol that all of it speaks. It always has one, because it had one before.
func (g *group) canSpeak(r *JoinRequest) bool {
	if g.stage == stageEmpty {
		return r.ProtocolType != "" && len(r.Protocols) > 0
	}
	if g.protocolType != r.ProtocolType {
		return false
	}
	for i := range r.Protocols {
		if g.supported[r.Protocols[i].Name] == len(g.byID) {
			return true
		}
	}
	return false
}

// joinNew adds a member. Strings of the request are copied: it may alias a buffer.
func (g *group) joinNew(now time.Time, id string, r *JoinRequest, done func(*JoinResult), fx *effects) {
	if len(g.byID) == 0 {
		g.protocolType = strings.Clone(r.ProtocolType)
	}
	if g.stage == stagePreparing && g.initial {
		g.extended = true
	}
	id = strings.Clone(id)
	m := &member{
		id: id, instance: strings.Clone(r.InstanceID), clientID: strings.Clone(r.ClientID), clientHost: strings.Clone(r.ClientHost),
		session: r.SessionTimeout, rebalance: max(r.RebalanceTimeout, 0), protocols: copyProtocols(r.Protocols),
		fresh: true, life: newSession(id),
	}
	g.add(m)
	g.awaitJoin(m, done, fx)
	g.sessions.set(m.life, now.Add(newMemberJoinTimeout))
	g.rebalance(now, fx)
}

// rejoin is a join of a member under its present id. It begins a rebalance when it brings news, or when the leader asks for one;
// otherwise the answer to it was lost, or it wants its assignment again.
func (g *group) rejoin(now time.Time, m *member, r *JoinRequest, done func(*JoinResult), fx *effects) {
	same := m.matches(r.Protocols)
	if same && (g.stage == stageCompleting || g.stage == stageStable && g.leader != m.id) {
		g.keepAlive(m, now)
		fx.joinReplies(done, g.joinResult(m))
		return
	}
	g.update(m, r)
	g.awaitJoin(m, done, fx)
	g.rebalance(now, fx)
}

// update takes over what a known member says anew.
func (g *group) update(m *member, r *JoinRequest) {
	g.setProtocols(m, r.Protocols)
	m.session, m.rebalance = r.SessionTimeout, max(r.RebalanceTimeout, 0)
}

// replaceStatic lets a new process stand in the place of a static member: old's id is fenced, its assignment stays. While the group is
// stable and would choose the same protocol, only the new id is stored and the present generation is told. The subscription is not
// compared: many clients put their generation in it, and a restart is exactly what must not move partitions.
func (g *group) replaceStatic(now time.Time, m *member, id string, r *JoinRequest, done func(*JoinResult), fx *effects) {
	leader := g.leader
	g.refuseJoin(m, m.id, ErrFencedInstance, fx)
	refuseSync(m, ErrFencedInstance, fx)
	g.rename(m, strings.Clone(id))
	m.fresh = false
	sameVote := m.votesLike(r.Protocols)
	g.update(m, r)
	g.awaitJoin(m, done, fx)
	if g.stage == stageStable && (sameVote || g.vote() == g.protocol) {
		g.persist(write{kind: writeMember, member: m.id, oldLeader: leader, canSkip: r.CanSkipAssignment}, fx)
		return
	}
	// Also while assignments are awaited: the leader was told of the old id and would give the new one nothing.
	g.rebalance(now, fx)
}

// memberWritten ends what replaceStatic began in a stable group. In any other state the join is answered by the rebalance.
func (g *group) memberWritten(now time.Time, w *write, err error, fx *effects) {
	m := g.byID[w.member]
	if m == nil {
		return
	}
	if err == nil {
		m.stored = m.id
	}
	if g.stage != stageStable || w.generation != g.generation || m.joinDone == nil {
		return
	}
	if err != nil {
		// The old process may still live and believe that it is the member, and so would a coordinator that loads the records.
		g.refuseJoin(m, "", err, fx)
		if m.stored != "" && m.stored != m.id && g.byID[m.stored] == nil {
			g.rename(m, m.stored)
		}
		g.keepAlive(m, now)
		return
	}
	res := g.joinResult(m)
	if w.canSkip {
		res.SkipAssignment = g.leader == m.id
	} else {
		// A version that cannot be told to skip must not take itself for the leader, or it would assign anew.
		res.Leader, res.Members = w.oldLeader, nil
	}
	g.answerJoin(m, res, fx)
	g.keepAlive(m, now)
}

// joinResult is the present generation as m is told of it.
func (g *group) joinResult(m *member) *JoinResult {
	res := &JoinResult{
		Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader, MemberID: m.id,
	}
	if g.leader != m.id {
		return res
	}
	for _, other := range g.sorted() {
		res.Members = append(res.Members, JoinedMember{MemberID: other.id, InstanceID: other.instance, Metadata: other.metadata(g.protocol)})
	}
	return res
}

// awaitJoin lets m wait for its join to be answered. An older join of it, whose answer nobody waits for any more, is told so.
func (g *group) awaitJoin(m *member, done func(*JoinResult), fx *effects) {
	g.refuseJoin(m, m.id, ErrRebalanceInProgress, fx)
	m.joinDone = done
	g.waiting++
}

// refuseJoin answers m's join with an error, if it has one outstanding.
func (g *group) refuseJoin(m *member, id string, err error, fx *effects) {
	if m.joinDone != nil {
		g.answerJoin(m, &JoinResult{Err: err, Generation: -1, MemberID: id}, fx)
	}
}

// answerJoin answers m's join, which must be outstanding.
func (g *group) answerJoin(m *member, res *JoinResult, fx *effects) {
	fx.joinReplies(m.joinDone, res)
	m.joinDone = nil
	g.waiting--
}

func (fx *effects) joinReplies(done func(*JoinResult), res *JoinResult) {
	fx.replies = append(fx.replies, reply{join: res, joinDone: done})
}

func (fx *effects) joinFailed(done func(*JoinResult), id string, err error) {
	fx.joinReplies(done, &JoinResult{Err: err, Generation: -1, MemberID: strings.Clone(id)})
}
