package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/felixlog/felix/compat/bench/internal/procfs"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// quietShare is the busy share of the machine up to which it counts as idle.
const quietShare = 0.03

// bench is one invocation.
type bench struct {
	in       *server.Installation
	root     string
	work     string // everything written goes below it, and is removed at the end
	trials   int
	quick    bool
	only     string // part of the sub-row's name
	servers  []server.Kind
	java     bool
	profiles string  // directory for CPU profiles of Felix; empty for none
	seconds  float64 // length of P8
	run      *report.Run
}

// row is one of P1 to P13.
type row struct {
	name string
	run  func(*bench, context.Context) error
}

var rows = []row{
	{"P1", (*bench).p1},
	{"P2", (*bench).p2},
	{"P3", (*bench).p3},
	{"P4", (*bench).p4},
	{"P5", (*bench).p5},
	{"P6", (*bench).p6},
	{"P7", (*bench).p7},
	{"P8", (*bench).p8},
	{"P8b", (*bench).p8b},
	{"P8c", (*bench).p8c},
	{"P9", (*bench).p9},
	{"P10", (*bench).p10},
	{"P11", (*bench).p11},
	{"P12", (*bench).p12},
	{"P13", (*bench).p13},
}

// runBench parses the flags and runs the rows asked for.
func runBench(ctx context.Context, args []string) error {
	b := &bench{root: repoRoot(), run: &report.Run{Started: time.Now()}}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	rowList := fs.String("rows", "", "rows to run, such as P1,P3; default all")
	fs.StringVar(&b.only, "only", "", "run only sub-rows whose name contains this")
	fs.IntVar(&b.trials, "trials", 5, "trials of each server")
	fs.BoolVar(&b.quick, "quick", false, "one short trial of each row: a check of the harness, not a figure")
	serverList := fs.String("servers", "kafka,felix,null,relay,nats,nats-tls", "servers to run")
	fs.BoolVar(&b.java, "java", true, "quote Kafka's own producer-perf-test in P1")
	fs.StringVar(&b.profiles, "cpuprofile", "", "directory for CPU profiles of Felix, one a sub-row, from one more trial that is not counted")
	fs.Float64Var(&b.seconds, "p8-seconds", 300, "length of P8")
	felix := fs.String("felix", filepath.Join(b.root, "bin", "felix"), "Felix's binary")
	work := fs.String("work", "", "directory for data, up to 20 GiB; default a new one in the temporary directory")
	noDocs := fs.Bool("no-docs", false, "leave docs/benchmarks.md and results/ as they are")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if b.quick {
		b.trials, b.seconds, b.java = 1, min(b.seconds, 6), false
	}
	for s := range strings.SplitSeq(*serverList, ",") {
		b.servers = append(b.servers, server.Kind(s))
	}
	if err := b.prepare(ctx, *felix, *work, *rowList); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.work) }()
	runErr := b.rows(ctx, *rowList)
	if len(b.run.Subs) == 0 || *noDocs {
		return runErr
	}
	path, err := b.run.Save(filepath.Join(b.root, "compat", "bench", "results"))
	if err != nil {
		return err
	}
	b.say("results: %s", path)
	if err := rewriteDocs(b.root); err != nil {
		return err
	}
	return runErr
}

// rows runs the rows of a comma-separated list, all when it is empty. A row that fails does not keep the next from running.
func (b *bench) rows(ctx context.Context, list string) error {
	var failed []string
	for _, r := range rows {
		if list != "" && !slices.Contains(strings.Split(list, ","), r.name) {
			continue
		}
		start := time.Now()
		if err := r.run(b, ctx); err != nil {
			b.say("%s is incomplete: %.300v", r.name, err)
			failed = append(failed, r.name)
		}
		b.say("%s took %.0f s", r.name, time.Since(start).Seconds())
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("rows that could not be measured: %s", strings.Join(failed, ", "))
	}
	return nil
}

// prepare finds the programs, makes the work directory and looks whether the machine is idle.
func (b *bench) prepare(ctx context.Context, felix, work, rowList string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if work == "" {
		work = os.TempDir()
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp(work, "felix-bench-"); err != nil {
		return err
	}
	b.in = &server.Installation{FelixBinary: felix, Self: self, LogDir: filepath.Join(b.work, "logs")}
	isNative := func(row string) bool { return slices.Contains(nativeRows, row) }
	if wanted(rowList, isNative) {
		if err := b.preparePeers(ctx); err != nil {
			return err
		}
	}
	if b.has(server.Kafka) && wanted(rowList, func(row string) bool { return !isNative(row) }) {
		if b.in.KafkaLibs, err = server.FindKafka(ctx, filepath.Join(b.root, "compat")); err != nil {
			return err
		}
	}
	b.run.Quick, b.run.Trials = b.quick, b.trials
	b.run.Commit = output(ctx, "git", "-C", b.root, "rev-parse", "--short", "HEAD")
	b.run.Machine = machine(b.work)
	b.run.Before, err = idle(ctx, 2*time.Second)
	if err != nil {
		return err
	}
	b.say("machine: %s; busy %.1f %%, stolen %.1f %%, quiet: %v", b.run.Machine, 100*b.run.Before.BusyShare,
		100*b.run.Before.Steal, b.run.Before.Quiet)
	return nil
}

// preparePeers makes what the peers of the native rows need.
func (b *bench) preparePeers(ctx context.Context) (err error) {
	if b.in.TLS, err = server.NewTLSDir(filepath.Join(b.work, "tls")); err != nil {
		return err
	}
	if !b.has(server.NATS) && !b.has(server.NATSTLS) {
		return nil
	}
	b.in.NATSBinary = filepath.Join(b.work, "nats-server")
	return server.BuildNATS(ctx, filepath.Join(b.root, "compat", "bench"), b.in.NATSBinary)
}

// idle watches the machine for a while and says whether it is quiet.
func idle(ctx context.Context, d time.Duration) (report.Idle, error) {
	before, err := procfs.ReadMachine()
	if err != nil {
		return report.Idle{}, err
	}
	if err := pause(ctx, d); err != nil {
		return report.Idle{}, err
	}
	after, err := procfs.ReadMachine()
	if err != nil {
		return report.Idle{}, err
	}
	m := after.Sub(before)
	i := report.Idle{Seconds: d.Seconds(), BusyShare: m.Busy.Seconds() / m.Total.Seconds(), Steal: m.Steal.Seconds() / m.Total.Seconds()}
	i.Quiet = i.BusyShare+i.Steal <= quietShare
	return i, nil
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// machine describes processors, memory and the file system of the work directory.
func machine(work string) string {
	var uts unix.Utsname
	_ = unix.Uname(&uts)
	var info unix.Sysinfo_t
	_ = unix.Sysinfo(&info)
	var fs unix.Statfs_t
	_ = unix.Statfs(work, &fs)
	kind := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.TMPFS_MAGIC: "tmpfs", unix.XFS_SUPER_MAGIC: "xfs"}[fs.Type]
	if kind == "" {
		kind = fmt.Sprintf("file system %#x", fs.Type)
	}
	return fmt.Sprintf("%d processors, %d GiB, Linux %s, %s, %s", runtime.NumCPU(), (info.Totalram*uint64(info.Unit)+1<<29)>>30,
		unix.ByteSliceToString(uts.Release[:]), kind, runtime.Version())
}

func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// say prints one line of progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}
