package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/felixlog/felix/internal/node"
)

func main() {
	began := time.Now()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(node.Main(context.Background(), node.Process{
		Args: os.Args[1:], Environ: os.Environ(), Out: os.Stdout, Err: os.Stderr, Signals: signals, Began: began,
	}))
}
