package relay

import (
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"github.com/felixlog/felix/felixproto/wire"
)

// frame is an event frame that all subscribers share.
type frame struct {
	holders atomic.Int32
	b       []byte
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func (f *frame) release() {
	if f.holders.Add(-1) == 0 {
		frames.Put(f)
	}
}

// subscriber is one reader.
type subscriber struct {
	s   *Server
	out *quic.SendStream

	mu      sync.Mutex
	queue   []*frame // guarded by mu
	writing bool     // guarded by mu: write is on its way
	gone    bool     // guarded by mu
}

func (s *Server) subscribe(conn *quic.Conn, q *quic.Stream) error {
	out, err := conn.OpenUniStream()
	if err != nil {
		return err
	}
	id := s.next.Add(1)
	if _, err := out.Write(wire.AppendMessage(nil, &wire.EventStreamHello{SubscriptionID: id})); err != nil {
		return err
	}
	s.mu.Lock()
	s.subs = append(append([]*subscriber(nil), s.subs...), &subscriber{s: s, out: out})
	s.mu.Unlock()
	_, err = q.Write(wire.AppendMessage(nil, &wire.Subscribed{SubscriptionID: id}))
	return err
}

// publish queues one frame for everybody.
func (s *Server) publish(events []byte) {
	s.mu.Lock()
	subs := s.subs
	s.mu.Unlock()
	if len(subs) == 0 {
		return
	}
	f, _ := frames.Get().(*frame)
	f.holders.Store(int32(len(subs)))
	f.b = append(wire.BeginFrame(f.b[:0], wire.FlagSharedEventBatch), events...)
	wire.EndFrame(f.b)
	for _, sub := range subs {
		sub.offer(f)
	}
}

func (sub *subscriber) offer(f *frame) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.gone {
		f.release()
		return
	}
	sub.queue = append(sub.queue, f)
	if !sub.writing {
		sub.writing = true
		sub.s.wg.Go(sub.write)
	}
}

var buffers = sync.Pool{New: func() any { return new([writeBytes]byte) }}

// write sends what is queued until there is nothing left.
func (sub *subscriber) write() {
	buf, _ := buffers.Get().(*[writeBytes]byte)
	defer buffers.Put(buf)
	var taken []*frame
	for {
		sub.mu.Lock()
		taken = append(taken[:0], sub.queue...)
		sub.queue = sub.queue[:0]
		if len(taken) == 0 {
			sub.writing, sub.queue = false, nil
			sub.mu.Unlock()
			return
		}
		sub.mu.Unlock()
		if err := sub.send(buf[:0], taken); err != nil {
			sub.mu.Lock()
			sub.gone = true
			for _, f := range sub.queue {
				f.release()
			}
			sub.queue = nil
			sub.mu.Unlock()
			return
		}
	}
}

// send writes frames, joined up to the capacity of b.
func (sub *subscriber) send(b []byte, all []*frame) error {
	var err error
	write := func(b []byte) {
		if err == nil && len(b) > 0 {
			_, err = sub.out.Write(b)
		}
	}
	for _, f := range all {
		if len(b)+len(f.b) > cap(b) {
			write(b)
			b = b[:0]
		}
		if len(f.b) > cap(b) {
			write(f.b)
		} else {
			b = append(b, f.b...)
		}
		f.release()
	}
	write(b)
	return err
}
