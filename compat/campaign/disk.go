package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

const (
	diskPartitions = 3
	diskBytes      = 48 << 20
	diskValueBytes = 1000
	victimBytes    = 8 << 20
	// fillLimit is how long the producers may take to fill what the ballast leaves.
	fillLimit = 60 * time.Second
	// releaseLimit is how long the files of a deleted topic may take to go.
	releaseLimit = 30 * time.Second
)

// diskTotals are the counts of a disk campaign.
type diskTotals struct {
	rounds, kills, refusedStarts, byDelete, refusedDeletes int
	acks, records                                          int64
	full                                                   int // probes answered with 56
}

func (t diskTotals) String() string {
	return fmt.Sprintf("%d full disks (%d killed while full, %d of them only started with space; %d freed by deleting a topic, %d deletions refused while full), "+
		"%d storage errors seen, %d acknowledged, %d read", t.rounds, t.kills, t.refusedStarts, t.byDelete, t.refusedDeletes, t.full, t.acks, t.records)
}

// diskCampaign is one run.
type diskCampaign struct {
	o      options
	dir    string
	data   string // the tmpfs
	totals diskTotals
	check  *checker // of the present topic
	felix  peer.Peer
	fleet  *fleet
}

// runDisk fills the disk o.rounds times. It keeps no state: a round is short, and its number is its seed.
func runDisk(ctx context.Context, o options) (verdict, error) {
	d := &diskCampaign{o: o, dir: filepath.Join(o.out, fmt.Sprintf("disk-%d", o.seed)), check: newChecker()}
	d.data = filepath.Join(d.dir, "data")
	unmount, err := d.mount(ctx)
	if err != nil {
		return verdict{counts: d.totals.String()}, err
	}
	err = d.start(ctx)
	for round := 1; err == nil && round <= o.rounds; round++ {
		err = d.round(ctx, round)
	}
	if errors.Is(err, errViolated) {
		err = nil
	}
	v := verdict{violations: d.check.problems(), counts: d.totals.String()}
	good := err == nil && len(v.violations) == 0
	err = errors.Join(err, d.finish())
	if !good {
		kept := filepath.Join(d.dir, "data-kept")
		out, cpErr := exec.Command("cp", "-a", d.data, kept).CombinedOutput()
		if cpErr != nil {
			err = errors.Join(err, fmt.Errorf("keep the data directory: %w: %s", cpErr, out))
		}
		fmt.Println("data directory and log are kept in", d.dir)
	}
	err = errors.Join(err, unmount())
	if good {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	return v, err
}

// mount puts a small tmpfs where the peer keeps the server's data, and returns what takes it away.
func (d *diskCampaign) mount(ctx context.Context) (unmount func() error, err error) {
	// A campaign that was killed leaves its mount behind.
	_ = exec.CommandContext(ctx, "umount", "-l", d.data).Run()
	if err := errors.Join(os.RemoveAll(d.dir), os.MkdirAll(d.data, 0o755)); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", diskBytes), "felix-campaign", d.data).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("a disk campaign needs to mount a tmpfs (as root): %w: %s", err, strings.TrimSpace(string(out)))
	}
	return func() error {
		if out, err := exec.Command("umount", d.data).CombinedOutput(); err != nil {
			return fmt.Errorf("umount: %w: %s", err, out)
		}
		return nil
	}, nil
}

func (d *diskCampaign) start(ctx context.Context) error {
	mode := d.o.fsync
	if mode == "" {
		mode = []string{"periodic", "none", "on_commit"}[d.o.seed%3]
	}
	fmt.Printf("fsync mode %s, seed %d, %d MiB at %s\n", mode, d.o.seed, diskBytes>>20, d.data)
	var err error
	if d.fleet, err = openFleet(ctx); err != nil {
		return err
	}
	if d.felix, err = peer.NewFelix(peer.Options{Dir: d.dir, FelixEnv: []string{"FELIX_DURABLE_FSYNC_MODE=" + mode}}); err != nil {
		return err
	}
	if err := d.felix.Start(ctx); err != nil {
		return err
	}
	return createTopic(ctx, d.felix.Addr(), probeTopic, 1)
}

// round fills the disk once and frees it again.
func (d *diskCampaign) round(ctx context.Context, number int) error {
	random := rand.New(rand.NewPCG(d.o.seed, uint64(number)))
	began := time.Now()
	topic, victim := fmt.Sprintf("campaign.disk-%d", number), fmt.Sprintf("campaign.victim-%d", number)
	addr := d.felix.Addr()
	if err := errors.Join(createTopic(ctx, addr, topic, diskPartitions), createTopic(ctx, addr, victim, 1), fillTopic(ctx, addr, victim, victimBytes)); err != nil {
		return err
	}
	if err := d.fleet.start(ctx, addr, topic, diskPartitions, number, d.o.rate, diskValueBytes, d.check); err != nil {
		return err
	}
	if err := d.fleet.awaitProgress(ctx, make([]int64, len(d.fleet.loads)), progressLimit); err != nil {
		return err
	}
	room := int64(2<<20) + random.Int64N(8<<20)
	ballast, err := d.ballast(room)
	if err != nil {
		return err
	}
	p, err := startProbe(addr)
	if err != nil {
		return err
	}
	err = d.whileFull(ctx, random, p, topic)
	how := ""
	if err == nil {
		how, err = d.free(ctx, random, victim, ballast)
	}
	seen, other := p.stop()
	d.totals.full += seen
	for code, text := range other {
		d.check.violate("the probe was answered with error %d: %s", code, text)
	}
	if err != nil {
		return err
	}
	if err := d.retire(ctx, topic); err != nil {
		return err
	}
	// The victim is gone already if deleting it was the way to free space.
	if err := deleteTopic(ctx, addr, victim); err != nil && !errors.Is(err, errNoTopic) {
		return err
	}
	if err := d.awaitFree(ctx, diskBytes/2); err != nil {
		return err
	}
	d.totals.rounds++
	fmt.Printf("full disk %d/%d: %d KiB of room, %d storage errors seen, %s, %d acknowledged so far, all there, %v\n",
		number, d.o.rounds, room>>10, seen, how, d.totals.acks, time.Since(began).Round(time.Millisecond))
	if len(d.check.problems()) > 0 {
		return errViolated
	}
	return nil
}

