package main

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
)

// clientKind is what a publisher of the client campaign promises.
type clientKind int

// The kinds: stored once; perhaps twice in a row; once or not at all.
const (
	clientOnce clientKind = iota
	clientRepeats
	clientPerhaps
)

// clientRecord names a record: its publisher and the number in the order of its sends.
type clientRecord struct {
	publisher int
	number    int64
}

// clientValue is a record of size bytes or a little more.
func clientValue(r clientRecord, size int) []byte {
	head := fmt.Sprintf("%d %d ", r.publisher, r.number)
	return append([]byte(head), strings.Repeat("x", max(size-len(head), 0))...)
}

func parseClientValue(b []byte) (clientRecord, error) {
	words := strings.SplitN(string(b), " ", 3)
	if len(words) != 3 {
		return clientRecord{}, fmt.Errorf("a record that nobody sent: %.40q", b)
	}
	publisher, err := strconv.Atoi(words[0])
	if err != nil {
		return clientRecord{}, err
	}
	number, err := strconv.ParseInt(words[1], 10, 64)
	return clientRecord{publisher, number}, err
}

// clientPlace is a shard of a stream.
type clientPlace struct {
	stream string
	shard  uint32
}

// clientShard is what is known of one shard's log. Offsets are dense here: nothing is compacted, and one node writes no other records.
type clientShard struct {
	hashes []uint64      // of each offset's value
	last   map[int]int64 // number of each publisher's latest record
}

// clientFate is what became of one record.
type clientFate struct {
	answered bool // acknowledged, or failed
	acked    bool
	unknown  bool // failed, and may have been stored
	place    clientPlace
	offset   int64
	seen     int   // times in the log
	seenAt   int64 // offset of the first time
	seenIn   clientPlace
}

// clientChecker compares what publishers were told and what subscribers got. It does no IO.
type clientChecker struct {
	mu         sync.Mutex
	kinds      []clientKind
	fates      map[clientRecord]*clientFate
	shards     map[clientPlace]*clientShard
	violations []string

	acked, unknown, refused, repeated, events int64
}

func newClientChecker() *clientChecker {
	return &clientChecker{fates: map[clientRecord]*clientFate{}, shards: map[clientPlace]*clientShard{}}
}

// publisher adds a publisher and returns its number.
func (c *clientChecker) publisher(k clientKind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds = append(c.kinds, k)
	return len(c.kinds) - 1
}

func (c *clientChecker) violate(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violateLocked(format, args...)
}

func (c *clientChecker) violateLocked(format string, args ...any) {
	if len(c.violations) < maxViolations {
		c.violations = append(c.violations, fmt.Sprintf(format, args...))
	}
}

func (c *clientChecker) problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.violations...)
}

func (c *clientChecker) fateLocked(r clientRecord) *clientFate {
	f := c.fates[r]
	if f == nil {
		f = &clientFate{}
		c.fates[r] = f
	}
	return f
}

// acknowledge notes that a record was acknowledged at an offset.
func (c *clientChecker) acknowledge(r clientRecord, at clientPlace, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fateLocked(r)
	if f.answered {
		c.violateLocked("%v: answered twice", r)
	}
	f.answered, f.acked, f.place, f.offset = true, true, at, offset
	c.acked++
	c.compareLocked(r, f)
}

// fail notes that a record failed. unknown: it may have been stored.
func (c *clientChecker) fail(r clientRecord, unknown bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fateLocked(r)
	if f.answered {
		c.violateLocked("%v: answered twice", r)
	}
	f.answered, f.unknown = true, unknown
	if unknown {
		c.unknown++
	} else {
		c.refused++
	}
	if c.kinds[r.publisher] != clientPerhaps {
		c.violateLocked("%v: a publisher that sends again gave up: %v", r, err)
	}
	c.compareLocked(r, f)
}

