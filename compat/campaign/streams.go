package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/peer"
	"github.com/felixlog/felix/compat/streams"
)

const (
	streamsPartitions = 3
	streamsLines      = 2500 // a round
	streamsRate       = 600  // lines a second, of five words
	// streamsJobRounds is after how many rounds the application is judged as a whole and replaced by a new one.
	streamsJobRounds = 10
	// streamsSettleLimit bounds a round: the session of a member that was killed is 6 s of it, and JVMs start slowly on a busy machine.
	streamsSettleLimit = 5 * time.Minute
)

// streamsTotals are the counts of a streams campaign.
type streamsTotals struct {
	rounds, exact, setbacks, closes, kills, wipes, serverKills, serverStops, seconds, jobs int
	words, again, left, updates                                                            int64
	slowest                                                                                time.Duration
}

func (t streamsTotals) String() string {
	return fmt.Sprintf("%d rounds (%d closes and %d kills of the application, %d of them with its state lost, %d second instances, "+
		"%d kills and %d clean restarts of the server), %d words written, all counted, %d again, in %d rounds exactly, %d setbacks, "+
		"%d applications, "+
		"changelogs hold %d of %d updates, slowest round %v",
		t.rounds, t.closes, t.kills, t.wipes, t.seconds, t.serverKills, t.serverStops, t.words, t.again, t.exact, t.setbacks, t.jobs,
		t.left, t.updates, t.slowest.Round(time.Second))
}

// streamsCampaign is one run.
type streamsCampaign struct {
	o      options
	dir    string
	server peer.Peer
	job    *streams.Job
	apps   [2]*streams.App // the second one runs at times
	totals streamsTotals
	// what jobs before the present one had
	words, again int64
	problems     []string
}

// runStreams disturbs a Kafka Streams application, and its server, o.rounds times. It keeps no state: an interrupted campaign begins anew.
func runStreams(ctx context.Context, o options) (verdict, error) {
	s := &streamsCampaign{o: o, dir: filepath.Join(o.out, fmt.Sprintf("streams-%d", o.seed))}
	err := s.start(ctx)
	for round := 1; err == nil && round <= o.rounds; round++ {
		err = s.round(ctx, round)
		if err == nil && (round%streamsJobRounds == 0 || round == o.rounds) {
			err = s.retire(ctx)
		}
	}
	err = errors.Join(err, s.finish())
	v := verdict{counts: s.totals.String(), violations: s.problems}
	if errors.Is(err, errViolated) {
		err = nil
	}
	if err == nil && len(v.violations) == 0 {
		return v, os.RemoveAll(s.dir)
	}
	fmt.Println("data directories and logs are kept in", s.dir)
	return v, err
}

func (s *streamsCampaign) start(ctx context.Context) error {
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	var err error
	s.server, err = startServer(ctx, s.o, s.dir)
	return err
}

// startServer starts the server of a campaign in which it is killed; without a choice the fsync modes take turns by seed.
func startServer(ctx context.Context, o options, dir string) (peer.Peer, error) {
	mode := o.fsync
	if mode == "" {
		mode = []string{"periodic", "none", "on_commit"}[o.seed%3]
	}
	fmt.Printf("fsync mode %s, seed %d, in %s\n", mode, o.seed, dir)
	server, err := peer.FromEnv(peer.Options{Dir: filepath.Join(dir, "server"), FelixEnv: []string{"FELIX_DURABLE_FSYNC_MODE=" + mode}})
	if err != nil {
		return nil, err
	}
	if server.DataDir() == "" {
		return nil, peer.ErrRemote
	}
	return server, server.Start(ctx)
}

