package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// small makes a queue that is soon full.
func small(depth, workers int) func(*Options) {
	return func(o *Options) { o.PublishQueueDepth, o.PublishWorkers = depth, workers }
}

// bubble runs a test with a broker in virtual time.
func bubble(t *testing.T, mode log.SyncMode, run func(t *testing.T, st *site), change ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := newSite(t, newStubMetadata(), &gateFS{FS: vfs.NewMem()}, mode, change...)
		run(t, st)
		st.end()
	})
}

// background publishes from a goroutine of its own: the caller of Publish may be held in the lane.
func (st *site) background(t *testing.T, s *Shard, mode PublishMode, values ...string) answer {
	t.Helper()
	a := newAnswer()
	p := st.publication(t, s, mode, a.told, values...)
	go st.b.Publish(p)
	synctest.Wait()
	return a
}

// TestFloodingTenant: row S-30. A tenant takes what may be borrowed and is refused at once; another one gets in.
func TestFloodingTenant(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		a := st.shard(t, st.meta.native(t, "t", "a", false, 1), 0)
		b := st.shard(t, st.meta.native(t, "u", "b", false, 1), 0)
		release := stall(t, a)
		first := st.background(t, a, OnAccept, "first")
		const total, depth = 12, 4 // three workers are free, but the lane is busy
		accepted := 0
		for i := range 40 {
			at := time.Now()
			r := <-st.publish(t, a, OnAccept, fmt.Sprint(i))
			if !time.Now().Equal(at) {
				t.Fatal("the answer took time")
			}
			if r.Err == nil {
				accepted++
			} else if overload(r.Err) != errcode.PublishQueueFull {
				t.Fatal(r.Err)
			}
		}
		if accepted != total-depth {
			t.Errorf("%d accepted of the flood, want %d", accepted, total-depth)
		}
		if r := <-st.publish(t, b, OnAccept, "quiet"); r.Err != nil {
			t.Errorf("the other tenant: %v", r.Err)
		}
		release()
		synctest.Wait()
		if r := <-first; r.Err != nil {
			t.Error(r.Err)
		}
		got := values(t, a, 0)
		if len(got) != 1+accepted || got[1] != "0" || got[accepted] != fmt.Sprint(accepted-1) {
			t.Errorf("written: %v", got) // nothing of the refused ones
		}
		if n := st.counter(t, "felix_tenant_publish_queue_full_total", "t", "refused"); n != float64(40-accepted) {
			t.Errorf("%v refusals counted", n)
		}
	}, small(4, 3))
}

// TestGuaranteeWhileOthersBorrow: design decision 30. Each tenant has its depth, even when all that is lent is used.
func TestGuaranteeWhileOthersBorrow(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		var shards []*Shard
		for i := range 4 {
			tenant := string(rune('u' + i))
			shards = append(shards, st.shard(t, st.meta.native(t, tenant, "s", false, 1), 0))
		}
		for i, s := range shards {
			defer stall(t, s)()
			st.background(t, s, OnAccept, "busy") // the third and fourth find no worker and stay queued
			room := 0
			for range 20 {
				if r := <-st.publish(t, s, OnAccept, "x"); r.Err == nil {
					room++
				}
			}
			// Two workers are held by the first two; of the total of 8 the last 4 are not lent.
			want := 4
			if i >= 2 {
				want = 3 // and the one that no worker has taken
			}
			if room != want {
				t.Errorf("tenant %d has room for %d, want %d", i, room, want)
			}
		}
	}, small(4, 2))
}

