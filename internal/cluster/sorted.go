package cluster

import (
	"cmp"
	"slices"
)

// sortedTopics has the topics in the order of their names: a list of short runs, each sorted, each below the next. Versions share all runs
// that did not change, as index does with its nodes: a change copies the list of runs and one run, and a builder that changes many topics
// copies each of them once.
type sortedTopics struct {
	owner *owner // the builder that may write to runs in place; meaningless after Build
	runs  []topicRun
}

// topicRun is part of sortedTopics; never empty.
type topicRun struct {
	owner  *owner // likewise, of topics
	topics []*Topic
}

// maxRun is how long a run may be before it is cut in two.
const maxRun = 256

// topicKey is what topics are sorted by.
type topicKey struct{ tenant, namespace, name string }

func keyOf(t *Topic) topicKey { return topicKey{t.Tenant, t.Namespace, t.Name} }

func compareToKey(t *Topic, k topicKey) int {
	return cmp.Or(cmp.Compare(t.Tenant, k.tenant), cmp.Compare(t.Namespace, k.namespace), cmp.Compare(t.Name, k.name))
}

// find returns the run that has a key, or that it belongs in, and its place there. Without runs both are 0.
func (s *sortedTopics) find(k topicKey) (run, at int, found bool) {
	run, found = slices.BinarySearchFunc(s.runs, k, func(r topicRun, k topicKey) int { return compareToKey(r.topics[0], k) })
	switch {
	case found:
		return run, 0, true
	case len(s.runs) == 0:
		return 0, 0, false
	}
	run = max(run-1, 0) // the last that begins below the key
	at, found = slices.BinarySearchFunc(s.runs[run].topics, k, compareToKey)
	return run, at, found
}

// from calls yield for each topic from a key on, until it returns false.
func (s *sortedTopics) from(k topicKey, yield func(*Topic) bool) {
	run, at, _ := s.find(k)
	for ; run < len(s.runs); run, at = run+1, 0 {
		for _, t := range s.runs[run].topics[at:] {
			if !yield(t) {
				return
			}
		}
	}
}

// own makes the list of runs, and the topics of one of them, such that o may write to them.
func (s *sortedTopics) own(o *owner, run int) *topicRun {
	if s.owner != o {
		s.owner, s.runs = o, slices.Clone(s.runs)
	}
	r := &s.runs[run]
	if r.owner != o {
		r.owner = o
		r.topics = append(make([]*Topic, 0, len(r.topics)+1), r.topics...)
	}
	return r
}

// put adds a topic, or puts it in the place of the one with its names.
func (s *sortedTopics) put(o *owner, t *Topic) {
	if len(s.runs) == 0 {
		s.owner, s.runs = o, []topicRun{{o, []*Topic{t}}}
		return
	}
	run, at, found := s.find(keyOf(t))
	r := s.own(o, run)
	if found {
		r.topics[at] = t
		return
	}
	r.topics = slices.Insert(r.topics, at, t)
	if len(r.topics) <= maxRun {
		return
	}
	half := len(r.topics) / 2
	if at == maxRun && run == len(s.runs)-1 {
		half = maxRun // topics come in order: runs stay full
	}
	upper := topicRun{o, slices.Clone(r.topics[half:])}
	r.topics = slices.Delete(r.topics, half, len(r.topics))
	s.runs = slices.Insert(s.runs, run+1, upper)
}

// remove takes the topic with a topic's names out. Runs that get short are left so: names that come again fill them.
func (s *sortedTopics) remove(o *owner, t *Topic) {
	run, at, found := s.find(keyOf(t))
	if !found {
		return
	}
	r := s.own(o, run)
	if len(r.topics) == 1 {
		s.runs = slices.Delete(s.runs, run, run+1)
		return
	}
	r.topics = slices.Delete(r.topics, at, at+1)
}
