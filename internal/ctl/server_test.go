package ctl

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/node"
)

// serve starts a real node and returns the flag that names it.
func serve(t *testing.T) string {
	t.Helper()
	return serveIn(t, t.TempDir())
}

// serveIn is serve with the data in dir.
func serveIn(t *testing.T, dir string) string {
	t.Helper()
	return "--brokers=" + serveWith(t, dir, nil).Addrs().Kafka
}

// serveWith is serveIn with more listeners, by flag.
func serveWith(t *testing.T, dir string, listeners map[string]string) *node.Node {
	t.Helper()
	flags := map[string]string{"data-dir": dir, "kafka-listen": "127.0.0.1:0", "native-listen": "", "api-listen": "", "metrics-listen": ""}
	maps.Copy(flags, listeners)
	l, err := node.Load(node.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Open(t.Context(), l.Config, node.Options{Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.WithoutCancel(t.Context()), nil); err != nil {
			t.Error(err)
		}
	})
	return n
}

// want runs a command that must end with status and print each of parts, to either stream.
func want(t *testing.T, status int, in string, args []string, parts ...string) result {
	t.Helper()
	got := runCtl(t, in, nil, args...)
	if got.status != status {
		t.Fatalf("%v: got status %d, want %d\n%s%s", args, got.status, status, got.out, got.err)
	}
	for _, p := range parts {
		if !strings.Contains(got.out+got.err, p) {
			t.Errorf("%v: no %q in\n%s%s", args, p, got.out, got.err)
		}
	}
	return got
}

// decode reads JSON output into a value of type T.
func decode[T any](t *testing.T, r result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("%v in %q", err, r.out)
	}
	return v
}

func TestTopicsFromCreateToDelete(t *testing.T) {
	b := serve(t)
	want(t, exitOK, "", []string{"topic", "list", b}, "NAME")
	want(t, exitOK, "", []string{"topic", "create", "orders", "-p", "3", "-c", "retention.ms=60000", b}, "orders", "3", "created")
	want(t, exitRefused, "", []string{"topic", "create", "orders", b}, "--if-not-exists")
	want(t, exitOK, "", []string{"topic", "create", "orders", "--if-not-exists", b}, "exists")
	want(t, exitRefused, "", []string{"topic", "create", "bad", "-c", "no.such.config=1", b}, "INVALID_CONFIG")
	want(t, exitRefused, "", []string{"topic", "create", "many", "-r", "3", b}, "INVALID_REPLICATION_FACTOR")

	list := decode[[]topicRow](t, want(t, exitOK, "", []string{"topic", "list", "-o", "json", b}))
	if len(list) != 1 || list[0].Name != "orders" || list[0].Partitions != 3 || list[0].Replicas != 1 || list[0].Records != 0 {
		t.Errorf("got %+v", list)
	}
	infos := decode[[]topicInfo](t, want(t, exitOK, "", []string{"topic", "describe", "orders", "--json", b}))
	if len(infos) != 1 || len(infos[0].Partitions) != 3 || infos[0].Config["retention.ms"] != "60000" || infos[0].Partitions[2].End != 0 {
		t.Errorf("got %+v", infos)
	}
	want(t, exitOK, "", []string{"topic", "describe", "orders", b}, "HIGH WATERMARK", "retention.ms=60000")

	want(t, exitOK, "", []string{"topic", "config", "orders", b}, "retention.ms", "topic")
	want(t, exitOK, "", []string{"topic", "config", "orders", "--all", b}, "cleanup.policy", "default")
	changes := decode[[]configChange](t, want(t, exitOK, "", []string{
		"topic", "config", "orders", "--set", "retention.bytes=1000000", "--unset", "retention.ms", "-o", "json", b,
	}))
	if len(changes) != 2 || changes[0] != (configChange{"orders", "retention.bytes", "-1", "1000000"}) || changes[1] != (configChange{"orders", "retention.ms", "60000", "604800000"}) {
		t.Errorf("got %+v", changes)
	}
	want(t, exitRefused, "", []string{"topic", "config", "orders", "--set", "retention.ms=soon", b}, "INVALID_CONFIG")

	want(t, exitUsage, "", []string{"topic", "delete", "orders", b}, "--yes")
	want(t, exitMissing, "", []string{"topic", "delete", "none", "--yes", b}, `"none" does not exist`)
	want(t, exitOK, "", []string{"topic", "delete", "orders", "--yes", b}, "deleted")
	want(t, exitMissing, "", []string{"topic", "describe", "orders", b}, "felixctl topic create orders")
	want(t, exitMissing, "", []string{"consume", "orders", "--exit", b}, "does not exist")
}

