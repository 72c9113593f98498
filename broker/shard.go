package broker

import (
	"context"
	"sync/atomic"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/ring"
	"github.com/felixlog/felix/replica"
)

// Waiter waits for a shard's high watermark; see replica.Waiter.
type Waiter = replica.Waiter

// Chunk is a run of whole batches as they are stored; see log.Chunk. Its reader releases it.
type Chunk = log.Chunk

// TimeOffset is the answer to a look-up by time; see log.TimeOffset.
type TimeOffset = log.TimeOffset

// ProducerState is what a log remembers of one idempotent producer; see log.ProducerState.
type ProducerState = log.ProducerState

// store is what readers need of a shard's records, on disk or in memory.
type store interface {
	Bounds() log.Bounds
	Read(from, limit ids.Offset, maxBytes int, firstWhole bool, dst []Chunk) ([]Chunk, int, error)
	Available(from, limit ids.Offset, most int) int
	OffsetForTime(ts int64, limit ids.Offset) (TimeOffset, bool, error)
	MaxTimestamp(limit ids.Offset) (TimeOffset, bool, error)
	Producers(yield func(ProducerState) bool)
}

var (
	_ store = (*log.Log)(nil)
	_ store = (*ring.Ring)(nil)
)

// Shard is one open shard on this node. Its methods may be called from any goroutine.
type Shard struct {
	id      ids.ShardID
	b       *Broker
	topic   atomic.Pointer[cluster.Topic] // as of the newest applied image
	replica *replica.Replica
	store   store          // what replica drives
	log     *log.Log       // the store of a durable stream's shard; nil
	ring    *ring.Ring     // the store of an ephemeral stream's shard; nil
	tenant  *tenantMetrics // nil: internal, so Append refuses
	budget  *publishBudget // nil: nothing limits the tenant
	lane    publishLane
}

// ID is the shard's name.
func (s *Shard) ID() ids.ShardID { return s.id }

// Topic is the stream that the shard belongs to, as of the newest applied image.
func (s *Shard) Topic() *cluster.Topic { return s.topic.Load() }

// Durable says that the shard has a log. Of an ephemeral stream's shard no client is told an offset: they number what happens to be
// in memory.
func (s *Shard) Durable() bool { return s.log != nil }

// NeedLog refuses an ephemeral stream with ErrEphemeral. Commits, conditional publishes, reads by offset or time, groups and Kafka ask it.
func (s *Shard) NeedLog() error {
	if s.log == nil {
		return ErrEphemeral
	}
	return nil
}

// Bounds are the offsets of a shard at one moment: Start <= LastStable <= HighWatermark <= End.
type Bounds struct {
	Start         ids.Offset // log start offset
	LastStable    ids.Offset // bound for read_committed; the high watermark while there are no transactions
	HighWatermark ids.Offset
	End           ids.Offset // log end offset
	Epoch         ids.LeaderEpoch
}

// CheckEpoch compares the leader epoch that a client knows, NoEpoch for none, with the current one: FencedEpoch when the
// client's is older, UnknownEpoch when it is newer (KIP-320).
func (s *Shard) CheckEpoch(known ids.LeaderEpoch) error { return s.replica.CheckEpoch(known) }

// Wait registers w for the high watermark. It reports whether w waits: false with nil means reached already. See
// replica.Replica.Wait.
//
// Notify runs outside all locks on whoever moved the high watermark. Publish appends to one shard at a time, and Notify is part of
// that: the next publish to an ephemeral shard appends when the Notify of everybody who waited for this one has returned, so a reader
// that reads from inside Notify misses nothing, however small the ring. It may call Read, Bounds, Wait and CancelWait of the shard.
func (s *Shard) Wait(w *Waiter) (waiting bool, err error) { return s.replica.Wait(w) }

// CancelWait takes w back; false means that its Notify ran or will.
func (s *Shard) CancelWait(w *Waiter) bool { return s.replica.CancelWait(w) }

