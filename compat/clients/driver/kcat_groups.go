package driver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/felixlog/felix/compat/clients/agent"
)

var _ agent.GroupLibrary = kcat{}

// groupFormat is kcatFormat after the partition.
const groupFormat = "%p " + kcatFormat

// kcatRebalance is the line in which kcat tells of a change, before it makes it.
var (
	kcatRebalance = regexp.MustCompile(`^% Group .* rebalanced \(memberid [^)]*\): (assigned|revoked):(.*)$`)
	kcatPartition = regexp.MustCompile(`\[(\d+)\]`)
)

// Member is `kcat -G`. It commits by librdkafka's timer, which is set short when the request asks for commits, and when it gives
// partitions up; SIGTERM makes it leave. Both outputs go into one pipe, in the order in which kcat's one thread writes them, so that a
// record is never seen before the assignment that brought it.
func (kcat) Member(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	g := req.Group
	settings := map[string]string{"auto.offset.reset": "earliest", "log_level": "0"}
	if g.Commit {
		settings["auto.commit.interval.ms"] = "100"
	}
	if g.Assignor != "" {
		settings["partition.assignment.strategy"] = g.Assignor
	}
	if g.Instance != "" {
		settings["group.instance.id"] = g.Instance
	}
	if g.SessionMS != 0 {
		settings["session.timeout.ms"], settings["heartbeat.interval.ms"] = strconv.Itoa(g.SessionMS), strconv.Itoa(g.SessionMS/10)
	}
	req.Config = settings
	cmd := command(ctx, req, "-G", g.ID, "-u", "-f", groupFormat, req.Topic)
	owner := agent.NewOwner(emit)
	stopping := make(chan struct{})
	cmd.Cancel = func() error {
		close(stopping)
		owner.RevokedAll()
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = exitGrace
	out, told := io.Pipe()
	cmd.Stdout, cmd.Stderr = told, told
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = told.CloseWithError(io.EOF) // never fails
		ended <- err
	}()
	r := bufio.NewReader(out)
	var failed error
	for failed == nil {
		failed = groupStep(r, owner, stopping)
	}
	_ = out.CloseWithError(failed) // never fails
	err := <-ended
	if ctx.Err() != nil {
		return nil //nolint:nilerr // how it ended is not what was asked: it was told to
	}
	return errors.Join(fmt.Errorf("kcat ended by itself: %w", failed), err)
}

// groupStep reads one line of either output: a record, a change of what the member owns, or something else that kcat says.
func groupStep(r *bufio.Reader, owner *agent.Owner, stopping <-chan struct{}) error {
	first, err := r.Peek(1)
	if err != nil {
		return err
	}
	if first[0] != '%' {
		partition, err := r.ReadString(' ')
		if err != nil {
			return err
		}
		p, err := strconv.ParseInt(strings.TrimSuffix(partition, " "), 10, 32)
		if err != nil {
			return err
		}
		rec, err := parseKcat(r)
		if err != nil {
			return err
		}
		rec.Partition = int32(p)
		owner.Record(*rec)
		return nil
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	m := kcatRebalance.FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return nil
	}
	var partitions []int32
	for _, found := range kcatPartition.FindAllStringSubmatch(m[2], -1) {
		p, err := strconv.ParseInt(found[1], 10, 32)
		if err != nil {
			return err
		}
		partitions = append(partitions, int32(p))
	}
	select {
	case <-stopping: // all of it was given up already
		return nil
	default:
	}
	if m[1] == "assigned" {
		owner.Assigned(partitions...)
	} else {
		owner.Revoked(partitions...)
	}
	return nil
}

// Admin is not in kcat.
func (kcat) Admin(context.Context, agent.Request) (agent.Response, error) {
	return agent.Response{}, agent.ErrUnsupported
}
