package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/disk"
	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/rawkafka"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// crashPartitions is the number of partitions of the crash sub-row.
const crashPartitions = 10

// p5 is the time to start: from nothing, and after a kill under load; and how fast the offline check reads.
func (b *bench) p5(ctx context.Context) error {
	var errs []error
	if s := b.sub("P5", "empty", "Process start on an empty directory to the first answer to Metadata (Kafka's directory is formatted before).",
		"ms"); s != nil {
		errs = append(errs, b.emptyStart(ctx, s))
	}
	text := fmt.Sprintf("kill -9 with %.2g GiB in 10 partitions (256 MiB segments, warm cache) and 20 MB/s being written; process start to "+
		"the first fetch answered, and to one of each partition.", pick(b, 0.5, 10))
	if s := b.sub("P5", "crash", text, "first fetch s", "all partitions s", "metadata s", "GiB"); s != nil {
		errs = append(errs, b.crashStart(ctx, s))
	}
	return errors.Join(errs...)
}

func (b *bench) emptyStart(ctx context.Context, s *report.Sub) error {
	err := b.interleave(ctx, s, []server.Kind{server.Kafka, server.Felix}, func(ctx context.Context, k server.Kind) (f report.Figures, err error) {
		err = b.withServer(ctx, server.Config{Kind: k}, func(srv *server.Server) error {
			f = report.Figures{"ms": float64(srv.Started) / 1e6}
			return nil
		})
		return f, err
	})
	kafka, felix := string(server.Kafka), string(server.Felix)
	if s.Has(felix, "ms") {
		s.AtMost("ms", s.Median(felix, "ms"), 25)
		if s.Has(kafka, "ms") {
			s.AtMost("time over Kafka's", s.Median(felix, "ms")/s.Median(kafka, "ms"), 1.0/50)
		}
	}
	return err
}

// crashStart fills one server after the other, so that only one directory of 10 GiB exists at a time, and kills each several times.
func (b *bench) crashStart(ctx context.Context, s *report.Sub) error {
	var errs []error
	for _, k := range []server.Kind{server.Kafka, server.Felix} {
		if !b.has(k) {
			continue
		}
		d, err := b.fill(ctx, k, crashPartitions, pick[int64](b, 1<<29, 10<<30))
		if err == nil {
			err = b.crashTrials(ctx, s, k, d)
		}
		if err != nil {
			b.say("P5 crash on %s: %v", k, err)
			s.Notes = append(s.Notes, fmt.Sprintf("%s could not be measured: %v", k, err))
			errs = append(errs, fmt.Errorf("crash on %s: %w", k, err))
		}
		if k == server.Felix && err == nil {
			errs = append(errs, b.verify(ctx, d))
		}
		errs = append(errs, os.RemoveAll(filepath.Dir(d.dir)))
		settle()
	}
	kafka, felix := string(server.Kafka), string(server.Felix)
	if s.Has(felix, "first fetch s") {
		s.AtMost("first fetch s", s.Median(felix, "first fetch s"), 0.5)
		if s.Has(kafka, "first fetch s") {
			s.AtMost("time over Kafka's", s.Median(felix, "first fetch s")/s.Median(kafka, "first fetch s"), 0.1)
		}
	}
	return errors.Join(errs...)
}

func (b *bench) crashTrials(ctx context.Context, s *report.Sub, k server.Kind, d filled) error {
	cfg := server.Config{Kind: k, DataDir: d.dir}
	files, total, err := disk.List(d.dir, 1<<20)
	if err != nil {
		return err
	}
	srv, err := b.in.Start(ctx, cfg)
	if err != nil {
		return err
	}
	for range b.trials {
		if err := b.killUnderLoad(ctx, srv); err != nil {
			_ = srv.Kill()
			return err
		}
		if _, _, err := disk.Read(files); err != nil { // the warm cache
			return err
		}
		if srv, err = b.in.Launch(ctx, cfg); err != nil {
			return err
		}
		f, err := b.untilFetched(ctx, srv)
		if err != nil {
			_ = srv.Kill()
			return fmt.Errorf("%w%s", err, tail(srv.LogFile()))
		}
		f["GiB"] = float64(total) / (1 << 30)
		s.Add(string(k), f)
		b.say("%s %-28s %-5s %s", s.Row, s.Name, k, show(s.Columns, f))
	}
	return srv.Stop()
}

