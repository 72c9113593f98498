package groups

import (
	"time"
)

// stage is the state of a group, named as Kafka's tools show it.
type stage uint8

const (
	stageEmpty      stage = iota // no members; committed offsets may remain
	stagePreparing               // waits for the members to join
	stageCompleting              // a generation began; waits for the leader's sync and for its record
	stageStable                  // everybody's assignment is settled and stored
	stageDead                    // dropped by this node
)

var stageNames = [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}

// newMemberJoinTimeout bounds how long a new member waits for its first generation. It does not know its id yet, so that it can
// neither send heartbeats nor take its place again when its connection breaks; each try would leave one more member behind.
const newMemberJoinTimeout = 5 * time.Minute

// limits are the bounds that every group of a coordinator keeps.
type limits struct {
	minSession, maxSession time.Duration
	initialRebalanceDelay  time.Duration // 0 and below: none
	maxSize                int           // members of one group; 0: no limit
	maxBytes               int           // what one group may hold for its members; 0: no limit
}

// reply is an answer that is due: either the join or the sync pair is set. The coordinator calls it outside its locks.
type reply struct {
	join     *JoinResult
	joinDone func(*JoinResult)
	sync     *SyncResult
	syncDone func(*SyncResult)
}

// effects is what a step of a group asks of the coordinator.
type effects struct {
	replies []reply
	// persist asks for record(), as it is after the step, to be written; the outcome goes to persisted with that record's generation.
	persist bool
}

// group is the machine of one group. It is pure: a step reads and changes its fields only, and says what is to be done in effects.
// Steps of one group are never concurrent.
type group struct {
	key    Key
	limits *limits

	stage        stage
	changedAt    int64 // ms since 1970, of the last change of stage
	generation   int32
	protocolType string // of the members, kept when the last one is gone
	protocol     string // of the generation; "" when empty
	leader       string // member id; "" from the removal of the leader until the next generation

	byID       map[string]*member
	byInstance map[string]*member  // the static ones among byID
	pending    map[string]*session // member ids that were given out and have not come back
	supported  map[string]int      // by protocol name: how many members speak it
	joined     uint64              // how many members were ever added; gives member.order
	bytes      int                 // cost of all members and pending ids

	waiting  int       // members whose join is unanswered
	joinBy   time.Time // when the join phase ends at the latest; zero outside stagePreparing
	initial  bool      // this join phase began with an empty group: it lasts the initial rebalance delay
	initEnd  time.Time // how far the initial delay may be extended
	extended bool      // a member came since the initial delay was last set

	unsynced  int       // members that were told of the generation and have not sent a sync
	syncBy    time.Time // when those are removed; zero when there are none
	assigning bool      // the leader's assignments are in the members and in a record whose outcome is unknown

	writes   []write // records asked for whose outcome is unknown, oldest first; generations do not fall
	sessions sessionHeap
}

// newGroup makes a group that nobody has heard of yet.
func newGroup(k Key, l *limits) *group {
	return &group{
		key: k, limits: l,
		byID: map[string]*member{}, byInstance: map[string]*member{}, pending: map[string]*session{}, supported: map[string]int{},
	}
}

// loadGroup makes a group from its newest record. Sessions are no part of it: every member has a full one from now.
func loadGroup(k Key, rec *groupRecord, l *limits, now time.Time) *group {
	g := newGroup(k, l)
	g.generation, g.protocolType, g.changedAt = rec.Generation, rec.ProtocolType, rec.ChangedAt
	if len(rec.Members) == 0 {
		return g
	}
	g.stage, g.protocol = stageStable, rec.Protocol
	for i := range rec.Members {
		m := loadMember(&rec.Members[i], rec.Protocol)
		if g.byID[m.id] != nil || m.instance != "" && g.byInstance[m.instance] != nil {
			continue // no record of ours has a member twice; of a damaged one the first stands
		}
		g.add(m)
		g.keepAlive(m, now)
	}
	if g.byID[rec.Leader] != nil {
		g.leader = rec.Leader
	} else {
		g.leader = g.oldest(func(*member) bool { return true }).id
	}
	return g
}

