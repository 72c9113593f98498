package kafkaproto

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// Fetch, versions 4 to 18.
//
//	4       isolation level, last stable offset, aborted transactions
//	5       log start offset
//	7       sessions, top-level error
//	9       current leader epoch in the request
//	11      rack id; a preferred read replica is never named
//	12      flexible; last fetched epoch, diverging epoch
//	13      topic ids
//	15      replica id in a tagged field
//	16      CurrentLeader and NodeEndpoints when a partition was asked of the wrong broker
//	17, 18  fields for followers
//
// Rules: Kafka request rules 4.3 and 4.4. A fetch that has not enough to answer registers with its partitions and is woken by
// whoever moves a high watermark; that goroutine reads, encodes and writes the answer. Waiting costs no goroutine; only the time
// limit has a timer. Batches are sent as they are stored, whole ones only.
//
// Different from Kafka: followers do not fetch here, so a replica id gets 29. max_bytes of 0 or less means no limit of the client's.

// leastShare is what an answer takes of the memory for answers, if it has as much to send; with less to be had it waits.
const leastShare = 1 << 20

// retryTime is how soon a fetch that found no memory for its answer looks again.
const retryTime = 10 * time.Millisecond

// fetch is one request from decoding to answer. It is pooled: whoever may still call it holds a reference.
type fetch struct {
	refs atomic.Int32

	srv           *Server
	conn          *conn
	slot          *slot
	api           *api
	version       int16
	correlation   int32
	view          *cluster.Image
	minBytes      int
	maxBytes      int
	readCommitted bool
	full          bool // the answer tells of every partition
	session       *fetchSession
	sessionID     int32
	topError      error
	lease         lease // of srv.requests, for the partitions

	parts  []fetchPart
	names  []byte
	chunks []broker.Chunk

	mu       sync.Mutex
	answered bool // guarded by mu: somebody has taken it on to answer
	parked   bool // guarded by mu: it waited
	short    bool // guarded by mu: there was enough to say, but no memory to say it in
	began    time.Time
	due      time.Time // when it is answered in any case
	timer    *time.Timer
	charge   int64 // taken from srv.answers
}

// fetchPart is one partition of a fetch.
type fetchPart struct {
	name      string // of the topic, up to version 12; else the id
	id        ids.TopicID
	index     int32
	offset    ids.Offset
	maxBytes  int
	epoch     ids.LeaderEpoch
	lastEpoch ids.LeaderEpoch
	session   *sessionPart

	shard   shard
	err     error // guarded by fetch.mu while it waits
	waiting bool  // guarded by fetch.mu
	waiter  broker.Waiter

	// The answer.
	bounds               broker.Bounds
	diverges, leftOut    bool
	divergeEpoch         ids.LeaderEpoch
	divergeEnd           ids.Offset
	firstChunk, endChunk int
	bytes                int
}

var fetches = sync.Pool{New: func() any { return new(fetch) }}

func handleFetch(c *call) {
	f := fetches.Get().(*fetch)
	f.refs.Store(1)
	f.srv, f.conn, f.slot, f.api, f.version, f.correlation = c.srv, c.conn, c.slot, c.api, c.version, c.correlation
	f.view = c.srv.node.Image()
	req, ok := f.decode(c.body)
	if !ok {
		f.release()
		c.malformed()
		return
	}
	f.minBytes, f.maxBytes = req.minBytes, c.srv.opts.FetchMaxBytes
	if req.maxBytes > 0 {
		f.maxBytes = min(f.maxBytes, req.maxBytes)
	}
	f.readCommitted = req.readCommitted
	f.openSession(c.caller(), &req)
	if f.topError == nil {
		f.prepare(c.caller(), req.replica)
	}
	f.began = time.Now()
	f.due = f.began.Add(min(req.maxWait, c.srv.opts.FetchMaxWait))
	if f.start() {
		f.answer()
	}
}

// openSession applies the request's session id and epoch. Afterwards parts are all partitions to be fetched.
func (f *fetch) openSession(caller *Caller, req *fetchRequest) {
	owner := sessionOwner{caller.Tenant, caller.Principal}
	sessions := f.srv.sessions
	f.full = true
	switch req.epoch {
	case finalSessionEpoch:
		if req.session != 0 {
			sessions.drop(owner, req.session)
		}
	case 0:
		if req.session != 0 {
			sessions.drop(owner, req.session)
		}
		made, evicted := sessions.create(owner, f.version >= 13, f.parts)
		if evicted {
			f.srv.metrics.sessionsLost.Inc()
		}
		if made != nil {
			f.srv.metrics.sessionsMade.Inc()
			f.session, f.sessionID = made, made.id
		}
	default:
		f.full = false
		if f.topError = f.resume(owner, req); f.topError != nil {
			f.dropParts()
		}
	}
}

