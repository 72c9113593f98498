package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/peer"
)

// Bounds of what a test waits for; they pass only when something hangs.
const (
	startLimit = 2 * time.Minute
	callLimit  = 2 * time.Minute
)

// shared is the server of the suite. Set by TestMain.
var shared *fleet

func TestMain(m *testing.M) {
	if p := os.Getenv("PEER"); p != "" && p != string(peer.Felix) {
		fmt.Fprintln(os.Stderr, "client: skipped, the native protocol is tested against a server of our own only")
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
	if shared, err = startFleet(ctx); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.stop()) }()
	return m.Run(), nil
}

// fleet is the servers under test: one node so far.
type fleet struct {
	nodes   []peer.Peer
	streams atomic.Int64 // made, for their names
}

func startFleet(ctx context.Context, env ...string) (*fleet, error) {
	p, err := peer.NewFelix(peer.Options{Security: peer.Development, FelixEnv: env})
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	return &fleet{nodes: []peer.Peer{p}}, nil
}

// newFleet is a server for one test.
func newFleet(t *testing.T, env ...string) *fleet {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	f, err := startFleet(ctx, env...)
	must(t, err)
	t.Cleanup(func() { must(t, f.stop()) })
	return f
}

func (f *fleet) stop() error {
	var err error
	for _, n := range f.nodes {
		err = errors.Join(err, n.Stop())
	}
	return err
}

// leader is the node that leads a shard.
func (f *fleet) leader(string, uint32) peer.Peer { return f.nodes[0] }

// kill kills a node and starts it again.
func (f *fleet) kill(t *testing.T, n peer.Peer) {
	t.Helper()
	must(t, n.Kill9())
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	must(t, n.Restart(ctx))
}

// dev is the path of a file of the development profile.
func (f *fleet) dev(name string) string { return filepath.Join(f.nodes[0].DataDir(), "dev", name) }

func (f *fleet) name(t *testing.T) string {
	t.Helper()
	test := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	return fmt.Sprintf("client-%d-%s", f.streams.Add(1), test)
}

// streamConfig is what a stream is made with.
type streamConfig struct {
	shards int
	memory bool               // ephemeral
	kafka  map[string]*string // configurations of the topic; made through Kafka then
	native map[string]any     // further fields of the REST API
}

// create makes a stream and returns its name.
func (f *fleet) create(t *testing.T, o streamConfig) string {
	t.Helper()
	name := f.name(t)
	o.shards = max(o.shards, 1)
	if o.kafka != nil {
		adm := kadm.NewClient(f.kgo(t))
		_, err := adm.CreateTopic(t.Context(), int32(o.shards), 1, o.kafka, name)
		must(t, err)
	} else {
		fields := map[string]any{"stream": name, "shards": o.shards, "durable": !o.memory, "kind": "Stream"}
		for k, v := range o.native {
			fields[k] = v
		}
		body, err := json.Marshal(fields)
		must(t, err)
		if status := f.api(t, http.MethodPost, "", body); status != http.StatusCreated {
			t.Fatalf("create %s: status %d", name, status)
		}
	}
	return name
}

// api calls the REST API of streams; path goes behind "streams".
func (f *fleet) api(t *testing.T, method, path string, body []byte) int {
	t.Helper()
	token, err := os.ReadFile(f.dev("api-token"))
	must(t, err)
	url := "http://" + f.nodes[0].Bound("api") + "/v1/tenants/default/namespaces/default/streams" + path
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	return res.StatusCode
}

// kgo is a Kafka client of the fleet.
func (f *fleet) kgo(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.nodes[0].Addr())}, opts...)...)
	must(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callLimit)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(callLimit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-tick.C
	}
}
