package felixproto

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
)

// The numbers of these tests are the rows of the streams rules, section 19.

// fill publishes n records of size bytes to a stream of t1 and waits for every answer.
func fill(c *rigConn, stream string, from, n, size int) {
	c.t.Helper()
	s := c.open("admin")
	for i := from; i < from+n; i++ {
		s.publish(uint64(i), stream, record(i, size))
	}
	for i := from; i < from+n; i++ {
		if a := s.ack(); a.Failed || a.RequestID != uint64(i) {
			c.t.Fatalf("publish %d: %+v", i, a)
		}
	}
}

func record(i, size int) string {
	text := fmt.Sprintf("%08d", i)
	return text + strings.Repeat("x", max(size-len(text), 0))
}

// TestStalledSubscriber is S-57 to S-59, S-61: a reader that stops is told where to resume, and nobody else notices.
func TestStalledSubscriber(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *Options) { o.QueueCapacity = 4096 }})
	r.stream("demo", 1, true)
	slow, fast := r.connect(), r.connect()
	sub, stalled := slow.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), QueueCapacity: wire.Some(uint32(8))})
	if sub.QueueCapacity != wire.Some(uint32(8)) {
		t.Errorf("granted %+v", sub.QueueCapacity)
	}
	_, events := fast.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	const n, size = 1000, 4 << 10 // four times what the client's windows hold
	done := make(chan struct{})
	go func() {
		defer close(done)
		fill(r.connect(), "demo", 0, n, size)
	}()
	for i := range n {
		if ev := events.next(); ev.Offset != uint64(i) || string(ev.Payload) != record(i, size) {
			t.Fatalf("the fast one got %d, want %d", ev.Offset, i)
		}
	}
	<-done
	// Nothing is published any more; the notice comes all the same, behind what was queued.
	eventually(t, func() bool { return counter(t, r, "felix_sub_queue_dropped_total") > 0 })
	next := uint64(0)
	for {
		b, m, err := stalled.batch()
		must(t, err)
		if m != nil {
			lag, ok := m.(*wire.SubscriptionLagged)
			if !ok || lag.ResumeFrom != next || lag.SubscriptionID != sub.SubscriptionID {
				t.Fatalf("got %T %+v after %d", m, m, next)
			}
			break
		}
		for ev := range b.All() {
			if ev.Offset != next {
				t.Fatalf("the stalled one got %d, want %d", ev.Offset, next)
			}
			next++
		}
	}
	if _, _, err := stalled.batch(); !errors.Is(err, io.EOF) {
		t.Errorf("after the notice: %v", err)
	}
	if next == 0 || next >= n {
		t.Fatalf("the stalled one was given %d of %d", next, n)
	}
	_, again := slow.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartOffset, Offset: next}})
	for i := next; i < n; i++ {
		if ev := again.next(); ev.Offset != i {
			t.Fatalf("resumed at %d, want %d", ev.Offset, i)
		}
	}
	if got := counter(t, r, "felix_sub_queue_dropped_total"); got == 0 {
		t.Error("no drop was counted")
	}
}

// settled waits until the hub has queued or dropped each of n records for the one subscriber there is, since that goes on after the
// acknowledgements, and says how many it dropped.
func settled(t *testing.T, r *rig, n int) (dropped int) {
	t.Helper()
	eventually(t, func() bool {
		queued := int(counter(t, r, "felix_sub_queue_enqueued_total"))
		dropped = int(counter(t, r, "felix_sub_queue_dropped_total"))
		return queued+dropped == n
	})
	return dropped
}

// TestStalledSubscriberInMemory is S-60: drops are silent, and the reader goes on with what comes.
func TestStalledSubscriberInMemory(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("eph", 1, false)
	c := r.connect()
	_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("eph"), QueueCapacity: wire.Some(uint32(4))})
	const n, size = 1000, 4 << 10
	fill(r.connect(), "eph", 0, n, size)
	dropped := settled(t, r, n)
	if dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	for range n - dropped {
		events.next()
	}
	fill(r.connect(), "eph", n, 1, 8)
	if ev := events.next(); string(ev.Payload) != record(n, 8) {
		t.Errorf("after the drops came %q", ev.Payload[:8])
	}
}

