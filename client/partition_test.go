package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/felixproto/wire"
)

// TestMurmur2 publishes keys by Kafka's hash, under each guarantee and kind of answer.
func TestMurmur2(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	const shards, n = 6, 60
	for _, o := range []client.PublisherOptions{
		{},
		{Ack: client.AckMessage},
		{Guarantee: client.AtLeastOnce},
		{Guarantee: client.AtMostOnce},
		{Guarantee: client.AtMostOnce, Ack: client.AckMessage},
		{Guarantee: client.AtMostOnce, Ack: client.AckNone},
	} {
		name := fmt.Sprintf("murmur2-%d-%d", o.Guarantee, o.Ack)
		t.Run(name, func(t *testing.T) {
			stream := s.create(name, shards, true)
			o.Partitioner = client.Murmur2
			p, err := c.NewPublisher(stream, o)
			must(t, err)
			var mu sync.Mutex
			want := map[uint32][]string{}
			for i := range n {
				key := fmt.Appendf(nil, "key %d", i/2%10)
				if i/2%10 == 9 {
					key = []byte{}
				}
				shard := client.KafkaShardOf(key, shards)
				mu.Lock()
				place := int64(len(want[shard]))
				want[shard] = append(want[shard], named(i))
				mu.Unlock()
				must(t, p.PublishAsync(ctx, client.Record{Key: key, Value: []byte(named(i))}, func(a client.Ack, err error) {
					if o.Ack == client.AckNone {
						place = client.NoOffset
					}
					if err != nil || a != (client.Ack{Shard: shard, Offset: place}) {
						t.Errorf("record %d: %+v, %v, want %d of shard %d", i, a, err, place, shard)
					}
				}))
			}
			must(t, p.Close(ctx))
			for shard := range uint32(shards) {
				var got []string
				for r, err := range c.Records(ctx, stream, shard, client.ReadOptions{}) {
					must(t, err)
					got = append(got, string(r.Value))
				}
				if !slices.Equal(got, want[shard]) {
					t.Errorf("shard %d holds %q, want %q", shard, got, want[shard])
				}
			}
		})
	}
}

// TestStickyShards publishes records without a key by Kafka's rule: a batch's worth to one shard, the next to another or the same.
func TestStickyShards(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	const shards, batches = 2, 40
	stream := s.create("sticky", shards, true)
	for _, tc := range []struct {
		name  string
		o     client.PublisherOptions
		value int // bytes
		run   int // records that stay together
	}{
		{"records", client.PublisherOptions{MaxBatchRecords: 5}, 10, 5},
		{"bytes", client.PublisherOptions{MaxBatchBytes: 100}, 21, 4}, // with their lengths
		{"each", client.PublisherOptions{Ack: client.AckMessage}, 10, 1},
		{"larger_than_a_batch", client.PublisherOptions{MaxBatchBytes: 100}, 200, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.Partitioner = client.Murmur2
			p, err := c.NewPublisher(stream, tc.o)
			must(t, err)
			var seen []uint32
			for i := range batches * tc.run {
				ack, err := p.Publish(ctx, client.Record{Value: make([]byte, tc.value)})
				must(t, err)
				if len(seen) > 0 && i%tc.run != 0 && seen[len(seen)-1] != ack.Shard {
					t.Fatalf("record %d is on shard %d, those before it of the same batch on %d", i, ack.Shard, seen[len(seen)-1])
				}
				seen = append(seen, ack.Shard)
			}
			must(t, p.Close(ctx))
			slices.Sort(seen)
			if got := slices.Compact(seen); !slices.Equal(got, []uint32{0, 1}) {
				t.Errorf("%d batches lie on the shards %v", batches, got)
			}
		})
	}
	p, err := c.NewPublisher(stream, client.PublisherOptions{Partitioner: client.Murmur2, MaxBatchRecords: 3})
	must(t, err)
	on := map[uint32]bool{}
	for range batches {
		ack, err := p.PublishBatch(ctx, nil, []byte("a"), []byte("b"), []byte("c"), []byte("d"))
		must(t, err)
		b, err := c.Bounds(ctx, stream, ack.Shard)
		if err != nil || b.End != ack.Offset+4 {
			t.Fatalf("a batch of 4 at %+v, bounds %+v, %v", ack, b, err)
		}
		on[ack.Shard] = true
	}
	if len(on) != shards {
		t.Errorf("%d batches lie on the shards %v", batches, on)
	}
	if ack, err := p.PublishBatch(ctx, nil); err != nil || ack.Offset != client.NoOffset {
		t.Errorf("an empty batch: %+v, %v", ack, err)
	}
	must(t, p.Close(ctx))
}

