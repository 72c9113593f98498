package native

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// agent is a process that drives the upstream client.
type agent struct {
	surface string // sync or async
	cmd     *exec.Cmd

	mu  sync.Mutex // one request at a time
	in  io.WriteCloser
	out *bufio.Reader
}

// request is one operation of python/agent.py.
type request map[string]any

// answer is what an operation gave.
type answer struct {
	Version   string           `json:"version"`
	Endpoints []string         `json:"endpoints"`
	Offsets   []*int64         `json:"offsets"` // nil: the client was told none
	Events    []*event         `json:"events"`  // nil: none came in time
	Notices   []string         `json:"notices"`
	Positions map[string]int64 `json:"positions"`
	Shards    int              `json:"shards"`
	Value     []byte           `json:"value"`
	At        *int64           `json:"version_offset"`
	AsOf      *int64           `json:"as_of"`
	TookMS    int              `json:"took_ms"`
	Error     *failure         `json:"error"`
}

// event is one event as the client gave it.
type event struct {
	Offset  *int64 `json:"offset"`
	Payload []byte `json:"payload"`
	Skipped int64  `json:"skipped"`
	Shard   int    `json:"shard"` // of a sharded subscription
}

// failure is what the client raised.
type failure struct {
	Type    string         `json:"type"`
	Felix   bool           `json:"felix"` // a class of the library
	Message string         `json:"message"`
	Code    *string        `json:"code"`
	Retry   *string        `json:"retry"`
	Detail  map[string]any `json:"detail"`
}

func (f *failure) Error() string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	return fmt.Sprintf("%s (%s, %s, %v): %s", f.Type, text(f.Code), text(f.Retry), f.Detail, f.Message)
}

// python is the interpreter that has the client.
func python() string {
	if p := os.Getenv("NATIVE_PYTHON"); p != "" {
		return p
	}
	return filepath.Join(peer.ModuleDir(), ".cache", "native", "bin", "python")
}

// startAgent starts an agent of a surface with further settings of the client.
func startAgent(surface string, env ...string) (*agent, error) {
	cmd := exec.Command(python(), filepath.Join(peer.ModuleDir(), "native", "python", "agent.py"), surface)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the upstream client (compat/install.sh installs it): %w", err)
	}
	return &agent{surface: surface, cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// newAgent is an agent for one test.
func newAgent(t *testing.T, surface string, env ...string) *agent {
	t.Helper()
	a, err := startAgent(surface, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.close(); err != nil {
			t.Errorf("end of the client's process: %v", err)
		}
	})
	return a
}

// exitLimit is how long a client may take to end, and callLimit how long an operation, its own time-outs included.
const (
	exitLimit = 10 * time.Second
	callLimit = 60 * time.Second
)

// close ends the process. A client with open connections ends at once: nothing is owed.
func (a *agent) close() error {
	err := a.in.Close()
	kill := time.AfterFunc(exitLimit, func() { _ = a.cmd.Process.Kill() })
	defer kill.Stop()
	return errors.Join(err, a.cmd.Wait())
}

// try runs an operation. The error is a *failure if the client raised it.
func (a *agent) try(ctx context.Context, req request) (answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var res answer
	line, err := json.Marshal(req)
	if err != nil {
		return res, err
	}
	// A process that hangs is of no more use: killing it ends the read.
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = a.cmd.Process.Kill() })
	defer stop()
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		return res, err
	}
	line, err = a.out.ReadBytes('\n')
	if err != nil {
		return res, fmt.Errorf("%s: no answer: %w", req["op"], errors.Join(err, ctx.Err()))
	}
	if err := json.Unmarshal(line, &res); err != nil {
		return res, fmt.Errorf("%s: %w", line, err)
	}
	if res.Error != nil {
		return res, res.Error
	}
	return res, nil
}

// call runs an operation that must succeed.
func (a *agent) call(t *testing.T, op string, req request) answer {
	t.Helper()
	req["op"] = op
	res, err := a.try(t.Context(), req)
	if err != nil {
		t.Fatalf("%s %s: %v", a.surface, op, err)
	}
	return res
}

// refused runs an operation that the client must raise an error for.
func (a *agent) refused(t *testing.T, op string, req request) *failure {
	t.Helper()
	req["op"] = op
	res, err := a.try(t.Context(), req)
	var f *failure
	if !errors.As(err, &f) {
		t.Fatalf("%s %s: %+v, %v, want an error of the client", a.surface, op, res, err)
	}
	return f
}

// signal sends the process a signal: SIGSTOP and SIGCONT make a client that does not read.
func (a *agent) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
