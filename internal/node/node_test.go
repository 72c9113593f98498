package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/zap"
)

// testTimeout bounds whatever a test waits for; it passes only when something hangs.
const testTimeout = time.Minute

// loadTest loads a configuration for a test: free ports, data under dir.
func loadTest(t *testing.T, dir string, environ ...string) *Loaded {
	t.Helper()
	l, err := Load(Sources{
		ReadFile: noFile, Environ: environ,
		Flags: map[string]string{
			"data-dir": dir, "kafka-listen": "127.0.0.1:0", "native-listen": "127.0.0.1:0", "api-listen": "127.0.0.1:0", "metrics-listen": "127.0.0.1:0",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// openTest starts a node that the test closes, or that is closed at its end.
func openTest(t *testing.T, dir string, environ ...string) *Node {
	t.Helper()
	n, err := Open(t.Context(), loadTest(t, dir, environ...).Config, Options{Logger: zap.NewNop(), Began: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.WithoutCancel(t.Context()), nil); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return n
}

func newClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation(), kgo.ProducerLinger(0)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// produce writes n records "0", "1", ... and waits for all acknowledgements.
func produce(t *testing.T, c *kgo.Client, topic string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	for i := range n {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatalf("produce %d: %v", i, err)
		}
	}
}

// consume reads n records from the start of partition 0.
func consume(t *testing.T, addr, topic string, n int, opts ...kgo.Opt) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	c := newClient(t, addr, append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	var got []string
	for len(got) < n {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", len(got), err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}

func TestRecordsSurviveRestarts(t *testing.T) {
	dir := t.TempDir()
	const each = 20
	for round := range 3 {
		n := openTest(t, dir)
		produce(t, newClient(t, n.Addrs().Kafka), "survives", each)
		got := consume(t, n.Addrs().Kafka, "survives", each*(round+1))
		for i, v := range got {
			if v != fmt.Sprint(i%each) {
				t.Fatalf("round %d: record %d is %q", round, i, v)
			}
		}
		if err := n.Close(t.Context(), nil); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := n.Close(t.Context(), nil); err != nil {
			t.Fatalf("round %d: second close: %v", round, err)
		}
	}
}

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	openTest(t, dir)
	_, err := Open(t.Context(), loadTest(t, dir).Config, Options{Logger: zap.NewNop()})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestPortInUse(t *testing.T) {
	n := openTest(t, t.TempDir())
	for _, flag := range []string{"kafka-listen", "metrics-listen"} {
		l := loadTest(t, t.TempDir())
		if flag == "kafka-listen" {
			l.Config.Kafka.Listen = n.Addrs().Kafka
		} else {
			l.Config.AdminAPI = n.Addrs().Metrics
		}
		if _, err := Open(t.Context(), l.Config, Options{Logger: zap.NewNop()}); err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("%s: got %v, want a refusal that says why", flag, err)
		}
		// What the failed start had opened is free again.
		l.Config.Kafka.Listen, l.Config.AdminAPI = "127.0.0.1:0", "127.0.0.1:0"
		again, err := Open(t.Context(), l.Config, Options{Logger: zap.NewNop()})
		if err != nil {
			t.Fatalf("%s: start after a failed start: %v", flag, err)
		}
		if err := again.Close(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}

func TestCancelledStart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	if n, err := Open(ctx, loadTest(t, t.TempDir()).Config, Options{Logger: zap.NewNop()}); err == nil {
		t.Error("a cancelled start served")
		if err := n.Close(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}

func TestLoginOverTLS(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, dir, "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret,other:word")
	ca, err := os.ReadFile(filepath.Join(dir, "dev", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	as := func(user, password string) []kgo.Opt {
		return []kgo.Opt{
			kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()), kgo.RetryTimeout(testTimeout),
		}
	}
	produce(t, newClient(t, n.Addrs().Kafka, as("acme", "secret")...), "private", 3)
	if got := consume(t, n.Addrs().Kafka, "private", 3, as("acme", "secret")...); len(got) != 3 {
		t.Errorf("got %q", got)
	}

	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	topics, err := kadm.NewClient(newClient(t, n.Addrs().Kafka, as("other", "word")...)).ListTopics(ctx)
	if err != nil || len(topics) != 0 {
		t.Errorf("another tenant sees %v, %v", topics.Names(), err)
	}
	if err := newClient(t, n.Addrs().Kafka, as("acme", "word")...).Ping(ctx); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("got %v for a wrong password, want %v", err, kerr.SaslAuthenticationFailed)
	}
	anonymous := newClient(t, n.Addrs().Kafka, kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.RetryTimeout(testTimeout/10))
	if topics, err := kadm.NewClient(anonymous).ListTopics(ctx); err == nil {
		t.Errorf("a connection without a login sees %v", topics.Names())
	}
}

func TestMetricsOfARunningNode(t *testing.T) {
	n := openTest(t, t.TempDir())
	produce(t, newClient(t, n.Addrs().Kafka), "counted", 5)
	status, body, err := get(t.Context(), n.Addrs().Metrics, "/metrics")
	if err != nil || status != 200 {
		t.Fatal(status, err)
	}
	for _, want := range []string{
		"felix_kafka_produce_records_total 5\n", "felix_kafka_connections ", "felix_storage_unsynced_bytes ", "felix_ready_state 1\n",
		"felix_publish_requests_total{", "felix_node_start_seconds ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q", want)
		}
	}
}

// process is one run of Main in the test's own process.
type process struct {
	signals chan os.Signal
	status  chan int
	lines   chan string
	ready   string
}

func runMain(t *testing.T, args ...string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{signals: make(chan os.Signal), status: make(chan int, 1), lines: make(chan string, 100), ready: filepath.Join(dir, "ready.json")}
	out, in := io.Pipe()
	args = append([]string{
		"serve", "--data-dir", filepath.Join(dir, "data"), "--kafka-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
		"--native-listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--ready-file", p.ready, "--log-format", "json",
	}, args...)
	go func() {
		p.status <- Main(t.Context(), Process{Args: args, Out: in, Err: in, Signals: p.signals, Began: time.Now()})
		_ = in.Close()
	}()
	go func() {
		defer close(p.lines)
		buf := make([]byte, 0, 64<<10)
		chunk := make([]byte, 4<<10)
		for {
			k, err := out.Read(chunk)
			buf = append(buf, chunk[:k]...)
			for {
				line, rest, ok := strings.Cut(string(buf), "\n")
				if !ok {
					break
				}
				p.lines <- line
				buf = []byte(rest)
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

// waitLine reads log lines up to the one that holds text.
func (p *process) waitLine(t *testing.T, text string) {
	t.Helper()
	deadline := time.NewTimer(testTimeout)
	defer deadline.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("the process ended without a line with %q", text)
			}
			if strings.Contains(line, text) {
				return
			}
		case <-deadline.C:
			t.Fatalf("no line with %q", text)
		}
	}
}

func (p *process) signal(t *testing.T) {
	t.Helper()
	select {
	case p.signals <- os.Interrupt:
	case <-time.NewTimer(testTimeout).C:
		t.Fatal("nobody takes the signal")
	}
}

func (p *process) wait(t *testing.T) int {
	t.Helper()
	for range p.lines { // drained, so that the writer is not blocked
	}
	return <-p.status
}

func TestMainServesUntilASignal(t *testing.T) {
	p := runMain(t)
	p.waitLine(t, `"msg":"serving"`)
	p.signal(t)
	p.waitLine(t, `"msg":"drain complete"`)
	if status := p.wait(t); status != exitOK {
		t.Errorf("got exit status %d, want 0", status)
	}
	if _, err := os.Stat(p.ready); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ready file stays behind: %v", err)
	}
}

func TestSecondSignalEndsThePredrain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(file, []byte("shutdown_predrain_ms: 3600000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := runMain(t, "--config", file, "--kafka-tls=false", "--kafka-anonymous-tenant", "default")
	p.waitLine(t, `"msg":"serving"`)
	p.signal(t)
	p.waitLine(t, "waiting before the drain")
	p.signal(t)
	p.waitLine(t, "predrain cut short")
	if status := p.wait(t); status != exitOK {
		t.Errorf("got exit status %d, want 0: nothing was cut off", status)
	}
}

func TestSecondSignalForcesTheDrain(t *testing.T) {
	p := runMain(t)
	p.waitLine(t, `"msg":"serving"`)
	text, err := os.ReadFile(p.ready)
	if err != nil {
		t.Fatal(err)
	}
	addr := func(of string) string {
		_, rest, _ := strings.Cut(string(text), `"`+of+`":"`)
		a, _, _ := strings.Cut(rest, `"`)
		return a
	}
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr("kafka"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A client that asks and never reads its answers: the server cannot finish sending, so the drain has to wait for it.
	stuffAnswers(t, conn, addr("metrics"))
	p.signal(t)
	p.waitLine(t, "waiting for Kafka requests to be answered")
	p.waitLine(t, `still waiting for Kafka requests to be answered","connections":1`)
	p.signal(t)
	p.waitLine(t, "stopped by force")
	if status := p.wait(t); status != exitFailure {
		t.Errorf("got exit status %d, want %d", status, exitFailure)
	}
}

// stuffAnswers sends ApiVersions requests without reading until the server takes none for a while and has answers that it cannot send.
func stuffAnswers(t *testing.T, conn net.Conn, metrics string) {
	t.Helper()
	handled := ""
	requests := bytes.Repeat([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, 1000)
	for left := requests; ; {
		if err := conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Write(left)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && n == 0:
			_, body, err := get(t.Context(), metrics, "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			was := handled
			if _, handled, _ = strings.Cut(body, `felix_kafka_requests_total{api="ApiVersions"`); handled == "" {
				t.Fatal("no requests are counted")
			}
			handled, _, _ = strings.Cut(handled, "\n")
			if handled == was && !strings.Contains(body, "felix_inflight_requests 0\n") {
				return
			}
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			t.Fatal(err)
		}
		if left = left[n:]; len(left) == 0 {
			left = requests
		}
	}
}

func TestMainExitStatus(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want int
		text string
	}{
		{"version", []string{"--version"}, exitOK, "felix "},
		{"version_command", []string{"version"}, exitOK, "felix " + Version},
		{"help", []string{"serve", "--help"}, exitOK, "--kafka-listen"},
		{"print_config", []string{"serve", "--print-config"}, exitOK, "single-node profile"},
		{"unknown_flag", []string{"serve", "--nope"}, exitUsage, "unknown flag"},
		{"argument", []string{"serve", "here"}, exitUsage, "unknown command"},
		{"command", []string{"sreve"}, exitUsage, "unknown command"},
		{"contradiction_printed", []string{"serve", "--print-config", "--tls-cert", "a.pem"}, exitUsage, "go together"},
		{"contradiction_with_origins", []string{"serve", "--print-config", "--tls-cert", "a.pem"}, exitUsage, "cert: a.pem  # flag --tls-cert"},
		{"bad_value", []string{"serve", "--fsync", "always"}, exitUsage, "periodic"},
		{"missing_config", []string{"serve", "--config", "/none.yml"}, exitUsage, "no such file"},
		{"cannot_start", []string{"serve", "--data-dir", "/dev/null"}, exitFailure, "data directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			status := Main(t.Context(), Process{Args: tt.args, Out: &out, Err: &out})
			if status != tt.want || !strings.Contains(out.String(), tt.text) {
				t.Errorf("got status %d and %q, want %d and %q", status, out.String(), tt.want, tt.text)
			}
		})
	}
}
