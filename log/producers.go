package log

import (
	"math"

	"github.com/felixlog/felix/internal/errcode"
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

// NativeProducer is the bit that the producer ids of native clients have and those of Kafka clients have not. The sequence of a
// native producer counts batches, not records; a batch's header has its low 31 bits.
const NativeProducer int64 = 1 << 62

// IsNativeProducer tells whose rules a producer follows.
func IsNativeProducer(id int64) bool { return id > 0 && id&NativeProducer != 0 }

// NativeSequence is the part of a native producer's sequence that the header of its batch carries.
func NativeSequence(seq uint64) int32 { return int32(seq & math.MaxInt32) }

// sentBatch is one remembered batch of a producer.
type sentBatch struct {
	first, last int32      // sequences; of a native producer the one sequence, and the last offset delta
	base        ids.Offset // offset of the first record
	timestamp   int64      // largest timestamp
}

// next is the offset behind the batch.
func (b *sentBatch) next(producer int64) ids.Offset {
	if IsNativeProducer(producer) {
		return b.base + ids.Offset(b.last) + 1
	}
	return b.base + ids.Offset(b.span())
}

// span is the number of offsets of a batch whose sequences count records.
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
	// nextSeq is all of the next sequence of a native producer. 0 is not known: nothing was appended since the state was made from
	// files, which have 31 bits of it.
	nextSeq uint64

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

// checkNative judges a batch of a native producer; seq is all of its sequence. dup is not nil when the sequence is remembered: whether
// the payloads are the same is for the caller to find out. Source: streams rules, section 11.
func (t *producerTable) checkNative(id int64, seq uint64) (dup *sentBatch, err error) {
	p := t.byID[id]
	if p == nil || p.lastSeq < 0 {
		if seq != 0 {
			return nil, &errcode.SequenceError{Reason: errcode.SequenceUnknownProducer}
		}
		return nil, nil
	}
	next := p.nextNative(seq)
	switch {
	case seq == next:
		return nil, nil
	case seq > next:
		return nil, &errcode.SequenceError{Reason: errcode.SequenceGap, Expected: next}
	}
	if next-seq <= math.MaxInt32 { // further back the 31 bits say nothing
		for i := len(p.sent) - 1; i >= 0; i-- {
			if p.sent[i].first == NativeSequence(seq) {
				return &p.sent[i], nil
			}
		}
	}
	return nil, &errcode.SequenceError{Reason: errcode.SequenceExpired}
}

// nextNative is the producer's next sequence. Where only 31 bits of it are known it is the one with these bits that is closest to seq.
func (p *producer) nextNative(seq uint64) uint64 {
	if p.nextSeq != 0 {
		return p.nextSeq
	}
	ahead := (int64(NativeSequence(seq)) - int64(p.lastSeq) - 1) & math.MaxInt32
	if ahead > math.MaxInt32/2 || uint64(ahead) > seq {
		ahead -= math.MaxInt32 + 1
	}
	return seq - uint64(ahead) // ahead may be negative: the sum wraps as it should
}

// appendNative takes note of a native producer's batch that was appended at base.
func (t *producerTable) appendNative(h *recordbatch.Header, seq uint64, base ids.Offset, now int64) {
	t.append(h, base, now)
	t.byID[h.ProducerID].nextSeq = seq + 1
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
	if IsNativeProducer(h.ProducerID) {
		p.lastSeq, p.nextSeq = h.BaseSequence, 0
		p.remember(sentBatch{first: h.BaseSequence, last: h.LastOffsetDelta, base: base, timestamp: h.MaxTimestamp}, t.window)
		return
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

// ProducerTable is the state of the native producers of a shard that has no log. Not safe for concurrent use.
type ProducerTable struct{ t *producerTable }

// NewProducerTable remembers at most producers producers, and of each at most batches batches; 0 chooses the defaults of a log.
func NewProducerTable(producers, batches int) *ProducerTable {
	if producers <= 0 {
		producers = DefaultMaxProducers
	}
	if batches <= 0 {
		batches = DefaultProducerBatches
	}
	return &ProducerTable{t: newProducerTable(producers, batches)}
}

// Check judges a batch by the native rules before it is appended. dup says that its sequence is remembered, and original where the
// batch of that sequence is. Errors: *errcode.SequenceError.
func (p *ProducerTable) Check(h *recordbatch.Header, seq uint64) (original AppendResult, dup bool, err error) {
	b, err := p.t.checkNative(h.ProducerID, seq)
	if b == nil {
		return AppendResult{}, false, err
	}
	return b.result(h.ProducerID), true, nil
}

// Append takes note of a batch that was appended at base. now is in milliseconds.
func (p *ProducerTable) Append(h *recordbatch.Header, seq uint64, base ids.Offset, now int64) {
	p.t.appendNative(h, seq, base, now)
}

// Expire forgets producers that have not written since before, in milliseconds.
func (p *ProducerTable) Expire(before int64) { p.t.expire(before) }

// States returns what is remembered.
func (p *ProducerTable) States() []ProducerState {
	list := make([]ProducerState, 0, p.t.len())
	for e := p.t.oldest; e != nil; e = e.newer {
		list = append(list, e.state())
	}
	return list
}

// result is the answer to a re-send of the batch.
func (b *sentBatch) result(producer int64) AppendResult {
	return AppendResult{Base: b.base, Next: b.next(producer), Duplicate: true, MaxTimestamp: b.timestamp}
}
