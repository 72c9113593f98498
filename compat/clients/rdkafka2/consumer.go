// Code generated from ../rdkafka1 by generate.sh. DO NOT EDIT.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/felixlog/felix/compat/clients/agent"
)

// pollMS is how long one poll may block; it bounds how late a cancelled context is seen.
const pollMS = 100

// consumer makes a consumer that is only ever assigned by hand. librdkafka's consumer wants a group id even then; nothing is
// committed under it.
func consumer(req agent.Request) (*kafka.Consumer, error) {
	c, err := kafka.NewConsumer(config(req, kafka.ConfigMap{
		"group.id":             "felix-compat-unused",
		"enable.auto.commit":   false,
		"enable.partition.eof": true,
		"auto.offset.reset":    "error",
		"check.crcs":           true,
		"fetch.wait.max.ms":    20, // the end of a partition is reported after an empty fetch
	}))
	if err != nil {
		return nil, fmt.Errorf("consumer: %w", err)
	}
	return c, nil
}

// Consume assigns the partitions and reads each until librdkafka reports its end.
func (library) Consume(ctx context.Context, req agent.Request) ([]agent.Record, error) {
	c, err := consumer(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // nothing was committed
	from := kafka.Offset(req.From)
	if req.From == agent.FromBeginning {
		from = kafka.OffsetBeginning
	}
	var assignment []kafka.TopicPartition
	for _, p := range req.Assign {
		assignment = append(assignment, kafka.TopicPartition{Topic: &req.Topic, Partition: p, Offset: from})
	}
	if err := c.Assign(assignment); err != nil {
		return nil, coded(err)
	}
	var records []agent.Record
	ended := map[int32]bool{}
	for len(ended) < len(req.Assign) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d partitions ended, %d records: %w", len(ended), len(req.Assign), len(records), context.Cause(ctx))
		}
		switch e := c.Poll(pollMS).(type) {
		case *kafka.Message:
			if e.TopicPartition.Error != nil {
				return nil, coded(e.TopicPartition.Error)
			}
			records = append(records, record(e))
		case kafka.PartitionEOF:
			ended[e.Partition] = true
		case kafka.Error:
			// Errors of the client as a whole are hints (a broker went away, a coordinator was refused); only fatal ones end it.
			if e.IsFatal() || e.Code() == kafka.ErrUnknownTopicOrPart || e.Code() == kafka.ErrAutoOffsetReset {
				return nil, coded(e)
			}
		}
	}
	return records, nil
}

// record is one consumed message in the protocol's form.
func record(m *kafka.Message) agent.Record {
	r := agent.Record{
		Partition: m.TopicPartition.Partition,
		Offset:    int64(m.TopicPartition.Offset),
		Timestamp: m.Timestamp.UnixMilli(),
		Key:       m.Key,
		Value:     m.Value,
	}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, agent.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

// Offsets looks the times up in one request.
func (library) Offsets(_ context.Context, req agent.Request) ([]int64, error) {
	c, err := consumer(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // nothing was committed
	var out []int64
	for _, at := range req.Times {
		// One partition may stand only once in a lookup, hence one lookup a time.
		answers, err := c.OffsetsForTimes([]kafka.TopicPartition{{Topic: &req.Topic, Partition: req.Partition, Offset: kafka.Offset(at)}}, callTimeoutMS)
		if err != nil {
			return nil, coded(err)
		}
		if len(answers) != 1 {
			return nil, fmt.Errorf("%d answers for one time", len(answers))
		}
		if answers[0].Error != nil {
			return nil, coded(answers[0].Error)
		}
		out = append(out, int64(answers[0].Offset))
	}
	return out, nil
}

// Watermarks asks the broker, not the consumer's cache.
func (library) Watermarks(_ context.Context, req agent.Request) (first, next int64, err error) {
	c, err := consumer(req)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close() }() // nothing was committed
	first, next, err = c.QueryWatermarkOffsets(req.Topic, req.Partition, callTimeoutMS)
	return first, next, coded(err)
}

// Tail reads from the ends of the partitions until ctx ends.
func (library) Tail(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	c, err := consumer(req)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing was committed
	var assignment []kafka.TopicPartition
	for _, p := range req.Assign {
		assignment = append(assignment, kafka.TopicPartition{Topic: &req.Topic, Partition: p, Offset: kafka.OffsetEnd})
	}
	if err := c.Assign(assignment); err != nil {
		return coded(err)
	}
	ended := map[int32]bool{}
	for ctx.Err() == nil {
		switch e := c.Poll(pollMS).(type) {
		case *kafka.Message:
			if e.TopicPartition.Error != nil {
				return coded(e.TopicPartition.Error)
			}
			r := record(e)
			emit(agent.Event{Record: &r})
		case kafka.PartitionEOF:
			if len(ended) < len(req.Assign) {
				ended[e.Partition] = true
				if len(ended) == len(req.Assign) {
					emit(agent.Event{Ready: true})
				}
			}
		case kafka.Error:
			if e.IsFatal() {
				return coded(e)
			}
		}
	}
	if len(ended) < len(req.Assign) {
		return errors.New("tail: never reached the ends")
	}
	return nil
}
