package cluster

// Diff calls changed once for every topic that differs between two images: (nil, new) for one that appeared, (old, nil) for one that
// went, both for one of which anything changed. Topics are matched by id, so a name that was deleted and made again is one call
// of each kind. The order is not specified. Cost: what changed, plus a glance at the shared rest, when the images are of one
// lineage; the whole of both otherwise. A nil image counts as empty.
func Diff(from, to *Image, changed func(from, to *Topic)) {
	var a, b *indexRoot
	if from != nil {
		a = from.byID.root
	}
	if to != nil {
		b = to.byID.root
	}
	if a == b {
		return
	}
	for i := range indexFan {
		var la, lb *indexLeaf
		if a != nil {
			la = a.kids[i]
		}
		if b != nil {
			lb = b.kids[i]
		}
		if la != lb {
			diffLeaf(la, lb, changed)
		}
	}
}

func diffLeaf(a, b *indexLeaf, changed func(from, to *Topic)) {
	for j := range indexFan {
		var ba, bb []*Topic
		if a != nil {
			ba = a.buckets[j]
		}
		if b != nil {
			bb = b.buckets[j]
		}
		if len(ba) == len(bb) && (len(ba) == 0 || &ba[0] == &bb[0]) {
			continue
		}
		for _, t := range ba {
			if u := findID(bb, t); u != t {
				changed(t, u)
			}
		}
		for _, u := range bb {
			if findID(ba, u) == nil {
				changed(nil, u)
			}
		}
	}
}

func findID(b []*Topic, t *Topic) *Topic {
	for _, u := range b {
		if u.ID == t.ID {
			return u
		}
	}
	return nil
}
