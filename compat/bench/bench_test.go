package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// TestMain lets the test binary play the client, the throw-away server, the relay and a server that knows groups, which the harness starts as
// processes of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"load", "null", "relay"}, os.Args[1]) {
		main()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		if err := serveFake(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// testBench is a harness with the throw-away server alone.
func testBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		root: repoRoot(), trials: 2, quick: true, servers: []server.Kind{server.Null},
		run: &report.Run{Started: time.Now(), Trials: 2, Quick: true},
	}
	work := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.work = work
	b.in = &server.Installation{FelixBinary: filepath.Join(work, "no-such-binary"), Self: self, LogDir: filepath.Join(work, "logs")}
	return b
}

func TestProduceRowAgainstTheThrowAwayServer(t *testing.T) {
	b := testBench(t)
	s := b.sub("P1", "franz/100B/none", "a test", throughputColumns...)
	spec := b.produceSpec("franz", "none", 100)
	spec.WarmBytes, spec.Bytes = 1e6, 5e6
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.produceSub(ctx, s, spec); err != nil {
		t.Fatal(err)
	}
	if got := len(s.Trials["null"]); got != 2 {
		t.Fatalf("%d trials", got)
	}
	for _, column := range []string{"MB/s", "krec/s", "core-s/GB", "wire MB/s", "batch KB"} {
		if !s.Has("null", column) {
			t.Errorf("no %s in %v", column, s.Trials["null"][0])
		}
	}
	if s.Median("null", "MB/s") <= 0 || len(s.Checks) != 0 {
		t.Errorf("median %v, checks %v", s.Median("null", "MB/s"), s.Checks)
	}
}

func TestAServerThatCannotStartIsReportedAndTheRestGoesOn(t *testing.T) {
	b := testBench(t)
	b.servers = []server.Kind{server.Felix, server.Null}
	s := b.sub("P1", "x", "a test", "MB/s")
	spec := b.produceSpec("franz", "none", 100)
	spec.WarmBytes, spec.Bytes = 0, 1e6
	err := b.produceSub(t.Context(), s, spec)
	if err == nil || !strings.Contains(err.Error(), "no Felix binary") {
		t.Errorf("error %v", err)
	}
	if len(s.Trials["null"]) != 2 || len(s.Trials["felix"]) != 0 || len(s.Notes) != 1 {
		t.Errorf("trials %v, notes %v", s.Trials, s.Notes)
	}
}

func TestOnlyLeavesSubRowsOut(t *testing.T) {
	b := testBench(t)
	b.only = "lz4"
	if b.sub("P1", "franz/none", "") != nil || b.sub("P1", "franz/lz4", "") == nil {
		t.Error("-only chose wrongly")
	}
}