// newJob starts an application on new topics; every other one has static members.
func (s *streamsCampaign) newJob(ctx context.Context, random *rand.Rand) error {
	s.totals.jobs++
	var err error
	s.job, err = streams.NewJob(ctx, s.server.Addr(), fmt.Sprintf("campaign.words-%d", s.totals.jobs), streamsPartitions)
	if err != nil {
		return err
	}
	static := random.IntN(2) == 0
	// The longer the interval, the more a kill leaves uncommitted, and a clean close has to commit.
	interval := []int{200, 1000, 3000}[random.IntN(3)]
	for i := range s.apps {
		// A changelog of short segments is compacted while it is written.
		settings := []string{
			"changelog.segment.ms=3000", "changelog.min.cleanable.dirty.ratio=0.01", fmt.Sprintf("commit.interval.ms=%d", interval),
		}
		if static {
			settings = append(settings, fmt.Sprintf("group.instance.id=app-%d", i+1))
		}
		dir := filepath.Join(s.dir, fmt.Sprintf("%s-%d", s.job.ID, i+1))
		s.apps[i] = streams.NewApp(s.job, streams.AppOptions{Dir: dir, Settings: settings})
	}
	fmt.Printf("%s: static members %v, commits every %d ms\n", s.job.ID, static, interval)
	return s.apps[0].Start()
}

// disturbance is something that is done to a running application while lines are written.
type disturbance struct {
	name  string
	exact bool // nothing may be counted again after it
	do    func(ctx context.Context, random *rand.Rand) error
}

// draw chooses a disturbance, of those that the options leave.
func draw(o options, random *rand.Rand, all []disturbance) (disturbance, error) {
	all = slices.DeleteFunc(all, func(d disturbance) bool { return !strings.Contains(d.name, o.only) })
	if len(all) == 0 {
		return disturbance{}, fmt.Errorf("no disturbance has %q in its name", o.only)
	}
	return all[random.IntN(len(all))], nil
}

func (s *streamsCampaign) disturbances() []disturbance {
	app := func() *streams.App { return s.apps[0] }
	wipe := func(random *rand.Rand) error {
		if random.IntN(3) != 0 {
			return nil
		}
		s.totals.wipes++
		return app().Wipe()
	}
	return []disturbance{
		{"close and start the application", true, func(ctx context.Context, random *rand.Rand) error {
			s.totals.closes++
			return errors.Join(app().AwaitRunning(ctx), app().Close(), wipe(random), app().Start())
		}},
		{"kill and start the application", false, func(_ context.Context, random *rand.Rand) error {
			s.totals.kills++
			return errors.Join(app().Kill9(), wipe(random), app().Start())
		}},
		{"kill the server", false, func(ctx context.Context, _ *rand.Rand) error {
			s.totals.serverKills++
			return killServer(ctx, s.server)
		}},
		{"restart the server", false, func(ctx context.Context, _ *rand.Rand) error {
			s.totals.serverStops++
			return s.server.Restart(ctx)
		}},
		{"kill the application, then the server", false, func(ctx context.Context, random *rand.Rand) error {
			s.totals.kills++
			s.totals.serverKills++
			return errors.Join(app().Kill9(), wipe(random), killServer(ctx, s.server), app().Start())
		}},
		{"a second instance comes and goes", false, func(ctx context.Context, random *rand.Rand) error {
			s.totals.seconds++
			second := s.apps[1]
			if err := errors.Join(second.Start(), second.AwaitRunning(ctx)); err != nil {
				return err
			}
			if err := pause(ctx, time.Duration(random.IntN(2000))*time.Millisecond); err != nil {
				return err
			}
			if random.IntN(2) == 0 {
				s.totals.kills++
				return second.Kill9()
			}
			s.totals.closes++
			return second.Close()
		}},
	}
}

