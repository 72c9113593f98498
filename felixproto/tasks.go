package felixproto

import "sync"

// tasks are the goroutines of a server. Some are started by what other parts of the process do, and may come when the server is being
// closed, or long after: they are refused then, instead of being started behind the back of whoever waits for all of them.
type tasks struct {
	mu    sync.Mutex
	ended bool // guarded by mu
	wg    sync.WaitGroup
}

// start runs f in a goroutine of its own, unless end was called.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	t.wg.Go(f)
	return true
}

// end lets nothing begin any more and waits for what runs.
func (t *tasks) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.wg.Wait()
}
