package client

import (
	"bytes"
	"testing"

	"github.com/felixlog/felix/felixproto/wire"
)

// BenchmarkEnqueue takes records on, frames them and settles them, without a connection. It must not allocate.
func BenchmarkEnqueue(b *testing.B) {
	l := testLane(PublisherOptions{})
	value := make([]byte, 100)
	done := func(Ack, error) {}
	var first uint64
	b.ReportAllocs()
	b.SetBytes(int64(len(value)))
	i := 0
	for b.Loop() {
		l.mustAdd(value, done)
		if i++; i%100 == 0 {
			l.fill(&first)
			if err := l.answered(first, int64(i), nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkEvents decodes frames of 64 events of 100 bytes; a round is a frame.
func BenchmarkEvents(b *testing.B) {
	for _, reuse := range []bool{false, true} {
		name := "owned"
		if reuse {
			name = "reused"
		}
		b.Run(name, func(b *testing.B) {
			s := &Subscription{c: &Client{cfg: Config{}.withDefaults()}, opts: SubscribeOptions{ReuseBuffers: reuse}, out: make(chan *delivery, 1), life: b.Context()}
			r := newReader(s, 0)
			r.accept(&wire.Subscribed{StartOffset: wire.Some[uint64](0), LiveOffset: wire.Some[uint64](0)})
			values := make([][]byte, 64)
			for i := range values {
				values[i] = make([]byte, 100)
			}
			list := wire.MakePayloads(values...)
			in := bytes.NewReader(nil)
			var frame []byte
			head := wire.EventHead{Flags: wire.FlagOffsets}
			b.ReportAllocs()
			b.SetBytes(64 * 100)
			for b.Loop() {
				frame = wire.AppendEventBatch(frame[:0], &head, 0, list)
				head.BaseOffset += 64
				in.Reset(frame)
				if err := r.frame(in); err != nil {
					b.Fatal(err)
				}
				for range 64 {
					if _, err := s.Next(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
