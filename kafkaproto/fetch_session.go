package kafkaproto

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// Fetch sessions (KIP-227): the server remembers which partitions a client fetches, so that requests name only changes and
// answers only news. Sessions are this node's, in memory, and belong to the principal that began them.
//
// Rules: Kafka request rules 4.4. When all slots are taken the longest unused session makes room if it has not been used
// for sessionEvictAfter; otherwise the client gets no session and goes on with full fetches, which is always correct.

const (
	sessionEvictAfter = 2 * time.Minute
	// maxSessionParts bounds the partitions of all sessions together, at some 150 bytes each and the names of the topics.
	maxSessionParts = 200_000
	// finalSessionEpoch drops a session, or asks for none.
	finalSessionEpoch = -1
)

var (
	errSessionUnknown = errcode.New(errcode.FetchSessionIDNotFound, "no such fetch session")
	errSessionEpoch   = errcode.New(errcode.InvalidFetchSessionEpoch, "not the fetch session's next epoch")
	errSessionTopics  = errcode.New(errcode.FetchSessionTopicIDError, "the fetch session names topics the other way")
)

type fetchSessions struct {
	limit int
	now   func() time.Time

	mu    sync.Mutex
	byID  map[int32]*fetchSession // guarded by mu
	parts int                     // guarded by mu: of all sessions
	// guarded by mu: by last use, oldest first
	oldest, newest *fetchSession
}

// sessionOwner is whom a session belongs to.
type sessionOwner struct {
	tenant      string
	incarnation uint64
	principal   string
}

type fetchSession struct {
	id      int32
	owner   sessionOwner
	usesIDs bool

	// Guarded by fetchSessions.mu.
	used       time.Time
	next, prev *fetchSession
	dropped    bool
	counted    int // its share of fetchSessions.parts

	mu    sync.Mutex
	epoch int32                    // guarded by mu: what the next request must carry
	parts []*sessionPart           // guarded by mu: in the order of the answers
	index map[partKey]*sessionPart // guarded by mu
	first int                      // guarded by mu: where the next answer begins, so that no partition is always served first
}

// partKey names a partition as the session's requests do: by topic name or id.
type partKey struct {
	name  string
	id    ids.TopicID
	index int32
}

// sessionPart is one partition of a session.
type sessionPart struct {
	key       partKey
	offset    ids.Offset
	maxBytes  int
	epoch     ids.LeaderEpoch // the leader epoch that the client knows
	lastEpoch ids.LeaderEpoch // of the last batch it has
	// What the client was told last. Guarded by the session's mu.
	highWatermark ids.Offset
	start         ids.Offset
	removed       bool
}

func newFetchSessions(limit int, now func() time.Time) *fetchSessions {
	return &fetchSessions{limit: limit, now: now, byID: map[int32]*fetchSession{}}
}

func (s *fetchSessions) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

