package log

import (
	"context"
	"time"
)

// pace spreads reading over time.
type pace struct {
	rate  int64 // bytes a second, 0 for as fast as can be
	began time.Time
	spent int64
}

// paceStep is the least that is waited for: shorter waits are saved up.
const paceStep = 10 * time.Millisecond

// spend waits until n more bytes may be read.
func (p *pace) spend(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return nil
	}
	if p.began.IsZero() {
		p.began = time.Now()
	}
	p.spent += int64(n)
	due := p.began.Add(time.Duration(float64(p.spent) / float64(p.rate) * float64(time.Second)))
	wait := time.Until(due)
	if wait < paceStep {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errStopped
	case <-timer.C:
		return nil
	}
}
