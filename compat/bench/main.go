package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/null"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args := os.Args[1:]
	var err error
	switch {
	case len(args) > 0 && args[0] == "load":
		err = load.Run(ctx, os.Stdin, os.Stdout)
	case len(args) > 0 && args[0] == "null":
		err = runNull(ctx, args[1:])
	case len(args) > 0 && args[0] == "relay":
		err = runRelay(ctx, args[1:])
	case len(args) > 0 && args[0] == "report":
		err = rewriteDocs(repoRoot())
	default:
		err = runBench(ctx, args)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // the deferred stop has run
	}
}

// runNull runs the throw-away server until it is told to stop.
func runNull(ctx context.Context, args []string) error {
	var opts null.Options
	fs := flag.NewFlagSet("null", flag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:0", "address")
	fs.IntVar(&opts.Partitions, "partitions", 4, "partitions of every topic")
	fs.IntVar(&opts.RecordBytes, "record-bytes", 1024, "value size of the records served")
	fs.IntVar(&opts.BatchBytes, "batch-bytes", 64<<10, "size of the batches served")
	fs.StringVar(&opts.Codec, "codec", "none", "codec of the batches served: none or lz4")
	if err := fs.Parse(args); err != nil {
		return err
	}
	s, err := null.New(opts)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	return s.Serve(ctx, ln)
}

// repoRoot is the project's root: the program runs from it (make bench) or from its own folder.
func repoRoot() string {
	for _, dir := range []string{".", "../.."} {
		if _, err := os.Stat(filepath.Join(dir, "compat", "bench", "go.mod")); err == nil {
			if abs, err := filepath.Abs(dir); err == nil {
				return abs
			}
		}
	}
	return "."
}

func rewriteDocs(root string) error {
	runs, err := report.Load(filepath.Join(root, "compat", "bench", "results"))
	if err != nil {
		return err
	}
	return report.UpdateDocs(filepath.Join(root, "docs", "benchmarks.md"), runs)
}
