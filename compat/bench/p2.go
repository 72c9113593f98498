package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/felixlog/felix/compat/bench/internal/disk"
	"github.com/felixlog/felix/compat/bench/internal/hist"
	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// probeName is the machine's own fdatasync in the tables of P2: appended blocks, as every server's log is appended to.
const probeName = "fdatasync, append"

var syncColumns = []string{
	"p50 ms", "p99 ms", "p99.9 ms", "krec/s", "MB/s", "core-s/Mrec", "core-s/GB", "other cores",
}

// p2 is produce that waits for the disk: Felix with on_commit, Kafka with flush.messages=1.
func (b *bench) p2(ctx context.Context) error {
	one := load.Spec{
		Kind: load.Sync, Topic: topic, Partitions: 1, RecordBytes: 1024, Acks: -1, Idempotent: true, Producers: 1,
		WarmSeconds: pick(b, 1.0, 1.5), Seconds: pick(b, 1.5, 3.0),
	}
	many, spread := one, one
	many.Producers = 64
	spread.Producers, spread.Partitions, spread.Spread = 64, 4, "own"
	// franz-go sends at most five idempotent requests at once on a connection: four clients with four each.
	batched := one
	batched.Producers, batched.InFlight, batched.Partitions, batched.Spread = 4, 4, 4, "own"
	batched.RecordBytes, batched.BatchBytes, batched.Bytes = 65_400, 66_000, pick[int64](b, 300e6, 1400e6)
	batched.WarmBytes = batched.Bytes / 3
	batched.Seconds = pick(b, 2.0, 6.0)

	var errs []error
	var single *report.Sub
	if s := b.sub("P2", "1-producer", "franz-go, idempotent acks=all, one 1 KiB record a request, synced before the answer, 1 producer, "+
		"1 partition.", syncColumns...); s != nil {
		single = s
		errs = append(errs, b.syncSub(ctx, s, one))
		if felix := string(server.Felix); s.Has(felix, "p50 ms") {
			s.AtMost("p50 ms against 1.5 x fdatasync + 0.1 ms", s.Median(felix, "p50 ms"), 1.5*s.Median(probeName, "p50 ms")+0.1)
		}
	}
	if s := b.sub("P2", "64-producers", "The same with 64 producers, each its own connection, 1 partition.", syncColumns...); s != nil {
		errs = append(errs, b.syncSub(ctx, s, many))
		if felix := string(server.Felix); single != nil && s.Has(felix, "krec/s") && single.Has(felix, "krec/s") {
			s.AtLeast("rate over one producer's", s.Median(felix, "krec/s")/single.Median(felix, "krec/s"), 10)
		}
	}
	if !b.quick {
		if s := b.sub("P2", "64-producers-4-partitions", "The same over 4 partitions.", syncColumns...); s != nil {
			errs = append(errs, b.syncSub(ctx, s, spread))
		}
	}
	if s := b.sub("P2", "batched", "franz-go, idempotent acks=all, batches of 64 KiB, 16 in flight, 4 partitions.", syncColumns...); s != nil {
		errs = append(errs, b.syncSub(ctx, s, batched))
		if kafka, felix := string(server.Kafka), string(server.Felix); s.Has(felix, "MB/s") && s.Has(kafka, "MB/s") {
			s.AtLeast("rate over Kafka's with flush.messages=1", s.Median(felix, "MB/s")/s.Median(kafka, "MB/s"), 5)
		}
	}
	return errors.Join(errs...)
}

// syncSub runs one sub-row of P2, with a probe of the disk before each round.
func (b *bench) syncSub(ctx context.Context, s *report.Sub, spec load.Spec) error {
	kinds := pick(b, []server.Kind{server.Kafka, server.Felix}, []server.Kind{server.Kafka, server.Felix, server.Null})
	return b.interleave(ctx, s, kinds, func(ctx context.Context, k server.Kind) (report.Figures, error) {
		if k == b.servers[0] {
			if err := b.probeSync(s, spec.RecordBytes+100); err != nil {
				return nil, fmt.Errorf("probe: %w", err)
			}
		}
		return b.produceTrial(ctx, k, spec, "on_commit")
	})
}

// probeSync adds the machine's own write and fdatasync of one block to the table.
func (b *bench) probeSync(s *report.Sub, size int) error {
	p, err := disk.ProbeSync(b.work, size, pick(b, 200, 500))
	if err != nil {
		return err
	}
	for name, h := range map[string]*hist.Hist{probeName: p.Append, "fdatasync, overwrite": p.Overwrite} {
		f, q := report.Figures{}, load.QuantilesOf(h)
		quantiles(f, "", &q)
		s.Add(name, f)
	}
	return nil
}
