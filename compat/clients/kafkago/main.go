// Command kafkago drives segmentio/kafka-go by the line protocol of package agent.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/felixlog/felix/compat/clients/agent"
)

func main() {
	if err := agent.Serve(os.Stdin, os.Stdout, library{}); err != nil {
		fmt.Fprintln(os.Stderr, "kafkago:", err)
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
			if m.Path == "github.com/segmentio/kafka-go" {
				return "kafka-go " + m.Version[1:]
			}
		}
	}
	return "kafka-go"
}

// codecs by the names that all clients share.
var codecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

// client is the library's request client. Its transport must be closed: until then it keeps a connection and asks for metadata on it.
func client(req agent.Request) (cl *kafka.Client, end func()) {
	transport := &kafka.Transport{MetadataTTL: time.Second, ClientID: "kafka-go-compat"}
	return &kafka.Client{Addr: kafka.TCP(req.Bootstrap), Timeout: 10 * time.Second, Transport: transport}, transport.CloseIdleConnections
}

// dialer makes the connections of readers and group members.
func dialer() *kafka.Dialer {
	return &kafka.Dialer{ClientID: "kafka-go-compat", Timeout: 10 * time.Second, DualStack: true}
}

// coded keeps Kafka's number of an error.
func coded(err error) error {
	var number kafka.Error
	if errors.As(err, &number) {
		return &agent.CodedError{Code: int(number), Err: err}
	}
	var written kafka.WriteErrors
	if errors.As(err, &written) {
		for _, e := range written {
			if e != nil {
				return coded(e)
			}
		}
	}
	return err
}

// Metadata asks with the request client.
func (library) Metadata(ctx context.Context, req agent.Request) (*agent.Metadata, error) {
	ask := &kafka.MetadataRequest{}
	if req.Topic != "" {
		ask.Topics = []string{req.Topic}
	}
	cl, end := client(req)
	defer end()
	m, err := cl.Metadata(ctx, ask)
	if err != nil {
		return nil, coded(err)
	}
	out := &agent.Metadata{}
	for _, b := range m.Brokers {
		out.Brokers = append(out.Brokers, agent.Broker{ID: int32(b.ID), Host: b.Host, Port: b.Port})
	}
	ids := func(brokers []kafka.Broker) []int32 {
		var out []int32
		for _, b := range brokers {
			out = append(out, int32(b.ID))
		}
		return out
	}
	for _, t := range m.Topics {
		topic := agent.Topic{Name: t.Name}
		if t.Error != nil {
			topic.Error = t.Error.Error()
		}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, agent.Partition{ID: int32(p.ID), Leader: int32(p.Leader.ID), Replicas: ids(p.Replicas), ISR: ids(p.Isr)})
		}
		out.Topics = append(out.Topics, topic)
	}
	return out, nil
}

