// Command sarama drives IBM/sarama by the line protocol of package agent.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"github.com/felixlog/felix/compat/clients/agent"
)

func main() {
	if err := agent.Serve(os.Stdin, os.Stdout, library{}); err != nil {
		fmt.Fprintln(os.Stderr, "sarama:", err)
		os.Exit(1)
	}
}

// library implements agent.Library. It holds nothing: each call makes its own client.
type library struct{}

var (
	_ agent.Library      = library{}
	_ agent.GroupLibrary = library{}
)

// Version is the module's version.
func (library) Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/IBM/sarama" {
				return "sarama " + m.Version[1:]
			}
		}
	}
	return "sarama"
}

// codecs by the names that all clients share.
var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

// config is the library's default configuration at its newest protocol, with the settings of a request that it knows.
func config(req agent.Request) (*sarama.Config, error) {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.ClientID = "sarama-compat"
	c.Consumer.Return.Errors = true
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Flush.Frequency = 100 * time.Millisecond
	if req.Codec != "" {
		codec, ok := codecs[req.Codec]
		if !ok {
			return nil, fmt.Errorf("unknown codec %q", req.Codec)
		}
		c.Producer.Compression = codec
	}
	for name, value := range req.Config {
		switch name {
		case "acks":
			acks, err := strconv.Atoi(value)
			if err != nil {
				return nil, err
			}
			c.Producer.RequiredAcks = sarama.RequiredAcks(acks)
		case "enable.idempotence":
			c.Producer.Idempotent = value == "true"
			c.Producer.RequiredAcks, c.Net.MaxOpenRequests = sarama.WaitForAll, 1
		case "fetch.wait.max.ms":
			ms, err := strconv.Atoi(value)
			if err != nil {
				return nil, err
			}
			c.Consumer.MaxWaitTime = time.Duration(ms) * time.Millisecond
		default:
			return nil, fmt.Errorf("unknown setting %q", name)
		}
	}
	return c, nil
}

// client makes a client; the request's Config is a topic's where topicConfig is true.
func client(req agent.Request, topicConfig bool) (sarama.Client, error) {
	if topicConfig {
		req.Config = nil
	}
	c, err := config(req)
	if err != nil {
		return nil, err
	}
	cl, err := sarama.NewClient([]string{req.Bootstrap}, c)
	return cl, coded(err)
}

// coded keeps Kafka's number of an error.
func coded(err error) error {
	var number sarama.KError
	if errors.As(err, &number) {
		return &agent.CodedError{Code: int(number), Err: err}
	}
	var topic *sarama.TopicError
	if errors.As(err, &topic) {
		return &agent.CodedError{Code: int(topic.Err), Err: err}
	}
	return err
}

// Metadata lists with the client and the admin client.
func (library) Metadata(_ context.Context, req agent.Request) (*agent.Metadata, error) {
	cl, err := client(req, false)
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdminFromClient(cl)
	if err != nil {
		return nil, errors.Join(coded(err), cl.Close())
	}
	defer func() { _ = admin.Close() }() // nothing is pending
	out := &agent.Metadata{}
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		return nil, coded(err)
	}
	for _, b := range brokers {
		broker := agent.Broker{ID: b.ID()}
		if broker.Host, broker.Port, err = split(b.Addr()); err != nil {
			return nil, err
		}
		out.Brokers = append(out.Brokers, broker)
	}
	names := []string{req.Topic}
	if req.Topic == "" {
		if names, err = cl.Topics(); err != nil {
			return nil, coded(err)
		}
	}
	topics, err := admin.DescribeTopics(names)
	if err != nil {
		return nil, coded(err)
	}
	for _, t := range topics {
		topic := agent.Topic{Name: t.Name}
		if t.Err != sarama.ErrNoError {
			topic.Error = t.Err.Error()
		}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, agent.Partition{ID: p.ID, Leader: p.Leader, Replicas: p.Replicas, ISR: p.Isr})
		}
		out.Topics = append(out.Topics, topic)
	}
	return out, nil
}

// Create makes one topic with the admin client.
func (library) Create(_ context.Context, req agent.Request) error {
	cl, err := client(req, true)
	if err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdminFromClient(cl)
	if err != nil {
		return errors.Join(coded(err), cl.Close())
	}
	defer func() { _ = admin.Close() }() // nothing is pending
	return coded(admin.CreateTopic(req.Topic, &sarama.TopicDetail{
		NumPartitions: req.Partitions, ReplicationFactor: 1, ConfigEntries: pointers(req.Config),
	}, false))
}

func pointers(config map[string]string) map[string]*string {
	out := map[string]*string{}
	for name, value := range config {
		out[name] = &value
	}
	return out
}

// Offsets looks each time up; -1 is none.
func (library) Offsets(_ context.Context, req agent.Request) ([]int64, error) {
	return offsets(req, req.Times...)
}

// Watermarks asks for both ends.
func (library) Watermarks(_ context.Context, req agent.Request) (first, next int64, err error) {
	got, err := offsets(req, sarama.OffsetOldest, sarama.OffsetNewest)
	if err != nil {
		return 0, 0, err
	}
	return got[0], got[1], nil
}

func offsets(req agent.Request, times ...int64) ([]int64, error) {
	cl, err := client(req, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cl.Close() }() // nothing is pending
	var out []int64
	for _, at := range times {
		offset, err := cl.GetOffset(req.Topic, req.Partition, at)
		if err != nil {
			return nil, coded(err)
		}
		out = append(out, offset)
	}
	return out, nil
}

// Load is not offered: the campaigns use other clients.
func (library) Load(context.Context, agent.Request, func(agent.Event)) ([]int64, error) {
	return nil, agent.ErrUnsupported
}
