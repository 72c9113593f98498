package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// options are the command line.
type options struct {
	kind   string
	rounds int
	seed   uint64
	ledger string
	out    string // where an interrupted campaign and the remains of a failed one are kept
	rate   int    // records a second and producer
	size   int    // bytes a value
	fsync  string
	verify bool
}

// verdict is how a campaign ended.
type verdict struct {
	counts     string // for the ledger
	violations []string
}

// exit codes
const (
	exitViolation   = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	var o options
	flag.StringVar(&o.kind, "kind", "kill", "kill or disk")
	flag.IntVar(&o.rounds, "n", 10, "rounds: kills, or full disks")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the moments and choices")
	flag.StringVar(&o.ledger, "ledger", filepath.Join(peer.ModuleDir(), "..", "docs", "campaigns.md"), "page that gets a row; empty for none")
	flag.StringVar(&o.out, "out", filepath.Join(peer.ModuleDir(), "campaign", "out"), "directory of interrupted and failed campaigns")
	flag.IntVar(&o.rate, "rate", 2000, "records a second and producer, at most; large records come slower")
	flag.IntVar(&o.size, "size", 0, "bytes a record; 0 takes turns with every topic")
	flag.StringVar(&o.fsync, "fsync", "", "fsync mode: none, periodic, on_commit; empty takes turns")
	flag.BoolVar(&o.verify, "verify", true, "run felix log verify on the stopped directory")
	flag.Parse()
	os.Exit(run(o))
}

// run runs a campaign to its end and returns the exit code.
func run(o options) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kinds := map[string]func(context.Context, options) (verdict, error){"kill": runKill, "disk": runDisk}
	campaign := kinds[o.kind]
	if campaign == nil || o.rounds <= 0 {
		fmt.Fprintf(os.Stderr, "campaign: kind %q, %d rounds: want kill or disk, and at least one\n", o.kind, o.rounds)
		return exitUsage
	}
	started := time.Now()
	v, err := campaign(ctx, o)
	if ctx.Err() != nil {
		fmt.Println("interrupted; the same command goes on from here")
		return exitInterrupted
	}
	if err != nil {
		// What stopped the campaign is a finding too: a server that does not start again is the worst of them.
		v.violations = append(v.violations, err.Error())
	}
	fmt.Printf("\n%s: %s, in %v\n", o.kind, v.counts, time.Since(started).Round(time.Second))
	for _, violation := range v.violations {
		fmt.Println("VIOLATION:", violation)
	}
	if err := appendLedger(o, v); err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		return exitViolation
	}
	if len(v.violations) > 0 {
		return exitViolation
	}
	fmt.Println("ok")
	return 0
}

// errViolated ends a campaign whose checker has found something.
var errViolated = errors.New("the promise was broken")
