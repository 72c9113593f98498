package felixproto

import (
	"testing"

	"github.com/felixlog/felix/felixproto/wire"
)

// TestBurst: a reader that keeps up loses nothing of a burst of small publishes, of which a page of the log has many times more than a
// queue has places.
func TestBurst(t *testing.T) {
	const n, flying = 20_000, 64
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	_, events := r.connect().subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	s := r.connect().open("admin")
	acked, done := make(chan struct{}, flying), make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			s.ack()
			<-acked
		}
	}()
	go func() {
		for i := range n {
			acked <- struct{}{}
			s.publish(uint64(i), "demo", record(i, 8))
		}
	}()
	for i := range n {
		if ev := events.next(); ev.Offset != uint64(i) || string(ev.Payload) != record(i, 8) {
			t.Fatalf("event %d %q, want %d", ev.Offset, ev.Payload, i)
		}
	}
	<-done
	if got := counter(t, r, "felix_sub_queue_dropped_total"); got != 0 {
		t.Errorf("%v records were dropped", got)
	}
}

// TestPouredPages: a hub that comes late brings many times more at once than a queue has places, and the reader loses nothing of it.
func TestPouredPages(t *testing.T) {
	const n = 5000
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	_, events := r.connect().subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	var h *hub
	eventually(t, func() bool {
		r.server.hubs.mu.Lock()
		defer r.server.hubs.mu.Unlock()
		for _, h = range r.server.hubs.byShard {
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(h.subs) == 1 && h.waiting && !h.running {
				h.running = true // it is on its way, and will take a while
				return true
			}
		}
		return false
	})
	fill(r.connect(), "demo", 0, n, 8)
	h.s.tasks.start(h.run)
	for i := range n {
		if ev := events.next(); ev.Offset != uint64(i) || string(ev.Payload) != record(i, 8) {
			t.Fatalf("event %d %q, want %d", ev.Offset, ev.Payload, i)
		}
	}
	if got := counter(t, r, "felix_sub_queue_dropped_total"); got != 0 {
		t.Errorf("%v records were dropped", got)
	}
}
