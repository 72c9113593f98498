package broker

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/felixlog/felix/log/recordbatch"
)

// BenchmarkAppend is Kafka's way into the log, alone and side by side.
func BenchmarkAppend(b *testing.B) {
	for _, tc := range []struct {
		name     string
		shards   int
		parallel bool
	}{{"alone", 1, false}, {"one_shard", 1, true}, {"eight_shards", 8, true}} {
		b.Run(tc.name, func(b *testing.B) {
			st := diskSite(b)
			topic := st.meta.native(b, "t", "s", true, tc.shards)
			builder := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{LeaderEpoch: -1})
			builder.Append(st.b.opts.Now().UnixMilli(), nil, []byte(strings.Repeat("x", 1000)))
			raw, err := builder.Build()
			if err != nil {
				b.Fatal(err)
			}
			var next atomic.Int32
			run := func(more func() bool) {
				s := st.shard(b, topic, next.Add(1)%int32(tc.shards))
				batch := make([]byte, len(raw))
				for more() {
					copy(batch, raw)
					if _, err := s.Append(AppendInput{Records: batch}); err != nil {
						b.Error(err)
						return
					}
				}
			}
			b.ReportAllocs()
			b.SetBytes(1000)
			if !tc.parallel {
				run(b.Loop)
				return
			}
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) { run(pb.Next) })
		})
	}
}
