package kafkaproto

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// Produce, versions 3 to 13 (0 to 2 are advertised and close the connection, see api.advertised).
//
//	3   transactional id; v2 batches only, one per partition
//	5   log start offset in the answer
//	7   zstd
//	8   record_errors and error_message
//	9   flexible
//	10  CurrentLeader and NodeEndpoints when a partition was asked of the wrong broker
//	11, 12  transactions: a client of these versions sends the same bytes
//	13  topic id instead of name
//
// Rules: Kafka request rules 4.2. The request is decoded by hand: the batches are parts of the buffer that the socket was read
// into, and go to the log as they are. A large request is handled while it arrives: see produce_stream.go. acks=all is answered when every partition's high watermark has passed its batch, or at the
// time limit with error 7 for those that have not; meanwhile the connection goes on reading. acks=0 is never answered: a failure
// closes the connection.
//
// Different from Kafka: no transactions, so a transactional id or batch gets 53.

// maxProduceParts bounds the partition entries of one request: each costs more here than its five bytes on the wire.
const maxProduceParts = 20_000

// produce is one request from decoding to answer. It is pooled: whoever may still call it holds a reference.
type produce struct {
	refs atomic.Int32

	srv         *Server
	conn        *conn
	slot        *slot
	api         *api
	version     int16
	correlation int32
	acks        int16
	timeout     time.Duration
	began       time.Time
	view        *cluster.Image
	failure     errcode.Kind
	hold        time.Duration // the longest of what was appended
	throttle    int32         // throttle_time_ms

	topics []produceTopic
	parts  []producePart // of all topics, in order
	names  []byte        // topic names: the request's buffer may be gone when the answer is written

	appended, duplicates, bytes int // records, records of re-sends, and bytes of what was appended

	mu       sync.Mutex
	left     int  // guarded by mu: parts that wait
	answered bool // guarded by mu: somebody has taken it on to complete the slot
	timer    *time.Timer
}

type produceTopic struct {
	name     []byte // in the request's buffer; valid while the handler runs
	nameFrom int    // the same in produce.names
	nameEnd  int
	id       ids.TopicID
	parts    int
}

type producePart struct {
	index   int32
	records []byte // valid while the handler runs
	shard   shard  // nil unless appended
	res     broker.AppendResult
	err     error         // guarded by produce.mu once the part waits
	waiting bool          // guarded by produce.mu
	waiter  broker.Waiter // its Notify calls committed with this part's place
}

var produces = sync.Pool{New: func() any { return new(produce) }}

var (
	errAcks          = errcode.New(errcode.InvalidRequiredAcks, "acks must be -1, 0 or 1")
	errTransactional = errcode.New(errcode.UnauthorizedTransactionalID, "transactions are not served")
	errCommitTimeout = errcode.New(errcode.QuorumTimeout, "written, but not committed in time")
)

func handleProduce(c *call) {
	p := newProduce(c)
	transactional, ok := p.decode(c.body)
	if !ok {
		p.release()
		c.malformed()
		return
	}
	if err := p.refusal(transactional); err != nil {
		p.failAll(err)
	} else {
		p.appendAll(c)
	}
	p.conclude(c)
}

// commitInline is the size up to which a request's records are synced by the goroutine that read it.
const commitInline = 16 << 10

// commit has the appended batches made durable. A producer that sends one small batch and waits for the answer is best served by a
// sync on this goroutine, which spares it two hand-offs and lets others join; one that has more to send keeps being read.
func (p *produce) commit() {
	now := len(p.parts) == 1 && p.bytes <= commitInline && p.acks != 0 && p.conn.owesOnlyOne()
	for i := range p.parts {
		if part := &p.parts[i]; part.shard != nil && part.err == nil {
			part.shard.Commit(now)
		}
	}
}

// newProduce makes the request of a call. The caller holds its reference.
func newProduce(c *call) *produce {
	p := produces.Get().(*produce)
	p.refs.Store(1)
	p.srv, p.conn, p.slot, p.api, p.version, p.correlation = c.srv, c.conn, c.slot, c.api, c.version, c.correlation
	p.view = c.view()
	p.began = time.Now()
	return p
}

// refusal is why nothing of the request is appended, nil if it is.
func (p *produce) refusal(transactional bool) error {
	switch {
	case p.acks < -1 || p.acks > 1:
		return errAcks
	case transactional:
		return errTransactional
	default:
		return nil
	}
}

