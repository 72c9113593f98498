package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sectorBytes is the unit in which a disk writes: a sector is old or new, never half of each.
const sectorBytes = 512

// CrashImage returns a new file system as a power loss at this moment could leave it, chosen by rnd: of each file, what was
// synced and an arbitrary part of what was not, in units of a sector; of each directory, what was synced and an arbitrary part
// of the later changes of names. Equal states and equal rnd give equal images. Everything in the image counts as synced; m is
// unchanged, and Files opened on m do not reach into the image.
//
// An unsynced file may come out longer than its surviving writes, with zeros or older bytes between them, as with file systems
// that journal sizes but not data.
func (m *Mem) CrashImage(rnd *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()

	// Work on a copy of the durable entries, reachable from the root by whatever changes survive.
	c := cloner{nodes: map[*memNode]*memNode{}}
	kept := surviving(rnd, len(m.entryOps))
	entries := map[*memNode]map[string]*memNode{}
	of := func(dir *memNode) map[string]*memNode {
		e := entries[dir]
		if e == nil {
			e = maps.Clone(dir.syncedEntries)
			entries[dir] = e
		}
		return e
	}
	for i, op := range m.entryOps {
		if !kept[i] {
			continue
		}
		if op.removeFrom != nil {
			delete(of(op.removeFrom), op.removeName)
		}
		if op.addTo != nil {
			of(op.addTo)[op.addName] = op.node
		}
	}
	return &Mem{root: c.crash(m.root, of, rnd)}
}

// ProcessKillImage returns a new file system as kill -9 at this moment leaves it to the next process: everything written is
// there, and what was not synced still is not.
func (m *Mem) ProcessKillImage() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := cloner{nodes: map[*memNode]*memNode{}}
	image := &Mem{root: c.whole(m.root)}
	for _, op := range m.entryOps {
		image.entryOps = append(image.entryOps, entryOp{
			removeFrom: c.whole(op.removeFrom), removeName: op.removeName,
			addTo: c.whole(op.addTo), addName: op.addName, node: c.whole(op.node),
		})
	}
	return image
}

// cloner copies nodes, each once: a node may hang in two places, in the visible entries and the durable ones.
type cloner struct {
	nodes map[*memNode]*memNode
}

// whole copies a node with all that is known of it.
func (c *cloner) whole(n *memNode) *memNode {
	if n == nil {
		return nil
	}
	if copied := c.nodes[n]; copied != nil {
		return copied
	}
	if !n.dir {
		copied := &memNode{data: slices.Clone(n.data), synced: slices.Clone(n.synced), pending: slices.Clone(n.pending)}
		c.nodes[n] = copied
		return copied
	}
	copied := newMemDir()
	c.nodes[n] = copied
	for name, child := range n.entries {
		copied.entries[name] = c.whole(child)
	}
	for name, child := range n.syncedEntries {
		copied.syncedEntries[name] = c.whole(child)
	}
	return copied
}

// crash copies a node as a power loss leaves it; of gives the entries of a directory that survive.
func (c *cloner) crash(n *memNode, of func(*memNode) map[string]*memNode, rnd *rand.Rand) *memNode {
	if copied := c.nodes[n]; copied != nil {
		return copied
	}
	if !n.dir {
		data := n.crashed(rnd)
		copied := &memNode{data: data, synced: slices.Clone(data)}
		c.nodes[n] = copied
		return copied
	}
	copied := newMemDir()
	c.nodes[n] = copied
	survivors := of(n)
	for _, name := range sortedNames(survivors) { // in order, or equal seeds would give different images
		child := c.crash(survivors[name], of, rnd)
		copied.entries[name] = child
		copied.syncedEntries[name] = child
	}
	return copied
}

// crashed returns the content of a file after a power loss. Sizes come from a prefix of the pending changes, as from a journal;
// the bytes of each write survive sector by sector, whatever the order they were written in.
func (n *memNode) crashed(rnd *rand.Rand) []byte {
	image := slices.Clone(n.synced)
	if len(n.pending) == 0 {
		return image
	}
	journaled := rnd.IntN(len(n.pending) + 1)
	keep := sectorChooser(rnd)
	for i, op := range n.pending {
		if op.bytes == nil {
			if i < journaled {
				image = resized(image, op.off)
			}
			continue
		}
		end := op.off + int64(len(op.bytes))
		if i < journaled && end > int64(len(image)) {
			image = resized(image, end)
		}
		for from := op.off; from < end; {
			to := min((from/sectorBytes+1)*sectorBytes, end)
			if keep() && from < int64(len(image)) {
				copy(image[from:], op.bytes[from-op.off:to-op.off])
			}
			from = to
		}
	}
	return image
}

// sectorChooser returns a function that says of one sector after the other whether it survives. Each way is likely enough that
// a few images find a bug that needs it: nothing, everything, everything up to a moment, and any.
func sectorChooser(rnd *rand.Rand) func() bool {
	switch rnd.IntN(4) {
	case 0:
		return func() bool { return false }
	case 1:
		return func() bool { return true }
	case 2:
		left := rnd.IntN(1 << rnd.IntN(12)) // up to 2048 sectors, small numbers as likely as large ones
		return func() bool { left--; return left >= 0 }
	default:
		return func() bool { return rnd.IntN(2) == 0 }
	}
}

// surviving chooses which of n changes survive, in the same four ways.
func surviving(rnd *rand.Rand, n int) []bool {
	kept := make([]bool, n)
	way, prefix := rnd.IntN(4), rnd.IntN(n+1)
	for i := range kept {
		switch way {
		case 0:
			kept[i] = false
		case 1:
			kept[i] = true
		case 2:
			kept[i] = i < prefix
		default:
			kept[i] = rnd.IntN(2) == 0
		}
	}
	return kept
}
