package node

import (
	"math"
	"time"
)

func storageSettings() []setting {
	return []setting{
		{
			Key: "storage.fsync_mode", Env: "FELIX_DURABLE_FSYNC_MODE", Flag: "fsync", Kind: "enum", Default: "periodic",
			Doc:  "When appended records are synced: `none` leaves it to the system, `periodic` every interval, `on_commit` before an acknowledgement.",
			bind: func(c *Config) binding { return enumOf(&c.Storage.SyncMode, "none", "periodic", "on_commit") },
		},
		{
			Key: "storage.fsync_interval_ms", Env: "FELIX_DURABLE_FSYNC_INTERVAL_MS", Kind: "ms", Default: "250",
			Doc: "Interval of `periodic`: what a crash of the machine can lose. 0 is refused.",
			bind: func(c *Config) binding {
				return durationOf(&c.Storage.SyncInterval, time.Millisecond, time.Millisecond, time.Hour)
			},
		},
		{
			Key: "storage.segment_bytes", Env: "FELIX_DURABLE_SEGMENT_BYTES", Kind: "bytes", Default: "256MiB",
			Doc:  "Size at which a log begins a new segment. Topic configuration `segment.bytes` overrides it.",
			bind: func(c *Config) binding { return bytesOf(&c.Storage.SegmentBytes, mib, math.MaxInt32) },
		},
		{
			Key: "storage.retention_bytes", Env: "FELIX_DURABLE_RETENTION_BYTES", Kind: "bytes", Default: "-1",
			Doc:  "Bytes that each partition keeps; -1 is unlimited. Topic configuration `retention.bytes` overrides it. The active segment is never deleted.",
			bind: func(c *Config) binding { return bytesOf(&c.Storage.RetentionBytes, -1, maxBytes) },
		},
		{
			Key: "storage.retention_seconds", Env: "FELIX_DURABLE_RETENTION_SECONDS", Kind: "s", Default: "604800",
			Doc:  "Age, by record timestamps, at which a segment is deleted; the default is Kafka's seven days, -1 is never. Topic configuration `retention.ms` overrides it.",
			bind: func(c *Config) binding { return durationOf(&c.Storage.Retention, time.Second, -time.Second, century) },
		},
		{
			Key: "storage.retention_interval_seconds", Env: "FELIX_DURABLE_RETENTION_INTERVAL_SECONDS", Kind: "s", Default: "60",
			Doc: "How often retention and compaction look at the logs.",
			bind: func(c *Config) binding {
				return durationOf(&c.Storage.RetentionInterval, time.Second, time.Second, day)
			},
		},
		{
			Key: "storage.index_spacing_bytes", Env: "FELIX_DURABLE_INDEX_SPACING_BYTES", Kind: "bytes", Default: "4096",
			Doc:  "Distance between entries of the offset and time indexes.",
			bind: func(c *Config) binding { return bytesOf(&c.Storage.IndexSpacingBytes, 512, 16*mib) },
		},
		{
			Key: "storage.preallocate", Env: "FELIX_DURABLE_PREALLOCATE", Kind: "bool", Default: "true",
			Doc:  "Reserve disk space ahead of a growing segment.",
			bind: func(c *Config) binding { return boolOf(&c.Storage.Preallocate) },
		},
		{
			Key: "storage.verify_all_on_open", Env: "FELIX_DURABLE_VERIFY_ALL_ON_OPEN", Kind: "bool", Default: "false",
			Doc:  "Check every checksum of every segment at start, and not only what the last durable mark leaves open.",
			bind: func(c *Config) binding { return boolOf(&c.Storage.VerifyAllOnOpen) },
		},
		{
			Key: "storage.repair_checksum_tail", Env: "FELIX_DURABLE_REPAIR_CHECKSUM_TAIL", Kind: "bool", Default: "false",
			Doc:  "Cut a complete last batch whose checksum fails; without it such a log refuses to open.",
			bind: func(c *Config) binding { return boolOf(&c.Storage.RepairChecksumTail) },
		},
		{
			Key: "storage.compaction_bytes_per_sec", Env: "FELIX_STORAGE_COMPACTION_BYTES_PER_SEC", Kind: "bytes", Default: "64MiB",
			Doc:  "Budget of compaction, read and written together. 0 is unlimited.",
			bind: func(c *Config) binding { return bytesOf(&c.Storage.CompactionBytesPerSec, 0, maxBytes) },
		},
		{
			Key: "storage.producers_per_shard", Env: "FELIX_PRODUCERS_PER_SHARD", Kind: "n", Default: "100000",
			Doc:  "Idempotent producers that a partition remembers; over it the longest idle one is forgotten, and counted.",
			bind: func(c *Config) binding { return intOf(&c.Storage.ProducersPerShard, 1, math.MaxInt32) },
		},
		{
			Key: "storage.producer_expiry_seconds", Env: "FELIX_PRODUCER_EXPIRY_SECONDS", Kind: "s", Default: "86400",
			Doc: "How long an idle idempotent producer is remembered.",
			bind: func(c *Config) binding {
				return durationOf(&c.Storage.ProducerExpiry, time.Second, time.Second, century)
			},
		},
		{
			Key: "storage.hot_tail_bytes", Env: "FELIX_HOT_TAIL_BYTES", Kind: "bytes", Default: "16MiB",
			Doc:  "Memory in which the newest batches of all logs stay for readers that keep up. 0 is off.",
			bind: func(c *Config) binding { return bytesOf(&c.Storage.HotTailBytes, 0, 64*gib) },
		},
		{
			Key: "storage.max_open_files", Env: "FELIX_MAX_OPEN_FILES", Kind: "n", Default: "0",
			Doc:  "Segment files kept open. 0 takes a third of the process limit, at most 4,096.",
			bind: func(c *Config) binding { return intOf(&c.Storage.MaxOpenFiles, 0, 1<<20) },
		},
		{
			Key: "storage.sync_workers", Env: "FELIX_SYNC_WORKERS", Kind: "n", Default: "4",
			Doc:  "Syncs that run at once.",
			bind: func(c *Config) binding { return intOf(&c.Storage.SyncWorkers, 1, 256) },
		},
		{
			Key: "storage.open_parallel", Env: "FELIX_OPEN_PARALLEL", Kind: "n", Default: "4",
			Doc:  "Logs that recover at once at start.",
			bind: func(c *Config) binding { return intOf(&c.Storage.OpenParallel, 1, 256) },
		},
	}
}
