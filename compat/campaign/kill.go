package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

const (
	killPartitions = 3
	// rotateEvery is after how many rounds a topic is read whole and replaced, so that the directory stays small.
	rotateEvery = 25
	// progressLimit is how long every client may take to get an acknowledgement after a restart; their own back-off is up to 0.5 s.
	progressLimit = 30 * time.Second
	startLimit    = 60 * time.Second
	// startKillShare is how often a restart is killed too, before the one that counts.
	startKillShare = 0.2
	// cleanShare is how often a round begins with a clean restart: the kill then meets what a clean stop left behind.
	cleanShare = 0.15
	// loadBytes is about what all producers together send in a second.
	loadBytes = 12 << 20
)

// loadSizes are the record sizes that topics take turns with: many records a batch, a few, and batches of many pages, whose write a
// kill may cut short.
var loadSizes = []int{300, 4000, 60000}

// exit codes of `felix log verify`
const (
	verifyClean  = 0
	verifyRepair = 6
)

// killCampaign is one run.
type killCampaign struct {
	o      options
	dir    string
	state  *state
	check  *checker
	server peer.Peer
	fleet  *fleet
}

// runKill kills the server o.rounds times.
func runKill(ctx context.Context, o options) (verdict, error) {
	k := &killCampaign{o: o, dir: filepath.Join(o.out, fmt.Sprintf("kill-%d", o.seed))}
	err := k.prepare(ctx)
	if err == nil {
		err = k.rounds(ctx)
	}
	if errors.Is(err, errViolated) {
		err = nil // the checker's own words say it
	}
	err = errors.Join(err, k.finish(ctx, err == nil))
	v := verdict{violations: k.check.problems()}
	if k.state != nil {
		v.counts = k.state.Totals.String()
	}
	if ctx.Err() == nil && err == nil && len(v.violations) == 0 {
		return v, os.RemoveAll(k.dir)
	}
	if ctx.Err() == nil {
		fmt.Println("data directory and log are kept in", k.dir)
		// A failed campaign is not taken up again.
		if removeErr := os.Remove(filepath.Join(k.dir, "state.json")); !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return v, err
}

// prepare opens a new campaign, or the one that was interrupted.
func (k *killCampaign) prepare(ctx context.Context) error {
	k.check = newChecker()
	id, err := serverVersion()
	if err != nil {
		return err
	}
	s, c, err := loadState(k.dir, id)
	if err != nil {
		return err
	}
	if s != nil {
		fmt.Printf("going on after %s\n", s.Totals)
		k.state, k.check = s, c
	} else {
		if err := os.RemoveAll(k.dir); err != nil {
			return err
		}
		k.state = &state{Commit: id}
	}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return err
	}
	if k.fleet, err = openFleet(ctx); err != nil {
		return err
	}
	if k.server, err = peer.FromEnv(k.peerOptions()); err != nil {
		return err
	}
	if k.server.DataDir() == "" {
		return peer.ErrRemote
	}
	if err := k.server.Start(ctx); err != nil {
		return err
	}
	if s != nil {
		return k.startLoad(ctx)
	}
	return k.newTopic(ctx)
}

// peerOptions name the directory and the fsync mode; without a choice the modes take turns by seed.
func (k *killCampaign) peerOptions() peer.Options {
	mode := k.o.fsync
	if mode == "" {
		mode = []string{"periodic", "none", "on_commit"}[k.o.seed%3]
	}
	fmt.Printf("fsync mode %s, seed %d, in %s\n", mode, k.o.seed, k.dir)
	return peer.Options{Dir: k.dir, FelixEnv: []string{"FELIX_DURABLE_FSYNC_MODE=" + mode}}
}

// newTopic starts a generation on a fresh topic.
func (k *killCampaign) newTopic(ctx context.Context) error {
	k.state.Topic = fmt.Sprintf("campaign.kill-%d", k.state.Generation+1)
	if err := createTopic(ctx, k.server.Addr(), k.state.Topic, killPartitions); err != nil {
		return err
	}
	return k.startLoad(ctx)
}

// startLoad lets the fleet loose on the present topic under new names.
func (k *killCampaign) startLoad(ctx context.Context) error {
	k.state.Generation++
	size := k.o.size
	if size == 0 {
		size = loadSizes[(k.o.seed+uint64(k.state.Generation))%uint64(len(loadSizes))]
	}
	rate := min(k.o.rate, loadBytes/len(k.fleet.clients)/size)
	fmt.Printf("%s: %d producers, %d records of %d bytes a second each\n", k.state.Topic, len(k.fleet.clients), rate, size)
	err := k.fleet.start(ctx, k.server.Addr(), k.state.Topic, killPartitions, k.state.Generation, rate, size, k.check)
	if err != nil {
		return err
	}
	return k.fleet.awaitProgress(ctx, make([]int64, len(k.fleet.loads)), progressLimit)
}

