package clients

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/felixlog/felix/compat/clients/report"
)

// throttles counts the answers that told a client to wait.
type throttles struct{ atomic.Int64 }

// OnBrokerThrottle is called by the client for every such answer.
func (n *throttles) OnBrokerThrottle(kgo.BrokerMetadata, time.Duration, bool) { n.Add(1) }

// throttled writes two megabytes as a client id, or less once it is told to wait, and returns how many answers did so. (Kafka counts the
// average of ten seconds: what follows on a pause may be ten times the rate.)
func throttled(t *testing.T, topic, clientID string) int64 {
	t.Helper()
	var told throttles
	cl := dial(t, kgo.ClientID(clientID), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.WithHooks(&told),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for sent := 0; sent < 20 && told.Load() == 0; sent++ {
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: make([]byte, 100_000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return told.Load()
}

// TestQuotaTools sets, reads, outlives a restart with, and removes client quotas with kafka-configs.sh, as an operator does.
func TestQuotaTools(t *testing.T) {
	const configCommand = "kafka.admin.ConfigCommand"
	topic := newTopic(t, 1, nil)
	slow, free := topic+"-slow", topic+"-free"
	step := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { suite.results.Note("quotas", report.Tools, !t.Failed()) })
			f(t)
		})
	}
	describe := func(t *testing.T, args ...string) string {
		t.Helper()
		return tool(t, "", configCommand, append([]string{"--describe"}, args...)...)
	}
	shown := func(t *testing.T) {
		t.Helper()
		wants(t, describe(t, "--entity-type", "clients", "--entity-name", slow), slow, "producer_byte_rate=100000.0")
		wants(t, describe(t, "--entity-type", "users", "--entity-name", slow, "--entity-type", "clients", "--entity-default"),
			slow, "the default client-id", "consumer_byte_rate=2.0E7", "producer_byte_rate=1.0E7")
	}
	step("alter", func(t *testing.T) {
		wants(t, tool(t, "", configCommand, "--alter", "--entity-type", "clients", "--entity-name", slow, "--add-config", "producer_byte_rate=100000"),
			"Completed updating config for client "+slow)
		wants(t, tool(t, "", configCommand, "--alter", "--entity-type", "users", "--entity-name", slow, "--entity-type", "clients", "--entity-default",
			"--add-config", "consumer_byte_rate=20000000,producer_byte_rate=10000000"), "Completed updating config")
	})
	step("describe", shown)
	step("enforced", func(t *testing.T) {
		if throttled(t, topic, slow) == 0 {
			t.Error("2 MB at once, over 100 kB a second, and no answer told to wait")
		}
		if n := throttled(t, topic, free); n != 0 {
			t.Errorf("a client without a quota was told to wait %d times", n)
		}
	})
	step("restart", func(t *testing.T) {
		if suite.peer.PID() == 0 {
			t.Log("a server that the test did not start cannot be restarted")
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		defer cancel()
		if err := suite.peer.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		shown(t)
		if throttled(t, topic, slow) == 0 {
			t.Error("after the restart no answer told to wait")
		}
	})
	step("delete", func(t *testing.T) {
		tool(t, "", configCommand, "--alter", "--entity-type", "clients", "--entity-name", slow, "--delete-config", "producer_byte_rate")
		tool(t, "", configCommand, "--alter", "--entity-type", "users", "--entity-name", slow, "--entity-type", "clients", "--entity-default",
			"--delete-config", "consumer_byte_rate,producer_byte_rate")
		if out := describe(t, "--entity-type", "clients"); strings.Contains(out, slow) {
			t.Errorf("the removed quota is shown: %s", out)
		}
		if n := throttled(t, topic, slow); n != 0 {
			t.Errorf("without its quota the client was told to wait %d times", n)
		}
	})
}
