package felixproto

import (
	"context"
	"math"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// streamRead answers one page of committed records. It never waits.
func (st *stream) streamRead(m *wire.StreamRead) (wire.Message, error) {
	topic, shard, err := st.shardOf(broker.StreamSubscribe, &m.StreamScope, m.Shard)
	if err != nil {
		return nil, err
	}
	if !topic.Durable {
		return nil, invalid("the stream is in memory only: it has no log to read")
	}
	b := shard.Bounds()
	from, err := cursor(m.From, b)
	if err != nil {
		return nil, err
	}
	p := page{
		s: st.c.s, next: from, end: b.HighWatermark,
		records: st.c.s.opts.RecordsPerRead, bytes: readBytes,
	}
	if m.End.Set {
		p.end = min(p.end, expectedOffset(m.End.Value))
	}
	if m.MaxRecords > 0 {
		p.records = min(p.records, int(min(m.MaxRecords, math.MaxInt32)))
	}
	if m.MaxBytes > 0 {
		p.bytes = int(min(uint64(p.bytes), m.MaxBytes))
	}
	if err := p.read(shard); err != nil {
		return nil, trimmed(err, m.From)
	}
	return &wire.StreamRecords{RequestID: m.RequestID, NextOffset: uint64(p.next), Records: p.out}, nil
}

// page collects the records of a bounded read.
type page struct {
	s       *Server
	next    ids.Offset // where the following page begins
	end     ids.Offset // exclusive
	records int        // that may still be taken
	bytes   int        // likewise; the first record is taken whatever its size
	out     []wire.StreamRecord
	full    bool
}

func (p *page) read(shard *broker.Shard) error {
	for p.next < p.end && !p.full {
		from := p.next
		chunks, _, err := shard.Read(p.next, min(p.bytes+pageOverhead, pageBytes), true, nil)
		for _, c := range chunks {
			if err == nil {
				err = p.chunk(c.Data)
			}
			c.Ref.Release()
		}
		if err != nil || p.next == from {
			return err
		}
	}
	return nil
}

// pageOverhead is read beyond the payload that is wanted: batches have headers.
const pageOverhead = 4 << 10

func (p *page) chunk(data []byte) error {
	for len(data) > 0 && !p.full && p.next < p.end {
		h, batch, rest, err := recordbatch.Next(data)
		if err != nil {
			return err
		}
		data = rest
		if h.IsControl() {
			p.next = min(ids.Offset(h.NextOffset()), p.end)
			continue
		}
		if err := p.batch(batch); err != nil {
			return err
		}
		if !p.full {
			p.next = min(max(p.next, ids.Offset(h.NextOffset())), p.end)
		}
	}
	return nil
}

// batch takes the records of one batch. Payloads are copied: the answer outlives the chunk.
func (p *page) batch(batch []byte) error {
	r, err := recordbatch.NewRecordReader(batch, p.s.opts.MaxDecodedBytes)
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() {
		offset := ids.Offset(r.Record.Offset)
		if offset < p.next {
			continue
		}
		if offset >= p.end || p.records == 0 || len(p.out) > 0 && len(r.Record.Value) > p.bytes {
			p.full = true
			p.next = min(offset, p.end)
			return nil
		}
		p.out = append(p.out, wire.StreamRecord{
			Offset: uint64(offset), Payload: append([]byte(nil), r.Record.Value...), TimestampMicros: micros(r.Record.Timestamp),
		})
		p.records--
		p.bytes = max(p.bytes-len(r.Record.Value), 0)
		p.next = offset + 1
	}
	return r.Err()
}

// offsetForTime answers the first record that is not older than a time.
func (st *stream) offsetForTime(ctx context.Context, m *wire.OffsetForTime) (wire.Message, error) {
	topic, shard, err := st.shardOf(broker.StreamSubscribe, &m.StreamScope, m.Shard)
	if err != nil {
		return nil, err
	}
	if !topic.Durable {
		return nil, invalid("the stream is in memory only: it has no log to search")
	}
	// The log knows milliseconds: a time between two of them is at the later one.
	ms := m.AtMicros / 1000
	if m.AtMicros%1000 != 0 {
		ms++
	}
	found, ok, err := shard.OffsetForTime(ctx, int64(min(ms, math.MaxInt64)))
	if err != nil {
		return nil, err
	}
	value := &wire.OffsetValue{RequestID: m.RequestID}
	if ok {
		value.Offset = wire.Some(uint64(found.Offset))
	}
	return value, nil
}
