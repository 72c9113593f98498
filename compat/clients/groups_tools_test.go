package clients

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/clients/agent"
	"github.com/felixlog/felix/compat/clients/driver"
	"github.com/felixlog/felix/compat/clients/report"
)

// groupsTool runs kafka-consumer-groups.sh and returns all that it printed: it reports refusals in its output, and not every one of
// them in its exit code.
func groupsTool(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toolLimit)
	defer cancel()
	argv := append(driver.JVMFlags(), "-Xmx256m", "-cp", driver.JavaClasspath(),
		"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", suite.addr)
	cmd := exec.CommandContext(ctx, "java", append(argv, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Logf("%s: %v", strings.Join(args, " "), err) // what it printed decides
	}
	return out.String()
}

// row checks that a line of a tool's table has these columns, in this order, whatever is between them.
func row(t *testing.T, output string, columns ...string) {
	t.Helper()
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = regexp.QuoteMeta(c)
	}
	if !regexp.MustCompile(`(?m)^` + strings.Join(quoted, `\s+(\S+\s+)*?`) + `(\s|$)`).MatchString(output) {
		t.Errorf("no line with %q in:\n%s", columns, output)
	}
}

// TestCase71GroupTools uses kafka-consumer-groups.sh as a user does, on a group with a member, which then leaves.
func TestCase71GroupTools(t *testing.T) {
	topic := newTopic(t, 1, nil)
	group := topic + "-group"
	records := make([]agent.Record, 10)
	for i := range records {
		records[i].Value = fmt.Appendf(nil, "%d", i)
	}
	call(t, client(t, "franz-go"), agent.Request{Op: agent.OpProduce, Topic: topic, Records: records})
	consumer := dial(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ClientID("reader"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 0; n < 10; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		n += fetches.NumRecords()
	}
	var failed error
	consumer.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 7}}}, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
		failed = err
	})
	if failed != nil {
		t.Fatal(failed)
	}
	step := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { suite.results.Note("71", report.Tools, !t.Failed()) })
			f(t)
		})
	}
	step("list", func(t *testing.T) {
		row(t, groupsTool(t, "--list", "--state"), group, "Stable")
	})
	step("describe", func(t *testing.T) {
		row(t, groupsTool(t, "--describe", "--group", group), group, topic, "0", "7", "10", "3", "/127.0.0.1", "reader")
		row(t, groupsTool(t, "--describe", "--group", group, "--state"), group, "cooperative-sticky", "Stable", "1")
		row(t, groupsTool(t, "--describe", "--group", group, "--members"), group, "/127.0.0.1", "reader", "1")
	})
	step("refused", func(t *testing.T) {
		wants(t, groupsTool(t, "--delete", "--group", group), "GroupNotEmptyException")
		wants(t, groupsTool(t, "--delete-offsets", "--group", group, "--topic", topic), "GroupSubscribedToTopicException")
		wants(t, groupsTool(t, "--reset-offsets", "--to-earliest", "--execute", "--group", group, "--topic", topic), "current state is Stable")
	})
	step("missing", func(t *testing.T) {
		wants(t, groupsTool(t, "--describe", "--group", group+"-missing"), "GroupIdNotFoundException")
		wants(t, groupsTool(t, "--delete", "--group", group+"-missing"), "GroupIdNotFoundException")
	})
	consumer.Close()
	step("reset-offsets", func(t *testing.T) {
		row(t, groupsTool(t, "--reset-offsets", "--to-earliest", "--execute", "--group", group, "--topic", topic), group, topic, "0", "0")
		row(t, groupsTool(t, "--describe", "--group", group), group, topic, "0", "0", "10", "10")
	})
	step("delete-offsets", func(t *testing.T) {
		wants(t, groupsTool(t, "--delete-offsets", "--group", group, "--topic", topic), "Successful")
	})
	step("delete", func(t *testing.T) {
		out := groupsTool(t, "--delete", "--group", group)
		// Whether the group outlives its last offset is a matter of time.
		if !strings.Contains(out, "was successful") && !strings.Contains(out, "GroupIdNotFoundException") {
			t.Errorf("delete: %s", out)
		}
		if strings.Contains("\n"+groupsTool(t, "--list"), "\n"+group+"\n") {
			t.Error("the deleted group is listed")
		}
	})
}
