package rawkafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetTimeout bounds one request about a group.
const offsetTimeout = 30 * time.Second

// groupNotFound is the error code of GROUP_ID_NOT_FOUND.
const groupNotFound = 69

// notYet are the error codes of a coordinator that is not there yet: loading, not available, not coordinator.
var notYet = []int16{14, 15, 16}

// ErrNotYet is the error of a request about a group whose coordinator is not there yet.
var ErrNotYet = errors.New("the coordinator is not there yet")

func coordinatorError(code int16) error {
	switch {
	case code == 0:
		return nil
	case slices.Contains(notYet, code):
		return fmt.Errorf("error code %d: %w", code, ErrNotYet)
	default:
		return fmt.Errorf("error code %d", code)
	}
}

// AwaitCoordinator waits until a group has a coordinator that has loaded it. On a new cluster of Kafka this makes the topic that groups
// are kept in.
func (c *Conn) AwaitCoordinator(ctx context.Context, group string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.coordinator(group)
		if err == nil {
			_, err = c.CommittedOffset(group, "none", 0)
		}
		if !errors.Is(err, ErrNotYet) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func (c *Conn) coordinator(group string) error {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKey = 3, group
	resp, err := c.Do(req, offsetTimeout)
	if err != nil {
		return err
	}
	return coordinatorError(resp.(*kmsg.FindCoordinatorResponse).ErrorCode)
}

// CommitRequest commits offsets of the first partitions of a topic for a group without members.
func CommitRequest(group, topic string, offsets []int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = 8, group
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for i, at := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(i), at
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// Commit commits offsets of the first partitions of a topic for a group without members.
func (c *Conn) Commit(group, topic string, offsets []int64) error {
	resp, err := c.Do(CommitRequest(group, topic, offsets), offsetTimeout)
	if err != nil {
		return err
	}
	return CommitError(resp.(*kmsg.OffsetCommitResponse))
}

// CommitError is the first error in an answer.
func CommitError(resp *kmsg.OffsetCommitResponse) error {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := coordinatorError(p.ErrorCode); err != nil {
				return fmt.Errorf("commit of %s %d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// CommittedOffset returns what a group has committed of a partition, -1 for nothing.
func (c *Conn) CommittedOffset(group, topic string, partition int32) (int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, t)
	resp, err := c.Do(req, offsetTimeout)
	if err != nil {
		return 0, err
	}
	f := resp.(*kmsg.OffsetFetchResponse)
	if f.ErrorCode == groupNotFound {
		return -1, nil // some servers tell a group without offsets that way
	}
	if err := coordinatorError(f.ErrorCode); err != nil {
		return 0, fmt.Errorf("fetch of offsets: %w", err)
	}
	if len(f.Topics) != 1 || len(f.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("fetch of one offset: %d topics", len(f.Topics))
	}
	p := f.Topics[0].Partitions[0]
	return p.Offset, coordinatorError(p.ErrorCode)
}