// compareLocked compares a record's answer with the log, as far as both are there.
func (c *clientChecker) compareLocked(r clientRecord, f *clientFate) {
	if !f.answered || f.seen == 0 {
		return
	}
	switch {
	case f.acked && c.kinds[r.publisher] != clientRepeats && (f.seenAt != f.offset || f.seenIn != f.place):
		c.violateLocked("%v: acknowledged at %v offset %d, and lies at %v offset %d", r, f.place, f.offset, f.seenIn, f.seenAt)
	case !f.acked && !f.unknown:
		c.violateLocked("%v: failed as not stored, and lies at %v offset %d", r, f.seenIn, f.seenAt)
	}
}

// observe takes an event of a subscriber that reads a place in order. Whoever comes to an offset first defines what lies there; everybody
// else must get the same.
func (c *clientChecker) observe(at clientPlace, offset int64, value []byte) {
	h := fnv.New64a()
	_, _ = h.Write(value)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events++
	s := c.shards[at]
	if s == nil {
		s = &clientShard{last: map[int]int64{}}
		c.shards[at] = s
	}
	switch {
	case offset < int64(len(s.hashes)):
		if s.hashes[offset] != h.Sum64() {
			c.violateLocked("%v offset %d: two subscribers got different records", at, offset)
		}
	case offset > int64(len(s.hashes)):
		c.violateLocked("%v offset %d: nobody was given the offsets from %d on", at, offset, len(s.hashes))
	default:
		s.hashes = append(s.hashes, h.Sum64())
		c.firstLocked(at, s, offset, value)
	}
}

// firstLocked judges a record that is seen for the first time at its offset.
func (c *clientChecker) firstLocked(at clientPlace, s *clientShard, offset int64, value []byte) {
	r, err := parseClientValue(value)
	if err != nil || r.publisher < 0 || r.publisher >= len(c.kinds) {
		c.violateLocked("%v offset %d: %.40q: %v", at, offset, value, err)
		return
	}
	last, some := s.last[r.publisher]
	s.last[r.publisher] = r.number
	f := c.fateLocked(r)
	f.seen++
	switch repeats := c.kinds[r.publisher] == clientRepeats; {
	case some && r.number < last, some && r.number == last && !repeats:
		c.violateLocked("%v offset %d: record %d of publisher %d after %d", at, offset, r.number, r.publisher, last)
	case f.seen > 1 && !repeats:
		c.violateLocked("%v offset %d: record %d of publisher %d is stored %d times", at, offset, r.number, r.publisher, f.seen)
	case f.seen > 1:
		c.repeated++
	}
	if f.seen == 1 {
		f.seenAt, f.seenIn = offset, at
		c.compareLocked(r, f)
	}
}

// end judges what is left: every record has an answer, and every acknowledged one was seen.
func (c *clientChecker) end(sent []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for publisher, n := range sent {
		for number := range n {
			r := clientRecord{publisher, number}
			switch f := c.fates[r]; {
			case f == nil || !f.answered:
				c.violateLocked("%v: nobody was told what became of it", r)
			case f.acked && f.seen == 0:
				c.violateLocked("%v: acknowledged at %v offset %d, and nobody got it", r, f.place, f.offset)
			}
		}
	}
}

// clientCursor follows one subscriber through one shard: each offset once, in order.
type clientCursor struct{ next map[clientPlace]int64 }

// step takes the next event. first is where the subscriber may begin, if it has none yet.
func (c *clientCursor) step(at clientPlace, offset, skipped int64) error {
	if c.next == nil {
		c.next = map[clientPlace]int64{}
	}
	if want, some := c.next[at]; some && offset-skipped != want {
		return fmt.Errorf("%v: offset %d (%d skipped) where %d was to come", at, offset, skipped, want)
	}
	if skipped != 0 {
		return fmt.Errorf("%v offset %d: %d skipped, and one node skips none", at, offset, skipped)
	}
	c.next[at] = offset + 1
	return nil
}