// record is the group as it is to be stored.
func (g *group) record() *groupRecord {
	rec := &groupRecord{
		Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader, ChangedAt: g.changedAt,
	}
	for _, m := range g.sorted() {
		rec.Members = append(rec.Members, memberRecord{
			ID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			SessionTimeoutMs: millis(m.session), RebalanceTimeoutMs: millis(m.rebalance),
			Subscription: m.metadata(g.protocol), Assignment: m.assignment,
		})
	}
	return rec
}

// heartbeat keeps a member's session alive and tells it whether to join again.
func (g *group) heartbeat(now time.Time, id, instance string, generation int32) error {
	m, err := g.member(id, instance)
	if err != nil {
		return err
	}
	if generation != g.generation {
		return ErrIllegalGeneration
	}
	g.keepAlive(m, now)
	if g.stage == stagePreparing {
		return ErrRebalanceInProgress
	}
	return nil
}

// checkCommit tells whether offsets may be committed, and counts as a sign of life of the member that does. Without a member id and
// with generation -1 they may while nobody is a member. A member may still commit while others join: that is what makes it give up
// its partitions cleanly. Not so once the next generation began, because it may not have that one's assignment.
func (g *group) checkCommit(now time.Time, id, instance string, generation int32) error {
	switch {
	case g.stage == stageDead:
		return ErrNotAvailable
	case generation < 0 && g.stage == stageEmpty:
		return nil
	case generation < 0 && id == "" && instance == "":
		return ErrUnknownMember
	}
	m, err := g.member(id, instance)
	if err != nil {
		return err
	}
	if generation != g.generation {
		return ErrIllegalGeneration
	}
	if g.stage == stageCompleting {
		return ErrRebalanceInProgress
	}
	g.keepAlive(m, now)
	return nil
}

// member finds the member that a call speaks for. An instance id that another member id holds fences the caller.
func (g *group) member(id, instance string) (*member, error) {
	if g.stage == stageDead {
		return nil, ErrNotAvailable
	}
	if instance != "" {
		switch holder := g.byInstance[instance]; {
		case holder == nil:
			return nil, ErrUnknownMember
		case holder.id != id:
			return nil, ErrFencedInstance
		}
	}
	m := g.byID[id]
	if m == nil {
		return nil, ErrUnknownMember
	}
	return m, nil
}

// leave removes members and gives one result for each. A static member may be named by its instance id alone, which is how
// administrators remove one.
func (g *group) leave(now time.Time, members []Leaving, fx *effects) []error {
	each := make([]error, len(members))
	gone, pendingGone := false, false
	for i, l := range members {
		if g.stage != stageDead && l.InstanceID == "" && g.pending[l.MemberID] != nil {
			g.dropPending(l.MemberID)
			pendingGone = true
			continue
		}
		id := l.MemberID
		if holder := g.byInstance[l.InstanceID]; id == "" && l.InstanceID != "" && holder != nil {
			id = holder.id
		}
		m, err := g.member(id, l.InstanceID)
		if err != nil {
			each[i] = err
			continue
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
	return each
}

// abandon answers everybody who waits with err and drops what the group held: this node no longer coordinates it.
func (g *group) abandon(err error, fx *effects) {
	for _, m := range g.sorted() {
		g.refuseJoin(m, m.id, err, fx)
		refuseSync(m, err, fx)
	}
	*g = *newGroup(g.key, g.limits)
	g.stage = stageDead
}

// state is the name of the group's state.
func (g *group) state() string { return stageNames[g.stage] }

// members is how many members there are.
func (g *group) members() int { return len(g.byID) }

// describe is the group for people. The protocol and what members said in it are there only when settled, and an assignment is not
// shown before it is stored.
func (g *group) describe() Description {
	d := Description{State: g.state(), ProtocolType: g.protocolType}
	if g.stage == stageStable {
		d.Protocol = g.protocol
	}
	for _, m := range g.sorted() {
		md := MemberDescription{MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost}
		if d.Protocol != "" {
			md.Metadata = m.metadata(d.Protocol)
		}
		if !g.assigning {
			md.Assignment = m.assignment
		}
		d.Members = append(d.Members, md)
	}
	return d
}

func (g *group) enter(s stage, now time.Time) {
	g.stage, g.changedAt = s, now.UnixMilli()
}
