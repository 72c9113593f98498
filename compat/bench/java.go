package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/felixlog/felix/compat/bench/internal/gen"
	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/procfs"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// perfLine is the last line of Kafka's producer-perf-test.
var perfLine = regexp.MustCompile(`(\d+) records sent, ([0-9.]+) records/sec`)

// javaProduce quotes Kafka's own producer-perf-test beside a sub-row: one run on each server, with the same records. Its rate is over
// the whole run, the tool's own warming up included.
func (b *bench) javaProduce(ctx context.Context, s *report.Sub, spec load.Spec) error {
	if b.in.KafkaLibs == "" {
		return nil
	}
	payload := filepath.Join(b.work, fmt.Sprintf("payload-%d", spec.RecordBytes))
	if err := os.WriteFile(payload, bytes.Join(gen.Values(spec.RecordBytes), []byte("\n")), 0o644); err != nil {
		return err
	}
	var errs []error
	for _, k := range []server.Kind{server.Kafka, server.Felix} {
		if !b.has(k) {
			continue
		}
		err := b.withServer(ctx, server.Config{Kind: k}, func(srv *server.Server) error {
			if err := b.createTopic(ctx, srv, spec.Topic, spec.Partitions, topicConfigs(k, false)); err != nil {
				return err
			}
			f, err := b.javaTool(ctx, srv, spec, payload)
			if err != nil {
				return err
			}
			s.Add("producer-perf-test on "+string(k), f)
			b.say("%s %-28s producer-perf-test on %s %s", s.Row, s.Name, k, show(s.Columns, f))
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (b *bench) javaTool(ctx context.Context, srv *server.Server, spec load.Spec, payload string) (report.Figures, error) {
	records := spec.Bytes / int64(spec.RecordBytes)
	cmd := exec.CommandContext(ctx, "java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(b.in.KafkaLibs, "*"), "org.apache.kafka.tools.ProducerPerformance",
		"--topic", spec.Topic, "--num-records", strconv.FormatInt(records, 10), "--payload-file", payload, "--throughput", "-1",
		"--producer-props", "bootstrap.servers="+srv.Addr, "acks="+strconv.Itoa(spec.Acks), "enable.idempotence=false",
		fmt.Sprintf("linger.ms=%d", spec.LingerMS), "batch.size=1000000", "compression.type="+spec.Codec)
	before, err := procfs.CPU(srv.PID)
	if err != nil {
		return nil, err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("producer-perf-test: %w: %s", err, out)
	}
	after, err := procfs.CPU(srv.PID)
	if err != nil {
		return nil, err
	}
	lines := perfLine.FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		return nil, fmt.Errorf("producer-perf-test printed no rate: %s", out)
	}
	last := lines[len(lines)-1]
	rate, err := strconv.ParseFloat(string(last[2]), 64)
	if err != nil {
		return nil, err
	}
	bytesSent := float64(records) * float64(spec.RecordBytes)
	return report.Figures{
		"MB/s": rate * float64(spec.RecordBytes) / 1e6, "krec/s": rate / 1e3,
		"core-s/GB": (after - before).Seconds() / (bytesSent / 1e9), "core-s/Mrec": (after - before).Seconds() / (float64(records) / 1e6),
	}, nil
}
