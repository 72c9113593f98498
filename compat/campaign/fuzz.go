package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/felixlog/felix/compat/peer"
)

// fuzzGrace is how much longer than its minutes a target may take: to compile, to replay its corpus, to shrink what it found.
const fuzzGrace = 15 * time.Minute

// fuzzTarget is one target of the root module.
type fuzzTarget struct {
	dir  string // as the go command takes it: ./log/recordbatch
	name string // FuzzZstd
	file string // that holds it, from the root
}

// fuzzRun is what one target did; a row of the ledger lists them.
type fuzzRun struct {
	Target     string        `json:"target"`     // log/recordbatch.FuzzZstd
	Generation string        `json:"generation"` // of the code that ran
	Elapsed    time.Duration `json:"elapsed"`    // fuzzing, by the fuzzing engine's own clock
	Execs      int64         `json:"execs"`
	Failure    string        `json:"failure,omitempty"`
}

// fuzzCampaign is one run.
type fuzzCampaign struct {
	o    options
	root string    // of the module that is fuzzed
	path string    // of the state
	done []fuzzRun // by this campaign, an interrupted beginning of it included
}

// runFuzz runs every fuzz target of the root module for o.rounds minutes, one after the other.
func runFuzz(ctx context.Context, o options) (verdict, error) {
	f := &fuzzCampaign{o: o, root: filepath.Join(peer.ModuleDir(), ".."), path: filepath.Join(o.out, fmt.Sprintf("fuzz-%d.json", o.seed))}
	err := f.all(ctx)
	v := verdict{counts: fuzzRow(f.done), nothing: len(f.done) == 0}
	for _, r := range f.done {
		if r.Failure != "" {
			v.violations = append(v.violations, r.Failure)
		}
	}
	if ctx.Err() != nil {
		return v, err // the state stays for the next run
	}
	if removeErr := os.Remove(f.path); !errors.Is(removeErr, os.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return v, err
}

// all runs the targets that are not done.
func (f *fuzzCampaign) all(ctx context.Context) error {
	if err := f.load(); err != nil {
		return err
	}
	ledger, err := readFuzzLedger(f.o.ledger)
	if err != nil {
		return err
	}
	targets, err := f.targets(ctx)
	if err != nil {
		return err
	}
	for i, t := range targets {
		generation, err := f.generation(ctx, t)
		if err != nil {
			return err
		}
		if why := f.skip(t.id(), generation, ledger); why != "" {
			fmt.Printf("%2d/%d %s: %s\n", i+1, len(targets), t.id(), why)
			continue
		}
		r, err := f.run(ctx, t)
		if err != nil {
			return err
		}
		r.Generation = generation
		f.done = append(f.done, r)
		fmt.Printf("%2d/%d %s: %v, %d executions%s\n", i+1, len(targets), t.id(), r.Elapsed, r.Execs, failedNote(r))
		if err := f.save(); err != nil {
			return err
		}
	}
	return nil
}

func failedNote(r fuzzRun) string {
	if r.Failure != "" {
		return ", FAILED"
	}
	return ""
}

// skip says why a target need not run, or nothing.
func (f *fuzzCampaign) skip(id, generation string, ledger []fuzzRun) string {
	for _, r := range f.done {
		if r.Target == id && r.Generation == generation {
			return "done before the interruption"
		}
	}
	if f.o.targetTotal <= 0 {
		return ""
	}
	total := time.Duration(0)
	for _, r := range ledger {
		if r.Target == id && r.Generation == generation {
			total += r.Elapsed
		}
	}
	// The engine's clock ticks in seconds and may end one early.
	if want := time.Duration(f.o.targetTotal) * time.Minute; total >= want-time.Duration(f.o.targetTotal)*time.Second {
		return fmt.Sprintf("the ledger has %v of %v for this code", total, want)
	}
	return ""
}

// id is a target's name in the ledger. Names of targets alone are not unique.
func (t fuzzTarget) id() string { return strings.TrimPrefix(t.dir, "./") + "." + t.name }

// targets asks the script that `make fuzz` runs.
func (f *fuzzCampaign) targets(ctx context.Context) ([]fuzzTarget, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(f.root, "internal", "tools", "fuzz.sh"), "list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the fuzz targets: %w", err)
	}
	return parseTargets(out)
}

