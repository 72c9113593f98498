package raftstore

import (
	"crypto/rand"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

func newTopics(n int, partitions int32) cluster.CreateTopics {
	c := cluster.CreateTopics{Topics: make([]cluster.NewTopic, n)}
	for i := range c.Topics {
		c.Topics[i] = cluster.NewTopic{
			ID: randomID(), Tenant: "default", Namespace: "default", Name: fmt.Sprintf("topic-%05d", i),
			Partitions: partitions, ReplicationFactor: 1, Durable: true, MadeByKafka: true,
		}
	}
	return c
}

func randomID() (id ids.TopicID) {
	_, _ = rand.Read(id[:])
	return id
}

func register(tb testing.TB, c *controller.Controller, clean bool) cluster.Node {
	tb.Helper()
	res, err := c.Propose(tb.Context(), cluster.RegisterNode{ID: "n1", KafkaHost: "127.0.0.1", KafkaPort: 9092, Clean: clean})
	if err != nil || res.Err != nil {
		tb.Fatal(err, res.Err)
	}
	return res.Node
}

func createTopics(tb testing.TB, c *controller.Controller, cmd cluster.CreateTopics) {
	tb.Helper()
	res, err := c.Propose(tb.Context(), cmd)
	if err != nil {
		tb.Fatal(err)
	}
	for _, item := range res.Items {
		if item.Err != nil {
			tb.Fatal(item.Err)
		}
	}
}

// BenchmarkStart is an empty directory, and directories with ten thousand partitions after a clean stop and after a crash, each to a
// registered node.
func BenchmarkStart(b *testing.B) {
	for _, shape := range []struct {
		name       string
		topics     int
		partitions int32
		clean      bool
	}{
		{"empty", 0, 0, true},
		{"one_topic_of_10000", 1, 10_000, true},
		{"one_topic_of_10000_crash", 1, 10_000, false},
		{"10000_topics", 10_000, 1, true},
		{"10000_topics_crash", 10_000, 1, false},
	} {
		b.Run(shape.name, func(b *testing.B) {
			dir := b.TempDir()
			if shape.topics > 0 {
				c := open(b, dir)
				register(b, c, true)
				began := time.Now()
				createTopics(b, c, newTopics(shape.topics, shape.partitions))
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/create")
				_ = c.Close()
			}
			for b.Loop() {
				b.StopTimer()
				if shape.topics == 0 {
					dir = b.TempDir()
				}
				b.StartTimer()
				c := open(b, dir)
				register(b, c, shape.clean)
				b.StopTimer()
				_ = c.Close()
				b.StartTimer()
			}
		})
	}
}

// TestMemoryPerPartition holds the promise of at most 100 bytes a partition in one big topic, and shows what a small topic costs.
func TestMemoryPerPartition(t *testing.T) {
	c := open(t, t.TempDir())
	defer func() { _ = c.Close() }()
	register(t, c, true)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const n = 100_000
	createTopics(t, c, newTopics(1, n))
	if per := float64(heap()-before) / n; per > 100 {
		t.Errorf("%.1f bytes a partition, want at most 100", per)
	} else {
		t.Logf("%.1f bytes a partition", per)
	}
}
