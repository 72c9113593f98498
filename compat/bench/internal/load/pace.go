package load

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// nap is how far ahead a sender that is not exact must be before it sleeps, and for how long: a thread's sleep in the kernel
// ends within about 60 microseconds of its time, unlike Go's timers.
const nap = 200 * time.Microsecond

// early is how long before a record's time an exact sender is awake.
const early = 20 * time.Microsecond

// pace calls send(i, intended) for record i = 0, 1, ... at a constant rate until the time is over or ctx ends, and returns how many
// were sent. An exact sender sleeps in the kernel until shortly before a record's time, on a thread of its own whose timer has no slack,
// and looks at the clock for the rest. Another one sends in bursts of nap. A sender that falls behind catches up at once, and the
// intended times do not move: what the delay costs counts.
func pace(ctx context.Context, exact bool, rate float64, d time.Duration, send func(i int64, intended time.Time)) int64 {
	if exact {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
	}
	start := time.Now()
	total := int64(rate * d.Seconds())
	for i := range total {
		intended := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		for {
			ahead := time.Until(intended)
			if ahead <= 0 {
				break
			}
			if exact {
				if ahead > early {
					ts := unix.NsecToTimespec(int64(ahead - early))
					_ = unix.Nanosleep(&ts, nil)
				}
				continue
			}
			ts := unix.NsecToTimespec(int64(nap))
			_ = unix.Nanosleep(&ts, nil) // a signal may end it early: the loop looks at the clock again
		}
		if i&1023 == 0 && ctx.Err() != nil {
			return i
		}
		send(i, intended)
	}
	return total
}
