package kafkaproto

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudgetIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		var first lease
		if err := b.take(t.Context(), &first, 60); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int
		done := make(chan struct{})
		var leases [3]lease
		for i, n := range []int64{80, 30, 30} {
			go func() {
				if err := b.take(context.Background(), &leases[i], n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				b.free(&leases[i])
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		if b.tryTake(1) {
			t.Error("somebody overtook the queue")
		}
		b.free(&first)
		for range 3 {
			<-done
		}
		if len(order) != 3 || order[0] != 0 {
			t.Errorf("order %v, want the one that came first first", order)
		}
		if b.used.Load() != 0 {
			t.Errorf("%d left", b.used.Load())
		}
	})
}

func TestBudgetGrowersDoNotLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		var one, two lease
		_ = b.take(t.Context(), &one, 50)
		_ = b.take(t.Context(), &two, 50)
		done := make(chan struct{}, 2)
		for _, l := range []*lease{&one, &two} {
			go func() {
				if err := b.take(context.Background(), l, 50); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				b.free(l)
				done <- struct{}{}
			}()
		}
		<-done
		<-done
		if b.used.Load() != 0 || b.overdraft.Load() != nil {
			t.Errorf("%d left", b.used.Load())
		}
	})
}

func TestBudgetMoreThanThereIs(t *testing.T) {
	b := newBudget(10)
	var l lease
	if err := b.take(t.Context(), &l, 50); err != nil {
		t.Fatal(err)
	}
	b.free(&l)
	if !b.tryTake(10) {
		t.Error("the overdraft is not given back")
	}
	b.put(10)
}

func TestBudgetWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		if !b.tryTake(10) {
			t.Fatal("not free")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var l lease
		if err := b.take(ctx, &l, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		b.put(10)
		if l.held != 0 || b.used.Load() != 0 || b.queued.Load() != 0 {
			t.Error("the wait left something")
		}
	})
}

func TestBudgetCutsStalledRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		var slow lease
		_ = b.take(t.Context(), &slow, 100)
		cut := make(chan struct{})
		b.began(&slow, time.Now(), func() { close(cut) })
		go func() {
			<-cut
			b.arrived(&slow)
			b.free(&slow)
		}()
		began := time.Now()
		var l lease
		if err := b.take(t.Context(), &l, 50); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < stallLimit || took > 2*stallLimit+time.Second {
			t.Errorf("cut after %v", took)
		}
		b.free(&l)
	})
}

func TestBudgetTakeUpTo(t *testing.T) {
	b := newBudget(100)
	for _, tc := range []struct{ want, least, got int64 }{{20, 10, 20}, {90, 10, 20}, {90, 45, 45}, {90, 10, 10}, {90, 10, 0}, {5, 10, 5}, {5, 1, 0}} {
		if got := b.takeUpTo(tc.want, tc.least); got != tc.got {
			t.Errorf("takeUpTo(%d, %d) = %d, want %d", tc.want, tc.least, got, tc.got)
		}
	}
}

func TestBudgetOutlastsManyTakers(t *testing.T) {
	b := newBudget(128 << 20)
	takers := 0
	for b.takeUpTo(50<<20, leastShare) > 0 {
		takers++
	}
	if takers < 15 {
		t.Errorf("%d takers that give nothing back leave nothing to others", takers)
	}
}
