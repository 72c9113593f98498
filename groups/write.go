package groups

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

const (
	// maxBatchBytes is the size from which on what is queued goes into another batch. The records of one call are never split, so that
	// they are in the log together or not at all.
	maxBatchBytes = 1 << 20
	// maxQueuedBytes bounds what waits behind a write; commits beyond it are refused. Calls wait for their commits, so there are never
	// more than requests in flight.
	maxQueuedBytes = 64 << 20
	// recordOverhead is about what a record costs beside key and value.
	recordOverhead = 24
)

var (
	// ErrTooLarge refuses what does not fit one batch of the log.
	ErrTooLarge = errcode.New(errcode.InvalidCommitOffsetSize, "groups: too large to be stored")
	// ErrTooManyGroups refuses a group beyond Options.MaxGroups.
	ErrTooManyGroups = errcode.New(errcode.GroupMaxSizeReached, "groups: too many groups on this node")

	errCommitTimeout = errors.New("groups: not committed in time")
)

// writer is what a shard has on its way to the log. One batch at a time is being written: what is asked for meanwhile goes into the
// next, so the busier the log, the more calls share an append and a sync. Everything is guarded by the shard's lock.
//
// Whoever finds nobody writing writes (pump), on its own goroutine, until the log makes it wait for a commit; then the log's notification
// goes on, on a goroutine of its own.
type writer struct {
	queue     []*batch // not appended yet, oldest first
	queued    int      // bytes in queue
	flying    *batch   // being appended, or appended and not committed yet
	writing   bool     // somebody writes, or a notification will; belongs to the term
	appending bool     // an Append of the log is under way, of this term or an older one
	spare     []byte   // for the next batch
}

// batch is what one append writes, and what is to be done when it is committed.
type batch struct {
	term     uint64
	builder  *recordbatch.Builder
	bytes    []byte    // the batch, once it is built
	deadline time.Time // of the answers

	changes []change
	answers []answer
	// loses says that something was forgotten ahead of the log (a deleted group): if it is not written, the shard is loaded again.
	loses bool

	notified, left bool  // the log has told the outcome; the writer did not wait for it
	err            error // the outcome
}

// change is one offset to be put or removed once the batch is committed.
type change struct {
	e    *entry
	at   offsetKey
	to   offset
	gone bool
}

// answer is one caller's, or a group's machine, waiting for a batch.
type answer struct {
	each []error // for items

	items  func(err error, each []error)
	plain  func(err error)
	commit bool // items answers a commit, which is counted

	persisted  *entry // the machine that asked for its record
	generation int32
}

// timeout is when the oldest answers are due, zero if none are.
func (w *writer) timeout() time.Time {
	switch {
	case w.flying != nil && len(w.flying.answers) > 0 && w.flying.left:
		return w.flying.deadline
	case w.flying != nil && w.flying.left:
		for _, b := range w.queue {
			if len(b.answers) > 0 {
				return b.deadline
			}
		}
	}
	return time.Time{}
}

// batchLocked returns a batch with room for size bytes of records that belong together.
func (s *shard) batchLocked(size int) *batch {
	if n := len(s.queue); n > 0 {
		if b := s.queue[n-1]; b.builder.Size()+size <= maxBatchBytes {
			return b
		}
	}
	buf := s.spare
	s.spare = nil
	b := &batch{
		term: s.term, deadline: s.c.now().Add(s.c.opts.CommitTimeout),
		builder: recordbatch.NewBuilder(buf[:0], recordbatch.BuilderOptions{}),
	}
	s.queue = append(s.queue, b)
	return b
}

// putLocked adds a record to b, which batchLocked returned; nil as value is a tombstone.
func (s *shard) putLocked(b *batch, now time.Time, key, value []byte) {
	before := b.builder.Size()
	b.builder.Append(now.UnixMilli(), key, value)
	s.queued += b.builder.Size() - before
}

