package kafkaproto

import "sync"

// later is a request whose answer somebody else brings: its handler returns, and neither the connection's reader nor any other
// goroutine waits. Whoever comes first takes the answer on, once: the bringer, the server that closes, or the connection that goes
// away. What comes after that is dropped. It is not pooled, so a bringer may hold on to it for as long as it likes.
type later[R any] struct {
	offsets bool // it changes committed offsets; see awaitOffsets

	mu      sync.Mutex
	call    *call // guarded by mu: nil once the answer is taken on
	closing R     // what a server that closes answers
	answer  func(*call, R)
}

// answerLater leaves c's slot to whoever calls done, with an outcome that answer makes the answer of. closing is the outcome if the
// server closes before. done may be called once, at any time and on any goroutine. answer runs on the goroutine of whoever takes the
// answer on, with a call that has no request: what it needs of it must be copied before. The handler must not answer c itself.
func answerLater[R any](c *call, closing R, answer func(*call, R)) (done func(R)) {
	own := *c
	own.client, own.body, own.frame, own.req = nil, nil, nil, nil
	l := &later[R]{offsets: c.api.key == keyOffsetCommit || c.api.key == keyOffsetDelete, call: &own, closing: closing, answer: answer}
	c.conn.park(c.slot, l)
	if c.conn.ending.Load() {
		l.hurry()
	}
	return l.done
}

// take returns what the first to ask needs to answer, nil for all others. It lets go of the connection.
func (l *later[R]) take() (*call, func(*call, R)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, answer := l.call, l.answer
	l.call, l.answer = nil, nil
	return c, answer
}

func (l *later[R]) done(outcome R) {
	if c, answer := l.take(); c != nil {
		answer(c, outcome)
		c.conn.room.Signal() // for awaitOffsets
	}
}

// retain and release do nothing: a later is used once.
func (l *later[R]) retain() {}

func (l *later[R]) release() {}

// hurry answers that the server closes.
func (l *later[R]) hurry() { l.done(l.closing) }

// abandon ends the request: nobody reads the answer. What it asked for goes on.
func (l *later[R]) abandon() {
	if c, _ := l.take(); c != nil {
		c.drop()
	}
}

func (l *later[R]) changesOffsets() bool { return l.offsets }

// awaitOffsets waits until the requests before s on this connection that change committed offsets are answered: a client that sends a
// commit and asks at once, without waiting for the answer, reads what it wrote. Handlers only, in place of the reader.
func (c *conn) awaitOffsets(s *slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.changesOffsetsLocked(s) && !c.closed.Load() {
		c.room.Wait()
	}
}

func (c *conn) changesOffsetsLocked(before *slot) bool {
	for s := c.first; s != nil && s != before; s = s.next {
		if w, ok := s.wait.(interface{ changesOffsets() bool }); ok && w.changesOffsets() {
			return true
		}
	}
	return false
}
