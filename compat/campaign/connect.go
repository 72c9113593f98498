package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/connect"
	"github.com/felixlog/felix/compat/peer"
)

const (
	connectPipes = 2
	connectLines = 2500 // a round and pipe
	connectRate  = 600  // lines a second and pipe
	// connectSettleLimit bounds a round: sessions of 6 s, a delay of 1 s, and the start of two JVMs, which may be slow on a busy machine.
	connectSettleLimit = 5 * time.Minute
)

// connectTotals are the counts of a connect campaign.
type connectTotals struct {
	rounds, stops, kills, serverKills, serverStops, restarts, pauses, replaced int
	lines, again                                                               int64
	slowest                                                                    time.Duration
}

func (t connectTotals) String() string {
	return fmt.Sprintf("%d rounds (%d stops and %d kills of workers, %d kills and %d clean restarts of the server, "+
		"%d pairs of connectors restarted, %d paused, %d replaced), %d lines written, all there, %d came again after kills, slowest round %v",
		t.rounds, t.stops, t.kills, t.serverKills, t.serverStops,
		t.restarts, t.pauses, t.replaced, t.lines, t.again, t.slowest.Round(time.Second))
}

// connectCampaign is one run.
type connectCampaign struct {
	o      options
	dir    string
	server peer.Peer
	crew   *connect.Crew
	totals connectTotals
}

// runConnect disturbs two Connect workers, and their server, o.rounds times. It keeps no state: an interrupted campaign begins anew.
func runConnect(ctx context.Context, o options) (verdict, error) {
	c := &connectCampaign{o: o, dir: filepath.Join(o.out, fmt.Sprintf("connect-%d", o.seed))}
	err := c.start(ctx)
	var problems []string
	for round := 1; err == nil && len(problems) == 0 && round <= o.rounds; round++ {
		problems, err = c.round(ctx, round)
	}
	if err == nil {
		err = c.crew.CheckTopics(ctx)
	}
	err = errors.Join(err, c.finish())
	v := verdict{counts: c.totals.String(), violations: problems}
	if err == nil && len(problems) == 0 {
		return v, os.RemoveAll(c.dir)
	}
	fmt.Println("data directories and logs are kept in", c.dir)
	return v, err
}

func (c *connectCampaign) start(ctx context.Context) error {
	if err := os.RemoveAll(c.dir); err != nil {
		return err
	}
	var err error
	if c.server, err = startServer(ctx, c.o, c.dir); err != nil {
		return err
	}
	cluster := connect.Cluster{Addr: c.server.Addr(), Group: "campaign.connect"}
	var pipes []*connect.Pipe
	for i := range connectPipes {
		p, err := connect.NewPipe(c.dir, fmt.Sprintf("campaign.pipe-%d", i+1))
		if err != nil {
			return err
		}
		pipes = append(pipes, p)
	}
	workers := []*connect.Worker{
		connect.NewWorker(cluster, filepath.Join(c.dir, "worker-1")), connect.NewWorker(cluster, filepath.Join(c.dir, "worker-2")),
	}
	if c.crew, err = connect.NewCrew(cluster, workers, pipes); err != nil {
		return err
	}
	if err := c.crew.Start(ctx); err != nil {
		return err
	}
	return c.crew.Connect(ctx)
}

