package driver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/felixlog/felix/compat/clients/agent"
)

// kcat implements agent.Library with the command-line tool. Its librdkafka is Debian's, another than the two agents have.
type kcat struct{}

var _ agent.Library = kcat{}

// Kcat serves kcat.
func Kcat(ctx context.Context) (*Client, error) {
	return Local(ctx, "kcat", kcat{}, Features{NoTimestamps: true, NoOffsets: true, TextOnly: true, NoCreate: true, EndsAlone: true, NoCooperative: "assigns partitions as a whole only"})
}

// errUnsupported is the answer to what kcat cannot do.
var errUnsupported = errors.New("kcat has no such operation")

// kcatFormat prints one record: a line with offset, timestamp, key length, value length (-1 is null) and headers, then key and
// value as they are and a line end.
const kcatFormat = `%o %T %K %S %h\n%k%s\n`

// endWait shortens the empty fetch after which librdkafka reports the end of a partition.
const endWait = "fetch.wait.max.ms=20"

func command(ctx context.Context, req agent.Request, args ...string) *exec.Cmd {
	full := append([]string{"-b", req.Bootstrap}, args...)
	for name, value := range req.Config {
		full = append(full, "-X", name+"="+value)
	}
	cmd := exec.CommandContext(ctx, "kcat", full...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run returns what kcat printed, or an error with what it said.
func run(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	// kcat reports a failed delivery or broker on standard error and may still exit with 0.
	if text := stderr.String(); strings.Contains(text, "Delivery failed") || strings.Contains(text, "% ERROR") {
		return nil, fmt.Errorf("%s: %s", strings.Join(cmd.Args, " "), strings.TrimSpace(text))
	}
	return stdout.Bytes(), nil
}

var kcatVersion = regexp.MustCompile(`Version ([0-9.]+) .*(librdkafka [0-9.]+)`)

// Version is kcat's and its librdkafka's.
func (kcat) Version() string {
	out, _ := exec.Command("kcat", "-V").CombinedOutput()
	if m := kcatVersion.FindSubmatch(out); m != nil {
		return fmt.Sprintf("kcat %s (%s)", m[1], m[2])
	}
	return "kcat"
}

// Metadata is `kcat -L -J`.
func (kcat) Metadata(ctx context.Context, req agent.Request) (*agent.Metadata, error) {
	args := []string{"-L", "-J"}
	if req.Topic != "" {
		args = append(args, "-t", req.Topic)
	}
	out, err := run(command(ctx, req, args...))
	if err != nil {
		return nil, err
	}
	type id struct{ ID int32 }
	var listed struct {
		Brokers []struct {
			ID   int32
			Name string
		}
		Topics []struct {
			Topic      string
			Error      string
			Partitions []struct {
				Partition, Leader int32
				Replicas, ISRS    []id
			}
		}
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		return nil, fmt.Errorf("kcat -L -J: %w: %s", err, out)
	}
	m := &agent.Metadata{}
	for _, b := range listed.Brokers {
		host, port, _ := strings.Cut(b.Name, ":")
		n, err := strconv.Atoi(port)
		if err != nil {
			return nil, fmt.Errorf("broker %q: %w", b.Name, err)
		}
		m.Brokers = append(m.Brokers, agent.Broker{ID: b.ID, Host: host, Port: n})
	}
	ids := func(in []id) (out []int32) {
		for _, i := range in {
			out = append(out, i.ID)
		}
		return out
	}
	for _, t := range listed.Topics {
		topic := agent.Topic{Name: t.Topic, Error: t.Error}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, agent.Partition{ID: p.Partition, Leader: p.Leader, Replicas: ids(p.Replicas), ISR: ids(p.ISRS)})
		}
		m.Topics = append(m.Topics, topic)
	}
	return m, nil
}

// Create is not in kcat.
func (kcat) Create(context.Context, agent.Request) error { return errUnsupported }