// TestStalledOldClient is S-64: without the feature the subscription lives, and the jump in offsets is what was dropped.
func TestStalledOldClient(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	s := c.openAs("t1", "admin", plainFlags, plainFeatures&^wire.FeatureSubscriptionLagged)
	s.send(&wire.Subscribe{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, QueueCapacity: wire.Some(uint32(4))})
	events := c.eventStream(expect[*wire.Subscribed](s).SubscriptionID)
	const n, size = 1000, 4 << 10
	fill(r.connect(), "demo", 0, n, size)
	dropped := settled(t, r, n)
	if dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	jumps, next := 0, uint64(0)
	for range n - dropped {
		ev := events.next()
		jumps += int(ev.Offset - next)
		next = ev.Offset + 1
	}
	fill(r.connect(), "demo", n, 1, 8)
	b, m, err := events.batch()
	must(t, err)
	if m != nil {
		t.Fatalf("got %T", m)
	}
	for ev := range b.All() {
		jumps += int(ev.Offset - next)
	}
	if jumps != dropped || b.SkippedBefore != 0 {
		t.Errorf("offsets jumped by %d (%d of them announced), %d were dropped", jumps, b.SkippedBefore, dropped)
	}
}

// TestManySubscriptions is S-63 and S-90.
func TestManySubscriptions(t *testing.T) {
	const n = 300 // of a connection; the cap is tried at a smaller number in TestSubscriptionCaps
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	all := make([]*rigEvents, n)
	for i := range all {
		_, all[i] = c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	}
	fill(r.connect(), "demo", 0, 1, 100)
	for _, e := range all {
		if ev := e.next(); ev.Offset != 0 || string(ev.Payload) != record(0, 100) {
			t.Fatalf("got %d %q", ev.Offset, ev.Payload)
		}
	}
}

// TestStarts is S-49, S-50, S-54 and S-66.
func TestStarts(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.stream("demo", 1, true)
	r.stream("eph", 1, false)
	c := r.connect()
	fill(c, "demo", 0, 100, 10)
	fill(c, "eph", 0, 5, 10)
	shard, err := r.broker.Shard(topic, 0)
	must(t, err)
	_, err = shard.DeleteRecords(t.Context(), 50)
	must(t, err)

	sub, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	if sub.StartOffset != wire.Some(uint64(100)) || sub.LiveOffset != sub.StartOffset {
		t.Errorf("S-49: %+v", sub)
	}
	fill(c, "demo", 100, 1, 10)
	if ev := events.next(); ev.Offset != 100 {
		t.Errorf("S-49: first event %d", ev.Offset)
	}
	sub, events = c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartEarliest}})
	if ev := events.next(); sub.StartOffset != wire.Some(uint64(50)) || ev.Offset != 50 {
		t.Errorf("S-50: %+v, first event %d", sub, ev.Offset)
	}
	for _, bad := range []struct {
		at        uint64
		reason    wire.CursorReason
		available uint64
	}{{10, wire.CursorTooOld, 50}, {102, wire.CursorInFuture, 101}, {1<<64 - 1, wire.CursorInFuture, 101}} {
		s := c.open("admin")
		s.send(&wire.Subscribe{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, Start: wire.Start{Kind: wire.StartOffset, Offset: bad.at}})
		if e := expect[*wire.SubscribeCursorError](s); e.Reason != bad.reason || e.Available != bad.available || e.Requested != bad.at {
			t.Errorf("S-50: %+v, want %+v", e, bad)
		}
	}
	_, events = c.subscribe("admin", &wire.Subscribe{StreamScope: scope("eph"), Start: wire.Start{Kind: wire.StartEarliest}})
	b, _, err := events.batch()
	must(t, err)
	if b.Flags.Has(wire.FlagOffsets) || b.Count() == 0 {
		t.Errorf("S-54: flags %v, %d events", b.Flags, b.Count())
	}
	for asked, granted := range map[uint32]uint32{100000: 4096, 0: 1, 7: 7} {
		sub, _ := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), QueueCapacity: wire.Some(asked)})
		if sub.QueueCapacity != wire.Some(granted) {
			t.Errorf("S-66: asked for %d, got %+v", asked, sub.QueueCapacity)
		}
	}
}

