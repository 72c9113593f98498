package cluster

import (
	"iter"
	"slices"
)

// An ordered is a persistent list in the order of its keys: a slice of chunks, each of which is a sorted slice that is never empty. Versions
// share the chunks that did not change, so that a change among ten thousand entries copies two kilobytes and the slice of chunks, and
// reading from a key on costs what is read. A builder that changes much copies each chunk once, because it marks those it owns.
type ordered[T keyed[T]] struct {
	owner  *owner // the builder that may write chunks in place; meaningless after Build
	chunks []*chunk[T]
	n      int
}

// keyed is what has a key in it. Two entries of one key are the same entry.
type keyed[T any] interface{ compareKey(other T) int }

type chunk[T any] struct {
	owner *owner
	items []T // has the capacity of a full chunk when it has an owner
}

const chunkSize = 256

// find returns the place of a key: the chunk and the index in it where it is or belongs. A list without chunks has no place.
func (s *ordered[T]) find(key T) (i, j int, found bool) {
	i, found = slices.BinarySearchFunc(s.chunks, key, func(c *chunk[T], key T) int { return c.items[len(c.items)-1].compareKey(key) })
	if found {
		return i, len(s.chunks[i].items) - 1, true
	}
	if i == len(s.chunks) {
		if i == 0 {
			return 0, 0, false
		}
		return i - 1, len(s.chunks[i-1].items), false
	}
	j, found = slices.BinarySearchFunc(s.chunks[i].items, key, func(v, key T) int { return v.compareKey(key) })
	return i, j, found
}

// get returns the entry with a key.
func (s *ordered[T]) get(key T) (v T, found bool) {
	i, j, found := s.find(key)
	if !found {
		return v, false
	}
	return s.chunks[i].items[j], true
}

// from iterates over the entries behind a key, and with it if inclusive.
func (s *ordered[T]) from(key T, inclusive bool) iter.Seq[T] {
	i, j, found := s.find(key)
	if found && !inclusive {
		j++
	}
	chunks := s.chunks
	return func(yield func(T) bool) {
		for i, j := i, j; i < len(chunks); i, j = i+1, 0 {
			for _, v := range chunks[i].items[j:] {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// each iterates over all entries.
func (s *ordered[T]) each() iter.Seq[T] {
	chunks := s.chunks
	return func(yield func(T) bool) {
		for _, c := range chunks {
			for _, v := range c.items {
				if !yield(v) {
					return
				}
			}
		}
	}
}

func (s *ordered[T]) own(o *owner) {
	if s.owner != o {
		s.chunks, s.owner = slices.Clone(s.chunks), o
	}
}

// writable returns a chunk for writing on behalf of o.
func (s *ordered[T]) writable(o *owner, i int) *chunk[T] {
	c := s.chunks[i]
	if c.owner != o {
		c = newChunk(o, c.items)
		s.chunks[i] = c
	}
	return c
}

func newChunk[T any](o *owner, items []T) *chunk[T] {
	return &chunk[T]{owner: o, items: append(make([]T, 0, chunkSize), items...)}
}

// put adds an entry or replaces the one with its key.
func (s *ordered[T]) put(o *owner, v T) {
	s.own(o)
	if len(s.chunks) == 0 {
		s.chunks = append(s.chunks, newChunk(o, []T{v}))
		s.n++
		return
	}
	i, j, found := s.find(v)
	c := s.writable(o, i)
	if found {
		c.items[j] = v
		return
	}
	if len(c.items) == chunkSize {
		half := chunkSize / 2
		if i == len(s.chunks)-1 && j == chunkSize {
			half = chunkSize // entries that come in order fill their chunks
		}
		right := newChunk(o, c.items[half:])
		clear(c.items[half:])
		c.items = c.items[:half]
		s.chunks = slices.Insert(s.chunks, i+1, right)
		if j > half || half == chunkSize {
			c, j = right, j-half
		}
	}
	c.items = slices.Insert(c.items, j, v)
	s.n++
}

// remove takes out the entry with a key, if there is one.
func (s *ordered[T]) remove(o *owner, key T) {
	i, j, found := s.find(key)
	if !found {
		return
	}
	s.own(o)
	c := s.writable(o, i)
	c.items = slices.Delete(c.items, j, j+1)
	if len(c.items) == 0 {
		s.chunks = slices.Delete(s.chunks, i, i+1)
	}
	s.n--
}

// takeUntil ends an iteration before the first entry that is not within.
func takeUntil[T any](from iter.Seq[T], within func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range from {
			if !within(v) || !yield(v) {
				return
			}
		}
	}
}
