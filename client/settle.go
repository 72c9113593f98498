package client

import (
	"errors"
	"time"
)

// answered takes the answer to a request. An error ends the stream.
func (l *lane) answered(request uint64, offset int64, refused error) error {
	l.mu.Lock()
	at := -1
	for i, b := range l.queue[:l.sent] {
		if b.request == request && b.state == waiting {
			at = i
			break
		}
	}
	if at < 0 {
		l.mu.Unlock()
		return ErrProtocol // an answer to nothing
	}
	b := l.queue[at]
	if refused == nil {
		b.state, b.ack, b.err = settled, Ack{Shard: l.shard, Offset: offset}, nil
		l.failures.failed, l.probe = 0, false
	} else {
		l.refusedLocked(at, refused)
	}
	reopen := l.settleLocked()
	l.reopen = l.reopen || reopen
	l.tell()
	if reopen {
		return errRewound
	}
	l.signal()
	return nil
}

// refusedLocked decides what becomes of a batch that was refused.
func (l *lane) refusedLocked(at int, err error) {
	b := l.queue[at]
	b.err = err
	var (
		sequence  *SequenceError
		elsewhere *notLeader
		refused   *Error
	)
	classed := !errors.As(err, &refused) || refused.Class > ClassNone && refused.Class <= ClassFatal
	if errors.Is(err, ErrOutcomeUnknown) || !classed {
		b.uncertain = true // an error without a class says nothing about the write
	}
	moved := errors.As(err, &elsewhere) || refused != nil && refused.Class == ClassRedirect
	switch {
	case errors.As(err, &sequence):
		l.misplacedLocked(at, sequence)
	case elsewhere != nil:
		l.hint = elsewhere.addr
		l.repeatLocked(b, &Error{Code: CodeNotLeader, Class: ClassRedirect, Message: elsewhere.Error()})
	case l.p.opts.Guarantee != AtMostOnce && retryable(err, true):
		l.repeatLocked(b, err)
	default:
		if b.named && errors.Is(err, ErrInvalidRequest) {
			// Perhaps the stream was made anew with fewer shards.
			l.p.c.forget(l.p.stream)
			l.p.route.Store(nil)
		}
		l.dropLocked(b, err)
	}
	if moved {
		// The stream leads to a server that does not lead the shard any more: those behind go elsewhere, whatever becomes of this one.
		l.p.c.forget(l.p.stream)
		l.rewind, l.moved = true, true
	}
}

// repeatLocked has a batch sent again, after a while.
func (l *lane) repeatLocked(b *batch, err error) {
	now := time.Now()
	if errors.Is(err, ErrNotFound) {
		if b.unknown.IsZero() {
			b.unknown = now
		}
		if now.Sub(b.unknown) > unknownFor {
			l.dropLocked(b, err)
			return
		}
		l.p.c.forget(l.p.stream)
	}
	if l.p.opts.Guarantee == AtMostOnce || now.Sub(b.since) > l.p.opts.DeliveryTimeout {
		l.dropLocked(b, err)
		return
	}
	b.state, b.err = repeated, err
	if !l.rewind {
		l.hold = now.Add(l.failures.next(err))
	}
	l.rewind, l.probe = true, true
}

// dropLocked gives a batch up. If it may have been applied its number cannot be given to another, so the lane takes a new identity.
func (l *lane) dropLocked(b *batch, err error) {
	b.state, b.err = settled, err
	if b.uncertain && !errors.Is(err, ErrOutcomeUnknown) {
		b.err = &outcomeUnknown{err}
	}
	if !b.numbered {
		return
	}
	l.rewind = true
	if b.uncertain {
		l.renew = true
	} else {
		b.state = dropped
	}
}

// misplacedLocked deals with a batch whose number the server cannot place. Behind a batch that was not applied that is as it must be. Else
// the server has forgotten the lane.
func (l *lane) misplacedLocked(at int, err *SequenceError) {
	b := l.queue[at]
	for _, before := range l.queue[:at] {
		if before.state == repeated || before.state == dropped {
			b.state = repeated
			l.rewind = true
			return
		}
	}
	l.rewind, l.renew = true, true
	l.p.c.forget(l.p.stream) // perhaps it has more shards now
	if b.uncertain || err.Reason == "sequence_reused" || l.producer == 0 {
		b.state, b.err = settled, &SequenceError{Reason: err.Reason, Uncertain: b.uncertain}
		return
	}
	l.repeatLocked(b, err)
}

// settleLocked lets settled batches leave at the head, and begins anew when everything that was on the way is answered. It reports
// whether another stream is needed for that.
func (l *lane) settleLocked() (reopen bool) {
	l.leaveLocked()
	if !l.rewind {
		return false
	}
	for _, b := range l.queue[:l.sent] {
		if b.state == waiting {
			return false
		}
	}
	reopen = l.moved || l.renew
	l.beginLocked()
	return reopen
}

// leaveLocked lets the settled batches at the head leave.
func (l *lane) leaveLocked() {
	n := 0
	for n < l.sent && l.queue[n].state >= settled {
		if l.rewind && l.queue[n].state == dropped {
			break // its number is given to those behind it, when they are all answered
		}
		n++
	}
	l.removeLocked(n)
}

// removeLocked takes the first n batches out of the queue and notes what is to be told.
func (l *lane) removeLocked(n int) {
	if n == 0 {
		return
	}
	for _, b := range l.queue[:n] {
		l.noteLocked(b)
	}
	clear(l.queue[:n])
	l.gone += n
	if l.gone >= len(l.whole)-l.gone {
		// Not more is moved than has left since the last time: a long queue is not moved for each batch that leaves.
		rest := copy(l.whole, l.whole[l.gone:])
		clear(l.whole[rest:])
		l.whole, l.gone = l.whole[:rest], 0
	}
	l.queue = l.whole[l.gone:]
	l.sent -= n
}

