package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// tokenCache remembers verifications under a bound of memory. It has two generations: when the young one holds half of the bound it
// becomes the old one, and what was asked for since moves on to the next. So a get and a put cost the same whatever it holds, and
// what nobody asks for goes.
type tokenCache struct {
	halfBytes int // 0: off

	mu         sync.Mutex
	young, old map[[sha256.Size]byte]cached
	bytes      int // of the young ones
}

func newTokenCache(maxBytes int) *tokenCache {
	return &tokenCache{halfBytes: max(maxBytes, 0) / 2, young: map[[sha256.Size]byte]cached{}}
}

// costOf estimates the memory of one verification: the token, and its permissions taken apart and compiled.
func costOf(c cached) int {
	const fixed, aPermission = 1 << 10, 384
	return fixed + len(c.identity.Token) + aPermission*len(c.identity.Grants.Permissions())
}

// get returns what is remembered under an id and has not expired. Leeway is for clocks, not for the cache: a token past its end is
// looked at anew.
func (t *tokenCache) get(id [sha256.Size]byte, now time.Time) (cached, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.young[id]
	if !ok {
		if c, ok = t.old[id]; ok {
			delete(t.old, id)
			t.putLocked(id, c)
		}
	}
	if !ok || !now.Before(c.identity.Expires) {
		return cached{}, false
	}
	return c, true
}

func (t *tokenCache) put(id [sha256.Size]byte, c cached) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.putLocked(id, c)
}

func (t *tokenCache) putLocked(id [sha256.Size]byte, c cached) {
	cost := costOf(c)
	if cost > t.halfBytes {
		return
	}
	if t.bytes+cost > t.halfBytes {
		t.old, t.young, t.bytes = t.young, map[[sha256.Size]byte]cached{}, 0
	}
	if before, twice := t.young[id]; twice {
		t.bytes -= costOf(before)
	}
	t.young[id] = c
	t.bytes += cost
}

func (t *tokenCache) drop(id [sha256.Size]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.young[id]; ok {
		t.bytes -= costOf(c)
		delete(t.young, id)
	}
	delete(t.old, id)
}
