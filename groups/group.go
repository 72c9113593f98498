package groups

import "time"

// limits are the bounds that every group of a coordinator keeps.
type limits struct {
	minSession, maxSession time.Duration
	initialRebalanceDelay  time.Duration // 0 and below: none
	maxSize                int           // members of one group; 0: no limit
	maxBytes               int           // what one group may hold for its members; 0: no limit
}

// reply is an answer that is due. The coordinator calls it outside its locks.
type reply struct {
	join     *JoinResult
	joinDone func(*JoinResult)
	sync     *SyncResult
	syncDone func(*SyncResult)
}

// effects is what a step of a group asks of the coordinator.
type effects struct {
	replies []reply
	// persist asks for record() to be written; the outcome goes to persisted with that record's generation.
	persist bool
}

// group is the machine of one group.
type group struct {
	key    Key
	limits *limits
}

func newGroup(k Key, l *limits) *group { return &group{key: k, limits: l} }

func loadGroup(k Key, rec *groupRecord, l *limits, now time.Time) *group { return newGroup(k, l) }

func (g *group) join(now time.Time, newMemberID string, r *JoinRequest, done func(*JoinResult), fx *effects) {
}

func (g *group) sync(now time.Time, r *SyncRequest, done func(*SyncResult), fx *effects) {}

func (g *group) heartbeat(now time.Time, member, instance string, generation int32) error { return nil }

func (g *group) leave(now time.Time, members []Leaving, fx *effects) []error { return nil }

func (g *group) checkCommit(now time.Time, member, instance string, generation int32) error {
	return nil
}

func (g *group) deadline() (time.Time, bool) { return time.Time{}, false }

func (g *group) expire(now time.Time, fx *effects) {}

func (g *group) record() *groupRecord { return nil }

func (g *group) persisted(now time.Time, generation int32, err error, fx *effects) {}

func (g *group) abandon(err error, fx *effects) {}

func (g *group) describe() Description { return Description{} }

func (g *group) state() string { return "" }

func (g *group) members() int { return 0 }
