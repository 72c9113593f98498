// Package rawkafka is the smallest Kafka client that the start-up and connection rows need: one request at a time over one
// connection, at versions fixed by the caller, without the retries and back-offs of a real client that would hide how fast a
// server answers.
package rawkafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxResponse bounds an answer: larger ones are a broken stream, not a real answer.
const maxResponse = 256 << 20

// Conn is one connection. It is not safe for concurrent use, but for Send beside Receive.
type Conn struct {
	c        net.Conn
	f        *kmsg.RequestFormatter
	sent     int32 // requests, which are numbered from 1
	received int32
	out      []byte
	in       []byte
}

// Dial connects with a time-out.
func Dial(addr string, timeout time.Duration) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c, f: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Do sends req at the version set in it and decodes the answer, each within timeout. The answer may alias memory that the next
// call overwrites.
func (c *Conn) Do(req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	if err := c.Send(req, timeout); err != nil {
		return nil, err
	}
	return c.Receive(req, timeout)
}

// Send sends req at the version set in it. Its answer is to be taken by Receive, in the order of the requests.
func (c *Conn) Send(req kmsg.Request, timeout time.Duration) error {
	if err := c.c.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	c.sent++
	c.out = c.f.AppendRequest(c.out[:0], req, c.sent)
	_, err := c.c.Write(c.out)
	return err
}

// Receive reads the answer to req, the oldest request that has none. The answer may alias memory that the next call overwrites.
func (c *Conn) Receive(req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	if err := c.c.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n < 4 || n > maxResponse {
		return nil, fmt.Errorf("answer of %d bytes", n)
	}
	if cap(c.in) < n {
		c.in = make([]byte, n)
	}
	c.in = c.in[:n]
	if _, err := io.ReadFull(c.c, c.in); err != nil {
		return nil, err
	}
	c.received++
	if id := int32(binary.BigEndian.Uint32(c.in)); id != c.received {
		return nil, fmt.Errorf("correlation id %d, want %d", id, c.received)
	}
	body := c.in[4:]
	resp := req.ResponseKind()
	// ApiVersions answers never carry the flexible header, so that an old client can read them.
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			return nil, errors.New("unexpected tags in the answer's header")
		}
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// ApiVersions does the hand-shake that every client starts with.
func (c *Conn) ApiVersions(timeout time.Duration) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "bench", "1"
	resp, err := c.Do(req, timeout)
	if err != nil {
		return err
	}
	if code := resp.(*kmsg.ApiVersionsResponse).ErrorCode; code != 0 {
		return fmt.Errorf("ApiVersions error code %d", code)
	}
	return nil
}

// Metadata asks for topics, or for the brokers alone when there are none, without creating anything.
func (c *Conn) Metadata(topics []string, timeout time.Duration) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 8
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
	}
	resp, err := c.Do(req, timeout)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

// Led reports whether every partition of every topic in m has a leader and no error, and how many partitions there are.
func Led(m *kmsg.MetadataResponse) (ok bool, partitions int) {
	for _, t := range m.Topics {
		if t.ErrorCode != 0 {
			return false, partitions
		}
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 || p.Leader < 0 {
				return false, partitions
			}
			partitions++
		}
	}
	return true, partitions
}

// Fetch reads from offset 0 of a partition, waiting for nothing, and returns how many bytes of batches came.
func (c *Conn) Fetch(topic string, partition int32, timeout time.Duration) (int, error) {
	req := kmsg.NewPtrFetchRequest()
	req.Version = 11
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, 1<<20
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.PartitionMaxBytes, p.CurrentLeaderEpoch = partition, 1<<20, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := c.Do(req, timeout)
	if err != nil {
		return 0, err
	}
	f := resp.(*kmsg.FetchResponse)
	if f.ErrorCode != 0 || len(f.Topics) != 1 || len(f.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("fetch error code %d, %d topics", f.ErrorCode, len(f.Topics))
	}
	if code := f.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return 0, fmt.Errorf("partition error code %d", code)
	}
	return len(f.Topics[0].Partitions[0].RecordBatches), nil
}
