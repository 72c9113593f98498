package groups

import (
	"cmp"
	"slices"
	"time"

	"github.com/felixlog/felix/internal/ids"
)

// consumerType is the protocol type of consumers, the only one whose subscriptions are looked into.
const consumerType = "consumer"

// List calls yield for the groups of an incarnation of a tenant that are coordinated here, sorted by id, until it returns false. The error ErrLoading or
// ErrNotAvailable, after all that can be listed, says that a shard led here cannot say what it has.
func (c *Coordinator) List(tenant string, incarnation uint64, yield func(Overview) bool) error {
	var all []Overview
	var incomplete error
	for _, s := range c.shards {
		s.mu.Lock()
		switch s.phase {
		case loading, failed:
			incomplete = refusals[s.phase]
		case ready:
			for _, e := range s.groups {
				if e.key.Tenant == tenant && e.key.Incarnation == incarnation {
					all = append(all, Overview{Group: e.key.Group, ProtocolType: e.g.protocolType, State: e.g.state(), Type: "classic"})
				}
			}
		case notLed, draining, ended:
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Overview) int { return cmp.Compare(a.Group, b.Group) })
	for _, o := range all {
		if !yield(o) {
			return nil
		}
	}
	return incomplete
}

// Describe returns a group in full. Error: ErrGroupNotFound.
func (c *Coordinator) Describe(k Key) (Description, error) {
	s := c.shardFor(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(); err != nil {
		return Description{}, err
	}
	e := s.findLocked(k)
	if e == nil {
		return Description{}, ErrGroupNotFound
	}
	return e.g.describe(), nil
}

// Delete removes an empty group and all that it has committed; done is called once that is durable. Errors: ErrGroupNotFound,
// ErrNonEmptyGroup, those of writing.
func (c *Coordinator) Delete(k Key, done func(error)) {
	var out outbox
	s := c.shardFor(k)
	s.mu.Lock()
	waits, err := s.deleteLocked(k, done, &out)
	s.mu.Unlock()
	out.send()
	if !waits {
		done(err)
		return
	}
	s.pump()
}

func (s *shard) deleteLocked(k Key, done func(error), out *outbox) (waits bool, err error) {
	if err := s.usableLocked(); err != nil {
		return false, err
	}
	e := s.findLocked(k)
	if e == nil {
		return false, ErrGroupNotFound
	}
	if e.g.stage != stageEmpty {
		return false, ErrNonEmptyGroup
	}
	if !e.recorded && e.pending == 0 && len(e.offsets) == 0 {
		e.g.abandon(ErrNotCoordinator, &out.fx) // member ids that were given out and have not come back
		s.removeLocked(e)
		return false, nil
	}
	b := s.buryLocked(e, s.c.now(), out)
	b.answers = append(b.answers, answer{plain: done})
	return true, nil
}

// buryLocked forgets a group and queues the tombstones of everything of it, in one batch.
func (s *shard) buryLocked(e *entry, now time.Time, out *outbox) *batch {
	n := len(e.offsets) + e.pending + 1
	b := s.batchLocked(n * (offsetRecordBytes + len(e.id)))
	for at := range e.offsets {
		s.queueChangeLocked(b, now, change{e: e, at: at, gone: true})
	}
	for at := range s.pendingOf(e) {
		if _, ok := e.offsets[at]; !ok {
			s.queueChangeLocked(b, now, change{e: e, at: at, gone: true})
		}
	}
	if e.recorded {
		s.key = appendGroupKey(s.key[:0], e.key)
		s.putLocked(b, now, s.key, nil)
	}
	b.loses = true
	e.g.abandon(ErrNotCoordinator, &out.fx)
	out.fx.persist = false
	s.removeLocked(e)
	return b
}

// pendingOf is the offsets of a group that are on their way to the log.
func (s *shard) pendingOf(e *entry) map[offsetKey]bool {
	if e.pending == 0 {
		return nil
	}
	found := map[offsetKey]bool{}
	all := s.queue
	if s.flying != nil {
		all = append([]*batch{s.flying}, all...)
	}
	for _, b := range all {
		for i := range b.changes {
			if ch := &b.changes[i]; ch.e == e && !ch.gone {
				found[ch.at] = true
			}
		}
	}
	return found
}

// subscribedLocked returns what says whether a member of e is subscribed to a topic. Where a subscription cannot be read, all topics count
// as subscribed to. Error: ErrNonEmptyGroup for members that are no consumers.
func (s *shard) subscribedLocked(e *entry) (func(ids.TopicID) bool, error) {
	none := func(ids.TopicID) bool { return false }
	if e.g.stage == stageEmpty {
		return none, nil
	}
	if e.g.protocolType != consumerType {
		return nil, ErrNonEmptyGroup
	}
	names, ok := e.subscriptions()
	if !ok {
		return func(ids.TopicID) bool { return true }, nil
	}
	img := s.c.opts.Image()
	return func(id ids.TopicID) bool {
		t := img.TopicByID(id)
		if t == nil {
			return false
		}
		return names[s.c.topicName(t)]
	}, nil
}
