package agent

import "time"

// Pacer spreads sends evenly over time. It is not safe for concurrent use.
type Pacer struct {
	interval time.Duration // 0: no pacing
	start    time.Time
	sent     int64
	timer    *time.Timer
}

// NewPacer returns a pacer of rate sends a second, starting now; rate 0 does not pace.
func NewPacer(rate int) *Pacer {
	p := &Pacer{start: time.Now(), timer: time.NewTimer(0)}
	if rate > 0 {
		p.interval = time.Second / time.Duration(rate)
	}
	return p
}

// Due says whether the next send's time has come.
func (p *Pacer) Due() bool {
	return time.Since(p.start) >= time.Duration(p.sent)*p.interval
}

// Count records a send. Sends that were held up (a full window) are not made up for: the schedule moves on with them.
func (p *Pacer) Count() {
	p.sent++
	if late := time.Since(p.start) - time.Duration(p.sent)*p.interval; late > 100*time.Millisecond {
		p.start = p.start.Add(late)
	}
}

// Sent is the number of counted sends.
func (p *Pacer) Sent() int64 { return p.sent }

// Wait returns a channel that fires when the next send is due, or nil, which never fires, unless there is room to send.
func (p *Pacer) Wait(room bool) <-chan time.Time {
	if !room {
		return nil
	}
	p.timer.Reset(time.Until(p.start.Add(time.Duration(p.sent) * p.interval)))
	return p.timer.C
}
