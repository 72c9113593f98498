package replica

import "github.com/felixlog/felix/internal/ids"

// Waiter waits for the high watermark of one shard to reach an offset. The caller allocates it, may embed it, and may use
// it again after Notify ran or CancelWait returned true. Its address must not change while it waits.
type Waiter struct {
	// Until is the offset to wait for: Notify runs once the high watermark is at or above it. To be told of the next
	// record at offset o, wait until o+1.
	Until ids.Offset
	// Notify is called exactly once, on any goroutine and outside all locks: with nil when Until was reached, else with
	// the reason why it never will be here. It must not block.
	Notify func(err error)

	next, prev *Waiter
	waiting    bool
	err        error
}

// waitList is a doubly linked list of waiters, oldest first. The zero value is empty.
type waitList struct {
	first, last *Waiter
	least       ids.Offset // a lower bound of every Until in the list; meaningless when empty
}

func (l *waitList) add(w *Waiter) {
	w.next, w.prev, w.waiting, w.err = nil, l.last, true, nil
	if l.last == nil {
		l.first, l.least = w, w.Until
	} else {
		l.last.next = w
		l.least = min(l.least, w.Until)
	}
	l.last = w
}

func (l *waitList) remove(w *Waiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev, w.waiting = nil, nil, false
}

// takeUntil removes the waiters that mark satisfies and returns them as a chain through next, oldest first.
func (l *waitList) takeUntil(mark ids.Offset) *Waiter {
	if l.first == nil || l.least > mark {
		return nil
	}
	var head, tail *Waiter
	rest := ids.Offset(1<<63 - 1)
	for w := l.first; w != nil; {
		next := w.next
		if w.Until <= mark {
			l.remove(w)
			if tail == nil {
				head = w
			} else {
				tail.next = w
			}
			tail = w
		} else {
			rest = min(rest, w.Until)
		}
		w = next
	}
	l.least = rest
	return head
}

// takeAll removes every waiter, to be told err.
func (l *waitList) takeAll(err error) *Waiter {
	head := l.takeUntil(1<<63 - 1)
	for w := head; w != nil; w = w.next {
		w.err = err
	}
	return head
}

// notify tells a chain of taken waiters. A waiter may be reused from inside its Notify, so its link is read first.
func notify(chain *Waiter) {
	for chain != nil {
		w := chain
		chain = w.next
		w.next = nil
		w.Notify(w.err)
	}
}
