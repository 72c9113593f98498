package felixproto

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// frame is a run of events with contiguous offsets, encoded once for every subscriber of a shard. Immutable once cut. Each holder has
// one reference; the last one gives the memory and its part of the delivery budget back.
type frame struct {
	holders atomic.Int32
	budget  *deliveryBudget // nil: not counted

	base    ids.Offset // of the first event
	count   int
	skipped int64 // offsets without an event directly below base, as the cutter saw them
	slots   int   // published batches that begin in it, at least 1
	payload int   // bytes of the events alone
	charge  int   // what its events count for with cutter.room

	// body are the events as they are sent: a length and the payload each. stamped is the same with a time before each, nil when
	// nobody asked.
	body, stamped *buf.Ref
}

func (f *frame) next() ids.Offset { return f.base + ids.Offset(f.count) }

func (f *frame) retain() *frame {
	f.holders.Add(1)
	return f
}

func (f *frame) release() {
	if f.holders.Add(-1) > 0 {
		return
	}
	f.budget.give(f.bytes())
	f.body.Release()
	f.stamped.Release()
}

// bytes is the memory of the frame.
func (f *frame) bytes() int {
	n := f.body.Cap()
	if f.stamped != nil {
		n += f.stamped.Cap()
	}
	return n
}

// events are the bytes of the events from the one at offset from on, and how many they are. stamped chooses the form with times.
func (f *frame) events(from ids.Offset, stamped bool) (events []byte, count int) {
	ref, extra := f.body, 0
	if stamped {
		ref, extra = f.stamped, 8
	}
	events, count = ref.Bytes(), f.count
	for skip := from - f.base; skip > 0; skip-- {
		n := extra + 4 + int(binary.BigEndian.Uint32(events[extra:]))
		events, count = events[n:], count-1
	}
	return events, count
}

// cutter turns stored batches into frames. It keeps its place between calls, so that a frame knows what lies between it and the event
// before it. One goroutine at a time.
type cutter struct {
	pool    *buf.Pool
	budget  *deliveryBudget // of the frames, nil for none
	stamped bool            // cut the form with times too

	maxEvents, maxBytes int // of a frame; one event may be larger
	maxEvent            int // a larger one is left out
	maxDecoded          int

	// last is one past the last event, or where cutting began; next is one past what was looked at.
	last, next ids.Offset
	// lost is told of records that cannot be delivered: damaged ones, and those above maxEvent.
	lost func(offset ids.Offset, err error)
	// encoded counts the frames; nil for none.
	encoded prometheus.Counter

	// room is asked for the memory of each event; nil: there always is. Where it refuses, cutting stops before that event: short is
	// what it takes then, 0 otherwise.
	room  func(n int) bool
	short int
	// limit stops cutting before the event at that offset; 0: nothing does.
	limit ids.Offset
	// quota ends the first frame after so many events, as it was ended before; 0: it ends as any.
	quota int

	open openFrame
	out  []*frame
}

// openFrame is a frame that may still get events.
type openFrame struct {
	frame *frame
	body  growing
	times growing
}

// begin sets the place: the first event to be cut is at or after from.
func (c *cutter) begin(from ids.Offset) { c.last, c.next, c.short, c.quota = from, from, 0, 0 }

// stopped tells that the cutter stands before an event that it must not take now.
func (c *cutter) stopped() bool { return c.short > 0 || c.limit > 0 && c.next >= c.limit }

// cut appends to dst the frames of every batch of a chunk, leaving out what lies below the cutter's place. Frames may join batches;
// none is left open.
func (c *cutter) cut(dst []*frame, chunk []byte) []*frame {
	c.out = dst
	for len(chunk) > 0 && !c.stopped() {
		h, batch, rest, err := recordbatch.Next(chunk)
		if err != nil {
			// The log has verified what it gives out; what it would not be able to frame is not given out at all.
			c.report(c.next, err)
			break
		}
		chunk = rest
		c.batch(h, batch)
	}
	c.closeFrame()
	dst, c.out = c.out, nil
	return dst
}

// batch cuts one batch.
func (c *cutter) batch(h recordbatch.Header, batch []byte) {
	end := ids.Offset(h.NextOffset())
	if end <= c.next {
		return
	}
	if !h.IsControl() {
		c.records(h, batch)
	}
	switch {
	case c.short > 0: // next is where it stopped
	case c.limit > 0:
		c.next = max(c.next, min(end, c.limit))
	default:
		c.next = max(c.next, end)
	}
}

