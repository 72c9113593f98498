package broker

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// ErrOpeningBusy is for a batch that expands to an unlikely multiple of its size while others of its kind are being looked at.
var ErrOpeningBusy = errcode.New(errcode.Overloaded, "broker: too many batches that expand to many times their size")

const (
	// A batch that decodes to at most plainDecoded bytes, or to plainRatio times its size but not more than plainMost, is opened at once.
	plainDecoded = 256 << 10
	plainRatio   = 32
	plainMost    = 4 << 20
	// doubtfulWait is how long a batch that decodes to more waits for its turn.
	doubtfulWait = 2 * time.Second
	// doubtfulShards is for how many shards such batches are looked at side by side. Each may hold a decoder's window.
	doubtfulShards = 8
	// alarm is for how long after a batch that had to be refused the sizes of a shard's doubtful ones are found out at leisure.
	alarm = 10 * time.Second
	// leisure is how long, in multiples of what a piece cost, decoding pauses behind it then, times the number of shards that are
	// at it: batches made to expand take a tenth of one processor, however many are sent, and hold it for the time of one piece.
	leisure = 9
	// leisureMost bounds all pauses of one batch: others of its shard wait behind it, and what a piece cost is measured by a clock
	// that runs on while the processor does something else.
	leisureMost = 500 * time.Millisecond
)

// openings bounds what decompressing batches costs. Opening is needed for compacted topics and for those that store another codec; a
// few bytes can then ask for megabytes and milliseconds. Likely batches are opened side by side, a few at a time. One that turns
// out to expand to an unlikely multiple of its size is set aside: when no other such one of its shard is at it, its size is found out
// without keeping what it decodes to, and only a batch within the limit is opened. So who sends batches made to expand is in the way of
// nobody but those who write to the same shards.
type openings struct {
	slots    chan struct{}
	doubtful chan struct{} // holds the shards that are at it
	closing  <-chan struct{}
	now      func() time.Time
	sleep    func(time.Duration)
	metrics  *metrics

	mu    sync.Mutex
	lanes map[ids.ShardID]*lane // guarded by mu: of shards with doubtful batches at hand, or alarmed
}

// lane is the way of one shard's doubtful batches.
type lane struct {
	busy    chan struct{} // holds the batch that is at it
	users   int           // guarded by openings.mu
	alarmed time.Time     // until when; by the holder of busy, and guarded by openings.mu
}

func newOpenings(closing <-chan struct{}, now func() time.Time, m *metrics) *openings {
	// One processor is left to requests that open nothing: decoding goes on for milliseconds without a pause. With the limit of
	// what one batch decodes to, the number also bounds the memory.
	slots := max(1, runtime.GOMAXPROCS(0)-1)
	o := &openings{
		metrics: m, slots: make(chan struct{}, slots), doubtful: make(chan struct{}, doubtfulShards), closing: closing, now: now,
		lanes: map[ids.ShardID]*lane{},
	}
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

// run calls open for a batch of a shard whose records may decode to limit bytes, with what they may decode to this time; open may be
// called twice. Errors: those of open and of recordbatch.DecodedSize, ErrOpeningBusy, ErrClosed.
func (o *openings) run(shard ids.ShardID, batch []byte, limit int, open func(maxDecoded int) error) error {
	likely := min(limit, max(plainDecoded, min(plainRatio*len(batch), plainMost)))
	err := o.inSlot(likely, open)
	if likely == limit || !errors.Is(err, recordbatch.ErrDecodedTooLarge) {
		o.metrics.opened.Inc()
		return err
	}
	l := o.enter(shard)
	defer o.leave(l)
	timer := time.NewTimer(doubtfulWait)
	defer timer.Stop()
	for _, turn := range []chan struct{}{l.busy, o.doubtful} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-timer.C:
			o.metrics.openingsBusy.Inc()
			return ErrOpeningBusy
		case <-o.closing:
			return ErrClosed
		}
	}
	o.metrics.openedDoubtful.Inc()
	if err := o.measure(l, batch, limit); err != nil {
		return err
	}
	return o.inSlot(limit, open)
}

func (o *openings) enter(shard ids.ShardID) *lane {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lanes[shard]
	if l == nil {
		l = &lane{busy: make(chan struct{}, 1)}
		o.lanes[shard] = l
	}
	l.users++
	return l
}

// leave forgets the lanes that mean nothing any more.
func (o *openings) leave(l *lane) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.users--
	now := o.now()
	for id, l := range o.lanes {
		if l.users == 0 && !now.Before(l.alarmed) {
			delete(o.lanes, id)
		}
	}
}

// measure finds out whether the records of batch, which has a good header, decode to at most limit bytes. The caller holds l.busy.
func (o *openings) measure(l *lane, batch []byte, limit int) error {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return err
	}
	began, left := o.now(), time.Duration(0)
	if began.Before(l.alarmed) {
		left = leisureMost
	}
	pause := func() {
		d := min(leisure*time.Duration(len(o.doubtful))*o.now().Sub(began), left)
		if left -= d; d > 0 {
			o.sleep(d)
		} else {
			runtime.Gosched()
		}
		began = o.now()
	}
	_, err = recordbatch.DecodedSize(h.Codec(), batch[recordbatch.HeaderSize:], limit, pause)
	if errors.Is(err, recordbatch.ErrDecodedTooLarge) {
		o.mu.Lock()
		l.alarmed = o.now().Add(alarm)
		o.mu.Unlock()
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