// killServer kills the server and starts it again.
func killServer(ctx context.Context, server peer.Peer) error {
	if err := syscall.Kill(server.PID(), 0); err != nil {
		return fmt.Errorf("the server had ended by itself: %w", err)
	}
	if err := server.Kill9(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return server.Restart(ctx)
}

// round writes lines, disturbs once in the middle, and judges the counts.
func (s *streamsCampaign) round(ctx context.Context, number int) error {
	random := rand.New(rand.NewPCG(s.o.seed, uint64(number)))
	began := time.Now()
	if s.job == nil {
		if err := s.newJob(ctx, random); err != nil {
			return err
		}
	}
	chosen, err := draw(s.o, random, s.disturbances())
	if err != nil {
		return err
	}
	lines := rand.New(rand.NewPCG(s.o.seed, uint64(number)<<32)) // drawn from beside the disturbance
	after := time.Duration(random.Int64N(int64(streamsLines * time.Second / streamsRate)))
	where := fmt.Sprintf("round %d, %s", number, chosen.name)
	settleCtx, cancel := context.WithTimeoutCause(ctx, streamsSettleLimit, fmt.Errorf("not settled within %v", streamsSettleLimit))
	defer cancel()
	err = during(func() error { return s.job.Feed(settleCtx, lines, streamsLines, streamsRate) }, func() error {
		if err := pause(ctx, after); err != nil {
			return err
		}
		return chosen.do(settleCtx, random)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	problems, setbacks, err := s.job.Settle(settleCtx, chosen.exact, s.apps[:], s.alive)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	words, again := s.job.Totals()
	fmt.Printf("round %d/%d: %s after %v: %d words written, %d counted again in all, %d setbacks, %v\n",
		number, s.o.rounds, chosen.name, after.Round(time.Millisecond), words, again, setbacks, time.Since(began).Round(time.Millisecond))
	s.totals.rounds++
	s.totals.setbacks += setbacks
	if chosen.exact && setbacks == 0 {
		s.totals.exact++
	}
	s.totals.words, s.totals.again = s.words+words, s.again+again
	s.totals.slowest = max(s.totals.slowest, time.Since(began))
	return s.violated(where, problems)
}

// during runs two things at a time and waits for both.
func during(one, other func() error) error {
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = other() })
	first := one()
	wg.Wait()
	return errors.Join(first, err)
}

// violated takes problems over.
func (s *streamsCampaign) violated(where string, problems []string) error {
	for _, problem := range problems {
		s.problems = append(s.problems, where+": "+problem)
	}
	if len(problems) > 0 {
		return errViolated
	}
	return nil
}

// alive tells whether every instance that was started runs, and the server.
func (s *streamsCampaign) alive() error {
	for _, app := range s.apps {
		if err := app.Alive(); err != nil {
			return err
		}
	}
	if err := syscall.Kill(s.server.PID(), 0); err != nil {
		return fmt.Errorf("the server ended by itself: %w", err)
	}
	return nil
}

// retire judges the present application as a whole, closes it and deletes its topics.
func (s *streamsCampaign) retire(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, streamsSettleLimit, fmt.Errorf("the application's end took more than %v", streamsSettleLimit))
	defer cancel()
	if err := s.job.CheckTopics(ctx); err != nil {
		return err
	}
	if err := s.job.AwaitPurged(ctx, s.alive); err != nil {
		return err
	}
	if err := s.apps[0].Close(); err != nil {
		return err
	}
	left, updates, problems, err := s.job.CheckChangelog(ctx)
	if err != nil {
		return err
	}
	s.totals.left, s.totals.updates = s.totals.left+left, s.totals.updates+updates
	fmt.Printf("%s: the changelog holds %d of %d updates, the last of each word among them\n", s.job.ID, left, updates)
	if err := s.violated(s.job.ID, problems); err != nil {
		return err
	}
	if err := s.job.Delete(ctx); err != nil {
		return err
	}
	s.words, s.again = s.totals.words, s.totals.again
	s.job.Close()
	s.job = nil
	return nil
}

// finish ends what runs.
func (s *streamsCampaign) finish() error {
	var err error
	if s.job != nil {
		// After a violation or an interruption nobody waits for a clean close.
		for _, app := range s.apps {
			err = errors.Join(err, app.End())
		}
		s.job.Close()
	}
	if s.server != nil {
		err = errors.Join(err, s.server.Stop())
	}
	return err
}
