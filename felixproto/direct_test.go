package felixproto

import (
	"strings"
	"testing"

	"github.com/felixlog/felix/felixproto/wire"
)

// TestSmallFramesAtOnce: small frames go to the library without a goroutine, in order with those that are too large for that, and what it
// is given without waiting stays bounded.
func TestSmallFramesAtOnce(t *testing.T) {
	for _, durable := range []bool{false, true} {
		r := newRig(t, rigOptions{})
		r.stream("s", 1, durable)
		c := r.connect()
		_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: wire.StreamScope{Stream: "s"}})
		sub := r.server.all()[0].subscriptionList()[0]
		eventually(t, sub.live)
		pub := r.connect().open("admin")
		var want []string
		for i := range 60 {
			want = append(want, named(i)+strings.Repeat("x", []int{10, 300, 2 * directFrame}[i%3]))
			pub.publish(uint64(i), "s", want[i])
			pub.ack()
			sub.mu.Lock()
			if sub.direct > directBytes {
				t.Errorf("%d bytes were given without waiting", sub.direct)
			}
			sub.mu.Unlock()
		}
		for i, got := range events.payloads(len(want)) {
			if got != want[i] {
				t.Fatalf("durable %v: event %d is %.20q, want %.20q", durable, i, got, want[i])
			}
		}
		eventually(t, func() bool { return sub.reached.Load() == int64(len(want)) })
	}
}