// resume makes an incremental request a whole one.
func (f *fetch) resume(owner sessionOwner, req *fetchRequest) error {
	s, err := f.srv.sessions.find(owner, req.session)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if err := s.advanceLocked(req.epoch, f.version >= 13); err != nil {
		s.mu.Unlock()
		return err
	}
	gained := 0
	if len(f.parts) > 0 || len(req.forgotten) > 0 {
		gained = s.updateLocked(f.parts, req.forgotten)
	}
	f.dropParts()
	room := f.reserve(len(s.parts))
	if room {
		s.loadLocked(f)
	}
	s.mu.Unlock()
	if gained != 0 {
		f.srv.sessions.grew(s, gained)
	}
	if !room {
		return ErrServerClosed
	}
	f.session, f.sessionID = s, s.id
	return nil
}

// prepare checks each partition, in the order that the rules give.
func (f *fetch) prepare(caller *Caller, replica int32) {
	var topic *cluster.Topic
	var err error
	for i := range f.parts {
		p := &f.parts[i]
		if i == 0 || p.id != f.parts[i-1].id || p.name != f.parts[i-1].name {
			topic, err = f.resolve(caller, p)
			if replica >= 0 {
				err = errForbidden
			}
		}
		if p.err = err; err == nil {
			p.err = f.open(p, topic)
		}
	}
}

// resolve finds a partition's topic and checks the right to read it.
func (f *fetch) resolve(caller *Caller, p *fetchPart) (*cluster.Topic, error) {
	if f.version >= 13 {
		topic := f.view.TopicByID(p.id)
		switch {
		case !visible(topic) || topic.Tenant != caller.Tenant:
			return nil, errNoTopicID
		case !caller.Allowed(broker.StreamSubscribe, topic.Namespace, topic.Name):
			return nil, errForbidden
		default:
			return topic, nil
		}
	}
	namespace, stream, err := f.srv.names.split(p.name)
	if err != nil {
		return nil, errNoTopic
	}
	if !caller.Allowed(broker.StreamSubscribe, namespace, stream) {
		return nil, errForbidden
	}
	if topic := f.view.Topic(caller.Tenant, namespace, stream); visible(topic) {
		return topic, nil
	}
	return nil, errNoTopic
}

// open finds the partition's shard and checks the leader epoch, the offset, and that the client's log agrees with ours.
func (f *fetch) open(p *fetchPart, topic *cluster.Topic) error {
	sh, err := f.srv.node.Shard(topic, p.index)
	if err != nil {
		return err
	}
	if err := sh.CheckEpoch(p.epoch); err != nil {
		return err
	}
	p.shard = sh
	p.bounds = sh.Bounds()
	if p.lastEpoch != ids.NoEpoch {
		epoch, end := sh.EndOfEpoch(p.lastEpoch)
		if epoch == ids.NoEpoch || end == ids.NoOffset {
			return outOfRange(p)
		}
		if epoch < p.lastEpoch || end < p.offset {
			p.diverges, p.divergeEpoch, p.divergeEnd = true, epoch, end
			return nil
		}
	}
	if p.offset < p.bounds.Start || p.offset > p.bounds.End {
		return outOfRange(p)
	}
	return nil
}

func outOfRange(p *fetchPart) error {
	return &errcode.RangeError{Requested: int64(p.offset), Start: int64(p.bounds.Start), End: int64(p.bounds.End)}
}

// start answers at once (true) or sets the fetch waiting. The slot learns of f before anybody could complete it, and the lock is
// held until all partitions are registered.
func (f *fetch) start() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claimLocked(!time.Now().Before(f.due)) {
		return true
	}
	f.parked = true
	f.conn.park(f.slot, f)
	if f.conn.ending.Load() {
		return f.claimLocked(true)
	}
	for i := range f.parts {
		if f.watchLocked(&f.parts[i]) {
			return true
		}
	}
	f.armTimerLocked()
	return false
}