func parseTargets(list []byte) ([]fuzzTarget, error) {
	var out []fuzzTarget
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || path.Dir(fields[2]) != strings.TrimPrefix(fields[0], "./") {
			return nil, fmt.Errorf("list of fuzz targets: %q", line)
		}
		out = append(out, fuzzTarget{dir: fields[0], name: fields[1], file: fields[2]})
	}
	if len(out) == 0 {
		return nil, errors.New("there are no fuzz targets")
	}
	return out, nil
}

// run fuzzes one target. What it finds is no error, but the run's failure.
func (f *fuzzCampaign) run(ctx context.Context, t fuzzTarget) (fuzzRun, error) {
	minutes := time.Duration(f.o.rounds) * time.Minute
	if f.o.fuzzTime > 0 {
		minutes = f.o.fuzzTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, minutes+fuzzGrace, fmt.Errorf("%s did not end within %v of its time", t.id(), fuzzGrace))
	defer cancel()
	args := []string{"test", "-tags", "invariants", "-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", minutes.String(), "-timeout", "0"}
	if f.o.parallel > 0 {
		args = append(args, "-parallel", strconv.Itoa(f.o.parallel))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, t.dir)...)
	cmd.Dir = f.root
	// The go command starts the test binary, and that its workers: the group is what must end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return fuzzRun{}, context.Cause(ctx)
	}
	r := parseFuzzOutput(out.String())
	r.Target = t.id()
	switch {
	case runErr != nil && r.Elapsed >= minutes-2*time.Second && endedLate(out.String()):
		fmt.Printf("%s: the engine reported its own deadline, and no input\n", r.Target)
	case runErr != nil:
		fmt.Print(out.String())
		r.Failure = fmt.Sprintf("%s: %s", r.Target, failureOf(out.String(), runErr))
	case r.Execs == 0:
		r.Failure = r.Target + ": nothing was executed"
	}
	return r, nil
}

// fuzzProgress is a line of the fuzzing engine. It counts what was executed after the corpus was replayed too.
var fuzzProgress = regexp.MustCompile(`(?m)^fuzz: elapsed: (\S+), execs: (\d+) `)

// parseFuzzOutput takes elapsed time and executions from the engine's last line of progress.
func parseFuzzOutput(out string) fuzzRun {
	var r fuzzRun
	for _, m := range fuzzProgress.FindAllStringSubmatch(out, -1) {
		elapsed, err1 := time.ParseDuration(m[1])
		execs, err2 := strconv.ParseInt(m[2], 10, 64)
		if err1 == nil && err2 == nil {
			r.Elapsed, r.Execs = elapsed, execs
		}
	}
	return r
}

// lateEnd is all that the engine says when its time runs out while it waits for a worker: a failure in name, without an input. A target
// that hangs or panics is reported in other words, and with an input.
var lateEnd = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \(\S+\)\n    context deadline exceeded\nFAIL$`)

// endedLate says whether a failed run failed by nothing else.
func endedLate(out string) bool {
	return lateEnd.MatchString(out) && strings.Count(out, "--- FAIL") == 1 && !strings.Contains(out, "Failing input") && !strings.Contains(out, "panic")
}

// failureOf is one line that says what went wrong: where the failing input is, if one was kept.
func failureOf(out string, err error) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "Failing input written to") || strings.HasSuffix(line, "[build failed]") {
			return strings.ReplaceAll(line, "\t", " ")
		}
	}
	return err.Error()
}

// load takes up what an interrupted campaign of the same seed did.
func (f *fuzzCampaign) load() error {
	b, err := os.ReadFile(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &f.done); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	fmt.Printf("going on after %d targets\n", len(f.done))
	return nil
}

func (f *fuzzCampaign) save() error {
	b, err := json.MarshalIndent(f.done, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(f.path+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(f.path+".new", f.path)
}