// TestEventFacts is S-92 and a join in the middle of a batch: times are the same live and replayed, and go to who asked.
func TestEventFacts(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	s := c.openAs("t1", "admin", plainFlags|wire.FlagTimestamps, allFeatures)
	s.send(&wire.Subscribe{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}})
	live := c.eventStream(expect[*wire.Subscribed](s).SubscriptionID)
	p := c.open("admin")
	p.publish(1, "demo", "a", "b", "c")
	p.ack()
	first := live.next()
	s.send(&wire.Subscribe{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, Start: wire.Start{Kind: wire.StartOffset, Offset: 0}})
	replayed := c.eventStream(expect[*wire.Subscribed](s).SubscriptionID).next()
	if first.TimestampMicros == 0 || first.TimestampMicros != replayed.TimestampMicros || first.TimestampMicros%1000 != 0 {
		t.Errorf("times %d and %d", first.TimestampMicros, replayed.TimestampMicros)
	}
	_, plain := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartOffset, Offset: 1}})
	b, _, err := plain.batch()
	must(t, err)
	if b.Flags != wire.FlagSharedEventBatch|wire.FlagOffsets || b.BaseOffset != 1 || b.Count() != 2 {
		t.Errorf("plain batch: flags %v, base %d, %d events", b.Flags, b.BaseOffset, b.Count())
	}
}

// TestRacingPublishers is S-45: everybody sees one order, which is that of offsets.
func TestRacingPublishers(t *testing.T) {
	const publishers, each, subscribers = 8, 200, 4
	r := newRig(t, rigOptions{server: func(o *Options) { o.QueueCapacity = 4096 }})
	r.stream("demo", 1, true)
	c := r.connect()
	var live []*rigEvents
	for range subscribers {
		_, e := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
		live = append(live, e)
	}
	var wg sync.WaitGroup
	for p := range publishers {
		conn := r.connect()
		wg.Go(func() {
			s := conn.open("admin")
			for i := range each {
				s.publish(uint64(i), "demo", fmt.Sprintf("%d/%d", p, i))
			}
			for range each {
				s.ack()
			}
		})
	}
	wg.Wait()
	_, replay := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartEarliest}})
	want := replay.payloads(publishers * each)
	last := map[string]int{}
	for _, w := range want {
		p, i, _ := strings.Cut(w, "/")
		n := 0
		_, err := fmt.Sscan(i, &n)
		must(t, err)
		if n != last[p] {
			t.Fatalf("publisher %s: %d, want %d", p, n, last[p])
		}
		last[p]++
	}
	for i, e := range live {
		for at, got := range e.payloads(publishers * each) {
			if got != want[at] {
				t.Fatalf("subscriber %d got %q at %d, want %q", i, got, at, want[at])
			}
		}
	}
}

