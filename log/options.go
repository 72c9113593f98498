package log

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/journal"
)

// Shared is what all logs of a node have in common. Make it once, before the first Open; its fields do not change afterwards.
type Shared struct {
	// FS is the disk. Required.
	FS vfs.FS
	// Pool gives read buffers and the arenas of the tail. Required.
	Pool *buf.Pool
	// Files bounds the open files. Default NewFileCache(0, Metrics).
	Files *FileCache
	// Tail is the hot tail. Default NewTailCache(0, Pool, Metrics).
	Tail *TailCache
	// Syncer syncs in the background, and its mode is the node's. Required; it must be started by the owner.
	Syncer *Syncer
	// Journal keeps marks and log starts. Required.
	Journal *journal.Journal
	// Metrics may be nil.
	Metrics *Metrics
	// Logger may be nil.
	Logger *zap.Logger
	// Now is the wall clock. Default time.Now.
	Now func() time.Time

	// MaxProducers is how many idempotent producers a shard remembers, ProducerBatches how many batches of each. Defaults
	// 100,000 and 64.
	MaxProducers    int
	ProducerBatches int
	// ProducerExpiry is how long an idle producer is remembered (producer.id.expiration.ms). Default 24 h.
	ProducerExpiry time.Duration
	// VerifyAllOnOpen reads every sealed segment at Open (FELIX_DURABLE_VERIFY_ALL_ON_OPEN).
	VerifyAllOnOpen bool
	// RepairChecksumTail lets Open cut a complete last batch whose checksum fails (FELIX_DURABLE_REPAIR_CHECKSUM_TAIL).
	RepairChecksumTail bool
	// Preallocate reserves disk blocks ahead (FELIX_DURABLE_PREALLOCATE).
	Preallocate bool
	// MaxDecodedBytes bounds the decompression of a batch where one must be opened. Default 16 MiB.
	MaxDecodedBytes int
	// CompactionBytesPerSecond paces compaction; 0 is unlimited (FELIX_STORAGE_COMPACTION_BYTES_PER_SEC).
	CompactionBytesPerSecond int64

	once    sync.Once
	bad     error
	dirs    dirSyncs
	indexes loadedIndexes
	// syncWaiters are not of the package: their channels belong to one bubble of a test.
	syncWaiters sync.Pool
}

const (
	defaultProducerExpiry  = 24 * time.Hour
	defaultMaxDecodedBytes = 16 << 20
)

// init fills in the defaults, once.
func (s *Shared) init() error {
	s.once.Do(func() {
		if s.FS == nil || s.Pool == nil || s.Syncer == nil || s.Journal == nil {
			s.bad = errors.New("log: Shared needs FS, Pool, Syncer and Journal")
			return
		}
		if s.Metrics == nil {
			s.Metrics = NewMetrics(nil)
		}
		if s.Files == nil {
			s.Files = NewFileCache(0, s.Metrics)
		}
		if s.Tail == nil {
			s.Tail = NewTailCache(0, s.Pool, s.Metrics)
		}
		if s.Logger == nil {
			s.Logger = zap.NewNop()
		}
		if s.Now == nil {
			s.Now = time.Now
		}
		if s.MaxProducers <= 0 {
			s.MaxProducers = DefaultMaxProducers
		}
		if s.ProducerBatches <= 0 {
			s.ProducerBatches = DefaultProducerBatches
		}
		if s.ProducerExpiry <= 0 {
			s.ProducerExpiry = defaultProducerExpiry
		}
		if s.MaxDecodedBytes <= 0 {
			s.MaxDecodedBytes = defaultMaxDecodedBytes
		}
		s.Files.pressure = s.Syncer.kickNow
		s.Syncer.attach(s)
	})
	return s.bad
}

func (s *Shared) nowMs() int64 { return s.Now().UnixMilli() }

// Options of one log.
type Options struct {
	// Shared is the node's. Required.
	Shared *Shared
	// Dir is the log's own directory, made at the first append.
	Dir string
	// Shard names the log in the journal.
	Shard ids.ShardID
	// Name is what errors and log lines call it: "tenant/namespace/stream/3".
	Name string
	// Config is the topic's; see SetConfig.
	Config Config
	// OnDurable is called outside all locks, on the goroutine that synced, when the durable end has moved or a sync has failed.
	// It is not called before the first Append. May be nil.
	OnDurable func(end ids.Offset, err error)
}
