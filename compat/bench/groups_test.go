package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// serveFake is a fake server that takes the arguments of `felix serve` and keeps what it is told in the data directory.
func serveFake(args []string) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	dir, listen := fs.String("data-dir", "", ""), fs.String("kafka-listen", "", "")
	ready := fs.String("ready-file", "", "")
	fs.String("metrics-listen", "", "")
	fs.String("native-listen", "", "")
	fs.String("api-listen", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	_, text, err := net.SplitHostPort(*listen)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(*dir))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := os.WriteFile(*ready, []byte(`{"metrics": ""}`), 0o600); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	return nil
}

// groupBench is a harness whose Felix is the fake server.
func groupBench(t *testing.T) *bench {
	t.Helper()
	b := testBench(t)
	b.servers, b.trials = []server.Kind{server.Felix}, 1
	b.in.FelixBinary = b.in.Self
	return b
}

// coarse are columns that may be zero in a short run: processor time comes in ticks of 10 ms.
var coarse = []string{"other cores", "server µs/commit", "client µs/commit", "server ms/group", "client ms/group", "CPU s", "CPU after kill s"}

// wantColumns checks that a sub-row has one trial with a figure above zero in each of its columns.
func wantColumns(t *testing.T, s *report.Sub) {
	t.Helper()
	if len(s.Notes) != 0 || len(s.Trials["felix"]) != 1 {
		t.Fatalf("%s: notes %v, trials %v", s.Name, s.Notes, s.Trials)
	}
	for _, column := range s.Columns {
		if f := s.Trials["felix"][0]; f[column] <= 0 && !slices.Contains(coarse, column) {
			t.Errorf("%s: %s is %v", s.Name, column, f[column])
		}
	}
}

func TestGroupRows(t *testing.T) {
	b := groupBench(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := b.p8b(ctx); err != nil {
		t.Fatal(err)
	}
	if len(b.run.Subs) != 3 {
		t.Fatalf("%d sub-rows", len(b.run.Subs))
	}
	for _, s := range b.run.Subs {
		wantColumns(t, s)
		if len(s.Checks) != 0 {
			t.Errorf("%s is judged without Kafka: %v", s.Name, s.Checks)
		}
	}
}

func TestOffsetRow(t *testing.T) {
	b := groupBench(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := b.p8c(ctx); err != nil {
		t.Fatal(err)
	}
	s := b.run.Subs[0]
	wantColumns(t, s)
	if len(s.Checks) != 2 {
		t.Errorf("checks %v", s.Checks)
	}
	if f := s.Trials["felix"][0]; f["sample s"] < f["first s"] {
		t.Errorf("the sample was answered before the first: %s", fmt.Sprint(f))
	}
}