// TestWindow is S-41: with a granted window the rest waits in flow control and nothing is refused.
func TestWindow(t *testing.T) {
	r := newRig(t, rigOptions{sync: log.SyncOnCommit, idle: true})
	r.stream("demo", 1, true)
	c := r.connect()
	s := c.open("admin")
	if s.ok.PublishWindow != wire.Some(uint32(256)) {
		t.Fatalf("window %+v", s.ok.PublishWindow)
	}
	const n = 300
	for i := range n {
		s.publish(uint64(i), "demo", "x")
	}
	var st *stream
	eventually(t, func() bool {
		for _, conn := range r.server.all() {
			conn.mu.Lock()
			for open := range conn.open {
				st = open
			}
			conn.mu.Unlock()
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.owed == 256
	})
	r.syncer.Start()
	for i := range n {
		if a := s.ack(); a.Failed || a.RequestID != uint64(i) || a.Offset != wire.Some(uint64(i)) {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
}

// TestAnswersInOrder is S-42: what is ready early waits for what was asked before it, and other answers do not.
func TestAnswersInOrder(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	s := c.open("admin")
	s.publish(1, "demo", "x")
	s.ack()
	conn := r.server.all()[0]
	conn.mu.Lock()
	var st *stream
	for open := range conn.open {
		st = open
	}
	conn.mu.Unlock()
	var pubs []*publication
	for id := range 3 {
		p, err := st.open(&publishRequest{id: uint64(10 + id), answer: answerBinary}, broker.OnCommit)
		must(t, err)
		pubs = append(pubs, p)
	}
	pubs[2].finished(nil, broker.PublishResult{Offset: 7})
	pubs[1].finished(nil, broker.PublishResult{Offset: ids.NoOffset})
	s.send(&wire.Topology{})
	expect[*wire.TopologyView](s)
	pubs[0].finished(nil, broker.PublishResult{Offset: 5})
	for i, want := range []wire.Opt[uint64]{wire.Some(uint64(5)), {}, wire.Some(uint64(7))} {
		if a := s.ack(); a.RequestID != uint64(10+i) || a.Offset != want {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
}

// TestRepeatedKeyIsBounded: a frame that would become far more than itself is refused before room is made for it.
func TestRepeatedKeyIsBounded(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	s := c.open("admin")
	s.publish(1, "demo", "x")
	s.ack()
	conn := r.server.all()[0]
	conn.mu.Lock()
	var st *stream
	for open := range conn.open {
		st = open
	}
	conn.mu.Unlock()
	ref, err := st.batch(&publishRequest{key: make([]byte, 1<<16-1), payloads: wire.MakePayloads(make([][]byte, 1000)...)})
	if err == nil {
		t.Errorf("a batch of %d bytes", len(ref.Bytes()))
	}
}

// TestAckModes is S-04 and S-05: a server that answers when a publish is queued, and a client of it that asks for more.
func TestAckModes(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *Options) { o.AckOnCommit = false }})
	r.stream("demo", 1, true)
	c := r.connect()
	plain := c.open("admin")
	sure := c.openAs("t1", "admin", plainFlags, plainFeatures|wire.FeatureAckOnCommit)
	plain.publish(1, "demo", "x")
	if a := plain.ack(); a.Failed || a.Offset.Set {
		t.Errorf("queued: %+v", a)
	}
	sure.publish(1, "demo", "x")
	if a := sure.ack(); a.Failed || !a.Offset.Set {
		t.Errorf("committed: %+v", a)
	}
	plain.publish(2, "demo", "x")
	if a := plain.ack(); a.Failed || a.Offset.Set {
		t.Errorf("queued again: %+v", a)
	}
}

// TestKeys is S-15 to S-17: binary and JSON forms go to the same shard, an empty key is hashed, no key is shard 0.
func TestKeys(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.stream("demo", 8, true)
	c := r.connect()
	s := c.open("admin")
	end := func(shard uint32) int64 {
		sh, err := r.broker.Shard(topic, int32(shard))
		must(t, err)
		return int64(sh.Bounds().End)
	}
	for _, key := range [][]byte{nil, {}, []byte("customer-1"), []byte("k7")} {
		want := wire.ShardOf(key, 8, wire.MappingModulo)
		before := end(want)
		s.publishAs(&wire.BinaryPublish{RequestID: 1, Ack: wire.AckPerBatch, Key: key, Stream: []byte("demo")}, "x")
		s.ack()
		s.send(&wire.Publish{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, Payload: []byte("x"), Key: key, RequestID: wire.Some(uint64(2)), Ack: wire.AckPerMessage})
		expect[*wire.PublishOK](s)
		if got := end(want) - before; got != 2 {
			t.Errorf("key %q: %d records on shard %d, want 2", key, got, want)
		}
	}
}

// TestRefusedOnMemoryStreams is S-80 and S-84.
func TestRefusedOnMemoryStreams(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("eph", 1, false)
	r.stream("demo", 1, true)
	s := r.connect().open("admin")
	at := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "eph"}
	durable := at
	durable.Stream = "demo"
	for _, m := range []wire.Message{
		&wire.PublishIf{StreamScope: at, Payloads: wire.MakePayloads([]byte("x")), RequestID: 1},
		&wire.PublishIf{StreamScope: durable, RequestID: 1},
		&wire.Commit{StreamScope: at, EntityKey: []byte("e"), Event: []byte("x"), RequestID: 1},
		&wire.StateGet{StreamScope: at, EntityKey: []byte("e"), Key: "k", RequestID: 1},
		&wire.StreamRead{StreamScope: at, RequestID: 1},
		&wire.OffsetForTime{StreamScope: at, RequestID: 1},
	} {
		s.send(m)
		if e := expect[*wire.Error](s); e.Code != "invalid_request" || e.Retry != "fatal" {
			t.Errorf("%s: %+v", wire.TypeOf(m), e)
		}
	}
	s.send(&wire.PublishIf{StreamScope: durable, Payloads: wire.MakePayloads([]byte("a"), []byte("b")), RequestID: 2})
	if ok := expect[*wire.PublishOK](s); ok.Offset != wire.Some(uint64(0)) {
		t.Errorf("%+v", ok)
	}
	s.send(&wire.PublishIf{StreamScope: durable, Payloads: wire.MakePayloads([]byte("a")), RequestID: 3, ExpectedOffset: 1})
	if no := expect[*wire.PublishRefused](s); no.Reason != wire.RefusedOffsetMismatch || no.Tail != 2 {
		t.Errorf("S-78: %+v", no)
	}
}

// TestPages is S-85.
func TestPages(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	fill(c, "demo", 0, 600, 10)
	s := c.open("admin")
	next, got := uint64(0), 0
	for {
		s.send(&wire.StreamRead{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, From: next, End: wire.Some(uint64(1000)), MaxRecords: 97, RequestID: 1})
		page := expect[*wire.StreamRecords](s)
		for _, rec := range page.Records {
			if rec.Offset != uint64(got) || string(rec.Payload) != record(got, 10) {
				t.Fatalf("record %d %q, want %d", rec.Offset, rec.Payload, got)
			}
			got++
		}
		if len(page.Records) == 0 {
			if page.NextOffset != next {
				t.Errorf("an empty page moved from %d to %d", next, page.NextOffset)
			}
			break
		}
		next = page.NextOffset
	}
	if got != 600 {
		t.Errorf("%d records", got)
	}
	s.send(&wire.StreamRead{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, From: 10, End: wire.Some(uint64(5)), RequestID: 1})
	if page := expect[*wire.StreamRecords](s); len(page.Records) != 0 {
		t.Errorf("an empty range gave %d records", len(page.Records))
	}
}

// TestDeletedStreamEndsItsReaders drops a stream under its subscribers.
func TestDeletedStreamEndsItsReaders(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.stream("demo", 1, true)
	c := r.connect()
	_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	fill(c, "demo", 0, 1, 10)
	events.next()
	r.delete(topic)
	if _, m, err := events.batch(); err == nil {
		t.Errorf("got %T", m)
	}
	s := c.open("admin")
	s.publish(1, "demo", "x")
	if a := s.ack(); a.Code != wire.CodeNotFound || a.Retry != wire.RetryAfter {
		t.Errorf("publish after the deletion: %+v", a)
	}
}

// TestCloseAnswers is a stop under load: what was taken on is answered.
func TestCloseAnswers(t *testing.T) {
	r := newRig(t, rigOptions{sync: log.SyncOnCommit})
	r.stream("demo", 1, true)
	c := r.connect()
	s := c.open("admin")
	const n = 200
	for i := range n {
		s.publish(uint64(i), "demo", "x")
	}
	s.ack()
	r.server.goodbye = time.Minute // answers may take their time
	closed := make(chan error, 1)
	go func() { closed <- r.server.Close(t.Context()) }()
	acked := 1
	for {
		_, payload, err := s.frame()
		if err != nil {
			break
		}
		if payload[0] == 0 {
			acked++
		}
	}
	must(t, c.q.CloseWithError(0, ""))
	must(t, <-closed)
	topic := r.meta.Image().Topic("t1", "default", "demo")
	shard, err := r.broker.Shard(topic, 0)
	must(t, err)
	if written := int(shard.Bounds().End); written != acked {
		t.Errorf("%d written, %d answered", written, acked)
	}
}

// TestUnknownNames is S-23.
func TestUnknownNames(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	s := c.open("admin")
	for _, at := range []wire.StreamScope{
		{TenantID: "t1", Namespace: "none", Stream: "demo"}, {TenantID: "t1", Namespace: "default", Stream: "none"},
	} {
		s.send(&wire.Publish{StreamScope: at, Payload: []byte("x"), RequestID: wire.Some(uint64(1)), Ack: wire.AckPerMessage})
		if e := expect[*wire.PublishError](s); e.Code != "not_found" || e.Retry != "retry_after" {
			t.Errorf("publish to %+v: %+v", at, e)
		}
		s.send(&wire.Subscribe{StreamScope: at})
		if e := expect[*wire.Error](s); e.Code != "not_found" || e.Retry != "retry_after" {
			t.Errorf("subscribe to %+v: %+v", at, e)
		}
	}
	other := c.openAs("t2", "admin", plainFlags, plainFeatures)
	other.publishAs(&wire.BinaryPublish{RequestID: 5, Ack: wire.AckPerBatch, Stream: []byte("demo")}, "x")
	if a := other.ack(); a.Code != wire.CodeForbidden {
		t.Errorf("another tenant's token: %+v", a)
	}
	other.send(&wire.StreamShards{StreamScope: wire.StreamScope{TenantID: "t2", Namespace: "default", Stream: "demo"}, RequestID: 1})
	if v := expect[*wire.StreamShardsView](other); v.Shards != 0 {
		t.Errorf("another tenant sees %d shards", v.Shards)
	}
}

// TestSendOrder is S-43 and S-44: one publisher's records stay in order, a batch of 64 is one answer and one run of offsets.
func TestSendOrder(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *Options) { o.QueueCapacity = 1 << 20 }})
	r.stream("demo", 1, true)
	c := r.connect()
	_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	const n = 10000
	done := make(chan struct{})
	go func() {
		defer close(done)
		fill(r.connect(), "demo", 0, n, 20)
	}()
	for i := range n {
		if ev := events.next(); ev.Offset != uint64(i) || string(ev.Payload) != record(i, 20) {
			t.Fatalf("event %d %q, want %d", ev.Offset, ev.Payload, i)
		}
	}
	<-done
	batch := make([]string, 64)
	for i := range batch {
		batch[i] = named(i)
	}
	s := c.open("admin")
	s.publish(1, "demo", batch...)
	if a := s.ack(); a.Offset != wire.Some(uint64(n)) {
		t.Errorf("batch: %+v", a)
	}
	for i := range batch {
		if ev := events.next(); ev.Offset != uint64(n+i) || string(ev.Payload) != named(i) {
			t.Fatalf("event %d %q", ev.Offset, ev.Payload)
		}
	}
}

