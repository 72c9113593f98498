package log

import (
	"hash/maphash"

	"github.com/felixlog/felix/internal/ids"
)

const (
	// maxCompactionKeys bounds the keys of one pass of compaction, and with them its memory: 24 bytes a slot, at most twice as many
	// slots as keys.
	maxCompactionKeys = 1 << 20
	// minOffsetSlots is the room of a new map.
	minOffsetSlots = 1 << 10
)

// offsetMap knows the newest offset of each key. It keeps 128 bits of hash instead of keys, under random seeds, so that nobody can
// choose two keys that it takes for one; by chance that happens once in 10^26 pairs.
type offsetMap struct {
	seeds [2]maphash.Seed
	slots []offsetSlot // a power of two, at most three quarters full
	used  int
	limit int
}

type offsetSlot struct {
	high, low uint64
	offset    ids.Offset // -1 in a free slot
}

func newOffsetMap(limit int) *offsetMap {
	return &offsetMap{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, slots: freeSlots(minOffsetSlots), limit: limit}
}

func freeSlots(n int) []offsetSlot {
	slots := make([]offsetSlot, n)
	for i := range slots {
		slots[i].offset = -1
	}
	return slots
}

func (m *offsetMap) hash(key []byte) (high, low uint64) {
	return maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)
}

// put takes note of a key at an offset, which is larger than all before. It returns false if the map is full.
func (m *offsetMap) put(key []byte, off ids.Offset) bool {
	high, low := m.hash(key)
	s := m.slot(high, low)
	if s.offset < 0 {
		if m.used >= m.limit {
			return false
		}
		if m.used++; m.used > len(m.slots)/4*3 {
			m.grow()
			s = m.slot(high, low)
		}
	}
	*s = offsetSlot{high, low, off}
	return true
}

// newest returns the newest offset known of a key, -1 if there is none.
func (m *offsetMap) newest(key []byte) ids.Offset { return m.slot(m.hash(key)).offset }

// slot returns the slot of a key, or the free one where it belongs.
func (m *offsetMap) slot(high, low uint64) *offsetSlot {
	mask := uint64(len(m.slots) - 1)
	for i := high & mask; ; i = (i + 1) & mask {
		if s := &m.slots[i]; s.offset < 0 || s.high == high && s.low == low {
			return s
		}
	}
}

func (m *offsetMap) grow() {
	old := m.slots
	m.slots = freeSlots(2 * len(old))
	for _, s := range old {
		if s.offset >= 0 {
			*m.slot(s.high, s.low) = s
		}
	}
}