func (c *connectCampaign) disturbances() []disturbance {
	worker := func(random *rand.Rand) *connect.Worker { return c.crew.Workers[random.IntN(len(c.crew.Workers))] }
	pipe := func(random *rand.Rand) *connect.Pipe { return c.crew.Pipes[random.IntN(len(c.crew.Pipes))] }
	// A worker that is stopped before it serves would not stop cleanly.
	settled := c.crew.AwaitRunning
	return []disturbance{
		{"stop and start a worker", true, func(ctx context.Context, random *rand.Rand) error {
			c.totals.stops++
			w := worker(random)
			return errors.Join(settled(ctx), w.Stop(), pause(ctx, time.Duration(random.IntN(3000))*time.Millisecond), w.Start())
		}},
		{"kill and start a worker", false, func(ctx context.Context, random *rand.Rand) error {
			c.totals.kills++
			w := worker(random)
			return errors.Join(w.Kill9(), pause(ctx, time.Duration(random.IntN(3000))*time.Millisecond), w.Start())
		}},
		{"kill and start both workers", false, func(context.Context, *rand.Rand) error {
			var err error
			for _, w := range c.crew.Workers {
				c.totals.kills++
				err = errors.Join(err, w.Kill9(), w.Start())
			}
			return err
		}},
		{"kill the server", false, func(ctx context.Context, _ *rand.Rand) error {
			c.totals.serverKills++
			return killServer(ctx, c.server)
		}},
		{"restart the server", false, func(ctx context.Context, _ *rand.Rand) error {
			c.totals.serverStops++
			return c.server.Restart(ctx)
		}},
		{"kill a worker, then the server", false, func(ctx context.Context, random *rand.Rand) error {
			c.totals.kills++
			c.totals.serverKills++
			w := worker(random)
			return errors.Join(w.Kill9(), killServer(ctx, c.server), w.Start())
		}},
		{"restart connectors", true, func(ctx context.Context, random *rand.Rand) error {
			c.totals.restarts++
			return errors.Join(settled(ctx), c.crew.Restart(ctx, pipe(random)))
		}},
		{"pause and resume connectors", true, func(ctx context.Context, random *rand.Rand) error {
			c.totals.pauses++
			return errors.Join(settled(ctx), c.crew.Pause(ctx, pipe(random), time.Duration(random.IntN(2000))*time.Millisecond))
		}},
		{"delete and create connectors", true, func(ctx context.Context, random *rand.Rand) error {
			c.totals.replaced++
			return errors.Join(settled(ctx), c.crew.Replace(ctx, pipe(random)))
		}},
	}
}

// round writes lines, disturbs once in the middle, and judges the sinks' files.
func (c *connectCampaign) round(ctx context.Context, number int) ([]string, error) {
	random := rand.New(rand.NewPCG(c.o.seed, uint64(number)))
	began := time.Now()
	chosen, err := draw(c.o, random, c.disturbances())
	if err != nil {
		return nil, err
	}
	after := time.Duration(random.Int64N(int64(connectLines * time.Second / connectRate)))
	where := fmt.Sprintf("round %d, %s", number, chosen.name)
	settleCtx, cancel := context.WithTimeoutCause(ctx, connectSettleLimit, fmt.Errorf("not settled within %v", connectSettleLimit))
	defer cancel()
	err = during(func() error { return c.crew.Feed(settleCtx, connectLines, connectRate) }, func() error {
		if err := pause(ctx, after); err != nil {
			return err
		}
		return chosen.do(settleCtx, random)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	problems, err := c.crew.Settle(settleCtx, chosen.exact)
	if err == nil {
		if dead := syscall.Kill(c.server.PID(), 0); dead != nil {
			err = fmt.Errorf("the server ended by itself: %w", dead)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	c.totals.rounds++
	c.totals.lines, c.totals.again = c.crew.Totals()
	c.totals.slowest = max(c.totals.slowest, time.Since(began))
	fmt.Printf("round %d/%d: %s after %v: %d lines written, %d came again in all, %v\n",
		number, c.o.rounds, chosen.name, after.Round(time.Millisecond), c.totals.lines, c.totals.again, time.Since(began).Round(time.Millisecond))
	for i, problem := range problems {
		problems[i] = where + ": " + problem
	}
	return problems, nil
}

// finish ends what runs.
func (c *connectCampaign) finish() error {
	var err error
	if c.crew != nil {
		err = c.crew.Stop()
	}
	if c.server != nil {
		err = errors.Join(err, c.server.Stop())
	}
	return err
}