// rounds kills until the number is reached.
func (k *killCampaign) rounds(ctx context.Context) error {
	sinceRotation := 0
	for k.state.Totals.Kills < k.o.rounds {
		if err := k.round(ctx); err != nil {
			return err
		}
		sinceRotation++
		if sinceRotation == rotateEvery {
			sinceRotation = 0
			if err := k.retire(ctx); err != nil {
				return err
			}
			if err := k.newTopic(ctx); err != nil {
				return err
			}
		}
		if err := k.state.save(k.dir, k.check); err != nil {
			return err
		}
	}
	return k.retire(ctx)
}

// round is one kill, the restart, and the check.
func (k *killCampaign) round(ctx context.Context) error {
	random := rand.New(rand.NewPCG(k.o.seed, uint64(k.state.Totals.Kills)))
	t := &k.state.Totals
	run := 50*time.Millisecond + time.Duration(random.Int64N(int64(2500*time.Millisecond)))
	if err := pause(ctx, run); err != nil {
		return err
	}
	if err := syscall.Kill(k.server.PID(), 0); err != nil {
		return fmt.Errorf("the server had ended by itself: %w", err)
	}
	ackedBefore := t.Acks
	during := ""
	if random.Float64() < cleanShare {
		if err := k.restartCleanly(ctx); err != nil {
			return err
		}
		during = ", after a clean restart"
	}
	if err := k.server.Kill9(); err != nil {
		return err
	}
	t.Kills++
	number := t.Kills
	verdictOf, err := k.verify(ctx)
	if err != nil {
		return err
	}
	for random.Float64() < startKillShare && t.Kills < k.o.rounds {
		after, err := k.killWhileStarting(ctx, random)
		if err != nil {
			return err
		}
		during += fmt.Sprintf(", again after %v of starting", after)
	}
	began := time.Now()
	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	err = k.server.Restart(startCtx)
	cancel()
	if err != nil {
		return fmt.Errorf("restart after kill %d: %w", number, err)
	}
	took := time.Since(began)
	t.SlowestMS = max(t.SlowestMS, took.Milliseconds())
	if err := k.fleet.awaitProgress(ctx, k.fleet.counts(), progressLimit); err != nil {
		return fmt.Errorf("after kill %d: %w", number, err)
	}
	resumed := time.Since(began)
	if err := readNew(ctx, k.server.Addr(), k.state.Topic, k.check); err != nil {
		return fmt.Errorf("after kill %d: %w", number, err)
	}
	k.count()
	fmt.Printf("kill %3d/%d after %4d ms%s: log verify %s, ready in %d ms, all clients again in %d ms, %d new acks, %d records checked\n",
		number, k.o.rounds, run.Milliseconds(), during, verdictOf, took.Milliseconds(), resumed.Milliseconds(), t.Acks-ackedBefore, t.Records)
	if len(k.check.problems()) > 0 {
		return errViolated
	}
	return nil
}

// restartCleanly stops the server as an operator does, under load, and starts it again. What it left must need no repair.
func (k *killCampaign) restartCleanly(ctx context.Context) error {
	if err := stopCleanly(k.server); err != nil {
		return fmt.Errorf("clean stop: %w", err)
	}
	if k.o.verify && k.server.Kind() == peer.Felix {
		code, out, _, err := verifyLog(ctx, k.server.DataDir())
		if err != nil || code != verifyClean {
			return fmt.Errorf("felix log verify after a clean stop: exit %d, %w\n%s", code, err, out)
		}
	}
	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := k.server.Restart(startCtx); err != nil {
		return fmt.Errorf("restart after a clean stop: %w", err)
	}
	k.state.Totals.CleanStops++
	return k.fleet.awaitProgress(ctx, k.fleet.counts(), progressLimit)
}

// stopCleanly sends SIGTERM and waits. The peer's own Stop would give its directory up.
func stopCleanly(server peer.Peer) error {
	pid := server.PID()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	deadline := time.NewTimer(startLimit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		// The peer waits for its child, so a process that has ended is gone and no zombie.
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return server.Kill9() // the peer forgets the process
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("process %d did not end within %v of SIGTERM", pid, startLimit)
		}
	}
}

