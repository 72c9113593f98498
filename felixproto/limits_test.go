package felixproto

import (
	"crypto/tls"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/log"
)

// only is the server's one stream that has publishes under way.
func (r *rig) only() *stream {
	for _, conn := range r.server.all() {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		for st := range conn.open {
			st.mu.Lock()
			found := st.pubs > 0
			st.mu.Unlock()
			if found {
				return st
			}
		}
	}
	return nil
}

// TestReadingStops is S-35: a transport stream with so many publishes waiting is read no further, and others of its connection are.
func TestReadingStops(t *testing.T) {
	const more = 100
	r := newRig(t, rigOptions{sync: log.SyncOnCommit, idle: true})
	r.stream("demo", 1, true)
	r.stream("other", 1, false)
	c := r.connect()
	s := c.openAs("t1", "admin", plainFlags, plainFeatures&^wire.FeaturePublishPipeline)
	for i := range maxWaiting + more {
		s.publish(uint64(i), "demo", "x")
	}
	waiting := func() int {
		st := r.only()
		if st == nil {
			return 0
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.pubs
	}
	eventually(t, func() bool { return waiting() == maxWaiting })
	next := c.open("admin")
	for i := range 20 {
		next.publish(uint64(i), "other", "x")
		if a := next.ack(); a.Failed {
			t.Fatalf("beside a stream that is not read: %+v", a)
		}
	}
	if n := waiting(); n != maxWaiting {
		t.Errorf("%d publishes under way, want %d", n, maxWaiting)
	}
	r.syncer.Start()
	seen := map[uint64]bool{}
	for range maxWaiting + more {
		a := s.ack()
		if a.Failed || seen[a.RequestID] || a.Offset != wire.Some(a.RequestID) {
			t.Fatalf("answer %+v, the request had one: %v", a, seen[a.RequestID])
		}
		seen[a.RequestID] = true
	}
}

// TestAnswersOwed is S-36, and row 74 of the security rules: with so many answers owed the next publish is refused with nothing queued, and
// sent again it is stored once. The default window, and reading that stops at so many publishes under way, end before that: it takes a
// larger window.
func TestAnswersOwed(t *testing.T) {
	const more = 6
	r := newRig(t, rigOptions{sync: log.SyncOnCommit, idle: true, server: func(o *Options) { o.Window = 2 * maxOwed }})
	r.stream("demo", 1, true)
	c := r.connect()
	s := c.open("admin")
	for i := range maxOwed {
		s.publish(uint64(i), "demo", record(i, 10))
	}
	eventually(t, func() bool { st := r.only(); return st != nil && st.tooManyOwed() })
	for i := maxOwed; i < maxOwed+more; i++ {
		s.publish(uint64(i), "demo", record(i, 10))
	}
	// All of them have been read when a later request is answered.
	s.send(&wire.Topology{})
	expect[*wire.TopologyView](s)
	r.syncer.Start()
	for i := range maxOwed {
		if a := s.ack(); a.Failed || a.RequestID != uint64(i) || a.Offset != wire.Some(uint64(i)) {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
	for i := maxOwed; i < maxOwed+more; i++ {
		a := s.ack()
		full := a.Code == wire.CodeOverloaded && a.Retry == wire.RetryAfter && a.Reason == wire.ReasonPublishQueueFull
		if !a.Failed || a.RequestID != uint64(i) || !full {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
	for i := maxOwed; i < maxOwed+more; i++ {
		s.publish(uint64(i), "demo", record(i, 10))
		if a := s.ack(); a.Failed || a.Offset != wire.Some(uint64(i)) {
			t.Fatalf("sent again, %d: %+v", i, a)
		}
	}
	_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartEarliest}})
	for i, got := range events.payloads(maxOwed + more) {
		if got != record(i, 10) {
			t.Fatalf("record %d is %q", i, got)
		}
	}
}

// TestSlowReplay is S-53: a reader that takes history slowly gets all of it, however much is published meanwhile, and the server holds
// no more of it than it may.
func TestSlowReplay(t *testing.T) {
	const before, during, size = 2000, 2000, 2000
	r := newRig(t, rigOptions{server: func(o *Options) { o.QueueCapacity = 4 }})
	r.stream("demo", 1, true)
	c := r.connect()
	fill(c, "demo", 0, before, size)
	sub, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartEarliest}})
	if sub.LiveOffset != wire.Some(uint64(before)) {
		t.Errorf("live from %+v", sub.LiveOffset)
	}
	// Nothing is read while as much again is published: the reader's window is less than its history.
	fill(r.connect(), "demo", before, during, size)
	held := r.server.delivery.used.Load()
	if held > slowBound {
		t.Errorf("%d bytes are held for a reader of history, want at most %d", held, slowBound)
	}
	for i := range before {
		if ev := events.next(); ev.Offset != uint64(i) || string(ev.Payload) != record(i, size) {
			t.Fatalf("event %d has offset %d", i, ev.Offset)
		}
	}
}

