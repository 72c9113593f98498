package client

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// Bounds is what can be read of a shard: Start <= offset < End.
type Bounds struct {
	// Start is the oldest offset that is kept.
	Start int64
	// End is the next offset that will be readable: one past the last committed record.
	End int64
}

// Bounds tells what can be read of a shard of a durable stream.
//
// Errors: ErrInvalidRequest for an ephemeral stream or a shard that is not there; ErrNotFound; ErrForbidden.
func (c *Client) Bounds(ctx context.Context, s Stream, shard uint32) (Bounds, error) {
	// No request asks for the bounds as such. An offset past every log is refused with the end, and one below the oldest with that.
	var (
		b      Bounds
		cursor *CursorError
	)
	_, err := c.Read(ctx, s, shard, ReadOptions{From: math.MaxInt64, MaxRecords: 1})
	if !errors.As(err, &cursor) {
		if err == nil {
			err = ErrProtocol
		}
		return b, err
	}
	b.End = cursor.Available
	// An empty range is asked for, so that no record is sent.
	_, err = c.Read(ctx, s, shard, ReadOptions{From: 0, To: 0, limited: true})
	switch {
	case errors.As(err, &cursor):
		b.Start = cursor.Available
	case err != nil:
		return b, err
	}
	return b, nil
}

// ReadOptions say what to read of a shard.
type ReadOptions struct {
	// From is the first offset.
	From int64
	// To is the offset before which to stop. Default: the end of what is committed.
	To int64
	// MaxRecords and MaxBytes bound one page. Default and upper bound: the server's (10,000 records, 4 MiB). A record that is larger than
	// MaxBytes comes alone.
	MaxRecords, MaxBytes int

	limited bool // To counts even if it is 0
}

// StoredRecord is one record of a Page.
type StoredRecord struct {
	Offset int64
	Value  []byte
	// Time is when the shard's leader wrote the record.
	Time time.Time
}

// Page is what Read returns.
type Page struct {
	// Records are in offset order.
	Records []StoredRecord
	// Next is where the next page begins. It may lie behind the last record, as some offsets hold none. A page without records whose Next
	// is its From says that nothing is committed there yet.
	Next int64
}

// Read returns one page of committed records of a shard of a durable stream. It never waits for records.
//
// Errors: *CursorError if From is not kept or past the end; ErrInvalidRequest for an ephemeral stream; ErrNotFound; ErrForbidden.
func (c *Client) Read(ctx context.Context, s Stream, shard uint32, o ReadOptions) (Page, error) {
	if o.From < 0 || o.To < 0 || o.MaxRecords < 0 || o.MaxBytes < 0 {
		return Page{}, errors.New("felix: ReadOptions: a negative number")
	}
	s = s.normal()
	m := &wire.StreamRead{
		StreamScope: c.scope(s), Shard: shard, From: uint64(o.From), MaxRecords: uint32(min(o.MaxRecords, math.MaxInt32)),
		MaxBytes: uint64(o.MaxBytes), RequestID: c.requestID(),
	}
	if o.To > 0 || o.limited {
		m.End = wire.Some(uint64(o.To))
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	a, err := expect[*wire.StreamRecords](c.request(ctx, s, shard, true, m))
	if err != nil {
		return Page{}, inShard(err, shard)
	}
	page := Page{Records: make([]StoredRecord, len(a.Records)), Next: offsetOf(a.NextOffset)}
	for i, r := range a.Records {
		page.Records[i] = StoredRecord{Offset: offsetOf(r.Offset), Value: r.Payload, Time: time.UnixMicro(offsetOf(r.TimestampMicros))}
	}
	return page, nil
}

// Records reads a range of a shard page by page, for a range loop. It ends at o.To or at the end of what is committed, or after an error,
// which is one of Read's.
func (c *Client) Records(ctx context.Context, s Stream, shard uint32, o ReadOptions) iter.Seq2[StoredRecord, error] {
	return func(yield func(StoredRecord, error) bool) {
		for {
			page, err := c.Read(ctx, s, shard, o)
			if err != nil {
				yield(StoredRecord{}, err)
				return
			}
			for _, r := range page.Records {
				if !yield(r, nil) {
					return
				}
			}
			if page.Next <= o.From || (o.To > 0 || o.limited) && page.Next >= o.To {
				return
			}
			o.From = page.Next
		}
	}
}

// OffsetForTime is the offset of the first record of a shard that was written at t or later, by the server's clock and to the millisecond;
// the oldest that is kept if all are younger; NoOffset if none is that young.
//
// Errors: ErrInvalidRequest for an ephemeral stream; ErrNotFound; ErrForbidden.
func (c *Client) OffsetForTime(ctx context.Context, s Stream, shard uint32, t time.Time) (int64, error) {
	s = s.normal()
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	m := &wire.OffsetForTime{StreamScope: c.scope(s), Shard: shard, AtMicros: timeMicros(t), RequestID: c.requestID()}
	a, err := expect[*wire.OffsetValue](c.request(ctx, s, shard, true, m))
	if err != nil {
		return NoOffset, err
	}
	return optionalOffset(a.Offset), nil
}

// expect turns an answer into the one kind that is meant.
func expect[A wire.Message](m wire.Message, err error) (A, error) {
	var none A
	if err != nil {
		return none, err
	}
	a, ok := m.(A)
	if !ok {
		return none, refusal(m)
	}
	return a, nil
}

// inShard completes a CursorError.
func inShard(err error, shard uint32) error {
	var cursor *CursorError
	if errors.As(err, &cursor) {
		cursor.Shard = shard
	}
	return err
}
