package client

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/felixlog/felix/client"
)

// row is one behaviour of spec/streams.md, section 19.
type row struct {
	numbers string // rows of the table
	name    string
	only    string // "native" if Kafka's protocol cannot express it; empty for both
	run     func(t *testing.T, f *fleet, s side)
}

var rows = []row{
	{"S-01", "fire_and_forget", "native", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{memory: true})
		r := s.subscribe(t, name, 0, fromNext)
		p := native(s).publisher(t, name, client.PublisherOptions{Ack: client.AckNone, Guarantee: client.AtMostOnce})
		ack, err := p.Publish(limited(t), client.Record{Value: []byte("v")})
		if err != nil || ack.Offset != client.NoOffset {
			t.Errorf("got %+v, %v", ack, err)
		}
		if got := r.next(); got.value != "v" || got.offset != client.NoOffset {
			t.Errorf("got %+v", got)
		}
	}},
	{"S-02", "ephemeral_answer_has_no_offset", "native", func(t *testing.T, f *fleet, s side) {
		if got := s.publish(t, f.create(t, streamConfig{memory: true}), nil, "v"); got.offset != client.NoOffset {
			t.Errorf("got %+v", got)
		}
	}},
	{"S-03", "acknowledged_is_readable", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		for i := range int64(20) {
			if got := s.publish(t, name, nil, "v"); got.offset != i {
				t.Fatalf("record %d is at %+v", i, got)
			}
			if start, end := s.bounds(t, name, 0); start != 0 || end != i+1 {
				t.Fatalf("record %d is acknowledged, and the bounds are %d, %d", i, start, end)
			}
		}
	}},
	{"S-07, S-89", "killed_and_resumed", "", func(t *testing.T, _ *fleet, _ side) {
		f := newFleet(t)
		for name, s := range sides(t, f) {
			t.Run(name, func(t *testing.T) {
				name := f.create(t, streamConfig{})
				r := s.subscribe(t, name, 0, fromOldest)
				w := s.writer(t, name)
				const rounds, n = 3, 200
				for round := range rounds {
					for i := range n {
						w.send(nil, fmt.Sprint(round*n+i), nil)
					}
					if round < rounds-1 {
						take(r, n/2) // the kill meets some on the way
						f.kill(t, f.leader(name, 0))
						take(r, n/2)
					}
				}
				w.wait()
				inOrder(t, take(r, n), (rounds-1)*n)
				r.close()
				inOrder(t, take(s.subscribe(t, name, 0, 150), rounds*n-150), 150)
			})
		}
	}},
	{"S-15, S-16, S-17", "keys_and_shards", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{shards: 8})
		w := s.writer(t, name)
		var mu sync.Mutex
		var at []placed
		for i := range 100 {
			w.send([]byte("one key"), fmt.Sprint(i), func(p placed) {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, p)
			})
		}
		w.wait()
		inOrder(t, take(s.subscribe(t, name, at[0].shard, fromOldest), 100), 0)
		if got := s.publish(t, name, nil, "none"); got.shard != 0 {
			t.Errorf("without a key: %+v", got)
		}
		if got := s.publish(t, name, []byte{}, "empty"); got.shard != 3 { // the hash of the empty key is 3 modulo 8
			t.Errorf("with an empty key: %+v", got)
		}
	}},
	{"S-18", "one_hash", "native", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{shards: 7})
		c := native(s).c
		w := s.writer(t, name)
		for i := range 2000 {
			key := fmt.Appendf(nil, "key %d", i)
			want, err := c.ShardOf(limited(t), stream(name), key)
			must(t, err)
			w.send(key, fmt.Sprint(want), nil)
		}
		w.wait()
		total := 0
		for shard := range uint32(7) {
			_, end := s.bounds(t, name, shard)
			total += int(end)
			for _, r := range take(s.subscribe(t, name, shard, fromOldest), int(end)) {
				if r.value != fmt.Sprint(shard) {
					t.Fatalf("shard %d holds a record of shard %s", shard, r.value)
				}
			}
		}
		if total != 2000 {
			t.Errorf("%d records", total)
		}
	}},
	{"S-23", "unknown_and_forbidden", "native", func(t *testing.T, f *fleet, s side) {
		c := native(s).c
		_, err := c.Shards(limited(t), client.Stream{Name: "nowhere"})
		if !errors.Is(err, client.ErrNotFound) {
			t.Errorf("an unknown stream: %v", err)
		}
		_, err = client.Connect(limited(t), client.Config{
			Addrs: []string{f.nodes[0].Bound("native")}, CAFile: f.dev("ca.pem"), Token: client.TokenFile(f.dev("token")), Tenant: "another",
		})
		if !errors.Is(err, client.ErrUnauthenticated) && !errors.Is(err, client.ErrForbidden) {
			t.Errorf("another tenant: %v", err)
		}
	}},
	{"S-43", "ten_thousand_single_records", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		r := s.subscribe(t, name, 0, fromNext)
		w := s.writer(t, name)
		const n = 10_000
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range n {
				w.send(nil, fmt.Sprint(i), nil)
			}
		})
		inOrder(t, take(r, n), 0)
		wg.Wait()
		w.wait()
	}},
	{"S-44", "batch", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		live := s.subscribe(t, name, 0, fromNext)
		values := make([]string, 64)
		for i := range values {
			values[i] = fmt.Sprint(i)
		}
		if got := s.publish(t, name, nil, values...); got.offset != 0 {
			t.Errorf("got %+v", got)
		}
		inOrder(t, take(live, 64), 0)
		inOrder(t, take(s.subscribe(t, name, 0, fromOldest), 64), 0)
	}},
	{"S-45", "one_order_for_everybody", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		const writers, readers, n = 8, 4, 200
		var live []reader
		for range readers {
			live = append(live, s.subscribe(t, name, 0, fromNext))
		}
		var wg sync.WaitGroup
		for i := range writers {
			w := s.writer(t, name)
			wg.Go(func() {
				for j := range n {
					w.send(nil, fmt.Sprintf("%d %d", i, j), nil)
				}
				w.wait()
			})
		}
		all := take(live[0], writers*n)
		wg.Wait()
		for i, r := range append(live[1:], s.subscribe(t, name, 0, fromOldest)) {
			if got := take(r, writers*n); !slices.EqualFunc(got, all, func(a, b record) bool { return a.offset == b.offset && a.value == b.value }) {
				t.Errorf("reader %d got another order", i+1)
			}
		}
		last := make([]int, writers)
		for i, r := range all {
			var w, j int
			_, err := fmt.Sscan(r.value, &w, &j)
			must(t, err)
			if r.offset != int64(i) || j != last[w] {
				t.Fatalf("%+v at %d, where record %d of writer %d is next", r, i, last[w], w)
			}
			last[w]++
		}
	}},
	{"S-48", "history_meets_the_present", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		w := s.writer(t, name)
		for i := range 100 {
			w.send(nil, fmt.Sprint(i), nil)
		}
		w.wait()
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 100; i < 2000; i++ {
				w.send(nil, fmt.Sprint(i), nil)
			}
		})
		inOrder(t, take(s.subscribe(t, name, 0, 40), 1960), 40)
		wg.Wait()
		w.wait()
	}},
	{"S-49", "latest", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		s.publish(t, name, nil, "0", "1", "2")
		r := s.subscribe(t, name, 0, fromNext)
		s.publish(t, name, nil, "3")
		inOrder(t, []record{r.next()}, 3)
	}},
	{"S-50", "trimmed_head", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		values := make([]string, 100)
		for i := range values {
			values[i] = fmt.Sprint(i)
		}
		s.publish(t, name, nil, values...)
		adm := kadm.NewClient(f.kgo(t))
		deleted, err := adm.DeleteRecords(limited(t), kadm.Offsets{name: {0: kadm.Offset{Topic: name, At: 50}}})
		must(t, err)
		must(t, deleted.Error())
		if start, end := s.bounds(t, name, 0); start != 50 || end != 100 {
			t.Errorf("bounds %d, %d", start, end)
		}
		inOrder(t, take(s.subscribe(t, name, 0, fromOldest), 50), 50)
		n, ok := s.(*nativeSide)
		if !ok {
			return
		}
		for at, want := range map[int64]client.CursorError{
			10:  {Reason: client.TooOld, Requested: 10, Available: 50},
			101: {Reason: client.InFuture, Requested: 101, Available: 100},
		} {
			_, err := n.c.Subscribe(limited(t), stream(name), client.SubscribeOptions{Start: client.FromOffset(at)})
			var cursor *client.CursorError
			if !errors.As(err, &cursor) || *cursor != want {
				t.Errorf("from %d: %v", at, err)
			}
		}
	}},
	{"S-54", "ephemeral_history", "native", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{memory: true})
		s.publish(t, name, nil, "a", "b")
		for _, want := range []string{"a", "b"} {
			r := s.subscribe(t, name, 0, fromOldest)
			if got := r.next(); got.value != "a" || got.offset != client.NoOffset {
				t.Errorf("got %+v", got)
			}
			if got := r.next(); got.value != "b" {
				t.Errorf("got %+v, want %s", got, want)
			}
		}
	}},
	{"S-57, S-58, S-59", "slow_subscriber_is_told", "native", func(t *testing.T, f *fleet, _ side) {
		n := newNative(t, f, func(c *client.Config) { c.StreamWindowBytes = 1 << 14 })
		name := f.create(t, streamConfig{})
		sub, err := n.c.Subscribe(limited(t), stream(name), client.SubscribeOptions{QueueCapacity: 2})
		must(t, err)
		defer func() { must(t, sub.Close()) }()
		p := n.publisher(t, name, client.PublisherOptions{MaxBatchRecords: 1})
		// Whoever reads, however slowly, is not told: the server waits for a while whether anything moves. A subscription that has not yet
		// met the present reads the log at its own pace, and so there are rounds.
		const records = 200
		next, told := int64(0), false
		for end := int64(records); !told; end += records {
			for range records {
				must(t, p.PublishAsync(t.Context(), client.Record{Value: make([]byte, 2000)}, nil))
			}
			must(t, p.Wait(limited(t)))
			awaitDropping(t, n.c, name, 10*time.Second)
			for next < end {
				e, err := sub.Next(limited(t))
				var lagged *client.LaggedError
				if errors.As(err, &lagged) && lagged.ResumeFrom == next {
					told = true
					continue
				}
				must(t, err)
				if e.Offset != next {
					t.Fatalf("offset %d, want %d", e.Offset, next)
				}
				next++
			}
			if !told && end > 10*records {
				t.Fatal("it was not told")
			}
		}
	}},
	{"S-66", "queue_capacity", "native", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		sub, err := native(s).c.Subscribe(limited(t), stream(name), client.SubscribeOptions{QueueCapacity: 100_000})
		must(t, err)
		if got := sub.Shards()[0].QueueCapacity; got != 4096 {
			t.Errorf("granted %d", got)
		}
		must(t, sub.Close())
	}},
	{"S-78", "conditional_publish", "native", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		c := native(s).c
		const writers, rounds = 4, 25
		for round := range int64(rounds) {
			var wg sync.WaitGroup
			won := make([]bool, writers)
			for i := range writers {
				wg.Go(func() {
					ack, err := c.PublishIf(limited(t), stream(name), round, nil, []byte(fmt.Sprint(round)))
					var mismatch *client.OffsetMismatchError
					switch {
					case err == nil && ack.Offset == round:
						won[i] = true
					case errors.As(err, &mismatch) && mismatch.Tail == round+1:
					default:
						t.Errorf("round %d: %+v, %v", round, ack, err)
					}
				})
			}
			wg.Wait()
			if n := len(slices.DeleteFunc(won, func(w bool) bool { return !w })); n != 1 {
				t.Fatalf("round %d: %d writers succeeded", round, n)
			}
		}
		inOrder(t, take(s.subscribe(t, name, 0, fromOldest), rounds), 0)
	}},
	{"S-80, S-84", "ephemeral_refuses", "native", func(t *testing.T, f *fleet, s side) {
		c, memory, log := native(s).c, stream(f.create(t, streamConfig{memory: true})), stream(f.create(t, streamConfig{}))
		_, conditional := c.PublishIf(limited(t), memory, 0, nil, []byte("v"))
		_, empty := c.PublishIf(limited(t), log, 0, nil)
		_, commit := c.Commit(limited(t), memory, client.Commit{EntityKey: []byte("e"), Event: []byte("v")})
		_, read := c.Read(limited(t), memory, 0, client.ReadOptions{})
		_, look := c.OffsetForTime(limited(t), memory, 0, time.Now())
		for i, err := range []error{conditional, empty, commit, read, look} {
			if !errors.Is(err, client.ErrInvalidRequest) {
				t.Errorf("%d: %v", i, err)
			}
		}
	}},
	{"S-82, S-83", "commit", "native", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		c := native(s).c
		entity := []byte("e")
		ack, err := c.Commit(limited(t), stream(name), client.Commit{EntityKey: entity, Event: []byte("0"), Changes: []client.Change{{Key: "k", Value: []byte("v")}}})
		must(t, err)
		state, err := c.State(limited(t), stream(name), entity, "k")
		if err != nil || string(state.Value) != "v" || state.Version != ack.Offset || state.AsOf < ack.Offset {
			t.Errorf("got %+v, %v", state, err)
		}
		s.publish(t, name, nil, "1")
		expected := ack.Offset + 1
		_, err = c.Commit(limited(t), stream(name), client.Commit{
			EntityKey: entity, Event: []byte("never"), Changes: []client.Change{{Key: "k", Value: []byte("w")}}, Expected: &expected,
		})
		var mismatch *client.OffsetMismatchError
		if !errors.As(err, &mismatch) || mismatch.Tail != expected+1 {
			t.Errorf("got %v", err)
		}
		if state, err := c.State(limited(t), stream(name), entity, "k"); err != nil || string(state.Value) != "v" {
			t.Errorf("got %+v, %v", state, err)
		}
		inOrder(t, take(s.subscribe(t, name, 0, fromOldest), 2), 0)
	}},
	{"S-85", "bounded_read", "native", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		values := make([]string, 600)
		for i := range values {
			values[i] = fmt.Sprint(i)
		}
		s.publish(t, name, nil, values...)
		var got []record
		for r, err := range native(s).c.Records(limited(t), stream(name), 0, client.ReadOptions{To: 1000, MaxRecords: 37}) {
			must(t, err)
			got = append(got, record{offset: r.Offset, value: string(r.Value)})
		}
		if len(got) != 600 {
			t.Fatalf("%d records", len(got))
		}
		inOrder(t, got, 0)
		page, err := native(s).c.Read(limited(t), stream(name), 0, client.ReadOptions{From: 600})
		if err != nil || len(page.Records) != 0 || page.Next != 600 {
			t.Errorf("at the end: %+v, %v", page, err)
		}
	}},
	{"S-86", "retention_by_size", "", func(t *testing.T, f *fleet, s side) {
		bytes, segment := "2097152", "1048576"
		name := f.create(t, streamConfig{kafka: map[string]*string{"retention.bytes": &bytes, "segment.bytes": &segment}})
		w := s.writer(t, name)
		const n = 5000
		for i := range n {
			w.send(nil, fmt.Sprintf("%d %01000d", i, 0), nil)
		}
		w.wait()
		// A pass a second: one that comes while records are read would overtake them.
		start, end, since := int64(0), int64(0), time.Now()
		eventually(t, "the head is trimmed, and stays", func() bool {
			before := start
			if start, end = s.bounds(t, name, 0); start != before {
				since = time.Now()
			}
			return start > n/4 && time.Since(since) > 3*time.Second
		})
		got := take(s.subscribe(t, name, 0, fromOldest), int(end-start))
		if got[0].offset < start || got[len(got)-1].offset != n-1 {
			t.Errorf("from %d to %d within %d, %d", got[0].offset, got[len(got)-1].offset, start, end)
		}
	}},
	{"S-91", "two_streams", "", func(t *testing.T, f *fleet, s side) {
		names := []string{f.create(t, streamConfig{}), f.create(t, streamConfig{})}
		writers := []writer{s.writer(t, names[0]), s.writer(t, names[1])}
		for i := range 200 {
			writers[i%2].send(nil, fmt.Sprint(i/2), nil)
		}
		for i, name := range names {
			writers[i].wait()
			inOrder(t, take(s.subscribe(t, name, 0, fromOldest), 100), 0)
		}
	}},
	{"S-92", "times_live_and_replayed", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		live := s.subscribe(t, name, 0, fromNext)
		for i := range 5 {
			s.publish(t, name, nil, fmt.Sprint(i))
		}
		first := take(live, 5)
		for i, r := range take(s.subscribe(t, name, 0, fromOldest), 5) {
			if !r.at.Equal(first[i].at) || r.at.IsZero() {
				t.Errorf("record %d: written at %v live and %v replayed", i, first[i].at, r.at)
			}
		}
	}},
	{"14.2", "time_look_up", "", func(t *testing.T, f *fleet, s side) {
		name := f.create(t, streamConfig{})
		r := s.subscribe(t, name, 0, fromOldest)
		var at []time.Time
		for i := range 5 {
			s.publish(t, name, nil, fmt.Sprint(i))
			at = append(at, r.next().at)
			eventually(t, "a millisecond later", func() bool { return time.Since(at[i]) > 2*time.Millisecond })
		}
		for i, moment := range at {
			if got := s.offsetAt(t, name, 0, moment); got != int64(i) {
				t.Errorf("at the time of record %d: %d", i, got)
			}
		}
		if got := s.offsetAt(t, name, 0, at[0].Add(-time.Hour)); got != 0 {
			t.Errorf("before all: %d", got)
		}
		if got := s.offsetAt(t, name, 0, time.Now().Add(time.Hour)); got != -1 {
			t.Errorf("after all: %d", got)
		}
	}},
}

// awaitDropping waits until a subscriber of a stream is not given some event, for so long at most.
func awaitDropping(t *testing.T, c *client.Client, name string, most time.Duration) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < most; <-tick.C {
		for _, err := range c.Subscriptions(limited(t), "", client.SubscriptionFilter{Stream: name, Dropping: true}) {
			must(t, err)
			return
		}
	}
}

// native is the Go client of a row that only it can run.
func native(s side) *nativeSide {
	n, _ := s.(*nativeSide)
	return n
}

// inOrder checks that records hold "from", "from+1", ... at these offsets.
func inOrder(t *testing.T, got []record, from int) {
	t.Helper()
	for i, r := range got {
		if r.offset != int64(from+i) || r.value != fmt.Sprint(from+i) {
			t.Fatalf("%+v where record %d is next", r, from+i)
		}
	}
}

// TestRows runs the table with each side.
func TestRows(t *testing.T) {
	for name, s := range sides(t, shared) {
		t.Run(name, func(t *testing.T) {
			for _, r := range rows {
				if r.only == "" || r.only == name {
					t.Run(r.name, func(t *testing.T) { r.run(t, shared, s) })
				}
			}
		})
	}
}