// conclude answers, or leaves that to whoever commits the last batch.
func (p *produce) conclude(c *call) {
	if c.srv.opts.SyncOnCommit {
		p.commit()
	}
	switch {
	case p.acks == 0:
		failed := p.countFailures()
		p.srv.metrics.request(p.api, p.failure)
		p.release()
		if failed {
			c.conn.ending.Store(true) // the only way to tell
		}
		c.conn.complete(c.slot, nil)
	case p.acks == 1 && !c.srv.opts.SyncOnCommit || !p.wait():
		p.answer()
	}
}

// decode reads the request. It reports whether there is a transactional id, and whether the bytes are a request at all.
func (p *produce) decode(body []byte) (transactional, ok bool) {
	r := wireReader{b: body}
	flexible := p.api.isFlexible(p.version)
	_, transactional = r.str(flexible)
	p.acks = r.int16()
	p.timeout = time.Duration(r.int32()) * time.Millisecond
	for range r.count(flexible, 2) {
		if len(p.topics) >= maxProduceParts {
			return false, false
		}
		t := produceTopic{}
		if p.version >= 13 {
			t.id = r.uuid()
		} else {
			t.name, _ = r.str(flexible)
			t.nameFrom = len(p.names)
			p.names = append(p.names, t.name...)
			t.nameEnd = len(p.names)
		}
		t.parts = max(r.count(flexible, 5), 0)
		if len(p.parts)+t.parts > maxProduceParts {
			return false, false
		}
		for range t.parts {
			part := p.addPart()
			part.index = r.int32()
			part.records, _ = r.bytes(flexible)
			if flexible {
				r.skipTags()
			}
		}
		if flexible {
			r.skipTags()
		}
		p.topics = append(p.topics, t)
		if r.bad {
			return false, false
		}
	}
	if flexible {
		r.skipTags()
	}
	return transactional, !r.bad
}

// addPart extends parts by one whose waiter knows its place.
func (p *produce) addPart() *producePart {
	i := len(p.parts)
	if i < cap(p.parts) {
		p.parts = p.parts[:i+1]
	} else {
		p.parts = append(p.parts, producePart{})
	}
	part := &p.parts[i]
	if part.waiter.Notify == nil {
		part.waiter.Notify = func(err error) { p.committed(i, err) }
	}
	return part
}

func (p *produce) failAll(err error) {
	for i := range p.parts {
		p.parts[i].err = err
	}
}

// appendAll appends each entry on its own: one failing does not touch the others.
func (p *produce) appendAll(c *call) {
	next := 0
	for i := range p.topics {
		t := &p.topics[i]
		topic, err := p.resolve(c.caller(), t)
		for range t.parts {
			part := &p.parts[next]
			next++
			if part.err = err; err == nil {
				p.appendPart(part, topic, broker.AppendInput{Records: part.records, Owner: c.frame})
			}
		}
	}
	p.countAppended(c)
}

// appendPart appends one entry; in says what and who holds it.
func (p *produce) appendPart(part *producePart, topic *cluster.Topic, in broker.AppendInput) {
	sh, err := p.srv.node.Shard(topic, part.index)
	if err != nil {
		part.err = err
		return
	}
	part.shard = sh
	in.ZstdAllowed, in.RequireAll, in.DeferCommit = p.version >= 7, p.acks == -1, true
	part.res, part.err = sh.Append(in)
	switch {
	case part.err != nil:
	case part.res.Duplicate:
		p.duplicates += int(part.res.Records)
	default:
		p.appended += int(part.res.Records)
		p.bytes += len(in.Records)
		p.hold = max(p.hold, part.res.Hold)
	}
}

// countAppended holds the connection of a tenant that is over its budget, or of a client that is over its quota, whatever the acks, and
// counts what was appended.
func (p *produce) countAppended(c *call) {
	if p.bytes > 0 && p.view.Quotas(c.caller().Tenant) != nil {
		p.hold = max(p.hold, p.srv.node.DrawClientQuota(c.caller(), viewString(c.client), cluster.ProducerByteRate, p.bytes))
	}
	p.throttle = c.throttle(p.hold)
	m := p.srv.metrics
	m.produceRecords.Add(float64(p.appended))
	m.produceBytes.Add(float64(p.bytes))
	if p.duplicates > 0 {
		m.produceDuplicates.Add(float64(p.duplicates))
	}
}

