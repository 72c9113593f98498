package clients

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// storedBatch is one batch as the server stores it, told from its header.
type storedBatch struct {
	base       int64
	last       int64
	codec      int
	appendTime bool
	count      int32
	producer   int64 // -1: not idempotent
	epoch      int16
	sequence   int32
	payload    []byte // after the header: the records, or the compressed stream
}

// batchHeader is the length of a v2 batch's header.
const batchHeader = 61

// stored fetches a partition raw, from an offset to its end, and checks each batch's CRC.
func stored(t *testing.T, topic string, partition int32, from int64) []storedBatch {
	t.Helper()
	// Closed here and not with the test: a case may look again and again.
	cl, err := kgo.NewClient(kgo.SeedBrokers(suite.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	meta, err := kadm.NewClient(cl).Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	detail := meta.Topics[topic]
	if detail.Err != nil {
		t.Fatal(detail.Err)
	}
	var batches []storedBatch
	for {
		part := fetchOnce(t, cl, topic, detail, partition, from)
		if len(part.RecordBatches) == 0 {
			if from < part.HighWatermark {
				t.Fatalf("nothing at offset %d, high watermark %d", from, part.HighWatermark)
			}
			return batches
		}
		got, err := parseBatches(part.RecordBatches)
		if err != nil {
			t.Fatalf("fetch of %s/%d at %d: %v", topic, partition, from, err)
		}
		batches = append(batches, got...)
		from = got[len(got)-1].last + 1
	}
}

func fetchOnce(t *testing.T, cl *kgo.Client, topic string, detail kadm.TopicDetail, partition int32, from int64) kmsg.FetchResponseTopicPartition {
	t.Helper()
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = partition, from, 1<<20, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID, ft.Partitions = topic, detail.ID, []kmsg.FetchRequestTopicPartition{p}
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.MaxWaitMillis, req.SessionEpoch = 16<<20, 0, 100, -1
	req.Topics = []kmsg.FetchRequestTopic{ft}
	raw, err := cl.Broker(int(detail.Partitions[partition].Leader)).Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	res := raw.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
		t.Fatal(err)
	}
	part := res.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
		t.Fatal(err)
	}
	return part
}

// parseBatches reads whole batches; a partial one at the end, which the protocol allows, is left out.
func parseBatches(b []byte) ([]storedBatch, error) {
	var batches []storedBatch
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for len(b) >= batchHeader {
		size := 12 + int(int32(binary.BigEndian.Uint32(b[8:])))
		if size < batchHeader {
			return nil, fmt.Errorf("batch length %d", size)
		}
		if size > len(b) {
			break
		}
		if magic := b[16]; magic != 2 {
			return nil, fmt.Errorf("magic %d", magic)
		}
		if got, want := crc32.Checksum(b[21:size], castagnoli), binary.BigEndian.Uint32(b[17:]); got != want {
			return nil, fmt.Errorf("crc %08x, header says %08x", got, want)
		}
		base, attributes := int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint16(b[21:])
		batches = append(batches, storedBatch{
			base:       base,
			last:       base + int64(int32(binary.BigEndian.Uint32(b[23:]))),
			codec:      int(attributes & 7),
			appendTime: attributes&8 != 0,
			count:      int32(binary.BigEndian.Uint32(b[57:])),
			producer:   int64(binary.BigEndian.Uint64(b[43:])),
			epoch:      int16(binary.BigEndian.Uint16(b[51:])),
			sequence:   int32(binary.BigEndian.Uint32(b[53:])),
			payload:    b[batchHeader:size],
		})
		b = b[size:]
	}
	if len(batches) == 0 {
		return nil, fmt.Errorf("no whole batch in %d bytes", len(b))
	}
	return batches, nil
}
