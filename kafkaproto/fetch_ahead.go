package kafkaproto

import (
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/ids"
)

// Reading ahead: a consumer that works through a log asks for the next megabytes when it has taken the last ones. While the client takes
// them, the connection's reader reads and verifies those that it will ask for next, so that both processors have something to do. What
// was read waits for the next fetch, charged to the memory for answers, and is given up when nobody asks for it in time.

const (
	// aheadFrom is how much an answer must carry for its connection to be worth reading ahead for.
	aheadFrom = 256 << 10
	// aheadMost bounds what is read ahead for one connection.
	aheadMost = 8 << 20
	// aheadKept is how long what was read waits to be asked for.
	aheadKept = 250 * time.Millisecond
	// aheadRests bounds how many fetches of a consumer that let what was read expire are not read ahead of.
	aheadRests = 64
)

// trail is what a connection remembers of its last large answer. It belongs to the reading goroutine.
type trail struct {
	shard   shard
	next    ids.Offset
	rest    uint8 // large answers that are not read ahead of, from now on
	resting uint8 // how many that were when what was read last expired
	unused  bool  // what was read last has not been asked for yet
}

// ahead is what was read ahead for one connection. Who takes it off the connection owns it.
type ahead struct {
	parts  []aheadPart
	chunks []broker.Chunk
	charge int64 // taken from srv.answers
	timer  *time.Timer
}

// aheadPart is what was read of one partition.
type aheadPart struct {
	shard             shard
	from              ids.Offset
	firstChunk, chunk int
	bytes             int
	limit             int        // what bytes were bounded by
	next              ids.Offset // behind the last record
	last              bool       // there was nothing behind it
}

// find returns what was read of sh from an offset on.
func (a *ahead) find(sh shard, from ids.Offset) *aheadPart {
	if a == nil {
		return nil
	}
	for i := range a.parts {
		if p := &a.parts[i]; p.shard == sh && p.from == from {
			return p
		}
	}
	return nil
}

// take moves the chunks of p to dst. If they may be fewer than fit into limit bytes by now, it reads on behind them.
func (a *ahead) take(p *aheadPart, limit int, dst []broker.Chunk) ([]broker.Chunk, int) {
	chunks := a.chunks[p.firstChunk:p.chunk]
	dst = append(dst, chunks...)
	clear(chunks)
	n := p.bytes
	if (p.last || p.limit < limit) && p.shard.Bounds().HighWatermark > p.next {
		more, m, err := p.shard.Read(p.next, limit-n, false, dst)
		if err == nil { // else whoever asks for what follows is told
			dst, n = more, n+m
		}
	}
	p.shard = nil
	return dst, n
}

// release gives up the chunks that were not taken.
func (a *ahead) release() {
	for i := range a.chunks {
		a.chunks[i].Ref.Release()
	}
	a.chunks = nil
}

// takeAhead takes what was read ahead off the connection, nil if there is nothing. Any goroutine.
func (c *conn) takeAhead() *ahead {
	if c.ahead.Load() == nil {
		return nil
	}
	a := c.ahead.Swap(nil)
	if a != nil {
		a.timer.Stop()
	}
	return a
}

// dropAhead gives up what was read ahead. Any goroutine.
func (c *conn) dropAhead() {
	if a := c.takeAhead(); a != nil {
		c.giveUp(a)
	}
}

func (c *conn) giveUp(a *ahead) {
	a.release()
	c.srv.answers.put(a.charge)
	c.srv.metrics.ahead(false)
}

// readAhead reads what the client will ask for when it has taken the answer of f, if f went on where the fetch before it ended. The caller
// is the reading goroutine, behind f's answer.
func (f *fetch) readAhead() {
	c, t := f.conn, &f.conn.trail
	first, total := -1, 0
	for i := range f.parts {
		if f.parts[i].bytes > 0 && first < 0 {
			first = i
		}
		total += f.parts[i].bytes
	}
	if total < aheadFrom {
		return
	}
	if f.usedAhead {
		t.unused, t.resting = false, 0
	}
	follows := false
	for i := range f.parts {
		if p := &f.parts[i]; p.bytes > 0 && p.shard == t.shard && p.offset == t.next {
			follows = true
		}
	}
	t.shard, t.next = f.parts[first].shard, f.parts[first].next
	if !follows || !t.mayRead() || c.in.holdsRequest() || c.ending.Load() || f.srv.answers.isShort() {
		return
	}
	available := 0
	for i := range f.parts {
		if p := &f.parts[i]; p.bytes > 0 {
			available += p.shard.Available(p.next, max(p.maxBytes, 0))
		}
	}
	a := &ahead{charge: f.srv.answers.takeUpTo(int64(min(available, f.maxBytes, aheadMost)), aheadFrom)}
	a.fill(f.parts)
	total = 0
	for i := range a.parts {
		total += a.parts[i].bytes
	}
	f.srv.answers.put(a.charge - int64(total))
	a.charge = int64(total)
	if total == 0 {
		return
	}
	t.unused = true
	a.timer = time.AfterFunc(aheadKept, func() {
		if c.ahead.CompareAndSwap(a, nil) {
			c.giveUp(a)
		}
	})
	c.ahead.Store(a)
	a.timer.Reset(aheadKept) // again: it must not end before a is where it looks
	if c.closed.Load() {
		c.dropAhead()
	}
}

// fill reads behind what each of parts was answered with, at most a.charge bytes in all.
func (a *ahead) fill(parts []fetchPart) {
	left := int(a.charge)
	for i := range parts {
		p := &parts[i]
		if p.bytes == 0 || p.maxBytes <= 0 || left <= 0 {
			continue
		}
		from, n := len(a.chunks), 0
		var err error
		if a.chunks, n, err = p.shard.Read(p.next, min(left, p.maxBytes), false, a.chunks); err != nil || n == 0 {
			continue // whoever asks for it is told
		}
		_, next := surveyBatches(a.chunks[len(a.chunks)-1].Data)
		a.parts = append(a.parts, aheadPart{
			shard: p.shard, from: p.next, firstChunk: from, chunk: len(a.chunks), bytes: n,
			limit: min(left, p.maxBytes), next: next, last: next >= p.shard.Bounds().HighWatermark,
		})
		left -= n
	}
}

// mayRead says whether the next large answer is worth reading ahead of: each time that what was read expired, twice as many are not.
func (t *trail) mayRead() bool {
	if t.unused {
		t.unused = false
		t.resting = min(max(1, 2*t.resting), aheadRests)
		t.rest = t.resting
	}
	if t.rest > 0 {
		t.rest--
		return false
	}
	return true
}
