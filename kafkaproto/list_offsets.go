package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

// ListOffsets, versions 1 to 11.
//
//	1   one offset with its timestamp a partition (version 0 had a list)
//	2   isolation level
//	4   leader epochs, in the request (checked) and in the answer
//	5   OFFSET_NOT_AVAILABLE instead of LEADER_NOT_AVAILABLE
//	7   timestamp -3: the record with the largest timestamp (KIP-734)
//	8   -4: the earliest offset on local storage (KIP-405)
//	9   -5: the latest offset in tiered storage (KIP-1005)
//	10  the time that the request may take; look-ups here do not wait
//	11  -6: the earliest offset not yet uploaded (KIP-1023)
//
// Rules: Kafka request rules 4.5. Without tiered storage -4 is the log start offset, and -5 and -6 are -1.
//
// Different from Kafka: the replica id is ignored, everybody reads as a consumer. No record at or after a time is offset -1, timestamp -1 and
// no error, as there.

// The timestamps that stand for something else, and the first version that defines each.
const (
	tsLatest          int64 = -1
	tsEarliest        int64 = -2
	tsMax             int64 = -3
	tsEarliestLocal   int64 = -4
	tsLatestTiered    int64 = -5
	tsEarliestPending int64 = -6
)

var tsSince = map[int64]int16{tsLatest: 1, tsEarliest: 1, tsMax: 7, tsEarliestLocal: 8, tsLatestTiered: 9, tsEarliestPending: 11}

var (
	errTwice     = errcode.New(errcode.InvalidRequest, "the partition is named twice")
	errTimestamp = errcode.New(errcode.UnsupportedVersion, "this version of the request does not define the timestamp")
)

type partitionKey struct {
	topic     string
	partition int32
}

func handleListOffsets(c *call) {
	req := c.req.(*kmsg.ListOffsetsRequest)
	resp := c.response().(*kmsg.ListOffsetsResponse)
	view := c.view()
	seen := duplicates[partitionKey]{}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			seen.add(partitionKey{req.Topics[i].Topic, req.Topics[i].Partitions[j].Partition})
		}
	}
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, 0, len(req.Topics))
	for i := range req.Topics {
		asked := &req.Topics[i]
		t, topicErr := c.topic(view, asked.Topic)
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = asked.Topic
		out.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, 0, len(asked.Partitions))
		for j := range asked.Partitions {
			p := &asked.Partitions[j]
			found, err := noOffset, topicErr
			switch {
			case seen.repeated(partitionKey{asked.Topic, p.Partition}):
				err = errTwice
			case err == nil:
				found, err = c.listOffset(t, p, req.IsolationLevel == 1)
			}
			out.Partitions = append(out.Partitions, c.listedOffset(p.Partition, found, err))
		}
		resp.Topics = append(resp.Topics, out)
	}
	c.reply(resp)
}

// noOffset is the answer for "nothing there" and beside every error.
var noOffset = broker.TimeOffset{Offset: ids.NoOffset, Timestamp: -1, Epoch: ids.NoEpoch}

func (c *call) listedOffset(partition int32, found broker.TimeOffset, err error) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition = partition
	if err != nil {
		found = noOffset
		out.ErrorCode = c.code(err)
	}
	out.Offset, out.Timestamp, out.LeaderEpoch = int64(found.Offset), found.Timestamp, int32(found.Epoch)
	return out
}

func (c *call) listOffset(t *cluster.Topic, p *kmsg.ListOffsetsRequestTopicPartition, committed bool) (broker.TimeOffset, error) {
	if since, special := tsSince[p.Timestamp]; p.Timestamp < 0 && (!special || c.version < since) {
		return noOffset, errTimestamp
	}
	s, err := c.shardOf(t, p.Partition)
	if err != nil {
		return noOffset, err
	}
	if err := s.CheckEpoch(ids.LeaderEpoch(p.CurrentLeaderEpoch)); err != nil {
		return noOffset, err
	}
	b := s.Bounds()
	switch p.Timestamp {
	case tsLatest:
		end := b.HighWatermark
		if committed {
			end = b.LastStable
		}
		return broker.TimeOffset{Offset: end, Timestamp: -1, Epoch: b.Epoch}, nil
	case tsEarliest, tsEarliestLocal:
		epoch := s.EpochAt(b.Start)
		if b.Start == b.End {
			epoch = b.Epoch // nothing there yet: the next record will be of this leadership
		}
		return broker.TimeOffset{Offset: b.Start, Timestamp: -1, Epoch: epoch}, nil
	case tsLatestTiered, tsEarliestPending:
		return noOffset, nil
	case tsMax:
		return orNone(s.MaxTimestamp(c.context()))
	default:
		return orNone(s.OffsetForTime(c.context(), p.Timestamp))
	}
}

func orNone(found broker.TimeOffset, ok bool, err error) (broker.TimeOffset, error) {
	if err != nil || !ok {
		return noOffset, err
	}
	return found, nil
}
