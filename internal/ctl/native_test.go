package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/auth"
)

func TestPubAndSub(t *testing.T) {
	c, dev := development(t)
	want(t, exitOK, "", []string{"stream", "create", "orders", "--shards", "3", c})
	want(t, exitOK, "", []string{"pub", "orders", "hello", c}, "1 record to orders", "shard 0: offset 0")
	want(t, exitOK, "a:1\nb:2\na:3\n", []string{"pub", "orders", "--key-delim", ":", c}, "3 records to orders")
	want(t, exitUsage, "nokey\n", []string{"pub", "orders", "--key-delim", ":", c}, "nokey")
	file := filepath.Join(dev, "lines")
	if err := os.WriteFile(file, []byte("two\nlines"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitOK, "", []string{"pub", "orders", "--file", file, "--whole", "--idempotent=false", c}, "1 record")
	want(t, exitOK, "", []string{"pub", "orders", "--file", file, "--key", "k", c}, "2 records")
	want(t, exitMissing, "", []string{"pub", "none", "x", c}, "felixctl stream create")
	want(t, exitUsage, "", []string{"pub", "orders", "--file", file + "2", c}, "--file")

	sum := decode[struct {
		Stream    string
		Published int
		Offsets   []publishedSpan
	}](t, want(t, exitOK, "", []string{"pub", "orders", "x", "--count", "5", "--json", c}))
	if sum.Stream != "orders" || sum.Published != 5 || len(sum.Offsets) != 1 || sum.Offsets[0].Records != 5 || *sum.Offsets[0].Last-*sum.Offsets[0].First != 4 {
		t.Errorf("got %+v", sum)
	}

	all := want(t, exitOK, "", []string{"sub", "orders", "--exit", c}).out
	for line, n := range map[string]int{"hello\n": 1, "1\n": 1, "2\n": 1, "3\n": 1, "two\nlines\n": 2, "x\n": 5} {
		if got := strings.Count(all, line); got != n {
			t.Errorf("got %d of %q in %q", got, line, all)
		}
	}
	if strings.Index(all, "1\n") > strings.Index(all, "3\n") {
		t.Error("records of one key changed their order")
	}
	for _, exit := range []string{"--exit=true", "--exit=false"} {
		want(t, exitRefused, "", []string{"sub", "orders", "--from", "999999999", "--shard", "0", exit, c}, "offset 999999999", "--from latest")
	}
	want(t, exitOK, "", []string{"sub", "orders", "--exit", "--grep", "hel", "--format", "offsets", c}, "0:0\thello\n", "1 of 12 records matched")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"last":     {[]string{"--from", "-2", "--shard", "0", "-e"}, "x\nx\n"},
		"offset":   {[]string{"--from", "0", "--until", "1", "--shard", "0"}, "hello\n"},
		"count":    {[]string{"--from", "earliest", "--shard", "0", "--count", "1"}, "hello\n"},
		"template": {[]string{"-e", "--shard", "0", "--count", "1", "--format", `%t/%p:%o %s %S %%\n`}, "orders/0:0 hello 5 %\n"},
		"end":      {[]string{"--from", "latest", "--exit"}, ""},
		"after":    {[]string{"--from", "@2101-01-01T00:00:00Z", "--exit"}, ""},
		"before":   {[]string{"--from", "earliest", "--until", "@2001-01-01"}, ""},
		"now":      {[]string{"--from", "@2001-01-01", "--until", "latest", "--shard", "0", "--count", "1"}, "hello\n"},
	} {
		if got := want(t, exitOK, "", append([]string{"sub", "orders", c}, tt.args...)).out; got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	var event eventJSON
	line := want(t, exitOK, "", []string{"sub", "orders", "-e", "--shard", "0", "--count", "1", "-o", "json", c}).out
	if err := json.Unmarshal([]byte(line), &event); err != nil || *event.Payload != "hello" || *event.Offset != 0 || event.Timestamp == nil || strings.Count(line, "\n") != 1 {
		t.Errorf("got %q, %v", line, err)
	}
	want(t, exitOK, "\xff\x00", []string{"pub", "orders", "--whole", c})
	want(t, exitOK, "", []string{"sub", "orders", "--from", "-1", "--shard", "0", "-e", "--json", c}, `"payload_base64":"/wA="`)

	want(t, exitMissing, "", []string{"sub", "none", c}, "there is no stream none")
	want(t, exitMissing, "", []string{"sub", "orders", "--shard", "7", c}, "no shard 7: it has 3")
	want(t, exitUsage, "", []string{"sub", "orders", "--from", "0", c}, "name one with --shard")
	want(t, exitRefused, "", []string{"sub", "orders", "--from", "999", "--shard", "0", c}, "offset 999 is not kept", "--from latest")
	want(t, exitOK, "", []string{"stream", "info", "orders", "--shards", c}, "NEXT OFFSET")
	if list := decode[streamInfo](t, want(t, exitOK, "", []string{"stream", "info", "orders", "--shards", "--json", c})).ShardList; list[0].Next == nil || *list[0].First != 0 {
		t.Errorf("got %+v", list)
	}
	want(t, exitOK, "", []string{"__complete", "sub", c, "or"}, "orders\n")
	want(t, exitOK, "", []string{"__complete", "pub", c, ""}, "orders\n")
}

// TestStreamInMemory: what has no offsets is read and written, and said to have none.
func TestStreamInMemory(t *testing.T) {
	c, _ := development(t)
	want(t, exitOK, "", []string{"stream", "create", "mem", "--durable=false", c})
	want(t, exitOK, "", []string{"pub", "mem", "x", c}, "no offset: an ephemeral stream has no offsets")
	want(t, exitOK, "", []string{"pub", "mem", "y", "--ack", "none", "--json", c}, `"first_offset": null`, `"without_offset": 1`, "--ack none")
	want(t, exitOK, "", []string{"sub", "mem", "--from", "earliest", "--count", "1", "--json", c}, `"offset":null,"timestamp":null`)
	want(t, exitOK, "", []string{"sub", "mem", "--from", "earliest", "--count", "1", "--format", `%o %T %d\n`, c}, "-1 -1 -\n")
	want(t, exitRefused, "", []string{"sub", "mem", "--exit", c}, "in memory alone")
	want(t, exitRefused, "", []string{"sub", "mem", "--from", "-3", c}, "in memory alone")
}

// eventually tries until it succeeds.
func eventually(t *testing.T, what string, try func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !try(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// subscriptions asks how many there are.
func subscriptions(t *testing.T, c string) []subRow {
	t.Helper()
	list := decode[[]brokerSubs](t, want(t, exitOK, "", []string{"inspect", "subs", "live", "--json", c}))
	if len(list) != 1 || list[0].NodeID != "node-1" {
		t.Fatalf("got %+v", list)
	}
	return list[0].Subscriptions
}

// TestSubFollows: a subscription prints what comes, is seen by inspection, and ends as the flags and the interrupt say.
func TestSubFollows(t *testing.T) {
	c, _ := development(t)
	want(t, exitOK, "", []string{"stream", "create", "live", c})
	want(t, exitOK, "", []string{"pub", "live", "old", c})
	nothing := strings.NewReader("")
	counted, endless := begin(t, nothing, "sub", "live", "--count", "2", c), begin(t, nothing, "sub", "live", c)
	eventually(t, "two subscriptions", func() bool { return len(subscriptions(t, c)) == 2 })
	want(t, exitOK, "", []string{"inspect", "subs", c}, "live/0", "p:developer", "BEHIND")
	want(t, exitOK, "", []string{"inspect", "subs", "live", "--shard", "0", c}, "live/0")
	if got := decode[[]brokerSubs](t, want(t, exitOK, "", []string{"inspect", "subs", "--dropping", "--json", c})); len(got[0].Subscriptions) != 0 {
		t.Errorf("got %+v", got)
	}
	want(t, exitOK, "one\ntwo\nthree\n", []string{"pub", "live", c})
	counted.end(exitOK)
	endless.out.wait(t, "three\n")
	endless.interrupt()
	endless.end(exitOK)
	if counted.out.String() != "one\ntwo\n" || endless.out.String() != "one\ntwo\nthree\n" || endless.err.String() != "" {
		t.Errorf("got %q, %q, %q", counted.out, endless.out, endless.err)
	}
	unfinished := begin(t, nothing, "sub", "live", "--from", "earliest", "--count", "100", c)
	unfinished.out.wait(t, "old\none\ntwo\nthree\n")
	unfinished.interrupt()
	unfinished.end(exitInterrupted, "4 records read")
	until := fmt.Sprintf("@%d", time.Now().Add(2*time.Second).UnixMilli())
	if got := want(t, exitOK, "", []string{"sub", "live", "--from", "earliest", "--until", until, c}).out; got != "old\none\ntwo\nthree\n" {
		t.Errorf("got %q", got)
	}
	var errs bytes.Buffer
	args := []string{"sub", "live", "--from", "earliest", c}
	if status := Main(t.Context(), Process{Args: args, Out: &closing{}, Err: &errs}); status != exitOK || errs.Len() > 0 {
		t.Errorf("closed output: got status %d, %q, want a quiet end", status, errs.String())
	}
}

func TestTopologyInspectAndBench(t *testing.T) {
	c, _ := development(t)
	want(t, exitOK, "", []string{"stream", "create", "scratch", "--shards", "2", c})
	want(t, exitOK, "", []string{"topology", "scratch", c}, "SHARD  LEADER", "REPLICAS", "active", "BROKER  ADDR")
	view := decode[topologyView](t, want(t, exitOK, "", []string{"topology", "scratch", "--json", c}))
	if len(view.Shards) != 2 || view.Shards[1].Leader != "node-1" || view.Shards[1].State != "active" || len(view.Brokers) != 1 {
		t.Errorf("got %+v", view)
	}
	want(t, exitMissing, "", []string{"topology", "none", c}, "there is no stream none")

	want(t, exitOK, "", []string{"pub", "scratch", "x", c})
	want(t, exitOK, "", []string{"inspect", "shard", "scratch", c}, "role        leader", "serving     yes", "committed   1")
	shards := decode[[]shardView](t, want(t, exitOK, "", []string{"inspect", "shard", "scratch", "--shard", "1", "--json", c}))
	if len(shards) != 1 || !shards[0].Serving || *shards[0].Tail != 0 || shards[0].NodeID != "node-1" {
		t.Errorf("got %+v", shards)
	}
	want(t, exitMissing, "", []string{"inspect", "shard", "scratch", "--shard", "2", c}, "no shard 2")

	for _, args := range [][]string{{"latency"}, {"fanout", "--fanout", "2"}, {"ingest", "--concurrency", "4"}} {
		args = append(append([]string{"bench"}, args...), "scratch", "--records", "50", "--warmup", "5", "--timeout", "60s", c)
		if got := want(t, exitOK, "", args, "a second", "p99"); args[1] == "fanout" && !strings.Contains(got.out, "100 of 100 deliveries of 50 records") {
			t.Errorf("got %q", got.out)
		}
		r := decode[benchResult](t, want(t, exitOK, "", append(args, "--json")))
		if r.Measured != 50*r.Fanout || r.Lost != 0 || r.P99Ms < r.P50Ms || r.MaxMs < r.P99Ms || r.PerSecond <= 0 {
			t.Errorf("got %+v", r)
		}
	}
	want(t, exitMissing, "", []string{"bench", "ingest", "none", c}, "there is no stream none")
}

// TestNativeRefusals: whatever is wrong with the token or the way to the broker, the status and the sentence say what it is.
func TestNativeRefusals(t *testing.T) {
	c, dev := development(t)
	want(t, exitOK, "", []string{"stream", "create", "orders", c})
	api, err := os.ReadFile(filepath.Join(dev, "api-token"))
	if err != nil {
		t.Fatal(err)
	}
	broker := func(c *auth.Claims) { c.Audience = auth.AudienceBroker }
	reading := mint(t, dev, broker, "stream.subscribe:stream:default/default/*")
	tests := []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"api_token", []string{"--token", strings.TrimSpace(string(api))}, exitRefused, "the token is for audience felix-controlplane"},
		{"no_felix_token", []string{"--token", "secret"}, exitRefused, "no Felix token"},
		{"other_tenant", []string{"--tenant", "acme"}, exitRefused, "--tenant is acme"},
		{"no_right", []string{"--token", reading}, exitRefused, "felixctl token show"},
		{"missing_file", []string{"--token-file", filepath.Join(dev, "none")}, exitUsage, "--token-file"},
		{"bad_brokers", []string{"--brokers", "here:there"}, exitUsage, "not host:port"},
		{"bad_authority", []string{"--ca-file", filepath.Join(dev, "token")}, exitUsage, "holds no certificate"},
		{"other_name", []string{"--server-name", "felix.example"}, exitUnreachable, "--server-name"},
		{"nobody", []string{"--brokers", nobody(t), "--timeout", "500ms"}, exitUnreachable, "felix serve"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"pub", "orders", "x", c}, tt.args...)
			got := want(t, tt.status, "", args, tt.want)
			if strings.Contains(got.err, "secret") || got.out != "" {
				t.Errorf("got %+v", got)
			}
			if tt.name == "no_right" {
				return // a refusal of a record comes beside the report of the others
			}
			wantErrorJSON(t, runCtl(t, "", nil, append(args, "--json")...), tt.status)
		})
	}
	want(t, exitUsage, "", []string{"sub", "orders"}, "no token for brokers", "data/dev/felixctl.toml")
	want(t, exitOK, "", []string{"sub", "orders", "--exit", "--token", reading, c})
	want(t, exitRefused, "", []string{"inspect", "shard", "orders", "--token", reading, c}, "inspect shard")
}

