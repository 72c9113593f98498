package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/clients/driver"
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

	// fuzz
	parallel    int           // workers a target; 0 leaves it to the go command: all cores
	targetTotal int           // minutes a target that the ledger may already have; 0 does not look
	fuzzTime    time.Duration // a target, instead of rounds in minutes

	// hostile
	phase      time.Duration // measured part of a phase
	steadyRate int           // records a second of the healthy producer
	crowdRate  float64       // actions a second and connection
	only       string        // the only kind of hostile frame, or part of the names of disturbances; empty for all
}

// verdict is how a campaign ended.
type verdict struct {
	counts     string // for the ledger
	violations []string
	nothing    bool // there was nothing to do, so there is no row either
}

// exit codes
const (
	exitViolation   = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	driver.MaybeServe()
	var o options
	flag.StringVar(&o.kind, "kind", "kill", "kill, disk, hostile, streams, connect, groups, soak, native, client or fuzz")
	flag.IntVar(&o.rounds, "n", 10, "rounds: kills (kill, client), full disks, triples of hostile phases, disturbances; soak, native: minutes; fuzz: minutes a target")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the moments and choices")
	flag.StringVar(&o.ledger, "ledger", filepath.Join(peer.ModuleDir(), "..", "docs", "campaigns.md"), "page that gets a row; empty for none")
	flag.StringVar(&o.out, "out", filepath.Join(peer.ModuleDir(), "campaign", "out"), "directory of interrupted and failed campaigns")
	flag.IntVar(&o.rate, "rate", 2000, "records a second and producer, at most; large records come slower")
	flag.IntVar(&o.size, "size", 0, "bytes a record; 0 takes turns with every topic")
	flag.StringVar(&o.fsync, "fsync", "", "fsync mode: none, periodic, on_commit; empty takes turns")
	flag.BoolVar(&o.verify, "verify", true, "run felix log verify on the stopped directory")
	flag.IntVar(&o.parallel, "parallel", 0, "fuzz: workers; 0 is one a core")
	flag.IntVar(&o.targetTotal, "target-total", 0, "fuzz: skip targets for whose present code the ledger has this many minutes")
	flag.DurationVar(&o.fuzzTime, "fuzztime", 0, "fuzz: time a target instead of -n minutes, to try the campaign itself")
	flag.DurationVar(&o.phase, "phase", 5*time.Second, "hostile: how long each phase is measured")
	flag.IntVar(&o.steadyRate, "steady-rate", 500, "hostile: records a second of the healthy producer")
	flag.Float64Var(&o.crowdRate, "crowd-rate", 2, "hostile: actions a second of each of the other connections")
	flag.StringVar(&o.only, "only", "", "hostile: send only frames of this kind, to find what a kind costs; streams, connect: only disturbances with this in their name")
	crowd := flag.String("crowd", "", "hostile: what the campaign starts itself with, as the other connections")
	flag.Parse()
	if *crowd != "" {
		os.Exit(crowdMain(*crowd))
	}
	os.Exit(run(o))
}

// run runs a campaign to its end and returns the exit code.
func run(o options) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kinds := map[string]func(context.Context, options) (verdict, error){
		"kill": runKill, "disk": runDisk, "hostile": runHostile, "streams": runStreams, "connect": runConnect,
		"groups": runGroups, "soak": runSoak, "native": runNative, "client": runClient, "fuzz": runFuzz,
	}
	campaign := kinds[o.kind]
	if campaign == nil || o.rounds <= 0 || o.phase <= 0 || o.steadyRate <= 0 || o.crowdRate <= 0 {
		fmt.Fprintf(os.Stderr, "campaign: kind %q, %d rounds: want kill, disk, hostile, streams, connect, groups, soak, native, client or fuzz, at least one round, and rates above 0\n",
			o.kind, o.rounds)
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
	if o.kind == "fuzz" {
		if err := printFuzzTotals(os.Stdout, o.ledger); err != nil {
			fmt.Fprintln(os.Stderr, "ledger:", err)
			return exitViolation
		}
	}
	if len(v.violations) > 0 {
		return exitViolation
	}
	fmt.Println("ok")
	return 0
}

// errViolated ends a campaign whose checker has found something.
var errViolated = errors.New("the promise was broken")

// crowdMain is the child that plays the other connections of the hostile campaign.
func crowdMain(spec string) int {
	var o crowdOptions
	err := json.Unmarshal([]byte(spec), &o)
	if err == nil {
		err = runCrowd(o, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaign: connections:", err)
		return exitViolation
	}
	return 0
}
