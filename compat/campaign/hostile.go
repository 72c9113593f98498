package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

const (
	hostileTopic = "campaign.steady"
	crowdTopic   = "campaign.crowd"
	openedTopic  = "campaign.opened"
	// hostileBudget is the memory budget of the server under test: half its default, so that the bound is one that can be missed.
	hostileBudget = 128 << 20
	// steadySize is the size of the healthy producer's records.
	steadySize = 200
	// settle is how long a crowd acts before anything is measured.
	settle = time.Second
)

// hostileCampaign is one run.
type hostileCampaign struct {
	o      options
	dir    string
	felix  peer.Peer
	steady *steady
	check  *checker
	result hostileResult
}

// runHostile measures a healthy producer alone, beside valid and beside hostile connections, o.rounds times.
func runHostile(ctx context.Context, o options) (verdict, error) {
	h := &hostileCampaign{o: o, dir: filepath.Join(o.out, fmt.Sprintf("hostile-%d", o.seed)), check: newChecker()}
	h.result.budget = hostileBudget
	if o.only != "" && !slices.Contains(frameKinds, o.only) {
		return verdict{}, fmt.Errorf("-only %q: want one of %v", o.only, frameKinds)
	}
	err := h.prepare(ctx)
	if err == nil {
		err = h.rounds(ctx)
	}
	if err == nil {
		err = h.settleUp(ctx)
	}
	if h.felix != nil {
		err = errors.Join(err, h.felix.Stop())
	}
	counts := h.result.String()
	if o.only != "" {
		counts = "only frames of kind " + o.only + ": " + counts
	}
	v := verdict{counts: counts, violations: h.check.problems()}
	if err == nil {
		v.violations = append(v.violations, h.result.problems()...)
		h.print()
	}
	if ctx.Err() == nil && err == nil && len(v.violations) == 0 {
		return v, os.RemoveAll(h.dir)
	}
	fmt.Println("data directory and log are kept in", h.dir)
	return v, err
}

func (h *hostileCampaign) prepare(ctx context.Context) error {
	if err := os.RemoveAll(h.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		return err
	}
	env := []string{
		fmt.Sprintf("FELIX_MEMORY_BUDGET_BYTES=%d", int64(hostileBudget)),
		"FELIX_KAFKA_AUTO_CREATE_TOPICS=false", // a damaged name must not become a topic
	}
	if h.o.fsync != "" {
		env = append(env, "FELIX_DURABLE_FSYNC_MODE="+h.o.fsync)
	}
	var err error
	if h.felix, err = peer.NewFelix(peer.Options{Dir: h.dir, FelixEnv: env}); err != nil {
		return err
	}
	if err := h.felix.Start(ctx); err != nil {
		return err
	}
	addr := h.felix.Addr()
	if err := errors.Join(createTopic(ctx, addr, hostileTopic, 1), createTopic(ctx, addr, crowdTopic, 2), createCompacted(ctx, addr, openedTopic, 2)); err != nil {
		return err
	}
	fmt.Printf("healthy producer: %d records of %d bytes a second; %d connections, %g actions a second each; phases of %v; seed %d\n",
		h.o.steadyRate, steadySize, crowdSize, h.o.crowdRate, h.o.phase, h.o.seed)
	h.steady, err = startSteady(addr, hostileTopic, h.o.steadyRate, steadySize, h.check)
	return err
}

func (h *hostileCampaign) rounds(ctx context.Context) error {
	for round := range h.o.rounds {
		random := rand.New(rand.NewPCG(h.o.seed, uint64(round)))
		// The order is drawn anew every round: what drifts on the machine then meets all kinds.
		for _, i := range random.Perm(len(phaseKinds)) {
			p, err := h.phase(ctx, phaseKinds[i], random.Uint64())
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, phaseKinds[i], err)
			}
			h.result.phases = append(h.result.phases, p)
			fmt.Printf("round %d/%d %-7s: %d records, p50 %s p99 %s max %s ms; server %.2f cores, peak memory %d MiB; %d actions, %d closed, %d answers\n",
				round+1, h.o.rounds, p.kind, p.records, ms(p.p50), ms(p.p99), ms(p.max), p.cpu.Seconds()/h.o.phase.Seconds(), p.peak>>20,
				p.crowd.total(), p.crowd.Closed, p.crowd.Answers)
		}
	}
	return nil
}