// TestNativeMistakes: what can be seen before a broker is asked ends with the status of a mistake.
func TestNativeMistakes(t *testing.T) {
	settings := []string{"--brokers=" + nobody(t), "--token=x", "--tenant=t"}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no_stream":        {[]string{"pub"}, "STREAM is missing: felixctl pub STREAM [MESSAGE]"},
		"three_arguments":  {[]string{"pub", "s", "a", "b"}, "one argument too many"},
		"bad_ack":          {[]string{"pub", "s", "m", "--ack", "some"}, "neither all nor none"},
		"idempotent_blind": {[]string{"pub", "s", "m", "--ack", "none", "--idempotent"}, "--idempotent takes answers"},
		"message_and_file": {[]string{"pub", "s", "m", "--file", "f"}, "goes without"},
		"two_keys":         {[]string{"pub", "s", "--key", "a", "--key-delim", ":"}, "exclude each other"},
		"bad_count":        {[]string{"pub", "s", "m", "--count", "0"}, "--count must be at least 1"},
		"bad_from":         {[]string{"sub", "s", "--from", "noon"}, "no position"},
		"bad_until":        {[]string{"sub", "s", "--until", "earliest"}, "is no end"},
		"until_before":     {[]string{"sub", "s", "--from", "5", "--until", "3"}, "--until 3 is before --from 5"},
		"until_earlier":    {[]string{"sub", "s", "--from", "@2026-02-01", "--until", "@2026-01-01"}, "is before"},
		"bad_time":         {[]string{"sub", "s", "--from", "@noon"}, "is no time"},
		"negative_count":   {[]string{"sub", "s", "--count", "-1"}, "must not be negative"},
		"negative_shard":   {[]string{"sub", "s", "--shard", "-1"}, "must not be negative"},
		"keys":             {[]string{"sub", "s", "--format", "%k"}, "felixctl consume"},
		"bad_format":       {[]string{"sub", "s", "--format", "%x"}, "unknown"},
		"word_format":      {[]string{"sub", "s", "--format", "yaml"}, "none of raw, offsets, json"},
		"small_records":    {[]string{"bench", "ingest", "s", "--bytes", "3"}, "--bytes must be"},
		"many_records":     {[]string{"bench", "fanout", "s", "--fanout", "1000", "--records", "1000000"}, "times --fanout"},
		"no_fanout":        {[]string{"bench", "latency", "s", "--fanout", "2"}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runCtl(t, "", nil, append(tt.args, settings...)...)
			if got.status != exitUsage || got.out != "" || !strings.Contains(got.err, tt.want) {
				t.Errorf("got %+v, want status %d and %q", got, exitUsage, tt.want)
			}
		})
	}
}