// queueGroupLocked queues the record of a group as it is now.
func (s *shard) queueGroupLocked(e *entry) {
	rec := e.g.record()
	s.key = appendGroupKey(s.key[:0], e.key)
	s.value = appendGroupValue(s.value[:0], rec)
	b := s.batchLocked(len(s.key) + len(s.value) + recordOverhead)
	s.putLocked(b, s.c.now(), s.key, s.value)
	if cap(s.value) > maxBatchBytes {
		s.value = nil // a group of megabytes is rare
	}
	b.answers = append(b.answers, answer{persisted: e, generation: rec.Generation})
	e.recorded = true
	if len(rec.Members) > 0 {
		s.c.metrics.rebalances.Inc()
	}
}

// queueChangeLocked queues one offset of e: a new value, or with gone its removal.
func (s *shard) queueChangeLocked(b *batch, now time.Time, ch change) {
	s.key = appendOffsetKey(s.key[:0], ch.e.key, s.topics.id(ch.at), ch.at.partition())
	var value []byte
	if !ch.gone {
		s.value = appendOffsetValue(s.value[:0], &ch.to)
		value = s.value
	}
	s.putLocked(b, now, s.key, value)
	b.changes = append(b.changes, ch)
	ch.e.pending++
}

// pump writes what is queued, unless somebody does. Called without locks.
func (s *shard) pump() {
	s.mu.Lock()
	if s.writing || s.appending || len(s.queue) == 0 || s.phase != ready && s.phase != draining {
		s.mu.Unlock()
		return
	}
	s.writing = true
	term := s.term
	s.mu.Unlock()
	s.write(term)
}

// write writes batch after batch until there are none, the term ends, or the log has it wait; in the last case the notification
// comes back here.
func (s *shard) write(term uint64) {
	for {
		b, to := s.takeBatch(term)
		if b == nil {
			return
		}
		next, err := b.append(to)
		if s.appended(b) {
			return
		}
		if err == nil {
			to.Wait(next, func(err error) { s.notified(b, err) })
			to.Commit(false)
			if s.leave(b) {
				return
			}
			err = b.err
		}
		if !s.finish(b, err) {
			return
		}
	}
}

// takeBatch takes the oldest batch for writing. Nil: there is none, or the term is over.
func (s *shard) takeBatch(term uint64) (*batch, Shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != term {
		return nil, nil
	}
	if len(s.queue) == 0 {
		s.writing = false
		s.idleLocked()
		s.armLocked()
		return nil, nil
	}
	b := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.queued -= b.builder.Size() - recordbatch.HeaderSize
	s.flying = b
	s.appending = true
	return b, s.log
}

func (b *batch) append(to Shard) (next ids.Offset, err error) {
	if b.bytes, err = b.builder.Build(); err != nil {
		return 0, errcode.Newf(errcode.RecordListTooLarge, "build batch: %w", err)
	}
	_, next, err = to.Append(b.bytes)
	return next, err
}

// appended ends the append of b. It reports that the term ended meanwhile: then what is written is the next load's to find, and that may
// begin.
func (s *shard) appended(b *batch) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appending = false
	if b.term == s.term {
		return false
	}
	if s.loadLater {
		s.loadLater = false
		s.startLoadLocked()
	}
	return true
}

// notified takes the log's word on b. It may run on any goroutine, so the rest is done on one of ours unless the writer is still here.
func (s *shard) notified(b *batch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.notified, b.err = true, err
	if !b.left || b.term != s.term || s.phase == ended {
		return
	}
	s.c.wg.Go(func() {
		if s.finish(b, b.err) {
			s.write(b.term)
		}
	})
}

// leave reports that the outcome of b is still open, so that the notification goes on with the work.
func (s *shard) leave(b *batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.notified {
		return false
	}
	b.left = true
	if b.term == s.term {
		s.armLocked()
	}
	return true
}

