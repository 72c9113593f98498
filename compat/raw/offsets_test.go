package raw_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/raw"
)

var _ = register(
	Case{ID: "50.offsets", What: "ListOffsets -2, -1, a time in the middle, a time in the future", Want: "0; 6; 2 at its time; -1 at -1"},
	Case{ID: "50.disorder", What: "timestamps that descend: first offset with a timestamp >= t", Want: "0"},
	Case{ID: "51.max", What: "ListOffsets -3 (v7)", Want: "3 at the largest time"},
	Case{ID: "51.max-empty", What: "ListOffsets -3 on an empty topic", Want: "0; -1 at -1"},
	Case{ID: "51.local", What: "ListOffsets -4 (v8)", Want: "0; 0 at -1"},
	Case{ID: "51.tiered", What: "ListOffsets -5 (v9)", Want: "0; -1 at -1"},
	Case{ID: "51.pending", What: "ListOffsets -6 (v11)", Want: "0; -1 at -1"},
	Case{ID: "51.max-v6", What: "-3 on v6", Want: "UNSUPPORTED_VERSION (35)"},
	Case{ID: "51.local-v7", What: "-4 on v7, -5 on v8, -6 on v10", Want: "UNSUPPORTED_VERSION (35); UNSUPPORTED_VERSION (35); UNSUPPORTED_VERSION (35)"},
	Case{ID: "51.unknown", What: "-7 on v11", Want: "UNSUPPORTED_VERSION (35)"},
	Case{ID: "51.duplicate", What: "the same partition twice in a request", Want: "INVALID_REQUEST (42)"},
	Case{ID: "51.missing", What: "ListOffsets for a missing topic and for a missing partition", Want: "UNKNOWN_TOPIC_OR_PARTITION (3); UNKNOWN_TOPIC_OR_PARTITION (3)"},
	Case{ID: "54.current", What: "OffsetForLeaderEpoch for the current epoch (after a kill)", Want: "0, that epoch, log end"},
	Case{ID: "54.older", What: "for an epoch between two known ones", Want: "0, the older epoch, start of the next"},
	Case{ID: "54.oldest", What: "for an epoch older than all known (its records deleted)", Want: "0, epoch 0, offset 3"},
	Case{ID: "54.newer", What: "for an epoch newer than all known", Want: "0, epoch -1, offset -1"},
	Case{ID: "54.none", What: "for the current epoch of a never-written partition", Want: "0, epoch 0, offset 0"},
	Case{ID: "54.missing", What: "for a missing partition", Want: "UNKNOWN_TOPIC_OR_PARTITION (3), epoch -1, offset -1"},
	Case{ID: "58.kadm", What: "start, end and time offsets as kadm lists them (Java: compat/clients)", Want: "0 6 2"},
	Case{ID: "T15.unset", What: "leader epoch in ListOffsets v4+: of -1 and -2 on a written partition, of no match", Want: "the current epoch; the first epoch; -1"},
)

// epochEnd asks for the end of an epoch.
func (c *client) epochEnd(topic string, current, requested int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	c.t.Helper()
	return c.epochEndOf(topic, 0, current, requested)
}

func (c *client) epochEndOf(topic string, partition, current, requested int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = 4, -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = partition, current, requested
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return do[*kmsg.OffsetForLeaderEpochResponse](c, req).Topics[0].Partitions[0]
}

// end describes an end of an epoch; it names what it is when it is as expected.
func end(p kmsg.OffsetForLeaderEpochResponseTopicPartition, epoch int32, offset int64) string {
	switch {
	case p.ErrorCode == 0 && p.LeaderEpoch == epoch && p.EndOffset == offset && epoch > 0:
		return "0, that epoch, log end"
	case p.ErrorCode == 0 && p.LeaderEpoch == epoch && p.EndOffset == offset:
		return "0, the older epoch, start of the next"
	default:
		return fmt.Sprintf("%s, epoch %d, offset %d", name(p.ErrorCode), p.LeaderEpoch, p.EndOffset)
	}
}

// timedTopic has six records in three batches: times 0, 10 | 20, 50 | 30, 40 after the base.
func timedTopic(c *client) (topic string, base int64) {
	c.t.Helper()
	topic, base = c.topic(1), now()-1000
	for _, deltas := range [][2]int64{{0, 10}, {20, 50}, {30, 40}} {
		b := raw.NewBatch(base, raw.Values("a", "b")...)
		b.Records[0].TimestampDelta, b.Records[1].TimestampDelta = deltas[0], deltas[1]
		c.mustProduce(topic, 0, b.Encode())
	}
	return topic, base
}

