package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// server is a source of keys that counts what it is asked, and answers when it is let.
type server struct {
	mu      sync.Mutex
	asked   map[string]int
	running atomic.Int32
	most    atomic.Int32
	takes   time.Duration
	err     error
	keys    []Key
}

func (s *server) fetch(ctx context.Context, tenant string) ([]Key, error) {
	n := s.running.Add(1)
	defer s.running.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[tenant]++
	err, keys := s.err, s.keys
	s.mu.Unlock()
	select {
	case <-time.After(s.takes):
		return keys, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *server) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, k := range s.asked {
		n += k
	}
	return n
}

func (s *server) set(keys []Key, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.err = keys, err
}

func newKeySets(t *testing.T, srv *server, known func(string) (bool, bool)) *KeySets {
	t.Helper()
	s, err := NewKeySets(t.Context(), KeySetsOptions{Fetch: srv.fetch, Known: known})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeySetLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newSigner(t, "k1", 1).Key(), newSigner(t, "k2", 2).Key()
		srv := &server{keys: []Key{first}}
		s := newKeySets(t, srv, nil)
		defer s.Close()
		get := func() []Key {
			t.Helper()
			keys, err := s.Keys(t.Context(), "t1")
			if err != nil {
				t.Fatal(err)
			}
			return keys
		}
		get()
		srv.set([]Key{second}, nil)
		time.Sleep(KeySetLifetime - time.Second)
		if diff := cmp.Diff([]Key{first}, get()); diff != "" || srv.total() != 1 {
			t.Errorf("within its life: %d fetches, %s", srv.total(), diff)
		}
		time.Sleep(time.Second)
		if diff := cmp.Diff([]Key{second}, get()); diff != "" || srv.total() != 2 {
			t.Errorf("after its life: %d fetches, %s", srv.total(), diff)
		}
	})
}

// TestKeySetLeakBound: a key that was taken away verifies for as long as the set lives that has it, and no longer, remembered tokens
// included.
func TestKeySetLeakBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaked, fresh := newSigner(t, "k1", 1), newSigner(t, "k2", 2)
		srv := &server{keys: []Key{leaked.Key()}}
		s := newKeySets(t, srv, nil)
		defer s.Close()
		v, err := NewVerifier(VerifierOptions{Audience: AudienceBroker, Keys: s})
		if err != nil {
			t.Fatal(err)
		}
		c := goodClaims(t)
		c.Issued, c.Expires = time.Now(), time.Now().Add(24*time.Hour)
		token := mint(t, c, leaked)
		if _, err := v.Verify(t.Context(), "t1", token); err != nil {
			t.Fatal(err)
		}
		srv.set([]Key{fresh.Key()}, nil)
		time.Sleep(KeySetLifetime - time.Second)
		if _, err := v.Verify(t.Context(), "t1", token); err != nil {
			t.Errorf("before the bound: %v", DetailOf(err))
		}
		time.Sleep(time.Second)
		if _, err := v.Verify(t.Context(), "t1", token); ReasonOf(err) != ReasonSignature {
			t.Errorf("at the bound: got %v, want the signature refused", DetailOf(err))
		}
	})
}

func TestKeySetFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{err: errors.New("away"), keys: []Key{newSigner(t, "k1", 1).Key()}}
		s := newKeySets(t, srv, nil)
		defer s.Close()
		for range 3 {
			if _, err := s.Keys(t.Context(), "t1"); err == nil {
				t.Fatal("got keys from a source that is away")
			}
			time.Sleep(time.Second)
		}
		srv.set(srv.keys, nil)
		if _, err := s.Keys(t.Context(), "t1"); err == nil || srv.total() != 1 {
			t.Errorf("%d fetches and %v within the time of a failure, want one and the failure", srv.total(), err)
		}
		time.Sleep(KeySetFailure)
		if _, err := s.Keys(t.Context(), "t1"); err != nil || srv.total() != 2 {
			t.Errorf("%d fetches and %v after it, want two and keys", srv.total(), err)
		}
	})
}

func TestKeySetTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{takes: time.Hour}
		s := newKeySets(t, srv, nil)
		defer s.Close()
		began := time.Now()
		_, err := s.Keys(t.Context(), "t1")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != KeySetTimeout {
			t.Errorf("got %v after %v, want the time-out of a fetch", err, time.Since(began))
		}
	})
}

func TestKeySetMissesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{takes: time.Second, keys: []Key{newSigner(t, "k1", 1).Key()}}
		s := newKeySets(t, srv, nil)
		defer s.Close()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := s.Keys(t.Context(), "t1"); err != nil {
					t.Error(err)
				}
			})
		}
		// One that leaves early takes nothing from the others.
		impatient, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := s.Keys(impatient, "t1"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want its own end", err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if srv.total() != 1 {
			t.Errorf("got %d fetches, want one for all", srv.total())
		}
	})
}

