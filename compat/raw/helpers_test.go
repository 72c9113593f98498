package raw_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/peer"
	"github.com/felixlog/felix/compat/raw"
)

// client is a connection whose failures end the test.
type client struct {
	t *testing.T
	*raw.Conn
}

// dial opens a plaintext connection to the peer, closed with the test.
func dial(t *testing.T) *client { return dialAddr(t, server.Addr()) }

func dialAddr(t *testing.T, addr string) *client {
	t.Helper()
	c, err := raw.Dial(addr)
	if err != nil {
		t.Fatalf("dial %s: %v", addr, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{t: t, Conn: c}
}

// dialTLS opens a TLS connection that trusts the peer's own certificate.
func dialTLS(t *testing.T, addr string) *client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(server.RootPEM()) {
		t.Fatal("no root certificate")
	}
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: raw.Timeout}, "tcp", addr, &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatalf("TLS to %s: %v", addr, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{t: t, Conn: raw.NewConn(c)}
}

// secureAddr is the address of the peer's listener with that security.
func secureAddr(t *testing.T, s peer.Security) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	addr, err := server.SecureAddr(ctx, s)
	if err != nil {
		t.Fatalf("secure listener: %v", err)
	}
	return addr
}

// startFelix starts a further Felix with settings of its own, stopped with the test.
func startFelix(t *testing.T, o peer.Options) peer.Peer {
	t.Helper()
	p, err := peer.NewFelix(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// restart restarts the peer, cleanly or after SIGKILL, on the same data and addresses.
func restart(t *testing.T, kill bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if kill {
		if err := server.Kill9(); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	awaitLeaders(t, dial(t))
}

// awaitLeaders waits until every partition of every topic is served again.
func awaitLeaders(t *testing.T, c *client) {
	t.Helper()
	await(t, "leaders for all partitions", func() bool {
		req := listOffsetsRequest(7, "", 0, -1)
		req.Topics = nil
		for _, topic := range c.metadata(4).Topics {
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = *topic.Topic
			for _, p := range topic.Partitions {
				rp := kmsg.NewListOffsetsRequestTopicPartition()
				rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p.Partition, -1, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		for _, topic := range do[*kmsg.ListOffsetsResponse](c, req).Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
			}
		}
		return true
	})
}

// await polls until done returns true; 30 s without it fail the test. It is for states that the protocol cannot wait for.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s for %s", what)
		}
		<-tick.C
	}
}

// do sends a request and returns its response.
func do[R kmsg.Response](c *client, req kmsg.Request) R {
	c.t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		c.t.Fatalf("%v", err)
	}
	return resp.(R)
}

// try is do for requests that may be answered by closing the connection: the second result is "closed, no bytes" then.
func (c *client) try(req kmsg.Request) (kmsg.Response, string) {
	c.t.Helper()
	resp, err := c.Do(req)
	switch {
	case err == nil:
		return resp, ""
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "reset"),
		strings.Contains(err.Error(), "broken pipe"):
		return nil, "closed, no bytes"
	default:
		c.t.Fatal(err)
		return nil, ""
	}
}

// name is an error code as rows write it: "0" or "CORRUPT_MESSAGE (2)".
func name(code int16) string {
	if code == 0 {
		return "0"
	}
	e := kerr.TypedErrorForCode(code)
	if e == nil {
		return fmt.Sprintf("unknown error (%d)", code)
	}
	return fmt.Sprintf("%s (%d)", e.Message, code)
}

// names joins error codes.
func names(codes ...int16) string {
	out := make([]string, len(codes))
	for i, c := range codes {
		out[i] = name(c)
	}
	return strings.Join(out, "; ")
}

