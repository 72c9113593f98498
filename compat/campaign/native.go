package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/felixlog/felix/compat/peer"
)

// The streams of the native campaign. One and four, of so many shards, carry the load; fading and gaps are those of the exams; quiet has
// a few records that nobody adds to.
const (
	streamOne    = "native-one"
	streamFour   = "native-four"
	streamGaps   = "native-gaps"
	streamQuiet  = "native-quiet"
	streamFading = "native-fading"
)

const (
	nativeSize = 1000 // bytes a record
	// nativeLife is about how long the server lives between two rounds of restarts.
	nativeLife = 3 * time.Minute
	// nativeLives is the least number of lives.
	nativeLives = 3
	// nativeRestarts are made between two lives, a clean one and a kill in turn, with load in between.
	nativeRestarts = 4
	// nativeMargin is how long before the end of a life its exam ends.
	nativeMargin = 12 * time.Second
	// nativeOutage is how long after a start of the server something may still have met it down: a connection to a server that was killed
	// is given up after 6 s.
	nativeOutage = 15 * time.Second
	nativeSay    = 20 * time.Second
)

// nativeCampaign is one run.
type nativeCampaign struct {
	o          options
	dir        string
	check      *nativeChecker
	server     peer.Peer
	target     nativeTarget
	publishers []*nativePublisher
	followers  []*nativeFollower
	examID     int32 // owned by whoever runs the lives
	result     nativeResult
	kills      int
	stops      int

	lags, behind, replays, tooOld, repeats, hostile, missed, examined atomic.Int64

	mu      sync.Mutex
	down    bool
	readyAt time.Time
}

// runNative lets native clients work for o.rounds minutes. It keeps no state: an interrupted one has shown nothing.
func runNative(ctx context.Context, o options) (verdict, error) {
	if o.size == 0 {
		o.size = nativeSize
	}
	c := &nativeCampaign{o: o, dir: filepath.Join(o.out, fmt.Sprintf("native-%d", o.seed)), check: newNativeChecker(), examID: 1 << 20}
	began := time.Now()
	err := c.open(ctx)
	if err == nil {
		err = c.run(ctx)
	}
	if err == nil {
		for _, problem := range c.result.problems() {
			c.check.violate("%s", problem)
		}
	}
	err = errors.Join(err, c.finish(ctx, err == nil))
	v := verdict{violations: c.check.problems()}
	acked, refused, events := c.check.counts()
	subscriptions := int64(0)
	for _, f := range c.followers {
		subscriptions += f.count.Load()
	}
	v.counts = fmt.Sprintf("%v, %d lives, %d clean restarts, %d kills, %d acknowledged (%d sent twice on purpose, %d refused), %d events, %d followers with %d subscriptions, "+
		"%d replays (%d too old), %d fell behind and were told (%d on purpose), %d of %d exam records missed by stalled subscribers, %d malformed peers; %s",
		time.Since(began).Round(time.Second), len(c.result.lives), c.stops, c.kills, acked, c.repeats.Load(), refused, events, len(c.followers), subscriptions,
		c.replays.Load(), c.tooOld.Load(), c.lags.Load()+c.behind.Load(), c.behind.Load(), c.missed.Load(), c.examined.Load(), c.hostile.Load(), c.result)
	if ctx.Err() == nil && err == nil && len(v.violations) == 0 {
		return v, os.RemoveAll(c.dir)
	}
	fmt.Println("data directory and log are kept in", c.dir)
	return v, err
}

