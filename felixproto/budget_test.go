package felixproto

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// TestFrameShares: what a connection and a tenant hold of the memory for large frames ends at their shares, the oldest frame goes on
// whatever there is, and nobody overtakes whoever has waited longer for the same share.
func TestFrameShares(t *testing.T) {
	b := newFrameBudget(800) // 400 of a tenant, 200 of a connection
	frame := func(tenant string, conn uint64, hold int64) *largeFrame {
		t.Helper()
		f := b.begin(tenant, conn, func() {})
		if _, err := f.grow(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
		return f
	}
	waits := func(f *largeFrame, n int64) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.grow(ctx, n); !errors.Is(err, context.Canceled) {
			t.Errorf("%d bytes more than %d: %v", n, f.held, err)
		}
	}
	first := frame("a", 1, 100)
	second := frame("a", 1, 90)
	waits(second, 20) // the connection's share
	other := frame("a", 2, 150)
	waits(other, 100)                  // the tenant's
	if b := frame("b", 3, 300); true { // the oldest of its tenant and connection
		waits(frame("c", 4, 100), 100) // all there is: 740 of 800
		b.end()
	}
	if _, err := first.grow(t.Context(), 1000); err != nil { // the oldest of all
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := other.grow(t.Context(), 100)
		got <- err
	}()
	first.end()
	second.end()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestStandingFrameIsGivenUp: a frame of which nothing comes is given up while others wait, and one that is whole or waits itself is not.
func TestStandingFrameIsGivenUp(t *testing.T) {
	b := newFrameBudget(100)
	b.interval = time.Millisecond
	gone := make(chan struct{}, 1)
	standing := b.begin("a", 1, func() {
		select {
		case gone <- struct{}{}:
		default:
		}
	})
	_, err := standing.grow(t.Context(), 100)
	must(t, err)
	whole := b.begin("a", 2, func() { t.Error("a frame that is whole was given up") })
	whole.whole.Store(true)
	waiting := b.begin("a", 3, func() { t.Error("a frame that waits was given up") })
	got := make(chan error, 1)
	go func() {
		_, err := waiting.grow(t.Context(), 50)
		got <- err
	}()
	<-gone
	standing.end()
	must(t, <-got)
	waiting.end()
	whole.end()
	if b.inUse() != 0 || len(b.frames) != 0 || len(b.byConn) != 0 || len(b.byTenant) != 0 {
		t.Errorf("left over: %d bytes, %d frames", b.inUse(), len(b.frames))
	}
}

// TestStandingFrames: connections that stop in the middle of the largest frames hold what they have sent, and others' large frames are
// taken beside them.
func TestStandingFrames(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *Options) {
		o.MemoryBudget, o.MaxFrame, o.MaxStreamWindow = 64<<20, 4<<20, 4<<20
	}})
	r.stream("demo", 1, true)
	for range 4 {
		s := r.connect().open("admin")
		s.write(wire.AppendHeader(nil, wire.Header{Flags: wire.FlagPublishBatch, Length: 4 << 20}))
		s.write(make([]byte, 200<<10))
	}
	eventually(t, func() bool { return r.server.reading.inUse() >= 4*200<<10 })
	if held := r.server.reading.inUse(); held > 4*512<<10 {
		t.Errorf("%d bytes are held for frames of which 200 KiB came each", held)
	}
	healthy := r.connect().open("admin")
	for i := range 8 {
		healthy.publish(uint64(i), "demo", record(i, 3<<20))
		if a := healthy.ack(); a.Failed || a.RequestID != uint64(i) {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
}
