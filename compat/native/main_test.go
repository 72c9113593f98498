package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/peer"
)

// suite is what tests share: one server, and a client of each surface that is connected to it as "dev". Set by TestMain, read-only
// afterwards.
var suite struct {
	server      *server
	sync, async *agent
	idle        *idleWatch
}

const startLimit = 2 * time.Minute

func TestMain(m *testing.M) {
	if p := os.Getenv("PEER"); p != "" && p != string(peer.Felix) {
		fmt.Fprintln(os.Stderr, "native: skipped, the native protocol is tested against a server of our own only")
		os.Exit(0)
	}
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if suite.server, err = startServer(ctx); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, suite.server.Stop()) }()
	for surface, at := range map[string]**agent{"sync": &suite.sync, "async": &suite.async} {
		a, err := startAgent(surface)
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, a.close()) }()
		connect := suite.server.connection("dev")
		connect["op"] = "connect"
		if _, err := a.try(ctx, connect); err != nil {
			return 1, err
		}
		*at = a
	}
	if suite.idle, err = startIdle(ctx); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, suite.idle.close()) }()
	return m.Run(), nil
}

// each runs a test with both surfaces of the client, connected to the suite's server.
func each(t *testing.T, f func(t *testing.T, a *agent)) {
	t.Helper()
	for _, a := range []*agent{suite.sync, suite.async} {
		t.Run(a.surface, func(t *testing.T) { f(t, a) })
	}
}

// server is one Felix in its development profile.
type server struct {
	peer.Peer
	token, apiToken string
	streams         atomic.Int64
}

// startServer starts a server with further settings, NAME=value.
func startServer(ctx context.Context, env ...string) (*server, error) {
	p, err := peer.NewFelix(peer.Options{Security: peer.Development, FelixEnv: env})
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	s := &server{Peer: p}
	for name, to := range map[string]*string{"token": &s.token, "api-token": &s.apiToken} {
		text, err := os.ReadFile(s.dev(name))
		if err != nil {
			return nil, errors.Join(err, p.Stop())
		}
		*to = strings.TrimSpace(string(text))
	}
	return s, nil
}

// newServer is a server for one test.
func newServer(t *testing.T, env ...string) *server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	s, err := startServer(ctx, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// dev is the path of a file of the development profile.
func (s *server) dev(name string) string { return filepath.Join(s.DataDir(), "dev", name) }

// connection is what a client called name needs to connect with the development token. Fields may be set over it.
func (s *server) connection(name string) request {
	return request{"client": name, "addrs": s.Bound("native"), "token": s.token, "ca_file": s.dev("ca.pem")}
}

// connect connects a client.
func (s *server) connect(t *testing.T, a *agent, name string) {
	t.Helper()
	a.call(t, "connect", s.connection(name))
}

// mint makes a token of the tenant with the given rights alone.
func (s *server) mint(t *testing.T, rights ...string) string {
	t.Helper()
	felixctl := filepath.Join(peer.ModuleDir(), "..", "bin", "felixctl")
	if bin := os.Getenv("FELIX_BIN"); bin != "" {
		felixctl = filepath.Join(filepath.Dir(bin), "felixctl")
	}
	args := []string{"token", "mint", "--key", s.dev("signing-key.pem"), "--principal", "p:compat"}
	for _, r := range rights {
		args = append(args, "--allow", r)
	}
	out, err := exec.CommandContext(t.Context(), felixctl, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("felixctl %q: %v: %s", args, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// kafka is a Kafka client of the same server.
func (s *server) kafka(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.Addr())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func (s *server) name(t *testing.T) string {
	t.Helper()
	test := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	return fmt.Sprintf("native-%d-%s", s.streams.Add(1), test)
}

// durable makes a durable stream, which is a Kafka topic, and returns its name.
func (s *server) durable(t *testing.T, shards int32) string {
	t.Helper()
	name := s.name(t)
	adm := kadm.NewClient(s.kafka(t))
	if _, err := adm.CreateTopic(t.Context(), shards, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "every partition of "+name+" has its leader", func() bool {
		offsets, err := adm.ListEndOffsets(t.Context(), name)
		return err == nil && offsets.Error() == nil && len(offsets[name]) == int(shards)
	})
	return name
}

// ephemeral makes an ephemeral stream through the REST API and returns its name.
func (s *server) ephemeral(t *testing.T) string {
	t.Helper()
	name := s.name(t)
	body, err := json.Marshal(map[string]any{"stream": name, "durable": false})
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + s.Bound("api") + "/v1/tenants/default/namespaces/default/streams"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.apiToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("create an ephemeral stream: %s", res.Status)
	}
	return name
}

// produce writes records to a partition as a Kafka client and returns their offsets.
func (s *server) produce(t *testing.T, topic string, partition int32, values ...[]byte) []int64 {
	t.Helper()
	cl := s.kafka(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	offsets := make([]int64, 0, len(values))
	for _, v := range values {
		r, err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: v}).First()
		if err != nil {
			t.Fatal(err)
		}
		offsets = append(offsets, r.Offset)
	}
	return offsets
}

// metric is the sum of a metric's series on the server.
func (s *server) metric(t *testing.T, name string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Bound("metrics")+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	found, sum := false, 0.0
	for line := range strings.Lines(text.String()) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		if err != nil {
			t.Fatalf("metric %s: %v", line, err)
		}
		found, sum = true, sum+v
	}
	if !found {
		t.Fatalf("the server has no metric %s", name)
	}
	return sum
}

// eventually polls a condition that the server or a client brings about in its own time.
func eventually(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// payloads are n payloads that say which they are.
func payloads(prefix string, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = fmt.Appendf(nil, "%s-%d", prefix, i)
	}
	return out
}

// wantEvents wants the payloads in order, at dense offsets from first on; first -1: without offsets.
func wantEvents(t *testing.T, got []*event, first int64, want ...[]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i, e := range got {
		if e == nil {
			t.Fatalf("event %d did not come", i)
		}
		if !bytes.Equal(e.Payload, want[i]) {
			t.Fatalf("event %d is %.60q, want %.60q", i, e.Payload, want[i])
		}
		switch {
		case first < 0 && e.Offset != nil:
			t.Fatalf("event %d has offset %d, want none", i, *e.Offset)
		case first >= 0 && (e.Offset == nil || *e.Offset != first+int64(i)):
			t.Fatalf("event %d has offset %s, want %d", i, offsetText(e.Offset), first+int64(i))
		}
	}
}

func offsetText(o *int64) string {
	if o == nil {
		return "none"
	}
	return strconv.FormatInt(*o, 10)
}

// wantOffsets wants dense offsets from first on.
func wantOffsets(t *testing.T, got []*int64, first int64, n int) {
	t.Helper()
	if len(got) != n {
		t.Fatalf("%d offsets, want %d", len(got), n)
	}
	for i, o := range got {
		if o == nil || *o != first+int64(i) {
			t.Fatalf("publish %d at offset %s, want %d", i, offsetText(o), first+int64(i))
		}
	}
}
