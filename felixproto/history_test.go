package felixproto

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// TestStalledHistories: readers of history that stop hold no more than the part of the memory that is history's, and one that reads gets
// everything beside them, on a connection of its own and on theirs; when they go on so do they.
func TestStalledHistories(t *testing.T) {
	const n, size, connections, each = 4, 1 << 20, 4, 4 // their windows are within those of their connections
	r := newRig(t, rigOptions{server: func(o *Options) { o.MemoryBudget = 32 << 20 }})
	r.stream("demo", 1, true)
	fill(r.connect(), "demo", 0, n, size)
	var stalled []*rigEvents
	for range connections {
		c := r.connect()
		for range each {
			_, e := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartEarliest}})
			stalled = append(stalled, e)
		}
	}
	h := &r.server.history
	var most atomic.Int64
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			most.Store(max(most.Load(), r.server.delivery.used.Load()))
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	eventually(t, func() bool { return most.Load() > 0 })
	all := func(e *rigEvents) {
		t.Helper()
		for i := range n {
			if ev := e.next(); ev.Offset != uint64(i) || string(ev.Payload) != record(i, size) {
				t.Fatalf("event %d of %d bytes, want %d", ev.Offset, len(ev.Payload), i)
			}
		}
	}
	_, healthy := r.connect().subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartEarliest}})
	all(healthy)
	for _, e := range stalled {
		all(e)
	}
	close(stop)
	<-watched
	// What a page comes to is known when it is cut: a buffer may be twice its event.
	if got := most.Load(); got > 2*h.limit {
		t.Errorf("up to %d bytes were held, want at most %d", got, 2*h.limit)
	}
	eventually(t, func() bool { return r.server.delivery.used.Load() == 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used != 0 || len(h.holders) != 0 || len(h.byTenant) != 0 || len(h.byConn) != 0 || len(h.waiting) != 0 {
		t.Errorf("left over: %d bytes, %d leases, %v, %v", h.used, len(h.holders), h.byTenant, h.byConn)
	}
}

// testLease is a lease that nobody writes for.
func testLease(h *history, tenant string, conn uint64) (l *lease, pressed chan struct{}) {
	pressed = make(chan struct{}, 1)
	l = &lease{h: h, tenant: tenant, conn: conn, moved: new(atomic.Uint64), press: func() { pressed <- struct{}{} }, calm: func() {}}
	return l, pressed
}

// TestHistoryShares: a tenant and a connection hold no more than their shares but for one lease, who holds least is served first, and who
// makes no progress is asked to give back as soon as somebody waits.
func TestHistoryShares(t *testing.T) {
	h := newHistory(&deliveryBudget{limit: 1600}) // 800 in all, 400 of a tenant, 200 of a connection
	hold := func(tenant string, conn uint64, n int64) *lease {
		t.Helper()
		l, _ := testLease(&h, tenant, conn)
		must(t, l.acquire(t.Context(), n))
		return l
	}
	refused := func(tenant string, conn uint64, n int64) {
		t.Helper()
		l, _ := testLease(&h, tenant, conn)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.acquire(ctx, n); !errors.Is(err, context.Canceled) || l.held != 0 {
			t.Errorf("%d bytes for connection %d of %s: %v, %d held", n, conn, tenant, err, l.held)
		}
	}
	a1, a2 := hold("a", 1, 150), hold("a", 2, 150)
	refused("a", 1, 60)
	refused("a", 3, 110)
	b := hold("b", 4, 350) // beyond its connection's share, but the first there
	refused("b", 4, 10)
	refused("c", 5, 200)
	// Whoever waits is served by what the others hold.
	served := make(chan string, 3)
	for _, w := range []struct {
		tenant string
		conn   uint64
	}{{"a", 1}, {"a", 3}, {"c", 5}} {
		before := len(waitingOf(&h))
		l, _ := testLease(&h, w.tenant, w.conn)
		go func() {
			if l.acquire(t.Context(), 160) == nil {
				served <- w.tenant
				l.release()
			}
		}()
		eventually(t, func() bool { return len(waitingOf(&h)) == before+1 })
	}
	b.release()
	if got := <-served; got != "c" {
		t.Errorf("%s was served first, want c, which holds nothing", got)
	}
	a1.release()
	a2.release()
	for range 2 {
		if got := <-served; got != "a" {
			t.Errorf("then %s", got)
		}
	}
	eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.used == 0 && len(h.byConn) == 0 && len(h.byTenant) == 0
	})

	slow, pressed := testLease(&h, "a", 1)
	must(t, slow.acquire(t.Context(), 200))
	next, _ := testLease(&h, "a", 1)
	got := make(chan error, 1)
	go func() { got <- next.acquire(t.Context(), 200) }()
	<-pressed
	slow.release()
	must(t, <-got)
	next.release()
}

func waitingOf(h *history) []*lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}
