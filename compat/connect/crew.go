package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// pollInterval is how often something is looked for that comes in its own time.
const pollInterval = 100 * time.Millisecond

// Crew is the workers of a cluster with the pipes that they serve. Its methods must be called from one goroutine at a time; Feed of a
// pipe may run beside whatever is done to the workers.
type Crew struct {
	Workers []*Worker
	Pipes   []*Pipe

	cluster Cluster
	cl      *kgo.Client
	adm     *kadm.Client
}

// NewCrew makes the crew of a cluster. It starts nothing.
func NewCrew(c Cluster, workers []*Worker, pipes []*Pipe) (*Crew, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addr), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	return &Crew{Workers: workers, Pipes: pipes, cluster: c, cl: cl, adm: kadm.NewClient(cl)}, nil
}

// Start starts all workers and waits until they answer.
func (c *Crew) Start(ctx context.Context) error {
	for _, w := range c.Workers {
		if err := w.Start(); err != nil {
			return err
		}
	}
	for _, w := range c.Workers {
		if err := w.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops the workers that run, and closes what belongs to the pipes.
func (c *Crew) Stop() error {
	var err error
	for _, w := range c.Workers {
		err = errors.Join(err, w.Stop())
	}
	for _, p := range c.Pipes {
		err = errors.Join(err, p.Close())
	}
	c.cl.Close()
	return err
}

// Connect creates the connectors of all pipes, or configures them as they are.
func (c *Crew) Connect(ctx context.Context) error {
	for _, p := range c.Pipes {
		for name, config := range p.connectors() {
			if err := c.Ask(ctx, func(r Rest) error { return r.Put(ctx, name, config) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ask lets a running worker do something, again while it says that a rebalance is under way or that it cannot just now.
func (c *Crew) Ask(ctx context.Context, do func(Rest) error) error {
	return c.until(ctx, func() error {
		var err error
		for _, w := range c.Workers {
			if w.child == nil {
				continue
			}
			if err = do(Rest{w.URL()}); err == nil {
				return nil
			}
			var status *StatusError
			if errors.As(err, &status) && status.Code/100 == 4 && status.Code != http.StatusConflict && status.Code != http.StatusNotFound {
				return fmt.Errorf("%w: %w", errRefused, err)
			}
		}
		if err == nil {
			err = errors.New("no worker runs")
		}
		return err
	})
}

// errRefused ends waiting: asking again would not help.
var errRefused = errors.New("refused")

// until repeats a look until it finds what it looks for; a worker that ended by itself, or a refusal, ends it.
func (c *Crew) until(ctx context.Context, look func() error) error {
	for {
		err := look()
		if err == nil || errors.Is(err, errRefused) {
			return err
		}
		for _, w := range c.Workers {
			if err := w.Alive(); err != nil {
				return err
			}
		}
		if pauseErr := pause(ctx, pollInterval); pauseErr != nil {
			return fmt.Errorf("%w: %w", pauseErr, err)
		}
	}
}

// Settle waits until everything runs and every line has arrived and is committed, and returns what is wrong with the sinks' files; exact
// says that nothing was killed since the last time.
func (c *Crew) Settle(ctx context.Context, exact bool) (problems []string, err error) {
	if err := c.AwaitRunning(ctx); err != nil {
		return nil, err
	}
	for _, p := range c.Pipes {
		// A line that is written now comes after all that tasks which just took over do again.
		if err := p.Write(1); err != nil {
			return nil, err
		}
		if err := c.until(ctx, p.arrived); err != nil {
			return nil, err
		}
	}
	for _, p := range c.Pipes {
		if err := c.until(ctx, func() error { return c.committed(ctx, p) }); err != nil {
			return nil, err
		}
		if err := p.look(); err != nil {
			return nil, err
		}
		problems = append(problems, p.tally.judge(p.written, exact)...)
	}
	return problems, nil
}

// AwaitRunning waits until every connector and its task run on workers that run.
func (c *Crew) AwaitRunning(ctx context.Context) error {
	for _, p := range c.Pipes {
		for name := range p.connectors() {
			if err := c.Ask(ctx, func(r Rest) error { return c.running(ctx, r, name) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Crew) running(ctx context.Context, r Rest, name string) error {
	status, err := r.Status(ctx, name)
	if err != nil {
		return err
	}
	if len(status.Tasks) != 1 {
		return fmt.Errorf("%s has %d tasks, want 1", name, len(status.Tasks))
	}
	live := map[string]bool{}
	for _, w := range c.Workers {
		live[w.ID()] = w.child != nil
	}
	for _, s := range []state{status.Connector, status.Tasks[0]} {
		switch {
		case !live[s.Worker]:
			return fmt.Errorf("%s is %s on %s, which is gone", name, s.State, s.Worker)
		case s.State == "FAILED":
			return fmt.Errorf("%w: %s failed: %s", errRefused, name, s.Trace)
		case s.State != "RUNNING":
			return fmt.Errorf("%s is %s", name, s.State)
		}
	}
	return nil
}

// Feed appends n lines to the file of every pipe, at about a rate a second each.
func (c *Crew) Feed(ctx context.Context, n, rate int) error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.Pipes))
	for i, p := range c.Pipes {
		wg.Go(func() { errs[i] = p.Feed(ctx, n, rate) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Restart restarts both connectors of a pipe with their tasks.
func (c *Crew) Restart(ctx context.Context, p *Pipe) error { return c.each(ctx, p, Rest.Restart) }

// Pause pauses both connectors of a pipe for a time.
func (c *Crew) Pause(ctx context.Context, p *Pipe, d time.Duration) error {
	return errors.Join(c.each(ctx, p, Rest.Pause), pause(ctx, d), c.each(ctx, p, Rest.Resume))
}

// Replace deletes both connectors of a pipe and creates them again under their old names. Their offsets are still there.
func (c *Crew) Replace(ctx context.Context, p *Pipe) error {
	if err := c.each(ctx, p, Rest.Delete); err != nil {
		return err
	}
	return c.Connect(ctx)
}

func (c *Crew) each(ctx context.Context, p *Pipe, do func(Rest, context.Context, string) error) error {
	for name := range p.connectors() {
		if err := c.Ask(ctx, func(r Rest) error { return do(r, ctx, name) }); err != nil {
			return err
		}
	}
	return nil
}

// Owner is the worker that runs the task of a pipe's source.
func (c *Crew) Owner(ctx context.Context, p *Pipe) (*Worker, error) {
	var owner *Worker
	err := c.Ask(ctx, func(r Rest) error {
		status, err := r.Status(ctx, p.source())
		if err != nil {
			return err
		}
		for _, w := range c.Workers {
			for _, task := range status.Tasks {
				if w.child != nil && w.ID() == task.Worker {
					owner = w
				}
			}
		}
		if owner == nil {
			return fmt.Errorf("no running worker has the task of %s", p.source())
		}
		return nil
	})
	return owner, err
}

// committed is nil when the cluster knows that the source has read its file, and the sink its topic, to the end.
func (c *Crew) committed(ctx context.Context, p *Pipe) error {
	ends, err := c.adm.ListEndOffsets(ctx, p.name)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	end, _ := ends.Lookup(p.name, 0)
	for name, want := range map[string]int64{p.source(): p.bytes, p.sink(): end.Offset} {
		got := int64(0)
		err := c.Ask(ctx, func(r Rest) (err error) {
			got, err = r.Offsets(ctx, name)
			return err
		})
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s has committed %d, want %d", name, got, want)
		}
	}
	return nil
}

// CheckTopics compares the internal topics with what workers must have asked for.
func (c *Crew) CheckTopics(ctx context.Context) error {
	for topic, partitions := range c.cluster.internal() {
		details, err := c.adm.ListTopics(ctx, topic)
		if err == nil {
			err = details.Error()
		}
		if err != nil {
			return err
		}
		if got := len(details[topic].Partitions); got != partitions {
			return fmt.Errorf("%s has %d partitions, want %d", topic, got, partitions)
		}
		configs, err := c.adm.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return err
		}
		config, err := configs.On(topic, nil)
		if err = errors.Join(err, config.Err); err != nil {
			return err
		}
		policy := ""
		for _, entry := range config.Configs {
			if entry.Key == "cleanup.policy" {
				policy = entry.MaybeValue()
			}
		}
		if policy != "compact" {
			return fmt.Errorf("cleanup.policy of %s is %q, want compact", topic, policy)
		}
	}
	return nil
}

// Totals are the lines written to all pipes, and how many came again.
func (c *Crew) Totals() (written, again int64) {
	for _, p := range c.Pipes {
		written, again = written+p.written, again+p.tally.again
	}
	return written, again
}