// claimLocked takes the answer on if there is enough to say, or in any case when final. Memory for the records is taken first: with
// none to be had a fetch is not ready, and a final one is answered without records.
func (f *fetch) claimLocked(final bool) bool {
	if f.answered {
		return false
	}
	available, most, ready := 0, 0, final || f.topError != nil || len(f.parts) == 0
	for i := range f.parts {
		p := &f.parts[i]
		switch {
		case p.err != nil || p.diverges:
			ready = true
		case available < f.maxBytes:
			available += p.available()
			most += max(p.maxBytes, 1)
		}
	}
	available = min(available, f.maxBytes)
	// A client may ask for more bytes than it allows to be sent: then what may be sent is enough.
	if !ready && available < min(f.minBytes, f.maxBytes, most) {
		return false
	}
	f.short = false
	if available > 0 {
		f.charge = f.srv.answers.takeUpTo(int64(available), leastShare)
		if f.charge == 0 && !final {
			f.short = true
			return false
		}
	}
	f.answered = true
	return true
}

// available is how many bytes p could send now, at least 1 if anything: the log's figure may be rough.
func (p *fetchPart) available() int {
	if n := p.shard.Available(p.offset, max(p.maxBytes, 1)); n > 0 {
		return n
	}
	if p.offset < p.shard.Bounds().HighWatermark {
		return 1
	}
	return 0
}

// watchLocked makes p's shard wake the fetch at the next record that p could return. It reports true if there was enough to answer
// by then, which the caller has to do.
func (f *fetch) watchLocked(p *fetchPart) bool {
	for f.registerLocked(p) {
		if f.claimLocked(false) {
			f.cancelWaitsLocked()
			return true
		}
	}
	return false
}

// registerLocked registers p's waiter. It reports true when there is something to look at: records may have been committed since
// the last look, or the shard is not led here any more.
func (f *fetch) registerLocked(p *fetchPart) (look bool) {
	if p.err != nil || p.diverges || p.waiting {
		return false
	}
	before := p.bounds.HighWatermark
	p.bounds = p.shard.Bounds()
	p.waiter.Until = max(p.bounds.HighWatermark, p.offset) + 1
	f.refs.Add(1)
	waiting, err := p.shard.Wait(&p.waiter)
	if waiting {
		p.waiting = true
		return p.bounds.HighWatermark > before
	}
	f.refs.Add(-1)
	p.err = err
	return true
}

// armTimerLocked sets the timer for the time limit, or for the next look for memory if that comes first.
func (f *fetch) armTimerLocked() {
	d := time.Until(f.due)
	if f.short {
		d = min(d, retryTime)
	}
	if f.timer != nil && f.timer.Stop() {
		f.refs.Add(-1)
	}
	f.refs.Add(1)
	if f.timer == nil {
		f.timer = time.AfterFunc(d, f.expire)
	} else {
		f.timer.Reset(d)
	}
}

// woken is the Notify of partition i's waiter: its high watermark passed Until, or never will for err.
func (f *fetch) woken(i int, err error) {
	f.mu.Lock()
	p := &f.parts[i]
	mine := false
	if p.waiting {
		p.waiting = false
		p.err = err
		if mine = f.claimLocked(false); mine {
			f.cancelWaitsLocked()
		} else if mine = f.watchLocked(p); !mine && f.short && !f.answered {
			f.armTimerLocked()
		}
	}
	f.mu.Unlock()
	if mine {
		f.srv.wakes.answer(f)
	}
	f.release()
}

// expire is called at the time limit, and before it when memory for the answer was short.
func (f *fetch) expire() {
	f.mu.Lock()
	mine := f.claimLocked(!time.Now().Before(f.due))
	switch {
	case mine:
		f.cancelWaitsLocked()
	case !f.answered:
		f.armTimerLocked()
	}
	f.mu.Unlock()
	if mine {
		f.answer()
	}
	f.release()
}

// cancelWaitsLocked ends all registrations and the timer.
func (f *fetch) cancelWaitsLocked() {
	for i := range f.parts {
		p := &f.parts[i]
		if !p.waiting {
			continue
		}
		p.waiting = false
		if p.shard.CancelWait(&p.waiter) {
			f.refs.Add(-1)
		}
	}
	if f.timer != nil && f.timer.Stop() {
		f.refs.Add(-1)
	}
}

func (f *fetch) retain() { f.refs.Add(1) }

// hurry answers with what there is.
func (f *fetch) hurry() {
	f.mu.Lock()
	mine := f.claimLocked(true)
	if mine {
		f.cancelWaitsLocked()
	}
	f.mu.Unlock()
	if mine {
		f.answer()
	}
}

// abandon ends the waiting: nobody reads the answer.
func (f *fetch) abandon() {
	f.mu.Lock()
	mine := !f.answered
	if mine {
		f.answered = true
		f.cancelWaitsLocked()
	}
	conn, slot := f.conn, f.slot
	f.mu.Unlock()
	if mine {
		conn.complete(slot, nil)
		f.release()
	}
}

