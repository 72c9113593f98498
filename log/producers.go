package log

import (
	"math"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

const (
	// DefaultMaxProducers is how many idempotent producers a shard remembers.
	DefaultMaxProducers = 100_000
	// DefaultProducerBatches is how many batches of each are remembered, for re-sends.
	DefaultProducerBatches = 64
)

// ProducerState is what a log remembers of one idempotent producer, as Producers shows it.
type ProducerState struct {
	ID            int64
	Epoch         int16
	LastSequence  int32 // -1 when no batch of the epoch is remembered
	LastTimestamp int64 // milliseconds; the largest of the last batch, -1 when there is none
	LastWrite     int64 // milliseconds; when the last batch was appended here
	// CoordinatorEpoch and TxnStart are -1: there are no transactions yet.
	CoordinatorEpoch int32
	TxnStart         ids.Offset
}

// sentBatch is one remembered batch of a producer.
type sentBatch struct {
	first, last int32      // sequences
	base        ids.Offset // offset of the first record
	timestamp   int64      // largest timestamp
}

// span is the number of offsets of the batch.
func (b *sentBatch) span() int64 {
	if b.last >= b.first {
		return int64(b.last) - int64(b.first) + 1
	}
	return int64(math.MaxInt32) - int64(b.first) + 1 + int64(b.last) + 1 // wrapped past 2^31-1
}

// producer is the state of one producer id. Elements of a list by age, oldest first.
type producer struct {
	id        int64
	lastWrite int64       // milliseconds
	sent      []sentBatch // oldest first, of the present epoch, at most the window
	epoch     int16
	lastSeq   int32 // -1 when no batch of this epoch was seen

	older, newer *producer
}

// producerTable is the producer state of a log. Not safe for concurrent use: the log's lock guards it.
type producerTable struct {
	byID           map[int64]*producer // nil until used: most shards see few producers or none
	oldest, newest *producer
	limit          int // producers
	window         int // batches of each
	evicted        int // by the limit, since the table was made
}

func newProducerTable(limit, window int) *producerTable {
	return &producerTable{limit: limit, window: window}
}

func (t *producerTable) len() int { return len(t.byID) }

// check judges a client's batch before it is appended. dup is not nil when it is a re-send of a remembered one. neverWritten says
// that the log has never held a record. Source: spec/kafka.md 3.5, KIP-360, KAFKA-15591.
func (t *producerTable) check(h *recordbatch.Header, neverWritten bool) (dup *sentBatch, err error) {
	p := t.byID[h.ProducerID]
	switch {
	case p == nil:
		if neverWritten && h.BaseSequence != 0 {
			return nil, ErrOutOfOrderSequence // the first batch may be behind: accepting this one would lose it for good
		}
		return nil, nil
	case h.ProducerEpoch < p.epoch:
		return nil, ErrInvalidProducerEpoch
	case h.ProducerEpoch > p.epoch:
		if h.BaseSequence != 0 {
			return nil, ErrOutOfOrderSequence
		}
		return nil, nil
	}
	last := h.LastSequence()
	for i := len(p.sent) - 1; i >= 0; i-- {
		if p.sent[i].first == h.BaseSequence && p.sent[i].last == last {
			return &p.sent[i], nil
		}
	}
	next := int32(0)
	if p.lastSeq >= 0 {
		next = recordbatch.NextSequence(p.lastSeq, 1)
	}
	if h.BaseSequence != next {
		return nil, ErrOutOfOrderSequence
	}
	return nil, nil
}

// append takes note of a batch that was appended at base. now is in milliseconds.
func (t *producerTable) append(h *recordbatch.Header, base ids.Offset, now int64) {
	p := t.byID[h.ProducerID]
	if p == nil {
		p = t.insert(h.ProducerID, h.ProducerEpoch)
	} else {
		t.unlink(p)
		t.link(p)
	}
	p.lastWrite = now
	if h.ProducerEpoch != p.epoch {
		p.epoch, p.lastSeq, p.sent = h.ProducerEpoch, -1, nil
	}
	if h.BaseSequence < 0 {
		return // a marker carries no sequence
	}
	p.lastSeq = h.LastSequence()
	p.remember(sentBatch{first: h.BaseSequence, last: p.lastSeq, base: base, timestamp: h.MaxTimestamp}, t.window)
}

// remember adds a batch to the window, which is allocated as it is used.
func (p *producer) remember(b sentBatch, window int) {
	if len(p.sent) < window {
		if p.sent == nil {
			p.sent = make([]sentBatch, 0, min(window, 2))
		}
		p.sent = append(p.sent, b)
		return
	}
	copy(p.sent, p.sent[1:])
	p.sent[len(p.sent)-1] = b
}

// insert adds a producer as the newest and evicts the longest idle one if there are too many.
func (t *producerTable) insert(id int64, epoch int16) *producer {
	if t.byID == nil {
		t.byID = make(map[int64]*producer)
	}
	p := &producer{id: id, epoch: epoch, lastSeq: -1}
	t.byID[id] = p
	t.link(p)
	if len(t.byID) > t.limit {
		t.remove(t.oldest)
		t.evicted++
	}
	return p
}

func (t *producerTable) link(p *producer) {
	p.older, p.newer = t.newest, nil
	if t.newest == nil {
		t.oldest = p
	} else {
		t.newest.newer = p
	}
	t.newest = p
}

func (t *producerTable) unlink(p *producer) {
	if p.older == nil {
		t.oldest = p.newer
	} else {
		p.older.newer = p.newer
	}
	if p.newer == nil {
		t.newest = p.older
	} else {
		p.newer.older = p.older
	}
	p.older, p.newer = nil, nil
}

func (t *producerTable) remove(p *producer) {
	t.unlink(p)
	delete(t.byID, p.id)
}

// expire forgets producers that have not written since before (milliseconds) and returns how many.
func (t *producerTable) expire(before int64) int {
	n := 0
	for t.oldest != nil && t.oldest.lastWrite < before {
		t.remove(t.oldest)
		n++
	}
	if len(t.byID) == 0 {
		t.byID = nil
	}
	return n
}

// state returns what Producers shows.
func (p *producer) state() ProducerState {
	s := ProducerState{
		ID: p.id, Epoch: p.epoch, LastSequence: p.lastSeq, LastTimestamp: -1, LastWrite: p.lastWrite,
		CoordinatorEpoch: -1, TxnStart: ids.NoOffset,
	}
	if n := len(p.sent); n > 0 {
		s.LastTimestamp = p.sent[n-1].timestamp
	}
	return s
}
