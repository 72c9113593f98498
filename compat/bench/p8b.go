package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// heartbeatMS is how often members of P8b ask: not the three seconds of clients by default, since a rebalance becomes known to a member
// by its heartbeat, and the time to stable would be that of the client's clock on any server.
const heartbeatMS = 100

// noDelay has both servers settle the first generation of a group at once, as Kafka's properties here and Felix's single-node profile
// have it anyway: a delay would be most of the time to stable.
const noDelay = "FELIX_KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0"

// p8b is groups at work: how long many members take to be stable, and what commits of offsets cost.
func (b *bench) p8b(ctx context.Context) error {
	var errs []error
	for _, balancer := range []string{"range", "cooperative-sticky"} {
		members := pick(b, 10, 50)
		spec := load.Spec{
			Kind: load.Stable, Topic: topic, Partitions: 2 * members, Members: members, Balancer: balancer, HeartbeatMS: heartbeatMS,
			WarmRounds: pick(b, 1, 5), Rounds: pick(b, 3, 9),
		}
		text := fmt.Sprintf("%d members of a new group (franz-go, %s), connected, begin to consume %d partitions at once: until each has its two "+
			"and no partition two owners. Median of %d groups a trial. group.initial.rebalance.delay.ms is 0 on both servers; heartbeats "+
			"every %d ms.", members, balancer, spec.Partitions, spec.Rounds, heartbeatMS)
		name := map[string]string{"range": "members/eager", "cooperative-sticky": "members/cooperative"}[balancer]
		if s := b.sub("P8b", name, text, "stable ms", "slowest ms", "generation", "server ms/group", "client ms/group", "other cores"); s != nil {
			errs = append(errs, b.stableSub(ctx, s, spec))
		}
	}
	spec := load.Spec{
		Kind: load.Commit, Client: "raw", Topic: topic, Partitions: 10, Groups: pick(b, 100, 1000), Rate: pick(b, 100.0, 1000.0),
		WarmRate: pick(b, 200.0, 2000.0), WarmSeconds: pick(b, 2.0, 15.0), Seconds: pick(b, 3.0, 20.0),
	}
	text := fmt.Sprintf("%d groups of one member each (a bare client, a connection each), every second each commits its offsets of %d "+
		"partitions, and every three a heartbeat, for %.0f s: open loop, after %.0f s at twice the rate.", spec.Groups, spec.Partitions, spec.Seconds,
		spec.WarmSeconds)
	s := b.sub("P8b", "commits", text, "commit p50 ms", "commit p99 ms", "commit p99.9 ms", "commit max ms", "server µs/commit", "client µs/commit",
		"commits/s", "other cores")
	if s != nil {
		errs = append(errs, b.commitSub(ctx, s, spec))
	}
	return errors.Join(errs...)
}

func (b *bench) stableSub(ctx context.Context, s *report.Sub, spec load.Spec) error {
	err := b.interleave(ctx, s, []server.Kind{server.Kafka, server.Felix}, func(ctx context.Context, k server.Kind) (f report.Figures, err error) {
		err = b.groupTrial(ctx, k, spec, func(res *load.Result) {
			sorted := slices.Sorted(slices.Values(res.RoundMS))
			rounds := float64(len(sorted))
			f = report.Figures{
				"stable ms": sorted[len(sorted)/2], "slowest ms": sorted[len(sorted)-1], "generation": float64(slices.Max(res.Generations)),
				"server ms/group": 1e3 * res.ServerCPU / rounds, "client ms/group": 1e3 * res.ClientCPU / rounds, "other cores": res.OtherCPU / res.Seconds,
			}
		})
		return f, err
	})
	kafka, felix := string(server.Kafka), string(server.Felix)
	if s.Has(felix, "stable ms") && s.Has(kafka, "stable ms") {
		s.AtMost("time to stable over Kafka's", s.Median(felix, "stable ms")/s.Median(kafka, "stable ms"), 1)
	}
	return err
}

func (b *bench) commitSub(ctx context.Context, s *report.Sub, spec load.Spec) error {
	err := b.interleave(ctx, s, []server.Kind{server.Kafka, server.Felix}, func(ctx context.Context, k server.Kind) (f report.Figures, err error) {
		err = b.groupTrial(ctx, k, spec, func(res *load.Result) {
			n := float64(res.Records)
			f = report.Figures{
				"server µs/commit": 1e6 * res.ServerCPU / n, "client µs/commit": 1e6 * res.ClientCPU / n, "commits/s": n / res.Seconds,
				"other cores": res.OtherCPU / res.Seconds,
			}
			quantiles(f, "commit ", res.Ack)
		})
		return f, err
	})
	kafka, felix := string(server.Kafka), string(server.Felix)
	if s.Has(felix, "commit p99 ms") && s.Has(kafka, "commit p99 ms") {
		s.AtMost("server time a commit over Kafka's", s.Median(felix, "server µs/commit")/s.Median(kafka, "server µs/commit"), 0.4)
		s.AtMost("commit p99 over Kafka's", s.Median(felix, "commit p99 ms")/s.Median(kafka, "commit p99 ms"), 0.5)
	}
	return err
}

// groupTrial runs one load of groups against a fresh server and hands on what it measured.
func (b *bench) groupTrial(ctx context.Context, k server.Kind, spec load.Spec, measured func(*load.Result)) error {
	return b.withServer(ctx, server.Config{Kind: k, Env: []string{noDelay}}, func(srv *server.Server) error {
		if err := b.createTopic(ctx, srv, topic, spec.Partitions, nil); err != nil {
			return err
		}
		res, err := b.load(ctx, srv, spec)
		if err == nil {
			measured(res)
		}
		return err
	})
}
