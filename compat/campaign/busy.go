package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/raw"
)

// busyValueBytes is the size of the value that a busy connection produces.
const busyValueBytes = 100

// busyClient is one valid connection: small requests, each answered before the next.
type busyClient struct {
	o      crowdOptions
	c      *raw.Conn
	random *rand.Rand
	report *crowdReport
}

func (b *busyClient) close() { _ = b.c.Close() }

func (b *busyClient) act(time.Time) (string, error) {
	req := b.request()
	name := kmsg.NameForKey(req.Key())
	resp, err := b.c.Do(req)
	if err != nil {
		return name, err
	}
	b.report.Answers++
	return name, kerr.ErrorForCode(answerCode(resp))
}

func (b *busyClient) request() kmsg.Request {
	switch b.random.IntN(4) {
	case 0:
		return kmsg.NewPtrApiVersionsRequest()
	case 1:
		return metadataOf(b.o.Topic)
	case 2:
		batch := raw.NewBatch(time.Now().UnixMilli(), raw.Record{Value: make([]byte, busyValueBytes)})
		return produceTo(b.o.Topic, 0, batch.Encode())
	default:
		return fetchFrom(b.o.Topic, 0)
	}
}

// answerCode is the first error code of an answer to one of the requests above.
func answerCode(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		return r.ErrorCode
	case *kmsg.MetadataResponse:
		for _, t := range r.Topics {
			if t.ErrorCode != 0 {
				return t.ErrorCode
			}
		}
	case *kmsg.ProduceResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return p.ErrorCode
				}
			}
		}
	case *kmsg.FetchResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return p.ErrorCode
				}
			}
		}
	default:
		panic(fmt.Sprintf("an answer of type %T was not asked for", resp))
	}
	return 0
}

// metadataOf asks about one topic and creates nothing.
func metadataOf(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	return req
}

// produceTo sends a batch with acks=all.
func produceTo(topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 5000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// fetchFrom reads a few kilobytes from a partition's start, without waiting.
func fetchFrom(topic string, partition int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 11, 0, 0, 4096
	req.SessionEpoch = -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.PartitionMaxBytes = partition, 4096
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
