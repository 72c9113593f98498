package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/procfs"
	"github.com/felixlog/felix/compat/bench/internal/rawkafka"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

var partitionColumns = []string{
	"create s", "MB/s", "core-s/GB", "KiB/partition created", "KiB/partition used", "idle % created", "idle % used", "files open",
	"restart s", "restart after kill s", "empty RSS MiB", "used RSS MiB",
}

// fileLimit is the server's limit of open files in P6.
const fileLimit = 12_000

// p6 is ten thousand partitions on one node.
func (b *bench) p6(ctx context.Context) error {
	n := pick(b, 1000, 10_000)
	s := b.sub("P6", "partitions", fmt.Sprintf("%d partitions, 100 a topic: created, idle, written in 64 KiB batches, another partition each "+
		"batch (franz-go, acks=1), idle, restarted. Felix with at most %d open files. The row \"4 partitions\" is the same client's rate of P1.",
		n, fileLimit), partitionColumns...)
	if s == nil {
		return nil
	}
	spec := load.Spec{
		Kind: load.Produce, Topic: topic, Topics: n / 100, Partitions: 100, RecordBytes: 1024, Acks: 1, LingerMS: 5, BatchBytes: 64 << 10, Spread: "turn",
	}
	round := int64(n) * 63 * 1024 // one batch to each
	spec.WarmBytes, spec.Bytes = round, pick[int64](b, 4, 2)*round
	few := b.produceSpec("franz", "none", 1024)
	all := b.trials
	defer func() { b.trials = all }()
	b.trials = min(all, 3) // a trial takes half a minute
	var kafkaErr error
	if b.has(server.Kafka) && !b.quick {
		// One trial with a tenth: the whole takes Kafka many minutes, and nothing is judged by it.
		tenth := spec
		tenth.Topics, tenth.WarmBytes, tenth.Bytes = n/1000, round/10, 4*round/10
		f, err := b.partitionTrial(ctx, server.Kafka, tenth)
		if err == nil {
			s.Add(fmt.Sprintf("kafka, %d partitions", n/10), f)
			b.say("%s %-28s kafka with a tenth %s", s.Row, s.Name, show(s.Columns, f))
		}
		kafkaErr = err
	}
	err := b.interleave(ctx, s, []server.Kind{server.Felix, server.Null}, func(ctx context.Context, k server.Kind) (report.Figures, error) {
		if k == server.Null {
			return b.produceTrial(ctx, k, spec, "periodic")
		}
		f, err := b.produceTrial(ctx, k, few, "periodic")
		if err != nil {
			return nil, fmt.Errorf("4 partitions: %w", err)
		}
		s.Add("felix, 4 partitions", f)
		return b.partitionTrial(ctx, k, spec)
	})
	err = errors.Join(err, kafkaErr)
	felix := string(server.Felix)
	if !s.Has(felix, "create s") {
		return err
	}
	m := func(column string) float64 { return s.Median(felix, column) }
	s.AtMost("create s", m("create s"), 2)
	s.AtLeast("rate over that of 4 partitions", m("MB/s")/s.Median("felix, 4 partitions", "MB/s"), 0.8)
	s.AtMost("KiB a partition after creation", m("KiB/partition created"), 4)
	s.AtMost("KiB a partition after use", m("KiB/partition used"), 8)
	s.AtMost("idle % of a core", max(m("idle % created"), m("idle % used")), 2)
	s.AtMost("restart s", m("restart s"), 1)
	s.AtMost("restart s after kill -9", m("restart after kill s"), 1)
	s.AtMost("open files", m("files open"), fileLimit)
	return err
}

