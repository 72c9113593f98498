package felixproto

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// deliveryBudget is the memory of frames that wait to be written to subscribers of the process. A frame that many queues share counts
// once. The frames of queues are never waited for: above the budget a subscription that has something queued already takes no more, so
// whoever keeps up goes on. Readers of history wait for theirs: see history.
type deliveryBudget struct {
	limit int64
	used  atomic.Int64
}

func (b *deliveryBudget) take(n int) {
	if b != nil {
		b.used.Add(int64(n))
	}
}

func (b *deliveryBudget) give(n int) {
	if b != nil {
		b.used.Add(-int64(n))
	}
}

// over reports that more is held than the budget allows.
func (b *deliveryBudget) over() bool { return b != nil && b.used.Load() > b.limit }

// history is the part of the delivery budget that readers of the log have, whatever is in queues. Each takes a lease for a page and gives
// it back when the page is written; who finds no room waits, since the log keeps what it has not read. Nobody is starved by those who
// do not read: while somebody waits, a lease whose holder makes no progress is asked back (the page can be read again), and the next one
// to be served is of the tenant, and of its connections the one, that holds least.
type history struct {
	budget       *deliveryBudget
	limit        int64 // of all leases
	tenant, conn int64 // of those of one tenant, and of one connection; one lease may always be held

	mu       sync.Mutex
	used     int64            // guarded by mu
	byTenant map[string]int64 // guarded by mu
	byConn   map[uint64]int64 // guarded by mu
	holders  map[*lease]bool  // guarded by mu
	waiting  []*lease         // guarded by mu: in the order of asking
	looking  bool             // guarded by mu: look is going to run
}

// lease is what one reader of history holds. One goroutine uses it, but for fields that say otherwise.
type lease struct {
	h      *history
	tenant string
	conn   uint64
	// moved counts the writes that went through.
	moved *atomic.Uint64
	// press is called when the lease is asked back, and calm once that has been done. They are called with history.mu held.
	press, calm func()

	cut int64 // bytes of held that are in use

	held    int64         // written with history.mu held, by whoever uses the lease or while that waits
	wants   int64         // guarded by history.mu: while it waits
	granted chan struct{} // closed when it has what it wants
	seen    uint64        // guarded by history.mu: moved at the last look
	pressed bool          // guarded by history.mu
}

// lookInterval is how often leases are looked over while somebody waits for one.
const lookInterval = 250 * time.Millisecond

func newHistory(budget *deliveryBudget) history {
	limit := budget.limit / 2
	return history{
		budget: budget, limit: limit, tenant: limit / 2, conn: limit / 4,
		byTenant: map[string]int64{}, byConn: map[uint64]int64{}, holders: map[*lease]bool{},
	}
}

// acquire takes n bytes, waiting for others to give theirs back until ctx ends. The lease must hold none.
func (l *lease) acquire(ctx context.Context, n int64) error {
	h := l.h
	h.mu.Lock()
	l.cut = 0
	if len(h.waiting) == 0 && h.fitsLocked(l, n) {
		h.grantLocked(l, n)
		h.mu.Unlock()
		return nil
	}
	l.wants, l.granted = n, make(chan struct{})
	h.waiting = append(h.waiting, l)
	h.nextLocked() // it may fit although others wait
	h.lookLocked()
	granted := l.granted
	h.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range h.waiting {
		if other == l {
			h.waiting = append(h.waiting[:i], h.waiting[i+1:]...)
			break
		}
	}
	h.releaseLocked(l) // granted while ctx ended, or the next may fit
	return context.Cause(ctx)
}

// room takes n bytes of the lease, which grows if nobody waits, up to what one subscription may hold.
func (l *lease) room(n int) bool {
	want := l.cut + int64(n)
	more := want - l.held
	if more > 0 {
		h := l.h
		h.mu.Lock()
		defer h.mu.Unlock()
		if l.cut > 0 && want > largestHistory || len(h.waiting) > 0 || !h.fitsLocked(l, more) {
			return false
		}
		h.changeLocked(l, more)
	}
	l.cut = want
	return true
}