// TestRandomTenants is row 23, with a quarter of its tenants and a source four times as slow: at most eight fetches at once, and one of
// a tenant in five seconds, however many ask.
func TestRandomTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{takes: 40 * time.Millisecond, err: ErrUnknownTenant}
		s := newKeySets(t, srv, func(string) (bool, bool) { return false, false })
		defer s.Close()
		const tenants = 2_500
		var wg sync.WaitGroup
		for i := range tenants {
			for range 1 + i%10/9 { // some of them ask twice
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					_, err := s.Keys(ctx, fmt.Sprintf("tenant-%d", i))
					if !errors.Is(err, ErrUnknownTenant) && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		s.Close()
		if srv.most.Load() > KeySetFetchLimit {
			t.Errorf("got %d fetches at once, want at most %d", srv.most.Load(), KeySetFetchLimit)
		}
		srv.mu.Lock()
		for tenant, n := range srv.asked {
			if n > 2 { // the ten seconds of the test are two of the five
				t.Errorf("%s was fetched %d times", tenant, n)
			}
		}
		srv.mu.Unlock()
		if len(s.sets) > maxKeySets || len(s.pending) != 0 {
			t.Errorf("%d sets and %d fetches are held", len(s.sets), len(s.pending))
		}
	})
}

// TestNoFetchForStrangers is rows 21 and 22.
func TestNoFetchForStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{keys: []Key{newSigner(t, "k1", 1).Key()}}
		synced := false
		s := newKeySets(t, srv, func(tenant string) (bool, bool) { return tenant == "t1", synced })
		defer s.Close()
		for _, tenant := range []string{"", "a/b", "%2e%2e", "..", ".a", "a\x00", strings.Repeat("a", 129), "ä"} {
			if _, err := s.Keys(t.Context(), tenant); !errors.Is(err, ErrUnknownTenant) {
				t.Errorf("%q: got %v", tenant, err)
			}
		}
		if srv.total() != 0 {
			t.Errorf("got %d fetches for what is no tenant's id", srv.total())
		}
		if _, err := s.Keys(t.Context(), "t2"); err != nil || srv.total() != 1 {
			t.Errorf("before the catalog is complete: got %v and %d fetches, want it asked for", err, srv.total())
		}
		synced = true
		if _, err := s.Keys(t.Context(), "t2"); !errors.Is(err, ErrUnknownTenant) {
			t.Errorf("a tenant that the catalog lacks: got %v, remembered keys must not count", err)
		}
		if _, err := s.Keys(t.Context(), "t3"); !errors.Is(err, ErrUnknownTenant) || srv.total() != 1 {
			t.Errorf("got %v and %d fetches, want no more", err, srv.total())
		}
		if _, err := s.Keys(t.Context(), "t1"); err != nil {
			t.Error(err)
		}
	})
}

func TestKeySetsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{keys: []Key{newSigner(t, "k1", 1).Key()}}
		s := newKeySets(t, srv, nil)
		defer s.Close()
		s.most = 200
		for i := range 500 {
			if i == 10 {
				srv.set(nil, errors.New("away"))
			}
			_, _ = s.Keys(t.Context(), fmt.Sprintf("t%d", i)) // failures are remembered too
		}
		if len(s.sets) > s.most {
			t.Errorf("%d sets are held", len(s.sets))
		}
		for i := range 10 {
			if s.sets[fmt.Sprintf("t%d", i)].err != nil || s.sets[fmt.Sprintf("t%d", i)].keys == nil {
				t.Errorf("keys of t%d went before failures", i)
			}
		}
	})
}

func TestLoadKeySets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{takes: time.Second, keys: []Key{newSigner(t, "k1", 1).Key()}}
		s := newKeySets(t, srv, nil)
		defer s.Close()
		var tenants []string
		for i := range 20 {
			tenants = append(tenants, fmt.Sprintf("t%d", i))
		}
		began := time.Now()
		if err := s.Load(t.Context(), tenants); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 3*time.Second || srv.total() != 20 {
			t.Errorf("got %d fetches in %v, want 20, eight at a time", srv.total(), took)
		}
		srv.set(nil, errors.New("away"))
		if err := s.Load(t.Context(), append(tenants, "t99")); err == nil || !strings.Contains(err.Error(), "t99") {
			t.Errorf("got %v, want the failure with its tenant", err)
		}
		srv.set(nil, ErrUnknownTenant)
		if err := s.Load(t.Context(), []string{"t100"}); err != nil {
			t.Errorf("a tenant that is gone: %v", err)
		}
	})
}

func TestCloseKeySets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{takes: time.Hour}
		s := newKeySets(t, srv, nil)
		var wg sync.WaitGroup
		for i := range KeySetFetchLimit + 2 { // two wait for a slot
			wg.Go(func() {
				if _, err := s.Keys(t.Context(), fmt.Sprintf("t%d", i)); !errors.Is(err, ErrClosed) {
					t.Errorf("got %v, want ErrClosed", err)
				}
			})
		}
		synctest.Wait()
		s.Close()
		s.Close()
		wg.Wait()
		if _, err := s.Keys(t.Context(), "t99"); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: got %v", err)
		}
	})
	if _, err := NewKeySets(t.Context(), KeySetsOptions{}); err == nil {
		t.Error("key sets without a source were made")
	}
}