// noteLocked notes a batch's outcome for tell.
func (l *lane) noteLocked(b *batch) {
	ack := b.ack
	for _, p := range b.promises {
		l.told = append(l.told, told{p: p, ack: ack, err: b.err})
		if ack.Offset >= 0 {
			ack.Offset++
		}
	}
	l.p.budget.release(b.cost)
	l.recycleLocked(b)
}

// beginLocked gets the queue ready to be sent from its head: numbers that were not used up are given to those behind, and under a new
// identity there are no numbers. So nothing that may have been applied goes on under a new one, wherever in the queue it is: the server
// would not know it again. Batches that are settled stay where they are behind one that is not, so that outcomes come in order.
func (l *lane) beginLocked() {
	shift := uint64(0)
	for i, b := range l.queue {
		if i < l.sent {
			switch b.state {
			case dropped:
				b.state = settled
				shift++
			case repeated:
				b.state = waiting
			case waiting, settled:
			}
		}
		if b.state == waiting && l.renew && b.uncertain {
			b.state, b.err = settled, &outcomeUnknown{b.err}
		}
		switch {
		case b.state == settled:
		case l.renew:
			b.numbered = false
		case b.numbered:
			b.sequence -= shift
		}
	}
	l.sequence -= shift
	if l.renew {
		l.sequence, l.producer = 0, 0
	}
	l.rewind, l.renew, l.moved = false, false, false
	l.sent = len(l.queue)
	l.leaveLocked()
	l.sent = 0
}

// tell gives the lock back and tells what was noted, in order. Only the lane's own goroutines call it, one at a time.
func (l *lane) tell() {
	told := l.told
	l.mu.Unlock()
	if len(told) == 0 {
		return
	}
	for i := range told {
		told[i].p.keep(told[i].ack, told[i].err)
	}
	clear(told)
	l.told = told[:0]
	l.p.budget.answered(len(told))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept += uint64(len(told))
	for len(l.waits) > 0 && l.waits[0].until <= l.kept {
		close(l.waits[0].ch)
		l.waits = l.waits[1:]
	}
}

// wait is somebody's wait until so many outcomes of a lane are told.
type wait struct {
	until uint64
	ch    chan struct{}
}

// pending is closed when all that was taken on up to now is told; nil if it is.
func (l *lane) pending() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == l.taken {
		return nil
	}
	if n := len(l.waits); n > 0 && l.waits[n-1].until == l.taken {
		return l.waits[n-1].ch
	}
	w := wait{until: l.taken, ch: make(chan struct{})}
	l.waits = append(l.waits, w)
	return w.ch
}

// written settles what was sent without asking for answers.
func (l *lane) written() {
	l.mu.Lock()
	for _, b := range l.queue[:l.sent] {
		b.state, b.ack, b.err = settled, Ack{Shard: l.shard, Offset: NoOffset}, nil
	}
	l.leaveLocked()
	l.tell()
}

// lost deals with what was on the way when the stream was lost. Both goroutines of the stream have ended.
func (l *lane) lost(err error) {
	now := time.Now()
	l.mu.Lock()
	certain := false // behind a batch that was not applied none was
	for _, b := range l.queue[:l.sent] {
		switch {
		case b.state == repeated || b.state == dropped:
			certain = certain || b.numbered && !b.uncertain
			continue
		case b.state != waiting:
			continue
		}
		b.uncertain = b.uncertain || !certain
		b.err = err
		if l.p.opts.Guarantee == AtMostOnce {
			b.state, b.err = settled, &outcomeUnknown{err}
			continue
		}
		b.state = repeated
		if now.Sub(b.since) > l.p.opts.DeliveryTimeout {
			l.dropLocked(b, err)
		}
	}
	l.beginLocked()
	l.tell()
}

// overdue reports whether the oldest answer takes too long.
func (l *lane) overdue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent > 0 && time.Since(l.queue[0].at) > l.p.opts.AnswerTimeout
}

// failed deals with the queue when no stream can be opened: for good, or for as long as a record may wait.
func (l *lane) failed(err error) {
	now := time.Now()
	var refused *Error
	fatal := errors.As(err, &refused) && refused.Class == ClassFatal
	nameless := errors.Is(err, errShardNotTaken) // which is a matter of those alone that name their shard
	l.mu.Lock()
	l.hint = ""
	l.p.c.avoid(err)
	l.p.c.forget(l.p.stream)
	l.sent = len(l.queue) // all are judged; beginLocked sorts them out
	for _, b := range l.queue {
		if b.state == settled || nameless && !b.named {
			continue
		}
		b.state, b.err = repeated, err
		unknown := errors.Is(err, ErrNotFound) && now.Sub(b.since) > unknownFor
		if fatal || unknown || now.Sub(b.since) > l.p.opts.DeliveryTimeout {
			l.dropLocked(b, err)
		}
	}
	l.beginLocked()
	l.tell()
}

// shut fails what is left when the publisher ends.
func (l *lane) shut() {
	l.mu.Lock()
	l.closed = true
	for _, b := range l.queue {
		if b.state == settled {
			continue
		}
		b.state, b.err = settled, ErrClosed
		if b.uncertain {
			b.err = &outcomeUnknown{ErrClosed}
		}
	}
	l.sent = len(l.queue)
	l.removeLocked(l.sent)
	l.tell()
}