// settle makes the lease hold n bytes: what the page has come to.
func (l *lease) settle(n int64) {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changeLocked(l, n-l.held)
	h.nextLocked()
}

// release gives everything back.
func (l *lease) release() {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releaseLocked(l)
}

func (h *history) releaseLocked(l *lease) {
	h.changeLocked(l, -l.held)
	delete(h.holders, l)
	if l.pressed {
		l.pressed = false
		l.calm()
	}
	h.nextLocked()
}

func (h *history) changeLocked(l *lease, n int64) {
	l.held += n
	h.used += n
	h.budget.used.Add(n)
	if h.byTenant[l.tenant] += n; h.byTenant[l.tenant] == 0 {
		delete(h.byTenant, l.tenant)
	}
	if h.byConn[l.conn] += n; h.byConn[l.conn] == 0 {
		delete(h.byConn, l.conn)
	}
}

func (h *history) grantLocked(l *lease, n int64) {
	h.changeLocked(l, n)
	l.seen = l.moved.Load()
	h.holders[l] = true
}

// fitsLocked: whoever wants more than a share gets it once nobody else has any of that.
func (h *history) fitsLocked(l *lease, n int64) bool {
	return h.ownFitsLocked(l, n) && (h.used+n <= h.limit || h.used == l.held)
}

// ownFitsLocked is fitsLocked within the shares of tenant and connection.
func (h *history) ownFitsLocked(l *lease, n int64) bool {
	tenant, conn := h.byTenant[l.tenant], h.byConn[l.conn]
	return (tenant+n <= h.tenant || tenant == l.held) && (conn+n <= h.conn || conn == l.held)
}

// nextLocked serves those who wait, as far as there is room. Who is next and does not fit is not overtaken by a smaller one of the same
// share: it would wait for ever.
func (h *history) nextLocked() {
	for len(h.waiting) > 0 {
		at := h.chooseLocked()
		if at < 0 {
			return
		}
		l := h.waiting[at]
		if !h.fitsLocked(l, l.wants) {
			return
		}
		h.waiting = append(h.waiting[:at], h.waiting[at+1:]...)
		h.grantLocked(l, l.wants)
		close(l.granted)
	}
}

// chooseLocked is the place in waiting of who is next, -1 if the shares of all who wait are used up.
func (h *history) chooseLocked() int {
	firsts := map[uint64]bool{} // connections whose first was seen
	best := map[string]int{}    // of each tenant
	for i, l := range h.waiting {
		if firsts[l.conn] {
			continue
		}
		firsts[l.conn] = true
		if other, ok := best[l.tenant]; !ok || h.byConn[l.conn] < h.byConn[h.waiting[other].conn] {
			best[l.tenant] = i
		}
	}
	next := -1
	for tenant, i := range best {
		if !h.ownFitsLocked(h.waiting[i], h.waiting[i].wants) {
			continue
		}
		if next < 0 {
			next = i
			continue
		}
		held, least := h.byTenant[tenant], h.byTenant[h.waiting[next].tenant]
		if held < least || held == least && i < next {
			next = i
		}
	}
	return next
}

// lookLocked has the leases looked over in a while.
func (h *history) lookLocked() {
	if !h.looking && len(h.waiting) > 0 {
		h.looking = true
		time.AfterFunc(lookInterval, h.look)
	}
}

// look asks those leases back whose holders have written nothing since the last look.
func (h *history) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looking = false
	if len(h.waiting) == 0 {
		return
	}
	for l := range h.holders {
		moved := l.moved.Load()
		if moved == l.seen && !l.pressed {
			l.pressed = true
			l.press()
		}
		l.seen = moved
	}
	h.lookLocked()
}