// TestNamedShards has records name their shards, among others that do not.
func TestNamedShards(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	const shards, n = 3, 90
	stream := s.create("named", shards, true)
	p, err := c.NewPublisher(stream, client.PublisherOptions{})
	must(t, err)
	key := []byte("customer-7")
	home, err := c.ShardOf(ctx, stream, key)
	must(t, err)
	want := map[uint32][]string{}
	for i := range n {
		r := client.Record{Key: key, Value: []byte(named(i))}
		shard := home
		if i%4 != 0 {
			shard = uint32(i) % shards
			r.Shard = &shard
		}
		if i%7 == 0 {
			r.Key = nil
			if r.Shard == nil {
				shard = 0
			}
		}
		place := int64(len(want[shard]))
		want[shard] = append(want[shard], named(i))
		to := shard
		must(t, p.PublishAsync(ctx, r, func(a client.Ack, err error) {
			if err != nil || a != (client.Ack{Shard: to, Offset: place}) {
				t.Errorf("record %d: %+v, %v, want %d of shard %d", i, a, err, place, to)
			}
		}))
		shard = 99 // the call has read it
	}
	must(t, p.Wait(ctx))
	for shard := range uint32(shards) {
		ack, err := p.PublishBatchTo(ctx, shard, key, []byte("a"), []byte("b"))
		if wanted := (client.Ack{Shard: shard, Offset: int64(len(want[shard]))}); err != nil || ack != wanted {
			t.Errorf("batch: %+v, %v, want %+v", ack, err, wanted)
		}
		var got []string
		for r, err := range c.Records(ctx, stream, shard, client.ReadOptions{}) {
			must(t, err)
			got = append(got, string(r.Value))
		}
		if !slices.Equal(got, append(want[shard], "a", "b")) {
			t.Errorf("shard %d holds %q, want %q", shard, got, want[shard])
		}
	}
	for _, shard := range []uint32{shards, 1<<32 - 1} {
		if _, err := p.Publish(ctx, client.Record{Shard: &shard}); !errors.Is(err, client.ErrInvalidRequest) {
			t.Errorf("shard %d: %v", shard, err)
		}
		if _, err := p.PublishBatchTo(ctx, shard, nil, nil); !errors.Is(err, client.ErrInvalidRequest) {
			t.Errorf("shard %d: %v", shard, err)
		}
	}
	must(t, p.Close(ctx))
}

// TestNamedShardSizes refuses what does not fit the longer form.
func TestNamedShardSizes(t *testing.T) {
	f := newFake(t, "n1")
	f.explicit = true
	ctx := limited(t)
	p, err := f.connect().NewPublisher(fakeName, client.PublisherOptions{Partitioner: client.Murmur2})
	must(t, err)
	key := make([]byte, 60_000)
	if _, err := p.Publish(ctx, client.Record{Key: key, Value: make([]byte, 12_600_000)}); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, err := p.PublishBatch(ctx, key, make([]byte, 7_000_000), make([]byte, 7_000_000)); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, err := p.PublishBatch(ctx, key, make([]byte, 1_000_000), nil, []byte("a")); err != nil {
		t.Error(err)
	}
	must(t, p.Close(ctx))
}

// TestShardsNotTaken publishes to a server that would ignore the shards: those that name one fail, the others go on.
func TestShardsNotTaken(t *testing.T) {
	for _, g := range []client.Guarantee{client.Idempotent, client.AtLeastOnce, client.AtMostOnce} {
		t.Run(fmt.Sprint(g), func(t *testing.T) {
			f := newFake(t, "n1")
			c := f.connect()
			ctx := limited(t)
			p, err := c.NewPublisher(fakeName, client.PublisherOptions{Guarantee: g, MaxBatchRecords: 2})
			must(t, err)
			const n = 30
			out := newOutcomes()
			var want []string
			for i := range n {
				r := client.Record{Value: fmt.Append(nil, i)}
				if i%5 == 2 {
					r.Shard = new(uint32)
				} else {
					want = append(want, fmt.Sprint(i))
				}
				must(t, p.PublishAsync(ctx, r, out.of(i)))
			}
			must(t, p.Close(ctx))
			if got := f.stored(); !slices.Equal(got, want) {
				t.Errorf("stored %q, want %q", got, want)
			}
			for i := range n {
				if _, failed := out.errs[i]; failed != (i%5 == 2) || failed && !errors.Is(out.errs[i], client.ErrUnsupported) {
					t.Errorf("record %d: %v", i, out.errs[i])
				}
			}
			if !slices.IsSorted(out.told) {
				t.Errorf("told %v", out.told)
			}
			p, err = c.NewPublisher(fakeName, client.PublisherOptions{Guarantee: g, Partitioner: client.Murmur2})
			must(t, err)
			_, err = p.Publish(ctx, client.Record{Key: []byte("k")})
			if !errors.Is(err, client.ErrUnsupported) || errors.Is(err, client.ErrOutcomeUnknown) {
				t.Errorf("got %v", err)
			}
			must(t, p.Close(ctx))
		})
	}
}

