package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/felixlog/felix/compat/bench/internal/disk"
	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// p8 is a steady load for minutes, with retention at work.
func (b *bench) p8(ctx context.Context) error {
	s := b.sub("P8", "steady", fmt.Sprintf("franz-go, %.0f s of 200 MB/s produced (1 KiB, acks=1, linger 5 ms) and consumed, 4 producers, 4 "+
		"consumers, 4 partitions, retention.bytes 1 GiB a partition.", b.seconds),
		"ack p50 ms", "ack p99 ms", "ack p99.9 ms", "ack max ms", "end p99.9 ms", "MB/s", "core-s/GB", "RSS max MiB", "RSS first third MiB",
		"RSS last third MiB", "disk GiB", "other cores")
	if s == nil {
		return nil
	}
	all := b.trials
	defer func() { b.trials = all }()
	if b.seconds > 30 {
		b.trials = 1
	}
	err := b.interleave(ctx, s, []server.Kind{server.Kafka, server.Felix}, b.steadyTrial)
	kafka, felix := string(server.Kafka), string(server.Felix)
	if !s.Has(felix, "ack p99.9 ms") {
		return err
	}
	s.AtMost("RSS MiB", s.Median(felix, "RSS max MiB"), 300)
	s.AtMost("RSS of the last third over that of the first", s.Median(felix, "RSS last third MiB")/s.Median(felix, "RSS first third MiB"), 1.1)
	if s.Has(kafka, "ack p99.9 ms") {
		s.AtMost("produce p99.9 over Kafka's", s.Median(felix, "ack p99.9 ms")/s.Median(kafka, "ack p99.9 ms"), 0.5)
	}
	return err
}

func (b *bench) steadyTrial(ctx context.Context, k server.Kind) (f report.Figures, err error) {
	err = b.withServer(ctx, server.Config{Kind: k}, func(srv *server.Server) error {
		configs := map[string]string{"segment.bytes": strconv.Itoa(128 << 20), "retention.bytes": strconv.Itoa(1 << 30)}
		if err := b.createTopic(ctx, srv, topic, 4, configs); err != nil {
			return err
		}
		res, err := b.load(ctx, srv, load.Spec{
			Kind: load.Sustain, Topic: topic, Partitions: 4, RecordBytes: 1024, Acks: 1, LingerMS: 5, Rate: 200e6 / 1024, Spread: "own",
			Producers: 4, Consumers: 4, WarmSeconds: pick(b, 1.0, 3.0), Seconds: b.seconds,
		})
		if err != nil {
			return err
		}
		f = throughput(res)
		quantiles(f, "ack ", res.Ack)
		quantiles(f, "end ", res.End)
		f["disk GiB"] = float64(disk.Used(srv.DataDir)) / (1 << 30)
		if n := len(res.RSS); n > 0 {
			const mib = 1 << 20
			f["RSS max MiB"] = float64(slices.Max(res.RSS)) / mib
			f["RSS first third MiB"] = mean(res.RSS[:(n+2)/3]) / mib
			f["RSS last third MiB"] = mean(res.RSS[n-(n+2)/3:]) / mib
		}
		return b.checkRecords(ctx, srv, res.AllRecords, topic)
	})
	return f, err
}

func mean(v []int64) float64 {
	var sum int64
	for _, x := range v {
		sum += x
	}
	return float64(sum) / float64(len(v))
}
