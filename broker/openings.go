package broker

import (
	"errors"
	"runtime"
	"time"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/log/recordbatch"
)

// ErrOpeningBusy is for a batch that expands to an unlikely multiple of its size while others of its kind are being looked at.
var ErrOpeningBusy = errcode.New(errcode.Overloaded, "broker: too many batches that expand to many times their size")

const (
	// A batch that decodes to at most plainDecoded bytes, or plainRatio times its size, is opened at once.
	plainDecoded = 256 << 10
	plainRatio   = 32
	// doubtfulWait is how long a batch that decodes to more waits for its turn.
	doubtfulWait = 2 * time.Second
	// doubtfulRest is how long, in multiples of what it cost, nothing doubtful is opened after one that was refused: then
	// batches made to expand take a tenth of one processor, however many are sent.
	doubtfulRest = 9
)

// openings bounds what decompressing batches costs. Opening is needed for compacted topics and for those that store another codec; a
// few bytes can then ask for megabytes and milliseconds. Likely batches are opened side by side, a few at a time. One that turns
// out to expand to an unlikely multiple of its size is set aside and opened, to the full limit, when no other such one is.
type openings struct {
	slots    chan struct{}
	doubtful chan struct{}
	closing  <-chan struct{}
	now      func() time.Time
	metrics  *metrics
}

func newOpenings(closing <-chan struct{}, now func() time.Time, m *metrics) *openings {
	// One processor is left to requests that open nothing: decoding goes on for milliseconds without a pause. With the limit of
	// what one batch decodes to, the number also bounds the memory.
	slots := max(1, runtime.GOMAXPROCS(0)-1)
	return &openings{metrics: m, slots: make(chan struct{}, slots), doubtful: make(chan struct{}, 1), closing: closing, now: now}
}

// run calls open for a batch of size bytes that may decode to limit bytes, with what it may decode to this time; open may be called
// twice. Errors: those of open, ErrOpeningBusy, ErrClosed.
func (o *openings) run(size, limit int, open func(maxDecoded int) error) error {
	likely := min(limit, max(plainDecoded, plainRatio*size))
	err := o.inSlot(likely, open)
	if likely == limit || !errors.Is(err, recordbatch.ErrDecodedTooLarge) {
		o.metrics.opened.Inc()
		return err
	}
	timer := time.NewTimer(doubtfulWait)
	defer timer.Stop()
	select {
	case o.doubtful <- struct{}{}:
	case <-timer.C:
		o.metrics.openingsBusy.Inc()
		return ErrOpeningBusy
	case <-o.closing:
		return ErrClosed
	}
	o.metrics.openedDoubtful.Inc()
	began := o.now()
	err = o.inSlot(limit, open)
	if !errors.Is(err, recordbatch.ErrDecodedTooLarge) {
		<-o.doubtful
		return err
	}
	time.AfterFunc(doubtfulRest*o.now().Sub(began), func() { <-o.doubtful })
	return err
}

func (o *openings) inSlot(maxDecoded int, open func(int) error) error {
	select {
	case o.slots <- struct{}{}:
	case <-o.closing:
		return ErrClosed
	}
	defer func() { <-o.slots }()
	return open(maxDecoded)
}
