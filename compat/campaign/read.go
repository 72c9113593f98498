package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readLimit bounds one reading of everything new.
const readLimit = 2 * time.Minute

// dial is a franz-go client for the campaign's own requests.
func dial(addr string, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, opts...)...)
}

// createTopic makes a topic with small segments, so that rolls happen between kills, and nothing that deletes.
func createTopic(ctx context.Context, addr, topic string, partitions int32) error {
	return createWith(ctx, addr, topic, partitions, map[string]*string{
		"retention.ms": kadm.StringPtr("-1"), "retention.bytes": kadm.StringPtr("-1"), "segment.bytes": kadm.StringPtr("1048576"),
	})
}

// createCompacted makes a topic whose batches the server must open, to see that every record has a key.
func createCompacted(ctx context.Context, addr, topic string, partitions int32) error {
	return createWith(ctx, addr, topic, partitions, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")})
}

func createWith(ctx context.Context, addr, topic string, partitions int32, configs map[string]*string) error {
	cl, err := dial(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	res, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, configs, topic)
	if err == nil {
		err = res.Err
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", topic, err)
	}
	return nil
}

// deleteTopic removes a topic.
func deleteTopic(ctx context.Context, addr, topic string) error {
	cl, err := dial(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	res, err := kadm.NewClient(cl).DeleteTopics(ctx, topic)
	if err == nil {
		err = errors.Join(res.Error())
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", topic, err)
	}
	return nil
}

// readNew feeds the checker everything between its checkpoints and the ends of the partitions as they are now, and then checks that
// what was acknowledged before is among it.
func readNew(ctx context.Context, addr, topic string, c *checker) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readLimit, errors.New("reading took too long"))
	defer cancel()
	acked := c.acked()
	if err := readTo(ctx, addr, topic, c); err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	c.mustHold(acked)
	return nil
}

// readTo reads to the ends of all partitions.
func readTo(ctx context.Context, addr, topic string, c *checker) error {
	cl, err := dial(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("end offsets: %w", err)
	}
	open := map[int32]int64{}
	assign := map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		c.endOf(o.Partition, o.Offset)
		if at := c.checkpoint[o.Partition]; at < o.Offset {
			open[o.Partition] = o.Offset
			assign[o.Partition] = kgo.NewOffset().At(at)
		}
	})
	if len(open) == 0 {
		return nil
	}
	reader, err := dial(addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assign}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer reader.Close()
	for len(open) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("partitions %v not at the end: %w", slices.Collect(maps.Keys(open)), context.Cause(ctx))
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("fetch of partition %d: %w", e.Partition, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			// What came after the end is left for the next reading, which starts at the checkpoint.
			if r.Offset >= open[r.Partition] {
				return
			}
			c.record(r.Partition, r.Offset, r.Value)
			if r.Offset+1 == open[r.Partition] {
				delete(open, r.Partition)
			}
		})
	}
	return nil
}
