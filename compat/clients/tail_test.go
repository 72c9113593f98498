package clients

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
	"github.com/felixlog/felix/compat/peer"
)

// tail is a client that waits at the ends of some partitions; what arrives is kept by partition.
type tail struct {
	stop func() (agent.Response, error)

	mu    sync.Mutex
	ready bool
	got   map[int32][]string
}

// startTail lets a client wait at the ends of the partitions and returns once it does.
func startTail(t *testing.T, c *driver.Client, topic string, config map[string]string, partitions ...int32) *tail {
	t.Helper()
	tl := &tail{got: map[int32][]string{}}
	tl.stop = stream(t, c, agent.Request{Op: agent.OpTail, Topic: topic, Assign: partitions, Config: config}, tl.event)
	t.Cleanup(func() {
		if _, err := tl.stop(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, 30*time.Second, c.Name+" waits at the ends", func() bool {
		tl.mu.Lock()
		defer tl.mu.Unlock()
		return tl.ready
	})
	return tl
}

func (tl *tail) event(e agent.Event) {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	tl.ready = tl.ready || e.Ready
	if e.Record != nil {
		tl.got[e.Record.Partition] = append(tl.got[e.Record.Partition], string(e.Record.Value))
	}
}

// count is how many records have arrived.
func (tl *tail) count() int {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	n := 0
	for _, values := range tl.got {
		n += len(values)
	}
	return n
}

// inOrder checks that each partition brought 0, 1, 2, … and nothing else.
func (tl *tail) inOrder(t *testing.T, each int, partitions ...int32) {
	t.Helper()
	tl.mu.Lock()
	defer tl.mu.Unlock()
	for _, p := range partitions {
		if len(tl.got[p]) != each {
			t.Errorf("partition %d brought %d records, want %d", p, len(tl.got[p]), each)
		}
		for i, value := range tl.got[p] {
			if value != fmt.Sprint(i) {
				t.Fatalf("partition %d: record %d is %q", p, i, value)
			}
		}
	}
}

// produceNumbers writes the numbers from..limit-1, one request each, to each partition.
func produceNumbers(t *testing.T, topic string, from, limit int, partitions ...int32) {
	t.Helper()
	cl := dial(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	for i := from; i < limit; i++ {
		for _, p := range partitions {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Partition: p, Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCase48Sessions: consumers of several partitions, whose incremental fetch sessions see changes in one partition at a time over
// many fetches. Every record arrives, and Java logs no refused session. (librdkafka has no sessions.)
func TestCase48Sessions(t *testing.T) {
	const each = 300
	partitions := []int32{0, 1, 2}
	for _, name := range []string{"franz-go", "java"} {
		topic := newTopic(t, int32(len(partitions)), nil)
		forClient(t, "48", client(t, name), func(t *testing.T, c *driver.Client) {
			tl := startTail(t, c, topic, nil, partitions...)
			produceNumbers(t, topic, 0, each, partitions...)
			eventually(t, 30*time.Second, "all records arrive", func() bool { return tl.count() >= each*len(partitions) })
			if _, err := tl.stop(); err != nil {
				t.Fatal(err)
			}
			tl.inOrder(t, each, partitions...)
			if log := c.Log(); strings.Contains(log, "unable to process the fetch request") || strings.Contains(log, "SESSION") {
				t.Errorf("the client's log speaks of a refused session:\n%s", log)
			}
		})
	}
}

// TestCase53Restart: all clients wait at the end of a partition while the server is restarted, cleanly and (Felix, whose restart is
// quick) by a kill. Each gets every record once, in order (traps 15, 32). The case's leader moves need more brokers; kcat ends
// when its only broker is away.
func TestCase53Restart(t *testing.T) {
	if suite.peer.PID() == 0 {
		t.Log("a server that the test did not start cannot be restarted")
		return
	}
	const step = 50
	topic := newTopic(t, 1, nil)
	var waiting []*driver.Client
	var tails []*tail
	for _, c := range suite.clients {
		switch {
		case c.Features.NoTail:
			suite.results.Without("53", c.Name, driver.GroupsOnly)
			continue
		case c.Features.EndsAlone:
			suite.results.Without("53", c.Name, "ends when its only broker is away")
			continue
		}
		waiting = append(waiting, c)
		tails = append(tails, startTail(t, c, topic, nil, 0))
	}
	restart := func(kill bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		defer cancel()
		if kill {
			if err := suite.peer.Kill9(); err != nil {
				t.Fatal(err)
			}
		}
		if err := suite.peer.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
	total := step
	produceNumbers(t, topic, 0, total, 0)
	restart(false)
	produceNumbers(t, topic, total, total+step, 0)
	total += step
	if suite.peer.Kind() == peer.Felix {
		restart(true)
		produceNumbers(t, topic, total, total+step, 0)
		total += step
	}
	for i, c := range waiting {
		forClient(t, "53", c, func(t *testing.T, _ *driver.Client) {
			eventually(t, 30*time.Second, "all records arrive", func() bool { return tails[i].count() >= total })
			if _, err := tails[i].stop(); err != nil {
				t.Fatal(err)
			}
			tails[i].inOrder(t, total, 0)
		})
	}
	if err := syscall.Kill(suite.peer.PID(), 0); err != nil {
		t.Errorf("the server is gone: %v", err)
	}
}