// Produce runs kcat once for each run of records that one command line can describe.
func (kcat) Produce(ctx context.Context, req agent.Request) ([]int64, error) {
	for rest := req.Records; len(rest) > 0; {
		n := 1
		for n < len(rest) && sameShape(rest[0], rest[n]) {
			n++
		}
		if err := produceRun(ctx, req, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return nil, nil
}

// sameShape says whether two records can go through one kcat: same partition, headers, and kinds of null.
func sameShape(a, b agent.Record) bool {
	return a.Partition == b.Partition && (a.Key == nil) == (b.Key == nil) && (a.Value == nil) == (b.Value == nil) &&
		reflect.DeepEqual(a.Headers, b.Headers)
}

// produceRun sends records of one shape as lines.
func produceRun(ctx context.Context, req agent.Request, records []agent.Record) error {
	args := []string{"-P", "-t", req.Topic, "-p", strconv.Itoa(int(records[0].Partition)), "-X", "linger.ms=50"}
	if req.Codec != "" {
		args = append(args, "-z", req.Codec)
	}
	if req.Config["acks"] == "" {
		args = append(args, "-X", "acks=all")
	}
	if records[0].Key != nil {
		args = append(args, "-K", "\t")
	}
	if records[0].Value == nil {
		args = append(args, "-Z")
	}
	for _, h := range records[0].Headers {
		if h.Value == nil {
			args = append(args, "-H", h.Key)
		} else {
			args = append(args, "-H", h.Key+"="+string(h.Value))
		}
	}
	var lines bytes.Buffer
	for _, r := range records {
		if r.Key != nil {
			lines.Write(r.Key)
			lines.WriteByte('\t')
		}
		lines.Write(r.Value)
		lines.WriteByte('\n')
	}
	cmd := command(ctx, req, args...)
	cmd.Stdin = &lines
	_, err := run(cmd)
	return err
}

// Consume runs kcat to the end of each partition.
func (kcat) Consume(ctx context.Context, req agent.Request) ([]agent.Record, error) {
	from := "beginning"
	if req.From != agent.FromBeginning {
		from = strconv.FormatInt(req.From, 10)
	}
	var records []agent.Record
	for _, p := range req.Assign {
		out, err := run(command(ctx, req, "-C", "-t", req.Topic, "-p", strconv.Itoa(int(p)), "-o", from, "-e", "-q",
			"-X", endWait, "-f", kcatFormat))
		if err != nil {
			return nil, err
		}
		r := bufio.NewReader(bytes.NewReader(out))
		for {
			rec, err := parseKcat(r)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			rec.Partition = p
			records = append(records, *rec)
		}
	}
	return records, nil
}

// parseKcat reads one record in kcatFormat. A header value NULL is null: the suite writes no such text.
func parseKcat(r *bufio.Reader) (*agent.Record, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 5)
	if len(fields) != 5 {
		return nil, fmt.Errorf("kcat line %q", line)
	}
	var n [4]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return nil, fmt.Errorf("kcat line %q: %w", line, err)
		}
	}
	rec := &agent.Record{Offset: n[0], Timestamp: n[1]}
	for i, dst := range []*[]byte{&rec.Key, &rec.Value} {
		if size := n[2+i]; size >= 0 {
			*dst = make([]byte, size)
			if _, err := io.ReadFull(r, *dst); err != nil {
				return nil, fmt.Errorf("kcat record at offset %d: %w", n[0], err)
			}
		}
	}
	if end, err := r.ReadByte(); err != nil || end != '\n' {
		return nil, fmt.Errorf("kcat record at offset %d is not ended by a line end", n[0])
	}
	if fields[4] == "" {
		return rec, nil
	}
	for _, pair := range strings.Split(fields[4], ",") {
		key, value, _ := strings.Cut(pair, "=")
		h := agent.Header{Key: key, Value: []byte(value)}
		if value == "NULL" {
			h.Value = nil
		}
		rec.Headers = append(rec.Headers, h)
	}
	return rec, nil
}

var kcatOffset = regexp.MustCompile(`\[\d+\] offset (-?\d+)`)

// Offsets is `kcat -Q`.
func (kcat) Offsets(ctx context.Context, req agent.Request) ([]int64, error) {
	var offsets []int64
	for _, at := range req.Times {
		out, err := run(command(ctx, req, "-Q", "-t", fmt.Sprintf("%s:%d:%d", req.Topic, req.Partition, at)))
		if err != nil {
			return nil, err
		}
		m := kcatOffset.FindSubmatch(out)
		if m == nil {
			return nil, fmt.Errorf("kcat -Q printed %q", out)
		}
		offset, err := strconv.ParseInt(string(m[1]), 10, 64)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

// Watermarks is `kcat -Q` with its two special times.
func (k kcat) Watermarks(ctx context.Context, req agent.Request) (first, next int64, err error) {
	req.Times = []int64{-2, -1}
	offsets, err := k.Offsets(ctx, req)
	if err != nil {
		return 0, 0, err
	}
	return offsets[0], offsets[1], nil
}

// Tail is `kcat -C -o end -u` on one partition; kcat says on standard error when it stands at the end.
func (kcat) Tail(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	if len(req.Assign) != 1 {
		return errUnsupported
	}
	req.Partition = req.Assign[0]
	cmd := command(ctx, req, "-C", "-t", req.Topic, "-p", strconv.Itoa(int(req.Partition)), "-o", "end", "-u", "-f", kcatFormat)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		ready := false
		for s := bufio.NewScanner(stderr); s.Scan(); {
			if !ready && strings.Contains(s.Text(), "Reached end of topic") {
				ready = true
				emit(agent.Event{Ready: true})
			}
		}
	})
	r := bufio.NewReader(stdout)
	for {
		rec, err := parseKcat(r)
		if err != nil {
			break // the pipe ends with the process; how it ended is checked below
		}
		rec.Partition = req.Partition
		emit(agent.Event{Record: rec})
	}
	wg.Wait()
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("kcat: %w", err)
	}
	return nil
}

// Load is not in kcat.
func (kcat) Load(context.Context, agent.Request, func(agent.Event)) ([]int64, error) {
	return nil, errUnsupported
}
