package groups

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

const (
	// maxDecodedBatch bounds what a batch may decode to. This package writes uncompressed ones.
	maxDecodedBatch = 1 << 30
	// firstRetry and lastRetry are the pauses between tries to load a shard, doubled each time.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

func retryPause(failures int) time.Duration {
	return min(firstRetry<<min(failures-1, 10), lastRetry)
}

// startLoadLocked begins a load of the shard for its present term.
func (s *shard) startLoadLocked() {
	term := s.term
	s.c.wg.Go(func() { s.load(term) })
}

// load reads the shard's log and serves what it says, unless the term ends meanwhile.
func (s *shard) load(term uint64) {
	ctx := s.c.ctx
	select {
	case s.c.loads <- struct{}{}:
		defer func() { <-s.c.loads }()
	case <-ctx.Done():
		return
	}
	began := s.c.now()
	log, r, err := s.replay(ctx)
	took := s.c.now().Sub(began)

	s.mu.Lock()
	if s.term != term || s.phase != loading {
		s.mu.Unlock()
		return
	}
	if err != nil {
		s.loadFailedLocked(err)
		s.mu.Unlock()
		return
	}
	var out outbox
	s.installLocked(log, r, &out)
	s.mu.Unlock()
	out.send()
	s.c.metrics.loadSeconds.Observe(took.Seconds())
	s.c.logger.Debug("groups loaded", zap.Int32("shard", s.index), zap.Int("groups", len(r.groups)), zap.Int("records", r.records),
		zap.Duration("took", took))
	if r.newer > 0 {
		s.c.logger.Warn("records of groups that a later release wrote are left alone", zap.Int32("shard", s.index), zap.Int("records", r.newer))
	}
	s.pump()
}

// loadFailedLocked has the load tried again later, or never when others lead the shard.
func (s *shard) loadFailedLocked(err error) {
	if k := errcode.Of(err); k == errcode.NotLeader || k == errcode.NoLeader {
		s.phase = notLed
		return
	}
	if s.c.ctx.Err() != nil {
		return
	}
	s.failures++
	pause := retryPause(s.failures)
	s.phase, s.retryAt = failed, s.c.now().Add(pause)
	s.armLocked()
	s.c.metrics.loadFailures.Inc()
	s.c.logger.Error("groups cannot be loaded", zap.Int32("shard", s.index), zap.Duration("tried_again_after", pause), zap.Error(err))
}

// installLocked takes over what was read.
func (s *shard) installLocked(log Shard, r *replay, out *outbox) {
	now := s.c.now()
	s.log, s.phase, s.topics = log, ready, r.topics
	s.groups = make(map[string]*entry, len(r.groups))
	for id, l := range r.groups {
		if l.record == nil && len(l.offsets) == 0 {
			continue // was deleted
		}
		e := &entry{key: l.key, id: id, offsets: l.offsets, recorded: l.record != nil, at: -1}
		if l.record != nil {
			e.g = loadGroup(l.key, l.record, &s.c.limits, now)
		} else {
			e.g = newGroup(l.key, &s.c.limits)
		}
		s.addLocked(e)
		s.settleLocked(e, &effects{})
	}
	s.forgetTenantsLocked(out)
	s.forgetTopicsLocked()
	s.armLocked()
}

// replay reads the log of the shard to its end, and waits until that is committed: what is shown must not be lost again.
func (s *shard) replay(ctx context.Context) (Shard, *replay, error) {
	log, err := s.c.opts.Shard(s.index)
	if err != nil {
		return nil, nil, err
	}
	r := newReplay()
	if err := log.Scan(ctx, r.batch); err != nil {
		return nil, nil, fmt.Errorf("scan: %w", err)
	}
	if err := r.end(); err != nil {
		return nil, nil, err
	}
	committed := make(chan error, 1)
	log.Wait(ids.Offset(r.next), func(err error) { committed <- err })
	log.Commit(false)
	select {
	case err = <-committed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("wait for what was written to be committed: %w", err)
	}
	return log, r, nil
}

// replay is what the records of a shard add up to.
type replay struct {
	groups  map[string]*replayed // by encoded group id
	topics  topicTable
	next    int64 // offset behind the last batch
	records int
	newer   int // records that this release does not know

	last      *replayed // of the last record: offsets of one group often stand together
	lastID    []byte
	lastTopic ids.TopicID
	lastNum   uint32
	scratch   []byte
}

type replayed struct {
	key     Key
	value   []byte // newest group record, nil if there is none
	record  *groupRecord
	offsets map[offsetKey]offset
}

func newReplay() *replay { return &replay{groups: map[string]*replayed{}} }

// batch takes in the next batch of the log.
func (r *replay) batch(b []byte) error {
	h, err := recordbatch.ParseHeader(b)
	if err != nil {
		return err
	}
	r.next = h.NextOffset()
	if h.IsControl() || h.RecordCount == 0 {
		return nil
	}
	records, err := recordbatch.Open(r.scratch, h, b, maxDecodedBatch)
	if err != nil {
		return err
	}
	if h.Codec() != recordbatch.CodecNone {
		r.scratch = records
	}
	it := recordbatch.Records(h, records)
	for it.Next() {
		switch err := r.record(it.Record.Key, it.Record.Value); {
		case errors.Is(err, errNewerRecord):
			r.newer++
		case err != nil:
			return errcode.Newf(errcode.CorruptBatch, "record at offset %d: %w", it.Record.Offset, err)
		}
		r.records++
	}
	return it.Err()
}

// record takes in one record; a nil value removes what the key names.
func (r *replay) record(key, value []byte) error {
	k, err := parseKey(key)
	if err != nil {
		return err
	}
	l, err := r.group(k.groupID)
	if err != nil {
		return err
	}
	if k.kind == kindGroup {
		l.value = nil
		if value != nil {
			l.value = append(l.value, value...)
		}
		return nil
	}
	at := keyOf(r.number(k.topic), k.partition)
	if value == nil {
		if _, ok := l.offsets[at]; ok {
			delete(l.offsets, at)
			r.topics.used(at, -1)
		}
		return nil
	}
	o, err := parseOffsetValue(value)
	if err != nil {
		return err
	}
	n := len(l.offsets)
	if l.offsets == nil {
		l.offsets = map[offsetKey]offset{}
	}
	l.offsets[at] = o
	if len(l.offsets) > n {
		r.topics.used(at, 1)
	}
	return nil
}

// group returns what was read of a group so far.
func (r *replay) group(id []byte) (*replayed, error) {
	if r.last != nil && bytes.Equal(id, r.lastID) {
		return r.last, nil
	}
	l := r.groups[string(id)]
	if l == nil {
		key, err := parseGroupID(id)
		if err != nil {
			return nil, err
		}
		l = &replayed{key: key}
		r.groups[string(id)] = l
	}
	r.last, r.lastID = l, append(r.lastID[:0], id...)
	return l, nil
}

func (r *replay) number(topic ids.TopicID) uint32 {
	if topic != r.lastTopic || r.topics.list == nil {
		r.lastTopic, r.lastNum = topic, r.topics.number(topic)
	}
	return r.lastNum
}

// end reads the records that are left of groups.
func (r *replay) end() error {
	for _, l := range r.groups {
		if l.value == nil {
			continue
		}
		rec, err := parseGroupValue(l.value)
		switch {
		case errors.Is(err, errNewerRecord):
			r.newer++ // the group is not known, and its record is left alone
		case err != nil:
			return errcode.Newf(errcode.CorruptBatch, "group %q of tenant %q: %w", l.key.Group, l.key.Tenant, err)
		}
		l.record, l.value = rec, nil
	}
	return nil
}