// finish does what b was waiting for. It reports whether the term goes on.
func (s *shard) finish(b *batch, err error) bool {
	var out outbox
	s.mu.Lock()
	if b.term != s.term {
		s.mu.Unlock()
		return false // everything of it was answered
	}
	s.flying = nil
	on := true
	switch {
	case err == nil:
		s.failures = 0
		s.applyLocked(b)
		s.answerLocked(b, nil, &out)
	case !b.loses && refused(err):
		// Nothing was written, and nothing held here is ahead of the log but machines, which are told.
		s.unapplyLocked(b)
		s.answerLocked(b, err, &out)
		s.c.metrics.writeFailures.Inc()
	default:
		s.failures++
		s.c.metrics.writeFailures.Inc()
		s.c.logger.Warn("write of groups failed; the shard is loaded again", zap.Int32("shard", s.index), zap.Error(err))
		s.flying = b // its answers are still due
		if s.phase == draining {
			s.forgetLocked(answerFor(err), &out)
			s.phase = ended
			s.idleLocked()
		} else {
			s.dropLocked(answerFor(err), &out)
		}
		on = false
	}
	if on && cap(b.bytes) <= 2*maxBatchBytes {
		s.spare = b.bytes
	}
	s.armLocked()
	s.mu.Unlock()
	out.send()
	return on
}

// refused says that a write failed and left the log as it was.
func refused(err error) bool {
	k := errcode.Of(err)
	return k == errcode.Overloaded || k == errcode.RecordListTooLarge
}

// applyLocked makes the changes of a committed batch.
func (s *shard) applyLocked(b *batch) {
	for i := range b.changes {
		ch := &b.changes[i]
		e := ch.e
		e.pending--
		if e.gone {
			continue
		}
		if ch.gone {
			if _, ok := e.offsets[ch.at]; ok {
				delete(e.offsets, ch.at)
				s.topics.used(ch.at, -1)
			}
			continue
		}
		if e.offsets == nil {
			e.offsets = map[offsetKey]offset{}
		}
		n := len(e.offsets)
		e.offsets[ch.at] = ch.to
		if len(e.offsets) > n {
			s.topics.used(ch.at, 1)
		}
	}
}

func (s *shard) unapplyLocked(b *batch) {
	for i := range b.changes {
		b.changes[i].e.pending--
	}
}

// answerLocked gathers the answers of b.
func (s *shard) answerLocked(b *batch, err error, out *outbox) {
	told := answerFor(err)
	now := s.c.now()
	for i := range b.answers {
		a := &b.answers[i]
		switch {
		case a.persisted != nil:
			if e := a.persisted; !e.gone && s.phase == ready {
				e.g.persisted(now, a.generation, told, &out.fx)
				s.settleLocked(e, &out.fx)
			}
		case a.items != nil:
			if a.commit {
				s.c.metrics.commitDone(told)
			}
			out.calls = append(out.calls, func() { a.items(told, a.each) })
		default:
			out.calls = append(out.calls, func() { a.plain(told) })
		}
	}
	b.answers = nil
}

// timeOutLocked answers those who have waited for a commit too long: what becomes of their writes is not known.
func (s *shard) timeOutLocked(now time.Time, out *outbox) {
	if b := s.flying; b != nil && b.left && !now.Before(b.deadline) {
		s.answerLocked(b, errCommitTimeout, out)
	}
	for _, b := range s.queue {
		if s.flying != nil && s.flying.left && !now.Before(b.deadline) {
			s.answerLocked(b, errCommitTimeout, out)
		}
	}
}

// abandon answers everybody who waits for a write, and forgets it. The machines are told by their own abandon.
func (w *writer) abandon(why error, out *outbox) {
	all := w.queue
	if w.flying != nil {
		all = append([]*batch{w.flying}, all...)
	}
	for _, b := range all {
		for i := range b.answers {
			switch a := &b.answers[i]; {
			case a.items != nil:
				out.calls = append(out.calls, func() { a.items(why, a.each) })
			case a.plain != nil:
				out.calls = append(out.calls, func() { a.plain(why) })
			}
		}
		b.answers, b.changes = nil, nil
	}
	w.queue, w.queued, w.flying, w.writing = nil, 0, nil, false
}
