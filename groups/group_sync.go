package groups

import (
	"bytes"
	"slices"
	"time"
)

// write is a record that was asked for and whose outcome is not known.
type write struct {
	generation int32
	kind       writeKind
	// Of a static member that was replaced in a stable group: its new id, who led when it asked, and whether it may be told to skip.
	member, oldLeader string
	canSkip           bool
}

type writeKind uint8

const (
	writeEmpty       writeKind = iota // the group became empty: nobody waits
	writeAssignments                  // what the leader assigned: all syncs wait
	writeMember                       // a static member has a new id: its join waits
)

// persist asks for the group to be written as it is after this step.
func (g *group) persist(w write, fx *effects) {
	w.generation = g.generation
	g.writes = append(g.writes, w)
	fx.persist = true
}

// persisted takes the outcome of the oldest write of a generation; an error is what those who wait for it are told. Outcomes of one
// generation come in the order in which the writes were asked for, or as if: the later record says all that the earlier one does.
func (g *group) persisted(now time.Time, generation int32, err error, fx *effects) {
	at := slices.IndexFunc(g.writes, func(w write) bool { return w.generation == generation })
	if at < 0 {
		return
	}
	w := g.writes[at]
	g.writes = slices.Delete(g.writes, at, at+1)
	switch w.kind {
	case writeMember:
		g.memberWritten(now, &w, err, fx)
	case writeAssignments:
		g.assignmentsWritten(now, &w, err, fx)
	case writeEmpty:
		// Nobody was in the generation that the last record names, so that loading that one does no harm: they expire.
	}
}

// sync asks for an assignment. The leader's brings those of all, which everybody gets once they are stored.
func (g *group) sync(now time.Time, r *SyncRequest, done func(*SyncResult), fx *effects) {
	m, err := g.member(r.MemberID, r.InstanceID)
	switch {
	case err != nil:
	case r.Generation != g.generation:
		err = ErrIllegalGeneration
	case r.ProtocolType != "" && r.ProtocolType != g.protocolType, r.Protocol != "" && r.Protocol != g.protocol:
		err = ErrInconsistentProtocol
	case g.stage == stagePreparing:
		err = ErrRebalanceInProgress
	case g.stage == stageCompleting && g.leader == m.id && !g.assigning:
		err = g.assign(r, fx)
	}
	if err != nil {
		fx.syncReplies(done, &SyncResult{Err: err})
		return
	}
	g.hasSynced(m)
	if g.stage == stageStable {
		g.keepAlive(m, now)
		fx.syncReplies(done, g.syncResult(m))
		return
	}
	refuseSync(m, ErrRebalanceInProgress, fx) // an older sync of it, whose answer nobody waits for any more
	m.syncDone = done
}

// assign takes the leader's assignments and asks for them to be written. A member that the leader did not name gets nothing, and a
// name that is no member's is ignored.
func (g *group) assign(r *SyncRequest, fx *effects) error {
	parts := make(map[*member][]byte, len(g.byID))
	more := 0
	for _, a := range r.Assignments {
		if m := g.byID[a.MemberID]; m != nil {
			more += len(a.Bytes) - len(parts[m])
			parts[m] = a.Bytes
		}
	}
	for _, m := range g.byID {
		more -= len(m.assignment)
	}
	if !g.fits(more) {
		return ErrGroupFull
	}
	for _, m := range g.byID {
		g.setAssignment(m, bytes.Clone(parts[m]))
	}
	g.assigning = true
	g.persist(write{kind: writeAssignments}, fx)
	return nil
}

// assignmentsWritten ends what the leader's sync began, unless another rebalance has begun meanwhile.
func (g *group) assignmentsWritten(now time.Time, w *write, err error, fx *effects) {
	if g.stage != stageCompleting || !g.assigning || w.generation != g.generation {
		return
	}
	if err != nil {
		g.failSyncs(now, err, fx)
		g.prepare(now, fx)
		return
	}
	g.assigning = false
	g.enter(stageStable, now)
	for _, m := range g.sorted() {
		m.stored = m.id
		if m.syncDone != nil {
			fx.syncReplies(m.syncDone, g.syncResult(m))
			m.syncDone = nil
			g.keepAlive(m, now)
		}
	}
}

// failSyncs answers all syncs with err and forgets the assignments, which nobody may have seen.
func (g *group) failSyncs(now time.Time, err error, fx *effects) {
	g.assigning = false
	for _, m := range g.sorted() {
		g.setAssignment(m, nil)
		if m.syncDone != nil {
			refuseSync(m, err, fx)
			g.keepAlive(m, now)
		}
	}
}

// hasSynced notes that m need not be removed for not asking.
func (g *group) hasSynced(m *member) {
	if !m.owesSync {
		return
	}
	m.owesSync = false
	if g.unsynced--; g.unsynced == 0 {
		g.syncBy = time.Time{}
	}
}

// syncResult is m's part in a stable group.
func (g *group) syncResult(m *member) *SyncResult {
	part := m.assignment
	if part == nil {
		part = []byte{}
	}
	return &SyncResult{ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: part}
}

// refuseSync answers m's sync with an error, if it has one outstanding.
func refuseSync(m *member, err error, fx *effects) {
	if m.syncDone != nil {
		fx.syncReplies(m.syncDone, &SyncResult{Err: err})
		m.syncDone = nil
	}
}

func (fx *effects) syncReplies(done func(*SyncResult), res *SyncResult) {
	fx.replies = append(fx.replies, reply{sync: res, syncDone: done})
}
