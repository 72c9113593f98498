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
// A client over its consumer_byte_rate gets an answer without records, at once, with the time that it is over the quota, and its
// connection is held for that time. An answer with records is drawn from the quota after it was read.
//
// Different from Kafka: followers do not fetch here, so a replica id gets 29. max_bytes of 0 or less means no limit of the client's.

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
	throttle      time.Duration // the client is over its quota: nothing is read
	quota         *fetchQuota   // nil: the tenant has no client quotas
	lease         lease         // of srv.requests, for the partitions

	parts  []fetchPart
	names  []byte
	chunks []broker.Chunk

	mu       sync.Mutex
	answered bool          // guarded by mu: somebody has taken it on to answer
	parked   bool          // guarded by mu: it waited
	short    bool          // guarded by mu: there was enough to say, but no memory to say it in
	look     bool          // guarded by mu: something came that was not looked at yet
	looked   time.Duration // guarded by mu: what the last look took
	began    time.Time
	due      time.Time // when it is answered in any case
	timer    *time.Timer
	charge   int64 // taken from srv.answers

	usedAhead bool // the answer has records that were read ahead
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
	next                 ids.Offset // behind the last record, if there are bytes
}

var fetches = sync.Pool{New: func() any { return new(fetch) }}

func handleFetch(c *call) {
	f := fetches.Get().(*fetch)
	f.refs.Store(1)
	f.srv, f.conn, f.slot, f.api, f.version, f.correlation = c.srv, c.conn, c.slot, c.api, c.version, c.correlation
	f.view = c.view()
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
	if f.view.Quotas(c.caller().Tenant) != nil {
		f.quota = &fetchQuota{caller: *c.caller(), client: string(c.client)}
		if f.throttle = f.quota.draw(f.srv, 0); f.throttle > 0 {
			c.throttle(f.throttle)
			f.due = f.began
		}
	}
	if f.start() {
		f.retain()
		f.answer()
		f.readAhead()
		f.release()
	}
}

// openSession applies the request's session id and epoch. Afterwards parts are all partitions to be fetched.
func (f *fetch) openSession(caller *Caller, req *fetchRequest) {
	owner := sessionOwner{caller.Tenant, caller.Incarnation, caller.Principal}
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
	if !s.mayGainLocked(f.parts) {
		s.mu.Unlock()
		f.srv.sessions.drop(owner, req.session)
		return errSessionUnknown
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
	if gained != 0 && !f.srv.sessions.grew(s, gained) {
		return errSessionUnknown
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
	f.conn.complete(f.slot, r) // first: until then the slot names f to whoever closes the connection
	f.release()
}

// maxMisses is how many partitions are read in vain at the end of an answer. Each costs a read of a file.
const maxMisses = 4

// read collects the records within the limits: whole batches, the first of them whatever its size. It returns their bytes.
func (f *fetch) read() int {
	left := int(f.charge)
	total, misses := 0, 0
	if f.quota != nil && f.throttle == 0 {
		f.throttle = f.quota.draw(f.srv, 0) // others of the client may have gone over the quota while this one waited
	}
	if f.throttle > 0 {
		left = 0
	}
	ahead := f.conn.takeAhead()
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
		if got := ahead.find(p.shard, p.offset); got != nil && got.bytes <= min(left, p.maxBytes) && p.offset >= p.bounds.Start {
			f.chunks, n = ahead.take(got, min(left, p.maxBytes), f.chunks)
			p.endChunk, p.bytes, f.usedAhead = len(f.chunks), n, true
			left -= n
			total += n
			continue
		}
		f.chunks, n, p.err = p.shard.Read(p.offset, min(left, max(p.maxBytes, 0)), total == 0, f.chunks)
		if p.err != nil {
			for j := p.firstChunk; j < len(f.chunks); j++ {
				f.chunks[j].Ref.Release()
			}
			f.chunks = f.chunks[:p.firstChunk]
			continue
		}
		if n == 0 && left < p.maxBytes {
			if misses++; misses == maxMisses {
				left = 0 // there is too little room for the batches that come, so those who follow have their turn next time
			}
		}
		p.endChunk, p.bytes = len(f.chunks), n
		// The mark may have moved on between the two: an answer's records are below the mark it tells.
		p.bounds = p.shard.Bounds()
		left -= n
		total += n
	}
	if ahead != nil {
		ahead.release()
		f.charge += ahead.charge
		f.srv.metrics.ahead(f.usedAhead)
	}
	f.settle(total)
	if f.quota != nil && total > 0 {
		f.quota.draw(f.srv, total) // the next fetch is held for it
	}
	return total
}

// fetchQuota is whose quota a fetch draws from. It outlives the request's buffer and the login that the connection had.
type fetchQuota struct {
	caller Caller
	client string
}

func (q *fetchQuota) draw(s *Server, bytes int) time.Duration {
	return s.node.DrawClientQuota(&q.caller, q.client, cluster.ConsumerByteRate, bytes)
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
		for i := range f.parts {
			p := &f.parts[i]
			for _, chunk := range f.chunks[p.firstChunk:p.endChunk] {
				var n int
				n, p.next = surveyBatches(chunk.Data)
				records += n
			}
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
	f.sessionID, f.answered, f.parked, f.short, f.look, f.looked = 0, false, false, false, false, 0
	f.usedAhead, f.throttle, f.quota = false, 0, nil
	fetches.Put(f)
}