// TestNamedShardRequests has conditional publishes, commits and reads of state name their shard.
func TestNamedShardRequests(t *testing.T) {
	s := startServer(t)
	c := s.connect()
	ctx := limited(t)
	const shards = 3
	stream := s.create("named-requests", shards, true)
	key := []byte("order-42")
	for shard := range uint32(shards) {
		ack, err := c.PublishIfTo(ctx, stream, shard, 0, key, []byte("a"), []byte("b"))
		if err != nil || ack != (client.Ack{Shard: shard}) {
			t.Fatalf("shard %d: %+v, %v", shard, ack, err)
		}
		var mismatch *client.OffsetMismatchError
		if _, err := c.PublishIfTo(ctx, stream, shard, 0, key, []byte("a")); !errors.As(err, &mismatch) || mismatch.Tail != 2 {
			t.Errorf("shard %d: %v", shard, err)
		}
		ack, err = c.Commit(ctx, stream, client.Commit{
			EntityKey: key, Event: []byte("e"), Shard: &shard, Changes: []client.Change{{Key: "at", Value: fmt.Append(nil, shard)}},
		})
		if err != nil || ack != (client.Ack{Shard: shard, Offset: 2}) {
			t.Errorf("shard %d: %+v, %v", shard, ack, err)
		}
	}
	for shard := range uint32(shards) {
		state, err := c.StateIn(ctx, stream, shard, key, "at")
		if err != nil || string(state.Value) != fmt.Sprint(shard) || state.Version != 2 {
			t.Errorf("shard %d: %+v, %v", shard, state, err)
		}
	}
	home, err := c.ShardOf(ctx, stream, key)
	must(t, err)
	if state, err := c.State(ctx, stream, key, "at"); err != nil || string(state.Value) != fmt.Sprint(home) {
		t.Errorf("by key: %+v, %v", state, err)
	}
	missing := uint32(shards)
	_, err1 := c.PublishIfTo(ctx, stream, missing, 0, key, []byte("a"))
	_, err2 := c.Commit(ctx, stream, client.Commit{EntityKey: key, Shard: &missing})
	_, err3 := c.StateIn(ctx, stream, missing, key, "at")
	for i, err := range []error{err1, err2, err3} {
		if !errors.Is(err, client.ErrInvalidRequest) {
			t.Errorf("request %d to a shard that is not there: %v", i, err)
		}
	}
}

// TestRequestShardsNotTaken: nothing is sent to a server that would ignore the shard.
func TestRequestShardsNotTaken(t *testing.T) {
	f := newFake(t, "n1")
	f.request = func(_ *fakeStream, m wire.Message) bool {
		switch m.(type) {
		case *wire.PublishIf, *wire.Commit, *wire.StateGet:
			t.Errorf("got %+v", m)
		}
		return false
	}
	c := f.connect()
	ctx := limited(t)
	shard := uint32(0)
	_, err1 := c.PublishIfTo(ctx, fakeName, shard, 0, nil, []byte("a"))
	_, err2 := c.Commit(ctx, fakeName, client.Commit{Shard: &shard})
	_, err3 := c.StateIn(ctx, fakeName, shard, nil, "k")
	for i, err := range []error{err1, err2, err3} {
		if !errors.Is(err, client.ErrUnsupported) || errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("request %d: %v", i, err)
		}
	}
}

// TestGrownStream: a publisher with Murmur2 learns in time that there are more shards, as Kafka's clients do.
func TestGrownStream(t *testing.T) {
	f := newFake(t, "n1")
	f.explicit = true
	c := f.connect()
	ctx := limited(t)
	p, err := c.NewPublisher(fakeName, client.PublisherOptions{Partitioner: client.Murmur2})
	must(t, err)
	p.SetRouteAge(0)
	key := []byte("foobar")
	const shards = 10
	publish := func() uint32 {
		t.Helper()
		ack, err := p.Publish(ctx, client.Record{Key: key})
		must(t, err)
		return ack.Shard
	}
	if got := publish(); got != 0 {
		t.Errorf("of one shard: %d", got)
	}
	f.set(func() { f.shards = shards })
	waitUntil(t, func() bool { return publish() == client.KafkaShardOf(key, shards) })
	// A server that does not answer holds nothing up, and nothing back.
	f.set(func() { f.shards = 0 })
	for range 10 {
		if got := publish(); got != client.KafkaShardOf(key, shards) {
			t.Errorf("shard %d", got)
		}
	}
	must(t, p.Close(context.WithoutCancel(ctx)))
}