// TestPubInterrupted: an interrupt ends a command whose input does not, and the records before it are told of.
func TestPubInterrupted(t *testing.T) {
	c, _ := development(t)
	want(t, exitOK, "", []string{"stream", "create", "orders", c})
	in, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	pub := begin(t, in, "pub", "orders", c)
	if _, err := feed.Write([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record", func() bool { return want(t, exitOK, "", []string{"sub", "orders", "--exit", c}).out == "one\n" })
	pub.interrupt()
	pub.end(exitInterrupted, "1 record acknowledged")
	if got := pub.out.String(); !strings.Contains(got, "offset 0") {
		t.Errorf("got %q", got)
	}
}

// TestListeners: whoever names the wrong listener, or asks the Kafka one for a stream that it does not show, is told so.
func TestListeners(t *testing.T) {
	s, c := newNativeServer(t)
	want(t, exitOK, "", []string{"stream", "create", "positions", "--durable=false", c})
	want(t, exitUnreachable, "", []string{"topic", "list", "--brokers", s.native, c}, "that is the native listener", "the Kafka one, at "+s.addr)
	want(t, exitUnreachable, "", []string{"sub", "positions", "--brokers", s.addr, "--timeout", "500ms", c}, "that is the Kafka listener", "the native one, at "+s.native)
	want(t, exitMissing, "", []string{"produce", "positions", "x", c}, "in memory alone", "felixctl pub and sub")
}