// TestWaitForRoom: rows S-31 to S-34.
func TestWaitForRoom(t *testing.T) {
	setup := func(t *testing.T, st *site) (x, y *Shard, release func()) {
		topic := st.meta.native(t, "t", "s", true, 2)
		x, y = st.shard(t, topic, 0), st.shard(t, topic, 1)
		release = stall(t, x)
		st.background(t, x, OnCommit, "held")
		for i := range 2 {
			if a := st.publish(t, x, OnCommit, fmt.Sprint("q", i)); !a.open() {
				t.Fatalf("told %+v", <-a)
			}
		}
		return x, y, release
	}
	options := small(2, 1)
	t.Run("S-31_room_comes", func(t *testing.T) {
		bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
			x, _, release := setup(t, st)
			waits := st.publish(t, x, OnCommit, "waits")
			time.Sleep(500 * time.Millisecond)
			if !waits.open() {
				t.Fatalf("told %+v", <-waits)
			}
			release()
			if r := <-waits; r.Err != nil || r.Offset != 3 {
				t.Errorf("told %+v", r)
			}
			if n := st.counter(t, "felix_tenant_publish_queue_full_total", "t", "delayed"); n != 1 {
				t.Errorf("%v waits counted", n)
			}
		}, options)
	})
	t.Run("S-32_no_room_comes", func(t *testing.T) {
		bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
			x, _, release := setup(t, st)
			began := time.Now()
			waits := st.publish(t, x, OnCommit, "again")
			r := <-waits
			if took := time.Since(began); overload(r.Err) != errcode.PublishQueueFull || took < 2*time.Second || took > 2010*time.Millisecond {
				t.Errorf("after %v told %+v", took, r)
			}
			release()
			synctest.Wait()
			if r := <-st.publish(t, x, OnCommit, "again"); r.Err != nil {
				t.Error(r.Err)
			}
			if got := fmt.Sprint(values(t, x, 0)); got != "[held q0 q1 again]" {
				t.Errorf("written %s", got)
			}
		}, options)
	})
	t.Run("one_deadline_for_all_waits", func(t *testing.T) {
		bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
			x, _, release := setup(t, st)
			defer release()
			began := time.Now()
			for i, waited := range []time.Duration{0, 1500 * time.Millisecond, 3 * time.Second, 500 * time.Millisecond} {
				a := newAnswer()
				p := st.publication(t, x, OnCommit, func(r PublishResult) {
					want := max(2*time.Second-waited, 0)
					if took := time.Since(began); overload(r.Err) != errcode.PublishQueueFull || took < want || took > want+10*time.Millisecond {
						t.Errorf("publish %d is told %+v after %v", i, r, took)
					}
					a.told(r)
				}, "x")
				p.Arrived = began.Add(-waited)
				st.b.Publish(p)
				defer func() { <-a }()
			}
			time.Sleep(3 * time.Second)
		}, options)
	})
	t.Run("S-33_others_go_on", func(t *testing.T) {
		bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
			// Another tenant's shard stands for the one with room: of one tenant both would be full.
			x, _, release := setup(t, st)
			other := st.shard(t, st.meta.native(t, "u", "s", true, 1), 0)
			waits := st.publish(t, x, OnCommit, "waits")
			if r := <-st.publish(t, other, OnCommit, "goes"); r.Err != nil {
				t.Errorf("told %+v", r)
			}
			if !waits.open() {
				t.Errorf("told %+v", <-waits)
			}
			release()
			if r := <-waits; r.Err != nil {
				t.Error(r.Err)
			}
		}, small(2, 2))
	})
	t.Run("S-34_in_order", func(t *testing.T) {
		bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
			x, y, release := setup(t, st)
			first := st.publish(t, x, OnCommit, "w0")
			second := st.publish(t, x, OnCommit, "w1")
			// Whatever the mode, nothing overtakes them.
			if r := <-st.publish(t, x, OnAccept, "refused"); overload(r.Err) != errcode.PublishQueueFull {
				t.Errorf("told %+v", r)
			}
			if r := <-st.publish(t, x, FireAndForget, "shed"); overload(r.Err) != errcode.PublishQueueFull {
				t.Errorf("told %+v", r)
			}
			release()
			if r := <-second; r.Err != nil || first.open() {
				t.Errorf("told %+v", r)
			}
			if got := fmt.Sprint(values(t, x, 0)); got != "[held q0 q1 w0 w1]" {
				t.Errorf("written %s", got)
			}
			if off := st.mustPublish(t, y, "y"); off != 0 {
				t.Errorf("the other shard is at %d", off)
			}
		}, options)
	})
	t.Run("waiting_list_counts_as_no_room", func(t *testing.T) {
		bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
			x, _, release := setup(t, st)
			defer release()
			large := strings.Repeat("x", 1<<20)
			st.b.admission.tenantBytes, st.b.admission.totalBytes = 1<<10, 1<<10
			st.b.admission.depth, st.b.admission.total = 100, 100
			waits := st.publish(t, x, OnCommit, large)
			if r := <-st.publish(t, x, OnAccept, "small, and would fit"); overload(r.Err) != errcode.PublishQueueFull {
				t.Errorf("told %+v", r)
			}
			if !waits.open() {
				t.Errorf("told %+v", <-waits)
			}
		}, options)
	})
}