// phase measures the producer for a while beside a crowd, or alone.
func (h *hostileCampaign) phase(ctx context.Context, kind phaseKind, seed uint64) (phase, error) {
	p := phase{kind: kind}
	pid := h.felix.PID()
	if err := resetPeak(pid); err != nil {
		return p, err
	}
	var c *crowd
	var err error
	began := time.Now()
	if kind != phaseAlone {
		c, err = startCrowd(ctx, crowdOptions{Kind: kind, Addr: h.felix.Addr(), Topic: crowdTopic, Opened: openedTopic, Only: h.o.only, Size: crowdSize, Rate: h.o.crowdRate, Seed: seed})
		if err != nil {
			return p, err
		}
		began = time.Now()
	}
	err = h.measure(ctx, pid, &p)
	if c != nil {
		p.want = int64(time.Since(began).Seconds() * h.o.crowdRate * crowdSize)
		report, stopErr := c.stop()
		p.crowd, err = report, errors.Join(err, stopErr)
	}
	if err != nil {
		return p, err
	}
	p.peak, err = peakMemory(pid)
	return p, err
}

// measure waits for the crowd to settle and then looks at the producer for the phase's length.
func (h *hostileCampaign) measure(ctx context.Context, pid int, p *phase) error {
	if err := pause(ctx, settle); err != nil {
		return err
	}
	before, err := cpuTime(pid)
	if err != nil {
		return err
	}
	from := time.Now()
	if err := pause(ctx, h.o.phase); err != nil {
		return err
	}
	to := time.Now()
	after, err := cpuTime(pid)
	if err != nil {
		return err
	}
	p.cpu = after - before
	latencies, err := h.steady.window(ctx, from, to)
	if err != nil {
		return err
	}
	p.records = len(latencies)
	p.p50, p.p99, p.max = quantile(latencies, 0.5), quantile(latencies, 0.99), quantile(latencies, 1)
	return nil
}

// settleUp ends the producer and checks that every record it sent was acknowledged and is in the log, once and in order.
func (h *hostileCampaign) settleUp(ctx context.Context) error {
	sent, err := h.steady.stop(ctx)
	if err != nil {
		return err
	}
	for _, failure := range h.steady.failures() {
		h.check.violate("%s", failure)
	}
	if err := readNew(ctx, h.felix.Addr(), hostileTopic, h.check); err != nil {
		return err
	}
	h.check.mustEnd(steadyName, []int64{sent})
	fmt.Printf("%d records of the healthy producer, all acknowledged and in the log\n", sent)
	return nil
}

// print writes the table of medians and what the hostile connections did.
func (h *hostileCampaign) print() {
	fmt.Printf("\n%-8s %9s %9s %9s   (medians of %d rounds, ms)\n", "phase", "p50", "p99", "max", h.result.count(phaseHostile))
	for _, kind := range phaseKinds {
		over := func(of func(phase) time.Duration) string { return ms(h.result.over(kind, of)) }
		fmt.Printf("%-8s %9s %9s %9s\n", kind, over(func(p phase) time.Duration { return p.p50 }),
			over(func(p phase) time.Duration { return p.p99 }), over(func(p phase) time.Duration { return p.max }))
	}
	fmt.Printf("p99 beside hostile connections may be %g times that beside valid ones and %s ms: %s ms\n", crowdFactor, ms(noiseFloor), ms(h.result.allowed()))
	var did crowdReport
	for _, p := range h.result.phases {
		if p.kind == phaseHostile {
			did.add(p.crowd)
		}
	}
	fmt.Println("hostile actions:", did.Actions)
}

// resetPeak lets the process's peak of resident memory begin anew.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// peakMemory is the process's peak of resident memory since resetPeak, in bytes.
func peakMemory(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(b), "VmHWM:")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, errors.New("the process has no VmHWM: it has ended")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

// cpuTime is the process's user and system time so far.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2) // USER_HZ is 100 on every Linux that Go runs on
}
