package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

var latencyColumns = []string{
	"end p50 ms", "end p99 ms", "end p99.9 ms", "end max ms", "ack p50 ms", "ack p99 ms", "ack p99.9 ms", "core-s/Mrec", "other cores",
}

// p4 is latency from the intended send time to the consumer, with one producer and one consumer.
func (b *bench) p4(ctx context.Context) error {
	var errs []error
	for _, fsync := range []string{"none", "on_commit"} {
		for _, rate := range []float64{1000, 10_000} {
			if b.quick && (fsync == "none") != (rate == 10_000) {
				continue
			}
			text := map[string]string{"none": "without fsync", "on_commit": "synced before the answer (Kafka: flush.messages=1)"}[fsync]
			s := b.sub("P4", fmt.Sprintf("%s/%.0f", fsync, rate), fmt.Sprintf("franz-go, 256 B records at %.0f/s, open loop, linger 0, idempotent "+
				"acks=all, 1 partition, %s.", rate, text), latencyColumns...)
			if s == nil {
				continue
			}
			err := b.interleave(ctx, s, []server.Kind{server.Kafka, server.Felix}, func(ctx context.Context, k server.Kind) (report.Figures, error) {
				return b.latencyTrial(ctx, k, rate, fsync)
			})
			errs = append(errs, err)
			kafka, felix := string(server.Kafka), string(server.Felix)
			if !s.Has(felix, "end p99 ms") {
				continue
			}
			if s.Has(kafka, "end p99 ms") {
				s.AtMost("p99 over Kafka's", s.Median(felix, "end p99 ms")/s.Median(kafka, "end p99 ms"), 0.2)
			}
			if fsync == "none" {
				s.AtMost("p50 ms", s.Median(felix, "end p50 ms"), 0.20).Quiet = true
				s.AtMost("p99 ms", s.Median(felix, "end p99 ms"), 0.60).Quiet = true
				s.AtMost("p99.9 ms", s.Median(felix, "end p99.9 ms"), 2).Quiet = true
			}
		}
	}
	return errors.Join(errs...)
}

func (b *bench) latencyTrial(ctx context.Context, k server.Kind, rate float64, fsync string) (f report.Figures, err error) {
	err = b.withServer(ctx, server.Config{Kind: k, Fsync: fsync}, func(srv *server.Server) error {
		if err := b.createTopic(ctx, srv, topic, 1, topicConfigs(k, fsync == "on_commit")); err != nil {
			return err
		}
		res, err := b.load(ctx, srv, load.Spec{
			Kind: load.Latency, Topic: topic, Partitions: 1, RecordBytes: 256, Acks: -1, Idempotent: true, Producers: 1, Consumers: 1,
			Rate: rate, WarmSeconds: pick(b, 1.0, 2.0), Seconds: pick(b, 2.0, 5.0),
		})
		if err != nil {
			return err
		}
		f = throughput(res)
		quantiles(f, "end ", res.End)
		quantiles(f, "ack ", res.Ack)
		return b.checkRecords(ctx, srv, res.AllRecords, topic)
	})
	return f, err
}
