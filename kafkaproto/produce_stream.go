package kafkaproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/log/recordbatch"
)

// A large produce request is handled while it arrives: each partition's batch is read into a buffer of its own and appended before
// the next is read. So a batch is checked and written while its bytes are in the processor's cache, memory is taken for a batch
// and not for the request, and the hot tail keeps exactly what it serves.
//
// What differs from the whole form: a request that turns out malformed, or whose sender goes away in the middle, has appended the
// batches before that point. It gets no answer, so to the producer that is a lost answer, after which it re-sends.

const (
	// streamFrom is the size of a request from which on it is handled so.
	streamFrom = 128 << 10
	// streamHeader bounds what a streamed request may have before its body. Longer client ids take the other way.
	streamHeader = 1 << 10
)

// streams looks ahead at a request of size bytes and reports whether it is to be streamed. Then h is its header, with a
// client id that is valid until the input is read, and the input stands at its body of body bytes.
func (c *conn) streams(size int) (a *api, h header, body int, ok bool) {
	const fixed = 2 + 2 + 4 + 2
	if size < streamFrom || !c.ready || c.sasl.expectsRawToken() || c.expired() || c.in.fill(fixed) != nil {
		return nil, h, 0, false // an error shows again in the next read
	}
	in := &c.in
	r := wireReader{b: in.ahead.b[in.r:in.w]}
	h = r.fixedHeader()
	a = c.srv.apis.find(h.key)
	if h.key != keyProduce || a == nil || !a.serves(h.version) {
		return nil, h, 0, false
	}
	need := fixed + max(int(r.int16()), 0)
	flexible := a.isFlexible(h.version)
	if flexible {
		need++ // an empty tag section
	}
	if need > streamHeader || in.fill(need) != nil {
		return nil, h, 0, false
	}
	if flexible && in.ahead.b[in.r+need-1] != 0 {
		return nil, h, 0, false
	}
	h.client = in.ahead.b[in.r+fixed:][:max(int(int16(binary.BigEndian.Uint16(in.ahead.b[in.r+fixed-2:]))), 0)]
	in.r += need
	return a, h, size - need, true
}

// streamProduce handles a produce request whose header has been read and whose body has size bytes. An error ends the connection.
func (c *conn) streamProduce(a *api, h header, size int) error {
	k := calls.Get().(*call)
	*k = call{srv: c.srv, conn: c, api: a, version: h.version, correlation: h.correlation}
	defer func() {
		*k = call{}
		calls.Put(k)
	}()
	s := bodyStream{c: c, left: size}
	now := time.Now()
	c.in.due = now.Add(requestTime + time.Duration(size/requestRate)*time.Second)
	c.srv.requests.began(&c.in.lease, now, c.cutStalled)
	k.slot = c.newSlot()
	p := newProduce(k)
	if p.view.Quotas(c.caller.Tenant) != nil {
		k.client = bytes.Clone(h.client)
	}
	p.stream(&s, &c.caller)
	s.skip(s.left) // bytes behind the last field are ignored
	c.in.due = time.Time{}
	c.srv.requests.arrived(&c.in.lease)
	c.active = time.Now()
	p.countAppended(k)
	if s.err != nil {
		if c.srv.opts.SyncOnCommit {
			p.commit() // what was appended stays, and readers wait for it
		}
		p.release()
		if errors.Is(s.err, errMalformed) {
			c.srv.metrics.refuse(refusedMalformed)
		}
		k.failure = errcode.InvalidRequest
		k.drop()
		return s.err
	}
	if c.in.holdsRequest() {
		c.cork()
	}
	p.conclude(k)
	return nil
}

// stream decodes the request and appends entry by entry. The stream says whether all went well.
func (p *produce) stream(s *bodyStream, caller *Caller) {
	flexible := p.api.isFlexible(p.version)
	n := s.length(flexible, false)
	s.skip(max(n, 0))
	p.acks = s.int16()
	p.timeout = time.Duration(s.int32()) * time.Millisecond
	refused := p.refusal(n >= 0)
	for range s.count(flexible, 2) {
		if len(p.topics) >= maxProduceParts {
			s.fail(errMalformed)
		}
		if s.err != nil {
			return
		}
		p.streamTopic(s, caller, refused, flexible)
	}
	s.skipTags(flexible)
}

func (p *produce) streamTopic(s *bodyStream, caller *Caller, refused error, flexible bool) {
	p.topics = append(p.topics, produceTopic{})
	t := &p.topics[len(p.topics)-1]
	if p.version >= 13 {
		copy(t.id[:], s.small(len(t.id)))
	} else {
		t.nameFrom = len(p.names)
		p.names = s.appendTo(p.names, max(s.length(flexible, false), 0))
		t.nameEnd = len(p.names)
		t.name = p.names[t.nameFrom:t.nameEnd]
	}
	parts := max(s.count(flexible, 5), 0)
	if s.err != nil || len(p.parts)+parts > maxProduceParts {
		s.fail(errMalformed)
		return
	}
	var topic *cluster.Topic
	err := refused
	if err == nil {
		topic, err = p.resolve(caller, t)
	}
	t.name = nil // names may move
	for range parts {
		part := p.addPart()
		t.parts++
		part.index = s.int32()
		if part.err = err; err != nil {
			s.skip(max(s.length(flexible, true), 0))
		} else {
			p.streamPart(s, part, topic, max(s.length(flexible, true), 0))
		}
		s.skipTags(flexible)
		if s.err != nil {
			return
		}
	}
	s.skipTags(flexible)
}

