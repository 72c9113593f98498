package peer

import (
	"context"
	"fmt"
	"syscall"
)

// Child is a further process of a test beside the server, such as a Kafka Streams application or a Connect worker. Its output goes to a
// file, and the kernel kills it when the test process dies. Its methods must be called from one goroutine at a time.
type Child struct {
	p *process
}

// StartChild starts argv and appends its output to logPath.
func StartChild(logPath string, argv ...string) (*Child, error) {
	p, err := start(logPath, nil, argv...)
	if err != nil {
		return nil, err
	}
	return &Child{p: p}, nil
}

// Await polls ready until it returns true; it fails when the child ends, the context does, or 90 s have passed.
func (c *Child) Await(ctx context.Context, ready func() bool) error { return c.p.await(ctx, ready) }

// Alive is nil while the child runs, and tells how it ended and its last words after that.
func (c *Child) Alive() error {
	select {
	case <-c.p.done:
		return fmt.Errorf("%s ended by itself: %v\n%s", c.p.cmd.Path, c.p.cmd.ProcessState, tail(c.p.log))
	default:
		return nil
	}
}

// Stop sends SIGTERM, waits, and returns the exit code: 143 of a JVM that a signal ended. A child that had ended by itself is an error.
func (c *Child) Stop() (code int, err error) {
	if err := c.Alive(); err != nil {
		return 0, err
	}
	err = c.p.end(syscall.SIGTERM)
	return c.p.cmd.ProcessState.ExitCode(), err
}

// Tail is the last of the output, for error texts.
func (c *Child) Tail() string { return tail(c.p.log) }

// Kill9 ends the child with SIGKILL and waits until it is gone.
func (c *Child) Kill9() error { return c.p.end(syscall.SIGKILL) }

// FreePort returns a port of 127.0.0.1 that was free a moment ago, for a child that cannot tell which one it chose.
func FreePort() (int, error) {
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}
