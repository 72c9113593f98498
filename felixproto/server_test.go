package felixproto

import (
	"slices"
	"testing"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/ids"
)

func scope(stream string) wire.StreamScope { return wire.StreamScope{Stream: stream} }

// TestPublishAndSubscribe is the main job, durable and ephemeral: S-01 to S-03.
func TestPublishAndSubscribe(t *testing.T) {
	for _, durable := range []bool{true, false} {
		t.Run(map[bool]string{true: "durable", false: "ephemeral"}[durable], func(t *testing.T) {
			r := newRig(t, rigOptions{})
			r.stream("demo", 1, durable)
			c := r.connect()
			sub, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo")})
			if sub.StartOffset.Set != durable || sub.LiveOffset.Set != durable {
				t.Errorf("offsets in %+v of a stream that is durable: %v", sub, durable)
			}
			p := c.open("admin")
			p.publish(7, "demo", "a", "bc")
			ack := p.ack()
			if ack.RequestID != 7 || ack.Failed || ack.Offset.Set != durable || ack.Offset.Value != 0 {
				t.Errorf("ack %+v", ack)
			}
			p.publishAs(&wire.BinaryPublish{Stream: []byte("demo")}, "unacked")
			if got := events.payloads(3); !slices.Equal(got, []string{"a", "bc", "unacked"}) {
				t.Errorf("events %q", got)
			}
			p.publish(8, "demo", "last")
			if ack := p.ack(); ack.RequestID != 8 || durable && ack.Offset.Value != 3 {
				t.Errorf("ack %+v", ack)
			}
			ev := events.next()
			if string(ev.Payload) != "last" || durable && ev.Offset != 3 {
				t.Errorf("event %+v", ev)
			}
		})
	}
}

// TestReplayJoinsLive is S-48: a reader that begins in the past meets a publisher that goes on, without a gap or a repeat.
func TestReplayJoinsLive(t *testing.T) {
	// The queue holds all that is published meanwhile: a reader that is held up must not be taken for a slow one here.
	r := newRig(t, rigOptions{server: func(o *Options) { o.QueueCapacity = 4096 }})
	r.stream("demo", 1, true)
	c := r.connect()
	p := c.open("admin")
	const before, during = 100, 3000
	for i := range before {
		p.publish(uint64(i), "demo", named(i))
	}
	for range before {
		p.ack()
	}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		q := c.open("admin")
		for i := before; i < before+during; i++ {
			q.publish(uint64(i), "demo", named(i))
		}
		for range during {
			q.ack()
		}
	}()
	sub, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), Start: wire.Start{Kind: wire.StartOffset, Offset: 40}})
	if sub.StartOffset.Value != 40 || sub.LiveOffset.Value < before {
		t.Errorf("subscribed %+v", sub)
	}
	for want := 40; want < before+during; want++ {
		ev := events.next()
		if ev.Offset != uint64(want) || string(ev.Payload) != named(want) {
			t.Fatalf("event %d %q, want %d", ev.Offset, ev.Payload, want)
		}
	}
	<-stop
}

// TestReadsAndTimes reads pages and looks times up.
func TestReadsAndTimes(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	p := c.open("admin")
	for i := range 10 {
		p.publish(uint64(i), "demo", named(i))
		p.ack()
	}
	s := c.open("admin")
	s.send(&wire.StreamRead{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, From: 3, MaxRecords: 4, RequestID: 1})
	page := expect[*wire.StreamRecords](s)
	if len(page.Records) != 4 || page.Records[0].Offset != 3 || string(page.Records[3].Payload) != named(6) || page.NextOffset != 7 {
		t.Errorf("page %+v", page)
	}
	s.send(&wire.StreamRead{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, From: 10, RequestID: 2})
	if page := expect[*wire.StreamRecords](s); len(page.Records) != 0 || page.NextOffset != 10 {
		t.Errorf("page at the tail %+v", page)
	}
	s.send(&wire.StreamRead{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, From: 11, RequestID: 3})
	if bad := expect[*wire.SubscribeCursorError](s); bad.Reason != wire.CursorInFuture || bad.Available != 10 {
		t.Errorf("past the tail: %+v", bad)
	}
	s.send(&wire.OffsetForTime{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, AtMicros: 1, RequestID: 4})
	if v := expect[*wire.OffsetValue](s); !v.Offset.Set || v.Offset.Value != 0 {
		t.Errorf("offset for time %+v", v)
	}
}

