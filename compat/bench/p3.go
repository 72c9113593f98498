package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/felixlog/felix/compat/bench/internal/disk"
	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// filled is a data directory that holds a topic.
type filled struct {
	dir   string
	bytes int64 // of record values
}

var coldColumns = []string{
	"MB/s", "bar MB/s", "core-s/GB", "alone p50 ms", "alone p99 ms", "beside p50 ms", "beside p99 ms", "resident", "other cores", "seconds",
}

// p3 is consumption: from the page cache, and evicted from it.
func (b *bench) p3(ctx context.Context) error {
	data := map[server.Kind]filled{}
	defer func() {
		for _, d := range data {
			_ = os.RemoveAll(filepath.Dir(d.dir))
		}
	}()
	var errs []error
	for _, k := range []server.Kind{server.Kafka, server.Felix} {
		if !b.has(k) {
			continue
		}
		d, err := b.fill(ctx, k, 4, pick[int64](b, 400e6, 3200e6))
		data[k] = d
		if err != nil {
			errs = append(errs, fmt.Errorf("fill %s: %w", k, err))
			delete(data, k)
		}
	}
	total := pick[int64](b, 400e6, 3200e6)
	base := load.Spec{Kind: load.Consume, Topic: topic, Partitions: 4, RecordBytes: 1024}
	for _, sub := range []struct {
		name, text, client string
		consumers          int
		warm, bytes        int64 // a consumer
	}{
		{"hot/franz/1", "franz-go, one consumer of 4 partitions, 1 KiB records in 64 KiB batches, page cache.", "franz", 1, total / 2, total},
		{"hot/franz/4", "The same, four independent consumers, each of all 4 partitions.", "franz", 4, total / 8, total / 4},
		{"hot/confluent/1", "confluent-kafka-go, one consumer of 4 partitions, 1 KiB records in 64 KiB batches, page cache.", "confluent", 1, total / 8, total / 4},
	} {
		spec := base
		spec.Client, spec.Consumers, spec.WarmBytes, spec.Bytes = sub.client, sub.consumers, sub.warm, sub.bytes
		if b.quick && sub.client != "franz" {
			continue
		}
		if s := b.sub("P3", sub.name, sub.text, throughputColumns...); s != nil {
			errs = append(errs, b.consumeSub(ctx, s, spec, data))
		}
	}
	if s := b.sub("P3", "cold/franz/1", "franz-go, one consumer of a topic dropped from the page cache, beside a producer of 20 MB/s; the bar "+
		"is a buffered sequential read of the same files, dropped before it too.", coldColumns...); s != nil {
		errs = append(errs, b.coldSub(ctx, s, data))
	}
	return errors.Join(errs...)
}

// fill produces a topic of 1 KiB records in 64 KiB batches into a new directory, in parts that are written back before the next, and
// stops the server cleanly.
func (b *bench) fill(ctx context.Context, k server.Kind, partitions int, bytes int64) (d filled, err error) {
	if d.dir, err = b.dir(k); err != nil {
		return d, err
	}
	err = b.withServer(ctx, server.Config{Kind: k, DataDir: d.dir}, func(srv *server.Server) error {
		if err := b.createTopic(ctx, srv, topic, partitions, topicConfigs(k, false)); err != nil {
			return err
		}
		for d.bytes < bytes {
			res, err := b.load(ctx, srv, load.Spec{
				Kind: load.Produce, Topic: topic, Partitions: partitions, RecordBytes: 1024, Acks: 1, LingerMS: 5, BatchBytes: 64 << 10,
				Spread: "turn", Bytes: min(1600e6, bytes-d.bytes),
			})
			if err != nil {
				return err
			}
			d.bytes += res.Bytes
			settle()
		}
		return b.checkRecords(ctx, srv, d.bytes/1024, topic)
	})
	return d, err
}

