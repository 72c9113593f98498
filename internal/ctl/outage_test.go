package ctl

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/node"
)

// server is a real node that a test stops, kills the connections of, and starts again, at one address.
type server struct {
	t    *testing.T
	dir  string
	addr string
	env  []string // more settings
	node *node.Node

	native, api string // addresses of these listeners, empty for none
}

func newServer(t *testing.T, env ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", env: env}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	flags := map[string]string{"data-dir": s.dir, "kafka-listen": s.addr, "native-listen": s.native, "api-listen": s.api, "metrics-listen": ""}
	l, err := node.Load(node.Sources{Flags: flags, Environ: s.env})
	if err != nil {
		s.t.Fatal(err)
	}
	if s.node, err = node.Open(s.t.Context(), l.Config, node.Options{Logger: zap.NewNop()}); err != nil {
		s.t.Fatal(err)
	}
	a := s.node.Addrs()
	s.addr, s.native, s.api = a.Kafka, a.Native, a.API
}

func (s *server) stop() {
	if s.node == nil {
		return
	}
	if err := s.node.Close(context.WithoutCancel(s.t.Context()), nil); err != nil {
		s.t.Error(err)
	}
	s.node = nil
}

func (s *server) flag() string { return "--brokers=" + s.addr }

// newNativeServer is a server with all listeners, and the flag for its contexts.
func newNativeServer(t *testing.T) (s *server, config string) {
	t.Helper()
	s = &server{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", native: "127.0.0.1:0", api: "127.0.0.1:0"}
	s.start()
	t.Cleanup(s.stop)
	return s, "--config=" + filepath.Join(s.dir, "dev", "felixctl.toml")
}

// stream is an output that a test reads while a command writes it.
type stream struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
}

func newStream() *stream { return &stream{wrote: make(chan struct{}, 1)} }

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return s.b.Write(p)
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// wait returns once the stream holds text.
func (s *stream) wait(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(s.String(), text) {
		select {
		case <-s.wrote:
		case <-time.After(20 * time.Second):
			t.Fatalf("no %q in %q", text, s.String())
		}
	}
}

// command is a felixctl that runs beside the test.
type command struct {
	t         *testing.T
	out, err  *stream
	interrupt context.CancelFunc
	status    chan int
}

func begin(t *testing.T, in io.Reader, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := &command{t: t, out: newStream(), err: newStream(), interrupt: cancel, status: make(chan int, 1)}
	go func() {
		c.status <- Main(ctx, Process{Args: args, In: in, Out: c.out, Err: c.err})
	}()
	return c
}

func (c *command) end(status int, parts ...string) {
	c.t.Helper()
	select {
	case got := <-c.status:
		if got != status {
			c.t.Errorf("got status %d, want %d: %s%s", got, status, c.out, c.err)
		}
	case <-time.After(30 * time.Second):
		c.t.Fatalf("the command does not end: %s%s", c.out, c.err)
	}
	for _, p := range parts {
		if !strings.Contains(c.err.String(), p) {
			c.t.Errorf("no %q in %q", p, c.err)
		}
	}
}

// gate is an output that lets nothing more through once it is shut: it holds a command still in the middle of its work.
type gate struct {
	*stream
	open chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	n, err := g.stream.Write(p)
	<-g.open
	return n, err
}

func TestConsumeExitDoesNotCallAnOutageTheEnd(t *testing.T) {
	s := newServer(t)
	want(t, exitOK, strings.Repeat(strings.Repeat("x", 900_000)+"\n", 8), []string{"produce", "big", s.flag()})
	// The command is stopped at its first output, with most of the topic unread; meanwhile the server goes.
	g := &gate{stream: newStream(), open: make(chan struct{})}
	errs := newStream()
	status := make(chan int, 1)
	go func() {
		status <- Main(t.Context(), Process{
			Args: []string{"consume", "big", "--exit", "--timeout", "2s", "--format", `%o\n`, s.flag()}, In: strings.NewReader(""), Out: g, Err: errs,
		})
	}()
	g.wait(t, "0\n")
	s.stop()
	close(g.open)
	got := <-status
	if strings.Contains(g.String(), "7\n") {
		t.Fatal("the whole topic was on its way already: the test needs larger records")
	}
	if got != exitUnreachable || !strings.Contains(errs.String(), "not read to its end") || !strings.Contains(errs.String(), "of 8") {
		t.Errorf("got status %d, want %d and how far it came: %s", got, exitUnreachable, errs)
	}
}

func TestConsumeExitWaitsForASlowReader(t *testing.T) {
	s := newServer(t)
	want(t, exitOK, strings.Repeat(strings.Repeat("x", 900_000)+"\n", 8), []string{"produce", "big", s.flag()})
	g := &gate{stream: newStream(), open: make(chan struct{})}
	time.AfterFunc(1500*time.Millisecond, func() { close(g.open) }) // a reader slower than the time-out
	errs := newStream()
	args := []string{"consume", "big", "--exit", "--timeout", "1s", "--format", `%o\n`, s.flag()}
	status := Main(t.Context(), Process{Args: args, In: strings.NewReader(""), Out: g, Err: errs})
	if status != exitOK || !strings.HasSuffix(g.String(), "7\n") {
		t.Errorf("got status %d and %q: %s", status, g, errs)
	}
}

