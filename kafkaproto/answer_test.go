package kafkaproto

import (
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAnswerOutlivesItsSlot stops a request that had begun to wait between its answer and the end of its slot. Whoever closes the
// connection then finds it in the slot and tells it, so it must not be in the pool yet.
func TestAnswerOutlivesItsSlot(t *testing.T) {
	fetchOne := fetchRequestFor("a", 0)
	fetchOne.MaxWaitMillis = 20_000
	for name, req := range map[string]kmsg.Request{
		"produce": produceRequestFor("a", 0, makeBatch(t, 1, nil)),
		"fetch":   fetchOne,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			sh := h.node.shard(h.node.add("default", "a", 1), 0)
			stopped := make(chan *conn)
			sh.set(func() {
				sh.onWait = func() {
					if name == "fetch" {
						produced(t, sh, "x") // so that there is nothing to wait for any more
					}
					h.srv.mu.Lock()
					c := h.srv.conns.first
					h.srv.mu.Unlock()
					c.mu.Lock()
					stopped <- c
				}
			})
			c := h.dial()
			id := c.send(req)
			conn := <-stopped
			eventually(t, "it completes its slot", func() bool { return stuckIn("(*conn).complete") })
			var refs int32
			switch w := conn.first.wait.(type) {
			case *produce:
				refs = w.refs.Load()
			case *fetch:
				refs = w.refs.Load()
			}
			conn.mu.Unlock()
			if refs < 1 {
				t.Error("the slot names a request that nobody holds")
			}
			c.receive(req, id)
		})
	}
}

// stuckIn reports whether a goroutine waits for a mutex that it takes in function.
func stuckIn(function string) bool {
	b := make([]byte, 1<<20)
	b = b[:runtime.Stack(b, true)]
	for g := range strings.SplitSeq(string(b), "\n\n") {
		if strings.Contains(g, "[sync.Mutex.Lock") && strings.Contains(g, function) {
			return true
		}
	}
	return false
}
