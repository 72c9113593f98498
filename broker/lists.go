package broker

import "sync"

// publicationList is a lane's queue or waiting list. A publication is in one at a time. The zero value is empty.
type publicationList struct{ first, last *Publication }

func (l *publicationList) push(p *Publication) {
	p.next, p.prev = nil, l.last
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
}

func (l *publicationList) remove(p *Publication) {
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.next, p.prev = nil, nil
}

// link is a place in one linked list of elements of T.
type link[T any] struct {
	next, prev *T
	in         bool
}

type (
	laneLink   = link[publishLane]
	tenantLink = link[publishTenant]
	turnLink   = link[tenantTurns]
	laneList   = linkedList[publishLane]
	tenantList = linkedList[publishTenant]
	turnList   = linkedList[tenantTurns]
)

// linkedList is a list over one of the links that its elements have.
type linkedList[T any] struct {
	first, last *T
	count       int
	link        func(*T) *link[T]
}

func (l *linkedList[T]) push(e *T) {
	k := l.link(e)
	k.next, k.prev, k.in = nil, l.last, true
	if l.last == nil {
		l.first = e
	} else {
		l.link(l.last).next = e
	}
	l.last = e
	l.count++
}

func (l *linkedList[T]) pushFront(e *T) {
	k := l.link(e)
	k.next, k.prev, k.in = l.first, nil, true
	if l.first == nil {
		l.last = e
	} else {
		l.link(l.first).prev = e
	}
	l.first = e
	l.count++
}

func (l *linkedList[T]) remove(e *T) {
	k := l.link(e)
	if k.prev == nil {
		l.first = k.next
	} else {
		l.link(k.prev).next = k.next
	}
	if k.next == nil {
		l.last = k.prev
	} else {
		l.link(k.next).prev = k.prev
	}
	*k = link[T]{}
	l.count--
}

// acceptedPool holds publications of the broker's own: of those that are answered when they are queued, whose publisher may then use
// its own again.
var acceptedPool = sync.Pool{New: func() any { return new(Publication) }}

// takeAccepted returns a publication that stands for p in the queue, and takes p's batch.
func takeAccepted(p *Publication) *Publication {
	q := acceptedPool.Get().(*Publication)
	*q = Publication{
		Shard: p.Shard, Batch: p.Batch, Records: p.Records, Bytes: p.Bytes, Mode: p.Mode, Expected: p.Expected,
		mode: p.mode, charged: p.charged, accepted: true, cost: p.cost, offset: p.offset,
	}
	return q
}

func putAccepted(q *Publication) {
	*q = Publication{}
	acceptedPool.Put(q)
}
