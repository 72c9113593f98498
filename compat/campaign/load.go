package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
)

// fleet is the producers of a campaign: the clients live through all of it, each load (one topic) gets names of its own.
type fleet struct {
	clients []*driver.Client
	loads   []*load
}

// load is one running producer.
type load struct {
	name string
	stop func() (agent.Response, error)

	mu       sync.Mutex
	acks     int64
	failures []string
}

// openFleet starts the client programs of the campaigns about the log.
func openFleet(ctx context.Context) (*fleet, error) {
	return openFleetOf(ctx, driver.Franz, driver.Rdkafka2, driver.Java)
}

// openFleetOf starts some client programs.
func openFleetOf(ctx context.Context, openers ...func(context.Context) (*driver.Client, error)) (*fleet, error) {
	f := &fleet{}
	for _, open := range openers {
		c, err := open(ctx)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.clients = append(f.clients, c)
	}
	return f, nil
}

func (f *fleet) close() error {
	var err error
	for _, c := range f.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

// start lets every client produce to the topic until stop; generation makes the producers' names unique over restarts.
func (f *fleet) start(ctx context.Context, addr, topic string, partitions int32, generation, rate, size int, c *checker) error {
	for _, client := range f.clients {
		l := &load{name: fmt.Sprintf("%s#%d", shortName(client.Name), generation)}
		stop, err := client.Stream(ctx, agent.Request{
			Op: agent.OpLoad, Bootstrap: addr, Topic: topic,
			Load: &agent.Load{Name: l.name, Rate: rate, Size: size, MaxInFlight: 2000, First: make([]int64, partitions)},
		}, func(e agent.Event) { l.event(e, c) })
		if err != nil {
			return err
		}
		l.stop = stop
		f.loads = append(f.loads, l)
	}
	return nil
}

// shortName is a client's name as it stands in records: one word.
func shortName(name string) string {
	switch name {
	case "franz-go":
		return "franz"
	case "librdkafka 2":
		return "rdkafka"
	case "librdkafka 1":
		return "rdkafka1"
	default:
		return name
	}
}

func (l *load) event(e agent.Event, c *checker) {
	for _, a := range e.Acks {
		c.ack(l.name, a)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks += int64(len(e.Acks))
	if e.Failed != "" {
		l.failures = append(l.failures, e.Failed)
		c.violate("%s gave up: %s (code %d)", l.name, e.Failed, e.Code)
	}
}

func (l *load) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acks
}

// counts is how much each load got acknowledged so far.
func (f *fleet) counts() []int64 {
	var out []int64
	for _, l := range f.loads {
		out = append(out, l.count())
	}
	return out
}

// awaitProgress waits until every load got something acknowledged beyond before.
func (f *fleet) awaitProgress(ctx context.Context, before []int64, limit time.Duration) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var waiting []string
		for i, l := range f.loads {
			if l.count() <= before[i] {
				waiting = append(waiting, l.name)
			}
		}
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return fmt.Errorf("no acknowledgement within %v for %v", limit, waiting)
		}
	}
}

// halt stops all loads, waits for all their answers, and returns what each has sent in each partition.
func (f *fleet) halt() (map[string][]int64, error) {
	sent := map[string][]int64{}
	var err error
	for i, l := range f.loads {
		res, stopErr := l.stop()
		if stopErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w\n%s", l.name, stopErr, f.clients[i].Log()))
			continue
		}
		sent[l.name] = res.Next
	}
	f.loads = nil
	return sent, err
}

// abandon ends the clients. If loads still run, their server is gone or broken and they would wait for it: the children are left to
// end with this process, which is about to.
func (f *fleet) abandon() error {
	if len(f.loads) > 0 {
		return nil
	}
	return f.close()
}
