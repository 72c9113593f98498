package felixproto

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
)

// partial is a frame of which only the beginning was written. The rest is cut once more from the log when its time comes.
type partial struct {
	from     ids.Offset // of its first event
	last     ids.Offset // one past the event before it, as the cutter saw it
	position ids.Offset // one past the event before it, as the client saw it
	count    int        // events
	size     int        // of the frame as it is written
	sent     int        // of that
	charge   int        // what its events count for with the cutter's room
	rest     []byte     // what is written next, since that tells when the client reads again
}

// maxRest bounds what a reader keeps that was asked for its lease back.
const maxRest = 4 << 10

// keptItems is how many frames of a write an idle subscription keeps the places of.
const keptItems = 8

// outgoing is what is written at once: many small frames, or the head of a large one and its events.
type outgoing struct {
	sub   *subscription
	b     []byte
	items []outgoingFrame
	skip  int // of the first frame's bytes: they have been written before
}

// outgoingFrame is one frame of that.
type outgoingFrame struct {
	f        *frame
	from     ids.Offset
	position ids.Offset // of the subscription before it
	count    int
	events   int // their bytes
	size     int
}

// write sends the events of frames from the one at offset from on, as the client knows them, without the first skip bytes. It waits as
// long as the client's flow control makes it. If the subscription is asked for its lease back meanwhile it returns where it stopped.
func (sub *subscription) write(frames []*frame, from ids.Offset, skip int) (*partial, error) {
	if len(frames) == 0 {
		return nil, nil
	}
	total := 0
	for _, f := range frames {
		total += maxEventHead + len(sub.form(f).Bytes())
	}
	ref := sub.s.opts.Pool.Get(min(total, sub.s.opts.WriteBytes))
	defer ref.Release()
	out := outgoing{sub: sub, b: ref.Bytes()[:0], items: sub.items[:0], skip: skip}
	defer func() {
		clear(out.items[:cap(out.items)])
		if sub.items = out.items; cap(sub.items) > keptItems {
			sub.items = nil
		}
	}()
	for _, f := range frames {
		from := max(f.base, from)
		events, count := f.events(from, sub.stamped)
		if len(out.b)+maxEventHead+len(events) > cap(out.b) {
			if part, err := out.send(nil); part != nil || err != nil {
				return part, err
			}
		}
		start := len(out.b)
		out.b = sub.appendHead(out.b, f, from, count, len(events))
		out.items = append(out.items, outgoingFrame{
			f: f, from: from, position: sub.position, count: count, events: len(events), size: len(out.b) - start + len(events),
		})
		sub.position = f.next()
		if len(out.b)+len(events) > cap(out.b) {
			// Large events are not copied once more: the library takes them from where they lie.
			if part, err := out.send(events); part != nil || err != nil {
				return part, err
			}
		} else {
			out.b = append(out.b, events...)
		}
	}
	return out.send(nil)
}

// send writes what was gathered and then events, and begins anew.
func (o *outgoing) send(events []byte) (*partial, error) {
	if len(o.items) == 0 {
		return nil, nil
	}
	at := o.skip // what is written of all that
	o.skip = 0
	n, err := o.sub.put(o.b[min(at, len(o.b)):])
	behind := max(at-len(o.b), 0)
	if at += n; err == nil {
		n, err = o.sub.put(events[min(behind, len(events)):])
		at += n
	}
	stopped := errors.Is(err, os.ErrDeadlineExceeded)
	if err != nil && !stopped {
		return nil, err
	}
	base := 0
	for i := range o.items {
		it := &o.items[i]
		if at-base < it.size {
			return o.part(it, base, at-base, events), nil
		}
		o.sub.tenant.delivered(it.count, it.events)
		o.sub.reached.Store(int64(it.f.next()))
		base += it.size
	}
	o.b, o.items = o.b[:0], o.items[:0]
	return nil, nil
}

