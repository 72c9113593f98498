package null

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/bench/internal/gen"
)

// start runs a server for the test and returns its address.
func start(t *testing.T, opts Options) string {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}

func TestProduceIsAcknowledged(t *testing.T) {
	addr := start(t, Options{Partitions: 3})
	for name, opts := range map[string][]kgo.Opt{
		"idempotent": nil,
		"acks 1":     {kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
		"acks 0":     {kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()},
		"lz4":        {kgo.ProducerBatchCompression(kgo.Lz4Compression())},
	} {
		t.Run(name, func(t *testing.T) {
			cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var recs []*kgo.Record
			for range 500 {
				recs = append(recs, &kgo.Record{Topic: "t", Value: []byte("value")})
			}
			if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestFetchServesDenseOffsetsForEver(t *testing.T) {
	for _, codec := range []string{"none", "lz4"} {
		t.Run(codec, func(t *testing.T) {
			const partitions, first, want = 2, 777, 5000
			addr := start(t, Options{Partitions: partitions, RecordBytes: 100, BatchBytes: 4000, Codec: codec})
			at := kgo.NewOffset().At(first)
			cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.FetchMaxBytes(30_000), kgo.ConsumePartitions(
				map[string]map[int32]kgo.Offset{"t": {0: at, 1: at}},
			))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			next := map[int32]int64{0: first, 1: first}
			values := gen.Values(100)
			for next[0] < first+want || next[1] < first+want {
				f := cl.PollFetches(ctx)
				if err := f.Err(); err != nil {
					t.Fatal(err)
				}
				f.EachRecord(func(r *kgo.Record) {
					if r.Offset != next[r.Partition] {
						t.Fatalf("partition %d: offset %d, want %d", r.Partition, r.Offset, next[r.Partition])
					}
					next[r.Partition]++
					if len(r.Value) != 100 {
						t.Fatalf("a value of %d bytes", len(r.Value))
					}
				})
			}
			s, err := New(Options{RecordBytes: 100, BatchBytes: 4000, Codec: "none"})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(s.batch, values[1]) {
				t.Error("the batch does not hold the generator's values")
			}
		})
	}
}
