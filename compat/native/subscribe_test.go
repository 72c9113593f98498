package native

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestSubscribe begins at the latest and the earliest event and at an offset, in the middle and at the end, and then gets what comes.
func TestSubscribe(t *testing.T) {
	const held = 6
	each(t, func(t *testing.T, a *agent) {
		for _, c := range []struct {
			name  string
			start any
			first int64
		}{
			{"default", nil, held},
			{"latest", "latest", held},
			{"earliest", "earliest", 0},
			{"first-offset", 0, 0},
			{"offset", 4, 4},
			{"end", held, held},
		} {
			t.Run(c.name, func(t *testing.T) {
				stream := suite.server.durable(t, 1)
				all := payloads("e", held+3)
				a.call(t, "publish", request{"client": "dev", "stream": stream, "payloads": all[:held]})
				a.call(t, "subscribe", request{"client": "dev", "subscription": stream, "stream": stream, "start": c.start})
				a.call(t, "publish", request{"client": "dev", "stream": stream, "payloads": all[held:]})
				want := all[c.first:]
				got := a.call(t, "next", request{"subscription": stream, "count": len(want), "timeout": 10}).Events
				wantEvents(t, got, c.first, want...)
				if more := a.call(t, "next", request{"subscription": stream, "count": 1, "timeout": 0.1}).Events; len(more) != 0 {
					t.Errorf("one more event, %q", more[0].Payload)
				}
				a.call(t, "close", request{"subscription": stream})
			})
		}
	})
}

// TestEphemeralReplay begins an ephemeral stream's subscription at what its ring still holds.
func TestEphemeralReplay(t *testing.T) {
	stream := suite.server.ephemeral(t)
	want := payloads("e", 5)
	suite.sync.call(t, "publish", request{"client": "dev", "stream": stream, "payloads": want})
	suite.sync.call(t, "subscribe", request{"client": "dev", "subscription": stream, "stream": stream, "start": "earliest"})
	got := suite.sync.call(t, "next", request{"subscription": stream, "count": len(want), "timeout": 10}).Events
	wantEvents(t, got, -1, want...)
}

// TestManySubscriptions has 64 subscriptions on one connection; each gets every event.
func TestManySubscriptions(t *testing.T) {
	const n = 64
	each(t, func(t *testing.T, a *agent) {
		stream := suite.server.durable(t, 1)
		before := suite.server.metric(t, "felix_sub_connection_subscribers")
		a.call(t, "subscribe_many", request{"client": "dev", "subscription": stream, "stream": stream, "count": n})
		want := payloads("e", 4)
		a.call(t, "publish", request{"client": "dev", "stream": stream, "payloads": want})
		for i, w := range want {
			got := a.call(t, "next_of_each", request{"subscription": stream, "count": n, "timeout": 20}).Events
			if len(got) != n {
				t.Fatalf("%d answers", len(got))
			}
			for s, e := range got {
				if e == nil || string(e.Payload) != string(w) || e.Offset == nil || *e.Offset != int64(i) {
					t.Fatalf("subscription %d: %+v, want event %d", s, e, i)
				}
			}
		}
		for i := range n {
			a.call(t, "close", request{"subscription": stream + strconv.Itoa(i)})
		}
		// The client stops reading a closed subscription's stream only when more has come on it.
		eventually(t, 10*time.Second, "the server lets closed subscriptions go", func() bool {
			a.call(t, "publish", request{"client": "dev", "stream": stream, "payloads": payloads("after", 1)})
			return suite.server.metric(t, "felix_sub_connection_subscribers") <= before
		})
	})
}

// TestShards asks for a stream's shards, publishes by key, and subscribes to all of them: a shard is a Kafka partition of that number.
func TestShards(t *testing.T) {
	const shards = 4
	// The shard of each key by the protocol's published hash, modulo 4.
	keys := map[string]int{"k0": 2, "k1": 2, "k7": 0, "customer-1": 3, "demo-key": 1, "order-42": 3, "a": 0}
	each(t, func(t *testing.T, a *agent) {
		stream := suite.server.durable(t, shards)
		if got := a.call(t, "stream_shards", request{"client": "dev", "stream": stream}).Shards; got != shards {
			t.Errorf("%d shards, want %d", got, shards)
		}
		got := a.call(t, "subscribe_sharded", request{"client": "dev", "subscription": stream, "stream": stream, "start": "earliest"})
		if got.Shards != shards {
			t.Errorf("subscribed to %d shards, want %d", got.Shards, shards)
		}
		next := make([]int64, shards)
		for key, shard := range keys {
			res := a.call(t, "publish", request{"client": "dev", "stream": stream, "key": []byte(key), "payloads": [][]byte{[]byte(key)}})
			wantOffsets(t, res.Offsets, next[shard], 1)
			next[shard]++
		}
		for p := range int32(shards) {
			suite.server.produce(t, stream, p, []byte(strconv.Itoa(int(p))))
		}
		all := a.call(t, "next_sharded", request{"subscription": stream, "count": len(keys) + shards, "timeout": 20})
		if len(all.Events) != len(keys)+shards || len(all.Notices) != 0 {
			t.Fatalf("%d events and notices %q, want %d", len(all.Events), all.Notices, len(keys)+shards)
		}
		last := map[int]int64{}
		for _, e := range all.Events {
			if want, keyed := keys[string(e.Payload)]; keyed && e.Shard != want || !keyed && string(e.Payload) != strconv.Itoa(e.Shard) {
				t.Errorf("%q came from shard %d", e.Payload, e.Shard)
			}
			if e.Offset == nil || *e.Offset != last[e.Shard] {
				t.Errorf("shard %d: offset %s, want %d", e.Shard, offsetText(e.Offset), last[e.Shard])
			}
			last[e.Shard]++
		}
		a.call(t, "close", request{"subscription": stream})

		// Resumed at the positions, which are the last offsets delivered, nothing comes twice.
		for p := range int32(shards) {
			suite.server.produce(t, stream, p, []byte("more"))
		}
		a.call(t, "subscribe_sharded", request{"client": "dev", "subscription": stream, "stream": stream, "resume": all.Positions})
		rest := a.call(t, "next_sharded", request{"subscription": stream, "count": shards, "timeout": 20})
		for _, e := range rest.Events {
			if string(e.Payload) != "more" || *e.Offset != last[e.Shard] {
				t.Errorf("after the resumption shard %d gave %q at %d, want offset %d", e.Shard, e.Payload, *e.Offset, last[e.Shard])
			}
		}
		if len(rest.Events) != shards {
			t.Errorf("%d events after the resumption, want %d", len(rest.Events), shards)
		}
		a.call(t, "close", request{"subscription": stream})
	})
}

