package broker

import (
	"errors"
	"time"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// AppendInput is one partition's entry of a produce request, or one native publish.
type AppendInput struct {
	// Records hold one record batch v2 as the producer sent it. The bytes are given up: offset, leader epoch and where the
	// topic asks for it timestamps are stamped in place.
	Records []byte
	// Owner holds Records; the log retains it when it keeps the batch in the hot tail. Nil: the bytes are copied if kept.
	Owner *buf.Ref
	// ZstdAllowed: the request's version may carry zstd (Produce 7 and later).
	ZstdAllowed bool
	// Summed: Sum is the checksum of Records taken as one batch, computed while they arrived; see recordbatch.Summer.
	Summed bool
	Sum    uint32
	// RequireAll: the producer waits for all in-sync replicas, so there must be min.insync.replicas of them.
	RequireAll bool
	// DeferCommit: the caller calls Commit once it has made all its appends. Otherwise Append does, in the background.
	DeferCommit bool
}

// AppendResult says where a batch landed.
type AppendResult struct {
	Base, Next ids.Offset
	// AppendTime is the broker's time in milliseconds when the topic stamps it, else -1.
	AppendTime int64
	Start      ids.Offset // log start offset
	Records    int32
	Duplicate  bool // the batch was written by an earlier send; offsets are that one's
	// Hold is how long the tenant is over its publish budget with this batch, at most MaxPublishHold. The batch is written;
	// the front end makes the publisher wait before the next.
	Hold time.Duration

	size int // of the batch as it is stored
}

// Append validates a batch and writes it as the shard's next records. It returns once the bytes are written, not committed:
// an acks=all producer is answered after Wait until Next; so is acks=1 under on_commit. It waits for its turn and for room like a
// native publish that is answered on commit, at most about Options.PublishQueueWait for the room, and is then refused as Overloaded.
//
// Checks and rewrites follow the Kafka record rules 3.4 with design decision 2. Errors carry their kind; those about records
// are *errcode.RecordError or have a kind of recordbatch.
func (s *Shard) Append(in AppendInput) (AppendResult, error) {
	res, err := s.append(in)
	if err != nil {
		var notLeader *errcode.NotLeaderError
		if errors.As(err, &notLeader) {
			s.b.metrics.publishNotOwner.Inc()
		} else {
			s.b.metrics.publishError.Inc()
		}
		return res, err
	}
	s.b.metrics.publishOK.Inc()
	if !res.Duplicate {
		size := float64(res.size)
		s.b.metrics.publishBytes.Add(size)
		s.tenant.messages.Add(float64(res.Records))
		s.tenant.bytes.Add(size)
		if s.budget != nil {
			res.Hold = s.budget.draw(res.size, int(res.Records))
		}
	}
	return res, nil
}

// Commit has what was appended made durable where that is what commits it; with now on the caller's goroutine, before it returns.
// See replica.Replica.Commit.
func (s *Shard) Commit(now bool) { s.replica.Commit(now) }

func (s *Shard) append(in AppendInput) (AppendResult, error) {
	topic := s.topic.Load()
	if topic.Internal {
		return AppendResult{}, ErrInternal
	}
	if err := s.NeedLog(); err != nil {
		return AppendResult{}, err
	}
	cfg := topic.Config
	if in.RequireAll && int(cfg.MinInSyncReplicas) > len(topic.Partitions[s.id.Partition].Replicas) {
		return AppendResult{}, ErrNotEnoughReplicas
	}
	now := s.b.opts.Now().UnixMilli()
	batch, err := recordbatch.SplitProduce(in.Records)
	if err != nil {
		return AppendResult{}, err
	}
	options := s.validation(cfg, in, now)
	options.Summed = in.Summed && len(batch) == len(in.Records)
	checked, err := s.validate(batch, options)
	if err != nil {
		return AppendResult{}, err
	}
	h := checked.Header
	switch {
	case h.IsTransactional():
		return AppendResult{}, ErrTransactional
	case log.IsNativeProducer(h.ProducerID):
		return AppendResult{}, ErrNativeProducer
	}
	owner := in.Owner
	batch, h, owner, err = s.rewrite(cfg, batch, checked, owner, now)
	if err != nil {
		return AppendResult{}, err
	}
	res, err := s.b.admission.append(s, log.AppendInput{Batch: batch, Owner: owner, Origin: log.OriginClient, Header: h})
	if owner != in.Owner {
		owner.Release()
	}
	if err != nil {
		return AppendResult{}, err
	}
	if !in.DeferCommit {
		s.replica.Commit(false)
	}
	out := AppendResult{
		Base: res.Base, Next: res.Next, AppendTime: -1, Records: h.RecordCount, Duplicate: res.Duplicate,
		Start: s.log.Bounds().Start, size: len(batch),
	}
	if cfg.LogAppendTime {
		out.AppendTime = res.MaxTimestamp
	}
	return out, nil
}

// rewrite applies what the topic asks for beyond offset and epoch. It returns the batch to write, its header and who holds
// its bytes: a new holder, to be released by the caller, when the batch had to be built anew.
func (s *Shard) rewrite(cfg *cluster.TopicConfig, batch []byte, checked recordbatch.Result, owner *buf.Ref, now int64) ([]byte, recordbatch.Header, *buf.Ref, error) {
	h := checked.Header
	codec := h.Codec()
	if want, keep := cfg.Codec(); !keep {
		codec = recordbatch.Codec(want)
	}
	if codec != h.Codec() || checked.FixOffsets {
		var rebuilt []byte
		err := s.b.openings.run(s.id, batch, s.b.opts.MaxDecodedBytes, func(maxDecoded int) (err error) {
			rebuilt, err = recordbatch.Recompress(nil, batch, recordbatch.RecompressOptions{
				Codec: codec, Level: cfg.CodecLevel(), MaxDecodedBytes: maxDecoded, Renumber: checked.FixOffsets,
			})
			return err
		})
		if err != nil {
			return nil, h, nil, err
		}
		// Recompression may grow a batch past the topic's bound; Kafka judges the producer's bytes, so that is let be.
		batch, owner = rebuilt, buf.Wrap(rebuilt)
		h, err = recordbatch.ParseHeader(batch)
		if err != nil {
			return nil, h, nil, err
		}
	}
	switch {
	case cfg.LogAppendTime:
		recordbatch.SetMaxTimestamp(batch, now, true)
	case checked.FixMaxTimestamp:
		recordbatch.SetMaxTimestamp(batch, checked.MaxTimestamp, false)
	default:
		return batch, h, owner, nil
	}
	recordbatch.Recrc(batch)
	h, err := recordbatch.ParseHeader(batch)
	return batch, h, owner, err
}

// validate checks a batch, opening it under the bounds of openings if it must be.
func (s *Shard) validate(batch []byte, options recordbatch.ValidateOptions) (res recordbatch.Result, err error) {
	h, err := recordbatch.ParseHeader(batch)
	if !options.RequireKeys || err != nil || h.Codec() == recordbatch.CodecNone {
		return recordbatch.Validate(batch, options)
	}
	err = s.b.openings.run(s.id, batch, options.MaxDecodedBytes, func(maxDecoded int) (err error) {
		options.DecodeBytes = maxDecoded
		res, err = recordbatch.Validate(batch, options)
		return err
	})
	return res, err
}

func (s *Shard) validation(cfg *cluster.TopicConfig, in AppendInput, now int64) recordbatch.ValidateOptions {
	return recordbatch.ValidateOptions{
		MaxBatchBytes:      int(cfg.MaxMessageBytes),
		MaxDecodedBytes:    s.b.opts.MaxDecodedBytes,
		ZstdAllowed:        in.ZstdAllowed,
		Sum:                in.Sum,
		LogAppendTime:      cfg.LogAppendTime,
		BoundTimestamps:    !cfg.LogAppendTime,
		Now:                now,
		TimestampBeforeMax: cfg.TimestampBeforeMaxMs,
		TimestampAfterMax:  cfg.TimestampAfterMaxMs,
		// Payloads are opened only where something has to be known of their records (design decision 2).
		RequireKeys: cfg.CleanupCompact,
	}
}
