package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// nativePlace is a shard of a stream.
type nativePlace struct {
	stream string
	shard  int32
}

func (p nativePlace) String() string { return fmt.Sprintf("%s/%d", p.stream, p.shard) }

// nativeRecord is what a record's value names: its publisher, and which of its records it is.
type nativeRecord struct {
	publisher int32
	number    int64
}

// noRecord stands for an offset without an event.
var noRecord = nativeRecord{publisher: -1}

// fate is what a publisher was told of a record.
type fate int8

const (
	fateUnknown fate = iota // no answer, or one that says that nobody knows
	fateAcked
	fateRefused // nothing was applied
)

// nativeFate is one record of one publisher.
type nativeFate struct {
	fate   fate
	acked  int64 // offset of the answer; -1 without
	offset int64 // where readers met it; -1 if not yet
	shard  int32
}

// nativeLedger is one shard as its followers saw it: all offsets from 0 on.
type nativeLedger struct {
	records []nativeRecord
	last    map[int32]int64        // highest number of each publisher
	ahead   map[int64]nativeRecord // what others saw beyond records
}

// nativeChecker compares what publishers were told with what readers of durable streams saw. It does no IO. Followers read each shard
// from its beginning over everything that happens, and are the only ones who may extend a ledger, so a place in it is final.
type nativeChecker struct {
	*checker   // the lock, and the violations
	publishers [][]nativeFate
	streams    []string // of each publisher
	ledgers    map[nativePlace]*nativeLedger
	confirmed  int64 // records acknowledged
	turnedAway int64 // records refused with a class that says that nothing was applied
	events     int64 // seen by all readers together
}

func newNativeChecker() *nativeChecker {
	return &nativeChecker{checker: newChecker(), ledgers: map[nativePlace]*nativeLedger{}}
}

// publisher registers a publisher to a stream and returns its number.
func (c *nativeChecker) publisher(stream string) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publishers = append(c.publishers, nil)
	c.streams = append(c.streams, stream)
	return int32(len(c.publishers) - 1)
}

// sending notes that the next n records of a publisher go out, and returns the first one's number.
func (c *nativeChecker) sending(publisher int32, n int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := int64(len(c.publishers[publisher]))
	for range n {
		c.publishers[publisher] = append(c.publishers[publisher], nativeFate{acked: -1, offset: -1})
	}
	return first
}

// answered notes the answer for n records from first on.
func (c *nativeChecker) answered(publisher int32, first int64, n int, f fate, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range int64(n) {
		r := &c.publishers[publisher][first+i]
		if r.fate == fateAcked {
			// A batch that was sent again has the answer of its first copy.
			if f != fateAcked || offset >= 0 && r.acked >= 0 && r.acked != offset+i {
				c.violateLocked("publisher %d, record %d: acknowledged at %d, and after another sending %v at %d", publisher, first+i, r.acked, f, offset+i)
			}
			continue
		}
		r.fate = f
		if f == fateRefused {
			c.turnedAway++
		}
		if f == fateAcked {
			c.confirmed++
			if offset >= 0 {
				r.acked = offset + i
			} else {
				c.violateLocked("publisher %d, record %d: acknowledged without an offset on a durable stream", publisher, first+i)
			}
		}
	}
}

// follow notes that a follower met a record at an offset of a shard that it reads from the beginning; the offsets below it that it did
// not meet were told to hold no event.
func (c *nativeChecker) follow(p nativePlace, offset int64, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events++
	l := c.ledgerLocked(p)
	if offset < int64(len(l.records)) {
		c.sameLocked(p, offset, l.records[offset], value)
		return
	}
	for int64(len(l.records)) < offset {
		l.records = append(l.records, noRecord)
	}
	r, ok := parseNative(value)
	l.records = append(l.records, r)
	if seen, early := l.ahead[offset]; early {
		delete(l.ahead, offset)
		if seen != r {
			c.violateLocked("%v offset %d: %v for one reader and %v for another", p, offset, seen, r)
		}
	}
	if !ok || int(r.publisher) >= len(c.publishers) || r.number >= int64(len(c.publishers[r.publisher])) || c.streams[r.publisher] != p.stream {
		c.violateLocked("%v offset %d: a record that nobody sent here: %.60q", p, offset, value)
		return
	}
	if last, some := l.last[r.publisher]; some && r.number <= last {
		c.violateLocked("%v offset %d: record %d of publisher %d comes after its record %d", p, offset, r.number, r.publisher, last)
	}
	l.last[r.publisher] = r.number
	f := &c.publishers[r.publisher][r.number]
	if f.offset >= 0 {
		c.violateLocked("%v offset %d: record %d of publisher %d again, the first is at %d of shard %d", p, offset, r.number, r.publisher, f.offset, f.shard)
	}
	f.offset, f.shard = offset, p.shard
}