// TestNeighbourOfABlockedSubscription is S-62: a blocked subscription drops for itself, and another on the same connection loses nothing.
func TestNeighbourOfABlockedSubscription(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *Options) { o.QueueCapacity = 4096 }})
	r.stream("demo", 1, true)
	c := r.connect()
	_, blocked := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), QueueCapacity: wire.Some(uint32(4))})
	_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	const n, size = 600, 4 << 10
	done := make(chan struct{})
	go func() {
		defer close(done)
		fill(r.connect(), "demo", 0, n, size)
	}()
	for i := range n {
		if ev := events.next(); ev.Offset != uint64(i) {
			t.Fatalf("the neighbour got %d, want %d", ev.Offset, i)
		}
	}
	<-done
	eventually(t, func() bool { return counter(t, r, "felix_sub_queue_dropped_total") > 0 })
	lagged := false
	for !lagged {
		_, m, err := blocked.batch()
		must(t, err)
		_, lagged = m.(*wire.SubscriptionLagged)
	}
}

// TestTwoStreams is S-91 and S-83: each stream is in order for itself, and a conditional commit leaves nothing when another write came.
func TestTwoStreams(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("a", 1, true)
	r.stream("b", 1, true)
	c := r.connect()
	_, ea := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("a")})
	_, eb := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("b")})
	s := c.open("admin")
	for i := range 100 {
		s.publish(uint64(2*i), "a", named(i))
		s.publish(uint64(2*i+1), "b", named(i))
	}
	for i := range 200 {
		if a := s.ack(); a.RequestID != uint64(i) || a.Failed {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
	for i := range 100 {
		if x, y := ea.next(), eb.next(); string(x.Payload) != named(i) || string(y.Payload) != named(i) {
			t.Fatalf("event %d: %q and %q", i, x.Payload, y.Payload)
		}
	}
	at := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "a"}
	s.send(&wire.Commit{StreamScope: at, EntityKey: []byte("e"), Event: []byte("x"), RequestID: 1, ExpectedOffset: wire.Some(uint64(99)), Changes: []wire.Change{{Op: wire.ChangePut, Key: "k", Value: []byte("v")}}})
	if no := expect[*wire.PublishRefused](s); no.Tail != 100 {
		t.Errorf("refused %+v", no)
	}
	s.send(&wire.StateGet{StreamScope: at, EntityKey: []byte("e"), Key: "k", RequestID: 2})
	if v := expect[*wire.StateValue](s); v.Value != nil || v.AsOf.Set {
		t.Errorf("state of a refused commit: %+v", v)
	}
}

