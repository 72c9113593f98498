package cluster

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	maxInt32 = math.MaxInt32
	maxText  = "9223372036854775807"
	hourMs   = 60 * 60 * 1000
	minuteMs = 60 * 1000
)

// topicConfigs has a row for each topic configuration that Apache Kafka 4.3.1 shows, plus ours (felix.…), sorted by name. The defaults are Kafka's
// except where the storage's own differ: segments of 256 MiB, preallocated as they grow.
var topicConfigs = []ConfigDef{
	cleanupPolicyDef(),
	gzipLevelDef(),
	intDef("compression.lz4.level", "9", 1, 17, func(c *TopicConfig) *int32 { return &c.CompressionLZ4Level },
		"LZ4 level for batches that the broker compresses itself, when compression.type is lz4.", Synonym{Name: "compression.lz4.level"}),
	wordDef("compression.type", "producer", []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"},
		func(c *TopicConfig, set *string) string {
			if set != nil {
				c.CompressionType = *set
			}
			return c.CompressionType
		},
		"Codec in which batches are stored. With producer, as they were sent; otherwise batches in another codec are rewritten.",
		Synonym{Name: "compression.type"}),
	intDef("compression.zstd.level", "3", -131072, 22, func(c *TopicConfig) *int32 { return &c.CompressionZstdLevel },
		"Zstandard level for batches that the broker compresses itself, when compression.type is zstd.", Synonym{Name: "compression.zstd.level"}),
	longDef("delete.retention.ms", "86400000", 0, func(c *TopicConfig) *int64 { return &c.DeleteRetentionMs },
		"How long a compacted topic keeps a delete marker after the records it deletes are gone, so that readers can notice it.",
		Synonym{Name: "log.cleaner.delete.retention.ms"}),
	consistencyDef(),
	longDef("file.delete.delay.ms", "60000", 0, func(c *TopicConfig) *int64 { return &c.FileDeleteDelayMs },
		"How long a removed segment's file may stay on disk.", Synonym{Name: "log.segment.delete.delay.ms"}),
	longDef("flush.messages", maxText, 1, func(c *TopicConfig) *int64 { return &c.SyncMessages },
		"Records after which a partition is synced to disk, beside the server's own sync mode.", Synonym{Name: "log.flush.interval.messages"}),
	longDef("flush.ms", maxText, 0, func(c *TopicConfig) *int64 { return &c.SyncMs },
		"Time after which a partition is synced to disk, beside the server's own sync mode.",
		Synonym{Name: "log.flush.interval.ms"}, Synonym{Name: "log.flush.scheduler.interval.ms"}),
	throttleDef("follower.replication.throttled.replicas", func(c *TopicConfig) *string { return &c.FollowerThrottled },
		"Replicas whose incoming replication is throttled, as partition:broker pairs, or * for all."),
	intDef("index.interval.bytes", "4096", 0, maxInt32, func(c *TopicConfig) *int32 { return &c.IndexIntervalBytes },
		"Bytes of records between two entries of a segment's index.", Synonym{Name: "log.index.interval.bytes"}),
	throttleDef("leader.replication.throttled.replicas", func(c *TopicConfig) *string { return &c.LeaderThrottled },
		"Replicas whose outgoing replication is throttled, as partition:broker pairs, or * for all."),
	longDef("local.retention.bytes", "-2", -2, func(c *TopicConfig) *int64 { return &c.LocalRetentionBytes },
		"Bytes kept locally by a topic with tiered storage; -2 means retention.bytes. There is no tiered storage, so it has no effect.",
		Synonym{Name: "log.local.retention.bytes"}),
	longDef("local.retention.ms", "-2", -2, func(c *TopicConfig) *int64 { return &c.LocalRetentionMs },
		"Time kept locally by a topic with tiered storage; -2 means retention.ms. There is no tiered storage, so it has no effect.",
		Synonym{Name: "log.local.retention.ms"}),
	longDef("max.compaction.lag.ms", maxText, 1, func(c *TopicConfig) *int64 { return &c.MaxCompactionLagMs },
		"Longest time that a record of a compacted topic may stay out of compaction.", Synonym{Name: "log.cleaner.max.compaction.lag.ms"}),
	intDef("max.message.bytes", "1048588", 0, maxInt32, func(c *TopicConfig) *int32 { return &c.MaxMessageBytes },
		"Largest batch of records that is accepted, counted after compression.", Synonym{Name: "message.max.bytes"}),
	longDef("message.timestamp.after.max.ms", "3600000", 0, func(c *TopicConfig) *int64 { return &c.TimestampAfterMaxMs },
		"How far a record's timestamp may lie ahead of the broker's clock. Not checked with LogAppendTime.",
		Synonym{Name: "log.message.timestamp.after.max.ms"}),
	longDef("message.timestamp.before.max.ms", maxText, 0, func(c *TopicConfig) *int64 { return &c.TimestampBeforeMaxMs },
		"How far a record's timestamp may lie behind the broker's clock. Not checked with LogAppendTime.",
		Synonym{Name: "log.message.timestamp.before.max.ms"}),
	wordDef("message.timestamp.type", "CreateTime", []string{"CreateTime", "LogAppendTime"},
		func(c *TopicConfig, set *string) string {
			if set != nil {
				c.LogAppendTime = *set == "LogAppendTime"
			}
			if c.LogAppendTime {
				return "LogAppendTime"
			}
			return "CreateTime"
		},
		"Whether records keep the producer's timestamp or get the time of the append.", Synonym{Name: "log.message.timestamp.type"}),
	ratioDef(),
	longDef("min.compaction.lag.ms", "0", 0, func(c *TopicConfig) *int64 { return &c.MinCompactionLagMs },
		"Shortest time that a record of a compacted topic stays untouched by compaction.", Synonym{Name: "log.cleaner.min.compaction.lag.ms"}),
	intDef("min.insync.replicas", "1", 1, maxInt32, func(c *TopicConfig) *int32 { return &c.MinInSyncReplicas },
		"Replicas that must be in sync for a write with acks=all to be taken, and that must hold it before it is acknowledged.",
		Synonym{Name: "min.insync.replicas"}),
	boolDef("preallocate", "true", func(c *TopicConfig) *bool { return &c.Preallocate },
		"Whether the disk space of a segment is reserved when the segment is made.", Synonym{Name: "log.preallocate"}),
	boolDef("remote.log.copy.disable", "false", func(c *TopicConfig) *bool { return &c.RemoteCopyDisable },
		"Whether a topic with tiered storage stops copying. There is no tiered storage: only false is accepted."),
	boolDef("remote.log.delete.on.disable", "false", func(c *TopicConfig) *bool { return &c.RemoteDeleteOnDisable },
		"Whether tiered data goes when tiering is turned off. There is no tiered storage: only false is accepted."),
	boolDef("remote.storage.enable", "false", func(c *TopicConfig) *bool { return &c.RemoteStorage },
		"Whether the topic uses tiered storage. There is none: only false is accepted."),
	longDef("retention.bytes", "-1", -1<<63, func(c *TopicConfig) *int64 { return &c.RetentionBytes },
		"Bytes that a partition may hold before its oldest segments are removed, when cleanup.policy has delete; -1 means no bound.",
		Synonym{Name: "log.retention.bytes"}),
	longDef("retention.ms", "604800000", -1, func(c *TopicConfig) *int64 { return &c.RetentionMs },
		"Time that records are kept before their segments are removed, when cleanup.policy has delete; -1 means for ever.",
		Synonym{Name: "log.retention.ms"}, Synonym{Name: "log.retention.minutes", UnitMs: minuteMs}, Synonym{Name: "log.retention.hours", UnitMs: hourMs}),
	wideIntDef("segment.bytes", "268435456", 1<<20, maxInt32, func(c *TopicConfig) *int64 { return &c.SegmentBytes },
		"Size at which a segment is sealed. Retention and compaction work on sealed segments.", Synonym{Name: "log.segment.bytes"}),
	intDef("segment.index.bytes", "10485760", 4, maxInt32, func(c *TopicConfig) *int32 { return &c.SegmentIndexBytes },
		"Bound of an index file's size. Index files here are written once at the seal and never padded, so it has no effect.",
		Synonym{Name: "log.index.size.max.bytes"}),
	longDef("segment.jitter.ms", "0", 0, func(c *TopicConfig) *int64 { return &c.SegmentJitterMs },
		"Largest random time by which sealing by age is moved, so that not all segments are sealed together.",
		Synonym{Name: "log.roll.jitter.ms"}, Synonym{Name: "log.roll.jitter.hours", UnitMs: hourMs}),
	longDef("segment.ms", "604800000", 1, func(c *TopicConfig) *int64 { return &c.SegmentMs },
		"Age at which a segment is sealed although it is not full.",
		Synonym{Name: "log.roll.ms"}, Synonym{Name: "log.roll.hours", UnitMs: hourMs}),
	boolDef("unclean.leader.election.enable", "false", func(c *TopicConfig) *bool { return &c.UncleanLeaderElection },
		"Whether a replica that may lack committed records can become leader. Accepted for tools that set it; such a replica never leads.",
		Synonym{Name: "unclean.leader.election.enable"}),
}

