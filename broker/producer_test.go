package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// idMetadata hands out blocks of producer ids.
type idMetadata struct {
	*stubMetadata
	next int64
}

func (m *idMetadata) Propose(_ context.Context, cmd cluster.Command) (cluster.Result, error) {
	ask, ok := cmd.(cluster.AllocateProducerIDs)
	if !ok {
		return cluster.Result{}, errors.New("not in this test")
	}
	first := m.next
	m.next += int64(ask.Count)
	return cluster.Result{First: first}, nil
}

// producerOf makes a producer id of a caller without the controller.
func producerOf(caller *Caller, n uint64) uint64 {
	return uint64(log.NativeProducer) | nativeMark(caller)<<nativeNumberBits | n
}

// send publishes a batch of an idempotent producer and waits for its answer.
func (st *site) send(t testing.TB, s *Shard, producer, seq uint64, values ...string) PublishResult {
	t.Helper()
	a := newAnswer()
	p := st.publication(t, s, OnCommit, a.told, values...)
	p.Producer, p.Sequence = producer, seq
	st.b.Publish(p)
	return <-a
}

// refusedSequence tells of a refusal, as "gap 3" or "expired".
func refusedSequence(err error) string {
	var s *SequenceError
	if !errors.As(err, &s) {
		return fmt.Sprint(err)
	}
	if s.Reason == errcode.SequenceGap {
		return fmt.Sprintf("%s %d", s.Reason, s.Expected)
	}
	return s.Reason.String()
}

