package log

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
)

// TestReadersBesideRolls: a reader that looked at a segment's size before the last appends to it, and at whether it is sealed after
// them, used to take the checksum of a later block for that of the block it had read, and report damage.
func TestReadersBesideRolls(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 1500, 256 }))
	l := e.open()
	mustAppend(t, l, spec{size: 100})
	var done atomic.Bool
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 2))
			for !done.Load() {
				end := l.Bounds().End
				from := max(0, end-1-ids.Offset(rnd.IntN(8)))
				chunks, n, err := l.Read(from, end, 1+rnd.IntN(2000), true, nil)
				if err != nil || n == 0 {
					t.Errorf("from %d of %d: %d bytes, %v", from, end, n, err)
					return
				}
				for _, c := range chunks {
					c.Ref.Release()
				}
			}
		})
	}
	for range 4000 {
		mustAppend(t, l, spec{size: 100})
	}
	done.Store(true)
	wg.Wait()
}