// TestFireAndForgetBurst: row S-37.
func TestFireAndForgetBurst(t *testing.T) {
	for _, wait := range []bool{false, true} {
		t.Run(fmt.Sprint("wait_", wait), func(t *testing.T) {
			bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
				s := st.shard(t, st.meta.native(t, "t", "s", false, 1), 0)
				release := stall(t, s)
				held := st.background(t, s, FireAndForget, "held")
				var all []answer
				for i := range 20 {
					a := newAnswer()
					p := st.publication(t, s, FireAndForget, a.told, fmt.Sprint(i))
					p.Wait = wait
					st.b.Publish(p)
					all = append(all, a)
				}
				time.Sleep(time.Minute)
				shed := 0
				for _, a := range all {
					if !a.open() {
						if r := <-a; overload(r.Err) != errcode.PublishQueueFull {
							t.Errorf("told %+v", r)
						}
						shed++
					}
				}
				want := 16
				if wait {
					want = 0
				}
				if shed != want || !held.open() {
					t.Errorf("%d shed, want %d", shed, want)
				}
				if n := st.counter(t, "felix_broker_ingress_dropped_total"); n != float64(want) {
					t.Errorf("%v counted", n)
				}
				release()
				synctest.Wait()
				if n := len(values(t, s, 0)); n != 21-want {
					t.Errorf("%d written, want %d", n, 21-want)
				}
			}, small(4, 1))
		})
	}
}

// TestTenantQuota: row S-38.
func TestTenantQuota(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		s := st.shard(t, st.meta.native(t, "t", "s", true, 1), 0)
		admitted, wait := 0, time.Duration(0)
		for range 300 {
			r := <-st.publish(t, s, OnCommit, "x")
			if r.Err == nil {
				admitted++
				continue
			}
			var o *OverloadError
			if !errors.As(r.Err, &o) || o.Reason != errcode.TenantQuota || o.RetryAfter <= 0 || o.RetryAfter > time.Second {
				t.Fatalf("told %+v", r)
			}
			wait = o.RetryAfter
		}
		if admitted < 100 || admitted > 101 {
			t.Errorf("%d admitted, want about 100", admitted)
		}
		time.Sleep(wait)
		if r := <-st.publish(t, s, OnCommit, "x"); r.Err != nil {
			t.Errorf("after the wait: %v", r.Err)
		}
		if n := st.counter(t, "felix_tenant_publish_throttled_total", "t", "refused"); n != float64(300-admitted) {
			t.Errorf("%v counted", n)
		}
		if r := <-st.publish(t, s, FireAndForget, "x"); overload(r.Err) != errcode.TenantQuota {
			t.Errorf("fire and forget: %+v", r)
		}
		// One that waits is written when the quota allows it.
		a := newAnswer()
		p := st.publication(t, s, FireAndForget, a.told, "waited")
		p.Wait = true
		st.b.Publish(p)
		if !a.open() {
			t.Fatalf("told %+v", <-a)
		}
		if r := <-a; r.Err != nil {
			t.Error(r.Err)
		}
		if got := values(t, s, 0); len(got) != admitted+2 || got[len(got)-1] != "waited" {
			t.Errorf("%d written, the last %q", len(got), got[len(got)-1])
		}
	}, func(o *Options) { o.Quotas = PublishQuotas{Default: PublishRate{Messages: 100}, Burst: time.Second} })
}

// TestByteQuota: row S-39. Debt ends at five seconds.
func TestByteQuota(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		s := st.shard(t, st.meta.native(t, "t", "s", false, 1), 0)
		if r := <-st.publish(t, s, OnAccept, strings.Repeat("x", 100_000)); r.Err != nil {
			t.Fatal(r.Err)
		}
		r := <-st.publish(t, s, OnAccept, "x")
		var o *OverloadError
		if !errors.As(r.Err, &o) || o.Reason != errcode.TenantQuota || o.RetryAfter != MaxPublishHold {
			t.Fatalf("told %+v", r)
		}
		time.Sleep(o.RetryAfter - time.Millisecond)
		if r := <-st.publish(t, s, OnAccept, "x"); overload(r.Err) != errcode.TenantQuota {
			t.Errorf("too early: %+v", r)
		}
		time.Sleep(time.Millisecond)
		if r := <-st.publish(t, s, OnAccept, "x"); r.Err != nil {
			t.Errorf("told %+v", r)
		}
	}, func(o *Options) { o.Quotas = PublishQuotas{Default: PublishRate{Bytes: 1000}, Burst: time.Second} })
}