// meet notes what any other reader met. It may be ahead of the followers.
func (c *nativeChecker) meet(p nativePlace, offset int64, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events++
	l := c.ledgerLocked(p)
	if offset < int64(len(l.records)) {
		c.sameLocked(p, offset, l.records[offset], value)
		return
	}
	r, _ := parseNative(value)
	if seen, early := l.ahead[offset]; early && seen != r {
		c.violateLocked("%v offset %d: %v for one reader and %v for another", p, offset, seen, r)
	}
	l.ahead[offset] = r
}

func (c *nativeChecker) ledgerLocked(p nativePlace) *nativeLedger {
	l := c.ledgers[p]
	if l == nil {
		l = &nativeLedger{last: map[int32]int64{}, ahead: map[int64]nativeRecord{}}
		c.ledgers[p] = l
	}
	return l
}

func (c *nativeChecker) sameLocked(p nativePlace, offset int64, have nativeRecord, value []byte) {
	if r, ok := parseNative(value); !ok || r != have {
		c.violateLocked("%v offset %d: %v for one reader and %v (%.60q) for another", p, offset, have, r, value)
	}
}

// end checks everything against everything, when publishers are at rest and followers have had all that the shards hold.
func (c *nativeChecker) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for publisher, records := range c.publishers {
		for number, r := range records {
			switch {
			case r.fate == fateAcked && r.offset < 0:
				c.violateLocked("publisher %d to %s: record %d was acknowledged at %d, and no reader met it", publisher, c.streams[publisher], number, r.acked)
			case r.fate == fateAcked && r.acked != r.offset:
				c.violateLocked("publisher %d to %s: record %d was acknowledged at %d and met at %d", publisher, c.streams[publisher], number, r.acked, r.offset)
			case r.fate == fateRefused && r.offset >= 0:
				c.violateLocked("publisher %d to %s: record %d was refused with nothing applied, and met at %d", publisher, c.streams[publisher], number, r.offset)
			}
		}
	}
	for p, l := range c.ledgers {
		if len(l.ahead) > 0 {
			c.violateLocked("%v: %d records were met by readers, and not by those who follow the shard", p, len(l.ahead))
		}
	}
}

// counts are acknowledged records, refused ones, and events seen by all readers.
func (c *nativeChecker) counts() (acked, refused, events int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.confirmed, c.turnedAway, c.events
}

const nativeValueHead = 20

// nativeValue is the value of a record: who, which, a checksum over both and over the filling, and the filling.
func nativeValue(publisher int32, number int64, size int) []byte {
	b := make([]byte, max(size, nativeValueHead))
	copy(b, "nat1")
	binary.BigEndian.PutUint32(b[4:], uint32(publisher))
	binary.BigEndian.PutUint64(b[8:], uint64(number))
	for i := nativeValueHead; i < len(b); i++ {
		b[i] = byte(number) + byte(i)
	}
	binary.BigEndian.PutUint32(b[16:], nativeSum(b))
	return b
}

func nativeSum(b []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(b[:16]), crc32.IEEETable, b[nativeValueHead:])
}

// parseNative reads a value that nativeValue made.
func parseNative(b []byte) (nativeRecord, bool) {
	if len(b) < nativeValueHead || string(b[:4]) != "nat1" || binary.BigEndian.Uint32(b[16:]) != nativeSum(b) {
		return noRecord, false
	}
	r := nativeRecord{int32(binary.BigEndian.Uint32(b[4:])), int64(binary.BigEndian.Uint64(b[8:]))}
	return r, r.publisher >= 0 && r.number >= 0
}
