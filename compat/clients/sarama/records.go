package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"github.com/felixlog/felix/compat/clients/agent"
)

func split(addr string) (host string, port int, err error) {
	host, digits, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(digits)
	return host, port, err
}

// Produce sends all records with one producer and waits for their answers.
func (library) Produce(ctx context.Context, req agent.Request) ([]int64, error) {
	cl, err := client(req, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cl.Close() }() // the producer is closed before it
	producer, err := sarama.NewAsyncProducerFromClient(cl)
	if err != nil {
		return nil, coded(err)
	}
	defer producer.AsyncClose()
	offsets := make([]int64, len(req.Records))
	next, done := 0, 0
	for done < len(req.Records) {
		var input chan<- *sarama.ProducerMessage
		var m *sarama.ProducerMessage
		if next < len(req.Records) {
			input, m = producer.Input(), message(req.Topic, req.Records[next], next)
		}
		select {
		case input <- m:
			next++
		case sent := <-producer.Successes():
			offsets[sent.Metadata.(int)] = sent.Offset
			done++
		case failed := <-producer.Errors():
			return nil, coded(failed.Err)
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for answers: %w", context.Cause(ctx))
		}
	}
	return offsets, nil
}

// message is one record for the producer. A nil encoder is Kafka's null.
func message(topic string, r agent.Record, index int) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Metadata: index}
	if r.Key != nil {
		m.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		m.Value = sarama.ByteEncoder(r.Value)
	}
	if r.Timestamp != 0 {
		m.Timestamp = time.UnixMilli(r.Timestamp)
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
	}
	return m
}

func record(m *sarama.ConsumerMessage) agent.Record {
	r := agent.Record{Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, agent.Header{Key: string(h.Key), Value: h.Value})
	}
	return r
}

// Consume reads each partition to the high watermark that the library has learned from its fetches. A partition whose last offsets
// hold no records of the topic ends when the library says that it is at the end by that number.
func (library) Consume(ctx context.Context, req agent.Request) ([]agent.Record, error) {
	cl, err := client(req, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cl.Close() }() // nothing is pending
	consumer, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		return nil, coded(err)
	}
	defer func() { _ = consumer.Close() }() // nothing is pending
	var records []agent.Record
	for _, p := range req.Assign {
		got, err := consumePartition(ctx, cl, consumer, req, p)
		if err != nil {
			return nil, fmt.Errorf("partition %d after %d records: %w", p, len(got), err)
		}
		records = append(records, got...)
	}
	return records, nil
}

func consumePartition(ctx context.Context, cl sarama.Client, consumer sarama.Consumer, req agent.Request, p int32) ([]agent.Record, error) {
	first, err := cl.GetOffset(req.Topic, p, sarama.OffsetOldest)
	if err != nil {
		return nil, coded(err)
	}
	end, err := cl.GetOffset(req.Topic, p, sarama.OffsetNewest)
	if err != nil {
		return nil, coded(err)
	}
	from := max(first, req.From)
	if from >= end {
		return nil, nil
	}
	pc, err := consumer.ConsumePartition(req.Topic, p, from)
	if err != nil {
		return nil, coded(err)
	}
	defer func() { _ = pc.Close() }() // its errors were read
	var records []agent.Record
	// A control record or an empty batch at the end brings no message; the library then falls silent past the last record.
	quiet := time.NewTimer(quietLimit)
	defer quiet.Stop()
	for {
		select {
		case m := <-pc.Messages():
			records = append(records, record(m))
			if m.Offset+1 >= end {
				return records, nil
			}
			quiet.Reset(quietLimit)
		case failed := <-pc.Errors():
			return records, coded(failed.Err)
		case <-quiet.C:
			return records, nil
		case <-ctx.Done():
			return records, context.Cause(ctx)
		}
	}
}

// quietLimit is how long a partition must bring nothing before its last offsets count as without records. The callers compare what
// they got with what they know to be there.
const quietLimit = 5 * time.Second

// Tail reads from the ends of the partitions until ctx ends.
func (library) Tail(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	cl, err := client(req, false)
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // nothing is pending
	consumer, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		return coded(err)
	}
	defer func() { _ = consumer.Close() }() // nothing is pending
	messages := make(chan *sarama.ConsumerMessage)
	var parts []sarama.PartitionConsumer
	defer func() {
		for _, pc := range parts {
			pc.AsyncClose()
		}
	}()
	for _, p := range req.Assign {
		pc, err := consumer.ConsumePartition(req.Topic, p, sarama.OffsetNewest)
		if err != nil {
			return coded(err)
		}
		parts = append(parts, pc)
		go forward(ctx, pc, messages)
	}
	emit(agent.Event{Ready: true})
	for {
		select {
		case m := <-messages:
			r := record(m)
			emit(agent.Event{Record: &r})
		case <-ctx.Done():
			return nil
		}
	}
}

// forward passes one partition's messages on until ctx ends. Errors of a broker that is away are retried by the library.
func forward(ctx context.Context, pc sarama.PartitionConsumer, to chan<- *sarama.ConsumerMessage) {
	for {
		select {
		case m, ok := <-pc.Messages():
			if !ok {
				return
			}
			select {
			case to <- m:
			case <-ctx.Done():
				return
			}
		case err := <-pc.Errors():
			if err != nil { // it goes on by itself
				sarama.Logger.Println(err)
			}
		case <-ctx.Done():
			return
		}
	}
}

var errNoAnswer = errors.New("the answer does not name the partition")
