// Code generated from ../rdkafka1 by generate.sh. DO NOT EDIT.

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/felixlog/felix/compat/clients/agent"
)

// library implements agent.Library. It holds nothing: each call makes its own client.
type library struct{}

var _ agent.Library = library{}

// callTimeoutMS bounds each blocking call into librdkafka that takes a limit of its own.
const callTimeoutMS = 20_000

// Version is librdkafka's own version.
func (library) Version() string {
	_, version := kafka.LibraryVersion()
	return "librdkafka " + version
}

// config is the client configuration of a request over some defaults.
func config(req agent.Request, defaults kafka.ConfigMap) *kafka.ConfigMap {
	m := kafka.ConfigMap{"bootstrap.servers": req.Bootstrap}
	for name, value := range defaults {
		m[name] = value
	}
	for name, value := range req.Config {
		m[name] = value
	}
	return &m
}

// coded keeps librdkafka's number of an error; its own (local) errors are negative.
func coded(err error) error {
	var kerr kafka.Error
	if errors.As(err, &kerr) {
		return &agent.CodedError{Code: int(kerr.Code()), Err: err}
	}
	return err
}

// Metadata asks with the admin client, which needs no group id.
func (library) Metadata(_ context.Context, req agent.Request) (*agent.Metadata, error) {
	admin, err := kafka.NewAdminClient(config(req, nil))
	if err != nil {
		return nil, fmt.Errorf("admin client: %w", err)
	}
	defer admin.Close()
	var topic *string
	if req.Topic != "" {
		topic = &req.Topic
	}
	m, err := admin.GetMetadata(topic, topic == nil, callTimeoutMS)
	if err != nil {
		return nil, coded(err)
	}
	out := &agent.Metadata{}
	for _, b := range m.Brokers {
		out.Brokers = append(out.Brokers, agent.Broker{ID: b.ID, Host: b.Host, Port: b.Port})
	}
	for name, t := range m.Topics {
		topic := agent.Topic{Name: name}
		if t.Error.Code() != kafka.ErrNoError {
			topic.Error = t.Error.Error()
		}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, agent.Partition{ID: p.ID, Leader: p.Leader, Replicas: p.Replicas, ISR: p.Isrs})
		}
		out.Topics = append(out.Topics, topic)
	}
	return out, nil
}

// Create makes one topic with the admin client.
func (library) Create(ctx context.Context, req agent.Request) error {
	// The request's Config is the topic's here, not the client's.
	admin, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": req.Bootstrap})
	if err != nil {
		return fmt.Errorf("admin client: %w", err)
	}
	defer admin.Close()
	results, err := admin.CreateTopics(ctx, []kafka.TopicSpecification{{
		Topic: req.Topic, NumPartitions: int(req.Partitions), ReplicationFactor: 1, Config: req.Config,
	}})
	if err != nil {
		return coded(err)
	}
	for _, r := range results {
		if r.Error.Code() != kafka.ErrNoError {
			return coded(r.Error)
		}
	}
	return nil
}

// Produce sends all records with one producer and waits for their delivery reports.
func (library) Produce(ctx context.Context, req agent.Request) ([]int64, error) {
	defaults := kafka.ConfigMap{"acks": "all", "linger.ms": 100}
	if req.Codec != "" {
		defaults["compression.codec"] = req.Codec
	}
	producer, err := kafka.NewProducer(config(req, defaults))
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	defer producer.Close()
	reports := make(chan kafka.Event, len(req.Records))
	for i, r := range req.Records {
		if err := producer.Produce(message(req.Topic, r, i), reports); err != nil {
			return nil, coded(err)
		}
	}
	offsets := make([]int64, len(req.Records))
	for range req.Records {
		select {
		case event := <-reports:
			m, ok := event.(*kafka.Message)
			if !ok {
				return nil, fmt.Errorf("unexpected event %v", event)
			}
			if m.TopicPartition.Error != nil {
				return nil, coded(m.TopicPartition.Error)
			}
			offsets[m.Opaque.(int)] = int64(m.TopicPartition.Offset)
		case event := <-producer.Events():
			if kerr, ok := event.(kafka.Error); ok && kerr.IsFatal() {
				return nil, coded(kerr)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for delivery: %w", context.Cause(ctx))
		}
	}
	return offsets, nil
}

// message is one record for librdkafka; opaque comes back with its delivery report.
func message(topic string, r agent.Record, opaque any) *kafka.Message {
	m := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: r.Partition},
		Key:            r.Key,
		Value:          r.Value,
		Opaque:         opaque,
	}
	if r.Timestamp != 0 {
		m.Timestamp = time.UnixMilli(r.Timestamp)
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	return m
}