// TestIdempotentProducer: rows S-71, S-74 and S-75, on streams of both kinds.
func TestIdempotentProducer(t *testing.T) {
	for _, durable := range []bool{true, false} {
		t.Run(fmt.Sprint("durable_", durable), func(t *testing.T) {
			st := newSite(t, newStubMetadata(), vfs.NewMem(), log.SyncPeriodic)
			s := st.shard(t, st.meta.native(t, "t", "s", durable, 1, func(t *cluster.Topic) {
				t.Overrides = map[string]string{"compression.type": "zstd"} // what is read back is not what was sent
			}), 0)
			id := producerOf(tester, 7)
			type want struct {
				offset ids.Offset
				dup    bool
				err    string
			}
			steps := []struct {
				name   string
				seq    uint64
				values []string
				want   want
			}{
				{"unknown", 1, []string{"x"}, want{ids.NoOffset, false, "unknown_producer"}},
				{"first", 0, []string{"a", "b"}, want{0, false, "<nil>"}},
				{"second", 1, []string{"c", "d", "e"}, want{2, false, "<nil>"}},
				{"S-71_re_send", 0, []string{"a", "b"}, want{0, true, "<nil>"}},
				{"S-71_re_send_of_the_last", 1, []string{"c", "d", "e"}, want{2, true, "<nil>"}},
				{"S-74_gap", 3, []string{"x"}, want{ids.NoOffset, false, "sequence_gap 2"}},
				{"S-75_other_payloads", 1, []string{"c", "d", "f"}, want{2, true, "sequence_reused"}},
				{"S-75_other_number_of_records", 0, []string{"a"}, want{0, true, "sequence_reused"}},
				{"third", 2, []string{"g"}, want{5, false, "<nil>"}},
			}
			for _, step := range steps {
				r := st.send(t, s, id, step.seq, step.values...)
				got := want{r.Offset, r.Duplicate, refusedSequence(r.Err)}
				if !durable {
					step.want.offset = ids.NoOffset // of no log
				}
				if got != step.want {
					t.Errorf("%s: %+v, want %+v", step.name, got, step.want)
				}
			}
			if got := fmt.Sprint(values(t, s, 0)); got != "[a b c d e g]" {
				t.Errorf("written %s", got)
			}
			for seq := uint64(3); seq < 80; seq++ {
				if r := st.send(t, s, id, seq, "y"); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			if r := st.send(t, s, id, 2, "g"); refusedSequence(r.Err) != "sequence_expired" {
				t.Errorf("of a batch that is no longer remembered: %+v", r)
			}
			if r := st.send(t, s, id, 16, "y"); r.Err != nil || !r.Duplicate {
				t.Errorf("of the 64th from the end: %+v", r)
			}
			// Metrics count what was written.
			if n := st.counter(t, "felix_tenant_published_messages_total", "t"); n != 6+77 {
				t.Errorf("%v records counted", n)
			}
		})
	}
}

// TestIdempotentProducerOverRestarts: row S-72 for restarts, S-73 for ephemeral streams.
func TestIdempotentProducerOverRestarts(t *testing.T) {
	meta := newStubMetadata()
	durable, ephemeral := meta.native(t, "t", "durable", true, 1), meta.native(t, "t", "ephemeral", false, 1)
	fs := vfs.NewMem()
	id := producerOf(tester, 7)
	st := newSite(t, meta, fs, log.SyncPeriodic)
	for seq := range uint64(3) {
		for _, topic := range []*cluster.Topic{durable, ephemeral} {
			if r := st.send(t, st.shard(t, topic, 0), id, seq, fmt.Sprint("a", seq), "b"); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	before := st
	for _, how := range []string{"killed", "clean"} {
		if how == "clean" {
			before.end()
		}
		st = newSite(t, meta, fs.ProcessKillImage(), log.SyncPeriodic)
		s := st.shard(t, durable, 0)
		if r := st.send(t, s, id, 1, "a1", "b"); r.Err != nil || !r.Duplicate || r.Offset != 2 {
			t.Errorf("%s: the re-send is told %+v", how, r)
		}
		if r := st.send(t, s, id, 1, "a1", "c"); refusedSequence(r.Err) != "sequence_reused" {
			t.Errorf("%s: other payloads are told %+v", how, r)
		}
		if r := st.send(t, s, id, 4, "x"); refusedSequence(r.Err) != "sequence_gap 3" {
			t.Errorf("%s: a gap is told %+v", how, r)
		}
		if r := st.send(t, s, id, 3, "next"); r.Err != nil || r.Offset != 6 {
			t.Errorf("%s: the next is told %+v", how, r)
		}
		if r := st.send(t, st.shard(t, ephemeral, 0), id, 3, "x"); refusedSequence(r.Err) != "unknown_producer" {
			t.Errorf("%s: of memory that is gone: %+v", how, r)
		}
	}
}

// TestRacingResends: row S-77.
func TestRacingResends(t *testing.T) {
	for _, mode := range []log.SyncMode{log.SyncPeriodic, log.SyncOnCommit} {
		t.Run(mode.String(), func(t *testing.T) {
			meta := newStubMetadata()
			st := newSite(t, meta, vfs.NewMem(), mode)
			s := st.shard(t, meta.native(t, "t", "s", true, 1), 0)
			id := producerOf(tester, 1)
			for seq := range uint64(50) {
				var wg sync.WaitGroup
				var mu sync.Mutex
				first, again := 0, 0
				for range 4 {
					wg.Go(func() {
						r := st.send(t, s, id, seq, fmt.Sprint(seq), "z")
						mu.Lock()
						defer mu.Unlock()
						if r.Err != nil || r.Offset != ids.Offset(2*seq) {
							t.Errorf("sequence %d: %+v", seq, r)
						}
						if r.Duplicate {
							again++
						} else {
							first++
						}
					})
				}
				wg.Wait()
				if first != 1 || again != 3 {
					t.Errorf("sequence %d: %d written, %d re-sends", seq, first, again)
				}
			}
			if got := len(values(t, s, 0)); got != 100 {
				t.Errorf("%d records", got)
			}
		})
	}
}

// TestResendWaitsLikeTheFirst: a re-send of what is not committed is not answered before it is (streams rules, 11.1).
func TestResendWaitsLikeTheFirst(t *testing.T) {
	bubble(t, log.SyncOnCommit, func(t *testing.T, st *site) {
		s := st.shard(t, st.meta.native(t, "t", "s", true, 1), 0)
		open := st.b.opts.Shared.FS.(*gateFS).shut()
		var all []answer
		for range 2 {
			a := newAnswer()
			p := st.publication(t, s, OnCommit, a.told, "x")
			p.Producer = producerOf(tester, 1)
			st.b.Publish(p)
			all = append(all, a)
		}
		synctest.Wait()
		if !all[0].open() || !all[1].open() {
			t.Error("told before the sync")
		}
		open()
		for i, a := range all {
			if r := <-a; r.Err != nil || r.Offset != 0 || r.Duplicate != (i == 1) {
				t.Errorf("%d: %+v", i, r)
			}
		}
	})
}

// TestResendOfWhatIsGone: the first copy was removed by retention, so it cannot be compared: it is taken to be the same.
func TestResendOfWhatIsGone(t *testing.T) {
	st := newSite(t, newStubMetadata(), vfs.NewMem(), log.SyncPeriodic)
	s := st.shard(t, st.meta.native(t, "t", "s", true, 1), 0)
	id := producerOf(tester, 1)
	for seq := range uint64(3) {
		if r := st.send(t, s, id, seq, "a"); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if _, err := s.DeleteRecords(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if r := st.send(t, s, id, 1, "a"); r.Err != nil || !r.Duplicate || r.Offset != 1 {
		t.Errorf("told %+v", r)
	}
	if r := st.send(t, s, id, 2, "b"); refusedSequence(r.Err) != "sequence_reused" {
		t.Errorf("told %+v", r)
	}
}

// TestProducerBelongsToItsPrincipal: native.md N20.
func TestProducerBelongsToItsPrincipal(t *testing.T) {
	meta := newStubMetadata()
	st := newSite(t, meta, vfs.NewMem(), log.SyncPeriodic, func(o *Options) { o.Metadata = &idMetadata{stubMetadata: meta} })
	s := st.shard(t, meta.native(t, "t", "s", true, 1), 0)
	callers := []*Caller{tester, {Tenant: "t", Principal: "other"}, {Tenant: "tt", Principal: "ester"}}
	seen := map[uint64]bool{}
	for i, c := range callers {
		for range 2 {
			id, err := st.b.AllocateNativeProducer(t.Context(), c)
			if err != nil || id>>62 != 1 || seen[id] {
				t.Fatalf("%x, %v", id, err)
			}
			seen[id] = true
			for k, other := range callers {
				if ownsProducer(other, id) != (i == k) {
					t.Errorf("%x of caller %d and caller %d", id, i, k)
				}
			}
		}
	}
	if ownsProducer(nil, producerOf(tester, 1)) || ownsProducer(tester, producerOf(tester, 1)|1<<63) {
		t.Error("an id of nobody is owned")
	}
	foreign := producerOf(callers[1], 3)
	if r := st.send(t, s, foreign, 0, "x"); refusedSequence(r.Err) != "unknown_producer" || s.Bounds().End != 0 {
		t.Errorf("the id of another is told %+v", r)
	}
	// And a Kafka client cannot use one.
	raw := nativeBatch(t, st.pool, "x")
	b := raw.Bytes()
	recordbatch.SetProducer(b, recordbatch.Producer{ID: int64(producerOf(tester, 1))})
	recordbatch.SetTimestamps(b, time.Now().UnixMilli(), false)
	recordbatch.Recrc(b)
	if _, err := s.Append(AppendInput{Records: b, Owner: raw}); !errors.Is(err, ErrNativeProducer) {
		t.Errorf("through Kafka: %v", err)
	}
	raw.Release()
}

// TestConditionalPublish: row S-78.
func TestConditionalPublish(t *testing.T) {
	meta := newStubMetadata()
	st := newSite(t, meta, vfs.NewMem(), log.SyncPeriodic)
	s := st.shard(t, meta.native(t, "t", "s", true, 1), 0)
	for round := range ids.Offset(20) {
		expected := 3 * round
		var wg sync.WaitGroup
		results := make([]PublishResult, 4)
		for i := range results {
			wg.Go(func() {
				a := newAnswer()
				p := st.publication(t, s, FireAndForget, a.told, "a", "b", "c")
				p.Expected = expected
				st.b.Publish(p)
				results[i] = <-a
			})
		}
		wg.Wait()
		written := 0
		for _, r := range results {
			var mismatch *OffsetMismatchError
			switch {
			case r.Err == nil && r.Offset == expected:
				written++
			case !errors.As(r.Err, &mismatch) || mismatch.Tail != int64(expected)+3 || r.Offset != ids.NoOffset:
				t.Errorf("round %d: %+v", round, r)
			}
		}
		if written != 1 || s.Bounds().End != expected+3 {
			t.Errorf("round %d: %d written, the end is %d", round, written, s.Bounds().End)
		}
	}
}

// TestRoute: rows S-15 to S-18 with the vectors of felix-wire, section 6.
func TestRoute(t *testing.T) {
	counts := []int{2, 3, 4, 8, 12, 16}
	jumps := []int{4, 8, 12, 16}
	tests := []struct {
		key          string
		modulo, jump []int32
	}{
		{"", []int32{1, 0, 3, 3, 3, 11}, []int32{0, 5, 11, 11}},
		{"a", []int32{0, 1, 0, 0, 4, 8}, []int32{1, 1, 9, 9}},
		{"k0", []int32{0, 0, 2, 6, 6, 14}, []int32{3, 3, 3, 3}},
		{"k1", []int32{0, 1, 2, 6, 10, 6}, []int32{2, 4, 4, 4}},
		{"k7", []int32{0, 1, 0, 4, 4, 4}, []int32{2, 4, 11, 11}},
		{"customer-0", []int32{0, 2, 0, 0, 8, 8}, []int32{3, 3, 3, 3}},
		{"customer-1", []int32{1, 0, 3, 3, 3, 11}, []int32{0, 0, 10, 10}},
		{"customer-2", []int32{0, 1, 2, 6, 10, 6}, []int32{3, 5, 5, 5}},
		{"customer-42", []int32{0, 0, 2, 6, 6, 6}, []int32{0, 4, 4, 4}},
		{"user:42", []int32{0, 0, 0, 4, 0, 4}, []int32{2, 6, 6, 6}},
		{"demo-key", []int32{1, 0, 1, 5, 9, 13}, []int32{3, 7, 7, 7}},
		{"order-42", []int32{1, 0, 3, 7, 3, 15}, []int32{1, 1, 8, 8}},
		{"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87", []int32{0, 2, 0, 4, 8, 4}, []int32{2, 7, 9, 9}},
		{"\x00\xff", []int32{1, 1, 3, 3, 7, 11}, []int32{0, 0, 10, 14}},
	}
	route := func(n int, how cluster.Routing, key string, has bool) int32 {
		return Route(&cluster.Topic{Routing: how, Partitions: make([]cluster.Partition, n)}, []byte(key), has)
	}
	for _, tc := range tests {
		for i, n := range counts {
			if got := route(n, cluster.RoutingModulo, tc.key, true); got != tc.modulo[i] {
				t.Errorf("%q modulo %d: %d, want %d", tc.key, n, got, tc.modulo[i])
			}
		}
		for i, n := range jumps {
			if got := route(n, cluster.RoutingJumpHash, tc.key, true); got != tc.jump[i] {
				t.Errorf("%q jump %d: %d, want %d", tc.key, n, got, tc.jump[i])
			}
		}
		for _, how := range []cluster.Routing{cluster.RoutingModulo, cluster.RoutingJumpHash} {
			if got := route(8, how, tc.key, false); got != 0 {
				t.Errorf("without a key: %d", got) // S-16
			}
			if got := route(1, how, tc.key, true); got != 0 {
				t.Errorf("of one: %d", got)
			}
		}
	}
	// S-18: what a jump moves when a shard is added goes to the new one alone.
	for i := range 10_000 {
		key := fmt.Sprint("key-", i)
		before, after := route(8, cluster.RoutingJumpHash, key, true), route(9, cluster.RoutingJumpHash, key, true)
		if after != before && after != 8 {
			t.Fatalf("%s went from %d to %d", key, before, after)
		}
	}
}

// TestOneKeyOneShard: row S-15, through a broker.
func TestOneKeyOneShard(t *testing.T) {
	st := newSite(t, newStubMetadata(), vfs.NewMem(), log.SyncPeriodic)
	topic := st.meta.native(t, "t", "s", true, 8)
	for i := range 100 {
		st.mustPublish(t, st.shard(t, topic, Route(topic, []byte("customer-42"), true)), fmt.Sprint(i))
	}
	got := values(t, st.shard(t, topic, 6), 0)
	if len(got) != 100 || got[0] != "0" || got[99] != "99" {
		t.Errorf("%d on the key's shard", len(got))
	}
}

// TestStampedAtAppend: records get the time at which they were written, whatever the front end set.
func TestStampedAtAppend(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		s := st.shard(t, st.meta.native(t, "t", "s", true, 1), 0)
		release := stall(t, s)
		st.background(t, s, OnCommit, "held")
		waits := st.publish(t, s, OnCommit, "later")
		time.Sleep(time.Second)
		at := time.Now()
		release()
		if r := <-waits; r.Err != nil {
			t.Fatal(r.Err)
		}
		found, ok, err := s.OffsetForTime(t.Context(), at.UnixMilli())
		if err != nil || !ok || found.Offset != 1 || found.Timestamp != at.UnixMilli() {
			t.Errorf("%+v %v %v", found, ok, err)
		}
	})
}