// open starts the server and makes its streams.
func (c *nativeCampaign) open(ctx context.Context) error {
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
	c.setDown(false)
	c.target = nativeTarget{addr: c.server.Bound("native"), dir: filepath.Join(c.server.DataDir(), "dev")}
	for _, s := range []struct {
		name      string
		shards    int32
		retention int
	}{{streamOne, 1, 12 << 20}, {streamFour, 4, 3 << 20}, {streamGaps, 1, 2 << 20}, {streamQuiet, 1, 1 << 20}} {
		err := createWith(ctx, c.server.Addr(), s.name, s.shards, map[string]*string{
			"retention.bytes": kadm.StringPtr(strconv.Itoa(s.retention)), "segment.bytes": kadm.StringPtr(strconv.Itoa(1 << 20)),
		})
		if err != nil {
			return err
		}
		for shard := range s.shards {
			if s.name == streamOne || s.name == streamFour {
				c.followers = append(c.followers, &nativeFollower{c: c, place: nativePlace{s.name, shard}})
			}
		}
	}
	// A second one must agree with the first.
	c.followers = append(c.followers, &nativeFollower{c: c, place: nativePlace{streamOne, 0}})
	if err := c.createFading(ctx); err != nil {
		return err
	}
	for _, p := range []*nativePublisher{
		{stream: streamOne, batch: 1, rate: 40},
		{stream: streamOne, batch: 15, rate: 5},
		{stream: streamOne, batch: 1, rate: 10, idempotent: true},
		{stream: streamFour, batch: 1, rate: 40, keys: 50},
		{stream: streamFour, batch: 3, rate: 10, keys: 50},
		{stream: streamFour, batch: 4, rate: 5, keys: 1, idempotent: true},
		{stream: streamFour, batch: 1, rate: 10, keys: 1, idempotent: true},
	} {
		p.c, p.id = c, c.check.publisher(p.stream)
		c.publishers = append(c.publishers, p)
		c.result.rate += float64(p.rate) * float64(1+p.batch) / 2
	}
	return nil
}

// createFading makes the ephemeral stream.
func (c *nativeCampaign) createFading(ctx context.Context) error {
	token, err := c.target.read("api-token")
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"stream": streamFading, "durable": false})
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://%s/v1/tenants/%s/namespaces/%s/streams", c.server.Bound("api"), nativeTenant, nativeNamespace)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return fmt.Errorf("create %s: %s", streamFading, res.Status)
	}
	return nil
}