func (c *cutter) records(h recordbatch.Header, batch []byte) {
	first := true
	if h.Codec() == recordbatch.CodecNone {
		it := recordbatch.Records(h, batch[recordbatch.HeaderSize:])
		for !c.stopped() && it.Next() {
			first = c.event(&it.Record, first)
		}
		c.reportBatch(it.Err())
		return
	}
	r, err := recordbatch.NewRecordReader(batch, c.maxDecoded)
	if err != nil {
		c.reportBatch(err)
		return
	}
	defer r.Close()
	for !c.stopped() && r.Next() {
		first = c.event(&r.Record, first)
	}
	c.reportBatch(r.Err())
}

func (c *cutter) reportBatch(err error) {
	if err != nil {
		c.report(c.last, err)
	}
}

func (c *cutter) report(offset ids.Offset, err error) {
	if c.lost != nil {
		c.lost(offset, err)
	}
}

// event adds one record to the open frame. first says that no record of its batch was added yet; the result is that for the next.
func (c *cutter) event(r *recordbatch.Record, first bool) bool {
	offset := ids.Offset(r.Offset)
	if offset < c.next || offset < c.last {
		return first // delivered already, or out of order in a batch that was never ours
	}
	if len(r.Value) > c.maxEvent {
		c.report(offset, errEventTooLarge)
		return first
	}
	if c.limit > 0 && offset >= c.limit {
		c.next = c.limit
		return first
	}
	charge := 4 + len(r.Value)
	if c.stamped {
		charge += 12 + len(r.Value)
	}
	if c.room != nil && !c.room(charge) {
		c.short, c.next = charge, offset
		return first
	}
	f := c.open.frame
	if f != nil && (f.next() != offset || f.count >= c.maxEvents || f.count == c.quota || c.open.body.len()+4+len(r.Value) > c.maxBytes) {
		c.closeFrame()
		f = nil
	}
	if f == nil {
		f = &frame{base: offset, skipped: int64(offset - c.last), budget: c.budget}
		f.holders.Store(1)
		c.open.frame = f
	}
	if first {
		f.slots++
	}
	f.count++
	f.charge += charge
	f.payload += len(r.Value)
	c.open.body.add(c.pool, 0, false, r.Value)
	if c.stamped {
		c.open.times.add(c.pool, micros(r.Timestamp), true, r.Value)
	}
	c.last = offset + 1
	return false
}

// micros is a record's timestamp as events carry it; a record without one has 0.
func micros(ms int64) uint64 { return uint64(max(ms, 0)) * 1000 }

func (c *cutter) closeFrame() {
	f := c.open.frame
	if f == nil {
		return
	}
	f.slots = max(f.slots, 1)
	c.quota = 0
	f.body, f.stamped = c.open.body.take(), c.open.times.take()
	c.open.frame = nil
	c.budget.take(f.bytes())
	c.out = append(c.out, f)
	if c.encoded != nil {
		c.encoded.Inc()
	}
}

// growing is a pooled buffer that grows.
type growing struct {
	ref *buf.Ref
	n   int
}

// growStart is the first size of a growing buffer: an event of a few hundred bytes fits.
const growStart = 512

func (g *growing) len() int { return g.n }

// add appends an event.
func (g *growing) add(pool *buf.Pool, at uint64, stamped bool, value []byte) {
	need := 4 + len(value)
	if stamped {
		need += 8
	}
	b := g.room(pool, need)
	if stamped {
		binary.BigEndian.PutUint64(b, at)
		b = b[8:]
	}
	binary.BigEndian.PutUint32(b, uint32(len(value)))
	copy(b[4:], value)
	g.n += need
}

// room returns n bytes behind the content.
func (g *growing) room(pool *buf.Pool, n int) []byte {
	switch {
	case g.ref == nil:
		g.ref = pool.Get(max(n, growStart))
	case g.n+n > len(g.ref.Bytes()):
		larger := pool.Get(max(g.n+n, 2*g.n))
		copy(larger.Bytes(), g.ref.Bytes()[:g.n])
		g.ref.Release()
		g.ref = larger
	}
	return g.ref.Bytes()[g.n : g.n+n]
}

// take gives the content away; nil when there is none.
func (g *growing) take() *buf.Ref {
	if g.ref == nil {
		return nil
	}
	g.ref.Shrink(g.n)
	ref := g.ref
	g.ref, g.n = nil, 0
	return ref
}
