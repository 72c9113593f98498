package broker

import (
	"context"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// scanBytes is how much of a log Scan reads at a time, unless a single batch is larger.
const scanBytes = 1 << 20

// AppendInternal writes a batch that a coordinator of this node built as the next records of an internal shard, and returns its base
// offset and the one behind it. Nothing of it is checked and it counts for no tenant. The bytes are given up until it returns. It returns
// once the bytes are written, not committed: call Commit, and Wait until next. Errors: those of replica.Replica.Append.
func (s *Shard) AppendInternal(batch []byte) (base, next ids.Offset, err error) {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return 0, 0, err
	}
	res, err := s.replica.Append(log.AppendInput{Batch: batch, Origin: log.OriginCoordinator, Header: h})
	return res.Base, res.Next, err
}

// Scan calls yield for every batch from the log start to the log end as of the call, committed or not: a coordinator rebuilds its state
// from it. The bytes are valid during the call of yield. It ends with ctx, with the first error of yield, or when the log cannot be read.
func (s *Shard) Scan(ctx context.Context, yield func(batch []byte) error) error {
	b := s.log.Bounds()
	var chunks []Chunk
	for from := b.Start; from < b.End; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var n int
		var err error
		if chunks, n, err = s.log.Read(from, b.End, scanBytes, true, chunks[:0]); err != nil {
			return err
		}
		if n == 0 {
			return nil // nothing is left of what compaction went over
		}
		from, err = yieldBatches(chunks, from, yield)
		for i := range chunks {
			chunks[i].Ref.Release()
			chunks[i] = Chunk{}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// yieldBatches yields the batches of chunks that end behind from, and returns where the last one ends.
func yieldBatches(chunks []Chunk, from ids.Offset, yield func([]byte) error) (ids.Offset, error) {
	for i := range chunks {
		for rest := chunks[i].Data; len(rest) > 0; {
			h, batch, tail, err := recordbatch.Next(rest)
			if err != nil {
				return from, err
			}
			rest = tail
			if next := ids.Offset(h.NextOffset()); next > from {
				if err := yield(batch); err != nil {
					return from, err
				}
				from = next
			}
		}
	}
	return from, nil
}
