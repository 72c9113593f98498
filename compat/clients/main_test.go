package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
	"github.com/felixlog/felix/compat/clients/report"
	"github.com/felixlog/felix/compat/peer"
)

// suite is what all tests share: one server and one of each client. Set by TestMain, read-only afterwards.
var suite struct {
	peer    peer.Peer
	addr    string
	clients []*driver.Client // in the order of the tables: writers and readers
	results *report.Results
}

const startLimit = 4 * time.Minute

func TestMain(m *testing.M) {
	driver.MaybeServe()
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runSuite starts server and clients, runs the tests, and stops all of it.
func runSuite(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	// Compaction is looked for every second, so that case 59 need not wait for a minute. (The Kafka peer has its own settings.)
	p, err := peer.FromEnv(peer.Options{FelixEnv: []string{"FELIX_DURABLE_RETENTION_INTERVAL_SECONDS=1"}})
	if err != nil {
		return 1, err
	}
	if err := p.Start(ctx); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	suite.peer, suite.addr = p, p.Addr()
	suite.results = report.New(p.Kind())
	for _, o := range driver.All {
		c, err := o.Open(ctx)
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		suite.clients = append(suite.clients, c)
		suite.results.Versions[c.Name] = c.Version
	}
	code = m.Run()
	if os.Getenv("CLIENTS_DOCS") != "" {
		err = suite.results.Save()
	}
	return code, err
}

// client returns the client with a name.
func client(t *testing.T, name string) *driver.Client {
	t.Helper()
	for _, c := range suite.clients {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no client %q", name)
	return nil
}

var topics atomic.Int64

// newTopic creates a topic of its own for a test, through franz-go, and returns its name once every partition has its leader: a
// producer without idempotence may reorder records over an early refusal, and Kafka 4.3.1 may strand an idempotent one (trap 46).
func newTopic(t *testing.T, partitions int32, configs map[string]string) string {
	t.Helper()
	name := fmt.Sprintf("clients.t%d-%s", topics.Add(1), strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())))
	call(t, client(t, "franz-go"), agent.Request{Op: agent.OpCreate, Topic: name, Partitions: partitions, Config: configs})
	adm := kadm.NewClient(dial(t))
	eventually(t, 10*time.Second, "all partitions of "+name+" have a leader", func() bool {
		offsets, err := adm.ListEndOffsets(t.Context(), name)
		return err == nil && offsets.Error() == nil && len(offsets[name]) == int(partitions)
	})
	return name
}

// call runs an operation against the suite's server; a failure ends the test.
func call(t *testing.T, c *driver.Client, req agent.Request) agent.Response {
	t.Helper()
	res, err := try(t, c, req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// try runs an operation against the suite's server.
func try(t *testing.T, c *driver.Client, req agent.Request) (agent.Response, error) {
	t.Helper()
	req.Bootstrap = suite.addr
	ctx, cancel := context.WithTimeout(t.Context(), 2*agent.DefaultTimeout)
	defer cancel()
	return c.Call(ctx, req)
}

// forEach runs a case as a subtest for each client and notes the outcome.
func forEach(t *testing.T, number string, f func(t *testing.T, c *driver.Client)) {
	t.Helper()
	for _, c := range suite.clients {
		forClient(t, number, c, f)
	}
}

// forClient runs a case as a subtest of one client and notes the outcome.
func forClient(t *testing.T, number string, c *driver.Client, f func(t *testing.T, c *driver.Client)) {
	t.Helper()
	t.Run(strings.ReplaceAll(c.Name, " ", "-"), func(t *testing.T) {
		t.Cleanup(func() {
			if !t.Skipped() {
				suite.results.Note(number, c.Name, !t.Failed())
			}
		})
		f(t, c)
	})
}

// without says that a case is not for a client, since its library cannot do it, and ends the test.
func without(t *testing.T, number string, c *driver.Client, why string) {
	t.Helper()
	suite.results.Without(number, c.Name, why)
	t.Skip(why)
}

// needsRead fails a test with a client that only reads as a member of a group, at a server without groups.
func needsRead(t *testing.T, c *driver.Client) {
	t.Helper()
	if c.Features.GroupsOnly && !served(t, kmsg.JoinGroup) {
		t.Fatal("reads as a member of a group only, and the server has no groups")
	}
}

// stream starts a tail or a member. It outlives the test's context until the test's cleanups, so that a client of the suite is in step
// again whatever the test came to; one that does not stop within stopLimit is given up.
func stream(t *testing.T, c *driver.Client, req agent.Request, emit func(agent.Event)) (stop func() (agent.Response, error)) {
	t.Helper()
	req.Bootstrap = suite.addr
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	end, err := c.Stream(ctx, req, emit)
	if err != nil {
		t.Fatal(err)
	}
	return sync.OnceValues(func() (agent.Response, error) {
		timer := time.AfterFunc(stopLimit, cancel)
		defer timer.Stop()
		return end()
	})
}

// stopLimit bounds how long a tail or a member may take to end.
const stopLimit = 30 * time.Second

// dial is a franz-go client for what a test itself needs from the server.
func dial(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(suite.addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
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
