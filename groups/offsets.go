package groups

import (
	"cmp"
	"slices"
	"time"

	"github.com/felixlog/felix/internal/ids"
)

// offset is a committed offset. What most have none of is apart: a shard may hold a million of these.
type offset struct {
	at          int64
	committedAt int64 // ms
	extra       *offsetExtra
	leaderEpoch int32 // -1 unknown
}

// offsetExtra is immutable.
type offsetExtra struct {
	metadata  string
	expiresAt int64 // ms, -1: by the coordinator's retention
}

func (o *offset) metadata() string {
	if o.extra == nil {
		return ""
	}
	return o.extra.metadata
}

func (o *offset) expiresAt() int64 {
	if o.extra == nil {
		return -1
	}
	return o.extra.expiresAt
}

func (o *offset) setExtra(metadata []byte, expiresAt int64) {
	if len(metadata) > 0 || expiresAt >= 0 {
		o.extra = &offsetExtra{metadata: string(metadata), expiresAt: max(expiresAt, -1)}
	}
}

// offsetKey is a partition in a shard's offsets: the topic's number in topicTable, and the partition. One integer is hashed and compared
// faster than an id.
type offsetKey uint64

func keyOf(topic uint32, partition int32) offsetKey {
	return offsetKey(topic)<<32 | offsetKey(uint32(partition))
}

func (k offsetKey) topic() uint32    { return uint32(k >> 32) }
func (k offsetKey) partition() int32 { return int32(uint32(k)) }

// topicTable numbers the topics that a shard has offsets of, and counts the offsets. Numbers are not used again: a topic that is gone
// costs 40 bytes until the next load.
type topicTable struct {
	list   []ids.TopicID
	counts []int // offsets, over all groups
	index  map[ids.TopicID]uint32
}

func (t *topicTable) id(k offsetKey) ids.TopicID { return t.list[k.topic()] }

func (t *topicTable) used(k offsetKey, n int) { t.counts[k.topic()] += n }

func (t *topicTable) drop(offsets map[offsetKey]offset) {
	for k := range offsets {
		t.counts[k.topic()]--
	}
}

// number returns a topic's number, a new one for a new topic.
func (t *topicTable) number(id ids.TopicID) uint32 {
	if n, ok := t.index[id]; ok {
		return n
	}
	if t.index == nil {
		t.index = map[ids.TopicID]uint32{}
	}
	n := uint32(len(t.list))
	t.list, t.counts = append(t.list, id), append(t.counts, 0)
	t.index[id] = n
	return n
}

// noErrors is what most answers for items are cut from. Nobody writes to it.
var noErrors [64]error

func noErrorsOf(n int) []error {
	if n <= len(noErrors) {
		return noErrors[:n:n]
	}
	return make([]error, n)
}

// Commit commits offsets for a member of the group's present generation, or for nobody in particular (no member id, generation -1) while
// the group is empty. done gets an error for all, or one for each offset, nil where it is committed and kept: then it is durable as the
// shard's sync mode has it. The offsets may be read from the moment that done is called.
//
// Errors for all: ErrUnknownMember, ErrIllegalGeneration, ErrFencedInstance, ErrRebalanceInProgress, ErrInvalidGroupID, ErrTooManyGroups,
// ErrTooLarge; ErrNotAvailable also when it is not known whether the offsets were committed. For one: ErrOffsetMetadataTooLarge.
func (c *Coordinator) Commit(r *CommitRequest, done func(err error, each []error)) {
	s := c.shardFor(r.Key)
	s.mu.Lock()
	waits, err, each := s.commitLocked(r, done)
	s.mu.Unlock()
	if !waits {
		c.metrics.commitDone(err)
		done(err, each)
		return
	}
	s.pump()
}

// commitLocked queues a commit. Unless it waits, the answer is given at once.
func (s *shard) commitLocked(r *CommitRequest, done func(error, []error)) (waits bool, err error, each []error) { //nolint:revive,staticcheck // the error is one of two results of the same call
	if err := s.usableLocked(); err != nil {
		return false, err, nil
	}
	if s.queued > maxQueuedBytes {
		return false, ErrNotAvailable, nil
	}
	e, err := s.committerLocked(r)
	if err != nil {
		return false, err, nil
	}
	now := s.c.now()
	each = noErrorsOf(len(r.Offsets))
	size, own := 0, false
	for i := range r.Offsets {
		o := &r.Offsets[i]
		if len(o.Metadata) > s.c.opts.OffsetMetadataMax {
			if !own {
				each, own = make([]error, len(r.Offsets)), true
			}
			each[i] = ErrOffsetMetadataTooLarge
			continue
		}
		size += offsetRecordBytes + len(r.Tenant) + len(r.Group) + len(o.Metadata)
	}
	if size == 0 {
		s.settleLocked(e, &effects{}) // a group that was made for this
		return false, nil, each
	}
	b := s.batchLocked(size)
	for i := range r.Offsets {
		if each[i] == nil {
			s.queueCommitLocked(b, now, e, r, &r.Offsets[i])
		}
	}
	b.answers = append(b.answers, answer{items: done, each: each, commit: true})
	return true, nil, each
}

// offsetRecordBytes is about what a record of an offset takes beside names and metadata.
const offsetRecordBytes = 64