// TestSlowReader leaves events unread until the client's own queue is full: it drops, resumes from the log by itself, and the reader sees
// every event once and in order.
func TestSlowReader(t *testing.T) {
	each(t, func(t *testing.T, a *agent) {
		stream := suite.server.durable(t, 1)
		a.call(t, "subscribe", request{"client": "dev", "subscription": stream, "stream": stream})
		want := payloads("e", 900)
		wantOffsets(t, a.call(t, "publish", request{"client": "dev", "stream": stream, "payloads": want}).Offsets, 0, len(want))
		got := a.call(t, "next", request{"subscription": stream, "count": len(want), "timeout": 30}).Events
		wantEvents(t, got, 0, want...)
		a.call(t, "close", request{"subscription": stream})
	})
}

// TestLag stops a client's process until the server's queue for it overflows. On a durable stream the server ends the subscription with
// the offset to resume from; the client connects anew, subscribes after the last event that it was given, and nothing is lost.
func TestLag(t *testing.T) {
	r, s := newRelay(t, "FELIX_SUBSCRIBER_QUEUE_CAPACITY=16")
	for _, surface := range []string{"sync", "async"} {
		t.Run(surface, func(t *testing.T) {
			a := newAgent(t, surface, initialMTU, "FELIX_MAX_IDLE_TIMEOUT_MS=30000")
			a.call(t, "connect", r.connection(s, "c"))
			stream := s.durable(t, 1)
			a.call(t, "subscribe", request{"client": "c", "subscription": "s", "stream": stream})
			first := []byte("first")
			a.call(t, "publish", request{"client": "c", "stream": stream, "payloads": [][]byte{first}})
			wantEvents(t, a.call(t, "next", request{"subscription": "s", "count": 1, "timeout": 10}).Events, 0, first)

			_, place := r.since(0)
			dropped := s.metric(t, "felix_sub_queue_dropped_total")
			a.signal(t, syscall.SIGSTOP)
			var want [][]byte
			// More than what the network, the connections' windows and the queue hold.
			for i := 0; i < 400 && s.metric(t, "felix_sub_queue_dropped_total") == dropped; i++ {
				values := payloads(strconv.Itoa(i)+string(slices.Repeat([]byte("."), 64<<10)), 4)
				s.produce(t, stream, 0, values...)
				want = append(want, values...)
			}
			// The server drops for a client once that has taken nothing for about a second.
			lagged := false
			for until := time.Now().Add(30 * time.Second); !lagged && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
				lagged = s.metric(t, "felix_sub_queue_dropped_total") > dropped
			}
			a.signal(t, syscall.SIGCONT)
			if !lagged {
				t.Fatalf("the server's queue did not overflow with %d records", len(want))
			}
			got := a.call(t, "next", request{"subscription": "s", "count": len(want), "timeout": 40}).Events
			wantEvents(t, got, 1, want...)

			seen, _ := r.since(place)
			told := slices.IndexFunc(seen, func(x sighting) bool { return x.kind == "subscription_lagged" })
			again := slices.IndexFunc(seen, func(x sighting) bool { return x.kind == "subscribe" })
			if told < 0 || again < told {
				t.Fatalf("saw %v, want subscription_lagged and then subscribe", seen)
			}
			if seen[again].conn == seen[told].conn {
				t.Error("the client subscribed again on the connection that it had")
			}
			start, _ := seen[again].fields["start"].(map[string]any)
			if got, want := fmt.Sprint(start["offset"]), fmt.Sprint(seen[told].fields["resume_from"]); got != want {
				t.Errorf("resumed at %s, want %s", got, want)
			}
		})
	}
}