// killUnderLoad kills the server one second after producers began to write.
func (b *bench) killUnderLoad(ctx context.Context, srv *server.Server) error {
	loadCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := make(chan struct{})
	var wg sync.WaitGroup
	var loadErr error
	ended := make(chan struct{})
	wg.Go(func() {
		defer close(ended)
		_, loadErr = b.loadHooked(loadCtx, srv, load.Spec{
			Kind: load.Sustain, Topic: topic, Partitions: crashPartitions, RecordBytes: 1024, Acks: 1, LingerMS: 5, Rate: 20e6 / 1024,
			Spread: "each", Producers: 1, WarmSeconds: 0.1, Seconds: 3600,
		}, func() { close(began) })
	})
	select {
	case <-began:
	case <-ended:
		return fmt.Errorf("load before the kill: %w", loadErr)
	}
	err := pause(ctx, time.Second)
	err = errors.Join(err, srv.Kill())
	cancel()
	wg.Wait()
	return err
}

// untilFetched asks a starting server for the first records of every partition until it has them all.
func (b *bench) untilFetched(ctx context.Context, srv *server.Server) (report.Figures, error) {
	began := time.Unix(0, int64(srv.Started))
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	f := report.Figures{}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var conn *rawkafka.Conn
	last := errors.New("not asked yet")
	for next := int32(0); next < crashPartitions; {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("partition %d: %w (last error: %w)", next, ctx.Err(), last)
		case <-tick.C:
		}
		if conn == nil {
			var err error
			if conn, err = rawkafka.Dial(srv.Addr, time.Second); err != nil {
				last, conn = err, nil
				continue
			}
		}
		for ; next < crashPartitions; next++ {
			n, err := conn.Fetch(topic, next, time.Minute)
			if err != nil || n == 0 {
				last = orFailed(err)
				break
			}
			if next == 0 {
				f["first fetch s"] = time.Since(began).Seconds()
			}
		}
		if next < crashPartitions { // a fresh connection: this one may be broken
			_ = conn.Close()
			conn = nil
		}
	}
	f["all partitions s"] = time.Since(began).Seconds()
	_ = conn.Close()
	if err := srv.WaitReady(ctx); err != nil {
		return nil, err
	}
	f["metadata s"] = srv.Started.Seconds()
	return f, nil
}

// verify compares the offline check with plain reads of the same files, both from the page cache.
func (b *bench) verify(ctx context.Context, d filled) error {
	s := b.sub("P5", "verify", "felix log verify over the data of the crash sub-row, against a buffered sequential read of the same files, "+
		"both from the page cache.", "GB/s", "seconds", "GB")
	if s == nil {
		return nil
	}
	files, total, err := disk.List(d.dir, 1)
	if err != nil {
		return err
	}
	for range b.trials {
		n, took, err := disk.Read(files)
		if err != nil {
			return err
		}
		s.Add("buffered read", report.Figures{"GB/s": float64(n) / 1e9 / took.Seconds(), "seconds": took.Seconds(), "GB": float64(n) / 1e9})
		start := time.Now()
		out, err := exec.CommandContext(ctx, b.in.FelixBinary, "log", "verify", "--data-dir", d.dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("felix log verify: %w: %s", err, out[max(0, len(out)-600):])
		}
		sec := time.Since(start).Seconds()
		s.Add("felix", report.Figures{"GB/s": float64(total) / 1e9 / sec, "seconds": sec, "GB": float64(total) / 1e9})
	}
	s.AtLeast("rate over the read's", s.Median("felix", "GB/s")/s.Median("buffered read", "GB/s"), 0.9)
	b.say("%s %-28s felix %.3g GB/s, read %.3g GB/s", s.Row, s.Name, s.Median("felix", "GB/s"), s.Median("buffered read", "GB/s"))
	return nil
}
