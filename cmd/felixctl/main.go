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
	// A closed standard output ends the command as any failed write does, so that what was sent is still waited for.
	signal.Ignore(syscall.SIGPIPE)
	// The first signal ends the command in good order; a second one ends the process as it would without us.
	context.AfterFunc(ctx, stop)
	status := ctl.Main(ctx, ctl.Process{
		Args: os.Args[1:], Environ: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr),
	})
	stop()
	os.Exit(status)
}

// isTerminal says that a person sits at the other end.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
