package replica

import (
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/invariant"
)

// role is what this copy may do.
type role uint8

const (
	roleIdle    role = iota // not led here: neither appends nor serves
	roleLeader              // appends and serves
	roleStopped             // a sync failed: serves what is durable, refuses appends until the process restarts
)

// machine is the state of one copy. It is pure: every method is a step that reads and changes only its fields.
type machine struct {
	self  ids.BrokerID
	role  role
	epoch ids.LeaderEpoch // of the present or last leadership; only rises
	lead  ids.BrokerID    // who leads at epoch, NoBroker unknown

	// commitOnSync: a member holds what it has synced (on_commit); otherwise what it has written.
	commitOnSync bool
	// need is how many members must hold a record before it is committed.
	need int
	set  []progress // the replica set, self included

	logEnd     ids.Offset // exclusive; what self has written
	durableEnd ids.Offset // exclusive; what self has synced; <= logEnd
	hw         ids.Offset // exclusive; high watermark
}

// opened starts a copy that recovered with the given bounds. What recovery kept was read back from the files, so it counts
// as held: a lone copy's tail is committed.
func (m *machine) opened(start, end, durable ids.Offset) {
	m.logEnd = end
	m.durableEnd = max(durable, start)
	m.hw = start
	m.hold()
}

// becomeLeader takes leadership at epoch. It reports false when the epoch is older than one known already.
func (m *machine) becomeLeader(epoch ids.LeaderEpoch, set []ids.BrokerID, need int) bool {
	if epoch < m.epoch {
		return false
	}
	m.epoch, m.lead = epoch, m.self
	if m.role != roleStopped {
		m.role = roleLeader
	}
	m.need = need
	members := make([]progress, 0, len(set))
	for _, b := range set {
		p := progress{broker: b}
		for _, old := range m.set {
			if old.broker == b {
				p = old
			}
		}
		members = append(members, p)
	}
	m.set = members
	m.hold()
	return true
}

// resign ends leadership in favour of leader at epoch.
func (m *machine) resign(epoch ids.LeaderEpoch, leader ids.BrokerID) bool {
	if epoch < m.epoch {
		return false
	}
	m.epoch, m.lead = epoch, leader
	if m.role == roleLeader {
		m.role = roleIdle
	}
	return true
}

// appended takes note that self has written records up to end.
func (m *machine) appended(end ids.Offset) {
	m.logEnd = max(m.logEnd, end)
	m.hold()
}

// synced takes note that self has synced records up to end.
func (m *machine) synced(end ids.Offset) {
	m.durableEnd = max(m.durableEnd, min(end, m.logEnd))
	m.hold()
}

// startAdvanced takes note of a new log start offset.
func (m *machine) startAdvanced(start ids.Offset) {
	m.hw = max(m.hw, start)
}

// failed stops the copy: a sync failed, so nothing past the durable end can be vouched for.
func (m *machine) failed() { m.role = roleStopped }

// readLimit is the exclusive bound of what readers may see.
func (m *machine) readLimit() ids.Offset {
	if m.role == roleStopped {
		return min(m.hw, m.durableEnd)
	}
	return m.hw
}

// mayAppend tells whether a client's append is accepted, and if not, why.
func (m *machine) mayAppend() error {
	switch m.role {
	case roleLeader:
		return nil
	case roleStopped:
		return ErrStopped
	default:
		return m.notLeader()
	}
}

func (m *machine) notLeader() error {
	return &errcode.NotLeaderError{Leader: int32(m.lead), Epoch: int32(m.epoch)}
}

// hold recomputes what self holds and what follows for the high watermark.
func (m *machine) hold() {
	held := m.logEnd
	if m.commitOnSync {
		held = m.durableEnd
	}
	for i := range m.set {
		if m.set[i].broker == m.self {
			m.set[i].held = max(m.set[i].held, held)
		}
	}
	if m.role != roleLeader {
		return
	}
	if mark := committed(m.set, m.need); mark > m.hw {
		m.hw = mark
	}
	if err := invariant.Check(m.hw <= m.logEnd, "high watermark past the log end"); err != nil {
		m.role = roleStopped
	}
}
