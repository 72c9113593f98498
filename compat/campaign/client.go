package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/felixlog/felix/client"
	"github.com/felixlog/felix/compat/peer"
)

// The streams of the client campaign, of one shard and of four.
const (
	clientOne  = "client-one"
	clientFour = "client-four"
)

const (
	clientSize = 500 // bytes a record
	// clientCall bounds a call that waits for one answer: an outage and what the client needs to notice it, many times over.
	clientCall = 2 * time.Minute
	// clientSpare is how many goroutines more the last third of the kills may see than the first, at the same load.
	clientSpare = 10
)

// clientCampaign is one run.
type clientCampaign struct {
	o      options
	dir    string
	check  *clientChecker
	server peer.Peer

	writers, readers *client.Client
	publishers       []*clientPublisher
	followers        []*clientFollower

	kills, startKills, repaired, clean int
	slowest                            time.Duration
	goroutines                         []float64
	left                               int // goroutines more at the end than at the beginning

	resumed, lags atomic.Int64
}

// runClient kills the server o.rounds times under the load of the Go client.
func runClient(ctx context.Context, o options) (verdict, error) {
	if o.size == 0 {
		o.size = clientSize
	}
	c := &clientCampaign{o: o, dir: filepath.Join(o.out, fmt.Sprintf("client-%d", o.seed)), check: newClientChecker()}
	before := runtime.NumGoroutine()
	err := c.open(ctx)
	if err == nil {
		err = c.run(ctx)
	}
	err = errors.Join(err, c.close())
	if err == nil {
		c.left, err = c.awaitGoroutines(ctx, before)
	}
	if err == nil {
		first, last := thirds(c.goroutines)
		if last > first+clientSpare {
			c.check.violate("goroutines of the client grow: %.0f in the first third of the kills, %.0f in the last", first, last)
		}
	}
	err = errors.Join(err, c.finish(ctx, err == nil))
	v := verdict{violations: c.check.problems(), counts: c.counts()}
	if ctx.Err() == nil && err == nil && len(v.violations) == 0 {
		return v, os.RemoveAll(c.dir)
	}
	fmt.Println("data directory and log are kept in", c.dir)
	return v, err
}

// thirds are the medians of the first and the last third.
func thirds(samples []float64) (first, last float64) {
	n := len(samples) / 3
	if n == 0 {
		return 0, 0
	}
	middle := func(part []float64) float64 { return slices.Sorted(slices.Values(part))[len(part)/2] }
	return middle(samples[:n]), middle(samples[len(samples)-n:])
}

func (c *clientCampaign) counts() string {
	k := c.check
	k.mu.Lock()
	defer k.mu.Unlock()
	first, last := thirds(c.goroutines)
	return fmt.Sprintf("%d kills (%d while starting), %d acknowledged, %d failed with unknown outcome, %d not stored, %d stored again by publishers that may, "+
		"%d events to %d subscribers, %d subscribed anew from their positions, %d fell behind, slowest return of all clients %v, goroutines %.0f -> %.0f and %d left at the end, "+
		"log verify %d clean %d to repair",
		c.kills, c.startKills, k.acked, k.unknown, k.refused, k.repeated, k.events, len(c.followers), c.resumed.Load(), c.lags.Load(),
		c.slowest.Round(time.Millisecond), first, last, c.left, c.clean, c.repaired)
}