// TestRefusedPublishCostsNoQuota: what was refused for want of room is given back.
func TestRefusedPublishCostsNoQuota(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		s := st.shard(t, st.meta.native(t, "t", "s", false, 1), 0)
		release := stall(t, s)
		st.background(t, s, OnAccept, "1") // held
		for range 20 {
			if r := <-st.publish(t, s, OnAccept, "x"); r.Err != nil && overload(r.Err) != errcode.PublishQueueFull {
				t.Fatal(r.Err)
			}
		}
		release()
		synctest.Wait()
		got := 0
		for range 20 {
			if r := <-st.publish(t, s, OnAccept, "x"); r.Err == nil {
				got++
			}
		}
		if want := 10 - 3 + 1; got != want {
			t.Errorf("%d admitted, want %d", got, want)
		}
	}, small(2, 1), func(o *Options) { o.Quotas = PublishQuotas{Default: PublishRate{Messages: 10}, Burst: time.Second} })
}

// TestFairness: row S-40. Bytes of two tenants stay within a quantum round while both have publishes ready.
func TestFairness(t *testing.T) {
	const large = 1 << 20
	for _, tc := range []struct {
		name   string
		lanes  int
		of     [2]int // sizes of the publishes of each tenant
		counts [2]int
		slack  int
	}{
		{"one_lane_each", 1, [2]int{1 << 10, large}, [2]int{8 << 10, 8}, large + 2*fairnessQuantum},
		{"several_lanes", 4, [2]int{1 << 10, large}, [2]int{8 << 10, 8}, large + 2*fairnessQuantum},
		{"small_ones", 1, [2]int{100, 1000}, [2]int{4000, 400}, 3 * fairnessQuantum},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
				blocker := st.shard(t, st.meta.native(t, "w", "s", false, 1), 0)
				release := stall(t, blocker)
				st.background(t, blocker, OnAccept, "held") // the only worker
				var served [2]int
				left := tc.counts
				worst, tail := 0, 0
				for tenant, size := range tc.of {
					topic := st.meta.native(t, string(rune('t'+tenant)), "s", false, tc.lanes)
					value := strings.Repeat("x", size)
					for i := range tc.counts[tenant] {
						s := st.shard(t, topic, int32(i%tc.lanes))
						p := st.publication(t, s, FireAndForget, func(r PublishResult) {
							if r.Err != nil {
								t.Error(r.Err)
							}
							served[tenant] += size
							left[tenant]--
							if left[0] > 0 && left[1] > 0 {
								worst = max(worst, served[0]-served[1], served[1]-served[0])
							} else {
								tail++
							}
						}, value)
						st.b.Publish(p)
					}
				}
				release()
				synctest.Wait()
				if left != [2]int{} {
					t.Fatalf("left: %v", left)
				}
				if worst > tc.slack {
					t.Errorf("served %d bytes apart, want at most %d", worst, tc.slack)
				}
			}, func(o *Options) {
				o.PublishQueueDepth, o.PublishWorkers, o.PublishBytes, o.TenantPublishBytes = 1<<14, 1, 1<<30, 1<<30
			})
		})
	}
}

// TestSmallTenantAmongMany: the latency of a quiet tenant is bounded by one round.
func TestSmallTenantAmongMany(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		blocker := st.shard(t, st.meta.native(t, "w", "s", false, 1), 0)
		release := stall(t, blocker)
		st.background(t, blocker, OnAccept, "held")
		before := 0
		for i := range 5 {
			s := st.shard(t, st.meta.native(t, string(rune('a'+i)), "s", false, 1), 0)
			for range 200 {
				st.b.Publish(st.publication(t, s, FireAndForget, func(PublishResult) { before++ }, strings.Repeat("x", 4000)))
			}
		}
		quiet := -1
		s := st.shard(t, st.meta.native(t, "z", "s", false, 1), 0)
		st.b.Publish(st.publication(t, s, FireAndForget, func(PublishResult) { quiet = before }, "x"))
		release()
		synctest.Wait()
		if most := 5 * (fairnessQuantum/4000 + 1); quiet < 0 || quiet > most || before != 1000 {
			t.Errorf("written after %d of %d others, want at most %d", quiet, before, most)
		}
	}, small(512, 1))
}