// resolve finds the topic and checks the right to write to it, in the order that tells a stranger nothing.
func (p *produce) resolve(caller *Caller, t *produceTopic) (*cluster.Topic, error) {
	if p.version >= 13 {
		topic := p.view.TopicByID(t.id)
		switch {
		case !visible(topic) || topic.Tenant != caller.Tenant:
			return nil, errNoTopicID
		case !caller.Allowed(broker.StreamPublish, topic.Namespace, topic.Name):
			return nil, errForbidden
		default:
			return topic, nil
		}
	}
	namespace, stream, err := p.srv.names.split(viewString(t.name))
	if err != nil {
		return nil, err
	}
	if !caller.Allowed(broker.StreamPublish, namespace, stream) {
		return nil, errForbidden
	}
	topic := p.view.Topic(caller.Tenant, namespace, stream)
	switch {
	case topic != nil && topic.Internal:
		return nil, errInternalTopic
	case !visible(topic):
		return nil, errNoTopic
	default:
		return topic, nil
	}
}

// wait registers for the commit of every appended part. It returns false when there is nothing left to wait for; otherwise the
// answer is somebody else's task. The slot learns of p before anybody could complete it, and the lock is held until all
// parts are registered, so that whoever ends the waiting finds it whole.
func (p *produce) wait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.park(p.slot, p)
	if p.conn.closed.Load() {
		p.answered = true
		return false
	}
	for i := range p.parts {
		part := &p.parts[i]
		if part.shard == nil || part.err != nil {
			continue
		}
		part.waiter.Until = part.res.Next
		p.refs.Add(1)
		waiting, err := part.shard.Wait(&part.waiter)
		if !waiting {
			part.err = err
			p.refs.Add(-1)
			continue
		}
		part.waiting = true
		p.left++
	}
	if p.left == 0 {
		p.answered = true
		return false
	}
	limit := min(p.timeout, p.srv.opts.CommitTimeout)
	if limit <= 0 {
		p.giveUpLocked(errCommitTimeout)
		return false
	}
	p.refs.Add(1)
	if p.timer == nil {
		p.timer = time.AfterFunc(limit, p.expire)
	} else {
		p.timer.Reset(limit)
	}
	return true
}

// committed is the Notify of part i's waiter.
func (p *produce) committed(i int, err error) {
	p.mu.Lock()
	part := &p.parts[i]
	if part.waiting {
		part.waiting = false
		part.err = err
		p.left--
	}
	mine := p.left == 0 && !p.answered
	if mine {
		p.answered = true
		p.stopTimerLocked()
	}
	p.mu.Unlock()
	if mine {
		p.answer()
	}
	p.release()
}

// expire is called when the time limit is over.
func (p *produce) expire() {
	p.mu.Lock()
	mine := !p.answered
	if mine {
		p.giveUpLocked(errCommitTimeout)
	}
	p.mu.Unlock()
	if mine {
		p.answer()
	}
	p.release()
}

// giveUpLocked ends the waiting of all parts with err and takes the answer on.
func (p *produce) giveUpLocked(err error) {
	p.answered = true
	for i := range p.parts {
		part := &p.parts[i]
		if !part.waiting {
			continue
		}
		part.waiting = false
		part.err = err
		p.left--
		if part.shard.CancelWait(&part.waiter) {
			p.refs.Add(-1)
		}
	}
}

func (p *produce) stopTimerLocked() {
	if p.timer != nil && p.timer.Stop() {
		p.refs.Add(-1)
	}
}

func (p *produce) retain() { p.refs.Add(1) }

// hurry does nothing: what was appended is answered when it is committed, or at its time limit.
func (p *produce) hurry() {}

// abandon ends the waiting: nobody reads the answer. What was appended stays.
func (p *produce) abandon() {
	p.mu.Lock()
	mine := !p.answered
	if mine {
		p.giveUpLocked(errCommitTimeout)
		p.stopTimerLocked()
	}
	conn, slot := p.conn, p.slot
	p.mu.Unlock()
	if mine {
		conn.complete(slot, nil)
		p.release()
	}
}