// open starts the server, makes its streams, and connects.
func (c *clientCampaign) open(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(c.dir), os.MkdirAll(c.dir, 0o755)); err != nil {
		return err
	}
	var env []string
	if c.o.fsync != "" {
		env = append(env, "FELIX_DURABLE_FSYNC_MODE="+c.o.fsync)
	}
	var err error
	if c.server, err = peer.NewFelix(peer.Options{Dir: c.dir, Security: peer.Development, FelixEnv: env}); err != nil {
		return err
	}
	if err := c.server.Start(ctx); err != nil {
		return err
	}
	for stream, shards := range map[string]int32{clientOne: 1, clientFour: 4} {
		if err := createWith(ctx, c.server.Addr(), stream, shards, nil); err != nil {
			return err
		}
	}
	dev := filepath.Join(c.server.DataDir(), "dev")
	config := client.Config{
		Addrs: []string{c.server.Bound("native")}, CAFile: filepath.Join(dev, "ca.pem"), Token: client.TokenFile(filepath.Join(dev, "token")),
		RequestTimeout: clientCall,
	}
	if c.writers, err = client.Connect(ctx, config); err != nil {
		return err
	}
	if c.readers, err = client.Connect(ctx, config); err != nil {
		return err
	}
	for _, p := range []*clientPublisher{
		{stream: clientOne, kind: clientOnce, batch: 1, rate: 50},
		{stream: clientOne, kind: clientOnce, batch: 1, rate: 200, async: true},
		{stream: clientOne, kind: clientPerhaps, batch: 1, rate: 50, async: true},
		{stream: clientFour, kind: clientOnce, batch: 1, rate: 200, keys: 40, async: true},
		{stream: clientFour, kind: clientOnce, batch: 5, rate: 20, keys: 8},
		{stream: clientFour, kind: clientRepeats, batch: 1, rate: 50, keys: 8, async: true},
		{stream: clientFour, kind: clientPerhaps, batch: 1, rate: 50, keys: 8},
	} {
		p.c, p.id = c, c.check.publisher(p.kind)
		options := client.PublisherOptions{Guarantee: client.Guarantee(p.kind)}
		if p.p, err = c.writers.NewPublisher(client.Stream{Name: p.stream}, options); err != nil {
			return err
		}
		c.publishers = append(c.publishers, p)
	}
	for _, f := range []*clientFollower{
		{stream: clientOne}, {stream: clientFour}, {stream: clientOne, anew: true}, {stream: clientFour, anew: true}, {stream: clientFour, late: true},
	} {
		f.c = c
		c.followers = append(c.followers, f)
	}
	return nil
}

// run lets the clients loose, kills the server again and again, and waits until everybody has everything.
func (c *clientCampaign) run(ctx context.Context) error {
	fmt.Printf("%d kills, seed %d, %d publishers, %d subscribers, in %s\n", c.o.rounds, c.o.seed, len(c.publishers), len(c.followers), c.dir)
	stop, end := context.WithCancel(ctx)
	defer end()
	following, endFollowing := context.WithCancel(ctx)
	defer endFollowing()
	var publishing, reading sync.WaitGroup
	for _, f := range c.followers {
		reading.Go(func() { f.run(following) })
	}
	for i, p := range c.publishers {
		random := rand.New(rand.NewPCG(c.o.seed, uint64(i)))
		publishing.Go(func() { p.run(ctx, stop, random) })
	}
	err := c.awaitProgress(ctx, c.progress())
	for err == nil && c.kills < c.o.rounds && len(c.check.problems()) == 0 {
		err = c.round(ctx)
	}
	end()
	publishing.Wait()
	if err == nil && len(c.check.problems()) == 0 {
		err = c.awaitEnd(ctx)
	}
	endFollowing()
	reading.Wait()
	if err == nil && len(c.check.problems()) == 0 {
		sent := make([]int64, len(c.publishers))
		for i, p := range c.publishers {
			sent[i] = p.sent
		}
		c.check.end(sent)
	}
	return err
}

// round is one kill and the return of everybody.
func (c *clientCampaign) round(ctx context.Context) error {
	random := rand.New(rand.NewPCG(c.o.seed, 1000+uint64(c.kills)))
	run := 50*time.Millisecond + time.Duration(random.Int64N(int64(2*time.Second)))
	if err := pause(ctx, run); err != nil {
		return err
	}
	if err := syscall.Kill(c.server.PID(), 0); err != nil {
		return fmt.Errorf("the server had ended by itself: %w", err)
	}
	if err := c.server.Kill9(); err != nil {
		return err
	}
	c.kills++
	if err := c.verify(ctx); err != nil {
		return err
	}
	during := ""
	for random.Float64() < startKillShare && c.kills < c.o.rounds {
		after := startKillAfter(random)
		if err := startAndKill(ctx, c.server, after); err != nil {
			return err
		}
		c.kills++
		c.startKills++
		during += fmt.Sprintf(", again after %v of starting", after.Round(time.Millisecond))
	}
	if random.Float64() < 0.2 {
		// Long enough for every connection to be given up.
		if err := pause(ctx, 7*time.Second); err != nil {
			return err
		}
		during += ", seven seconds later"
	}
	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	err := c.server.Restart(startCtx)
	cancel()
	if err != nil {
		return fmt.Errorf("restart after kill %d: %w", c.kills, err)
	}
	began := time.Now()
	if err := c.awaitProgress(ctx, c.progress()); err != nil {
		return fmt.Errorf("after kill %d: %w", c.kills, err)
	}
	took := time.Since(began)
	c.slowest = max(c.slowest, took)
	c.goroutines = append(c.goroutines, float64(runtime.NumGoroutine()))
	fmt.Printf("kill %3d/%d after %4d ms%s: all clients again %v after the start, %d goroutines\n",
		c.kills, c.o.rounds, run.Milliseconds(), during, took.Round(time.Millisecond), runtime.NumGoroutine())
	return nil
}

