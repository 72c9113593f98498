package load

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// wire counts the bytes of a client's connections and the batches it wrote.
type wire struct{ written, read, batches atomic.Int64 }

// OnProduceBatchWritten implements kgo.HookProduceBatchWritten.
func (w *wire) OnProduceBatchWritten(kgo.BrokerMetadata, string, int32, kgo.ProduceBatchMetrics) {
	w.batches.Add(1)
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (w *wire) OnBrokerWrite(_ kgo.BrokerMetadata, _ int16, n int, _, _ time.Duration, _ error) {
	w.written.Add(int64(n))
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (w *wire) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, n int, _, _ time.Duration, _ error) {
	w.read.Add(int64(n))
}

// producerOpts are franz-go's options for a producer of spec.
func producerOpts(spec *Spec, w *wire) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(spec.Broker), kgo.WithHooks(w), kgo.ProducerLinger(time.Duration(spec.LingerMS) * time.Millisecond),
		kgo.RecordDeliveryTimeout(time.Minute), kgo.RequestTimeoutOverhead(30 * time.Second), kgo.ProduceRequestTimeout(30 * time.Second),
		kgo.Dialer((&net.Dialer{Timeout: 10 * time.Second}).DialContext),
	}
	switch spec.Acks {
	case 0:
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()))
	case 1:
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	case -1:
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	default:
		return nil, fmt.Errorf("acks %d", spec.Acks)
	}
	if !spec.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(max(spec.InFlight, 5)))
	}
	switch spec.Codec {
	case "", "none":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.NoCompression()))
	case "lz4":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	default:
		return nil, fmt.Errorf("codec %q", spec.Codec)
	}
	batch := spec.BatchBytes
	if batch == 0 {
		batch = 1_000_000
	}
	opts = append(opts, kgo.ProducerBatchMaxBytes(int32(batch)))
	// Enough to keep every partition's pipeline full, but bounded: about 64 MiB of records.
	opts = append(opts, kgo.MaxBufferedRecords(min(max(64<<20/spec.RecordBytes, 1000), 500_000)))
	if spec.Spread != "" {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

// spreader returns the function that chooses the partition of a producer's n-th record; nil leaves the choice to the client. With
// several topics, partition p of topic t is t*Partitions + p.
func spreader(spec *Spec, producer int) func(n int64) int32 {
	parts := int64(spec.Partitions) * int64(max(spec.Topics, 1))
	switch spec.Spread {
	case "own":
		p := int32(int64(producer) % parts)
		return func(int64) int32 { return p }
	case "turn":
		perBatch := int64(max(1, spec.BatchBytes/(spec.RecordBytes+12)))
		return func(n int64) int32 { return int32(n / perBatch % parts) }
	case "each":
		return func(n int64) int32 { return int32(n % parts) }
	}
	return nil
}

// consumerOpts are franz-go's options for a consumer of all partitions of topic from the given offset.
func consumerOpts(spec *Spec, topic string, partitions []int32, at kgo.Offset, w *wire) []kgo.Opt {
	m := make(map[int32]kgo.Offset, len(partitions))
	for _, p := range partitions {
		m[p] = at
	}
	return []kgo.Opt{
		kgo.SeedBrokers(spec.Broker), kgo.WithHooks(w),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: m}),
		kgo.FetchMaxWait(500 * time.Millisecond), kgo.FetchMinBytes(1),
	}
}

// allPartitions is 0..n-1.
func allPartitions(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// ping makes a client's first connection and learns the topic, so that this is not measured.
func ping(ctx context.Context, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return cl.Ping(ctx)
}
