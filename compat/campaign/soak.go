package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/felixlog/felix/compat/clients/driver"
	"github.com/felixlog/felix/compat/peer"
)

const (
	soakTopic      = "campaign.soak"
	soakTripsTopic = "campaign.soak-trips"
	soakPartitions = 8
	soakRate       = 25   // records a second of each load
	soakSize       = 2000 // bytes a record
	// soakRetention is what a partition keeps: reached within the warm-up, so that files and memory for them stay the same from then on.
	soakRetention = 1 << 20
	soakSegment   = 1 << 20
	// soakReadEvery is how often the log is read on; retention takes nothing away that was not read by then.
	soakReadEvery = 20 * time.Second
	sampleEvery   = 2 * time.Second
	// outageAfter is how long after a start of the server a client may still report an outage.
	outageAfter = 20 * time.Second
)

// soak is one run.
type soak struct {
	o      options
	dir    string
	check  *checker // of the load; all violations are noted with it
	server peer.Peer
	addr   string // of the server, the same after every start
	fleet  *fleet
	counts soakCounts
	acks   int64
	kills  int
	stops  int
	result soakResult

	mu      sync.Mutex
	down    bool
	readyAt time.Time
	had     map[string]int // sessions of members that got records, in the present life
	made    map[string]int // round trips in it
}

// runSoak lets a mixed load run for o.rounds minutes. It keeps no state: an interrupted one has shown nothing.
func runSoak(ctx context.Context, o options) (verdict, error) {
	s := &soak{o: o, dir: filepath.Join(o.out, fmt.Sprintf("soak-%d", o.seed)), check: newChecker(), had: map[string]int{}, made: map[string]int{}}
	began := time.Now()
	err := s.open(ctx)
	if err == nil {
		err = s.run(ctx)
	}
	took := time.Since(began)
	if err == nil {
		for _, problem := range s.result.problems() {
			s.check.violate("%s", problem)
		}
	}
	err = errors.Join(err, s.finish(ctx, err == nil))
	v := verdict{violations: s.check.problems()}
	n := &s.counts
	v.counts = fmt.Sprintf("%v, %d clients, %d clean restarts, %d kills, %d acknowledged at %.0f a second, %d round trips (%d failed in an outage, %d asked again), "+
		"%d group memberships (%d crashes, %d ended in an outage), %d topics created, %d deleted (%d failed in an outage); %s",
		took.Round(time.Second), len(soakClients), s.stops, s.kills, s.acks, s.result.rate, n.trips.Load(), n.tripsInOutage.Load(), n.silences.Load(),
		n.sessions.Load(), n.crashes.Load(), n.sessionsInOutage.Load(), n.topics.Load(), n.deleted.Load(), n.inOutage.Load(), s.result)
	if ctx.Err() == nil && err == nil && len(v.violations) == 0 {
		return v, os.RemoveAll(s.dir)
	}
	fmt.Println("data directory and log are kept in", s.dir)
	return v, err
}

// open starts the server, its topics and the loads.
func (s *soak) open(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(s.dir), os.MkdirAll(s.dir, 0o755)); err != nil {
		return err
	}
	var openers []func(context.Context) (*driver.Client, error)
	for _, c := range soakClients {
		if c.loads {
			openers = append(openers, c.open)
		} else {
			s.result.travellers = append(s.result.travellers, c.name)
		}
		if c.member {
			s.result.members = append(s.result.members, c.name)
		}
	}
	s.result.rate = float64(len(openers) * soakRate)
	var err error
	if s.fleet, err = openFleetOf(ctx, openers...); err != nil {
		return err
	}
	var env []string
	if s.o.fsync != "" {
		env = append(env, "FELIX_DURABLE_FSYNC_MODE="+s.o.fsync)
	}
	if s.server, err = peer.NewFelix(peer.Options{Dir: s.dir, FelixEnv: env}); err != nil {
		return err
	}
	if err := s.server.Start(ctx); err != nil {
		return err
	}
	s.setDown(false)
	s.addr = s.server.Addr()
	for topic, partitions := range map[string]int32{soakTopic: soakPartitions, soakTripsTopic: int32(len(soakClients))} {
		err := createWith(ctx, s.addr, topic, partitions, map[string]*string{
			"retention.bytes": kadm.StringPtr(strconv.Itoa(soakRetention)), "segment.bytes": kadm.StringPtr(strconv.Itoa(soakSegment)),
		})
		if err != nil {
			return err
		}
	}
	fmt.Printf("%d minutes, seed %d: %d clients, loads of %d records of %d bytes a second each, in %s\n", s.o.rounds, s.o.seed, len(soakClients), soakRate, soakSize, s.dir)
	return s.fleet.start(ctx, s.addr, soakTopic, soakPartitions, 1, soakRate, soakSize, s.check)
}