// partitionTrial takes one server through the life of many partitions.
func (b *bench) partitionTrial(ctx context.Context, k server.Kind, spec load.Spec) (report.Figures, error) {
	dir, err := b.dir(k)
	if err != nil {
		return nil, err
	}
	defer settle()
	defer func() { _ = os.RemoveAll(filepath.Dir(dir)) }()
	cfg := server.Config{Kind: k, DataDir: dir}
	if k == server.Felix {
		cfg.NoFile = fileLimit
	}
	srv, err := b.in.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = srv.Kill() }()
	f := report.Figures{}
	if err := b.partitionLife(ctx, srv, spec, f); err != nil {
		return nil, fmt.Errorf("%w%s", err, tail(srv.LogFile()))
	}
	for _, end := range []struct {
		column string
		stop   func() error
	}{{"restart s", func() error { return srv.Stop() }}, {"restart after kill s", func() error { return srv.Kill() }}} {
		if k == server.Kafka && end.column == "restart after kill s" {
			break // several minutes, and nothing is judged by it
		}
		if err := end.stop(); err != nil {
			return nil, err
		}
		if srv, err = b.in.Launch(ctx, cfg); err != nil {
			return nil, err
		}
		if f[end.column], err = untilLed(ctx, srv, spec); err != nil {
			return nil, fmt.Errorf("%s: %w%s", end.column, err, tail(srv.LogFile()))
		}
	}
	return f, nil
}

// partitionLife measures creation, memory, idle time and produce into f.
func (b *bench) partitionLife(ctx context.Context, srv *server.Server, spec load.Spec, f report.Figures) error {
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	empty, err := procfs.ReadMemory(srv.PID)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.createTopics(ctx, srv, spec.TopicNames(), spec.Partitions, map[string]string{"segment.bytes": "1073741824"}); err != nil {
		return err
	}
	f["create s"] = time.Since(start).Seconds()
	perPartition := func(column string) error {
		m, err := procfs.ReadMemory(srv.PID)
		f[column] = float64(m.RSS-empty.RSS) / 1024 / float64(spec.Topics*spec.Partitions)
		f["used RSS MiB"] = float64(m.RSS) / (1 << 20)
		return err
	}
	f["empty RSS MiB"] = float64(empty.RSS) / (1 << 20)
	if f["idle % created"], err = b.idleShare(ctx, srv); err != nil {
		return err
	}
	if err := perPartition("KiB/partition created"); err != nil {
		return err
	}
	res, err := b.load(ctx, srv, spec)
	if err != nil {
		return err
	}
	for k, v := range throughput(res) {
		f[k] = v
	}
	if err := b.checkRecords(ctx, srv, res.AllRecords, spec.TopicNames()...); err != nil {
		return err
	}
	open, err := procfs.OpenFiles(srv.PID)
	if err != nil {
		return err
	}
	f["files open"] = float64(open)
	if f["idle % used"], err = b.idleShare(ctx, srv); err != nil {
		return err
	}
	return perPartition("KiB/partition used")
}

// idleShare lets the server settle and then watches its processor time, in percent of one processor.
func (b *bench) idleShare(ctx context.Context, srv *server.Server) (float64, error) {
	if err := pause(ctx, pick(b, time.Second, 3*time.Second)); err != nil {
		return 0, err
	}
	before, err := procfs.CPU(srv.PID)
	if err != nil {
		return 0, err
	}
	d := pick(b, 2*time.Second, 5*time.Second)
	if err := pause(ctx, d); err != nil {
		return 0, err
	}
	after, err := procfs.CPU(srv.PID)
	return 100 * (after - before).Seconds() / d.Seconds(), err
}

// untilLed waits until a started server leads all partitions and has answered a fetch of the last one.
func untilLed(ctx context.Context, srv *server.Server, spec load.Spec) (float64, error) {
	began := time.Unix(0, int64(srv.Started))
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := waitLed(ctx, srv.Addr, spec.TopicNames(), spec.Topics*spec.Partitions); err != nil {
		return 0, err
	}
	c, err := rawkafka.Dial(srv.Addr, time.Second)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	n, err := c.Fetch(spec.TopicNames()[spec.Topics-1], int32(spec.Partitions-1), time.Minute)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("fetch: %w", orFailed(err))
	}
	took := time.Since(began).Seconds()
	return took, errors.Join(srv.WaitReady(ctx))
}