// TestQuota is S-38 and row 72 of the security rules: over the tenant's rate a publish is refused with a wait, and written after it.
func TestQuota(t *testing.T) {
	r := newRig(t, rigOptions{broker: func(o *broker.Options) {
		o.Quotas = broker.PublishQuotas{Default: broker.PublishRate{Messages: 1}, Burst: 10 * time.Second}
	}})
	r.stream("demo", 1, true)
	s := r.connect().open("admin")
	const n = 50
	for i := range n {
		s.publish(uint64(i), "demo", "x")
	}
	refused := 0
	for i := range n {
		a := s.ack()
		if a.RequestID != uint64(i) {
			t.Fatalf("answer %d: %+v", i, a)
		}
		if a.Failed {
			refused++
			if a.Code != wire.CodeOverloaded || a.Retry != wire.RetryAfter || a.Reason != wire.ReasonTenantQuota || a.RetryAfterMillis == 0 {
				t.Errorf("refusal %+v", a)
			}
		}
	}
	if refused == 0 || refused == n {
		t.Errorf("%d of %d refused", refused, n)
	}
}

// TestTimesAreAskedForLate has readers that want times join while frames without them are on their way.
func TestTimesAreAskedForLate(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *Options) { o.QueueCapacity = 1 << 20 }})
	r.stream("demo", 1, true)
	c := r.connect()
	_, plain := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
	const n = 2000
	done := make(chan struct{})
	go func() {
		defer close(done)
		fill(r.connect(), "demo", 0, n, 20)
	}()
	var late []*rigEvents
	for i := range n {
		if ev := plain.next(); ev.Offset != uint64(i) {
			t.Fatalf("event %d, want %d", ev.Offset, i)
		}
		if i%200 == 0 {
			s := c.openAs("t1", "admin", plainFlags|wire.FlagTimestamps, allFeatures)
			s.send(&wire.Subscribe{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, Start: wire.Start{Kind: wire.StartOffset, Offset: uint64(i)}})
			late = append(late, c.eventStream(expect[*wire.Subscribed](s).SubscriptionID))
		}
	}
	<-done
	for k, e := range late {
		for i := 200 * k; i < n; i++ {
			if ev := e.next(); ev.Offset != uint64(i) || ev.TimestampMicros == 0 {
				t.Fatalf("reader %d: event %d at %d, want %d", k, ev.Offset, ev.TimestampMicros, i)
			}
		}
	}
}