func cleanupPolicyDef() ConfigDef {
	return ConfigDef{
		Name: "cleanup.policy", Type: TypeList, Default: "delete",
		Doc: "What happens to old records: delete removes segments by retention, compact keeps the newest record of each key. " +
			"Both can be given; an empty list keeps everything.",
		Synonyms: []Synonym{{Name: "log.cleanup.policy"}},
		set: func(c *TopicConfig, value string) (string, error) {
			list := splitList(value)
			var compact, del bool
			for _, e := range list {
				switch e {
				case "compact":
					compact = true
				case "delete":
					del = true
				default:
					return "", errors.New("must be a list of compact and delete")
				}
			}
			c.CleanupCompact, c.CleanupDelete = compact, del
			return joinList(list), nil
		},
		get: func(c *TopicConfig) string {
			var list []string
			if c.CleanupCompact {
				list = append(list, "compact")
			}
			if c.CleanupDelete {
				list = append(list, "delete")
			}
			return joinList(list)
		},
	}
}

func gzipLevelDef() ConfigDef {
	d := intDef("compression.gzip.level", "-1", -1, 9, func(c *TopicConfig) *int32 { return &c.CompressionGzipLevel },
		"Gzip level for batches that the broker compresses itself, when compression.type is gzip; -1 is the codec's own default.",
		Synonym{Name: "compression.gzip.level"})
	plain := d.set
	d.set = func(c *TopicConfig, value string) (string, error) {
		if strings.TrimSpace(value) == "0" {
			return "", errors.New("must be -1 or 1 to 9")
		}
		return plain(c, value)
	}
	return d
}