var (
	topicCount  atomic.Int64
	topicPrefix = fmt.Sprintf("x%d", time.Now().UnixNano()%1e9)
	notLegal    = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// newName is a topic name that nobody uses yet, in the namespace raw.
func newName(t *testing.T) string {
	return fmt.Sprintf("raw.%s-%s-%d", notLegal.ReplaceAllString(t.Name(), "-"), topicPrefix, topicCount.Add(1))
}

// topic creates a topic; configs are name=value.
func (c *client) topic(partitions int32, configs ...string) string {
	c.t.Helper()
	topic := newName(c.t)
	c.createTopic(topic, partitions, configs...)
	return topic
}

func (c *client) createTopic(topic string, partitions int32, configs ...string) kmsg.CreateTopicsResponseTopic {
	c.t.Helper()
	req := createRequest(topic, partitions, 1)
	for _, config := range configs {
		key, value, _ := strings.Cut(config, "=")
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = key, &value
		req.Topics[0].Configs = append(req.Topics[0].Configs, rc)
	}
	resp := do[*kmsg.CreateTopicsResponse](c, req)
	if got := resp.Topics[0]; got.ErrorCode != 0 {
		c.t.Fatalf("create %s: %s %s", topic, name(got.ErrorCode), str(got.ErrorMessage))
	}
	await(c.t, "a leader of every partition of "+topic, func() bool {
		m := c.metadata(9, topic).Topics[0]
		return m.ErrorCode == 0 && len(m.Partitions) == int(partitions) &&
			!slices.ContainsFunc(m.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.ErrorCode != 0 })
	})
	await(c.t, "every leader of "+topic+" to serve", func() bool { // Kafka's Metadata may run ahead of its logs
		for partition := range partitions {
			if c.listOffsets(7, topic, partition, -1).ErrorCode != 0 {
				return false
			}
		}
		return true
	})
	return resp.Topics[0]
}

// createRequest is CreateTopics v7 for one topic.
func createRequest(topic string, partitions int32, factor int16) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, factor
	req.Topics = append(req.Topics, rt)
	return req
}

func str(s *string) string {
	if s == nil {
		return "<null>"
	}
	return *s
}

// metadata asks for the named topics without creating any; no names means all.
func (c *client) metadata(version int16, topics ...string) *kmsg.MetadataResponse {
	c.t.Helper()
	return do[*kmsg.MetadataResponse](c, metadataRequest(version, topics...))
}

func metadataRequest(version int16, topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = version
	for _, topic := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// topicID is the topic's id.
func (c *client) topicID(topic string) [16]byte {
	c.t.Helper()
	m := c.metadata(12, topic).Topics[0]
	if m.ErrorCode != 0 || m.TopicID == [16]byte{} {
		c.t.Fatalf("metadata of %s: %s, id %x", topic, name(m.ErrorCode), m.TopicID)
	}
	return m.TopicID
}

// part is the records of one partition in a produce request.
type part struct {
	partition int32
	records   []byte
}

// produceRequest is a Produce request for one topic.
func produceRequest(version, acks int16, topic string, parts ...part) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	for _, p := range parts {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.partition, p.records
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// produce sends records to one partition with acks=-1, Produce v9.
func (c *client) produce(topic string, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	return c.produceAs(9, -1, topic, partition, records)
}

func (c *client) produceAs(version, acks int16, topic string, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	resp := do[*kmsg.ProduceResponse](c, produceRequest(version, acks, topic, part{partition, records}))
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		c.t.Fatalf("produce to one partition: answer %+v", resp.Topics)
	}
	return resp.Topics[0].Partitions[0]
}

// mustProduce is produce that has to succeed; it returns the base offset.
func (c *client) mustProduce(topic string, partition int32, records []byte) int64 {
	c.t.Helper()
	p := c.produce(topic, partition, records)
	if p.ErrorCode != 0 {
		c.t.Fatalf("produce to %s/%d: %s %s", topic, partition, name(p.ErrorCode), str(p.ErrorMessage))
	}
	return p.BaseOffset
}

// now is the time as record timestamps have it.
func now() int64 { return time.Now().UnixMilli() }

// values is an encoded batch of records with these values and the present time.
func values(v ...string) []byte { return raw.NewBatch(now(), raw.Values(v...)...).Encode() }

// fetchRequest asks one partition from an offset on, Fetch v12, without a session and without waiting.
func fetchRequest(topic string, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, 0, 1, 50<<20
	req.ReplicaID, req.SessionID, req.SessionEpoch = -1, 0, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, fetchPartition(partition, offset))
	req.Topics = append(req.Topics, rt)
	return req
}

func fetchPartition(partition int32, offset int64) kmsg.FetchRequestTopicPartition {
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, 50<<20
	rp.CurrentLeaderEpoch, rp.LastFetchedEpoch, rp.LogStartOffset = -1, -1, -1
	return rp
}