// answer reads, encodes and sends. Whoever claimed the fetch calls it; it gives up the reference that the handler took.
func (f *fetch) answer() {
	read := f.read()
	if f.session != nil {
		f.session.tell(f.parts, f.full)
	}
	f.observe(read)
	r := newResponse()
	r.begin(f.correlation, f.api, f.version)
	f.encode(r)
	r.charge, f.charge = f.charge, 0
	conn, slot := f.conn, f.slot
	f.release()
	conn.complete(slot, r)
}

// read collects the records within the limits: whole batches, the first of them whatever its size. It returns their bytes.
func (f *fetch) read() int {
	left := int(f.charge)
	total := 0
	for i := range f.parts {
		p := &f.parts[i]
		p.firstChunk, p.endChunk = len(f.chunks), len(f.chunks)
		if p.err != nil || p.shard == nil {
			continue
		}
		p.bounds = p.shard.Bounds()
		if p.diverges || left <= 0 || p.offset >= p.bounds.HighWatermark {
			continue
		}
		var n int
		f.chunks, n, p.err = p.shard.Read(p.offset, min(left, max(p.maxBytes, 0)), total == 0, f.chunks)
		if p.err != nil {
			for j := p.firstChunk; j < len(f.chunks); j++ {
				f.chunks[j].Ref.Release()
			}
			f.chunks = f.chunks[:p.firstChunk]
			continue
		}
		p.endChunk, p.bytes = len(f.chunks), n
		// The mark may have moved on between the two: an answer's records are below the mark it tells.
		p.bounds = p.shard.Bounds()
		left -= n
		total += n
	}
	f.settle(total)
	return total
}

// settle makes the charge what the answer really holds. A first batch larger than what was taken goes over the budget by that
// much, which is bounded by the size of a batch.
func (f *fetch) settle(total int) {
	switch extra := int64(total) - f.charge; {
	case extra < 0:
		f.srv.answers.put(-extra)
	case extra > 0:
		f.srv.answers.force(extra)
	}
	f.charge = int64(total)
}

func (f *fetch) observe(read int) {
	m := f.srv.metrics
	failure := errcode.Of(f.topError)
	for i := range f.parts {
		if failure == errcode.OK && f.parts[i].err != nil {
			failure = errcode.Of(f.parts[i].err)
		}
	}
	m.request(f.api, failure)
	if read > 0 {
		records := 0
		for i := range f.chunks {
			records += countRecords(f.chunks[i].Data)
		}
		m.fetchRecords.Add(float64(records))
		m.fetchBytes.Add(float64(read))
	}
	if f.parked {
		m.fetchWait.Observe(time.Since(f.began).Seconds())
		if read > 0 {
			m.fetchData.Inc()
		} else {
			m.fetchTimeout.Inc()
		}
	}
}

// dropParts empties parts, keeping their waiters' closures.
func (f *fetch) dropParts() {
	for i := range f.parts {
		p := &f.parts[i]
		notify := p.waiter.Notify
		*p = fetchPart{}
		p.waiter.Notify = notify
	}
	f.parts = f.parts[:0]
}

// release gives up a reference; the last one makes f ready for another request.
func (f *fetch) release() {
	if f.refs.Add(-1) > 0 {
		return
	}
	f.srv.requests.free(&f.lease)
	f.dropParts()
	clear(f.chunks)
	f.chunks, f.names = f.chunks[:0], f.names[:0]
	if cap(f.parts) > keptFetchParts || cap(f.chunks) > keptChunks {
		return
	}
	f.srv, f.conn, f.slot, f.view, f.session, f.topError = nil, nil, nil, nil, nil, nil
	f.sessionID, f.answered, f.parked, f.short = 0, false, false, false
	fetches.Put(f)
}

// wakeBurst decides who answers a woken fetch. The goroutine that moved the high watermark does it itself, which saves waking
// another; but when one append wakes many fetches, all but the first few go to goroutines of their own, so that a producer does
// not pay for every consumer.
type wakeBurst struct {
	began time.Time
	last  atomic.Int64 // when the last such answer was done, since began
	run   atomic.Int32 // how many came right after one another
}

const (
	burstGap    = 10 * time.Microsecond
	burstInline = 4
)

func (w *wakeBurst) answer(f *fetch) {
	if int64(time.Since(w.began))-w.last.Load() > int64(burstGap) {
		w.run.Store(0)
	} else if w.run.Add(1) >= burstInline && !f.conn.closed.Load() {
		f.srv.wg.Go(f.answer)
		return
	}
	f.answer()
	w.last.Store(int64(time.Since(w.began)))
}
