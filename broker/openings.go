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
	// alarm is for how long after a batch that had to be refused the sizes of doubtful ones are found out at leisure.
	alarm = 10 * time.Second
	// leisure is how long, in multiples of what a piece cost, decoding pauses behind it then: batches made to expand take a tenth
	// of one processor at most, however many are sent, and hold it for the time of one piece.
	leisure = 9
)

// openings bounds what decompressing batches costs. Opening is needed for compacted topics and for those that store another codec; a
// few bytes can then ask for megabytes and milliseconds. Likely batches are opened side by side, a few at a time. One that turns
// out to expand to an unlikely multiple of its size is set aside: when no other such one is at it, its size is found out without keeping
// what it decodes to, and only a batch within the limit is opened.
type openings struct {
	slots    chan struct{}
	doubtful chan struct{} // holds the one that is at it
	closing  <-chan struct{}
	now      func() time.Time
	sleep    func(time.Duration)
	metrics  *metrics
	alarmed  time.Time // until when, by the holder of doubtful
}

func newOpenings(closing <-chan struct{}, now func() time.Time, m *metrics) *openings {
	// One processor is left to requests that open nothing: decoding goes on for milliseconds without a pause. With the limit of
	// what one batch decodes to, the number also bounds the memory.
	slots := max(1, runtime.GOMAXPROCS(0)-1)
	o := &openings{metrics: m, slots: make(chan struct{}, slots), doubtful: make(chan struct{}, 1), closing: closing, now: now}
	o.sleep = o.rest
	return o
}

// rest sleeps for d, or until the broker closes.
func (o *openings) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.closing:
	}
}

// run calls open for a batch whose records may decode to limit bytes, with what they may decode to this time; open may be called
// twice. Errors: those of open and of recordbatch.DecodedSize, ErrOpeningBusy, ErrClosed.
func (o *openings) run(batch []byte, limit int, open func(maxDecoded int) error) error {
	likely := min(limit, max(plainDecoded, plainRatio*len(batch)))
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
	defer func() { <-o.doubtful }()
	o.metrics.openedDoubtful.Inc()
	if err := o.measure(batch, limit); err != nil {
		return err
	}
	return o.inSlot(limit, open)
}

// measure finds out whether the records of batch, which has a good header, decode to at most limit bytes.
func (o *openings) measure(batch []byte, limit int) error {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return err
	}
	began := o.now()
	pause := runtime.Gosched
	if began.Before(o.alarmed) {
		pause = func() {
			o.sleep(leisure * o.now().Sub(began))
			began = o.now()
		}
	}
	_, err = recordbatch.DecodedSize(h.Codec(), batch[recordbatch.HeaderSize:], limit, pause)
	if errors.Is(err, recordbatch.ErrDecodedTooLarge) {
		o.alarmed = o.now().Add(alarm)
	}
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