// fetch reads one partition from an offset on.
func (c *client) fetch(topic string, partition int32, offset int64) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return c.fetchOne(fetchRequest(topic, partition, offset))
}

// fetchOne sends a fetch whose answer has one partition.
func (c *client) fetchOne(req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	resp := do[*kmsg.FetchResponse](c, req)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		c.t.Fatalf("fetch of one partition: %s, %+v", name(resp.ErrorCode), resp.Topics)
	}
	return resp.Topics[0].Partitions[0]
}

// batches reads and parses what is stored from an offset on; every CRC must be valid.
func (c *client) batches(topic string, partition int32, offset int64) []raw.Stored {
	c.t.Helper()
	p := c.fetch(topic, partition, offset)
	if p.ErrorCode != 0 {
		c.t.Fatalf("fetch %s/%d from %d: %s", topic, partition, offset, name(p.ErrorCode))
	}
	stored, err := raw.ParseBatches(p.RecordBatches)
	if err != nil {
		c.t.Fatalf("fetch %s/%d from %d: %v", topic, partition, offset, err)
	}
	for _, s := range stored {
		if !s.CRCValid {
			c.t.Errorf("batch %d of %s/%d: CRC", s.BaseOffset, topic, partition)
		}
	}
	return stored
}

// records reads all records of a partition from an offset on, in as many fetches as it takes.
func (c *client) records(topic string, partition int32, offset int64) []raw.Record {
	c.t.Helper()
	var out []raw.Record
	for {
		stored := c.batches(topic, partition, offset)
		if len(stored) == 0 {
			return out
		}
		for _, s := range stored {
			records, err := s.Records()
			if err != nil {
				c.t.Fatal(err)
			}
			for _, r := range records {
				if r.Offset >= offset {
					out = append(out, r)
				}
			}
			offset = s.BaseOffset + int64(s.LastOffsetDelta) + 1
		}
	}
}

// stored is the values of a partition, in order, joined by commas.
func (c *client) stored(topic string, partition int32) string {
	c.t.Helper()
	var out []string
	for _, r := range c.records(topic, partition, c.offset(topic, partition, -2)) {
		out = append(out, string(r.Value))
	}
	return strings.Join(out, ",")
}

// listOffsets asks one partition for one timestamp.
func (c *client) listOffsets(version int16, topic string, partition int32, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	resp := do[*kmsg.ListOffsetsResponse](c, listOffsetsRequest(version, topic, partition, timestamp))
	return resp.Topics[0].Partitions[0]
}

func listOffsetsRequest(version int16, topic string, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID, req.TimeoutMillis = version, -1, 5000
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = partition, timestamp, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// offset is ListOffsets v7 for a timestamp, without an error.
func (c *client) offset(topic string, partition int32, timestamp int64) int64 {
	c.t.Helper()
	p := c.listOffsets(7, topic, partition, timestamp)
	if p.ErrorCode != 0 {
		c.t.Fatalf("list offsets of %s/%d: %s", topic, partition, name(p.ErrorCode))
	}
	return p.Offset
}

// producerID asks for a fresh producer id.
func (c *client) producerID() int64 {
	c.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionTimeoutMillis = 4, 60000
	var resp *kmsg.InitProducerIDResponse
	await(c.t, "a producer id", func() bool { // Kafka answers 14 for a moment after its start
		resp = do[*kmsg.InitProducerIDResponse](c, req)
		return resp.ErrorCode != kerr.CoordinatorLoadInProgress.Code
	})
	if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 {
		c.t.Fatalf("producer id: %s, id %d epoch %d", name(resp.ErrorCode), resp.ProducerID, resp.ProducerEpoch)
	}
	return resp.ProducerID
}

// franz makes a franz-go client of the peer.
func franz(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(server.Addr())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// consume reads n records of a partition with franz-go.
func consume(t *testing.T, topic string, partition int32, from int64, n int) []*kgo.Record {
	t.Helper()
	cl := franz(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out []*kgo.Record
	for len(out) < n {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			t.Fatalf("consume %s/%d after %d records: %v", topic, partition, len(out), e.Err)
		}
		out = append(out, fetches.Records()...)
	}
	return out
}
