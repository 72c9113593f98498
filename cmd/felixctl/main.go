package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/felixlog/felix/internal/ctl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := ctl.Main(ctx, ctl.Process{
		Args: os.Args[1:], Environ: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout),
	})
	stop()
	os.Exit(status)
}

// isTerminal says that a person sits at the other end.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
