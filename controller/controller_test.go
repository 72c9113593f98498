package controller

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// memoryStore applies at once and keeps nothing.
type memoryStore struct {
	mu       sync.Mutex
	m        Machine
	position uint64
}

func openMemory(_ context.Context, m Machine, first [][]byte) (Store, error) {
	s := &memoryStore{m: m}
	for _, c := range first {
		if _, err := s.Propose(context.Background(), c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *memoryStore) Propose(_ context.Context, command []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position++
	return s.m.Apply(s.position, command)
}

func (s *memoryStore) Ready() error { return nil }

func (s *memoryStore) Close() error { return nil }

func openController(t *testing.T) *Controller {
	t.Helper()
	c, err := Open(t.Context(), Options{Store: openMemory, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Propose(t.Context(), cluster.RegisterNode{ID: "n", KafkaHost: "h", KafkaPort: 1}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProposeShowsItsEffect(t *testing.T) {
	c := openController(t)
	if id := c.Image().ClusterID(); len(id) != 22 {
		t.Errorf("cluster id %q, want 22 characters", id)
	}
	changed := c.Changed()
	res, err := c.Propose(t.Context(), cluster.CreateTopics{Topics: []cluster.NewTopic{named(1, "t")}})
	if err != nil || res.Items[0].Err != nil {
		t.Fatal(err, res)
	}
	select {
	case <-changed:
	default:
		t.Error("Changed is still open after a change")
	}
	if m := c.Image(); m.Version() < res.Version || m.TopicByID(topicID(1)) != res.Items[0].Topic {
		t.Errorf("image version %d, result %d", m.Version(), res.Version)
	}
}

func TestValidateOnlyChangesNothing(t *testing.T) {
	c := openController(t)
	before := c.Image()
	bad := named(2, "bad")
	bad.Partitions = 0
	res, err := c.Propose(t.Context(), cluster.CreateTopics{Topics: []cluster.NewTopic{named(1, "t"), bad}, ValidateOnly: true})
	if err != nil || res.Items[0].Err != nil || errcode.Of(res.Items[1].Err) != errcode.InvalidPartitions {
		t.Errorf("validate only: %v, %+v", err, res)
	}
	if got := res.Items[0].Topic; got == nil || len(got.Partitions) != 3 {
		t.Errorf("the topic as it would be: %+v", got)
	}
	if c.Image() != before {
		t.Error("the image changed")
	}
}

// TestConcurrentCreationsMakeOne is fifty proposers that want one name: one succeeds, all others learn that it exists.
func TestConcurrentCreationsMakeOne(t *testing.T) {
	c := openController(t)
	var wg sync.WaitGroup
	kinds := make([]errcode.Kind, 50)
	for i := range kinds {
		wg.Go(func() {
			res, err := c.Propose(t.Context(), cluster.CreateTopics{Topics: []cluster.NewTopic{named(i+1, "same")}})
			if err != nil {
				t.Error(err)
				return
			}
			kinds[i] = errcode.Of(res.Items[0].Err)
		})
	}
	wg.Wait()
	made := 0
	for _, k := range kinds {
		switch k {
		case errcode.OK:
			made++
		case errcode.TopicExists:
		default:
			t.Errorf("a creation ended with %v", k)
		}
	}
	if made != 1 {
		t.Errorf("%d creations succeeded, want 1", made)
	}
}

func TestOversizedCommandIsRefused(t *testing.T) {
	c := openController(t)
	big := named(1, "t")
	big.Overrides = map[string]string{"retention.ms": string(make([]byte, maxCommandBytes))}
	if _, err := c.Propose(t.Context(), cluster.CreateTopics{Topics: []cluster.NewTopic{big}}); errcode.Of(err) != errcode.InvalidRequest {
		t.Errorf("%v, want InvalidRequest", err)
	}
}

func TestUnreadableCommandStopsTheMachine(t *testing.T) {
	c := openController(t)
	before := c.Image()
	if _, err := (machine{c}).Apply(99, []byte("not a command")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	if c.Image() != before {
		t.Error("the image changed")
	}
}

func BenchmarkCreateTenThousandTopics(b *testing.B) {
	list := make([]cluster.NewTopic, 10_000)
	for i := range list {
		list[i] = named(i+1, "t"+string(rune('a'+i%26))+topicID(i).String())
	}
	b.ReportAllocs()
	for b.Loop() {
		c, err := Open(b.Context(), Options{Store: openMemory})
		if err != nil {
			b.Fatal(err)
		}
		_, _ = c.Propose(b.Context(), cluster.RegisterNode{ID: "n", KafkaHost: "h", KafkaPort: 1})
		if res, err := c.Propose(b.Context(), cluster.CreateTopics{Topics: list}); err != nil || res.Items[9999].Err != nil {
			b.Fatal(err)
		}
	}
}