// TestHandOver: a lone reader comes from a history that is longer than its queue into the present. What was published meanwhile is history
// too, for the reader's own pace.
func TestHandOver(t *testing.T) {
	const before, during, size = 2000, 2000, 2000
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	fill(c, "demo", 0, before, size)
	_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartEarliest}})
	fill(r.connect(), "demo", before, during, size)
	for i := range before + during {
		if ev := events.next(); ev.Offset != uint64(i) {
			t.Fatalf("event %d, want %d", ev.Offset, i)
		}
	}
}

// TestReplayThatEndsLeavesNothing stops a reader in the middle of its history.
func TestReplayThatEndsLeavesNothing(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	fill(c, "demo", 0, 2000, 2000)
	_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartEarliest}})
	events.next()
	events.q.CancelRead(0)
	eventually(t, func() bool {
		r.server.hubs.mu.Lock()
		defer r.server.hubs.mu.Unlock()
		return len(r.server.all()[0].subscriptionList()) == 0 && len(r.server.hubs.byShard) == 0
	})
}

// TestLargeFramesTogether: frames that together are larger than the memory for reading are read in turn.
func TestLargeFramesTogether(t *testing.T) {
	r := newRig(t, rigOptions{server: func(o *Options) { o.MemoryBudget, o.MaxStreamWindow = 16<<20, 256<<10 }})
	r.stream("demo", 1, true)
	const n = 16
	var all []*rigStream
	for i := range n {
		s := r.connect().open("admin")
		all = append(all, s)
		go s.publish(uint64(i), "demo", record(i, 1<<20))
	}
	for i, s := range all {
		if a := s.ack(); a.Failed || a.RequestID != uint64(i) {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	eventually(t, func() bool { return r.server.reading.inUse() == 0 })
}

// TestProducerNobodyHas publishes with an id that is never given out.
func TestProducerNobodyHas(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	s := r.connect().open("admin")
	s.send(&wire.PublishIdempotent{
		StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, RequestID: 1, Sequence: 7, Payloads: wire.MakePayloads([]byte("x")),
	})
	if no := expect[*wire.PublishRefused](s); no.Reason != wire.RefusedUnknownProducer {
		t.Errorf("got %+v", no)
	}
}

// TestKeysCount: a key that is repeated in every record counts for what the publisher may have under way.
func TestKeysCount(t *testing.T) {
	r := publishRequest{key: make([]byte, 32<<10), payloads: wire.MakePayloads(make([][]byte, 120)...)}
	if n := r.size(); n < 120*32<<10 {
		t.Errorf("120 records with a key of 32 KiB count as %d bytes", n)
	}
}