// slowBound is a page of history and a few frames.
const slowBound = 4 << 20

// TestCommitsAreWhole is S-81 on one node: while commits are made, a reader that lists events, reads the state and lists again never meets
// an event without its state, nor a state without its event.
func TestCommitsAreWhole(t *testing.T) {
	const commits = 300
	keys := []string{"a", "b", "c"}
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	at := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}
	c := r.connect()
	writer := c.open("admin")
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		s := r.connect().open("admin")
		wg.Go(func() {
			list := func(from uint64) uint64 {
				for {
					s.send(&wire.StreamRead{StreamScope: at, From: from, MaxRecords: 1000, RequestID: 1})
					page := expect[*wire.StreamRecords](s)
					if len(page.Records) == 0 {
						return from
					}
					from = page.NextOffset
				}
			}
			for seen := uint64(0); ; {
				seen = list(seen)
				latest := uint64(0)
				for _, key := range keys {
					s.send(&wire.StateGet{StreamScope: at, EntityKey: []byte("e"), Key: key, RequestID: 1})
					v := expect[*wire.StateValue](s)
					if seen > 0 && (!v.Version.Set || v.Version.Value+1 < seen) {
						t.Errorf("events up to %d were listed, and the state of %s is of %+v", seen-1, key, v.Version)
						return
					}
					if v.Version.Set && string(v.Value) != fmt.Sprint(v.Version.Value) {
						t.Errorf("version %d of %s is %q", v.Version.Value, key, v.Value)
						return
					}
					latest = max(latest, v.Version.Value)
				}
				after := list(seen)
				if seen > 0 && after <= latest {
					t.Errorf("the state is of %d, and the events end at %d", latest, after)
					return
				}
				seen = after
				select {
				case <-done:
					if seen == commits {
						return
					}
				default:
				}
			}
		})
	}
	for i := range commits {
		m := &wire.Commit{StreamScope: at, EntityKey: []byte("e"), Event: []byte("event"), RequestID: uint64(i)}
		for _, key := range keys {
			m.Changes = append(m.Changes, wire.Change{Op: wire.ChangePut, Key: key, Value: fmt.Append(nil, i)})
		}
		writer.send(m)
		if ok := expect[*wire.CommitOK](writer); ok.Offset != uint64(i) {
			t.Fatalf("commit %d at %d", i, ok.Offset)
		}
	}
	close(done)
	wg.Wait()
}

// TestFullConnection is S-63 and S-90 at full size: so many subscriptions of one identity on one connection, each of which gets what is
// published, and one more, which is refused for good and disturbs nobody.
func TestFullConnection(t *testing.T) {
	const n = 4096
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	conf := &tls.Config{RootCAs: r.roots, ServerName: "localhost", NextProtos: []string{Protocol}}
	q, err := quic.DialAddr(t.Context(), r.addr.String(), conf, &quic.Config{
		MaxIncomingUniStreams: n + 10, KeepAlivePeriod: time.Second, HandshakeIdleTimeout: time.Minute, MaxIdleTimeout: time.Minute,
		// They are read one after the other here, so the connection's window must hold what comes to all of them.
		InitialConnectionReceiveWindow: 8 << 20, MaxConnectionReceiveWindow: 8 << 20,
	})
	must(t, err)
	defer func() { _ = q.CloseWithError(0, "") }()
	c := &rigConn{t: t, q: q, events: map[uint64]*rigEvents{}}
	s := c.open("admin") // one stream asks for all of them
	all := make([]*rigEvents, n)
	for i := range all {
		m := &wire.Subscribe{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}}
		s.send(m)
		all[i] = c.eventStream(expect[*wire.Subscribed](s).SubscriptionID)
	}
	s.send(&wire.Subscribe{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}})
	if e := expect[*wire.Error](s); e.Code != "limit_exceeded" || e.Retry != "fatal" {
		t.Errorf("one too many: %+v", e)
	}
	fill(r.connect(), "demo", 0, 2, 100)
	for i, e := range all {
		if got := e.payloads(2); got[0] != record(0, 100) || got[1] != record(1, 100) {
			t.Fatalf("subscription %d got %q", i, got)
		}
	}
}