// Bounds are the shard's offsets now. It takes no lock: the high watermark is read first, so it may be slightly old but is
// never past the end.
func (s *Shard) Bounds() Bounds {
	limit := s.replica.ReadLimit()
	b := s.store.Bounds()
	limit = max(limit, b.Start)
	return Bounds{Start: b.Start, LastStable: limit, HighWatermark: limit, End: b.End, Epoch: s.replica.Epoch()}
}

// Read appends to dst whole batches from the one that contains or follows from, up to the high watermark and maxBytes; with
// firstWhole at least one batch, however large. It returns the bytes added. At the high watermark or between it and the
// log end it gives nothing. Errors: *errcode.RangeError below the log start or past the log end; CorruptBatch, StorageFailed.
// The caller releases every chunk, also after an error.
func (s *Shard) Read(from ids.Offset, maxBytes int, firstWhole bool, dst []Chunk) ([]Chunk, int, error) {
	b := s.Bounds()
	if from < b.Start || from > b.End {
		return dst, 0, &errcode.RangeError{Requested: int64(from), Start: int64(b.Start), End: int64(b.End)}
	}
	if from >= b.HighWatermark {
		return dst, 0, nil
	}
	return s.store.Read(from, b.HighWatermark, maxBytes, firstWhole, dst)
}

// Available is about how many bytes Read would give, at most limit. It reads no disk.
func (s *Shard) Available(from ids.Offset, limit int) int {
	hw := s.replica.ReadLimit()
	if from >= hw {
		return 0
	}
	return s.store.Available(from, hw, limit)
}

// OffsetForTime finds the first record below the high watermark whose timestamp is ts milliseconds or later.
func (s *Shard) OffsetForTime(_ context.Context, ts int64) (TimeOffset, bool, error) {
	return s.store.OffsetForTime(ts, s.replica.ReadLimit())
}

// MaxTimestamp finds the record with the largest timestamp below the high watermark (KIP-734).
func (s *Shard) MaxTimestamp(_ context.Context) (TimeOffset, bool, error) {
	return s.store.MaxTimestamp(s.replica.ReadLimit())
}

// EpochAt is the leader epoch that wrote the record at off, NoEpoch if unknown.
func (s *Shard) EpochAt(off ids.Offset) ids.LeaderEpoch {
	if s.log == nil {
		return ids.NoEpoch
	}
	return s.log.EpochAt(off)
}

// EndOfEpoch answers OffsetForLeaderEpoch (Kafka request rules, 4.6): for the current epoch the log end, for an older one the
// largest known epoch at or below it and where the next begins, for a newer one (NoEpoch, NoOffset).
func (s *Shard) EndOfEpoch(e ids.LeaderEpoch) (ids.LeaderEpoch, ids.Offset) {
	if current := s.replica.Epoch(); e == current {
		return current, s.store.Bounds().End
	}
	if s.log == nil {
		return ids.NoEpoch, ids.NoOffset
	}
	return s.log.EndOfEpoch(e)
}

// DeleteRecords moves the log start offset to to, NoOffset meaning the high watermark, and returns the new start. It is
// durable on return. A bound past the high watermark is a *errcode.RangeError; one below the start changes nothing.
func (s *Shard) DeleteRecords(_ context.Context, to ids.Offset) (ids.Offset, error) {
	b := s.Bounds()
	if to == ids.NoOffset {
		to = b.HighWatermark
	}
	if to < 0 || to > b.HighWatermark {
		return 0, &errcode.RangeError{Requested: int64(to), Start: int64(b.Start), End: int64(b.HighWatermark)}
	}
	if to > b.Start {
		if err := s.replica.AdvanceStart(to); err != nil {
			return 0, err
		}
	}
	return s.store.Bounds().Start, nil
}

// Producers calls yield for each idempotent producer that the shard remembers, until it returns false.
func (s *Shard) Producers(yield func(ProducerState) bool) { s.store.Producers(yield) }

// SizeBytes is what the shard's segments hold on disk, or its ring in memory.
func (s *Shard) SizeBytes() int64 { return s.store.Bounds().SizeBytes }