// onData runs f on a fresh server process over the filled directory of its kind.
func (b *bench) onData(ctx context.Context, k server.Kind, data map[server.Kind]filled, f func(*server.Server, filled) error) error {
	d, ok := data[k]
	if !ok && k != server.Null {
		return errors.New("there is no data to read")
	}
	return b.withServer(ctx, server.Config{Kind: k, DataDir: d.dir, Partitions: 4}, func(srv *server.Server) error { return f(srv, d) })
}

func (b *bench) consumeSub(ctx context.Context, s *report.Sub, spec load.Spec, data map[server.Kind]filled) error {
	err := b.interleave(ctx, s, []server.Kind{server.Kafka, server.Felix, server.Null}, func(ctx context.Context, k server.Kind) (f report.Figures, err error) {
		err = b.onData(ctx, k, data, func(srv *server.Server, d filled) error {
			spec := spec
			spec.PassBytes = d.bytes
			res, err := b.load(ctx, srv, spec)
			if err == nil {
				f = throughput(res)
			}
			return err
		})
		return f, err
	})
	kafka, felix, null := string(server.Kafka), string(server.Felix), string(server.Null)
	if !s.Has(felix, "MB/s") {
		return err
	}
	if s.Has(null, "MB/s") {
		s.AtLeast("rate over the client's ceiling", s.Median(felix, "MB/s")/s.Median(null, "MB/s"), 0.85)
	}
	if s.Has(kafka, "MB/s") {
		s.AtLeast("rate over Kafka's", s.Median(felix, "MB/s")/s.Median(kafka, "MB/s"), 2)
	}
	s.AtMost("server core-s/GB", s.Median(felix, "core-s/GB"), 0.40)
	return err
}

// coldSub evicts a topic's files and reads them twice: with plain reads, then through the server.
func (b *bench) coldSub(ctx context.Context, s *report.Sub, data map[server.Kind]filled) error {
	turn := 0
	err := b.interleave(ctx, s, []server.Kind{server.Kafka, server.Felix}, func(ctx context.Context, k server.Kind) (f report.Figures, err error) {
		turn++
		err = b.onData(ctx, k, data, func(srv *server.Server, d filled) error {
			side := fmt.Sprintf("side-%d", turn)
			if err := b.createTopic(ctx, srv, side, 1, topicConfigs(k, false)); err != nil {
				return err
			}
			files, err := dataFiles(d.dir)
			if err != nil {
				return err
			}
			if _, err := disk.Evict(files); err != nil {
				return err
			}
			n, took, err := disk.Read(files)
			if err != nil {
				return err
			}
			res, err := b.load(ctx, srv, load.Spec{
				Kind: load.Cold, Topic: topic, Partitions: 4, RecordBytes: 1024, Acks: 1, LingerMS: 5, Rate: 20e6 / 1024, SideTopic: side,
				Producers: 1, WarmSeconds: pick(b, 0.5, 2.0), Seconds: pick(b, 1.0, 3.0), PassBytes: d.bytes, Files: files,
			})
			if err != nil {
				return err
			}
			f = throughput(res)
			f["bar MB/s"], f["resident"] = float64(n)/1e6/took.Seconds(), res.Resident
			quantiles(f, "alone ", res.Base)
			quantiles(f, "beside ", res.Ack)
			return nil
		})
		return f, err
	})
	if felix := string(server.Felix); s.Has(felix, "MB/s") {
		s.AtLeast("rate over the buffered read's", s.Median(felix, "MB/s")/s.Median(felix, "bar MB/s"), 0.85)
		s.AtMost("the producer's p99 over its p99 alone", s.Median(felix, "beside p99 ms")/s.Median(felix, "alone p99 ms"), 2)
	}
	return err
}

// dataFiles lists the files of at least a mebibyte below a data directory, Kafka's sparse index files left out.
func dataFiles(dir string) ([]disk.File, error) {
	all, _, err := disk.List(dir, 1<<20)
	var out []disk.File
	for _, f := range all {
		if !strings.HasSuffix(f.Path, "index") {
			out = append(out, f)
		}
	}
	return out, err
}
