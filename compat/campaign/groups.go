package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/clients/driver"
	"github.com/felixlog/felix/compat/peer"
)

const (
	groupsTopic      = "campaign.groups"
	groupsPartitions = 6 // one for each member of a group, and one more
	// groupsRate and groupsSize are the writer's records a second and bytes: every member gets some all the time.
	groupsRate = 300
	groupsSize = 120
	// restLimit is how long all groups together may take to come to rest; the checker's own bounds end before it.
	restLimit = 2 * silentLimit
	lookEvery = 100 * time.Millisecond
	// offsetsEvery is how often the watching client asks for all committed offsets.
	offsetsEvery = 200 * time.Millisecond
	offsetsLimit = 5 * time.Second
)

// groupsCampaign is one run.
type groupsCampaign struct {
	o      options
	dir    string
	state  *groupsState
	log    *checker // the writer's records; all violations are noted with it
	check  *groupChecker
	tally  groupsTally
	server peer.Peer
	addr   string // of the server, the same after every start
	fleet  *fleet
	watch  *kgo.Client // asks for committed offsets

	live    [][]bool // which places will be taken after the round
	members [][]*groupMember
	ending  []*groupMember // left or crashed; their clients may not be closed yet
	joins   int            // makes client ids unique
}

// runGroups kills the server o.rounds times under ten groups.
func runGroups(ctx context.Context, o options) (verdict, error) {
	g := &groupsCampaign{o: o, dir: filepath.Join(o.out, fmt.Sprintf("groups-%d", o.seed))}
	err := g.open(ctx)
	if err == nil {
		err = g.campaign(ctx)
	}
	if errors.Is(err, errViolated) {
		err = nil // the checkers' own words say it
	}
	err = errors.Join(err, g.finish(ctx, err == nil))
	var v verdict
	if g.state != nil {
		v = verdict{counts: g.state.Totals.String(), violations: g.log.problems()}
	}
	if ctx.Err() == nil && err == nil && len(v.violations) == 0 {
		return v, os.RemoveAll(g.dir)
	}
	if ctx.Err() == nil {
		fmt.Println("data directory and log are kept in", g.dir)
		if removeErr := os.Remove(filepath.Join(g.dir, "state.json")); !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return v, err
}

// open begins a new campaign, or takes up the one that was interrupted, up to a running server.
func (g *groupsCampaign) open(ctx context.Context) error {
	id, err := serverVersion()
	if err != nil {
		return err
	}
	s := &groupsState{}
	found, err := readState(g.dir, s)
	if err != nil {
		return err
	}
	found = found && s.Commit == id
	if found {
		fmt.Printf("going on after %s\n", s.Totals)
		g.state, g.log = s, restoredChecker(s.Checkpoint, s.Next)
	} else {
		if err := os.RemoveAll(g.dir); err != nil {
			return err
		}
		g.state, g.log = &groupsState{Commit: id, Totals: groupsTotals{Churn: map[churnWhat]int{}}}, newChecker()
	}
	g.check = newGroupChecker(groupCount, groupsPartitions, g.log.violate)
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return err
	}
	if g.fleet, err = openFleetOf(ctx, driver.Franz); err != nil {
		return err
	}
	mode := g.o.fsync
	if mode == "" {
		mode = []string{"periodic", "none", "on_commit"}[g.o.seed%3]
	}
	fmt.Printf("fsync mode %s, seed %d, in %s\n", mode, g.o.seed, g.dir)
	if g.server, err = peer.FromEnv(peer.Options{Dir: g.dir, FelixEnv: []string{"FELIX_DURABLE_FSYNC_MODE=" + mode}}); err != nil {
		return err
	}
	if g.server.DataDir() == "" {
		return peer.ErrRemote
	}
	if err := g.server.Start(ctx); err != nil {
		return err
	}
	g.addr = g.server.Addr()
	if g.watch, err = dial(g.addr); err != nil {
		return err
	}
	if !found {
		if err := createTopic(ctx, g.addr, groupsTopic, groupsPartitions); err != nil {
			return err
		}
	}
	// A coordinator that has just been made may need a moment; bounds are for one that is there.
	committed, err := g.committed(ctx)
	for deadline := time.Now().Add(startLimit); err != nil && time.Now().Before(deadline); committed, err = g.committed(ctx) {
		if err := pause(ctx, offsetsEvery); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if found {
		g.check.restore(s.Groups, committed)
	}
	return nil
}

// campaign starts the writer and the members, kills until the number is reached, and lets everybody leave.
func (g *groupsCampaign) campaign(ctx context.Context) error {
	g.check.serverUp(time.Now())
	g.state.Generation++
	err := g.fleet.start(ctx, g.addr, groupsTopic, groupsPartitions, g.state.Generation, min(g.o.rate, groupsRate), groupsSize, g.log)
	if err == nil {
		err = g.startMembers()
	}
	if err != nil {
		return err
	}
	watchCtx, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { every(watchCtx, lookEvery, func() { g.check.look(time.Now()) }) })
	watchers.Go(func() {
		// While the server is down there is no answer; in between the next one is as good.
		every(watchCtx, offsetsEvery, func() { _ = g.lookAtOffsets(watchCtx) })
	})
	err = g.rest(ctx)
	for err == nil && g.state.Totals.Kills < g.o.rounds {
		err = g.round(ctx)
	}
	if err == nil {
		err = g.end(ctx)
	}
	stop()
	watchers.Wait()
	g.count()
	return err
}