// count takes the checker's counts into the totals.
func (k *killCampaign) count() {
	k.check.mu.Lock()
	defer k.check.mu.Unlock()
	k.state.Totals.Acks += k.check.acks
	k.state.Totals.Records += k.check.records
	k.check.acks, k.check.records = 0, 0
}

// killWhileStarting starts the server and kills it a few milliseconds later, unless it is faster than that.
func (k *killCampaign) killWhileStarting(ctx context.Context, random *rand.Rand) (time.Duration, error) {
	after := startKillAfter(random)
	if err := startAndKill(ctx, k.server, after); err != nil {
		return 0, err
	}
	k.state.Totals.Kills++
	k.state.Totals.StartKills++
	if _, err := k.verify(ctx); err != nil {
		return 0, err
	}
	return after.Round(time.Millisecond), nil
}

// startKillAfter draws how long a start may take that is killed.
func startKillAfter(random *rand.Rand) time.Duration {
	return time.Millisecond + time.Duration(random.Int64N(int64(60*time.Millisecond)))
}

// startAndKill starts the server and kills it after a time, or when it is ready, early in its life.
func startAndKill(ctx context.Context, server peer.Peer, after time.Duration) error {
	startCtx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	err := server.Restart(startCtx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		return server.Kill9()
	}
	if startCtx.Err() == nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil // Restart kills a server that is not ready when its time is over
}

// verify asks `felix log verify` about the stopped directory. Apache Kafka, against which the campaign itself is tried, has none.
func (k *killCampaign) verify(ctx context.Context) (string, error) {
	if k.server.Kind() != peer.Felix || !k.o.verify {
		return "not run", nil
	}
	code, out, took, err := verifyLog(ctx, k.server.DataDir())
	if err != nil {
		return "", err
	}
	switch code {
	case verifyClean:
		k.state.Totals.Clean++
		return fmt.Sprintf("clean (%d ms)", took.Milliseconds()), nil
	case verifyRepair:
		k.state.Totals.Repaired++
		return fmt.Sprintf("would repair (%d ms)", took.Milliseconds()), nil
	default:
		return "", fmt.Errorf("felix log verify: exit %d after a kill\n%s", code, out)
	}
}

// verifyLog runs `felix log verify`.
func verifyLog(ctx context.Context, dataDir string) (code int, out string, took time.Duration, err error) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, felixBinary(), "log", "verify", "--data-dir", dataDir)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), text.String(), time.Since(began), nil
	}
	return 0, text.String(), time.Since(began), err
}

// felixBinary is the binary that the peer runs too.
func felixBinary() string {
	if bin := os.Getenv("FELIX_BIN"); bin != "" {
		return bin
	}
	return filepath.Join(peer.ModuleDir(), "..", "bin", "felix")
}

// retire ends the present topic: the producers finish, all of it is read again from the beginning, and it is deleted.
func (k *killCampaign) retire(ctx context.Context) error {
	sent, err := k.fleet.halt()
	if err != nil {
		return err
	}
	addr := k.server.Addr()
	if err := readNew(ctx, addr, k.state.Topic, k.check); err != nil {
		return err
	}
	for name, counts := range sent {
		k.check.mustEnd(name, counts)
	}
	k.count()
	whole := newChecker()
	if err := readNew(ctx, addr, k.state.Topic, whole); err != nil {
		return err
	}
	for _, problem := range whole.problems() {
		k.check.violate("reading all of %s again: %s", k.state.Topic, problem)
	}
	if len(k.check.problems()) > 0 {
		return errViolated
	}
	if err := deleteTopic(ctx, addr, k.state.Topic); err != nil {
		return err
	}
	k.state.Totals.Topics++
	fmt.Printf("%s: %d records, whole and in order\n", k.state.Topic, whole.records)
	fresh := newChecker()
	k.check.mu.Lock()
	defer k.check.mu.Unlock()
	k.check.streams, k.check.checkpoint = fresh.streams, fresh.checkpoint
	return nil
}

// finish stops clients and server. After a good end the directory of the cleanly stopped server must be clean.
func (k *killCampaign) finish(ctx context.Context, good bool) error {
	var err error
	if k.server != nil {
		err = k.server.Stop()
		if good && err == nil && k.server.Kind() == peer.Felix && k.o.verify {
			code, out, _, verifyErr := verifyLog(ctx, k.server.DataDir())
			if verifyErr != nil || code != verifyClean {
				k.check.violate("felix log verify after a clean stop: exit %d, %v\n%s", code, verifyErr, out)
			}
		}
	}
	if k.fleet != nil {
		err = errors.Join(err, k.fleet.abandon())
	}
	return err
}

// pause waits, or returns early with the context's cause.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