// TestCommitAndState writes an event with state and reads both: S-82.
func TestCommitAndState(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 2, true)
	c := r.connect()
	s := c.open("admin")
	at := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}
	s.send(&wire.Commit{StreamScope: at, EntityKey: []byte("order-1"), Event: []byte("paid"), RequestID: 5, Changes: []wire.Change{
		{Op: wire.ChangePut, Key: "status", Value: []byte("paid")}, {Op: wire.ChangePut, Key: "gone", Value: []byte("x")}, {Op: wire.ChangeDelete, Key: "gone"},
	}})
	ok := expect[*wire.CommitOK](s)
	if ok.RequestID != 5 || ok.Offset != 0 {
		t.Errorf("commit %+v", ok)
	}
	for key, want := range map[string]string{"status": "paid", "gone": "", "never": ""} {
		s.send(&wire.StateGet{StreamScope: at, EntityKey: []byte("order-1"), Key: key, RequestID: 6})
		v := expect[*wire.StateValue](s)
		if string(v.Value) != want || v.AsOf != wire.Some(uint64(0)) || v.Version.Set != (want != "") {
			t.Errorf("state of %q: %+v", key, v)
		}
	}
	s.send(&wire.Commit{StreamScope: at, EntityKey: []byte("order-1"), Event: []byte("again"), RequestID: 7, ExpectedOffset: wire.Some(uint64(0))})
	if refused := expect[*wire.PublishRefused](s); refused.Reason != wire.RefusedOffsetMismatch || refused.Tail != 1 {
		t.Errorf("conditional commit %+v", refused)
	}
}

// TestIdempotentProducer numbers batches: S-71, S-74, S-75.
func TestIdempotentProducer(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.stream("demo", 1, true)
	c := r.connect()
	s := c.open("admin")
	s.send(&wire.ProducerInit{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}, RequestID: 1})
	id := expect[*wire.ProducerInitOK](s).ProducerID
	send := func(request, sequence uint64, payload string) {
		s.publishAs(&wire.BinaryPublish{RequestID: request, Idempotent: true, ProducerID: id, Sequence: sequence, Stream: []byte("demo")}, payload)
	}
	send(2, 0, "first")
	if ok := expect[*wire.PublishOK](s); ok.Offset != wire.Some(uint64(0)) {
		t.Errorf("first %+v", ok)
	}
	send(3, 0, "first")
	if ok := expect[*wire.PublishOK](s); ok.Offset != wire.Some(uint64(0)) {
		t.Errorf("sent again %+v", ok)
	}
	send(4, 0, "other")
	if no := expect[*wire.PublishRefused](s); no.Reason != wire.RefusedSequenceReused {
		t.Errorf("reused %+v", no)
	}
	send(5, 2, "gap")
	if no := expect[*wire.PublishRefused](s); no.Reason != wire.RefusedSequenceGap || no.Expected != 1 {
		t.Errorf("gap %+v", no)
	}
	b, err := r.broker.Shard(r.meta.Image().Topic("t1", "default", "demo"), 0)
	must(t, err)
	if end := b.Bounds().End; end != ids.Offset(1) {
		t.Errorf("log end %d after one batch", end)
	}
}

// TestStateOfADeletedStream is forgotten.
func TestStateOfADeletedStream(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.stream("demo", 1, true)
	s := r.connect().open("admin")
	at := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}
	s.send(&wire.Commit{StreamScope: at, EntityKey: []byte("e"), Event: []byte("x"), RequestID: 1, Changes: []wire.Change{
		{Op: wire.ChangePut, Key: "k", Value: []byte("v")},
	}})
	expect[*wire.CommitOK](s)
	s.send(&wire.StateGet{StreamScope: at, EntityKey: []byte("e"), Key: "k", RequestID: 2})
	if v := expect[*wire.StateValue](s); string(v.Value) != "v" || r.server.states.Held() == 0 {
		t.Errorf("state %+v, %d bytes are held", v, r.server.states.Held())
	}
	r.delete(topic)
	eventually(t, func() bool { return r.server.states.Held() == 0 })
}