// TestByteBudget: what is queued is bounded in bytes too, but a tenant with nothing queued may always queue one.
func TestByteBudget(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		a := st.shard(t, st.meta.native(t, "t", "s", false, 1), 0)
		b := st.shard(t, st.meta.native(t, "u", "s", false, 1), 0)
		defer stall(t, a)()
		st.background(t, a, OnAccept, "held")
		count := func(s *Shard, value string) int {
			for n := 0; ; n++ {
				if r := <-st.publish(t, s, OnAccept, value); r.Err != nil {
					if overload(r.Err) != errcode.PublishQueueFull {
						t.Fatal(r.Err)
					}
					return n
				}
			}
		}
		if n := count(a, strings.Repeat("x", 1000)); n != 3 { // of 4 KiB in all, of which one tenant has 2 KiB for sure
			t.Errorf("the first tenant has room for %d", n)
		}
		defer stall(t, b)()
		if n := count(b, strings.Repeat("x", 10_000)); n != 1 {
			t.Errorf("a batch above all budgets: %d", n)
		}
	}, func(o *Options) { o.PublishWorkers, o.PublishBytes, o.TenantPublishBytes = 1, 4<<10, 2<<10 })
}

// TestUncommittedBound: a shard whose syncs stand still takes no more than Options.CommitConcurrency, and holds up no other.
func TestUncommittedBound(t *testing.T) {
	bubble(t, log.SyncOnCommit, func(t *testing.T, st *site) {
		topic := st.meta.native(t, "t", "s", true, 1)
		other := st.meta.native(t, "t", "memory", false, 1)
		s := st.shard(t, topic, 0)
		open := st.b.opts.Shared.FS.(*gateFS).shut()
		var all []answer
		for i := range 10 {
			all = append(all, st.publish(t, s, OnCommit, fmt.Sprint(i)))
		}
		synctest.Wait()
		if end := s.Bounds().End; end != 3 {
			t.Errorf("%d written while nothing is committed, want 3", end)
		}
		if r := <-st.publish(t, st.shard(t, other, 0), OnAccept, "x"); r.Err != nil {
			t.Errorf("another shard: %v", r.Err)
		}
		open()
		for i, a := range all {
			if r := <-a; r.Err != nil || r.Offset != ids.Offset(i) {
				t.Errorf("publish %d: %+v", i, r)
			}
		}
	}, func(o *Options) { o.CommitConcurrency = 3 })
}

// TestMemoryDoesNotWaitForTheDisk: with every place held by writes to logs, ephemeral shards go on.
func TestMemoryDoesNotWaitForTheDisk(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		topic := st.meta.native(t, "t", "disk", true, 3)
		memory := st.shard(t, st.meta.native(t, "t", "memory", false, 1), 0)
		for p := range int32(2) {
			s := st.shard(t, topic, p)
			defer stall(t, s)()
			st.background(t, s, OnCommit, "held")
		}
		waits := st.publish(t, st.shard(t, topic, 2), OnCommit, "no place")
		if r := <-st.publish(t, memory, OnAccept, "goes"); r.Err != nil || memory.Bounds().End != 1 || !waits.open() {
			t.Errorf("told %+v, the end is %d", r, memory.Bounds().End)
		}
	}, small(8, 2))
}

// TestRaceOfCommitAndLimit: a commit that comes at the very moment at which it is given up is told once, one way or the other.
func TestRaceOfCommitAndLimit(t *testing.T) {
	for round := range 50 {
		bubble(t, log.SyncOnCommit, func(t *testing.T, st *site) {
			s := st.shard(t, st.meta.native(t, "t", "s", true, 1), 0)
			open := st.b.opts.Shared.FS.(*gateFS).shut()
			time.AfterFunc(10*time.Second, open)
			var all []answer
			for i := range 1 + round%7 {
				all = append(all, st.publish(t, s, OnCommit, fmt.Sprint(i)))
			}
			for i, a := range all {
				if r := <-a; r.Err != nil && errcode.Of(r.Err) != errcode.Unacknowledged || r.Err == nil && r.Offset != ids.Offset(i) {
					t.Errorf("publish %d: %+v", i, r)
				}
			}
			if off := st.mustPublish(t, s, "after"); off != ids.Offset(len(all)) {
				t.Errorf("the next is at %d", off)
			}
		}, func(o *Options) { o.AckWait = 10 * time.Second })
	}
}

