package groups

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"
)

// What a member, a pending member id and a protocol cost besides their bytes: a generous estimate of structs and map entries.
const (
	memberCost   = 512
	pendingCost  = 256
	protocolCost = 64
)

// member is somebody who joined.
type member struct {
	id, instance         string // instance "" for a dynamic member
	clientID, clientHost string
	session, rebalance   time.Duration // timeouts
	protocols            []Protocol    // own copies, never changed in place
	assignment           []byte        // of the last generation that was settled; immutable
	order                uint64        // lower joined earlier
	stored               string        // the member id in the newest record known to be committed; "" in none
	fresh                bool          // its first join is unanswered
	owesSync             bool          // was told of the generation and has not sent a sync
	joinDone             func(*JoinResult)
	syncDone             func(*SyncResult)
	life                 *session
}

// loadMember makes a member from its record. Only the protocol that was chosen is stored, so that is all it is known to speak.
func loadMember(rec *memberRecord, protocol string) *member {
	m := &member{
		id: strings.Clone(rec.ID), instance: strings.Clone(rec.InstanceID), stored: strings.Clone(rec.ID),
		clientID: strings.Clone(rec.ClientID), clientHost: strings.Clone(rec.ClientHost),
		session:   time.Duration(rec.SessionTimeoutMs) * time.Millisecond,
		rebalance: time.Duration(rec.RebalanceTimeoutMs) * time.Millisecond,
		protocols: []Protocol{{Name: protocol, Metadata: bytes.Clone(rec.Subscription)}}, assignment: bytes.Clone(rec.Assignment),
	}
	m.life = newSession(m.id)
	return m
}

// isWaiting says that an answer is outstanding, so that silence is no sign of death.
func (m *member) isWaiting() bool { return m.joinDone != nil || m.syncDone != nil }

// metadata is what the member says in a protocol.
func (m *member) metadata(protocol string) []byte {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return m.protocols[i].Metadata
		}
	}
	return nil
}

// matches says that the member would be told nothing new by these protocols.
func (m *member) matches(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// votesLike says that the member would vote the same with these protocols.
func (m *member) votesLike(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool { return a.Name == b.Name })
}

// cost is what the member counts for in the group's bytes.
func (m *member) cost() int {
	return memberCost + len(m.id) + len(m.instance) + len(m.clientID) + len(m.clientHost) + protocolsCost(m.protocols) + len(m.assignment)
}

func protocolsCost(protocols []Protocol) int {
	n := 0
	for i := range protocols {
		n += protocolCost + len(protocols[i].Name) + len(protocols[i].Metadata)
	}
	return n
}

// copyProtocols keeps what a request says. A name that stands there twice would vote and be counted twice: the first one stands.
func copyProtocols(protocols []Protocol) []Protocol {
	seen := make(map[string]bool, len(protocols))
	out := make([]Protocol, 0, len(protocols))
	for _, p := range protocols {
		if seen[p.Name] {
			continue
		}
		name := strings.Clone(p.Name)
		seen[name] = true
		out = append(out, Protocol{Name: name, Metadata: bytes.Clone(p.Metadata)})
	}
	return out
}

// millis is a timeout as records and the wire have it.
func millis(d time.Duration) int32 {
	return int32(min(max(d.Milliseconds(), 0), math.MaxInt32))
}

// fits tells whether the group may hold this many bytes more.
func (g *group) fits(more int) bool {
	return g.limits.maxBytes <= 0 || more <= 0 || g.bytes+more <= g.limits.maxBytes
}

// add makes m part of the group. Its session is not running yet.
func (g *group) add(m *member) {
	g.joined++
	m.order = g.joined
	g.byID[m.id] = m
	if m.instance != "" {
		g.byInstance[m.instance] = m
	}
	g.count(m.protocols, 1)
	g.bytes += m.cost()
}

// count adds n to the number of members that speak each of the protocols.
func (g *group) count(protocols []Protocol, n int) {
	for i := range protocols {
		name := protocols[i].Name
		if g.supported[name] += n; g.supported[name] <= 0 {
			delete(g.supported, name)
		}
	}
}

// setProtocols replaces what m speaks, unless it is the same.
func (g *group) setProtocols(m *member, protocols []Protocol) {
	if m.matches(protocols) {
		return
	}
	g.count(m.protocols, -1)
	g.bytes -= protocolsCost(m.protocols)
	m.protocols = copyProtocols(protocols)
	g.count(m.protocols, 1)
	g.bytes += protocolsCost(m.protocols)
}

// setAssignment replaces m's part. The caller gives b up.
func (g *group) setAssignment(m *member, b []byte) {
	g.bytes += len(b) - len(m.assignment)
	m.assignment = b
}

// remove takes m out of the group; whatever it waits for it does not get. The caller sees to what follows for the rebalance.
func (g *group) remove(m *member, fx *effects) {
	g.refuseJoin(m, "", ErrUnknownMember, fx)
	refuseSync(m, ErrUnknownMember, fx)
	delete(g.byID, m.id)
	if m.instance != "" {
		delete(g.byInstance, m.instance)
	}
	g.count(m.protocols, -1)
	g.bytes -= m.cost()
	g.hasSynced(m)
	if g.leader == m.id {
		g.leader = ""
	}
	g.sessions.drop(m.life)
}

// rename gives a member another id in place; everything else stays, also its part in the vote.
func (g *group) rename(m *member, id string) {
	delete(g.byID, m.id)
	if g.leader == m.id {
		g.leader = id
	}
	g.bytes += len(id) - len(m.id)
	m.id, m.life.owner = id, id
	g.byID[id] = m
}

// addPending remembers a member id that was given out.
func (g *group) addPending(id string, now time.Time, timeout time.Duration) {
	s := newSession(id)
	g.pending[id] = s
	g.bytes += pendingCost + len(id)
	g.sessions.set(s, now.Add(timeout))
}

// dropPending forgets one, because it came back or never will.
func (g *group) dropPending(id string) {
	s := g.pending[id]
	if s == nil {
		return
	}
	delete(g.pending, id)
	g.bytes -= pendingCost + len(id)
	g.sessions.drop(s)
}

// sorted is all members in the order of their ids, which is the order of everything that is told or stored of them.
func (g *group) sorted() []*member {
	out := make([]*member, 0, len(g.byID))
	for _, m := range g.byID {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int { return strings.Compare(a.id, b.id) })
	return out
}

// oldest is the member that joined first among those that is accepts, or nil.
func (g *group) oldest(is func(*member) bool) *member {
	var first *member
	for _, m := range g.byID {
		if is(m) && (first == nil || m.order < first.order) {
			first = m
		}
	}
	return first
}