func TestOutageIsToldToPrograms(t *testing.T) {
	s := newServer(t)
	want(t, exitOK, "", []string{"produce", "orders", "one", s.flag()})
	c := begin(t, strings.NewReader(""), "consume", "orders", "-o", "json", s.flag())
	c.out.wait(t, `"value":"one"`)
	s.stop()
	c.err.wait(t, `{"warning":"the server at `+s.addr+` is gone`)
	c.interrupt()
	c.end(exitOK)
}

func TestConsumeTellsOfDamage(t *testing.T) {
	s := newServer(t)
	want(t, exitOK, "", []string{"topic", "create", "orders", "-p", "1", "-c", "segment.bytes=1048576", s.flag()})
	want(t, exitOK, strings.Repeat(strings.Repeat("x", 900_000)+"\n", 4), []string{"produce", "orders", s.flag()})
	s.stop()
	damage(t, s.dir)
	s.start()
	got := want(t, exitRefused, "", []string{"consume", "orders", "--exit", "--format", `%o\n`, s.flag()}, "orders partition 0 at offset 1", "CORRUPT_MESSAGE")
	if got.out != "0\n" {
		t.Errorf("got %q, want the record before the damage", got.out)
	}
	want(t, exitRefused, "", []string{"consume", "orders", "--format", `%o\n`, s.flag()}, "at offset 1", "CORRUPT_MESSAGE")
}

// damage flips a byte in the middle of the second segment of the only shard.
func damage(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "shards", "*", "*", "*.log"))
	if err != nil || len(logs) < 3 {
		t.Fatalf("got segments %v (%v), want several", logs, err)
	}
	f, err := os.OpenFile(logs[1], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := []byte{0}
	if _, err := f.ReadAt(b, 5000); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, 5000); err != nil {
		t.Fatal(err)
	}
}

func TestConsumeFollowsAServerThatComesBack(t *testing.T) {
	s := newServer(t)
	want(t, exitOK, "", []string{"produce", "orders", "one", s.flag()})
	c := begin(t, strings.NewReader(""), "consume", "orders", s.flag())
	c.out.wait(t, "one\n")
	s.stop()
	c.err.wait(t, "the server at "+s.addr+" is gone")
	s.start()
	c.err.wait(t, "answers again")
	want(t, exitOK, "", []string{"produce", "orders", "two", s.flag()})
	c.out.wait(t, "two\n")
	c.interrupt()
	c.end(exitOK)
	if got := strings.Count(c.err.String(), "is gone"); got != 1 {
		t.Errorf("got %d sentences about one outage: %s", got, c.err)
	}
}

func TestConsumeInterruptedBeforeTheEnd(t *testing.T) {
	s := newServer(t)
	want(t, exitOK, "", []string{"produce", "orders", "one", s.flag()})
	c := begin(t, strings.NewReader(""), "consume", "orders", "-n", "2", s.flag())
	c.out.wait(t, "one\n")
	c.interrupt()
	c.end(exitInterrupted, "1 record")
}

func TestSubFollowsAServerThatComesBack(t *testing.T) {
	s, config := newNativeServer(t)
	want(t, exitOK, "", []string{"stream", "create", "orders", config})
	want(t, exitOK, "", []string{"pub", "orders", "one", config})
	c := begin(t, strings.NewReader(""), "sub", "orders", "--from", "earliest", config)
	c.out.wait(t, "one\n")
	s.stop()
	c.err.wait(t, "the server at "+s.native+" is gone")
	s.start()
	c.err.wait(t, "answers again")
	want(t, exitOK, "", []string{"pub", "orders", "two", "--timeout", "60s", config})
	c.out.wait(t, "two\n")
	c.interrupt()
	c.end(exitOK)
}

// TestPubTellsAnOutage: a server that goes while records are on their way is told of, and is waited for no longer than --timeout.
func TestPubTellsAnOutage(t *testing.T) {
	s, config := newNativeServer(t)
	want(t, exitOK, "", []string{"stream", "create", "orders", config})
	in, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	c := begin(t, in, "pub", "orders", "--timeout", "3s", config)
	write := func(line string) {
		t.Helper()
		if _, err := io.WriteString(feed, line); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	eventually(t, "the record", func() bool { return want(t, exitOK, "", []string{"sub", "orders", "--exit", config}).out == "one\n" })
	s.stop()
	c.err.wait(t, "the server at "+s.native+" is gone")
	write("two\nthree\n")
	c.end(exitUnreachable, "2 records to orders not acknowledged within 3s (written or not): the server at "+s.native+" is gone")
	if got := c.out.String(); !strings.Contains(got, "1 record to orders, 2 not acknowledged") {
		t.Errorf("got %q", got)
	}
}
