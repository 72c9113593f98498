package load

import (
	"context"
	"runtime"
	"time"
)

// pace calls send(i, intended) for record i = 0, 1, ... at a constant rate until the time is over or ctx ends, and returns how many
// were sent. It spins, since Go's timers round to a millisecond; yielding in the loop lets the client's own goroutines use the
// same processor. A sender that falls behind catches up at once, and the intended times do not move: what the delay costs counts.
func pace(ctx context.Context, rate float64, d time.Duration, send func(i int64, intended time.Time)) int64 {
	start := time.Now()
	total := int64(rate * d.Seconds())
	for i := range total {
		intended := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		for time.Until(intended) > 0 {
			runtime.Gosched()
		}
		if i&1023 == 0 && ctx.Err() != nil {
			return i
		}
		send(i, intended)
	}
	return total
}
