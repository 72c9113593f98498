package felixproto

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// byteBudget is memory that all connections of a server share.
type byteBudget struct {
	limit int64

	mu   sync.Mutex
	used int64 // guarded by mu
}

// take takes n bytes, or reports that there are not so many.
func (b *byteBudget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.limit && b.used > 0 {
		return false
	}
	b.used += n
	return true
}

func (b *byteBudget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}

func (b *byteBudget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// frameBudget is the memory of large frames that are being read. A frame takes of it what has arrived, so one that stalls holds no more
// than was sent. A connection and a tenant have a share each.
//
// Frames that hold a part and wait for more could wait for each other. So whoever began first, of all, of its tenant and of its
// connection, may always go on: bounds are exceeded by one frame at most, and the time that a frame may take bounds that. While somebody
// waits, a frame of which hardly anything comes is given up.
type frameBudget struct {
	limit        int64 // of all frames
	tenant, conn int64 // of those of one tenant, and of one connection

	mu       sync.Mutex
	used     int64            // guarded by mu
	byTenant map[string]int64 // guarded by mu
	byConn   map[uint64]int64 // guarded by mu
	frames   []*largeFrame    // guarded by mu: in the order in which they began
	looking  bool             // guarded by mu: look is going to run
	interval time.Duration    // of looks
}

// A frame is given up after so many looks in a row at which less than slowFrame bytes had come since the one before.
const (
	frameLook  = time.Second
	frameLooks = 5
	slowFrame  = 16 << 10
)

// largeFrame is one frame that takes of the budget.
type largeFrame struct {
	b      *frameBudget
	tenant string
	conn   uint64
	// arrived is how many of its bytes have come. giveUp ends the reading of it; it is called with frameBudget.mu held.
	// whole says that it waits for nothing of its client.
	arrived atomic.Int64
	whole   atomic.Bool
	giveUp  func()

	held    int64         // guarded by frameBudget.mu
	seen    int64         // guarded by frameBudget.mu: arrived at the last look
	slow    int           // guarded by frameBudget.mu: looks in a row
	wants   int64         // guarded by frameBudget.mu: what it waits for, 0 for nothing
	granted chan struct{} // closed when it has that
}

func newFrameBudget(limit int64) *frameBudget {
	return &frameBudget{
		limit: limit, tenant: limit / 2, conn: limit / 4, byTenant: map[string]int64{}, byConn: map[uint64]int64{}, interval: frameLook,
	}
}

// begin takes a frame into the order. It holds nothing yet.
func (b *frameBudget) begin(tenant string, conn uint64, giveUp func()) *largeFrame {
	f := &largeFrame{b: b, tenant: tenant, conn: conn, giveUp: giveUp}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frames = append(b.frames, f)
	return f
}

// grow takes n bytes more, waiting for others to give theirs back until ctx ends. It returns how long that took.
func (f *largeFrame) grow(ctx context.Context, n int64) (waited time.Duration, err error) {
	b := f.b
	b.mu.Lock()
	f.wants, f.granted = n, make(chan struct{})
	granted := f.granted
	b.serveLocked()
	waits := f.wants > 0
	if waits {
		b.lookLocked()
	}
	b.mu.Unlock()
	if !waits {
		return 0, nil
	}
	began := time.Now()
	select {
	case <-granted:
		return time.Since(began), nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f.wants = 0 // if it was granted meanwhile, end gives it back
	return time.Since(began), context.Cause(ctx)
}

// hold makes the frame hold n bytes: what its buffer has come to, which may be more than what was asked for.
func (f *largeFrame) hold(n int64) {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	f.b.changeLocked(f, n-f.held)
}

// end gives everything back.
func (f *largeFrame) end() {
	b := f.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changeLocked(f, -f.held)
	for i, other := range b.frames {
		if other == f {
			b.frames = append(b.frames[:i], b.frames[i+1:]...)
			break
		}
	}
	b.serveLocked()
}

func (b *frameBudget) changeLocked(f *largeFrame, n int64) {
	f.held += n
	b.used += n
	if b.byTenant[f.tenant] += n; b.byTenant[f.tenant] == 0 {
		delete(b.byTenant, f.tenant)
	}
	if b.byConn[f.conn] += n; b.byConn[f.conn] == 0 {
		delete(b.byConn, f.conn)
	}
}

// serveLocked gives those who wait what they want, the oldest first. Behind one that finds no room nobody of its connection or tenant
// gets any, if it was for want of their shares, and nobody at all otherwise.
func (b *frameBudget) serveLocked() {
	tenants, conns := map[string]bool{}, map[uint64]bool{} // seen: an older frame was of it
	noTenant, noConn := map[string]bool{}, map[uint64]bool{}
	for i, f := range b.frames {
		firstOfTenant, firstOfConn := !tenants[f.tenant], !conns[f.conn]
		tenants[f.tenant], conns[f.conn] = true, true
		if f.wants == 0 || noTenant[f.tenant] || noConn[f.conn] {
			continue
		}
		switch {
		case !firstOfConn && b.byConn[f.conn]+f.wants > b.conn:
			noConn[f.conn] = true
			continue
		case !firstOfTenant && b.byTenant[f.tenant]+f.wants > b.tenant:
			noTenant[f.tenant] = true
			continue
		case i > 0 && b.used+f.wants > b.limit:
			return
		}
		b.changeLocked(f, f.wants)
		f.wants = 0
		close(f.granted)
	}
}

// lookLocked has the frames looked over in a while.
func (b *frameBudget) lookLocked() {
	if !b.looking {
		b.looking = true
		time.AfterFunc(b.interval, b.look)
	}
}

// look gives up the frames that have come to a standstill, if others wait.
func (b *frameBudget) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looking = false
	waits := false
	for _, f := range b.frames {
		waits = waits || f.wants > 0
	}
	for _, f := range b.frames {
		arrived := f.arrived.Load()
		if !waits || f.wants > 0 || f.whole.Load() || arrived-f.seen >= slowFrame {
			f.slow = 0
		} else if f.slow++; f.slow >= frameLooks {
			f.giveUp()
		}
		f.seen = arrived
	}
	if waits {
		b.lookLocked()
	}
}

func (b *frameBudget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