// Load sends at a steady rate, round the partitions, with an idempotent producer that never gives a record up.
func (library) Load(ctx context.Context, req agent.Request, emit func(agent.Event)) ([]int64, error) {
	load := req.Load
	if load == nil || len(load.First) == 0 || load.MaxInFlight <= 0 {
		return nil, errors.New("load: no load described")
	}
	producer, err := kafka.NewProducer(config(req, kafka.ConfigMap{
		"enable.idempotence": true,
		"acks":               "all",
		"linger.ms":          5,
		"message.timeout.ms": 0, // never
		// A killed broker comes back within a second or two; do not back off past that.
		"reconnect.backoff.max.ms":           500,
		"topic.metadata.refresh.interval.ms": 1000,
	}))
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	defer producer.Close()
	var (
		next     = append([]int64(nil), load.First...)
		reports  = make(chan kafka.Event, load.MaxInFlight)
		inFlight int
	)
	settle := func(event kafka.Event) {
		inFlight--
		acks := settleReports(event, reports, &inFlight, emit)
		if len(acks) > 0 {
			emit(agent.Event{Acks: acks})
		}
	}
	pace := agent.NewPacer(load.Rate)
	for ctx.Err() == nil {
		for inFlight < load.MaxInFlight && pace.Due() {
			p := int32(pace.Sent() % int64(len(next)))
			value := agent.LoadValue(load.Name, p, next[p], load.Size)
			record := agent.Record{Partition: p, Value: value}
			err := producer.Produce(message(req.Topic, record, agent.Ack{Partition: p, Sequence: next[p]}), reports)
			if err != nil {
				return next, coded(fmt.Errorf("produce: %w", err))
			}
			next[p]++
			inFlight++
			pace.Count()
		}
		select {
		case event := <-reports:
			settle(event)
		case event := <-producer.Events():
			if kerr, ok := event.(kafka.Error); ok && kerr.IsFatal() {
				return next, coded(fmt.Errorf("fatal: %w", kerr))
			}
		case <-pace.Wait(inFlight < load.MaxInFlight):
		case <-ctx.Done():
		}
	}
	limit := time.NewTimer(agent.DrainLimit)
	defer limit.Stop()
	for inFlight > 0 {
		select {
		case event := <-reports:
			settle(event)
		case <-producer.Events():
		case <-limit.C:
			return next, fmt.Errorf("load: %d records without an answer after %v", inFlight, agent.DrainLimit)
		}
	}
	return next, nil
}

// settleReports turns a delivery report, and those already waiting behind it, into acknowledgements.
func settleReports(event kafka.Event, reports <-chan kafka.Event, inFlight *int, emit func(agent.Event)) []agent.Ack {
	var acks []agent.Ack
	for {
		m, ok := event.(*kafka.Message)
		switch {
		case !ok:
			emit(agent.Event{Failed: fmt.Sprintf("unexpected event %v", event)})
		case m.TopicPartition.Error != nil:
			ack := m.Opaque.(agent.Ack)
			failed := agent.Event{Failed: fmt.Sprintf("partition %d sequence %d: %v", ack.Partition, ack.Sequence, m.TopicPartition.Error)}
			var kerr kafka.Error
			if errors.As(m.TopicPartition.Error, &kerr) {
				failed.Code = int(kerr.Code())
			}
			emit(failed)
		default:
			ack := m.Opaque.(agent.Ack)
			ack.Offset = int64(m.TopicPartition.Offset)
			acks = append(acks, ack)
		}
		select {
		case event = <-reports:
			*inFlight--
		default:
			return acks
		}
	}
}