// run starts the workers, goes through the server's lives, and ends the workers.
func (s *soak) run(ctx context.Context) error {
	stop, end := context.WithCancel(ctx)
	defer end()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	work := func(name string, f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	for i, c := range soakClients {
		if !c.loads {
			work(c.name, func() error { return s.trips(ctx, stop, c, int32(i)) })
		}
		if c.member {
			work(c.name+"'s member", func() error { return s.memberLoop(ctx, stop, c, rand.New(rand.NewPCG(s.o.seed, uint64(i)))) })
		}
	}
	work("topics", func() error { return s.topicLoop(ctx, stop, rand.New(rand.NewPCG(s.o.seed, uint64(len(soakClients))))) })
	err := s.lives(ctx)
	end()
	wg.Wait()
	if err == nil {
		err = s.settleUp(ctx)
	}
	return errors.Join(append(errs, err)...)
}

// lives lets the server live, and restarts it in between: once as an operator does, once by SIGKILL.
func (s *soak) lives(ctx context.Context) error {
	each := time.Duration(s.o.rounds) * time.Minute / soakLives
	for life := range soakLives {
		if err := s.live(ctx, life, each); err != nil {
			return fmt.Errorf("life %d: %w", life+1, err)
		}
		if len(s.check.problems()) > 0 {
			return nil // it will not get better
		}
		if life == soakLives-1 {
			return nil
		}
		if err := s.restart(ctx, life%2 == 1); err != nil {
			return err
		}
	}
	return nil
}

// live samples the server for a time and reads the log on. What is sampled in the warm-up is shown only.
func (s *soak) live(ctx context.Context, life int, length time.Duration) error {
	began := time.Now()
	warm := began.Add(min(soakWarmUp, length/3))
	l := soakLife{}
	read := began.Add(soakReadEvery)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for time.Since(began) < length {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := syscall.Kill(s.server.PID(), 0); err != nil {
			return fmt.Errorf("the server had ended by itself: %w", err)
		}
		sample, err := s.sample(ctx)
		if err != nil {
			return err
		}
		if sample.at.After(warm) {
			l.samples = append(l.samples, sample)
		}
		if sample.at.After(read) {
			read = sample.at.Add(soakReadEvery)
			if err := s.read(ctx); err != nil {
				return err
			}
			fmt.Printf("life %d, %v: resident %.0f MiB, heap %.0f MiB, %.0f goroutines, %.0f descriptors, %d acknowledged, %d round trips, %d memberships, %d topics\n",
				life+1, time.Since(began).Round(time.Second), sample.resident/(1<<20), sample.heap/(1<<20), sample.goroutines, sample.descriptors, sample.acks,
				s.counts.trips.Load(), s.counts.sessions.Load(), s.counts.topics.Load())
			if len(s.check.problems()) > 0 {
				return nil
			}
		}
	}
	s.mu.Lock()
	l.members, s.had = s.had, map[string]int{}
	l.trips, s.made = s.made, map[string]int{}
	s.mu.Unlock()
	s.result.lives = append(s.result.lives, l)
	return nil
}

// restart ends the server and starts it again.
func (s *soak) restart(ctx context.Context, kill bool) error {
	s.setDown(true)
	if kill {
		if err := s.server.Kill9(); err != nil {
			return err
		}
		s.kills++
	} else {
		if err := stopCleanly(s.server); err != nil {
			return err
		}
		s.stops++
	}
	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.server.Restart(startCtx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	s.setDown(false)
	return s.fleet.awaitProgress(ctx, s.fleet.counts(), progressLimit)
}

func (s *soak) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.readyAt = down, time.Now()
}

// inOutage says whether something that began at a time and ends now met the server down, or just back.
func (s *soak) inOutage(began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The first start is no outage, but clients started before it are none the wiser.
	return s.down || began.Before(s.readyAt.Add(outageAfter))
}

// hadRecords notes that a member of a client got records.
func (s *soak) hadRecords(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.had[client]++
}

// madeTrip notes a round trip of a client.
func (s *soak) madeTrip(client string) {
	s.counts.trips.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[client]++
}

// read reads the log on, and counts.
func (s *soak) read(ctx context.Context) error {
	return readNew(ctx, s.addr, soakTopic, s.check)
}

// settleUp ends the loads and reads the rest.
func (s *soak) settleUp(ctx context.Context) error {
	sent, err := s.fleet.halt()
	if err != nil {
		return err
	}
	if err := s.read(ctx); err != nil {
		return err
	}
	for name, counts := range sent {
		s.check.mustEnd(name, counts)
	}
	return nil
}

// finish stops the server and the clients; after a good end the directory must be clean.
func (s *soak) finish(ctx context.Context, good bool) error {
	s.check.mu.Lock()
	s.acks = s.check.acks
	s.check.mu.Unlock()
	var err error
	if s.server != nil {
		err = s.server.Stop()
		if good && err == nil && s.o.verify {
			code, out, _, verifyErr := verifyLog(ctx, s.server.DataDir())
			if verifyErr != nil || code != verifyClean {
				s.check.violate("felix log verify after a clean stop: exit %d, %v\n%s", code, verifyErr, out)
			}
		}
	}
	if s.fleet != nil {
		err = errors.Join(err, s.fleet.abandon())
	}
	return err
}

// sample looks at the server, and at what the load has got.
func (s *soak) sample(ctx context.Context) (soakSample, error) {
	out := soakSample{at: time.Now()}
	var err error
	if out.footprint, err = footprintOf(ctx, s.server); err != nil {
		return out, err
	}
	for _, n := range s.fleet.counts() {
		out.acks += n
	}
	return out, nil
}
