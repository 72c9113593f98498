package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// loadTimeout bounds one client process.
const loadTimeout = 15 * time.Minute

// sub starts a sub-row; it returns nil when -only leaves it out.
func (b *bench) sub(row, name, workload string, columns ...string) *report.Sub {
	if !strings.Contains(name, b.only) {
		return nil
	}
	s := &report.Sub{Row: row, Name: name, Workload: workload, Columns: columns}
	b.run.Subs = append(b.run.Subs, s)
	return s
}

// has reports whether a server takes part.
func (b *bench) has(k server.Kind) bool { return slices.Contains(b.servers, k) }

// interleave runs trial for each of the servers that take part in turn: see takeTurns.
func (b *bench) interleave(ctx context.Context, s *report.Sub, kinds []server.Kind, trial func(ctx context.Context, k server.Kind) (report.Figures, error)) error {
	var some []server.Kind
	for _, k := range kinds {
		if b.has(k) {
			some = append(some, k)
		}
	}
	return b.takeTurns(ctx, s, some, trial)
}

// takeTurns runs trial for each kind in turn, as often as -trials says, and once more for Felix with a profile if wanted. A kind whose
// trial fails is left out of the rest of the sub-row and the error is noted and returned at the end.
func (b *bench) takeTurns(ctx context.Context, s *report.Sub, kinds []server.Kind, trial func(ctx context.Context, k server.Kind) (report.Figures, error)) error {
	var errs []error
	broken := map[server.Kind]bool{}
	one := func(k server.Kind, counted bool) {
		if broken[k] {
			return
		}
		f, err := trial(ctx, k)
		if err != nil {
			broken[k] = true
			err = fmt.Errorf("%s %s on %s: %w", s.Row, s.Name, k, err)
			b.say("%v", err)
			errs = append(errs, err)
			s.Notes = append(s.Notes, fmt.Sprintf("%s could not be measured: %v", k, err))
			return
		}
		if counted && len(f) > 0 {
			s.Add(string(k), f)
			b.say("%s %-28s %-8s %s", s.Row, s.Name, k, show(s.Columns, f))
		}
	}
	for range b.trials {
		for _, k := range kinds {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			one(k, true)
		}
	}
	if b.profiles != "" && slices.Contains(kinds, server.Felix) {
		ctx := context.WithValue(ctx, profileKey{}, filepath.Join(b.profiles, safe(s.Row+"-"+s.Name)+".pprof"))
		f, err := trial(ctx, server.Felix)
		b.say("%s %-28s profiled %s %v", s.Row, s.Name, show(s.Columns, f), orNone(err))
	}
	return errors.Join(errs...)
}

// profileKey is the context key of the path that the next measured part's CPU profile goes to.
type profileKey struct{}

func orNone(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/ ,", r) {
			return '-'
		}
		return r
	}, s)
}

func show(columns []string, f report.Figures) string {
	var sb strings.Builder
	for _, c := range columns {
		if v, ok := f[c]; ok {
			fmt.Fprintf(&sb, "%s=%.4g ", c, v)
		}
	}
	return sb.String()
}

// dir returns a fresh data directory.
func (b *bench) dir(k server.Kind) (string, error) {
	parent, err := os.MkdirTemp(b.work, string(k)+"-")
	return filepath.Join(parent, "data"), err
}

// settle writes dirty pages back, so that one trial does not pay for another's.
func settle() { unix.Sync() }

// withServer starts a fresh server, runs f and stops it. Without a data directory in cfg it makes a fresh one and removes it after.
func (b *bench) withServer(ctx context.Context, cfg server.Config, f func(*server.Server) error) (err error) {
	keep := cfg.DataDir != ""
	if !keep {
		if cfg.DataDir, err = b.dir(cfg.Kind); err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, os.RemoveAll(filepath.Dir(cfg.DataDir)))
			settle()
		}()
	}
	s, err := b.in.Start(ctx, cfg)
	if err != nil {
		return err
	}
	if err := f(s); err != nil {
		_ = s.Kill()
		return fmt.Errorf("%w%s", err, tail(s.LogFile()))
	}
	if keep {
		return s.Stop()
	}
	// What a trial leaves is thrown away, so there is nothing to shut down cleanly.
	return s.Kill()
}

// tail returns the last complaints in a server's own output, on one line, for an error message.
func tail(path string) string {
	out, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var last string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "WARN") || strings.Contains(line, "ERROR") || strings.Contains(line, "panic") {
			last = strings.TrimSpace(line)
		}
	}
	if last == "" {
		return ""
	}
	return "; its last complaint: " + last[:min(len(last), 300)]
}

// createTopic makes a topic on a real server and waits until all its partitions are led; the throw-away server has every topic.
func (b *bench) createTopic(ctx context.Context, s *server.Server, topic string, partitions int, configs map[string]string) error {
	return b.createTopics(ctx, s, []string{topic}, partitions, configs)
}