// verify asks `felix log verify` about the stopped directory.
func (c *clientCampaign) verify(ctx context.Context) error {
	if !c.o.verify {
		return nil
	}
	code, out, _, err := verifyLog(ctx, c.server.DataDir())
	switch {
	case err != nil:
		return err
	case code == verifyClean:
		c.clean++
	case code == verifyRepair:
		c.repaired++
	default:
		return fmt.Errorf("felix log verify: exit %d after a kill\n%s", code, out)
	}
	return nil
}

// progress is how far everybody is.
func (c *clientCampaign) progress() []int64 {
	var out []int64
	for _, p := range c.publishers {
		out = append(out, p.acks.Load())
	}
	for _, f := range c.followers {
		out = append(out, f.events.Load())
	}
	return out
}

// awaitProgress waits until everybody is further than before.
func (c *clientCampaign) awaitProgress(ctx context.Context, before []int64) error {
	limit := time.Now().Add(progressLimit)
	for {
		missing := ""
		for i, n := range c.progress() {
			switch {
			case n > before[i]:
			case i < len(c.publishers):
				missing = fmt.Sprintf("publisher %d to %s", i, c.publishers[i].stream)
			default:
				missing = fmt.Sprintf("subscriber %d of %s", i-len(c.publishers), c.followers[i-len(c.publishers)].stream)
			}
		}
		if missing == "" || len(c.check.problems()) > 0 {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s has not gone on %v after the server was ready again", missing, progressLimit)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitEnd waits until every subscriber has all that its shards hold.
func (c *clientCampaign) awaitEnd(ctx context.Context) error {
	limit := time.Now().Add(progressLimit)
	for _, f := range c.followers {
		stream := client.Stream{Name: f.stream}
		shards, err := c.readers.Shards(ctx, stream)
		if err != nil {
			return err
		}
		for shard := range uint32(shards) {
			b, err := c.readers.Bounds(ctx, stream, shard)
			if err != nil {
				return err
			}
			for f.next(shard) < b.End {
				if time.Now().After(limit) {
					c.check.violate("%s shard %d: the end is %d, and a subscriber stays at %d", f.stream, shard, b.End, f.next(shard))
					return nil
				}
				if err := pause(ctx, 20*time.Millisecond); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// close closes the clients, which must not hang.
func (c *clientCampaign) close() error {
	closed := make(chan error, 1)
	go func() {
		var err error
		for _, cl := range []*client.Client{c.writers, c.readers} {
			if cl != nil {
				err = errors.Join(err, cl.Close())
			}
		}
		closed <- err
	}()
	select {
	case err := <-closed:
		return err
	case <-time.After(progressLimit):
		return errors.New("closing the clients hangs")
	}
}

// awaitGoroutines waits until there are no more goroutines than before the campaign, and returns how many more there are at the end.
func (c *clientCampaign) awaitGoroutines(ctx context.Context, before int) (int, error) {
	// The server's child process is waited for by one goroutine of the peer.
	before += 2
	limit := time.Now().Add(progressLimit)
	for runtime.NumGoroutine() > before {
		if time.Now().After(limit) {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			c.check.violate("%d goroutines before, %d after all clients were closed\n%s", before, runtime.NumGoroutine(), stacks)
			return runtime.NumGoroutine() - before, nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// finish stops the server; after a good end the directory must be clean.
func (c *clientCampaign) finish(ctx context.Context, good bool) error {
	if c.server == nil {
		return nil
	}
	err := c.server.Stop()
	if good && err == nil && c.o.verify {
		code, out, _, verifyErr := verifyLog(ctx, c.server.DataDir())
		if verifyErr != nil || code != verifyClean {
			c.check.violate("felix log verify after a clean stop: exit %d, %v\n%s", code, verifyErr, out)
		}
	}
	return err
}
