package client

import (
	"context"
	"strings"
	"testing"

	"github.com/felixlog/felix/felixproto/wire"
)

// TestNamedFrames holds what is reckoned for publishes that name their shard against what they take, up to the largest record of a server.
func TestNamedFrames(t *testing.T) {
	const largest = 12_000_000
	for _, tc := range []struct {
		name    string
		key     int // bytes
		stream  string
		values  []int // bytes each
		batches int
	}{
		{"empty", 0, "s", []int{0, 0, 0}, 1},
		{"short", 1, "s", []int{1, 2, 3, 4, 5}, 1},
		{"largest", 60_000, "s", []int{largest}, 1},
		{"together", 65_535, "s", []int{6_000_000, 6_000_000, 6_000_000, 300_000}, 2},
		{"names", 10, strings.Repeat("\x01", 65_535), []int{100}, 1},
		{"many", 0, "s", make([]int, 10_000), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := testLane(PublisherOptions{MaxBatchBytes: 1 << 30, MaxBufferedBytes: 1 << 30, Partitioner: Murmur2})
			l.explicit, l.p.stream.Name = true, tc.stream
			key := make([]byte, tc.key)
			for _, n := range tc.values {
				size := n + payloadPrefix
				if !l.p.fits(key, size, 1, true) {
					t.Fatalf("a record of %d bytes does not fit", n)
				}
				if err := l.p.budget.acquire(context.Background(), nil, costOf(key, size)); err != nil {
					t.Fatal(err)
				}
				l.add(key, make([]byte, n), true, size, promise{})
			}
			if len(l.queue) != tc.batches {
				t.Fatalf("%d batches, want %d", len(l.queue), tc.batches)
			}
			for _, b := range l.queue {
				frame := l.frameLocked(nil, b)
				bound := wire.DefaultMaxFrameBytes - l.p.shardFrameRoom(key) + jsonBytes(len(b.encoded), b.count)
				if n := len(frame) - wire.HeaderSize; n > bound || n > wire.DefaultMaxFrameBytes {
					t.Errorf("a frame of %d bytes, reckoned %d", n, bound)
				}
				m, err := wire.ParseRequest(frame[wire.HeaderSize:])
				p, ok := m.(*wire.PublishIdempotent)
				if err != nil || !ok || p.Payloads.Count() != b.count || p.Shard != wire.Some(l.shard) || len(p.Key) != tc.key || p.Key == nil {
					t.Errorf("%T, %v", m, err)
				}
			}
		})
	}
}
