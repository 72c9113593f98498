package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/internal/node"
)

// testTimeout bounds whatever a test waits for; it passes only when something hangs.
const testTimeout = 90 * time.Second

func TestMain(m *testing.M) {
	// The HTTP client of the tests keeps idle connections for a while.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// server is a node in this process, with the single-node profile.
type server struct {
	t      testing.TB
	dir    string
	node   *node.Node
	listen map[string]string // addresses, kept over restarts
}

func startServer(t testing.TB) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), listen: map[string]string{}}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	flags := map[string]string{"data-dir": s.dir}
	for _, name := range []string{"kafka", "native", "api", "metrics"} {
		flags[name+"-listen"] = "127.0.0.1:0"
		if addr := s.listen[name]; addr != "" {
			flags[name+"-listen"] = addr
		}
	}
	l, err := node.Load(node.Sources{ReadFile: func(string) ([]byte, error) { return nil, fs.ErrNotExist }, Flags: flags})
	must(s.t, err)
	s.node, err = node.Open(s.t.Context(), l.Config, node.Options{Logger: zap.NewNop(), Began: time.Now()})
	must(s.t, err)
	a := s.node.Addrs()
	s.listen = map[string]string{"kafka": a.Kafka, "native": a.Native, "api": a.API, "metrics": a.Metrics}
}

// stop closes the node in good order. Stopping twice is fine.
func (s *server) stop() {
	s.t.Helper()
	if s.node == nil {
		return
	}
	n := s.node
	s.node = nil
	if err := n.Close(context.WithoutCancel(s.t.Context()), nil); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

func (s *server) dev(name string) string { return filepath.Join(s.dir, "dev", name) }

func (s *server) config() client.Config {
	return client.Config{Addrs: []string{s.listen["native"]}, CAFile: s.dev("ca.pem"), Token: client.TokenFile(s.dev("token"))}
}

// connect makes a client that the test closes at its end.
func (s *server) connect(change ...func(*client.Config)) *client.Client {
	s.t.Helper()
	cfg := s.config()
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	defer cancel()
	c, err := client.Connect(ctx, cfg)
	must(s.t, err)
	s.t.Cleanup(func() { must(s.t, c.Close()) })
	return c
}

// create makes a stream.
func (s *server) create(name string, shards int, durable bool) client.Stream {
	s.t.Helper()
	token, err := os.ReadFile(s.dev("api-token"))
	must(s.t, err)
	body, err := json.Marshal(map[string]any{"stream": name, "shards": shards, "durable": durable, "kind": "Stream"})
	must(s.t, err)
	url := "http://" + s.listen["api"] + "/v1/tenants/default/namespaces/default/streams"
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, url, bytes.NewReader(body))
	must(s.t, err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	must(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		s.t.Fatalf("create %s: %s", name, resp.Status)
	}
	return client.Stream{Name: name}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// limited is the test's context with a bound.
func limited(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func named(i int) string { return fmt.Sprintf("record %d", i) }

// take reads n events and returns their values.
func take(t testing.TB, s *client.Subscription, n int) []string {
	t.Helper()
	ctx := limited(t)
	var out []string
	for len(out) < n {
		e, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d events: %v", len(out), n, err)
		}
		out = append(out, string(e.Value))
	}
	return out
}
