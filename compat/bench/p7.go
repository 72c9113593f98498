package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/procfs"
	"github.com/felixlog/felix/compat/bench/internal/rawkafka"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// p7 is memory at rest and the size of the binary.
func (b *bench) p7(ctx context.Context) error {
	n := pick(b, 1000, 5000)
	s := b.sub("P7", "idle", fmt.Sprintf("Resident memory three seconds after the start, and what each of %d idle connections adds (each has "+
		"done ApiVersions); size of the stripped binary.", n), "idle RSS MiB", "of it files MiB", "KiB/connection", "idle %", "binary MiB")
	if s == nil {
		return nil
	}
	all := b.trials
	defer func() { b.trials = all }()
	b.trials = min(all, 3)
	err := b.interleave(ctx, s, []server.Kind{server.Kafka, server.Felix}, func(ctx context.Context, k server.Kind) (f report.Figures, err error) {
		err = b.withServer(ctx, server.Config{Kind: k}, func(srv *server.Server) error {
			f, err = b.restTrial(ctx, srv, n)
			return err
		})
		return f, err
	})
	felix := string(server.Felix)
	if !s.Has(felix, "idle RSS MiB") {
		return err
	}
	s.AtMost("idle RSS MiB", s.Median(felix, "idle RSS MiB"), 20)
	s.AtMost("KiB a connection", s.Median(felix, "KiB/connection"), 8)
	size, sizeErr := b.strippedSize(ctx)
	if sizeErr == nil {
		s.Trials[felix][0]["binary MiB"] = size
		s.AtMost("stripped binary MiB", size, 25)
	}
	return errors.Join(err, sizeErr)
}

func (b *bench) restTrial(ctx context.Context, srv *server.Server, connections int) (report.Figures, error) {
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	share, err := b.idleShare(ctx, srv)
	if err != nil {
		return nil, err
	}
	before, err := procfs.ReadMemory(srv.PID)
	if err != nil {
		return nil, err
	}
	var conns []*rawkafka.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range connections {
		c, err := rawkafka.Dial(srv.Addr, 5*time.Second)
		if err != nil {
			return nil, fmt.Errorf("connection %d: %w", len(conns), err)
		}
		conns = append(conns, c)
		if err := c.ApiVersions(5 * time.Second); err != nil {
			return nil, fmt.Errorf("connection %d: %w", len(conns), err)
		}
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	after, err := procfs.ReadMemory(srv.PID)
	if err != nil {
		return nil, err
	}
	return report.Figures{
		"idle RSS MiB": float64(before.RSS) / (1 << 20), "of it files MiB": float64(before.File) / (1 << 20), "idle %": share,
		"KiB/connection": float64(after.RSS-before.RSS) / 1024 / float64(connections),
	}, nil
}

// strippedSize builds the server without symbols and returns its size in MiB.
func (b *bench) strippedSize(ctx context.Context) (float64, error) {
	path := filepath.Join(b.work, "felix-stripped")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/felix")
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the stripped binary: %w: %s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / (1 << 20), os.Remove(path)
}
