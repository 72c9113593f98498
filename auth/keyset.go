package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The rules of a key-set cache (security rules, section 2.4). The tenant's id comes from somebody who has proved nothing yet, which is
// why each of them exists.
const (
	KeySetLifetime   = time.Hour       // of a tenant's keys; nothing fetches them earlier, an unknown key id neither
	KeySetFailure    = 5 * time.Second // for which a failed fetch is remembered
	KeySetFetchLimit = 8               // fetches at once
	KeySetTimeout    = 5 * time.Second // of one fetch
	maxKeySets       = 16 << 10        // tenants remembered, failures included
)

// ErrClosed is what waits end with when a KeySets is closed.
var ErrClosed = errors.New("auth: key sets are closed")

// KeySetsOptions say where keys come from.
type KeySetsOptions struct {
	// Fetch gets the keys of a tenant, the one that signs first. ErrUnknownTenant says that there is no such tenant. It is called
	// for plausible ids only, at most KeySetFetchLimit times at once, and once at a time for a tenant. Required.
	Fetch func(ctx context.Context, tenant string) ([]Key, error)
	// Known looks a tenant up in the local catalog: synced says whether that is complete by now, and until it is, known counts for
	// nothing. nil: there is no catalog.
	Known func(tenant string) (known, synced bool)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// KeySets is a KeySource that remembers what a fetch function gave. All methods may run concurrently.
type KeySets struct {
	opts  KeySetsOptions
	slots chan struct{} // one taken for each fetch
	most  int           // sets remembered at once

	ctx    context.Context //nolint:containedctx // the life of the fetches, which outlive the call that began them
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	sets    map[string]keySet
	pending map[string]*fetch
	closed  bool
}

var _ KeySource = (*KeySets)(nil)

// keySet is the outcome of a fetch, and how long it counts.
type keySet struct {
	keys []Key
	err  error
	ends time.Time
}

// fetch is one that runs. set may be read after done was closed.
type fetch struct {
	done chan struct{}
	set  keySet
}

// NewKeySets makes a cache. ctx is its life: fetches end with it, and with Close.
func NewKeySets(ctx context.Context, opts KeySetsOptions) (*KeySets, error) {
	if opts.Fetch == nil {
		return nil, errors.New("auth: key sets need a fetch function")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &KeySets{
		opts: opts, slots: make(chan struct{}, KeySetFetchLimit), most: maxKeySets, sets: map[string]keySet{}, pending: map[string]*fetch{},
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s, nil
}

// Close ends the fetches that run and waits for them. Later calls of Keys that would need a fetch get ErrClosed.
func (s *KeySets) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel(ErrClosed)
	s.wg.Wait()
}

// Keys returns the keys of a tenant: remembered ones for as long as they live, else those of a fetch, which everyone shares who asks
// meanwhile. A failed fetch is everybody's answer for a while. ctx bounds the wait alone: a fetch that was begun goes on.
func (s *KeySets) Keys(ctx context.Context, tenant string) ([]Key, error) {
	if !isTenantID(tenant) {
		return nil, ErrUnknownTenant
	}
	if s.opts.Known != nil {
		if known, synced := s.opts.Known(tenant); synced && !known {
			return nil, ErrUnknownTenant
		}
	}
	for {
		set, f := s.find(tenant)
		if f == nil && set == nil {
			// A slot is taken before the fetch is announced: whoever waits for one can leave without others waiting on it.
			select {
			case s.slots <- struct{}{}:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-s.ctx.Done():
				return nil, context.Cause(s.ctx)
			}
			if f = s.begin(tenant); f == nil {
				<-s.slots // somebody was faster, or all is closed
				if s.ctx.Err() != nil {
					return nil, context.Cause(s.ctx)
				}
				continue
			}
		}
		if set == nil {
			select {
			case <-f.done:
				set = &f.set
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return set.keys, set.err
	}
}

// Load fetches the keys of tenants that are not remembered, so that none is missing when the source is away later. It returns the
// first failure after all were tried; a tenant that is unknown by now is none.
func (s *KeySets) Load(ctx context.Context, tenants []string) error {
	errs := make(chan error, len(tenants))
	var wg sync.WaitGroup
	limit := make(chan struct{}, KeySetFetchLimit)
	for _, t := range tenants {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if _, err := s.Keys(ctx, t); err != nil && !errors.Is(err, ErrUnknownTenant) {
				errs <- fmt.Errorf("keys of tenant %s: %w", t, err)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// find returns what is remembered of a tenant, or the fetch that runs for it, or neither.
func (s *KeySets) find(tenant string) (*keySet, *fetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(tenant)
}

func (s *KeySets) findLocked(tenant string) (*keySet, *fetch) {
	if f := s.pending[tenant]; f != nil {
		return nil, f
	}
	if set, ok := s.sets[tenant]; ok && s.opts.Now().Before(set.ends) {
		return &set, nil
	}
	return nil, nil
}

// begin starts a fetch in the slot that the caller took, unless there is an answer or a fetch by now.
func (s *KeySets) begin(tenant string) *fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set, running := s.findLocked(tenant); set != nil || running != nil || s.closed {
		return nil
	}
	f := &fetch{done: make(chan struct{})}
	s.pending[tenant] = f
	s.wg.Go(func() {
		f.set = s.fetch(tenant)
		s.mu.Lock()
		delete(s.pending, tenant)
		s.rememberLocked(tenant, f.set)
		s.mu.Unlock()
		<-s.slots
		close(f.done)
	})
	return f
}

func (s *KeySets) fetch(tenant string) keySet {
	ctx, cancel := context.WithTimeout(s.ctx, KeySetTimeout)
	defer cancel()
	keys, err := s.opts.Fetch(ctx, tenant)
	if err != nil {
		return keySet{err: err, ends: s.opts.Now().Add(KeySetFailure)}
	}
	return keySet{keys: keys, ends: s.opts.Now().Add(KeySetLifetime)}
}

// rememberLocked keeps the outcome of a fetch. At the bound, what has ended goes first, then failures, then anything: a tenant whose
// keys go is fetched again when it is next asked for.
func (s *KeySets) rememberLocked(tenant string, set keySet) {
	if len(s.sets) >= s.most {
		now := s.opts.Now()
		for t, old := range s.sets {
			if !now.Before(old.ends) {
				delete(s.sets, t)
			}
		}
		for _, evict := range []func(keySet) bool{func(k keySet) bool { return k.err != nil }, func(keySet) bool { return true }} {
			if len(s.sets) < s.most {
				break
			}
			for t, old := range s.sets {
				if evict(old) {
					delete(s.sets, t)
					break
				}
			}
		}
	}
	s.sets[tenant] = set
}
