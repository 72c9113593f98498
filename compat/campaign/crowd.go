package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/raw"
)

// crowd actions are at most one a tick for every connection, and have a tick's time at most.
const (
	crowdSize = 200
	// crowdReady is what the child says when all its connections are open.
	crowdReady = "ready"
	// crowdStopLimit is how long the child may take to end; a valid request may wait for raw.Timeout.
	crowdStopLimit = raw.Timeout + 10*time.Second
)

// crowdOptions describe a crowd; they travel to the child as JSON.
type crowdOptions struct {
	Kind   phaseKind `json:"kind"`
	Addr   string    `json:"addr"`
	Topic  string    `json:"topic"`  // of two partitions: the first takes valid records, the other is attacked
	Opened string    `json:"opened"` // the same, compacted: its batches are opened when they come
	Only   string    `json:"only"`   // the only kind of hostile frame; empty for all
	Size   int       `json:"size"`   // connections
	Rate   float64   `json:"rate"`   // actions a second and connection
	Seed   uint64    `json:"seed"`
}

// crowdReport is what a crowd did.
type crowdReport struct {
	Actions  map[string]int64 `json:"actions"` // by name
	Closed   int64            `json:"closed"`  // connections that the server ended
	Answers  int64            `json:"answers"` // reads that found bytes
	Problems []string         `json:"problems"`
}

func (r *crowdReport) total() int64 {
	n := int64(0)
	for _, count := range r.Actions {
		n += count
	}
	return n
}

// add takes other's counts in.
func (r *crowdReport) add(other crowdReport) {
	if r.Actions == nil {
		r.Actions = map[string]int64{}
	}
	for name, n := range other.Actions {
		r.Actions[name] += n
	}
	r.Closed += other.Closed
	r.Answers += other.Answers
	r.Problems = append(r.Problems, other.Problems...)
	r.Problems = r.Problems[:min(len(r.Problems), maxViolations)]
}

// member is one connection's behaviour. act takes one action and names it; it may block until the deadline. close ends it.
type member interface {
	act(deadline time.Time) (name string, err error)
	close()
}

// runCrowd is the child: it opens the connections, says so, and acts until its input ends. Then it prints its report. It is a process
// of its own so that its work and its garbage do not delay the producer that is measured, other than as any load on the machine does.
func runCrowd(o crowdOptions, in io.Reader, out io.Writer) error {
	shapes, err := newArsenal(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total crowdReport
		open  = make(chan error, o.Size)
		begin = make(chan struct{})
	)
	for i := range o.Size {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(o.Seed, uint64(i)))
			report := crowdReport{Actions: map[string]int64{}}
			c, err := raw.Dial(o.Addr)
			open <- err
			if err != nil {
				return
			}
			var m member = &busyClient{o: o, c: c, random: random, report: &report}
			if o.Kind == phaseHostile {
				m = &attacker{o: o, c: c, arsenal: shapes, random: random, report: &report}
			}
			defer m.close()
			<-begin
			actAtRate(ctx, m, o.Rate, random, &report)
			mu.Lock()
			defer mu.Unlock()
			total.add(report)
		})
	}
	for range o.Size {
		err = errors.Join(err, <-open)
	}
	if err == nil {
		_, err = fmt.Fprintln(out, crowdReady)
	}
	close(begin)
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	cancel()
	wg.Wait()
	return errors.Join(err, json.NewEncoder(out).Encode(total))
}

// actAtRate lets a member act at most once a tick. A tick that is missed is not made up for: the rate is a bound.
func actAtRate(ctx context.Context, m member, rate float64, random *rand.Rand, report *crowdReport) {
	interval := time.Duration(float64(time.Second) / rate)
	// Connections act at moments of their own, spread over the first tick.
	if pause(ctx, time.Duration(random.Int64N(int64(interval)))) != nil {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		name, err := m.act(time.Now().Add(interval * 9 / 10))
		if err != nil {
			report.Problems = append(report.Problems, fmt.Sprintf("%s: %v", name, err))
			return
		}
		report.Actions[name]++
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// crowd is the parent's hold on the child.
type crowd struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
	dec *json.Decoder
}

// startCrowd starts this program again as a crowd, and returns when all its connections are open.
func startCrowd(ctx context.Context, o crowdOptions) (*crowd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := &crowd{cmd: exec.CommandContext(ctx, self, "-crowd", string(spec))}
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	var word string
	if _, err := fmt.Fscanln(c.out, &word); err != nil || word != crowdReady {
		return nil, errors.Join(fmt.Errorf("the %s connections do not open: %q, %w", o.Kind, word, err), c.cmd.Process.Kill(), c.cmd.Wait())
	}
	c.dec = json.NewDecoder(c.out)
	return c, nil
}

// stop ends the child and returns what it did.
func (c *crowd) stop() (crowdReport, error) {
	limit := time.AfterFunc(crowdStopLimit, func() { _ = c.cmd.Process.Kill() })
	defer limit.Stop()
	var report crowdReport
	err := c.in.Close()
	err = errors.Join(err, c.dec.Decode(&report))
	return report, errors.Join(err, c.cmd.Wait())
}