func consistencyDef() ConfigDef {
	return ConfigDef{
		Name: "felix.consistency", Type: TypeString, Default: "",
		Doc: "When a write counts as committed: leader (its own write) or quorum (a majority of the replicas). " +
			"Empty: leader for one and two replicas, quorum for three and more.",
		set: func(c *TopicConfig, value string) (string, error) {
			v, err := ParseConsistency(strings.TrimSpace(value))
			if err != nil {
				return "", err
			}
			c.Consistency = v
			return v.String(), nil
		},
		get: func(c *TopicConfig) string { return c.Consistency.String() },
	}
}

func ratioDef() ConfigDef {
	return ConfigDef{
		Name: "min.cleanable.dirty.ratio", Type: TypeDouble, Default: "0.5",
		Doc:      "Share of a partition that compaction has not seen yet from which on it is worth compacting.",
		Synonyms: []Synonym{{Name: "log.cleaner.min.cleanable.ratio"}},
		set: func(c *TopicConfig, value string) (string, error) {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(v >= 0 && v <= 1) { // the negation catches NaN
				return "", errors.New("must be a number between 0 and 1")
			}
			c.MinCleanableDirtyRatio = v
			return formatDouble(v), nil
		},
		get: func(c *TopicConfig) string { return formatDouble(c.MinCleanableDirtyRatio) },
	}
}

// formatDouble writes as Java does for small numbers: always with a point.
func formatDouble(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !slices.Contains([]byte(s), '.') {
		s += ".0"
	}
	return s
}
