package client

import (
	"bytes"
	"context"
	"testing"

	"github.com/felixlog/felix/felixproto/wire"
)

// FuzzAnswer gives a lane whatever a server may say on its stream: nothing panics, every record is told one outcome, and outcomes come in
// order.
func FuzzAnswer(f *testing.F) {
	ok := wire.AppendMessage(nil, &wire.PublishOK{RequestID: 1, Offset: wire.Some[uint64](7)})
	f.Add(uint8(0), ok)
	f.Add(uint8(0), append(ok, wire.AppendMessage(nil, &wire.PublishError{RequestID: 2, Failure: wire.Failure{Code: "overloaded", Retry: "retry_after"}})...))
	f.Add(uint8(0), wire.AppendMessage(nil, &wire.PublishRefused{RequestID: 1, Reason: wire.RefusedUnknownProducer}))
	f.Add(uint8(0), wire.AppendMessage(nil, &wire.PublishRefused{RequestID: 2, Reason: wire.RefusedSequenceGap, Expected: 0}))
	f.Add(uint8(0), wire.AppendMessage(nil, &wire.PublishRefused{RequestID: 1, Reason: wire.RefusedNotLeader, NodeID: "n", Addr: "127.0.0.1:1"}))
	f.Add(uint8(1), wire.AppendPublishAck(nil, &wire.PublishAck{RequestID: 1, Offset: wire.Some[uint64](1)}, wire.KnownFlags))
	f.Add(uint8(2), wire.AppendPublishAck(nil, &wire.PublishAck{
		RequestID: 3, Failed: true, Code: wire.CodeInternal, Retry: wire.RetryOutcomeUnknown, Reason: "r", RetryAfterMillis: 1 << 60,
	}, wire.KnownFlags))
	for guarantee := range uint8(18) {
		f.Add(guarantee, ok)
	}
	f.Fuzz(func(t *testing.T, guarantee uint8, stream []byte) {
		const records = 6
		l := testLane(PublisherOptions{Guarantee: Guarantee(guarantee % 3), MaxBatchRecords: 2})
		// Half of the numbers have shards named; for a third of those the server takes none.
		l.mixed, l.explicit = guarantee/3%2 == 1, guarantee/6%3 != 0
		var told []int
		for i := range records {
			l.mustAdd([]byte{byte(i)}, func(Ack, error) { told = append(told, i) })
		}
		var first uint64
		fill := func() {
			if _, err := l.fill(&first); err != nil {
				if l.explicit || l.sent > 0 {
					t.Fatalf("%d batches are on the way: %v", l.sent, err)
				}
				l.lost(err)
				l.failed(err)
			}
		}
		fill()
		in := bytes.NewReader(stream)
		for {
			h, payload, err := wire.ReadFrame(in, nil, 1<<16)
			if err != nil {
				break
			}
			request, offset, refused, err := parseAnswer(h.Flags, payload)
			if err != nil || l.answered(request, offset, refused) != nil {
				break
			}
			l.hold = l.hold.Add(-maxHold)
			fill()
		}
		l.lost(&ConnectionError{Addr: "a", Err: errStreamEnded})
		l.shut()
		for i, n := range told {
			if i != n {
				t.Fatalf("told %v", told)
			}
		}
		if len(told) != records || l.p.budget.used != 0 || l.p.budget.records != 0 {
			t.Fatalf("told %v, %d bytes of %d records left", told, l.p.budget.used, l.p.budget.records)
		}
	})
}

const maxHold = maxRetryAfter * 1_000_000

// testLane is a lane without a connection.
func testLane(o PublisherOptions) *testedLane {
	cfg := Config{}.withDefaults()
	c := &Client{cfg: cfg, routes: map[Stream]*route{}}
	o = o.withDefaults()
	p := &Publisher{c: c, stream: Stream{Name: "s"}, opts: o, names: [3][]byte{[]byte("default"), []byte("default"), []byte("s")}}
	p.budget.limit = o.MaxBufferedBytes
	l := newLane(p, 0)
	l.producer = 1
	return &testedLane{lane: l}
}

type testedLane struct {
	*lane
	mixed bool // records with odd values name their shard
}

func (l *testedLane) mustAdd(value []byte, done func(Ack, error)) {
	size := len(value) + payloadPrefix
	if err := l.p.budget.acquire(context.Background(), nil, costOf(nil, size)); err != nil {
		panic(err)
	}
	l.add(nil, value, l.mixed && value[0]%2 == 1, size, promise{done: done})
}

// FuzzEventStream gives a reader whatever a server may send on an event stream: nothing panics, and offsets only rise.
func FuzzEventStream(f *testing.F) {
	batch := func(base, skipped uint64, flags wire.Flags) []byte {
		head := wire.EventHead{Flags: flags, BaseOffset: base, SkippedBefore: skipped}
		return wire.AppendEventBatch(nil, &head, 1, wire.MakePayloads([]byte("a"), []byte("b")))
	}
	const offsets = wire.FlagOffsets | wire.FlagSkipped
	f.Add(true, batch(0, 0, offsets))
	f.Add(true, append(batch(0, 0, offsets), batch(5, 3, offsets|wire.FlagTimestamps)...))
	f.Add(true, append(batch(3, 0, offsets), batch(3, 0, offsets)...))
	f.Add(true, batch(1<<64-3, 0, offsets))
	f.Add(false, batch(0, 0, 0))
	f.Add(true, wire.AppendMessage(nil, &wire.SubscriptionLagged{SubscriptionID: 1, ResumeFrom: 1 << 63}))
	f.Add(true, wire.AppendMessage(nil, &wire.ShardMoved{SubscriptionID: 1, ResumeFrom: wire.Some[uint64](9), Addr: "127.0.0.1:1"}))
	f.Add(true, wire.AppendMessage(nil, &wire.EventMessage{Payload: []byte("p"), Offset: wire.Some[uint64](0)}))
	f.Add(true, wire.AppendMessage(nil, &wire.EventBatchMessage{Payloads: wire.MakePayloads([]byte("p")), BaseOffset: wire.Some[uint64](0)}))
	f.Fuzz(func(t *testing.T, durable bool, stream []byte) {
		for _, reuse := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			s := &Subscription{
				c: &Client{cfg: Config{}.withDefaults(), routes: map[Stream]*route{}}, opts: SubscribeOptions{ReuseBuffers: reuse},
				out: make(chan *delivery, 1), life: ctx,
			}
			r := newReader(s, 0)
			answer := &wire.Subscribed{}
			if durable {
				answer.StartOffset, answer.LiveOffset = wire.Some[uint64](0), wire.Some[uint64](0)
			}
			r.accept(answer)
			in := bytes.NewReader(stream)
			next := int64(0)
			for r.frame(in) == nil {
				select {
				case d := <-s.out:
					for _, e := range d.events {
						if durable && (e.Offset < next || e.SkippedBefore != e.Offset-next) || !durable && e.Offset != NoOffset {
							t.Fatalf("%+v where %d is next", e, next)
						}
						next = e.Offset + 1
					}
					r.reuse(d)
				default: // it had no events
				}
			}
			cancel()
		}
	})
}
