package cluster

import (
	"hash/maphash"

	"github.com/felixlog/felix/internal/ids"
)

// An index is a persistent hash table of topics: two fixed levels of 64 ways and a small slice at the end. Versions share all nodes
// that did not change. Copying the path to one topic costs about two kilobytes whatever the size; a builder that changes many
// topics copies each node once, because it marks the nodes it owns.
//
// Buckets are always copied on change, never appended to in place: they hold a few entries even at a hundred thousand topics.
type index struct {
	root *indexRoot
	n    int
}

const indexFan = 64

type indexRoot struct {
	owner *owner // the builder that may write this node in place; meaningless after Build
	kids  [indexFan]*indexLeaf
}

type indexLeaf struct {
	owner   *owner
	buckets [indexFan][]*Topic
}

// owner is the identity of one builder.
type owner struct{ _ byte }

// hashSeed makes bucket choice unpredictable to whoever names topics. One a process, so that images of one lineage compare.
var hashSeed = maphash.MakeSeed()

func hashName(tenant, namespace, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	_, _ = h.WriteString(tenant)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(namespace)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(name)
	return h.Sum64()
}

func hashID(id ids.TopicID) uint64 { return maphash.Bytes(hashSeed, id[:]) }

func split(h uint64) (i, j int) { return int(h>>58) & (indexFan - 1), int(h>>52) & (indexFan - 1) }

// bucket returns the topics whose hash leads to the same slot as h. The caller compares names or ids.
func (x *index) bucket(h uint64) []*Topic {
	if x.root == nil {
		return nil
	}
	i, j := split(h)
	leaf := x.root.kids[i]
	if leaf == nil {
		return nil
	}
	return leaf.buckets[j]
}

// slot returns the bucket of h for writing on behalf of o, copying the path to it unless o owns it already.
func (x *index) slot(o *owner, h uint64) *[]*Topic {
	switch {
	case x.root == nil:
		x.root = &indexRoot{owner: o}
	case x.root.owner != o:
		root := *x.root
		root.owner = o
		x.root = &root
	}
	i, j := split(h)
	leaf := x.root.kids[i]
	switch {
	case leaf == nil:
		leaf = &indexLeaf{owner: o}
	case leaf.owner != o:
		c := *leaf
		c.owner = o
		leaf = &c
	}
	x.root.kids[i] = leaf
	return &leaf.buckets[j]
}

// replace puts t in place of old in the bucket of h. A nil old adds, a nil t removes.
func (x *index) replace(o *owner, h uint64, old, t *Topic) {
	b := x.slot(o, h)
	next := make([]*Topic, 0, len(*b)+1)
	for _, have := range *b {
		if have != old {
			next = append(next, have)
		}
	}
	if t != nil {
		next = append(next, t)
	}
	x.n += len(next) - len(*b)
	if len(next) == 0 {
		next = nil
	}
	*b = next
}

// each calls f for every topic, in no particular order, until f returns false.
func (x *index) each(f func(*Topic) bool) {
	if x.root == nil {
		return
	}
	for _, leaf := range x.root.kids {
		if leaf == nil {
			continue
		}
		for _, b := range leaf.buckets {
			for _, t := range b {
				if !f(t) {
					return
				}
			}
		}
	}
}
