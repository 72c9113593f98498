package broker

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// quotaClock is a clock that stands until a test moves it.
type quotaClock struct{ t time.Time }

func (c *quotaClock) now() time.Time { return c.t }

func newTestQuotas(conf PublishQuotas) (*quotas, *quotaClock) {
	clock := &quotaClock{time.UnixMilli(1_700_000_000_000)}
	return newQuotas(conf, clock.now), clock
}

func testCounter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "delayed"})
}

func countOf(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestBudgetOverTime walks one budget through bursts, debts and pauses.
func TestBudgetOverTime(t *testing.T) {
	type step struct {
		after           time.Duration // since the step before
		bytes, messages int
		want            time.Duration
	}
	tests := map[string]struct {
		conf  PublishQuotas
		steps []step
	}{
		"a full burst at the start, and no more": {
			PublishQuotas{Default: PublishRate{Bytes: 1000}, Burst: time.Second},
			[]step{{0, 1000, 1, 0}, {0, 1, 1, time.Millisecond}, {time.Millisecond, 1, 1, time.Millisecond}},
		},
		"one batch larger than the burst is waited out": {
			PublishQuotas{Default: PublishRate{Bytes: 1000}, Burst: time.Second},
			[]step{{0, 3000, 1, 2 * time.Second}, {2 * time.Second, 1, 1, time.Millisecond}},
		},
		"at the rate for long": {
			PublishQuotas{Default: PublishRate{Bytes: 1000}, Burst: 100 * time.Millisecond},
			[]step{{0, 100, 1, 0}, {time.Second, 100, 1, 0}, {100 * time.Millisecond, 100, 1, 0}, {100 * time.Millisecond, 100, 1, 0}},
		},
		"a pause earns no more than the burst": {
			PublishQuotas{Default: PublishRate{Bytes: 1000}, Burst: time.Second},
			[]step{{24 * time.Hour, 1500, 1, 500 * time.Millisecond}},
		},
		"debt ends at the longest hold": {
			PublishQuotas{Default: PublishRate{Bytes: 1}, Burst: time.Second},
			[]step{
				{0, math.MaxInt32, math.MaxInt32, MaxPublishHold},
				{0, math.MaxInt32, 1, MaxPublishHold},
				{5 * time.Second, 1, 1, time.Second},
			},
		},
		"records have a limit of their own": {
			PublishQuotas{Default: PublishRate{Messages: 10}, Burst: time.Second},
			[]step{{0, math.MaxInt32, 10, 0}, {0, 1, 5, 500 * time.Millisecond}},
		},
		"the longer hold of the two counts": {
			PublishQuotas{Default: PublishRate{Bytes: 1000, Messages: 10}, Burst: time.Second},
			[]step{{0, 2000, 1, time.Second}, {time.Second, 0, 30, 2 * time.Second}},
		},
		"without a burst every cost is waited out": {
			PublishQuotas{Default: PublishRate{Bytes: 1000}},
			[]step{{time.Hour, 1, 1, time.Millisecond}},
		},
		"the largest rate and the longest burst": {
			PublishQuotas{Default: PublishRate{Bytes: math.MaxInt64, Messages: math.MaxInt64}, Burst: MaxPublishBurst},
			[]step{{0, math.MaxInt, math.MaxInt, 0}, {0, 1, 1, 0}},
		},
		"the smallest rate and the longest burst": {
			PublishQuotas{Default: PublishRate{Bytes: 1, Messages: 1}, Burst: MaxPublishBurst},
			[]step{{0, 3600, 0, 0}, {0, math.MaxInt, math.MaxInt, MaxPublishHold}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			q, clock := newTestQuotas(test.conf)
			delayed, held := testCounter(), 0
			b := q.of("a", delayed)
			for i, s := range test.steps {
				clock.t = clock.t.Add(s.after)
				if got := b.draw(s.bytes, s.messages); got != s.want {
					t.Errorf("step %d: held for %v, want %v", i, got, s.want)
				}
				if s.want > 0 {
					held++
				}
			}
			if got := countOf(t, delayed); got != float64(held) {
				t.Errorf("%v counted as delayed, want %d", got, held)
			}
		})
	}
}

func TestClockSteppingBackHoldsNoLonger(t *testing.T) {
	q, clock := newTestQuotas(PublishQuotas{Default: PublishRate{Bytes: 1000}, Burst: time.Second})
	b := q.of("a", testCounter())
	clock.t = clock.t.Add(time.Hour)
	b.draw(1000, 1)
	clock.t = clock.t.Add(-time.Hour)
	if got := b.draw(1, 1); got != MaxPublishHold {
		t.Errorf("held for %v, want %v", got, MaxPublishHold)
	}
	clock.t = clock.t.Add(MaxPublishHold)
	if got := b.draw(1, 1); got != time.Millisecond {
		t.Errorf("held for %v after the hold, want 1ms: the hour of the future is forgotten", got)
	}
}

func TestWhoHasABudget(t *testing.T) {
	q, _ := newTestQuotas(PublishQuotas{
		Default: PublishRate{Bytes: 10},
		Tenants: map[string]PublishRate{"free": {}, "own": {Messages: 7}},
	})
	if q.of("free", testCounter()) != nil {
		t.Error("a tenant whose limits are 0 has a budget")
	}
	if b := q.of("own", testCounter()); b == nil || b.bytes.rate != 0 || b.messages.rate != 7 {
		t.Errorf("a named tenant's limits are %+v, want no bytes of the default and 7 messages", b)
	}
	a := q.of("a", testCounter())
	if a == nil || a.bytes.rate != 10 || a.messages.rate != 0 {
		t.Errorf("the default is %+v, want 10 bytes", a)
	}
	if q.of("a", testCounter()) != a || q.of("b", testCounter()) == a {
		t.Error("a budget is one tenant's, and the same for all its shards")
	}
	if none, _ := newTestQuotas(PublishQuotas{Burst: time.Second}); none.of("a", testCounter()) != nil {
		t.Error("no limits, and yet a budget")
	}
}

// TestConcurrentDrawsLoseNothing: what many goroutines take at one moment adds up.
func TestConcurrentDrawsLoseNothing(t *testing.T) {
	q, _ := newTestQuotas(PublishQuotas{Default: PublishRate{Bytes: 1000, Messages: 1000}})
	b := q.of("a", testCounter())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				b.draw(1, 2)
			}
		})
	}
	wg.Wait()
	if got := b.bytes.draw(0, 0); got != 2*time.Second {
		t.Errorf("bytes are in debt by %v, want 2s", got)
	}
	if got := b.messages.draw(0, 0); got != 4*time.Second {
		t.Errorf("messages are in debt by %v, want 4s", got)
	}
}