// Create makes one topic.
func (library) Create(ctx context.Context, req agent.Request) error {
	topic := kafka.TopicConfig{Topic: req.Topic, NumPartitions: int(req.Partitions), ReplicationFactor: 1}
	for name, value := range req.Config {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	cl, end := client(req)
	defer end()
	res, err := cl.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil {
		return coded(err)
	}
	return coded(res.Errors[req.Topic])
}

// Offsets looks each time up; -1 is none.
func (library) Offsets(ctx context.Context, req agent.Request) ([]int64, error) {
	var out []int64
	for _, at := range req.Times {
		conn, err := leader(ctx, req, req.Partition)
		if err != nil {
			return nil, err
		}
		offset, err := conn.ReadOffset(time.UnixMilli(at))
		_ = conn.Close() // the answer is there
		if err != nil {
			return nil, coded(err)
		}
		out = append(out, offset)
	}
	return out, nil
}

// leader connects to a partition's leader.
func leader(ctx context.Context, req agent.Request, partition int32) (*kafka.Conn, error) {
	conn, err := dialer().DialLeader(ctx, "tcp", req.Bootstrap, req.Topic, int(partition))
	if err != nil {
		return nil, coded(err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// Watermarks asks for both ends.
func (library) Watermarks(ctx context.Context, req agent.Request) (first, next int64, err error) {
	conn, err := leader(ctx, req, req.Partition)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close() }() // the answer is there
	first, next, err = conn.ReadOffsets()
	return first, next, coded(err)
}

// Load is not offered: the campaigns use other clients.
func (library) Load(context.Context, agent.Request, func(agent.Event)) ([]int64, error) {
	return nil, agent.ErrUnsupported
}

// Produce sends all records with one writer and waits for their answers.
func (library) Produce(ctx context.Context, req agent.Request) ([]int64, error) {
	codec, ok := codecs[req.Codec]
	if req.Codec != "" && !ok {
		return nil, fmt.Errorf("unknown codec %q", req.Codec)
	}
	acks := kafka.RequireAll
	if value := req.Config["acks"]; value != "" && value != "all" {
		n, err := strconv.Atoi(value)
		if err != nil {
			return nil, err
		}
		acks = kafka.RequiredAcks(n)
	}
	offsets := make([]int64, len(req.Records))
	transport := &kafka.Transport{ClientID: "kafka-go-compat"}
	defer transport.CloseIdleConnections() // the writer closes none that it was given
	w := &kafka.Writer{
		Addr: kafka.TCP(req.Bootstrap), Topic: req.Topic, Compression: codec, RequiredAcks: acks, BatchTimeout: 100 * time.Millisecond,
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.Partition }),
		Completion: func(messages []kafka.Message, err error) {
			for _, m := range messages {
				if err == nil {
					offsets[m.WriterData.(int)] = m.Offset
				}
			}
		},
		Transport: transport,
	}
	messages := make([]kafka.Message, 0, len(req.Records))
	for i, r := range req.Records {
		m := kafka.Message{Partition: int(r.Partition), Key: r.Key, Value: r.Value, WriterData: i}
		if r.Timestamp != 0 {
			m.Time = time.UnixMilli(r.Timestamp)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		messages = append(messages, m)
	}
	err := w.WriteMessages(ctx, messages...)
	// Close waits for the completions.
	return offsets, coded(errors.Join(err, w.Close()))
}

func record(m kafka.Message) agent.Record {
	r := agent.Record{Partition: int32(m.Partition), Offset: m.Offset, Timestamp: m.Time.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, agent.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

// roundTrip is what the library takes off a reader's MaxWait before it asks the broker to wait for so long. The whole of MaxWait is its
// deadline for the answer: one that comes later ends the connection, and the reader begins anew. Of a MaxWait under a second it takes
// off only a quarter, and a reader on a busy machine may then never get an answer at all.
const roundTrip = time.Second

// complain logs what the library retries by itself.
func complain(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// reader reads one partition from an offset; the broker may wait for records for so long.
func reader(req agent.Request, partition int32, from int64, wait time.Duration) (*kafka.Reader, error) {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{req.Bootstrap}, Topic: req.Topic, Partition: int(partition), MinBytes: 1, MaxBytes: 10 << 20, MaxWait: wait + roundTrip,
		Dialer: dialer(), ReadBackoffMax: 200 * time.Millisecond, ErrorLogger: kafka.LoggerFunc(complain),
	})
	if err := r.SetOffset(from); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// quietLimit is how long a partition must bring nothing before its last offsets count as without records: the reader does not tell
// of control records and empty batches that it passes. The callers compare what they got with what they know to be there.
const quietLimit = 5 * time.Second

// Consume reads each partition to the end that it has at the start.
func (l library) Consume(ctx context.Context, req agent.Request) ([]agent.Record, error) {
	var records []agent.Record
	for _, p := range req.Assign {
		req.Partition = p
		first, end, err := l.Watermarks(ctx, req)
		if err != nil {
			return nil, err
		}
		if max(first, req.From) >= end {
			continue
		}
		r, err := reader(req, p, max(first, req.From), 50*time.Millisecond)
		if err != nil {
			return nil, err
		}
		for next := int64(0); next < end; {
			quiet, cancel := context.WithTimeout(ctx, quietLimit)
			var m kafka.Message
			m, err = r.ReadMessage(quiet)
			cancel()
			if err != nil {
				if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
					err = nil
				}
				break
			}
			records = append(records, record(m))
			next = m.Offset + 1
		}
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, coded(err)
		}
	}
	return records, nil
}

// Tail reads from the ends of the partitions until ctx ends.
func (l library) Tail(ctx context.Context, req agent.Request, emit func(agent.Event)) error {
	wait := 500 * time.Millisecond
	if value := req.Config["fetch.wait.max.ms"]; value != "" {
		ms, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		wait = time.Duration(ms) * time.Millisecond
	}
	messages := make(chan kafka.Message)
	for _, p := range req.Assign {
		req.Partition = p
		_, end, err := l.Watermarks(ctx, req)
		if err != nil {
			return err
		}
		r, err := reader(req, p, end, wait)
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }() // nothing was committed
		go read(ctx, r, func(m kafka.Message) {
			select {
			case messages <- m:
			case <-ctx.Done():
			}
		})
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

// read hands a reader's messages on until ctx ends; while the broker is away the reader is asked again.
func read(ctx context.Context, r *kafka.Reader, each func(kafka.Message)) {
	for ctx.Err() == nil {
		m, err := r.ReadMessage(ctx)
		if err == nil {
			each(m)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}
