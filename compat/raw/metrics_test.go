package raw_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
	"github.com/felixlog/felix/compat/raw"
)

// ownMetrics is why the rows of this file are not run against Kafka.
const ownMetrics = "looks at Felix's own metrics and log"

var _ = register(
	Case{
		ID: "9.quiet", What: "a wrong password: metrics and log of the server", Want: "counted; the password is in neither",
		OnlyFelix: ownMetrics,
	},
	Case{
		ID: "S78.reasons", What: "felix_kafka_refused_total after one of each: unauthenticated_frame_size, auth_timeout, unknown_api, unsupported_api, frame_size, malformed, connection_limit",
		Want: "each counted", OnlyFelix: ownMetrics,
	},
	Case{
		ID: "16.metrics", What: "felix_kafka_* after one produce and one fetch of three records", Want: "requests, records and bytes counted",
		OnlyFelix: ownMetrics,
	},
)

// metric reads the value of a metric, its labels as they are printed, from a Felix; -1 when there is none.
func metric(t *testing.T, p peer.Peer, metricName string) float64 {
	t.Helper()
	for line := range strings.Lines(metricsText(t, p)) {
		if value, ok := strings.CutPrefix(line, metricName+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
	}
	return -1
}

func metricsText(t *testing.T, p peer.Peer) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), raw.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Bound("metrics")+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCase09NothingLeaks(t *testing.T) {
	if onlyFelix(t, "9.quiet") {
		return
	}
	p := startFelix(t, peer.Options{Security: peer.SASL, FelixEnv: []string{"FELIX_LOG=debug"}})
	c := dialAddr(t, p.Addr())
	c.handshake(1, "PLAIN")
	do[*kmsg.SASLAuthenticateResponse](c, tokenRequest("\x00acme\x00a-very-wrong-word"))
	c.Outcome(closeWait)
	log, err := os.ReadFile(p.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	got := "not counted"
	if metric(t, p, "felix_kafka_auth_failures_total") >= 1 {
		got = "counted"
	}
	if !strings.Contains(string(log)+metricsText(t, p), "a-very-wrong-word") {
		got += "; the password is in neither"
	}
	expect(t, "9.quiet", got)
}

func TestHostile78Reasons(t *testing.T) {
	if onlyFelix(t, "S78.reasons") {
		return
	}
	sasl := startFelix(t, peer.Options{Security: peer.SASL, FelixEnv: []string{"FELIX_KAFKA_AUTH_TIMEOUT_MS=300"}})
	plain := startFelix(t, peer.Options{FelixEnv: []string{"FELIX_KAFKA_MAX_CONNECTIONS=1"}})
	var missing []string
	count := func(p peer.Peer, reason string, frame []byte) {
		t.Helper()
		metricName := fmt.Sprintf("felix_kafka_refused_total{reason=%q}", reason)
		before := metric(t, p, metricName)
		c := dialAddr(t, p.Addr())
		if err := c.SendBytes(frame); err != nil {
			t.Fatal(err)
		}
		c.Outcome(closeWait)
		_ = c.Close()
		await(t, "the connection to be gone", func() bool { return metric(t, p, "felix_kafka_connections") <= 0 })
		if metric(t, p, metricName) != before+1 {
			missing = append(missing, reason)
		}
	}
	count(sasl, "unauthenticated_frame_size", []byte{0, 0x10, 0, 0, 0, 18, 0, 0})
	count(sasl, "auth_timeout", nil)
	count(plain, "unknown_api", rawRequest(999, 0, false, []byte{0, 0, 0, 0}))
	count(plain, "unsupported_api", rawRequest(3, 99, true, []byte{0, 0, 0, 0}))
	count(plain, "frame_size", []byte{0x7f, 0, 0, 0, 0, 18, 0, 0})
	count(plain, "malformed", rawRequest(3, 1, false, []byte{0x7f, 0, 0, 0}))
	first := dialAddr(t, plain.Addr())
	first.apiVersions(4)
	dialAddr(t, plain.Addr()).Outcome(closeWait)
	if metric(t, plain, `felix_kafka_refused_total{reason="connection_limit"}`) < 1 {
		missing = append(missing, "connection_limit")
	}
	got := "each counted"
	if len(missing) > 0 {
		got = "not counted: " + strings.Join(missing, ", ")
	}
	expect(t, "S78.reasons", got)
}

func TestCase16Metrics(t *testing.T) {
	if onlyFelix(t, "16.metrics") {
		return
	}
	p := startFelix(t, peer.Options{})
	c := dialAddr(t, p.Addr())
	topic := c.topic(1)
	c.mustProduce(topic, 0, values("a", "b", "c"))
	c.batches(topic, 0, 0)
	got := "requests, records and bytes counted"
	for _, m := range []struct {
		name string
		want float64
	}{
		{`felix_kafka_produce_records_total`, 3},
		{`felix_kafka_fetch_records_total`, 3},
		{`felix_kafka_connections`, 1},
		{`felix_kafka_connections_total`, 2}, // the other one is the start's own probe, if any
		{`felix_kafka_produce_bytes_total`, 0},
		{`felix_kafka_fetch_bytes_total`, 0},
		{`felix_kafka_requests_total{api="Produce",error="none"}`, 1},
		{`felix_kafka_requests_total{api="Fetch",error="none"}`, 1},
	} {
		v := metric(t, p, m.name)
		ok := v == m.want
		switch {
		case m.want == 0:
			ok = v > 60
		case m.name == "felix_kafka_connections_total":
			ok = v >= 1
		}
		if !ok {
			got = fmt.Sprintf("%s is %v", m.name, v)
		}
	}
	expect(t, "16.metrics", got)
}