// streamPart reads one entry's records and appends them.
func (p *produce) streamPart(s *bodyStream, part *producePart, topic *cluster.Topic, n int) {
	var sum recordbatch.Summer
	ref := s.buffer(n, &sum)
	if ref == nil {
		return
	}
	p.appendPart(part, topic, broker.AppendInput{Records: ref.Bytes(), Owner: ref, Summed: true, Sum: sum.Sum()})
	ref.Release()
	p.srv.requests.free(&p.conn.in.lease)
}

// bodyStream takes Kafka's primitives off a request that is still arriving. Like wireReader it is bad for good after the first
// failure: then it reads nothing and every value is zero.
type bodyStream struct {
	c    *conn
	left int // bytes of the request that have not been taken
	err  error
}

func (s *bodyStream) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.left = 0
}

// small returns the next n bytes, at most readAhead; valid until the next call.
func (s *bodyStream) small(n int) []byte {
	if n > s.left || s.err != nil {
		s.fail(errMalformed)
		return nil
	}
	in := &s.c.in
	if err := in.fill(n); err != nil {
		s.fail(err)
		return nil
	}
	b := in.ahead.b[in.r : in.r+n]
	in.r += n
	s.left -= n
	return b
}

func (s *bodyStream) int16() int16 {
	if b := s.small(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (s *bodyStream) int32() int32 {
	if b := s.small(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (s *bodyStream) uvarint() uint32 {
	var b [5]byte
	for i := range b {
		one := s.small(1)
		if one == nil {
			return 0
		}
		if b[i] = one[0]; b[i] < 0x80 {
			r := wireReader{b: b[:i+1]}
			if v := r.uvarint(); !r.bad {
				return v
			}
			break
		}
	}
	s.fail(errMalformed)
	return 0
}

// length reads the length of a string (wide false) or of bytes or an array (wide true), -1 for null.
func (s *bodyStream) length(flexible, wide bool) int {
	n := 0
	switch {
	case flexible:
		n = int(s.uvarint()) - 1
	case wide:
		n = int(s.int32())
	default:
		n = int(s.int16())
	}
	if n < -1 || n > s.left {
		s.fail(errMalformed)
	}
	if s.err != nil {
		return -1
	}
	return n
}

// count reads an array's count, of elements of at least least bytes each.
func (s *bodyStream) count(flexible bool, least int) int {
	n := s.length(flexible, true)
	if n > s.left/least {
		s.fail(errMalformed)
		return 0
	}
	return n
}

func (s *bodyStream) skipTags(flexible bool) {
	if !flexible {
		return
	}
	n := int64(s.uvarint())
	if n > int64(s.left/2) {
		s.fail(errMalformed)
	}
	for i := int64(0); i < n && s.err == nil; i++ {
		s.uvarint()
		s.skip(int(s.uvarint()))
	}
}

// read takes up to len(dst) bytes, at least one.
func (s *bodyStream) read(dst []byte) int {
	in := &s.c.in
	dst = dst[:min(len(dst), s.left)]
	n := 0
	if have := in.w - in.r; have > 0 {
		n = copy(dst, in.ahead.b[in.r:in.w])
		in.r += n
	} else {
		in.dropEmpty()
		var err error
		if n, err = in.fetch(dst); err != nil {
			s.fail(err)
			return 0
		}
	}
	s.left -= n
	return n
}

func (s *bodyStream) skip(n int) {
	if n > s.left {
		s.fail(errMalformed)
	}
	var sink [4 << 10]byte
	for n > 0 && s.err == nil {
		n -= s.read(sink[:min(n, len(sink))])
	}
}

// appendTo appends the next n bytes to dst, which grows as they arrive.
func (s *bodyStream) appendTo(dst []byte, n int) []byte {
	for n > 0 && s.err == nil {
		piece := s.small(min(n, readAhead))
		dst = append(dst, piece...)
		n -= len(piece)
	}
	return dst
}

// buffer reads the next n bytes into a buffer of their own, which the caller releases; nil if that failed. The buffer begins at what
// the connection has shown itself to send, and doubles as bytes arrive. sum is given each piece as it comes.
func (s *bodyStream) buffer(n int, sum *recordbatch.Summer) *buf.Ref {
	c := s.c
	if n > s.left || s.err != nil {
		s.fail(errMalformed)
		return nil
	}
	ref, err := c.takeBuffer(min(n, max(unproven, 4*c.in.proven)))
	if err != nil {
		s.fail(err)
		return nil
	}
	for got := 0; got < n; {
		if got == len(ref.Bytes()) {
			larger, err := c.takeBuffer(min(n, 2*got))
			if err != nil {
				ref.Release()
				s.fail(err)
				return nil
			}
			copy(larger.Bytes(), ref.Bytes())
			ref.Release()
			ref = larger
		}
		m := s.read(ref.Bytes()[got:])
		if s.err != nil {
			ref.Release()
			return nil
		}
		sum.Add(ref.Bytes()[got : got+m])
		got += m
	}
	c.in.proven = max(c.in.proven, n)
	return ref
}
