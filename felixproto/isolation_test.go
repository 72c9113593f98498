package felixproto

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// BenchmarkIsolation publishes at a fixed rate to 50 subscribers, once with all of them reading and once with one that stopped, and reports
// the latency of the others: its p99 beside a stalled neighbour may be 1.5 times of what it is without one. Run it alone:
//
//	go test -run xxx -bench Isolation -benchtime 3s ./felixproto
func BenchmarkIsolation(b *testing.B) {
	for _, stalled := range []bool{false, true} {
		name := "all_read"
		if stalled {
			name = "one_stalled"
		}
		b.Run(name, func(b *testing.B) {
			took := isolation(b, stalled)
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// isolation returns how long each event took to each reader, from the moment that it was to be sent.
func isolation(b *testing.B, stalled bool) []time.Duration {
	const subscribers, connections, size, interval = 50, 10, 1 << 10, 2 * time.Millisecond
	r := newRig(b, rigOptions{})
	r.stream("demo", 1, true)
	began := time.Now()
	var (
		readers sync.WaitGroup
		mu      sync.Mutex
		all     []time.Duration
	)
	n := max(b.N, 1500)
	for range connections {
		c := r.connect()
		for range subscribers / connections {
			_, events := c.subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), QueueCapacity: wire.Some(uint32(4096))})
			readers.Go(func() {
				took := make([]time.Duration, n)
				for i := range took {
					at := time.Duration(binary.BigEndian.Uint64(events.next().Payload))
					took[i] = time.Since(began) - at
				}
				mu.Lock()
				all = append(all, took...)
				mu.Unlock()
			})
		}
	}
	if stalled {
		// It reads nothing: its windows fill, then its queue, then it is given up.
		r.connect().subscribe("admin", &wire.Subscribe{StreamScope: scope("demo"), QueueCapacity: wire.Some(uint32(64))})
	}
	p := r.connect().open("admin")
	acks := make(chan struct{})
	go func() {
		defer close(acks)
		for range n {
			p.ack()
		}
	}()
	payload := make([]byte, size)
	b.ResetTimer()
	start := time.Since(began)
	for i := range n {
		due := start + time.Duration(i)*interval
		time.Sleep(due - time.Since(began))
		binary.BigEndian.PutUint64(payload, uint64(due))
		p.publish(uint64(i), "demo", string(payload))
	}
	<-acks
	readers.Wait()
	b.StopTimer()
	return all
}