// whileFull waits for the first storage error, holds the disk full for a moment, and checks that the server still lives and reads;
// in a third of the rounds it is killed and started again.
func (d *diskCampaign) whileFull(ctx context.Context, random *rand.Rand, p *probe, topic string) error {
	if err := p.awaitFull(ctx, fillLimit); err != nil {
		return err
	}
	if err := pause(ctx, time.Duration(500+random.IntN(1500))*time.Millisecond); err != nil {
		return err
	}
	if err := syscall.Kill(d.felix.PID(), 0); err != nil {
		return fmt.Errorf("the server ended when the disk was full: %w", err)
	}
	if err := readNew(ctx, d.felix.Addr(), topic, d.check); err != nil {
		return fmt.Errorf("reading while the disk is full: %w", err)
	}
	if random.IntN(3) != 0 {
		return nil
	}
	d.totals.kills++
	if err := d.felix.Kill9(); err != nil {
		return err
	}
	if !d.o.verify {
		return nil
	}
	code, out, _, err := verifyLog(ctx, d.felix.DataDir())
	if err != nil || (code != verifyClean && code != verifyRepair) {
		return fmt.Errorf("felix log verify: exit %d after a kill on a full disk, %w\n%s", code, err, out)
	}
	return nil
}

// free gives the space back, by one of two ways, and waits until every client goes on.
func (d *diskCampaign) free(ctx context.Context, random *rand.Rand, victim, ballast string) (how string, err error) {
	deleting := random.IntN(2) == 0
	if d.felix.PID() == 0 {
		how = "killed, "
		// Without any space a server may refuse to start, and must say so; with space it must start.
		startCtx, cancel := context.WithTimeout(ctx, startLimit)
		err := d.felix.Restart(startCtx)
		cancel()
		if err != nil {
			d.totals.refusedStarts++
			how += "no start while full, "
			deleting = false
			if err := os.Remove(ballast); err != nil {
				return how, err
			}
			if err := d.felix.Restart(ctx); err != nil {
				return how, fmt.Errorf("start after space returned: %w", err)
			}
		}
	}
	before := d.fleet.counts()
	if deleting {
		d.totals.byDelete++
		how += "freed by deleting a topic"
		if err := deleteTopic(ctx, d.felix.Addr(), victim); err != nil {
			d.totals.refusedDeletes++
			how += " (refused: " + err.Error() + ")"
			deleting = false
		}
	}
	if deleting {
		if err := d.fleet.awaitProgress(ctx, before, progressLimit); err != nil {
			return how, fmt.Errorf("after deleting a topic: %w", err)
		}
	} else {
		how += "freed by removing a file"
	}
	if err := os.Remove(ballast); err != nil && !errors.Is(err, os.ErrNotExist) {
		return how, err
	}
	if err := d.fleet.awaitProgress(ctx, d.fleet.counts(), progressLimit); err != nil {
		return how, fmt.Errorf("after space returned: %w", err)
	}
	return how, nil
}

// retire ends the round's topic: producers get all their answers, everything is read, and read again from the beginning.
func (d *diskCampaign) retire(ctx context.Context, topic string) error {
	sent, err := d.fleet.halt()
	if err != nil {
		return err
	}
	addr := d.felix.Addr()
	if err := readNew(ctx, addr, topic, d.check); err != nil {
		return err
	}
	for name, counts := range sent {
		d.check.mustEnd(name, counts)
	}
	whole := newChecker()
	if err := readNew(ctx, addr, topic, whole); err != nil {
		return err
	}
	for _, problem := range whole.problems() {
		d.check.violate("reading all of %s again: %s", topic, problem)
	}
	d.totals.acks += d.check.acks
	d.totals.records += d.check.records
	if len(d.check.problems()) > 0 {
		return errViolated
	}
	d.check = newChecker()
	return deleteTopic(ctx, addr, topic)
}

// ballast writes a file that leaves room bytes, and returns its name.
func (d *diskCampaign) ballast(room int64) (string, error) {
	free, err := d.freeBytes()
	if err != nil {
		return "", err
	}
	name := filepath.Join(d.data, "ballast")
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	err = syscall.Fallocate(int(f.Fd()), 0, 0, max(free-room, 4096))
	return name, errors.Join(err, f.Close())
}

func (d *diskCampaign) freeBytes() (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.data, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// awaitFree waits until deleted topics have given their files back.
func (d *diskCampaign) awaitFree(ctx context.Context, want int64) error {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	for {
		free, err := d.freeBytes()
		if err != nil {
			return err
		}
		if free >= want {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("deleted topics still hold the disk: %d bytes free, want %d: %w", free, want, err)
		}
	}
}

func (d *diskCampaign) finish() error {
	var err error
	if d.felix != nil {
		err = d.felix.Stop()
	}
	if d.fleet != nil {
		err = errors.Join(err, d.fleet.abandon())
	}
	return err
}
