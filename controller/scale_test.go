package controller

import (
	"fmt"
	"testing"

	"github.com/felixlog/felix/internal/cluster"
)

// BenchmarkAmongMany is what one more costs in a cluster of 1,000 tenants and 10,000 streams: a stream, a tenant, and a page of a hundred
// streams right behind a creation.
func BenchmarkAmongMany(b *testing.B) {
	s := &state{image: cluster.NewImage(nil)}
	s.next(cluster.Bootstrap{ClusterID: "c", Tenant: "default", Namespace: "default"})
	s.next(cluster.RegisterNode{ID: "n1", KafkaHost: "h", KafkaPort: 1})
	made := 0
	streams := func(tenant string, n int) {
		var cmd cluster.CreateStreams
		for range n {
			made++
			cmd.Streams = append(cmd.Streams, cluster.NewStream{
				TopicRef: cluster.TopicRef{ID: topicID(made), Tenant: tenant, Namespace: "n", Name: fmt.Sprintf("s%08d", made)}, Shards: 1, ReplicationFactor: 1,
			})
		}
		for _, item := range s.next(cmd).Items {
			if item.Err != nil {
				b.Fatal(item.Err)
			}
		}
	}
	for i := range 1000 {
		tenant := fmt.Sprintf("t%04d", i)
		s.next(cluster.CreateTenant{Name: tenant, Key: cluster.KeyFromSeed(seed(i))})
		s.next(cluster.CreateNamespace{Tenant: tenant, Name: "n"})
		streams(tenant, 10)
	}
	b.Run("stream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			streams("t0500", 1)
		}
	})
	b.Run("stream_and_page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			streams("t0500", 1)
			left := 100
			s.image.TopicsBehind("t0500", "n", "", func(*cluster.Topic) bool { left--; return left > 0 })
		}
	})
	b.Run("tenant", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			name := fmt.Sprintf("more%d", i)
			if res := s.next(cluster.CreateTenant{Name: name}); res.Err != nil {
				b.Fatal(res.Err)
			}
			if res := s.next(cluster.DeleteTenant{Name: name}); res.Err != nil {
				b.Fatal(res.Err)
			}
		}
	})
}