// TestCommitIsGivenUp: streams rules 5.11 and 4.5. Nothing is said to be absent.
func TestCommitIsGivenUp(t *testing.T) {
	for _, tc := range []struct {
		name   string
		level  cluster.Consistency
		change func(*Options)
		after  time.Duration
		want   errcode.Kind
	}{
		{"leader", cluster.ConsistencyLeader, func(*Options) {}, 5500 * time.Millisecond, errcode.Unacknowledged},
		{"leader_with_a_longer_wait", cluster.ConsistencyLeader, func(o *Options) { o.AckWait = 8 * time.Second }, 8 * time.Second, errcode.Unacknowledged},
		{"S-09_quorum", cluster.ConsistencyQuorum, func(*Options) {}, 5 * time.Second, errcode.QuorumTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, log.SyncOnCommit, func(t *testing.T, st *site) {
				s := st.shard(t, st.meta.native(t, "t", "s", true, 1, func(t *cluster.Topic) { t.Consistency = tc.level }), 0)
				open := st.b.opts.Shared.FS.(*gateFS).shut()
				began := time.Now()
				first := st.publish(t, s, OnCommit, "a")
				time.Sleep(time.Second)
				second := st.publish(t, s, OnCommit, "b")
				for i, a := range []answer{first, second} {
					r := <-a
					took := time.Since(began) - time.Duration(i)*time.Second
					if errcode.Of(r.Err) != tc.want || r.Offset != ids.NoOffset || took < tc.after || took > tc.after+10*time.Millisecond {
						t.Errorf("publish %d is told %+v after %v", i, r, took)
					}
				}
				open()
				synctest.Wait()
				if got := fmt.Sprint(values(t, s, 0)); got != "[a b]" {
					t.Errorf("in the end %s", got)
				}
				if off := st.mustPublish(t, s, "c"); off != 2 {
					t.Errorf("the next is at %d", off)
				}
			}, tc.change)
		})
	}
}

// TestAcceptedThenLost: what was acknowledged when it was queued and is not written is counted (streams rules 4.4).
func TestAcceptedThenLost(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		topic := st.meta.native(t, "t", "s", true, 1)
		s := st.shard(t, topic, 0)
		release := stall(t, s)
		st.background(t, s, OnCommit, "held")
		for range 3 {
			if r := <-st.publish(t, s, OnAccept, "x"); r.Err != nil || r.Offset != ids.NoOffset {
				t.Fatalf("told %+v", r)
			}
		}
		st.meta.change(func(b *cluster.Builder) { b.DeleteTopic(topic) })
		synctest.Wait()
		release()
		synctest.Wait()
		if n := st.counter(t, "felix_broker_acked_publishes_dropped_total", errcode.UnknownShard.String()); n != 3 {
			t.Errorf("%v counted", n)
		}
	})
}

// TestClose: what is queued is written, what waits is refused, and nothing comes after.
func TestClose(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		topic := st.meta.native(t, "t", "s", true, 1)
		s := st.shard(t, topic, 0)
		release := stall(t, s)
		held := st.background(t, s, OnCommit, "held")
		queued := st.publish(t, s, OnCommit, "queued")
		accepted := st.publish(t, s, OnAccept, "accepted")
		waits := st.publish(t, s, OnCommit, "waits")
		closed := make(chan error, 1)
		go func() { closed <- st.b.Close(t.Context()) }()
		synctest.Wait()
		if r := <-waits; errcode.Of(r.Err) != errcode.Draining {
			t.Errorf("who waited is told %+v", r)
		}
		if r := <-st.publish(t, s, OnCommit, "late"); errcode.Of(r.Err) != errcode.Draining {
			t.Errorf("who came late is told %+v", r)
		}
		release()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		for i, a := range []answer{held, accepted, queued} {
			if r := <-a; r.Err != nil {
				t.Errorf("publish %d is told %+v", i, r)
			}
		}
		again := newSite(t, st.meta, st.b.opts.Shared.FS.(*gateFS).FS.(*vfs.Mem).ProcessKillImage(), log.SyncPeriodic)
		if got := fmt.Sprint(values(t, again.shard(t, topic, 0), 0)); got != "[held queued accepted]" {
			t.Errorf("written %s", got)
		}
	}, small(2, 1))
}

