package log

import (
	"hash/crc32"
	"math"
	"sort"
	"sync/atomic"

	"github.com/felixlog/felix/log/recordbatch"
)

// headPrefix is the number of bytes of a batch that its own checksum leaves out: base offset, length, leader epoch, magic and
// the checksum itself. Index entries carry a checksum over these, so that a flipped bit in them is found too.
const headPrefix = 21

// entryMemory is the size of an entry in memory.
const entryMemory = 24

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// noTimestamp is the largest timestamp of no batch at all.
const noTimestamp = math.MinInt64

// entry points at a batch. A block is what lies from one entry to the next, or to the end of the segment.
type entry struct {
	rel  uint32 // base offset of the batch, less the segment's
	pos  uint32 // where the batch begins in the file
	prev uint32 // checksum over the batch prefixes of the block before this entry; 0 for the first
	// before is the largest timestamp of all batches of the segment before this entry, noTimestamp if there is none.
	before int64
}

// index is the sparse index of one segment: offset and time in one. The first entry is the first batch. One writer appends;
// readers run alongside and see a prefix.
type index struct {
	entries atomic.Pointer[[]entry] // its length is the room; only the first count are valid
	count   atomic.Int32

	// The writer's alone, and frozen once the segment is sealed.
	block   uint32 // running checksum over the batch prefixes of the last block
	total   uint32 // the same over the whole segment
	last    int64  // position of the last entry, -1 without one
	largest int64  // largest timestamp so far
}

func newIndex() *index { return &index{last: -1, largest: noTimestamp} }

// add takes note of a batch at pos that begins at offset rel of the segment. An entry is made when the last one is at least
// interval bytes away.
func (x *index) add(rel, pos int64, batch []byte, h *recordbatch.Header, interval int64) {
	if x.last < 0 || pos-x.last >= interval {
		x.push(entry{rel: uint32(rel), pos: uint32(pos), prev: x.block, before: x.largest})
		x.last = pos
		x.block = 0
	}
	x.block = crc32.Update(x.block, castagnoli, batch[:headPrefix])
	x.total = crc32.Update(x.total, castagnoli, batch[:headPrefix])
	x.largest = max(x.largest, h.MaxTimestamp)
}

func (x *index) push(e entry) {
	n := int(x.count.Load())
	list := x.entries.Load()
	if list == nil || n == len(*list) {
		grown := make([]entry, max(2, 2*n))
		if list != nil {
			copy(grown, *list)
		}
		list = &grown
		x.entries.Store(list)
	}
	(*list)[n] = e
	x.count.Store(int32(n + 1)) // publishes the entry
}

// view returns the entries so far. They do not change any more.
func (x *index) view() []entry {
	n := int(x.count.Load())
	if n == 0 {
		return nil
	}
	return (*x.entries.Load())[:n] // the list may be newer than the count, never older
}

// memory is the number of bytes that the entries take.
func (x *index) memory() int64 {
	if list := x.entries.Load(); list != nil {
		return int64(len(*list)) * entryMemory
	}
	return 0
}

// floorOffset returns the number of the last entry at or below the offset rel, -1 if rel is below all.
func floorOffset(list []entry, rel int64) int {
	return sort.Search(len(list), func(i int) bool { return int64(list[i].rel) > rel }) - 1
}

// floorPosition returns the number of the last entry at or before pos, -1 if pos is before all.
func floorPosition(list []entry, pos int64) int {
	return sort.Search(len(list), func(i int) bool { return int64(list[i].pos) > pos }) - 1
}

// floorTime returns the number of the block in which the first batch with a timestamp of at least ts lies, if there is one: the
// block before the first entry that has seen such a timestamp. -1 if the list is empty.
func floorTime(list []entry, ts int64) int {
	return sort.Search(len(list), func(i int) bool { return list[i].before >= ts }) - 1
}
