package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Bounds of waiting for a server. A JVM on a busy two-core machine needs most of startTimeout in the worst case.
const (
	startTimeout = 90 * time.Second
	stopTimeout  = 30 * time.Second
	pollInterval = 5 * time.Millisecond
)

// process is one child with its output in a file.
type process struct {
	cmd  *exec.Cmd
	wait sync.WaitGroup
	done chan struct{} // closed when the child was waited for
	log  string        // path of the output file
}

// start runs argv with env added to ours and appends its output to logPath.
func start(logPath string, env []string, argv ...string) (*process, error) {
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own descriptor
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	p := &process{cmd: cmd, done: make(chan struct{}), log: logPath}
	p.wait.Go(func() { // ends with the child
		_ = cmd.Wait() // how it ended is in cmd.ProcessState, to be read after done
		close(p.done)
	})
	return p, nil
}

// end sends sig and waits; a child that outlives stopTimeout is killed and reported.
func (p *process) end(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	t := time.NewTimer(stopTimeout)
	defer t.Stop()
	select {
	case <-p.done:
		return nil
	case <-t.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not stop within %v of signal %v:\n%s", p.cmd.Path, stopTimeout, sig, tail(p.log))
	}
}

// await polls ready until it returns true, the child ends, or startTimeout passes.
func (p *process) await(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !ready() {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting: %v\n%s", p.cmd.Path, p.cmd.ProcessState, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s not ready: %w\n%s", p.cmd.Path, ctx.Err(), tail(p.log))
		case <-tick.C:
		}
	}
	return nil
}

// tail returns the last 4 KiB of a file, for error texts.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err == nil && st.Size() > 4096 {
		_, _ = f.Seek(-4096, io.SeekEnd)
	}
	b, _ := io.ReadAll(f)
	return string(b)
}

// freePorts returns n ports of 127.0.0.1 that were free a moment ago, all different.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all of them at the end, so that no port comes twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// answers tells whether addr answers an ApiVersions v0 request: the smallest proof that a Kafka listener serves.
func answers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	// size 10, key 18, version 0, correlation id 1, null client id
	if _, err := c.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}); err != nil {
		return false
	}
	var head [8]byte
	_, err = io.ReadFull(c, head[:])
	return err == nil && head[7] == 1
}