func TestDrawAllocatesNothing(t *testing.T) {
	q, _ := newTestQuotas(PublishQuotas{Default: PublishRate{Bytes: 1000, Messages: 1000}})
	b := q.of("a", testCounter())
	if n := testing.AllocsPerRun(100, func() { b.draw(100, 1) }); n != 0 {
		t.Errorf("%v allocations a draw", n)
	}
}

// TestAppendDrawsWhatIsStored: both partitions of a tenant draw from one budget the bytes that the log holds; what is not written,
// because it fails or is there already, draws nothing.
func TestAppendDrawsWhatIsStored(t *testing.T) {
	f := newFixture(t, log.SyncNone)
	f.b.quotas = newQuotas(PublishQuotas{Default: PublishRate{Bytes: 1000}}, func() time.Time { return f.now })
	topic := f.meta.topic(t, "a", 2, map[string]string{"compression.type": "uncompressed"})
	s := f.shard(t, topic, 0)
	res, err := s.Append(AppendInput{Records: f.batch(t, recordbatch.CodecGzip, string(make([]byte, 1000)))})
	if err != nil {
		t.Fatal(err)
	}
	chunks, stored, err := s.Read(0, 1<<20, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range chunks {
		c.Ref.Release()
	}
	if want := time.Duration(stored) * time.Millisecond; stored < 1000 || res.Hold != want {
		t.Errorf("held for %v, want %v: %d bytes are stored", res.Hold, want, stored)
	}
	if _, err := s.Append(AppendInput{Records: []byte("no batch")}); err == nil {
		t.Fatal("no error")
	}
	batch := f.batch(t, recordbatch.CodecNone, "b")
	res2, err := f.shard(t, topic, 1).Append(AppendInput{Records: batch})
	if err != nil {
		t.Fatal(err)
	}
	if want := res.Hold + time.Duration(len(batch))*time.Millisecond; res2.Hold != want {
		t.Errorf("the other partition is held for %v, want %v", res2.Hold, want)
	}
	if got := countOf(t, f.b.metrics.tenant("t").delayed); got != 2 {
		t.Errorf("%v publishes counted as delayed, want 2", got)
	}
}

func TestDuplicateDrawsNothing(t *testing.T) {
	f := newFixture(t, log.SyncNone)
	f.b.quotas = newQuotas(PublishQuotas{Default: PublishRate{Messages: 1}}, func() time.Time { return f.now })
	s := f.shard(t, f.meta.topic(t, "a", 1, nil), 0)
	send := func() AppendResult {
		t.Helper()
		b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{LeaderEpoch: -1, Producer: &recordbatch.Producer{ID: 5}})
		b.Append(f.now.UnixMilli(), nil, []byte("v"))
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.Append(AppendInput{Records: batch})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := send(); res.Hold != time.Second {
		t.Errorf("held for %v, want 1s", res.Hold)
	}
	if res := send(); !res.Duplicate || res.Hold != 0 || res.Base != ids.Offset(0) {
		t.Errorf("a re-send gives %+v, want a duplicate that is not held", res)
	}
}

func TestQuotaOptionsAreChecked(t *testing.T) {
	bad := map[string]PublishQuotas{
		"burst":          {Burst: -1},
		"longest burst":  {Burst: MaxPublishBurst + 1},
		"bytes":          {Default: PublishRate{Bytes: -1}},
		"messages":       {Default: PublishRate{Messages: -1}},
		"named tenant's": {Tenants: map[string]PublishRate{"a": {Messages: -1}}},
	}
	for name, q := range bad {
		if _, err := New(Options{Metadata: newStubMetadata(), Shared: &log.Shared{}, Dir: "d", Quotas: q}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
