package felixproto

import (
	"errors"
	"runtime"
	"time"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

const (
	// largestHistory is what one subscription may hold of the log while there is room, but for a single larger event.
	largestHistory = 4 << 20
	// pagesRead is how many pages are read from logs and cut at once, for all subscriptions: none of them waits for a client, and each may
	// hold a stored batch beside what it is cut into.
	pagesRead = 8
)

var errChanged = errcode.New(errcode.NotLeader, "felixproto: records were removed while they were being delivered")

// replayer reads the log for one subscription. It holds a page at a time, under a lease.
type replayer struct {
	sub   *subscription
	cut   cutter
	lease lease
	// filled is told what was read, before it is written; false: it must not be written. May be nil.
	filled func(frames []*frame, next ids.Offset) bool
	// part is what the client has only the beginning of. Then, and until cut.limit is reached, what was read before is read again.
	part *partial
}

func (sub *subscription) replayer() *replayer {
	r := &replayer{sub: sub, cut: sub.s.cutter(nil, sub.shardID)}
	r.lease = lease{
		h: &sub.s.history, tenant: sub.topic.Tenant, conn: sub.conn.id, moved: &sub.moved,
		// Errors say that the stream is over, which writing on it will say too.
		press: func() { _ = sub.out.SetWriteDeadline(time.Unix(1, 0)) },
		calm:  func() { _ = sub.out.SetWriteDeadline(time.Time{}) },
	}
	r.cut.stamped, r.cut.room = sub.stamped, r.lease.room
	r.cut.begin(sub.next)
	return r
}

// replay writes the log from the subscription's place on until it has joined the hub.
func (sub *subscription) replay() error {
	if sub.live() {
		return nil
	}
	for r := sub.replayer(); ; {
		joined, err := sub.s.join(sub)
		if joined || err != nil {
			return err
		}
		if err := r.page(); err != nil {
			return err
		}
		sub.mu.Lock()
		sub.next = r.cut.next
		sub.mu.Unlock()
	}
}

// catchUp writes from the log what the queue had no room for, until the hub may queue again or that was dropped.
func (sub *subscription) catchUp() error {
	r := sub.replayer()
	sub.mu.Lock()
	r.cut.begin(sub.missed)
	sub.mu.Unlock()
	var met, gone bool
	r.filled = func(frames []*frame, next ids.Offset) bool {
		met, gone = sub.filled(frames, next)
		return !gone
	}
	for !met && !gone {
		if err := r.page(); err != nil {
			return err
		}
	}
	return nil
}

// page reads one page and writes it. If the lease is asked back meanwhile, since the client does not take it and others wait, the page is
// given up and what is left of it is read again when the client goes on.
func (r *replayer) page() error {
	err := r.step()
	for err == nil && (r.part != nil || r.cut.limit > 0) {
		err = r.step()
	}
	return err
}

func (r *replayer) step() error {
	sub, part, sent := r.sub, r.part, 0
	need := max(pageBytes, r.cut.short)
	if part != nil {
		// Where the client goes on is seen by this little.
		if _, err := sub.put(part.rest); err != nil {
			return err
		}
		sent = part.sent + len(part.rest)
		need = max(pageBytes, part.charge)
		r.cut.begin(part.from)
		r.cut.last, r.cut.quota = part.last, part.count
	}
	if err := r.lease.acquire(sub.out.Context(), int64(need)); err != nil {
		return errors.Join(errClosed, err)
	}
	defer r.lease.release()
	frames, err := r.read()
	defer func() {
		for _, f := range frames {
			f.release()
		}
	}()
	var out *errcode.RangeError
	switch {
	case part == nil && !sub.topic.Durable && asRange(err, &out) && out.TooOld():
		// The ring went round: drops of an ephemeral stream are silent.
		sub.s.metrics.overrun.Inc()
		r.cut.begin(ids.Offset(out.Start))
		return nil
	case err != nil:
		return err
	case part != nil && !r.same(frames):
		return errChanged
	case part == nil && r.cut.limit == 0 && r.filled != nil && !r.filled(frames, r.cut.next):
		return nil
	case len(frames) == 0 && r.cut.short == 0:
		runtime.Gosched() // the hub is just looking
	}
	return r.write(frames, sent)
}

// write sends frames but for what was sent of the first, and notes what is left.
func (r *replayer) write(frames []*frame, sent int) (err error) {
	if r.part, err = r.sub.write(frames, 0, sent); err != nil {
		return err
	}
	switch {
	case r.part != nil && r.cut.limit == 0:
		r.cut.limit = r.cut.next
	case r.part == nil && r.cut.next >= r.cut.limit:
		r.cut.limit = 0
	}
	return nil
}

// same reports whether what the client was told of a frame that it has the beginning of is still so: records may have been removed
// meanwhile.
func (r *replayer) same(frames []*frame) bool {
	p := r.part
	if len(frames) == 0 || frames[0].base != p.from || frames[0].count != p.count {
		return false
	}
	events, _ := frames[0].events(p.from, r.sub.stamped)
	return len(r.sub.appendHead(nil, frames[0], p.from, p.count, len(events)))+len(events) == p.size
}

// read cuts a page within the lease, which holds as much as the page from then on.
func (r *replayer) read() ([]*frame, error) {
	s := r.sub.s
	select {
	case s.pages <- struct{}{}:
	case <-r.sub.out.Context().Done():
		return nil, errClosed
	}
	r.cut.short = 0
	frames, err := s.page(r.sub.shard, &r.cut, pageBytes)
	<-s.pages
	held := 0
	for _, f := range frames {
		held += f.bytes()
	}
	r.lease.settle(int64(held))
	return frames, err
}
