package client

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaSide is franz-go. It chooses the partition by the native hash, which it asks our own client for, so that both sides mean the same
// shard.
type kafkaSide struct {
	f      *fleet
	hash   *nativeSide
	client *kgo.Client
	adm    *kadm.Client
}

func newKafka(t *testing.T, f *fleet) *kafkaSide {
	t.Helper()
	cl := f.kgo(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	return &kafkaSide{f: f, hash: newNative(t, f), client: cl, adm: kadm.NewClient(cl)}
}

func (s *kafkaSide) name() string { return "kafka" }

func (s *kafkaSide) shardOf(t *testing.T, name string, key []byte) int32 {
	t.Helper()
	shard, err := s.hash.c.ShardOf(limited(t), stream(name), key)
	must(t, err)
	return int32(shard)
}

func (s *kafkaSide) publish(t *testing.T, name string, key []byte, values ...string) placed {
	t.Helper()
	shard := s.shardOf(t, name, key)
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: name, Partition: shard, Key: key, Value: []byte(v)}
	}
	results := s.client.ProduceSync(limited(t), records...)
	must(t, results.FirstErr())
	return placed{uint32(shard), results[0].Record.Offset}
}

type kafkaWriter struct {
	t    *testing.T
	s    *kafkaSide
	name string
}

func (s *kafkaSide) writer(t *testing.T, name string) writer {
	t.Helper()
	return &kafkaWriter{t, s, name}
}

func (w *kafkaWriter) send(key []byte, value string, done func(placed)) {
	w.t.Helper()
	r := &kgo.Record{Topic: w.name, Partition: w.s.shardOf(w.t, w.name, key), Key: key, Value: []byte(value)}
	w.s.client.Produce(w.t.Context(), r, func(r *kgo.Record, err error) {
		if err != nil {
			w.t.Errorf("produce %s: %v", value, err)
		} else if done != nil {
			done(placed{uint32(r.Partition), r.Offset})
		}
	})
}

func (w *kafkaWriter) wait() {
	w.t.Helper()
	must(w.t, w.s.client.Flush(limited(w.t)))
}

type kafkaReader struct {
	t      *testing.T
	client *kgo.Client
	got    []*kgo.Record
}

func (s *kafkaSide) subscribe(t *testing.T, name string, shard uint32, from int64) reader {
	t.Helper()
	// What "the next" is must be settled before the caller publishes.
	if start, end := s.bounds(t, name, shard); from == fromNext {
		from = end
	} else if from == fromOldest {
		from = start
	}
	cl := s.f.kgo(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {int32(shard): kgo.NewOffset().At(from)}}), kgo.FetchMaxWait(time.Second))
	return &kafkaReader{t: t, client: cl}
}

func (r *kafkaReader) next() record {
	r.t.Helper()
	ctx := limited(r.t)
	for len(r.got) == 0 {
		fetches := r.client.PollFetches(ctx)
		must(r.t, ctx.Err())
		// Errors are of connections, which the client makes anew.
		fetches.EachRecord(func(rec *kgo.Record) { r.got = append(r.got, rec) })
	}
	rec := r.got[0]
	r.got = r.got[1:]
	return record{shard: uint32(rec.Partition), offset: rec.Offset, value: string(rec.Value), at: rec.Timestamp}
}

func (r *kafkaReader) close() { r.client.Close() }

func (s *kafkaSide) bounds(t *testing.T, name string, shard uint32) (start, end int64) {
	t.Helper()
	starts, err := s.adm.ListStartOffsets(limited(t), name)
	must(t, err)
	ends, err := s.adm.ListEndOffsets(limited(t), name)
	must(t, err)
	must(t, starts.Error())
	must(t, ends.Error())
	first, _ := starts.Lookup(name, int32(shard))
	last, _ := ends.Lookup(name, int32(shard))
	return first.Offset, last.Offset
}

func (s *kafkaSide) offsetAt(t *testing.T, name string, shard uint32, at time.Time) int64 {
	t.Helper()
	offsets, err := s.adm.ListOffsetsAfterMilli(limited(t), at.UnixMilli(), name)
	must(t, err)
	must(t, offsets.Error())
	found, _ := offsets.Lookup(name, int32(shard))
	if found.Timestamp < 0 {
		return -1 // kadm gives the end in place of none
	}
	return found.Offset
}