// run starts the clients, goes through the server's lives, and ends the clients.
func (c *nativeCampaign) run(ctx context.Context) error {
	fmt.Printf("%d minutes, seed %d: %d publishers of %.0f records of %d bytes a second together, %d followers, in %s\n",
		c.o.rounds, c.o.seed, len(c.publishers), c.result.rate, c.o.size, len(c.followers), c.dir)
	// Publishers and the others end first; followers go on until they have everything.
	stop, end := context.WithCancel(ctx)
	defer end()
	working, abort := context.WithCancel(ctx) // without a server there is nothing to finish
	defer abort()
	following, endFollowing := context.WithCancel(ctx)
	defer endFollowing()
	var publishing, others, reading sync.WaitGroup
	for _, f := range c.followers {
		reading.Go(func() { f.run(following) })
	}
	var mu sync.Mutex
	var errs []error
	for i, p := range c.publishers {
		random := rand.New(rand.NewPCG(c.o.seed, uint64(i)))
		publishing.Go(func() {
			if err := p.run(working, stop, random); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	for i := range 2 {
		random := rand.New(rand.NewPCG(c.o.seed, 100+uint64(i)))
		others.Go(func() { c.replay(working, stop, random) })
	}
	others.Go(func() { c.malformed(working, stop, rand.New(rand.NewPCG(c.o.seed, 200))) })
	err := c.allLives(ctx)
	if err != nil {
		abort()
	}
	end()
	publishing.Wait()
	others.Wait()
	if err == nil && len(c.check.problems()) == 0 {
		err = c.awaitEnd(ctx)
	}
	endFollowing()
	reading.Wait()
	if err == nil {
		c.check.end()
	}
	return errors.Join(append(errs, err)...)
}

// allLives lets the server live, and restarts it in between.
func (c *nativeCampaign) allLives(ctx context.Context) error {
	total := time.Duration(c.o.rounds) * time.Minute
	lives := max(nativeLives, int(total/nativeLife))
	random := rand.New(rand.NewPCG(c.o.seed, 300))
	for life := range lives {
		began := time.Now()
		length := total / time.Duration(lives)
		if life > 0 {
			for i := range nativeRestarts {
				if err := c.restart(ctx, (i+life)%2 == 1); err != nil {
					return fmt.Errorf("before life %d: %w", life+1, err)
				}
				// Not a round number: the next one meets publishers somewhere.
				if err := pause(ctx, time.Duration(random.Int64N(int64(4*time.Second)))); err != nil {
					return err
				}
			}
		}
		if err := c.live(ctx, life, began, length, random); err != nil {
			return fmt.Errorf("life %d: %w", life+1, err)
		}
		if len(c.check.problems()) > 0 {
			return nil // it will not get better
		}
	}
	return nil
}

// live samples the server until a life is over. In its warm-up subscribers fall behind; then an exam is held.
func (c *nativeCampaign) live(ctx context.Context, life int, began time.Time, length time.Duration, random *rand.Rand) error {
	over := began.Add(length)
	warm := time.Now().Add(min(nativeWarmUp, time.Until(over)/2))
	examining, endExam := context.WithDeadline(ctx, over.Add(-nativeMargin))
	defer endExam()
	exams := make(chan error, 1)
	seed := random.Uint64()
	go func() {
		random := rand.New(rand.NewPCG(seed, 0))
		err := c.fallBehind(ctx, c.followers[random.IntN(len(c.followers))].place)
		if err == nil {
			err = pause(ctx, time.Until(warm))
		}
		if err == nil {
			err = c.exam(ctx, examining, random)
		}
		exams <- err
	}()
	var samples []nativeSample
	said := time.Now()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for time.Now().Before(over) && len(c.check.problems()) == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := c.alive(); err != nil {
			return err
		}
		s, err := c.sample(ctx)
		if err != nil {
			return err
		}
		if s.at.After(warm) {
			samples = append(samples, s)
		}
		if time.Since(said) > nativeSay {
			said = time.Now()
			fmt.Printf("life %d, %v left: resident %.0f MiB, heap %.0f MiB, %.0f goroutines, %.0f descriptors, %d acknowledged, %d replays, %d missed in exams, %d malformed peers\n",
				life+1, time.Until(over).Round(time.Second), s.resident/(1<<20), s.heap/(1<<20), s.goroutines, s.descriptors, s.acked,
				c.replays.Load(), c.missed.Load(), c.hostile.Load())
		}
	}
	c.result.lives = append(c.result.lives, samples)
	endExam()
	return <-exams
}

// restart ends the server and starts it again; every publisher and every follower must go on by itself.
func (c *nativeCampaign) restart(ctx context.Context, kill bool) error {
	if err := c.alive(); err != nil {
		return err
	}
	c.setDown(true)
	if kill {
		if err := c.server.Kill9(); err != nil {
			return err
		}
		c.kills++
	} else {
		c.stops++
	}
	began := time.Now()
	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := c.server.Restart(startCtx); err != nil { // stops it first, if it runs
		return fmt.Errorf("restart: %w", err)
	}
	c.setDown(false)
	ready := time.Since(began)
	acks, positions := c.progress()
	limit := time.Now().Add(progressLimit)
	for {
		nowAcks, nowPositions := c.progress()
		missing := ""
		for i := range acks {
			if nowAcks[i] == acks[i] {
				missing = fmt.Sprintf("publisher %d to %s", i, c.publishers[i].stream)
			}
		}
		for i := range positions {
			if nowPositions[i] == positions[i] {
				missing = fmt.Sprintf("the follower of %v", c.followers[i].place)
			}
		}
		if missing == "" {
			break
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s has not gone on %v after the server was ready again", missing, progressLimit)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	fmt.Printf("restart (killed: %v): ready after %v, all clients again after %v\n", kill, ready.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	return nil
}

// progress is how far everybody is.
func (c *nativeCampaign) progress() (acks, positions []int64) {
	for _, p := range c.publishers {
		acks = append(acks, p.acks.Load())
	}
	for _, f := range c.followers {
		positions = append(positions, f.next.Load())
	}
	return acks, positions
}

// awaitEnd waits until every follower has all that its shard holds.
func (c *nativeCampaign) awaitEnd(ctx context.Context) error {
	limit := time.Now().Add(progressLimit)
	for _, f := range c.followers {
		sub, err := c.target.subscribe(ctx, subscribeRequest{stream: f.place.stream, shard: f.place.shard, start: "latest", features: offeredFeatures})
		if err != nil {
			return err
		}
		sub.close()
		for f.next.Load() < sub.start {
			if time.Now().After(limit) {
				c.check.violate("%v: the end is %d, and a follower stays at %d", f.place, sub.start, f.next.Load())
				return nil
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
		if at := f.next.Load(); at != sub.start {
			c.check.violate("%v: the end is %d, and a follower is at %d", f.place, sub.start, at)
		}
	}
	return nil
}

func (c *nativeCampaign) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down, c.readyAt = down, time.Now()
}

// inOutage says whether something that began at a time and ends now met the server down, or just back.
func (c *nativeCampaign) inOutage(began time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down || began.Before(c.readyAt) || time.Now().Before(c.readyAt.Add(nativeOutage)) && c.kills+c.stops > 0
}

// finish stops the server; after a good end the directory must be clean.
func (c *nativeCampaign) finish(ctx context.Context, good bool) error {
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