// maxCreate is how many partitions one CreateTopics request asks for: Kafka refuses 10,000.
const maxCreate = 5000

// createTopics makes several topics of as many partitions each.
func (b *bench) createTopics(ctx context.Context, s *server.Server, topics []string, partitions int, configs map[string]string) error {
	if s.Kind == server.Null {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(100_000)
	values := map[string]*string{}
	for k, v := range configs {
		values[k] = &v
	}
	for some := range slices.Chunk(topics, max(1, maxCreate/partitions)) {
		resp, err := adm.CreateTopics(ctx, int32(partitions), 1, values, some...)
		if err == nil {
			err = resp.Error()
		}
		if err != nil {
			return fmt.Errorf("create topics: %w", err)
		}
	}
	return waitLed(ctx, s.Addr, topics, len(topics)*partitions)
}

// checkRecords compares the end offsets of topics with the records that were acknowledged.
func (b *bench) checkRecords(ctx context.Context, s *server.Server, want int64, topics ...string) error {
	if s.Kind == server.Null {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("end offsets: %w", err)
	}
	var got int64
	ends.Each(func(o kadm.ListedOffset) { got += o.Offset })
	if got != want {
		return fmt.Errorf("the log holds %d records, %d were acknowledged", got, want)
	}
	return nil
}

// load runs one client process against s and returns what it measured.
func (b *bench) load(ctx context.Context, s *server.Server, spec load.Spec) (*load.Result, error) {
	return b.loadHooked(ctx, s, spec, func() {})
}

// loadHooked is load with a function that is called when the measured part begins.
func (b *bench) loadHooked(ctx context.Context, s *server.Server, spec load.Spec, began func()) (*load.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	spec.Broker, spec.ServerPID = s.Addr, s.PID
	if spec.Client == "" {
		spec.Client = "franz"
	}
	in, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.in.Self, "load")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdin, cmd.Env = bytes.NewReader(in), append(os.Environ(), spec.Env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var res *load.Result
	profiled := func() error { return nil }
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if lines.Text() == "begin" {
			began()
			profiled = b.startProfile(ctx, s)
			continue
		}
		r := &load.Result{}
		if err := json.Unmarshal(lines.Bytes(), r); err == nil {
			res = r
		}
	}
	err = cmd.Wait()
	if perr := profiled(); perr != nil {
		b.say("no profile: %v", perr)
	}
	if err != nil || res == nil {
		return nil, fmt.Errorf("client: %w: %s", orFailed(err), strings.TrimSpace(stderr.String()))
	}
	return res, nil
}

func orFailed(err error) error {
	if err == nil {
		return errors.New("no result")
	}
	return err
}

// throughput turns a result into the columns of the throughput rows.
func throughput(r *load.Result) report.Figures {
	gb := float64(r.Bytes) / 1e9
	f := report.Figures{
		"MB/s": float64(r.Bytes) / 1e6 / r.Seconds, "krec/s": float64(r.Records) / 1e3 / r.Seconds,
		"core-s/GB": r.ServerCPU / gb, "core-s/Mrec": r.ServerCPU / (float64(r.Records) / 1e6),
		"client core-s/GB": r.ClientCPU / gb, "other cores": r.OtherCPU / r.Seconds, "seconds": r.Seconds,
	}
	if r.WireBytes > 0 {
		f["wire MB/s"] = float64(r.WireBytes) / 1e6 / r.Seconds
	}
	if r.Batches > 0 {
		f["batch KB"] = float64(r.Bytes) / 1e3 / float64(r.Batches)
	}
	return f
}

// throughputColumns are the columns of the throughput rows.
var throughputColumns = []string{"MB/s", "krec/s", "core-s/GB", "core-s/Mrec", "wire MB/s", "batch KB", "client core-s/GB", "other cores", "seconds"}

// quantiles adds latencies to f under a prefix.
func quantiles(f report.Figures, prefix string, q *load.Quantiles) {
	if q != nil {
		f[prefix+"p50 ms"], f[prefix+"p99 ms"], f[prefix+"p99.9 ms"], f[prefix+"max ms"] = q.P50, q.P99, q.P999, q.Max
	}
}

// pick returns full, or quick on a quick run.
func pick[T any](b *bench, quick, full T) T {
	if b.quick {
		return quick
	}
	return full
}

// topicConfigs are the topic configs of a trial: the same on both servers, but for Kafka's own way to sync every append.
func topicConfigs(k server.Kind, syncEach bool) map[string]string {
	m := map[string]string{"segment.bytes": strconv.Itoa(256 << 20)}
	if syncEach && k == server.Kafka {
		m["flush.messages"] = "1"
	}
	return m
}