// place is an answer of ListOffsets, relative to a base time.
func place(p kmsg.ListOffsetsResponseTopicPartition) string {
	if p.ErrorCode != 0 {
		return name(p.ErrorCode)
	}
	return fmt.Sprintf("0; %d at %d", p.Offset, p.Timestamp)
}

func TestCase50ListOffsets(t *testing.T) {
	c := dial(t)
	topic, base := timedTopic(c)
	middle, future := c.listOffsets(7, topic, 0, base+15), c.listOffsets(7, topic, 0, base+100_000)
	at := fmt.Sprintf("%d at %d", middle.Offset, middle.Timestamp-base)
	if middle.Offset == 2 && middle.Timestamp == base+20 {
		at = "2 at its time"
	}
	expect(t, "50.offsets", fmt.Sprintf("%d; %d; %s; %d at %d", c.offset(topic, 0, -2), c.offset(topic, 0, -1), at, future.Offset, future.Timestamp))
	start, end, after := kadmOffsets(t, topic, base+15)
	expect(t, "58.kadm", fmt.Sprintf("%d %d %d", start, end, after))

	descending, base := c.topic(1), now()-1000
	for i := range 3 {
		c.mustProduce(descending, 0, raw.NewBatch(base-int64(i)*100, raw.Values("x")...).Encode())
	}
	expect(t, "50.disorder", fmt.Sprint(c.listOffsets(7, descending, 0, base-150).Offset))
}

func TestCase51SpecialTimestamps(t *testing.T) {
	c := dial(t)
	topic, base := timedTopic(c)
	largest := c.listOffsets(7, topic, 0, -3)
	got := place(largest)
	if largest.Offset == 3 && largest.Timestamp == base+50 {
		got = "3 at the largest time"
	}
	expect(t, "51.max", got)
	expect(t, "51.max-empty", place(c.listOffsets(7, c.topic(1), 0, -3)))
	expect(t, "51.local", place(c.listOffsets(8, topic, 0, -4)))
	expect(t, "51.tiered", place(c.listOffsets(9, topic, 0, -5)))
	expect(t, "51.pending", place(c.listOffsets(11, topic, 0, -6)))
	expect(t, "51.max-v6", place(c.listOffsets(6, topic, 0, -3)))
	expect(t, "51.local-v7", names(c.listOffsets(7, topic, 0, -4).ErrorCode, c.listOffsets(8, topic, 0, -5).ErrorCode,
		c.listOffsets(10, topic, 0, -6).ErrorCode))
	expect(t, "51.unknown", place(c.listOffsets(11, topic, 0, -7)))
	twice := listOffsetsRequest(7, topic, 0, -1)
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, twice.Topics[0].Partitions[0])
	var codes []int16
	for _, p := range do[*kmsg.ListOffsetsResponse](c, twice).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	expect(t, "51.duplicate", names(slices.Compact(codes)...)) // Kafka answers it once
	expect(t, "51.missing", names(c.listOffsets(7, newName(t), 0, -1).ErrorCode, c.listOffsets(7, topic, 9, -1).ErrorCode))
}

func TestCase54EpochEnds(t *testing.T) {
	c := dial(t)
	topic := c.topic(1)
	expect(t, "54.none", end(c.epochEnd(topic, -1, 0), -9, 0))
	c.mustProduce(topic, 0, values("a"))
	expect(t, "54.newer", end(c.epochEnd(topic, -1, 99), -9, 0))
	expect(t, "54.missing", end(c.epochEndOf(topic, 9, -1, 0), -9, 0))
	epoch := c.metadata(9, topic).Topics[0].Partitions[0].LeaderEpoch
	shown := func(timestamp int64, want int32, text string) string {
		if e := c.listOffsets(7, topic, 0, timestamp).LeaderEpoch; e != want {
			return fmt.Sprint(e)
		}
		return text
	}
	expect(t, "T15.unset", shown(-1, epoch, "the current epoch")+"; "+shown(-2, epoch, "the first epoch")+"; "+
		shown(now()+100_000, -1, "-1"))
}