// TestCloseInTime: with its context ended Close waits for no commit, and everybody is told.
func TestCloseInTime(t *testing.T) {
	bubble(t, log.SyncOnCommit, func(t *testing.T, st *site) {
		s := st.shard(t, st.meta.native(t, "t", "s", true, 1), 0)
		open := st.b.opts.Shared.FS.(*gateFS).shut()
		var all []answer
		for i := range 5 {
			all = append(all, st.publish(t, s, OnCommit, fmt.Sprint(i)))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		time.AfterFunc(3*time.Second, open)
		if err := st.b.Close(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		for i, a := range all {
			want := errcode.LeadershipLost // written, perhaps
			if i >= 2 {
				want = errcode.Draining // never
			}
			if r := <-a; errcode.Of(r.Err) != want {
				t.Errorf("publish %d is told %+v", i, r)
			}
		}
	}, func(o *Options) { o.CommitConcurrency = 2 })
}

// TestPublishFromDone: who is told may publish the next at once, however often.
func TestPublishFromDone(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		s := st.shard(t, st.meta.native(t, "t", "s", true, 1), 0)
		const n = 5000
		done := make(chan struct{})
		i := 0
		p := st.publication(t, s, OnCommit, nil, "0")
		p.Done = func(p *Publication, r PublishResult) {
			if r.Err != nil || r.Offset != ids.Offset(i) {
				t.Errorf("publish %d: %+v", i, r)
			}
			if i++; i == n {
				close(done)
				return
			}
			p.Batch = nativeBatch(t, st.pool, "x")
			st.b.Publish(p)
		}
		st.b.Publish(p)
		<-done
	})
}

// TestKafkaPassesTheSameAdmission: design decision 30. A Kafka batch waits for its turn and for room, then it is refused; what it waits
// behind it does not overtake, and what comes behind it finds no room.
func TestKafkaPassesTheSameAdmission(t *testing.T) {
	bubble(t, log.SyncPeriodic, func(t *testing.T, st *site) {
		s := st.shard(t, st.meta.native(t, "t", "s", true, 1), 0)
		other := st.shard(t, st.meta.native(t, "u", "s", true, 1), 0)
		type outcome struct {
			res  AppendResult
			err  error
			took time.Duration
		}
		produce := func(s *Shard, value string) chan outcome {
			told := make(chan outcome, 1)
			batch := nativeBatch(t, st.pool, value)
			recordbatch.SetTimestamps(batch.Bytes(), time.Now().UnixMilli(), false)
			recordbatch.Recrc(batch.Bytes())
			go func() {
				began := time.Now()
				res, err := s.Append(AppendInput{Records: batch.Bytes(), Owner: batch})
				batch.Release()
				told <- outcome{res, err, time.Since(began)}
			}()
			synctest.Wait()
			return told
		}
		release := stall(t, s)
		held := produce(s, "held")
		queued, native := produce(s, "queued"), st.publish(t, s, OnCommit, "native")
		waits, late := produce(s, "waits"), st.publish(t, s, OnAccept, "no")
		if r := <-late; overload(r.Err) != errcode.PublishQueueFull {
			t.Errorf("a native publish behind it: %+v", r)
		}
		if r := <-produce(other, "elsewhere"); r.err != nil || r.took > 0 {
			t.Errorf("another tenant: %+v", r)
		}
		r := <-waits
		if overload(r.err) != errcode.PublishQueueFull || r.took < 2*time.Second || r.took > 2010*time.Millisecond {
			t.Errorf("who waits is told %+v", r)
		}
		late2 := produce(s, "in time")
		time.Sleep(time.Second)
		release()
		for i, c := range []chan outcome{held, queued, late2} {
			if r := <-c; r.err != nil {
				t.Errorf("%d: %+v", i, r)
			}
		}
		if r := <-native; r.Err != nil || r.Offset != 2 {
			t.Errorf("native: %+v", r)
		}
		if got := fmt.Sprint(values(t, s, 0)); got != "[held queued native in time]" {
			t.Errorf("written %s", got)
		}
		if n := st.counter(t, "felix_tenant_publish_queue_full_total", "t", "delayed"); n != 2 {
			t.Errorf("%v waits counted", n)
		}
	}, small(2, 2))
}
