package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/disk"
	"github.com/felixlog/felix/compat/bench/internal/procfs"
	"github.com/felixlog/felix/compat/bench/internal/rawkafka"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

const (
	// offsetPartitions is the number of partitions that each group of P8c has committed.
	offsetPartitions = 100
	// offsetWriters is the number of connections that commit them.
	offsetWriters = 16
	// offsetSample is the number of groups that are asked for after a restart: enough to have some in every part of either server's state.
	offsetSample = 200
)

// p8c is the time that a server with many committed offsets takes to start.
func (b *bench) p8c(ctx context.Context) error {
	groups := pick(b, 100, 10_000)
	s := b.sub("P8c", "offsets", fmt.Sprintf("%d committed offsets (%d groups, %d partitions each, committed once): process start to the first "+
		"OffsetFetch answered, of one group, and to those of %d groups, with the processor time until then; after a clean stop and after "+
		"kill -9, with a warm cache.",
		groups*offsetPartitions, groups, offsetPartitions, min(offsetSample, groups)),
		"first s", "sample s", "CPU s", "first after kill s", "sample after kill s", "CPU after kill s", "RSS MiB", "stored MiB")
	if s == nil {
		return nil
	}
	var errs []error
	for _, k := range []server.Kind{server.Kafka, server.Felix} {
		if !b.has(k) {
			continue
		}
		dir, err := b.fillOffsets(ctx, k, groups)
		if err == nil {
			err = b.offsetTrials(ctx, s, k, dir, groups)
		}
		if err != nil {
			b.say("P8c offsets on %s: %v", k, err)
			s.Notes = append(s.Notes, fmt.Sprintf("%s could not be measured: %v", k, err))
			errs = append(errs, fmt.Errorf("offsets on %s: %w", k, err))
		}
		errs = append(errs, os.RemoveAll(filepath.Dir(dir)))
		settle()
	}
	kafka, felix := string(server.Kafka), string(server.Felix)
	if s.Has(felix, "first s") {
		s.AtMost("first s", s.Median(felix, "first s"), 1)
		s.AtMost("first s after kill -9", s.Median(felix, "first after kill s"), 1)
		if s.Has(kafka, "first s") {
			s.AtMost("time over Kafka's", s.Median(felix, "first s")/s.Median(kafka, "first s"), 1)
		}
	}
	return errors.Join(errs...)
}

func offsetGroup(i int) string { return fmt.Sprintf("group-%05d", i) }

// offsetOf is what group i commits of a partition.
func offsetOf(i, partition int) int64 { return int64(1000*i + partition) }

// fillOffsets has a fresh server take the commits of all groups and stops it.
func (b *bench) fillOffsets(ctx context.Context, k server.Kind, groups int) (dir string, err error) {
	if dir, err = b.dir(k); err != nil {
		return dir, err
	}
	err = b.withServer(ctx, server.Config{Kind: k, DataDir: dir}, func(srv *server.Server) error {
		if err := b.createTopic(ctx, srv, topic, offsetPartitions, nil); err != nil {
			return err
		}
		errs := make([]error, offsetWriters)
		var wg sync.WaitGroup
		for w := range offsetWriters {
			wg.Go(func() { errs[w] = commitShare(ctx, srv.Addr, w, groups) })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	return dir, err
}

// commitShare commits the offsets of every group whose turn is writer w's.
func commitShare(ctx context.Context, addr string, w, groups int) error {
	c, err := rawkafka.Dial(addr, 10*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.AwaitCoordinator(ctx, offsetGroup(w)); err != nil {
		return err
	}
	offsets := make([]int64, offsetPartitions)
	for i := w; i < groups; i += offsetWriters {
		for p := range offsets {
			offsets[p] = offsetOf(i, p)
		}
		if err := commitUntilTaken(ctx, c, i, offsets); err != nil {
			return fmt.Errorf("group %d: %w", i, err)
		}
	}
	return nil
}

// commitUntilTaken commits once, and again while the coordinator says that it is not there yet: Kafka's takes up one part of its state
// after the other.
func commitUntilTaken(ctx context.Context, c *rawkafka.Conn, i int, offsets []int64) error {
	for {
		err := c.Commit(offsetGroup(i), topic, offsets)
		if !errors.Is(err, rawkafka.ErrNotYet) {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func (b *bench) offsetTrials(ctx context.Context, s *report.Sub, k server.Kind, dir string, groups int) error {
	cfg := server.Config{Kind: k, DataDir: dir}
	files, total, err := disk.List(dir, 1)
	if err != nil {
		return err
	}
	srv, err := b.in.Start(ctx, cfg)
	if err != nil {
		return err
	}
	for range b.trials {
		f := report.Figures{"stored MiB": float64(total) / (1 << 20)}
		for _, end := range []struct {
			suffix string
			stop   func() error
		}{{"", srv.Stop}, {" after kill", func() error { return srv.Kill() }}} {
			if err := end.stop(); err != nil {
				return err
			}
			if _, _, err := disk.Read(files); err != nil && !errors.Is(err, os.ErrNotExist) { // the warm cache
				return err
			}
			if srv, err = b.in.Launch(ctx, cfg); err != nil {
				return err
			}
			if err := untilOffsets(ctx, srv, groups, end.suffix, f); err != nil {
				_ = srv.Kill()
				return fmt.Errorf("%w%s", err, tail(srv.LogFile()))
			}
		}
		m, err := procfs.ReadMemory(srv.PID)
		if err != nil {
			_ = srv.Kill()
			return err
		}
		f["RSS MiB"] = float64(m.RSS) / (1 << 20)
		s.Add(string(k), f)
		b.say("%s %-28s %-5s %s", s.Row, s.Name, k, show(s.Columns, f))
	}
	return srv.Stop()
}

// untilOffsets asks a starting server for committed offsets, of the first group and of a sample of all, until it has answered with what
// was committed.
func untilOffsets(ctx context.Context, srv *server.Server, groups int, suffix string, f report.Figures) error {
	began := time.Unix(0, int64(srv.Started))
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var conn *rawkafka.Conn
	last := errors.New("not asked yet")
	sample := min(offsetSample, groups)
	for next := 0; next < sample; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("group %d of %d: %w (last error: %w)", next, sample, ctx.Err(), last)
		case <-tick.C:
		}
		if conn == nil {
			var err error
			if conn, err = rawkafka.Dial(srv.Addr, time.Second); err != nil {
				last, conn = err, nil
				continue
			}
		}
		for ; next < sample; next++ {
			i := next * (groups / sample)
			at, err := conn.CommittedOffset(offsetGroup(i), topic, offsetPartitions-1)
			if err != nil {
				last = err
				break
			}
			if want := offsetOf(i, offsetPartitions-1); at != want {
				return fmt.Errorf("group %d: committed offset %d, want %d", i, at, want)
			}
			if next == 0 {
				f["first"+suffix+" s"] = time.Since(began).Seconds()
			}
		}
		if next < sample && !errors.Is(last, rawkafka.ErrNotYet) { // a fresh connection: this one may be broken
			_ = conn.Close()
			conn = nil
		}
	}
	f["sample"+suffix+" s"] = time.Since(began).Seconds()
	_ = conn.Close()
	used, err := procfs.CPU(srv.PID)
	f["CPU"+suffix+" s"] = used.Seconds()
	return errors.Join(err, srv.WaitReady(ctx))
}