// every calls f again and again until the context ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// startMembers fills the places that are taken at the beginning, or were when the campaign was interrupted.
func (g *groupsCampaign) startMembers() error {
	for i := range groupCount {
		live := make([]bool, groupPlaces)
		live[0], live[2], live[3] = true, true, true
		if i < len(g.state.Groups) {
			live = slices.Clone(g.state.Groups[i].Live)
		}
		g.live = append(g.live, live)
		g.members = append(g.members, make([]*groupMember, groupPlaces))
		for place, taken := range live {
			if taken {
				if err := g.join(i, place); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// groupBalancers are the groups' assignors in turn: eager ones and the cooperative one.
var groupBalancers = []func() kgo.GroupBalancer{kgo.RangeBalancer, kgo.CooperativeStickyBalancer, kgo.StickyBalancer, kgo.CooperativeStickyBalancer}

// join starts a member in a place.
func (g *groupsCampaign) join(group, place int) error {
	g.joins++
	o := memberOptions{
		addr: g.addr, topic: groupsTopic, group: group, name: fmt.Sprintf("member-%d-%d-%d", group+1, place, g.joins),
		balancer: groupBalancers[group%len(groupBalancers)](),
	}
	if place < groupStatics {
		o.instance = fmt.Sprintf("static-%d-%d", group+1, place)
	}
	m, err := startMember(o, g.check, &g.tally)
	g.members[group][place] = m
	return err
}

// round is one kill amid coming and going members, the restart, and the check once everybody is at rest.
func (g *groupsCampaign) round(ctx context.Context) error {
	t := &g.state.Totals
	random := rand.New(rand.NewPCG(g.o.seed, uint64(t.Kills)))
	steps := planChurn(random, g.live)
	killAt := 300*time.Millisecond + time.Duration(random.Int64N(int64(churnSpan-500*time.Millisecond)))
	began := time.Now()
	var wg sync.WaitGroup
	var churnErr error
	wg.Go(func() { churnErr = g.churn(ctx, began, steps) })
	how, err := g.kill(ctx, random, killAt)
	wg.Wait()
	if err = errors.Join(err, churnErr); err != nil {
		return err
	}
	churned := time.Now()
	if err := g.fleet.awaitProgress(ctx, g.fleet.counts(), progressLimit); err != nil {
		return fmt.Errorf("after kill %d: %w", t.Kills, err)
	}
	if err := g.rest(ctx); err != nil {
		return err
	}
	rested := time.Since(churned)
	if err := g.commitLate(g.stale()); err != nil {
		return fmt.Errorf("after kill %d: %w", t.Kills, err)
	}
	g.ending = slices.DeleteFunc(g.ending, (*groupMember).ended)
	if err := g.readAll(ctx); err != nil {
		return fmt.Errorf("after kill %d: %w", t.Kills, err)
	}
	g.count()
	fmt.Printf("kill %3d/%d after %4d ms%s; %d steps of members, at rest %v after the last, round %v; %d commits, %d records to groups, longest without owner %v\n",
		t.Kills, g.o.rounds, killAt.Milliseconds(), how, len(steps), rested.Round(time.Millisecond), time.Since(began).Round(100*time.Millisecond),
		t.Commits, t.Consumed, time.Duration(t.UnownedMS)*time.Millisecond)
	if len(g.log.problems()) > 0 {
		return errViolated
	}
	return g.save()
}

func (g *groupsCampaign) save() error {
	s := g.state
	s.Checkpoint, s.Next = g.log.saved()
	s.Groups = g.check.save()
	for i := range s.Groups {
		s.Groups[i].Live = slices.Clone(g.live[i])
	}
	return writeState(g.dir, s)
}

// churn lets the members come and go at their times.
func (g *groupsCampaign) churn(ctx context.Context, began time.Time, steps []churnStep) error {
	for _, s := range steps {
		if err := pause(ctx, max(time.Until(began.Add(s.at)), 0)); err != nil {
			return err
		}
		g.state.Totals.Churn[s.what]++
		m := g.members[s.group][s.place]
		switch s.what {
		case churnJoin:
			if err := g.join(s.group, s.place); err != nil {
				return err
			}
			continue
		case churnCut, churnMend:
			m.cutOff(s.what == churnCut)
			continue
		case churnLeave:
			m.leave()
		case churnCrash:
			m.crash()
		}
		g.members[s.group][s.place] = nil
		g.ending = append(g.ending, m)
	}
	return nil
}

// kill kills the server and starts it again, sometimes after a clean restart, sometimes more than once.
func (g *groupsCampaign) kill(ctx context.Context, random *rand.Rand, after time.Duration) (how string, err error) {
	t := &g.state.Totals
	if random.Float64() < cleanShare {
		g.check.serverDown()
		if err := stopCleanly(g.server); err != nil {
			return "", fmt.Errorf("clean stop: %w", err)
		}
		if err := g.start(ctx); err != nil {
			return "", err
		}
		t.CleanStops++
		how = ", and a clean restart before"
	}
	if err := pause(ctx, after); err != nil {
		return "", err
	}
	if err := syscall.Kill(g.server.PID(), 0); err != nil {
		return "", fmt.Errorf("the server had ended by itself: %w", err)
	}
	g.check.serverDown()
	if err := g.server.Kill9(); err != nil {
		return "", err
	}
	t.Kills++
	if err := g.verify(ctx); err != nil {
		return "", err
	}
	if err := pause(ctx, time.Duration(random.Int64N(int64(1500*time.Millisecond)))); err != nil {
		return "", err
	}
	for random.Float64() < startKillShare && t.Kills < g.o.rounds {
		after := startKillAfter(random)
		if err := startAndKill(ctx, g.server, after); err != nil {
			return "", err
		}
		t.Kills++
		t.StartKills++
		how += fmt.Sprintf(", again after %v of starting", after.Round(time.Millisecond))
		if err := g.verify(ctx); err != nil {
			return "", err
		}
	}
	return how, g.start(ctx)
}

// start starts the stopped server.
func (g *groupsCampaign) start(ctx context.Context) error {
	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := g.server.Restart(startCtx); err != nil {
		return fmt.Errorf("restart after kill %d: %w", g.state.Totals.Kills, err)
	}
	g.check.serverUp(time.Now())
	return nil
}

// verify asks `felix log verify` about the directory that a kill left.
func (g *groupsCampaign) verify(ctx context.Context) error {
	if g.server.Kind() != peer.Felix || !g.o.verify {
		return nil
	}
	code, out, _, err := verifyLog(ctx, g.server.DataDir())
	switch {
	case err != nil:
		return err
	case code == verifyClean:
		g.state.Totals.Clean++
	case code == verifyRepair:
		g.state.Totals.Repaired++
	default:
		return fmt.Errorf("felix log verify: exit %d after a kill\n%s", code, out)
	}
	return nil
}

// rest waits until every partition of every group has one owner and every member goes on.
func (g *groupsCampaign) rest(ctx context.Context) error {
	return g.await(ctx, "at rest", g.check.unsettled)
}

// await waits until nothing is left to wait for, or a checker has found something.
func (g *groupsCampaign) await(ctx context.Context, what string, waiting func() []string) error {
	deadline := time.Now().Add(restLimit)
	for {
		left := waiting()
		if len(left) == 0 {
			return nil
		}
		if len(g.log.problems()) > 0 {
			return errViolated
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not %s within %v: %v", what, restLimit, left[:min(len(left), maxViolations)])
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// readAll reads the log, waits until the groups have had all of it, and looks at what is committed.
func (g *groupsCampaign) readAll(ctx context.Context) error {
	if err := readNew(ctx, g.addr, groupsTopic, g.log); err != nil {
		return err
	}
	ends := g.ends()
	if err := g.await(ctx, "at the ends", func() []string { return g.check.behind(ends) }); err != nil {
		return err
	}
	return g.lookAtOffsets(ctx)
}

// ends are the offsets up to which the log was read.
func (g *groupsCampaign) ends() map[int32]int64 {
	ends, _ := g.log.saved()
	return ends
}

// committed asks the server for the committed offsets of all groups, -1 for none.
func (g *groupsCampaign) committed(ctx context.Context) (map[string][]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, offsetsLimit)
	defer cancel()
	var names []string
	for _, w := range g.check.groups {
		names = append(names, w.name)
	}
	out := map[string][]int64{}
	for name, res := range kadm.NewClient(g.watch).FetchManyOffsets(ctx, names...) {
		if res.Err != nil {
			return nil, fmt.Errorf("committed offsets of %s: %w", name, res.Err)
		}
		at := make([]int64, groupsPartitions)
		for p := range at {
			at[p] = -1
			if o, ok := res.Fetched.Lookup(groupsTopic, int32(p)); ok {
				if o.Err != nil {
					return nil, fmt.Errorf("committed offset of %s partition %d: %w", name, p, o.Err)
				}
				at[p] = o.At
			}
		}
		out[name] = at
	}
	if len(out) != len(names) {
		return nil, fmt.Errorf("asked for the committed offsets of %d groups, got %d", len(names), len(out))
	}
	return out, nil
}

// lookAtOffsets checks what the server says is committed against what was promised before it was asked.
func (g *groupsCampaign) lookAtOffsets(ctx context.Context) error {
	floors := map[string][]int64{}
	for _, w := range g.check.groups {
		floors[w.name] = g.check.floors(w)
	}
	committed, err := g.committed(ctx)
	if err != nil {
		return err
	}
	g.tally.fetches.Add(1)
	for _, w := range g.check.groups {
		for p, at := range committed[w.name] {
			g.check.fetched(w, int32(p), at, floors[w.name][p])
		}
	}
	return nil
}

// count takes the checkers' counts into the totals.
func (g *groupsCampaign) count() {
	t := &g.state.Totals
	g.log.mu.Lock()
	t.Acks += g.log.acks
	g.log.acks = 0
	g.log.mu.Unlock()
	t.Lost += g.tally.lostCommits.Swap(0)
	t.Refused += g.tally.refusedCommits.Swap(0)
	t.Fetches += g.tally.fetches.Swap(0)
	c := g.check
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Consumed += c.consumed
	t.Repeated += c.repeated
	t.Commits += c.commits
	t.Assignments += c.assignments
	c.consumed, c.repeated, c.commits, c.assignments = 0, 0, 0, 0
	t.UnownedMS = max(t.UnownedMS, c.longestUnowned.Milliseconds())
	t.SilenceMS = max(t.SilenceMS, c.longestSilence.Milliseconds())
}

// end stops the writer, waits until every group has had and committed everything, and lets all members leave. That must change nothing.
func (g *groupsCampaign) end(ctx context.Context) error {
	sent, err := g.fleet.halt()
	if err != nil {
		return err
	}
	if err := g.readAll(ctx); err != nil {
		return err
	}
	for name, counts := range sent {
		g.log.mustEnd(name, counts)
	}
	ends := g.ends()
	if err := g.await(ctx, "committed", func() []string { return g.check.uncommitted(ends) }); err != nil {
		return err
	}
	for _, group := range g.members {
		for place, m := range group {
			if m != nil {
				m.leave()
				g.ending, group[place] = append(g.ending, m), nil
			}
		}
	}
	for _, m := range g.ending {
		if err := m.await(ctx, restLimit); err != nil {
			return err
		}
	}
	if err := g.lookAtOffsets(ctx); err != nil {
		return err
	}
	if len(g.log.problems()) > 0 {
		return errViolated
	}
	fmt.Printf("%d groups have had and committed all of %v\n", groupCount, ends)
	return nil
}

// finish ends what still runs. After a good end the directory of the cleanly stopped server must be clean.
func (g *groupsCampaign) finish(ctx context.Context, good bool) error {
	for _, group := range g.members {
		for _, m := range group {
			if m != nil {
				m.crash()
			}
		}
	}
	if g.watch != nil {
		g.watch.Close()
	}
	var err error
	if g.server != nil {
		err = g.server.Stop()
		if good && err == nil && g.server.Kind() == peer.Felix && g.o.verify {
			code, out, _, verifyErr := verifyLog(ctx, g.server.DataDir())
			if verifyErr != nil || code != verifyClean {
				g.log.violate("felix log verify after a clean stop: exit %d, %v\n%s", code, verifyErr, out)
			}
		}
	}
	if g.fleet != nil {
		err = errors.Join(err, g.fleet.abandon())
	}
	return err
}