func TestProduceAndConsume(t *testing.T) {
	b := serve(t)
	want(t, exitOK, "", []string{"topic", "create", "pairs", "-p", "2", b})
	want(t, exitOK, "a:1\nb:2\na:3\n", []string{"produce", "pairs", "--key-delim", ":", "-z", "zstd", b}, "3 records to pairs")
	want(t, exitOK, "", []string{"produce", "pairs", "hello", "-k", "c", "-H", "h=x", b}, "1 record to pairs")
	want(t, exitOK, "", []string{"produce", "pairs", "--null", "-k", "d", b}, "1 record")
	want(t, exitOK, "two\nlines", []string{"produce", "pairs", "--whole", "--acks", "1", b}, "1 record")
	want(t, exitOK, "", []string{"produce", "acks0", "x", "--acks", "0", b}, "not told")
	want(t, exitUsage, "nokey\n", []string{"produce", "pairs", "--key-delim", ":", b}, "nokey")

	sum := decode[struct {
		Topic     string
		Published int
		Offsets   []offsetSpan
	}](t, want(t, exitOK, "", []string{"produce", "pairs", "x", "--partition", "1", "--count", "5", "-o", "json", b}))
	if sum.Topic != "pairs" || sum.Published != 5 || len(sum.Offsets) != 1 || sum.Offsets[0].Partition != 1 || sum.Offsets[0].Records != 5 {
		t.Errorf("got %+v", sum)
	}

	all := want(t, exitOK, "", []string{"consume", "pairs", "--exit", "--format", `%k=%s\n`, b}).out
	for _, line := range []string{"a=1\n", "b=2\n", "a=3\n", "c=hello\n", "d=\n", "=two\nlines\n"} {
		if !strings.Contains(all, line) {
			t.Errorf("no %q in %q", line, all)
		}
	}
	if got := strings.Count(all, "=x\n"); got != 5 {
		t.Errorf("got %d records of --count 5", got)
	}
	if strings.Index(all, "a=1") > strings.Index(all, "a=3") {
		t.Error("records of one key changed their order")
	}
	want(t, exitOK, "", []string{"consume", "pairs", "--exit", "--key", "a", b}, "1\n3\n", "2 of 11 records matched")
	want(t, exitOK, "", []string{"consume", "pairs", "--exit", "--grep", "hell", "-o", "json", b}, `"value":"hello"`, `"headers":[{"name":"h","value":"x"}]`)
	if got := want(t, exitOK, "", []string{"consume", "pairs", "--from", "-2", "-p", "1", "-e", b}).out; got != "x\nx\n" {
		t.Errorf("the last two: got %q", got)
	}
	if got := want(t, exitOK, "", []string{"consume", "pairs", "-n", "1", b}).out; strings.Count(got, "\n") != 1 {
		t.Errorf("one record: got %q", got)
	}
	if got := want(t, exitOK, "", []string{"consume", "pairs", "--from", "latest", "-e", b}).out; got != "" {
		t.Errorf("from the end: got %q", got)
	}
	if got := want(t, exitOK, "", []string{"consume", "pairs", "--from", "@2001-01-01", "-e", b}).out; strings.Count(got, "x\n") != 5 {
		t.Errorf("from a time before all: got %q", got)
	}
	if got := want(t, exitOK, "", []string{"consume", "pairs", "--from", "@2101-01-01T00:00:00Z", "-e", b}).out; got != "" {
		t.Errorf("from a time after all: got %q", got)
	}
	want(t, exitMissing, "", []string{"consume", "pairs", "-p", "7", "-e", b}, "no partition 7")
	want(t, exitRefused, strings.Repeat("y", 2<<20), []string{"produce", "pairs", "--whole", b}, "max.message.bytes")
}

func TestMistakesThatTheServerSees(t *testing.T) {
	b := serve(t)
	id := decode[[]created](t, want(t, exitOK, "", []string{"topic", "create", "orders", "-p", "3", "-o", "json", b}))[0].ID
	if _, err := ids.ParseTopicID(id); err != nil {
		t.Errorf("create: %v", err)
	}
	want(t, exitOK, "", []string{"topic", "describe", "orders", b}, "id     "+id)
	infos := decode[[]topicInfo](t, want(t, exitOK, "", []string{"topic", "describe", "orders", "-o", "json", b}))
	rows := decode[[]topicRow](t, want(t, exitOK, "", []string{"topic", "list", "-o", "json", b}))
	if infos[0].ID != id || rows[0].ID != id || len(infos[0].IDBase64) != 22 {
		t.Errorf("one topic, several spellings: %s, %+v, %+v", id, infos[0], rows[0])
	}

	if got := want(t, exitRefused, "", []string{"topic", "create", "orders", b}, "failed"); strings.Contains(got.out, " 0 ") {
		t.Errorf("a topic of no partitions: %s", got.out)
	}
	want(t, exitMissing, "", []string{"topic", "delete", "orders", "none", "--yes", b}, "nothing was deleted", `"none" does not exist`)
	want(t, exitUsage, "", []string{"topic", "delete", "orders", b}, "to delete orders with 0 records for good, say --yes")
	want(t, exitMissing, "", []string{"produce", "orders", "x", "-p", "9", b}, "orders has no partition 9: it has 3, from 0")
	got := want(t, exitRefused, "", []string{"produce", "no such", "x", b}, "1 to 249 of")
	if got.out != "" {
		t.Errorf("got %q on standard output of a failure", got.out)
	}
}

func TestTopicCompletion(t *testing.T) {
	b := serve(t)
	want(t, exitOK, "", []string{"topic", "create", "alpha", "beta", b})
	want(t, exitOK, "", []string{"__complete", b, "topic", "describe", "al"}, "alpha\n")
	got := want(t, exitOK, "", []string{"__complete", b, "consume", ""}, "alpha\n", "beta\n")
	if strings.Contains(got.out, "gamma") {
		t.Error("a topic that is not there is offered")
	}
}
