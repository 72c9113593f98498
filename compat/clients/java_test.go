package clients

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
	"github.com/felixlog/felix/compat/clients/report"
)

// TestJavaAdmin walks through the calls of Java's admin client; java/…/Admin.java does them, this table says what must come back.
func TestJavaAdmin(t *testing.T) {
	forClient(t, "admin", client(t, "java"), func(t *testing.T, c *driver.Client) {
		topic := fmt.Sprintf("clients.t%d-admin", topics.Add(1))
		checkValues(t, call(t, c, agent.Request{Op: "java.admin", Topic: topic, Partition: 1}).Values, map[string]string{
			"create.partitions":          "2",
			"create.replication":         "1",
			"create.config.retention.ms": "3600000",
			"create.config.count>20":     "true",
			"create.again":               "TOPIC_ALREADY_EXISTS",
			"create.bad-config":          "INVALID_CONFIG",
			"create.bad-replication":     "INVALID_REPLICATION_FACTOR",
			"describe.retention.ms":      "3600000 DYNAMIC_TOPIC_CONFIG",
			"describe.cleanup.policy":    "delete DEFAULT_CONFIG",
			"alter.retention.ms":         "7200000 DYNAMIC_TOPIC_CONFIG",
			"alter.cleanup.policy":       "delete,compact DYNAMIC_TOPIC_CONFIG",
			"reset.retention.ms":         "604800000 DEFAULT_CONFIG",
			"reset.cleanup.policy":       "delete",
			"alter.bad-name":             "INVALID_CONFIG",
			"alter.bad-value":            "INVALID_CONFIG",
		})
		var records []agent.Record
		for i := range 10 {
			records = append(records, agent.Record{Value: fmt.Appendf(nil, "%d", i), Timestamp: time.Now().UnixMilli() - 1000 + int64(i)})
		}
		call(t, c, agent.Request{Op: agent.OpProduce, Topic: topic, Records: records})
		checkValues(t, call(t, c, agent.Request{Op: "java.admin", Topic: topic, Partition: 2}).Values, map[string]string{
			"cluster.nodes":                "1",
			"cluster.controller-is-a-node": "true",
			"cluster.has-id":               "true",
			"topic.partitions":             "2",
			"topic.has-id":                 "true",
			"topic.internal":               "false",
			"topic.missing":                "UNKNOWN_TOPIC_OR_PARTITION",
			"topics.listed":                "true",
			"logdirs.size>0":               "true",
			"producers.count":              "1",
			"producers.last-sequence":      "9",
			"producers.epoch":              "0",
			"producers.transaction":        "OptionalLong.empty",
			"delete-records.low-watermark": "4",
			"delete-records.beyond":        "OFFSET_OUT_OF_RANGE",
			"offsets.earliest":             "4",
			"offsets.latest":               "10",
			"offsets.max-timestamp":        "9",
			"grow.fewer":                   "INVALID_PARTITIONS",
			"grow.partitions":              "5",
			"delete.listed":                "false",
			"delete.again":                 "UNKNOWN_TOPIC_OR_PARTITION",
		})
	})
}

// checkValues compares named results, and misses none on either side.
func checkValues(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %q, want %q", name, got[name], value)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %q, and nothing is expected of it", name, got[name])
		}
	}
}

// toolLimit bounds one run of a command-line tool.
const toolLimit = 90 * time.Second