// part is what is left of the frame at base, of which sent bytes were written.
func (o *outgoing) part(it *outgoingFrame, base, sent int, events []byte) *partial {
	p := &partial{
		from: it.from, last: it.f.base - ids.Offset(it.f.skipped), position: it.position,
		count: it.count, size: it.size, sent: sent, charge: it.f.charge,
	}
	end := base + min(it.size, sent+maxRest)
	if at := base + sent; at < len(o.b) {
		p.rest = append(p.rest, o.b[at:min(end, len(o.b))]...)
	}
	if end > len(o.b) {
		p.rest = append(p.rest, events[max(base+sent-len(o.b), 0):end-len(o.b)]...)
	}
	o.sub.position = it.position
	return p
}

// put writes b in pieces, so that it can be seen that the client takes them.
func (sub *subscription) put(b []byte) (n int, err error) {
	sub.blocked.Store(true)
	defer sub.blocked.Store(false)
	for len(b) > 0 {
		wrote, err := sub.out.Write(b[:min(len(b), sub.s.opts.WriteBytes)])
		n += wrote
		if err != nil {
			return n, err
		}
		b = b[wrote:]
		sub.moved.Add(1)
	}
	return n, nil
}

// Small frames are given to the library at once, which copies them: directFrame bounds one, and directBytes all of a subscription that it
// may hold for a client that does not read.
const (
	directFrame = 1 << 10
	directBytes = 4 << 10
)

// directLocked gives a small frame to the library if run is not on its way, which saves a goroutine for it. False: it is to be queued. Every
// few frames are queued all the same: the library says that it has sent what it was given only to those who wait.
func (sub *subscription) directLocked(f *frame, from ids.Offset) bool {
	if sub.writing || sub.lagged || from != f.base {
		return false
	}
	events, count := f.events(from, sub.stamped)
	size := maxEventHead + len(events)
	if len(events) > directFrame || sub.direct+size > directBytes {
		return false
	}
	var scratch [maxEventHead + directFrame]byte
	b := append(sub.appendHeadOf(scratch[:0], from, count, len(events), int64(from-sub.position)), events...)
	if err := sub.out.TryWriteAll(b); err != nil {
		return false // no credit; or the stream is gone, which run will find out
	}
	sub.direct += size
	sub.position = f.next()
	sub.reached.Store(int64(sub.position))
	sub.s.metrics.enqueued.Add(float64(count))
	sub.tenant.delivered(count, len(events))
	return true
}

// maxEventHead bounds what appendHead appends.
const maxEventHead = 64

func (sub *subscription) form(f *frame) *buf.Ref {
	if sub.stamped {
		return f.stamped
	}
	return f.body
}

// appendHead appends what comes before the events of one frame.
func (sub *subscription) appendHead(b []byte, f *frame, from ids.Offset, count, size int) []byte {
	var skipped int64
	if sub.skips {
		skipped = sub.skipped(f, from)
	}
	return sub.appendHeadOf(b, from, count, size, skipped)
}

func (sub *subscription) appendHeadOf(b []byte, from ids.Offset, count, size int, skipped int64) []byte {
	var head wire.EventHead
	if sub.offsets {
		head.Flags |= wire.FlagOffsets
		head.BaseOffset = uint64(from)
		if sub.skips {
			head.Flags |= wire.FlagSkipped
			head.SkippedBefore = uint64(skipped)
		}
	}
	if sub.stamped {
		head.Flags |= wire.FlagTimestamps
	}
	start := len(b)
	b = wire.BeginEventFrame(b, &head)
	binary.BigEndian.PutUint32(b[len(b)-4:], uint32(count))
	binary.BigEndian.PutUint32(b[start+8:], uint32(len(b)-start-wire.HeaderSize+size))
	return b
}

// skipped counts the offsets without an event below from. As long as nothing was dropped that is all there is between two events; after
// a drop only the cutter knows.
func (sub *subscription) skipped(f *frame, from ids.Offset) int64 {
	if from == f.base && sub.gap() {
		return f.skipped
	}
	return int64(from - sub.position)
}

func (sub *subscription) gap() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.lagged
}
