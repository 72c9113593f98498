// Package server starts and stops the servers that are compared: Apache Kafka from its jars, Felix from its binary and the
// throw-away server from the bench program itself. Each start is a fresh process; the data directory is the caller's.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/rawkafka"
)

// Kind names a server.
type Kind string

// The servers.
const (
	Kafka Kind = "kafka"
	Felix Kind = "felix"
	Null  Kind = "null"
	// Relay is the bare QUIC server of package relay, and the NATS servers are those of its own module: without and with TLS.
	Relay   Kind = "relay"
	NATS    Kind = "nats"
	NATSTLS Kind = "nats-tls"
)

// startTimeout bounds a start, recovery of 10 GiB included.
const startTimeout = 120 * time.Second

// Config says how to start a server.
type Config struct {
	Kind    Kind
	DataDir string // made if missing; empty is allowed for Null alone
	Fsync   string // Felix's fsync mode: none, periodic (default) or on_commit; Kafka takes its from the topic's configs
	NoFile  int    // limit of open files; 0 keeps the caller's
	Env     []string
	Args    []string // further arguments: Null's options
	// Partitions is what the throw-away server pretends to have.
	Partitions int
}

// Installation says where the programs are.
type Installation struct {
	FelixBinary string // bin/felix
	KafkaLibs   string // directory of Kafka's jars
	Self        string // this program, for the throw-away server and the relay
	NATSBinary  string // the NATS server
	TLS         TLSDir // of the relay and the NATS server
	LogDir      string // where the servers' own output goes
}

// Server is a running server.
type Server struct {
	Kind    Kind
	Addr    string // Kafka listener
	Metrics string // metrics and profiles of Felix and the relay; empty for the others
	Native  string // where native clients go: Felix's if it was told to listen, and the relay's
	API     string // Felix's, likewise
	PID     int
	DataDir string
	// Started is from the start of the process to the first Metadata answer that names a broker and no error.
	Started time.Duration

	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{}
	err    error // of Wait; read after exited is closed
	once   sync.Once
	wg     sync.WaitGroup // the goroutine that waits for the process
}

// Start starts a server and waits until it answers Metadata.
func (in *Installation) Start(ctx context.Context, cfg Config) (*Server, error) {
	s, err := in.Launch(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.WaitReady(ctx); err != nil {
		err = fmt.Errorf("%s did not start: %w; its output is in %s", cfg.Kind, err, s.log.Name())
		_ = s.Kill()
		return nil, err
	}
	return s, nil
}

// Launch starts the process and does not wait for it to serve.
func (in *Installation) Launch(ctx context.Context, cfg Config) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	if cfg.DataDir != "" {
		if err := os.MkdirAll(cfg.DataDir, 0o755); err != nil {
			return nil, err
		}
	}
	s := &Server{
		Kind: cfg.Kind, Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), DataDir: cfg.DataDir,
		exited: make(chan struct{}),
	}
	var argv []string
	switch cfg.Kind {
	case Kafka:
		argv, err = in.kafkaArgs(ctx, cfg, port)
	case Felix:
		argv, err = in.felixArgs(cfg, s)
	case Relay:
		argv = append(in.relayArgs(cfg), cfg.Args...)
	case NATS, NATSTLS:
		argv, err = in.natsArgs(cfg, s)
	case Null:
		argv = append([]string{in.Self, "null", "-listen", s.Addr, "-partitions", strconv.Itoa(max(cfg.Partitions, 1))}, cfg.Args...)
	default:
		err = fmt.Errorf("unknown server %q", cfg.Kind)
	}
	if err != nil {
		return nil, err
	}
	if cfg.NoFile > 0 {
		argv = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, cfg.NoFile), "sh"}, argv...)
	}
	if err := os.MkdirAll(in.LogDir, 0o755); err != nil {
		return nil, err
	}
	s.log, err = os.Create(filepath.Join(in.LogDir, fmt.Sprintf("%s-%d.log", cfg.Kind, time.Now().UnixNano())))
	if err != nil {
		return nil, err
	}
	// Not CommandContext: a server outlives the step that started it, and the caller stops it.
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.Env = append(os.Environ(), cfg.Env...)
	if cfg.Kind == Felix {
		s.cmd.Env = append(s.cmd.Env, "FELIX_DURABLE_FSYNC_MODE="+orDefault(cfg.Fsync, "periodic"),
			"FELIX_DURABLE_RETENTION_INTERVAL_SECONDS=5") // as often as Kafka is told to look
	}
	// If the bench program dies, so do its servers. Each is a session of its own, since Linux shares processor time between
	// sessions first (autogroups): beside a busy client of the same session a server would get next to nothing of the other
	// processor as soon as anything else wants it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		_ = s.log.Close()
		return nil, err
	}
	s.Started = time.Duration(began.UnixNano()) // replaced by WaitReady
	s.PID = s.cmd.Process.Pid
	s.wg.Go(func() {
		s.err = s.cmd.Wait()
		close(s.exited)
	})
	return s, nil
}

// WaitReady waits until the server answers Metadata and, for Felix, until its ready file names the metrics address. It asks
// every quarter of a millisecond, so that Started is exact to that.
func (s *Server) WaitReady(ctx context.Context) error {
	began := time.Unix(0, int64(s.Started))
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(250 * time.Microsecond)
	defer tick.Stop()
	for {
		select {
		case <-s.exited:
			return fmt.Errorf("the process ended: %w", orError(s.err))
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := s.probe(ctx); err != nil {
			continue
		}
		s.Started = time.Since(began)
		return s.readReadyFile(ctx)
	}
}

// probe asks for the brokers over a new connection.
func (s *Server) probe(ctx context.Context) error {
	if s.Kind == Relay || s.Kind == NATS || s.Kind == NATSTLS {
		return s.probePeer(ctx)
	}
	c, err := rawkafka.Dial(s.Addr, time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	m, err := c.Metadata(nil, 5*time.Second)
	if err != nil {
		return err
	}
	if len(m.Brokers) == 0 {
		return errors.New("no brokers yet")
	}
	return nil
}

// Stop asks the server to end and waits; one that does not end within 30 seconds is killed.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	t := time.NewTimer(30 * time.Second)
	defer t.Stop()
	select {
	case <-s.exited:
	case <-t.C:
		return errors.Join(fmt.Errorf("%s did not stop within 30 s", s.Kind), s.Kill())
	}
	s.once.Do(func() { _ = s.log.Close() })
	return nil
}

// Kill ends the server with SIGKILL and waits.
func (s *Server) Kill() error {
	_ = s.cmd.Process.Kill()
	<-s.exited
	s.once.Do(func() { _ = s.log.Close() })
	return nil
}

// LogFile is where the server's own output goes.
func (s *Server) LogFile() string { return s.log.Name() }

// FreePort returns a port of 127.0.0.1 that was free a moment ago.
func FreePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func orError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
