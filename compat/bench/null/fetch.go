package null

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/compat/bench/internal/gen"
)

// copies is how many batches the buffer of a connection holds at most.
const copies = 64

// fetch serves whole batches from the offset asked for, up to the limits of the request. Every write is of memory that this
// connection reuses, and only the base offsets are touched in between.
func (s *Server) fetch(c *conn, correlation []byte, req *kmsg.FetchRequest) error {
	if c.serve == nil {
		for range copies {
			c.serve = append(c.serve, s.batch...)
		}
	}
	type part struct {
		p       *kmsg.FetchRequestTopicPartition
		batches int
	}
	// First the sizes, since the length of the answer goes ahead of it.
	size, left := 4+4, int(req.MaxBytes)
	if req.Version >= 7 {
		size += 6
	}
	size += 4
	plan := make([][]part, len(req.Topics))
	for i := range req.Topics {
		t := &req.Topics[i]
		size += 2 + len(t.Topic) + 4
		for j := range t.Partitions {
			p := &t.Partitions[j]
			n := min(int(p.PartitionMaxBytes), left) / len(s.batch)
			if n == 0 && left == int(req.MaxBytes) {
				n = 1 // the first partition always gets one batch, as from a real broker
			}
			n = min(n, copies)
			left -= n * len(s.batch)
			plan[i] = append(plan[i], part{p, n})
			size += len(appendPartition(nil, req.Version, p, 0)) + n*len(s.batch)
		}
	}
	b := binary.BigEndian.AppendUint32(c.out[:0], uint32(size))
	b = append(b, correlation...)
	b = binary.BigEndian.AppendUint32(b, 0) // throttle
	if req.Version >= 7 {
		b = append(b, 0, 0, 0, 0, 0, 0) // error code, session id: no sessions here
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(req.Topics)))
	for i := range req.Topics {
		t := &req.Topics[i]
		b = binary.BigEndian.AppendUint16(b, uint16(len(t.Topic)))
		b = append(b, t.Topic...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(plan[i])))
		for _, pt := range plan[i] {
			b = appendPartition(b, req.Version, pt.p, pt.batches*len(s.batch))
			if _, err := c.Write(b); err != nil {
				return err
			}
			b = b[:0]
			for k := range pt.batches {
				binary.BigEndian.PutUint64(c.serve[k*len(s.batch):], uint64(pt.p.FetchOffset+int64(k)*s.records))
			}
			if _, err := c.Write(c.serve[:pt.batches*len(s.batch)]); err != nil {
				return err
			}
		}
	}
	c.out = b[:0]
	if len(b) > 0 {
		_, err := c.Write(b)
		return err
	}
	return nil
}

// appendPartition appends a partition's answer up to and with the length of its batches.
func appendPartition(b []byte, version int16, p *kmsg.FetchRequestTopicPartition, size int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(p.Partition))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint64(b, math.MaxInt64/2) // high watermark
	b = binary.BigEndian.AppendUint64(b, math.MaxInt64/2) // last stable offset
	if version >= 5 {
		b = binary.BigEndian.AppendUint64(b, 0) // log start offset
	}
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // no aborted transactions
	if version >= 11 {
		b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // no preferred replica
	}
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

// buildBatch encodes one record batch v2 with base offset 0 and returns it with its number of records.
func buildBatch(opts Options) (batch []byte, records int64, err error) {
	var body []byte
	values := gen.Values(opts.RecordBytes)
	for len(body) < opts.BatchBytes-opts.RecordBytes || records == 0 {
		v := values[int(records)%len(values)]
		rec := kmsg.Record{OffsetDelta: int32(records), Value: v}
		rec.Length = int32(len(rec.AppendTo(nil)) - 1) // the length of a zero length is one byte
		body = rec.AppendTo(body)
		records++
	}
	var attributes int16
	if opts.Codec == "lz4" {
		body, err = compressLZ4(body)
		attributes = 3
	} else if opts.Codec != "" && opts.Codec != "none" {
		err = fmt.Errorf("codec %q is not known", opts.Codec)
	}
	if err != nil {
		return nil, 0, err
	}
	rb := kmsg.RecordBatch{
		Length: int32(49 + len(body)), Magic: 2, Attributes: attributes, LastOffsetDelta: int32(records - 1),
		FirstTimestamp: 1_770_000_000_000, MaxTimestamp: 1_770_000_000_000, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(records), Records: body,
	}
	batch = rb.AppendTo(nil)
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch, records, nil
}

func compressLZ4(b []byte) ([]byte, error) {
	var out writer
	w := lz4.NewWriter(&out)
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb)); err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	return out, w.Close()
}

// writer collects what is written to it.
type writer []byte

func (w *writer) Write(b []byte) (int, error) {
	*w = append(*w, b...)
	return len(b), nil
}