// tool runs one of Apache Kafka's command-line tools as its shell script does, and returns what it printed.
func tool(t *testing.T, input, class string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toolLimit)
	defer cancel()
	argv := append(driver.JVMFlags(), "-Xmx256m", "-cp", driver.JavaClasspath(), class, "--bootstrap-server", suite.addr)
	cmd := exec.CommandContext(ctx, "java", append(argv, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", class, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// wants checks that every text is in what a tool printed.
func wants(t *testing.T, output string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(output, text) {
			t.Errorf("no %q in:\n%s", text, output)
		}
	}
}

// TestJavaTools uses the tools as a user does, one after another on one topic.
func TestJavaTools(t *testing.T) {
	topic := fmt.Sprintf("clients.t%d-tools", topics.Add(1))
	step := func(name string, f func(t *testing.T)) {
		// Each step needs what the ones before it did.
		if t.Failed() {
			return
		}
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { suite.results.Note("tools", report.Tools, !t.Failed()) })
			f(t)
		})
	}
	const topicCommand = "org.apache.kafka.tools.TopicCommand"
	step("topics-create", func(t *testing.T) {
		out := tool(t, "", topicCommand, "--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1", "--config", "retention.ms=1000000")
		wants(t, out, "Created topic "+topic)
	})
	step("topics-list", func(t *testing.T) {
		wants(t, "\n"+tool(t, "", topicCommand, "--list"), "\n"+topic+"\n")
	})
	step("console-producer", func(t *testing.T) {
		tool(t, "h1:a,h1:b\tk0|v0\nh2:c\tk1|v1\nh2:c\tk2|v2\n", "org.apache.kafka.tools.ConsoleProducer", "--topic", topic,
			"--reader-property", "parse.key=true", "--reader-property", "key.separator=|", "--reader-property", "parse.headers=true",
			"--compression-codec", "gzip")
	})
	step("console-consumer", func(t *testing.T) {
		out := tool(t, "", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--partition", "0", "--offset", "0",
			"--max-messages", "3", "--timeout-ms", "30000", "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
			"--formatter-property", "print.offset=true", "--formatter-property", "print.partition=true")
		wants(t, out, "Partition:0\tOffset:0\th1:a,h1:b\tk0\tv0", "Partition:0\tOffset:1\th2:c\tk1\tv1", "Partition:0\tOffset:2\th2:c\tk2\tv2")
	})
	step("console-consumer-offset", func(t *testing.T) {
		out := tool(t, "", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--partition", "0", "--offset", "2", "--max-messages", "1",
			"--timeout-ms", "30000")
		if out != "v2\n" {
			t.Errorf("read %q, want v2", out)
		}
	})
	step("console-consumer-group", func(t *testing.T) {
		group := topic + "-console"
		out := tool(t, "", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3",
			"--timeout-ms", "30000")
		if out != "v0\nv1\nv2\n" {
			t.Errorf("read %q, want v0, v1 and v2", out)
		}
		if got := committedOffsets(t, group, topic, 1); got[0] != 3 {
			t.Errorf("committed offset %d, want 3", got[0])
		}
	})
	step("verifiable-producer", func(t *testing.T) {
		out := tool(t, "", "org.apache.kafka.tools.VerifiableProducer", "--topic", topic, "--max-messages", "100", "--throughput", "-1", "--acks", "-1")
		wants(t, out, `"name":"startup_complete"`, `"name":"tool_data"`, `"sent":100`, `"acked":100`)
		if n := strings.Count(out, "producer_send_success"); n != 100 {
			t.Errorf("%d successes, want 100", n)
		}
	})
	step("producer-perf-test", func(t *testing.T) {
		out := tool(t, "", "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "50000", "--record-size", "100", "--throughput", "-1",
			"--command-property", "acks=all", "--command-property", "compression.type=lz4")
		wants(t, out, "50000 records sent")
	})
	step("get-offsets", func(t *testing.T) {
		wants(t, tool(t, "", "org.apache.kafka.tools.GetOffsetShell", "--topic", topic), topic+":0:50103\n")
		wants(t, tool(t, "", "org.apache.kafka.tools.GetOffsetShell", "--topic", topic, "--time", "-2"), topic+":0:0\n")
	})
	step("topics-alter", func(t *testing.T) {
		tool(t, "", topicCommand, "--alter", "--topic", topic, "--partitions", "3")
	})
	step("configs-alter", func(t *testing.T) {
		out := tool(t, "", "kafka.admin.ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "max.message.bytes=200000,cleanup.policy=[compact,delete]")
		wants(t, out, "Completed updating config for topic "+topic)
	})
	step("configs-describe", func(t *testing.T) {
		out := tool(t, "", "kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", topic)
		wants(t, out, "max.message.bytes=200000", "cleanup.policy=compact,delete", "retention.ms=1000000")
	})
	step("topics-describe", func(t *testing.T) {
		out := tool(t, "", topicCommand, "--describe", "--topic", topic)
		wants(t, out, "PartitionCount: 3", "ReplicationFactor: 1", "retention.ms=1000000", "max.message.bytes=200000", "Partition: 2\tLeader: ")
	})
	step("log-dirs", func(t *testing.T) {
		out := tool(t, "", "org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", topic)
		wants(t, out, `"partition":"`+topic+`-0"`)
	})
	step("topics-delete", func(t *testing.T) {
		tool(t, "", topicCommand, "--delete", "--topic", topic)
		eventually(t, 10*time.Second, "the deleted topic is no longer listed", func() bool {
			for _, listed := range call(t, client(t, "franz-go"), agent.Request{Op: agent.OpMetadata}).Metadata.Topics {
				if listed.Name == topic {
					return false
				}
			}
			return true
		})
	})
}
