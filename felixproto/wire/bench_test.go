package wire

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

var benchShapes = []struct {
	count, size int
}{{1, 100}, {100, 100}, {64, 1024}, {1, 64 << 10}}

func benchPublish(tb testing.TB, count, size int) []byte {
	payloads := make([][]byte, count)
	for i := range payloads {
		payloads[i] = make([]byte, size)
	}
	frame, err := AppendBinaryPublish(nil, &BinaryPublish{
		RequestID: 7, Ack: AckPerBatch, Key: []byte("customer-42"), TenantID: []byte("t1"), Namespace: []byte("default"),
		Stream: []byte("demo"), Payloads: MakePayloads(payloads...),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return frame
}

func benchEach(b *testing.B, run func(b *testing.B, count, size int)) {
	for _, s := range benchShapes {
		b.Run(fmt.Sprintf("%dx%d", s.count, s.size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(s.count * s.size))
			run(b, s.count, s.size)
		})
	}
}

// BenchmarkParsePublish is what a server does with a publish before it has a shard: header, body, routing.
func BenchmarkParsePublish(b *testing.B) {
	benchEach(b, func(b *testing.B, count, size int) {
		frame := benchPublish(b, count, size)
		for b.Loop() {
			h, err := ParseHeader(frame, DefaultMaxFrameBytes)
			if err != nil {
				b.Fatal(err)
			}
			p, err := ParseBinaryPublish(h.Flags, frame[HeaderSize:])
			if err != nil || ShardOf(p.Key, 16, MappingModulo) != 6 {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppendPublish(b *testing.B) {
	benchEach(b, func(b *testing.B, count, size int) {
		frame := benchPublish(b, count, size)
		p, err := ParseBinaryPublish(0x0049, frame[HeaderSize:])
		if err != nil {
			b.Fatal(err)
		}
		var dst []byte
		for b.Loop() {
			if dst, err = AppendBinaryPublish(dst[:0], &p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPayloads(b *testing.B) {
	benchEach(b, func(b *testing.B, count, size int) {
		p, err := ParseBinaryPublish(0x0049, benchPublish(b, count, size)[HeaderSize:])
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for b.Loop() {
			for payload := range p.Payloads.All() {
				n += len(payload)
			}
		}
		if n == 0 {
			b.Fatal("nothing")
		}
	})
}

// BenchmarkRehead makes an event frame of a publish: the head only, since the payloads stay where they are.
func BenchmarkRehead(b *testing.B) {
	benchEach(b, func(b *testing.B, count, size int) {
		p, err := ParseBinaryPublish(0x0049, benchPublish(b, count, size)[HeaderSize:])
		if err != nil {
			b.Fatal(err)
		}
		var dst []byte
		head := EventHead{Flags: FlagOffsets}
		for b.Loop() {
			head.BaseOffset++
			dst = AppendEventHead(dst[:0], &head, p.Payloads)
		}
	})
}

func BenchmarkParseEvents(b *testing.B) {
	for _, flags := range []Flags{FlagSharedEventBatch | FlagOffsets, FlagSharedEventBatch | FlagOffsets | FlagTimestamps} {
		b.Run(flags.String(), func(b *testing.B) {
			benchEach(b, func(b *testing.B, count, size int) {
				payloads := make([][]byte, count)
				for i := range payloads {
					payloads[i] = make([]byte, size)
				}
				frame := AppendEventBatch(nil, &EventHead{Flags: flags}, 1, MakePayloads(payloads...))
				n := 0
				for b.Loop() {
					e, err := ParseEventBatch(flags, frame[HeaderSize:])
					if err != nil {
						b.Fatal(err)
					}
					for ev := range e.All() {
						n += len(ev.Payload)
					}
				}
				if n == 0 {
					b.Fatal("nothing")
				}
			})
		})
	}
}

func BenchmarkPublishAck(b *testing.B) {
	b.ReportAllocs()
	ack := PublishAck{RequestID: 7, Offset: Some[uint64](42)}
	var dst []byte
	for b.Loop() {
		dst = AppendPublishAck(dst[:0], &ack, KnownFlags)
		if a, err := ParsePublishAck(0x1010, dst[HeaderSize:]); err != nil || a.RequestID != 7 {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadFrame(b *testing.B) {
	benchEach(b, func(b *testing.B, count, size int) {
		frame := benchPublish(b, count, size)
		r := bytes.NewReader(nil)
		var buf []byte
		for b.Loop() {
			r.Reset(frame)
			var err error
			if _, buf, err = ReadFrame(r, buf, DefaultMaxFrameBytes); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// benchMessages are the JSON messages that come once an operation and not once a stream.
var benchMessages = []Message{
	&CacheGet{CacheScope: cacheScope, Key: "user:42", RequestID: Some[uint64](1)},
	&CachePut{CacheScope: cacheScope, Key: "user:42", Value: make([]byte, 1024), RequestID: Some[uint64](1)},
	&CounterAdd{CacheScope: cacheScope, Key: "user:42", Delta: -1, RequestID: 1},
	&GroupPoll{GroupScope: GroupScope{StreamScope: scope, Group: "workers", RequestID: 1}, MaxRecords: 32, WaitMillis: 5000},
}

func BenchmarkParseRequest(b *testing.B) {
	for _, m := range benchMessages {
		b.Run(TypeOf(m), func(b *testing.B) {
			payload := AppendMessage(nil, m)[HeaderSize:]
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if _, err := ParseRequest(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendMessage(b *testing.B) {
	for _, m := range []Message{
		&CacheValue{CacheScope: cacheScope, Key: "user:42", Value: make([]byte, 1024), RequestID: Some[uint64](1)},
		&CacheOK{RequestID: 1},
		&PublishOK{RequestID: 1, Offset: Some[uint64](42)},
	} {
		b.Run(TypeOf(m), func(b *testing.B) {
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst = AppendMessage(dst[:0], m)
			}
		})
	}
}

// TestHotPathAllocations is the budget of what happens for every publish, event frame and ack: nothing.
func TestHotPathAllocations(t *testing.T) {
	frame := benchPublish(t, 64, 100)
	dst := make([]byte, 0, 2*len(frame))
	times := EventHead{Flags: eventParts, SkippedBefore: 1, BaseOffset: 2, Publisher: []byte("p")}
	timed := AppendEventBatch(nil, &times, 1, mustPublish(t, frame).Payloads)
	r := bytes.NewReader(nil)
	for name, f := range map[string]func(){
		"read_frame": func() {
			r.Reset(frame)
			if _, _, err := ReadFrame(io.Reader(r), dst, DefaultMaxFrameBytes); err != nil {
				t.Fatal(err)
			}
		},
		"publish": func() {
			p := mustPublish(t, frame)
			n := 0
			for payload := range p.Payloads.All() {
				n += len(payload)
			}
			if n != p.Payloads.Bytes() || ShardOf(p.Key, 8, MappingJumpHash) > 7 {
				t.Fatal(n)
			}
			head, _ := p.Payloads.Cut(1000)
			dst = AppendEventHead(dst[:0], &EventHead{Flags: FlagOffsets, BaseOffset: 1}, head)
			dst = AppendEventBatch(dst[:0], &times, 1, p.Payloads)
			var err error
			if dst, err = AppendBinaryPublish(dst[:0], &p); err != nil {
				t.Fatal(err)
			}
		},
		"events": func() {
			e, err := ParseEventBatch(times.WireFlags(), timed[HeaderSize:])
			if err != nil {
				t.Fatal(err)
			}
			dst = BeginEventFrame(dst[:0], &e.EventHead)
			for ev := range e.All() {
				dst = AppendEvent(dst, e.Flags, ev.TimestampMicros, ev.Payload)
			}
			EndEventFrame(dst, &e.EventHead, e.Count())
		},
		"ack": func() {
			dst = AppendPublishAck(dst[:0], &PublishAck{RequestID: 1, Offset: Some[uint64](1)}, KnownFlags)
			if _, err := ParsePublishAck(0x1010, dst[HeaderSize:]); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if got := testing.AllocsPerRun(50, f); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func mustPublish(tb testing.TB, frame []byte) BinaryPublish {
	p, err := ParseBinaryPublish(0x0049, frame[HeaderSize:])
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
