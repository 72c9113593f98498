package felixproto

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
)

// TestAnswersBeforeClose: an answer that was written just before the server is closed arrives, although its stream has ended by then.
func TestAnswersBeforeClose(t *testing.T) {
	const n = 32
	r := newRig(t, rigOptions{})
	var all []*rigStream
	for range n {
		s := r.connect().open("admin")
		s.send(&wire.Topology{})
		must(t, s.q.Close())
		all = append(all, s)
	}
	eventually(t, func() bool {
		for _, c := range r.server.all() {
			c.mu.Lock()
			open := len(c.open)
			c.mu.Unlock()
			if open > 0 {
				return false
			}
		}
		return true
	})
	r.server.goodbye = time.Minute // answers may take their time
	closed := make(chan error, 1)
	go func() { closed <- r.server.Close(t.Context()) }()
	for _, s := range all {
		expect[*wire.TopologyView](s)
		must(t, s.c.q.CloseWithError(0, ""))
	}
	must(t, <-closed)
}

// TestWakeAfterClose: the mark of a shard may move after the server has ended, and nothing of the server begins again.
func TestWakeAfterClose(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	r.connect().subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	r.server.hubs.mu.Lock()
	var h *hub
	for _, h = range r.server.hubs.byShard {
	}
	r.server.hubs.mu.Unlock()
	must(t, r.server.Close(t.Context()))
	h.wake(nil)
	if r.server.tasks.start(func() { t.Error("a goroutine was started after the end") }) {
		t.Error("a goroutine was taken after the end")
	}
}

// TestAcksAsMessages: a client that does not know binary acks gets messages, whichever form its publish had.
func TestAcksAsMessages(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	s := r.connect().openAs("t1", "admin", plainFlags&^wire.FlagPublishAck, plainFeatures)
	s.publish(7, "demo", "x")
	if ok := expect[*wire.PublishOK](s); ok.RequestID != 7 || ok.Offset != wire.Some(uint64(0)) {
		t.Errorf("answer %+v", ok)
	}
	s.publish(8, "none", "x")
	if e := expect[*wire.PublishError](s); e.RequestID != 8 || e.Code != "not_found" {
		t.Errorf("answer %+v", e)
	}
}

// TestSubscriptionIDs: two requests at once for one id of a connection, one gets it; and an id that the server chooses is free.
func TestSubscriptionIDs(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	c.open("admin")
	conn := r.server.all()[0]
	const n = 50
	for id := range uint64(n) {
		a := &account{}
		got := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := conn.reserve(a, wire.Some(1000+id))
				got <- err
			}()
		}
		if one, two := <-got, <-got; (one == nil) == (two == nil) {
			t.Fatalf("id %d: %v and %v", id, one, two)
		}
	}
	next := r.server.subscriptionIDs.Load() + 1
	_, err := conn.reserve(&account{}, wire.Some(next))
	must(t, err)
	if id, err := conn.reserve(&account{}, wire.Opt[uint64]{}); err != nil || id == next {
		t.Errorf("the server chose %d, which is in use: %v", id, err)
	}
}

// TestGoodbye: a connection whose last stream has just ended is not closed at once, since its answer may be on its way.
func TestGoodbye(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := r.connect().open("admin")
	c := r.server.all()[0]
	must(t, s.q.Close())
	s.ended()
	eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.left.IsZero()
	})
	c.mu.Lock()
	c.left = time.Now().Add(time.Hour) // however long the machine takes from here
	c.mu.Unlock()
	began := time.Now()
	if !c.finish(t.Context()) {
		t.Error("something was left unanswered")
	}
	if took := time.Since(began); took < defaultGoodbye {
		t.Errorf("closed after %v", took)
	}
}

// TestCloseWhileConnecting: connections that begin while the server is closed do not keep it from ending.
func TestCloseWhileConnecting(t *testing.T) {
	for range 10 {
		r := newRig(t, rigOptions{})
		stop := make(chan struct{})
		var dialling sync.WaitGroup
		for range 8 {
			udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			must(t, err)
			dialling.Go(func() {
				defer func() { _ = udp.Close() }()
				tr := &quic.Transport{Conn: udp}
				defer func() { _ = tr.Close() }()
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
					_, _ = tr.Dial(ctx, r.addr, &tls.Config{RootCAs: r.roots, ServerName: "localhost", NextProtos: []string{Protocol}}, nil)
					cancel()
				}
			})
		}
		eventually(t, func() bool {
			r.server.mu.Lock()
			defer r.server.mu.Unlock()
			return r.server.admitted > 0
		})
		must(t, r.server.Close(t.Context()))
		close(stop)
		dialling.Wait()
	}
}
