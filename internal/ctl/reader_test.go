package ctl

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// readerAt reads partition 0 of a topic from offset at, to end, with --exit.
func readerAt(t *testing.T, s *server, at, end int64) *reader {
	t.Helper()
	a := &app{p: Process{Out: &bytes.Buffer{}, Err: newStream()}, settings: settings{brokers: s.addr, timeout: 5 * time.Second}}
	r := &reader{
		app: a, flags: &consumeFlags{exit: true}, topic: "orders", watch: newWatcher(a),
		print: func(dst []byte, _ *kgo.Record) []byte { return dst },
		ends:  map[int32]int64{0: end}, next: map[int32]int64{0: at}, leaders: map[int32]int32{},
	}
	var err error
	r.client, err = a.connect(t.Context(), kgo.FetchMaxWait(r.pause()), kgo.WithHooks(r.watch),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(at)}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	details, err := r.client.topics(t.Context(), []string{"orders"})
	if err != nil {
		t.Fatal(err)
	}
	r.leaders[0] = details["orders"].Partitions[0].Leader
	return r
}

func TestReaderEndsWhereTheRestHoldsNoRecord(t *testing.T) {
	s := newServer(t)
	want(t, exitOK, "a\nb\n", []string{"produce", "orders", s.flag()})
	r := readerAt(t, s, 2, 2)
	r.next[0] = 1 // as if the record at 1 had been compacted away
	if err := r.run(t.Context()); err != nil || r.read != 0 || len(r.ends) != 0 {
		t.Errorf("got %v, %d records, unfinished %v", err, r.read, r.ends)
	}
}

func TestReaderTellsOfAnEndThatFell(t *testing.T) {
	s := newServer(t)
	want(t, exitOK, "a\nb\n", []string{"produce", "orders", s.flag()})
	err := readerAt(t, s, 0, 5).run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ends at offset 2 now, and ended at 5") || statusOf(err) != exitFailure {
		t.Errorf("got %v, want the loss", err)
	}
}

// silent is the address of a server that takes connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

func TestServerThatHangs(t *testing.T) {
	addr := silent(t)
	for _, args := range [][]string{{"topic", "list"}, {"produce", "t", "m"}, {"consume", "t"}, {"topic", "delete", "t", "--yes"}} {
		t.Run(args[0]+args[1], func(t *testing.T) {
			want(t, exitUnreachable, "", append(args, "--timeout", "100ms", "--brokers", addr), "no answer from the server at "+addr+" within 100ms")
		})
	}
}

func TestInterruptOfAnyCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := newStream()
	status := Main(ctx, Process{Args: []string{"topic", "list", "--brokers", silent(t)}, In: strings.NewReader(""), Out: newStream(), Err: errs})
	if status != exitInterrupted || errs.String() != "felixctl: interrupted\n" {
		t.Errorf("got status %d and %q", status, errs)
	}
}

func TestMismatchesOfTLSAndLogin(t *testing.T) {
	plain := newServer(t)
	want(t, exitUnreachable, "", []string{"topic", "list", "--tls", plain.flag()}, "leave out --tls")
	want(t, exitRefused, "", []string{"topic", "list", "--tenant", "a", "--token", "b", plain.flag()}, "leave out --tenant")
	login := newServer(t, "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret", "FELIX_KAFKA_TLS=false", "FELIX_ALLOW_INSECURE=1")
	want(t, exitUnreachable, "", []string{"topic", "list", login.flag()}, "give --tenant and --token")
	want(t, exitRefused, "", []string{"topic", "list", "--tenant", "acme", "--token", "wrong", login.flag()}, "check --tenant and --token")
	want(t, exitOK, "", []string{"topic", "list", "--tenant", "acme", "--token", "secret", login.flag()})
	secure := newServer(t, "FELIX_KAFKA_SASL_PLAIN_USERS=acme:secret", "FELIX_KAFKA_TLS=true")
	want(t, exitUnreachable, "", []string{"topic", "list", secure.flag()}, "if the server uses TLS, give --tls or --ca-file")
	want(t, exitUnreachable, "", []string{"topic", "list", "--tls", secure.flag()}, "name its authority with --ca-file")
}