// committerLocked returns the group to commit for, after asking its machine whether the commit may be.
func (s *shard) committerLocked(r *CommitRequest) (*entry, error) {
	if r.Generation >= 0 || r.MemberID != "" {
		e := s.findLocked(r.Key)
		if e == nil {
			return nil, ErrIllegalGeneration
		}
		return e, e.g.checkCommit(s.c.now(), r.MemberID, r.InstanceID, r.Generation)
	}
	e, err := s.makeLocked(r.Key)
	if err != nil {
		return nil, err
	}
	return e, e.g.checkCommit(s.c.now(), r.MemberID, r.InstanceID, r.Generation)
}

func (s *shard) queueCommitLocked(b *batch, now time.Time, e *entry, r *CommitRequest, o *OffsetCommit) {
	ms := now.UnixMilli()
	to := offset{at: o.Offset, committedAt: ms, leaderEpoch: o.LeaderEpoch}
	switch {
	case r.RetentionMs >= 0:
		to.extra = &offsetExtra{metadata: o.Metadata, expiresAt: ms + min(r.RetentionMs, maxRetentionMs)}
	case o.Metadata != "":
		to.extra = &offsetExtra{metadata: o.Metadata, expiresAt: -1}
	}
	s.queueChangeLocked(b, now, change{e: e, at: keyOf(s.topics.number(o.Topic), o.Partition), to: to})
}

// maxRetentionMs bounds what a commit may ask for: a century.
const maxRetentionMs = 36525 * 24 * 60 * 60 * 1000

// Offset returns what is committed of one partition; false if nothing is, or the group is not known.
func (c *Coordinator) Offset(k Key, topic ids.TopicID, partition int32) (CommittedOffset, bool, error) {
	s := c.shardFor(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(); err != nil {
		return CommittedOffset{}, false, err
	}
	e := s.findLocked(k)
	if e == nil {
		return CommittedOffset{}, false, nil
	}
	n, ok := s.topics.index[topic]
	if !ok {
		return CommittedOffset{}, false, nil
	}
	o, ok := e.offsets[keyOf(n, partition)]
	if !ok {
		return CommittedOffset{}, false, nil
	}
	return o.public(topic, partition), true, nil
}

func (o *offset) public(topic ids.TopicID, partition int32) CommittedOffset {
	return CommittedOffset{
		Topic: topic, Partition: partition, Offset: o.at, LeaderEpoch: o.leaderEpoch, Metadata: o.metadata(), CommittedAt: o.committedAt,
	}
}

// AllOffsets returns everything that a group has committed, sorted by topic id and partition; nothing if the group is not known.
func (c *Coordinator) AllOffsets(k Key) ([]CommittedOffset, error) {
	s := c.shardFor(k)
	s.mu.Lock()
	if err := s.usableLocked(); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	var out []CommittedOffset
	if e := s.findLocked(k); e != nil {
		out = make([]CommittedOffset, 0, len(e.offsets))
		for at, o := range e.offsets {
			out = append(out, o.public(s.topics.id(at), at.partition()))
		}
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b CommittedOffset) int {
		if d := a.Topic.Compare(b.Topic); d != 0 {
			return d
		}
		return cmp.Compare(a.Partition, b.Partition)
	})
	return out, nil
}

// DeleteOffsets forgets committed offsets; one that is not there is success. done gets an error for all, or one for each.
//
// Errors for all: ErrGroupNotFound; ErrNonEmptyGroup while the group has members of another kind than consumers; those of writing. For
// one: ErrSubscribedToTopic while a member is subscribed to its topic, or while it cannot be told what members are subscribed to.
func (c *Coordinator) DeleteOffsets(k Key, list []TopicPartition, done func(err error, each []error)) {
	s := c.shardFor(k)
	s.mu.Lock()
	waits, err, each := s.deleteOffsetsLocked(k, list, done)
	s.mu.Unlock()
	if !waits {
		done(err, each)
		return
	}
	s.pump()
}

func (s *shard) deleteOffsetsLocked(k Key, list []TopicPartition, done func(error, []error)) (waits bool, err error, each []error) { //nolint:revive,staticcheck // as commitLocked
	if err := s.usableLocked(); err != nil {
		return false, err, nil
	}
	e := s.findLocked(k)
	if e == nil {
		return false, ErrGroupNotFound, nil
	}
	subscribed, err := s.subscribedLocked(e)
	if err != nil {
		return false, err, nil
	}
	each = make([]error, len(list))
	// Offsets that are still on their way go as well, so every one asked for is removed, known or not.
	now := s.c.now()
	b := s.batchLocked(len(list) * (offsetRecordBytes + len(k.Tenant) + len(k.Group)))
	changes := len(b.changes)
	for i, tp := range list {
		if subscribed(tp.Topic) {
			each[i] = ErrSubscribedToTopic
			continue
		}
		n, ok := s.topics.index[tp.Topic]
		if !ok {
			continue
		}
		at := keyOf(n, tp.Partition)
		if _, ok := e.offsets[at]; ok || e.pending > 0 {
			s.queueChangeLocked(b, now, change{e: e, at: at, gone: true})
		}
	}
	if len(b.changes) == changes {
		s.discardEmptyLocked(b)
		return false, nil, each
	}
	b.answers = append(b.answers, answer{items: done, each: each})
	return true, nil, each
}

// discardEmptyLocked takes back a batch that was made for nothing.
func (s *shard) discardEmptyLocked(b *batch) {
	if n := len(s.queue); n > 0 && s.queue[n-1] == b && b.builder.Count() == 0 {
		s.queue = s.queue[:n-1]
	}
}