// release gives up a reference; the last one makes p ready for another request.
func (p *produce) release() {
	if p.refs.Add(-1) > 0 {
		return
	}
	for i := range p.parts {
		part := &p.parts[i]
		notify := part.waiter.Notify
		*part = producePart{}
		part.waiter.Notify = notify
	}
	if cap(p.parts) > keptParts {
		return
	}
	clear(p.topics)
	p.topics, p.parts, p.names = p.topics[:0], p.parts[:0], p.names[:0]
	p.srv, p.conn, p.slot, p.view = nil, nil, nil, nil
	p.failure, p.hold, p.throttle, p.left, p.answered = errcode.OK, 0, 0, 0, false
	p.appended, p.duplicates, p.bytes = 0, 0, 0
	produces.Put(p)
}

const keptParts = 256

// countFailures notes the failed parts in the metrics and reports whether there are any.
func (p *produce) countFailures() bool {
	failed := false
	for i := range p.parts {
		if err := p.parts[i].err; err != nil {
			failed = true
			kind := errcode.Of(err)
			p.srv.metrics.produceError(kind, p.parts[i].res.Next > 0)
			if p.failure == errcode.OK {
				p.failure = kind
			}
		}
	}
	return failed
}

// answer encodes the answer, completes the slot and gives up the reference that the handler took. Whoever set answered calls it.
func (p *produce) answer() {
	if !p.countFailures() {
		p.srv.node.Published(time.Since(p.began))
	}
	p.srv.metrics.request(p.api, p.failure)
	r := newResponse()
	r.begin(p.correlation, p.api, p.version)
	r.head = p.encode(r.head)
	p.conn.complete(p.slot, r) // first: until then the slot names p to whoever closes the connection
	p.release()
}

func (p *produce) encode(dst []byte) []byte {
	flexible := p.api.isFlexible(p.version)
	h := hints{view: p.view}
	dst = appendCount(dst, len(p.topics), flexible)
	next := 0
	for i := range p.topics {
		t := &p.topics[i]
		if p.version >= 13 {
			dst = append(dst, t.id[:]...)
		} else {
			dst = appendString(dst, p.names[t.nameFrom:t.nameEnd], flexible)
		}
		dst = appendCount(dst, t.parts, flexible)
		for range t.parts {
			dst = p.encodePart(dst, &p.parts[next], &h, flexible)
			next++
		}
		dst = appendNoTags(dst, flexible)
	}
	dst = appendInt32(dst, p.throttle)
	if p.version >= 10 {
		return appendEndpoints(dst, h.nodes)
	}
	return appendNoTags(dst, flexible)
}

func (p *produce) encodePart(dst []byte, part *producePart, h *hints, flexible bool) []byte {
	dst = appendInt32(dst, part.index)
	base, stamp, start := int64(-1), int64(-1), int64(-1)
	var code int16
	if part.err == nil {
		base, stamp, start = int64(part.res.Base), part.res.AppendTime, int64(part.res.Start)
	} else {
		code = wireCode(errcode.Of(part.err), keyProduce, p.version)
	}
	dst = appendInt16(dst, code)
	dst = appendInt64(dst, base)
	dst = appendInt64(dst, stamp)
	if p.version >= 5 {
		dst = appendInt64(dst, start)
	}
	if p.version >= 8 {
		dst = appendRecordErrors(dst, part.err, flexible)
	}
	if p.version >= 10 {
		if hint := h.find(part.err); hint.leader != ids.NoBroker {
			return hint.appendLeader(append(dst, 1), 0)
		}
	}
	return appendNoTags(dst, flexible)
}

// appendRecordErrors writes record_errors, which names the record that is to blame, and error_message.
func appendRecordErrors(dst []byte, err error, flexible bool) []byte {
	if err == nil {
		dst = appendCount(dst, 0, flexible)
		return appendNull(dst, flexible)
	}
	var record *errcode.RecordError
	if errors.As(err, &record) && record.Index >= 0 {
		dst = appendCount(dst, 1, flexible)
		dst = appendInt32(dst, record.Index)
		dst = appendText(dst, record.Text, flexible)
		dst = appendNoTags(dst, flexible)
	} else {
		dst = appendCount(dst, 0, flexible)
	}
	return appendText(dst, err.Error(), flexible)
}
