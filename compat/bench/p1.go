package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

const topic = "bench"

// produceSpec is the load of P1: acks=1, linger 5 ms, batches up to 1 MB, four partitions.
func (b *bench) produceSpec(client, codec string, recordBytes int) load.Spec {
	spec := load.Spec{
		Kind: load.Produce, Client: client, Topic: topic, Partitions: 4, RecordBytes: recordBytes, Codec: codec, Acks: 1, LingerMS: 5,
		WarmBytes: pick[int64](b, 150e6, 500e6), Bytes: pick[int64](b, 400e6, 1400e6),
		WarmSeconds: pick(b, 1.0, 2.5), Seconds: pick(b, 1.5, 5.0),
	}
	if recordBytes < 1000 {
		spec.WarmBytes, spec.Bytes = pick[int64](b, 50e6, 200e6), pick[int64](b, 150e6, 800e6)
	}
	return spec
}

// p1 is produce with acks=1.
func (b *bench) p1(ctx context.Context) error {
	var errs []error
	for _, client := range []string{"franz", "confluent"} {
		for _, size := range []struct {
			name  string
			bytes int
		}{{"1KiB", 1024}, {"100B", 100}} {
			for _, codec := range []string{"none", "lz4"} {
				if b.quick && (codec != "none" || size.bytes != 1024) && (codec != "lz4" || size.bytes != 100 || client != "franz") {
					continue
				}
				spec := b.produceSpec(client, codec, size.bytes)
				s := b.sub("P1", fmt.Sprintf("%s/%s/%s", client, size.name, codec),
					fmt.Sprintf("%s, produce acks=1, %s records, 4 partitions, linger 5 ms, codec %s.", clientName(client), size.name, codec),
					throughputColumns...)
				if s != nil {
					errs = append(errs, b.produceSub(ctx, s, spec))
				}
			}
		}
	}
	// The clients' default batches of up to 1 MB are the kernel's worst case for Kafka's single large writes into new pages, so
	// one sub-row shows both servers with small batches.
	if b.quick {
		return errors.Join(errs...)
	}
	s := b.sub("P1", "franz/1KiB/none/64KiB-batches", "As franz/1KiB/none, batches of at most 64 KiB.", throughputColumns...)
	if s != nil {
		spec := b.produceSpec("franz", "none", 1024)
		spec.BatchBytes = 64 << 10
		errs = append(errs, b.produceSub(ctx, s, spec))
	}
	return errors.Join(errs...)
}

func clientName(c string) string {
	return map[string]string{"franz": "franz-go", "confluent": "confluent-kafka-go"}[c]
}

// produceSub runs one sub-row of P1 with its checks.
func (b *bench) produceSub(ctx context.Context, s *report.Sub, spec load.Spec) error {
	err := b.interleave(ctx, s, []server.Kind{server.Kafka, server.Felix, server.Null},
		func(ctx context.Context, k server.Kind) (report.Figures, error) {
			return b.produceTrial(ctx, k, spec, "periodic")
		})
	if b.java && spec.Client == "franz" && spec.Codec == "none" && spec.BatchBytes == 0 {
		err = errors.Join(err, b.javaProduce(ctx, s, spec))
	}
	kafka, felix, null := string(server.Kafka), string(server.Felix), string(server.Null)
	if s.Has(felix, "MB/s") && s.Has(kafka, "MB/s") {
		s.AtLeast("rate over Kafka's", s.Median(felix, "MB/s")/s.Median(kafka, "MB/s"), 3).Alternative = true
		s.AtMost("server core-s/GB over Kafka's", s.Median(felix, "core-s/GB")/s.Median(kafka, "core-s/GB"), 1.0/3)
	}
	if s.Has(felix, "MB/s") && s.Has(null, "MB/s") {
		s.AtLeast("rate over the client's ceiling", s.Median(felix, "MB/s")/s.Median(null, "MB/s"), 0.6).Alternative = true
	}
	if s.Has(felix, "MB/s") && spec.RecordBytes == 1024 && spec.Codec == "none" {
		s.AtMost("server core-s/GB", s.Median(felix, "core-s/GB"), 0.65)
	}
	return err
}

// produceTrial is one trial of a produce load on a fresh server, ending with the check of the log's end offsets.
func (b *bench) produceTrial(ctx context.Context, k server.Kind, spec load.Spec, fsync string) (f report.Figures, err error) {
	cfg := server.Config{Kind: k, Fsync: fsync, Partitions: spec.Partitions}
	err = b.withServer(ctx, cfg, func(srv *server.Server) error {
		if err := b.createTopics(ctx, srv, spec.TopicNames(), spec.Partitions, topicConfigs(k, fsync == "on_commit")); err != nil {
			return err
		}
		res, err := b.load(ctx, srv, spec)
		if err != nil {
			return err
		}
		f = throughput(res)
		quantiles(f, "", res.Ack)
		return b.checkRecords(ctx, srv, res.AllRecords, spec.TopicNames()...)
	})
	return f, err
}
