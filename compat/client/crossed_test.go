package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/client"
)

// TestCrossed writes by one side, reads by the other, and asks both what there is.
func TestCrossed(t *testing.T) {
	all := sides(t, shared)
	for from, w := range all {
		for to, r := range all {
			t.Run(from+"_to_"+to, func(t *testing.T) {
				name := shared.create(t, streamConfig{shards: 2})
				live := r.subscribe(t, name, 0, fromNext)
				const n = 50
				for i := range n {
					if got := w.publish(t, name, nil, fmt.Sprint(i)); got != (placed{0, int64(i)}) {
						t.Fatalf("record %d at %+v", i, got)
					}
				}
				first := take(live, n)
				inOrder(t, first, 0)
				inOrder(t, take(r.subscribe(t, name, 0, 17), n-17), 17)
				for who, s := range all {
					if start, end := s.bounds(t, name, 0); start != 0 || end != n {
						t.Errorf("%s sees bounds %d, %d", who, start, end)
					}
					// Several records may be of one millisecond: the first of them is meant.
					at := first[n/2].at
					want := int64(n / 2)
					for want > 0 && !first[want-1].at.Before(at.Truncate(time.Millisecond)) {
						want--
					}
					if got := s.offsetAt(t, name, 0, at.Truncate(time.Millisecond)); got != want {
						t.Errorf("%s finds offset %d at the time of record %d, want %d", who, got, n/2, want)
					}
				}
				// A key goes where both expect it, and what lies there has one offset.
				for i := range 10 {
					key := fmt.Appendf(nil, "key %d", i)
					a := w.publish(t, name, key, "a")
					if b := r.publish(t, name, key, "b"); b.shard != a.shard || b.offset != a.offset+1 {
						t.Errorf("key %q: %+v and %+v", key, a, b)
					}
				}
			})
		}
	}
}

// TestKafkaPartitioner has our client publish by Kafka's hash the keys that franz-go publishes by its default partitioner: each pair lies on
// one partition, under one key, in the order of publishing.
func TestKafkaPartitioner(t *testing.T) {
	const shards, keys = 6, 60
	ctx := limited(t)
	name := shared.create(t, streamConfig{shards: shards})
	cl := shared.kgo(t)
	p, err := newNative(t, shared).c.NewPublisher(stream(name), client.PublisherOptions{Partitioner: client.Murmur2})
	must(t, err)
	key := func(i int) []byte {
		if i == 0 {
			return []byte{}
		}
		return fmt.Appendf(nil, "%0*d", i, i)
	}
	for i := range keys {
		ack, err := p.Publish(ctx, client.Record{Key: key(i), Value: []byte("native")})
		must(t, err)
		r, err := cl.ProduceSync(ctx, &kgo.Record{Topic: name, Key: key(i), Value: []byte("kafka")}).First()
		must(t, err)
		if ack.Shard != uint32(r.Partition) || ack.Offset+1 != r.Offset {
			t.Errorf("key %q: at %+v, and of Kafka's client at %d of %d", key(i), ack, r.Offset, r.Partition)
		}
	}
	// Without a key our records lie on some shard, and still have none.
	for range 10 {
		_, err := p.Publish(ctx, client.Record{Value: []byte("unkeyed")})
		must(t, err)
	}
	must(t, p.Close(ctx))
	reader := shared.kgo(t, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := map[string][]string{}
	for n := 0; n < 2*keys+10; {
		fetches := reader.PollFetches(ctx)
		must(t, ctx.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			if value := string(r.Value); (r.Key == nil) != (value == "unkeyed") {
				t.Errorf("a record %q with key %q", value, r.Key)
			} else if r.Key != nil {
				seen[string(r.Key)] = append(seen[string(r.Key)], value)
			}
		})
	}
	for i := range keys {
		if got := fmt.Sprint(seen[string(key(i))]); got != "[native kafka]" {
			t.Errorf("key %q: %s", key(i), got)
		}
	}
}

// TestKafkaShards lets franz-go choose the partition of keys, and asks our client which ones they are.
func TestKafkaShards(t *testing.T) {
	const shards = 6
	name := shared.create(t, streamConfig{shards: shards})
	cl := shared.kgo(t)
	for i := range 100 {
		key := fmt.Appendf(nil, "key %d", i)
		r, err := cl.ProduceSync(limited(t), &kgo.Record{Topic: name, Key: key, Value: []byte("v")}).First()
		must(t, err)
		if got := client.KafkaShardOf(key, shards); got != uint32(r.Partition) {
			t.Fatalf("key %q: shard %d, and Kafka's client chose %d", key, got, r.Partition)
		}
	}
}