// create begins a session over the partitions of a full fetch, or returns nil when there is no room. evicted tells that another
// session made room.
func (s *fetchSessions) create(owner sessionOwner, usesIDs bool, parts []fetchPart) (made *fetchSession, evicted bool) {
	if len(parts) == 0 || !nameable(parts) {
		return nil, false
	}
	made = &fetchSession{owner: owner, usesIDs: usesIDs, epoch: 1, index: make(map[partKey]*sessionPart, len(parts))}
	for i := range parts {
		parts[i].session = made.putLocked(&parts[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.byID) >= s.limit || s.parts+len(made.parts) > maxSessionParts {
		if s.oldest == nil || s.now().Sub(s.oldest.used) < sessionEvictAfter {
			for i := range parts {
				parts[i].session = nil
			}
			return nil, evicted
		}
		s.dropLocked(s.oldest)
		evicted = true
	}
	made.id = s.freeIDLocked()
	s.byID[made.id] = made
	made.counted = len(made.parts)
	s.parts += made.counted
	s.touchLocked(made)
	return made, evicted
}

// freeIDLocked draws an id that cannot be guessed from others and is not in use.
func (s *fetchSessions) freeIDLocked() int32 {
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails, by its contract
		id := int32(binary.BigEndian.Uint32(b[:]) & math.MaxInt32)
		if id != 0 && s.byID[id] == nil {
			return id
		}
	}
}

// find returns a session of owner, marked as used.
func (s *fetchSessions) find(owner sessionOwner, id int32) (*fetchSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byID[id]
	if f == nil || f.owner != owner {
		return nil, errSessionUnknown
	}
	s.unlinkLocked(f)
	s.touchLocked(f)
	return f, nil
}

// drop forgets a session of owner; an unknown one is ignored.
func (s *fetchSessions) drop(owner sessionOwner, id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.byID[id]; f != nil && f.owner == owner {
		s.dropLocked(f)
	}
}

func (s *fetchSessions) dropLocked(f *fetchSession) {
	delete(s.byID, f.id)
	s.unlinkLocked(f)
	f.dropped = true
	s.parts -= f.counted // not by its list, whose lock may be held by one that waits for memory
}

// grew accounts for partitions that a session gained or lost. It reports false when that is more than there is room for: then the
// session is gone.
func (s *fetchSessions) grew(f *fetchSession, by int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.dropped {
		return true
	}
	f.counted += by
	s.parts += by
	if by > 0 && s.parts > maxSessionParts {
		s.dropLocked(f)
		return false
	}
	return true
}

// nameable reports whether all names could be those of topics: a session does not remember longer ones.
func nameable(parts []fetchPart) bool {
	for i := range parts {
		if len(parts[i].name) > cluster.MaxTopicLength {
			return false
		}
	}
	return true
}

func (s *fetchSessions) touchLocked(f *fetchSession) {
	f.used = s.now()
	f.prev, f.next = s.newest, nil
	if s.newest != nil {
		s.newest.next = f
	} else {
		s.oldest = f
	}
	s.newest = f
}

func (s *fetchSessions) unlinkLocked(f *fetchSession) {
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		s.oldest = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else {
		s.newest = f.prev
	}
	f.next, f.prev = nil, nil
}

// putLocked adds a partition or changes it to what a request says.
func (f *fetchSession) putLocked(p *fetchPart) *sessionPart {
	key := partKey{name: p.name, id: p.id, index: p.index}
	part := f.index[key]
	if part == nil {
		if n := len(f.parts); n > 0 && f.parts[n-1].key.name == key.name {
			key.name = f.parts[n-1].key.name // one copy of the name for all partitions of a topic
		} else {
			key.name = strings.Clone(key.name) // the request's own bytes are gone soon
		}
		part = &sessionPart{key: key, highWatermark: ids.NoOffset, start: ids.NoOffset}
		f.index[key] = part
		f.parts = append(f.parts, part)
	}
	part.offset, part.maxBytes, part.epoch, part.lastEpoch = p.offset, p.maxBytes, p.epoch, p.lastEpoch
	return part
}

// advance checks and takes the epoch of an incremental request.
func (f *fetchSession) advanceLocked(epoch int32, usesIDs bool) error {
	switch {
	case f.usesIDs != usesIDs:
		return errSessionTopics
	case epoch != f.epoch:
		return errSessionEpoch
	}
	if f.epoch++; f.epoch <= 0 {
		f.epoch = 1
	}
	return nil
}

// mayGainLocked reports whether the session may take what an incremental request names: it is bounded as a full request is.
func (f *fetchSession) mayGainLocked(changed []fetchPart) bool {
	n := len(f.parts)
	for i := range changed {
		if p := &changed[i]; f.index[partKey{name: p.name, id: p.id, index: p.index}] == nil {
			n++
		}
	}
	return n <= maxFetchParts && nameable(changed)
}

// update applies an incremental request to the session and returns how many partitions it gained.
func (f *fetchSession) updateLocked(changed []fetchPart, forgotten []partKey) int {
	before := len(f.parts)
	for i := range changed {
		f.putLocked(&changed[i])
	}
	gone := 0
	for _, key := range forgotten {
		if part := f.index[key]; part != nil {
			part.removed = true
			delete(f.index, key)
			gone++
		}
	}
	if gone > 0 {
		kept := f.parts[:0]
		for _, part := range f.parts {
			if !part.removed {
				kept = append(kept, part)
			}
		}
		clear(f.parts[len(kept):])
		f.parts = kept
		f.first = 0
	}
	return len(f.parts) - before
}

// load fills a fetch with the session's partitions, beginning after the one that was served last.
func (f *fetchSession) loadLocked(into *fetch) {
	n := len(f.parts)
	for i := range n {
		part := f.parts[(f.first+i)%n]
		p := into.addPart()
		p.name, p.id, p.index = part.key.name, part.key.id, part.key.index
		p.offset, p.maxBytes, p.epoch, p.lastEpoch = part.offset, part.maxBytes, part.epoch, part.lastEpoch
		p.session = part
	}
}

// tell decides which partitions of an answer are news to the client, marks the others as left out, and remembers what it is
// told. A partition with an error is always told again.
func (f *fetchSession) tell(parts []fetchPart, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	served := -1
	for i := range parts {
		p := &parts[i]
		part := p.session
		if part == nil {
			continue
		}
		hw, start := p.bounds.HighWatermark, p.bounds.Start
		if p.err != nil {
			hw, start = ids.NoOffset, ids.NoOffset
		}
		if p.bytes > 0 {
			served = i
		}
		p.leftOut = !full && p.err == nil && p.bytes == 0 && !p.diverges && hw == part.highWatermark && start == part.start
		part.highWatermark, part.start = hw, start
	}
	if n := len(f.parts); served >= 0 && n > 0 && n == len(parts) {
		f.first = (f.first + served + 1) % n
	}
}
