package node

import (
	"math"
	"time"
)

// GroupsConfig is what the coordinator of Kafka's groups takes of Config.
type GroupsConfig struct {
	MinSessionTimeout, MaxSessionTimeout time.Duration
	InitialRebalanceDelay                time.Duration // 0 is none
	MaxSize                              int           // 0 is unlimited
	MaxGroups                            int
	MaxLagSeries                         int // 0 is none
	OffsetsRetention                     time.Duration
	OffsetsRetentionCheck                time.Duration
	OffsetsCommitTimeout                 time.Duration
	OffsetMetadataMax                    int
}

func groupSettings() []setting {
	return []setting{
		{
			Key: "kafka.group_min_session_timeout_ms", Env: "FELIX_KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS", Kind: "ms", Default: "6000",
			Doc: "Shortest session timeout that a member of a group may ask for.",
			bind: func(c *Config) binding {
				return durationOf(&c.Groups.MinSessionTimeout, time.Millisecond, time.Millisecond, day)
			},
		},
		{
			Key: "kafka.group_max_session_timeout_ms", Env: "FELIX_KAFKA_GROUP_MAX_SESSION_TIMEOUT_MS", Kind: "ms", Default: "1800000",
			Doc: "Longest session timeout that a member of a group may ask for.",
			bind: func(c *Config) binding {
				return durationOf(&c.Groups.MaxSessionTimeout, time.Millisecond, time.Millisecond, day)
			},
		},
		{
			Key: "kafka.group_initial_rebalance_delay_ms", Env: "FELIX_KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", Kind: "ms", Default: "3000", Profile: "0",
			Doc: "How long the first member of an empty group waits for others before partitions are assigned. 0 is not at all.",
			bind: func(c *Config) binding {
				return durationOf(&c.Groups.InitialRebalanceDelay, time.Millisecond, 0, time.Hour)
			},
		},
		{
			Key: "kafka.group_max_size", Env: "FELIX_KAFKA_GROUP_MAX_SIZE", Kind: "n", Default: "0",
			Doc:  "Most members of one group. 0 is unlimited.",
			bind: func(c *Config) binding { return intOf(&c.Groups.MaxSize, 0, math.MaxInt32) },
		},
		{
			Key: "kafka.groups_max", Env: "FELIX_KAFKA_GROUPS_MAX", Kind: "n", Default: "100000",
			Doc:  "Most groups that this node coordinates, with members or with committed offsets; one more is refused.",
			bind: func(c *Config) binding { return intOf(&c.Groups.MaxGroups, 1, math.MaxInt32) },
		},
		{
			Key: "kafka.group_lag_series_max", Env: "FELIX_KAFKA_GROUP_LAG_SERIES_MAX", Kind: "n", Default: "1000",
			Doc:  "Most series of the metric `felix_kafka_group_lag`, one for each group and stream; groups beyond it, by name, are not shown. 0 turns it off.",
			bind: func(c *Config) binding { return intOf(&c.Groups.MaxLagSeries, 0, 1_000_000) },
		},
		{
			Key: "kafka.offsets_retention_minutes", Env: "FELIX_KAFKA_OFFSETS_RETENTION_MINUTES", Kind: "min", Default: "10080",
			Doc: "How long committed offsets are kept once their group is empty; those of a consumer without a group, after its last commit.",
			bind: func(c *Config) binding {
				return durationOf(&c.Groups.OffsetsRetention, time.Minute, time.Minute, century)
			},
		},
		{
			Key: "kafka.offsets_retention_check_interval_ms", Env: "FELIX_KAFKA_OFFSETS_RETENTION_CHECK_INTERVAL_MS", Kind: "ms", Default: "600000",
			Doc: "Pause between looks for committed offsets whose retention has passed.",
			bind: func(c *Config) binding {
				return durationOf(&c.Groups.OffsetsRetentionCheck, time.Millisecond, time.Second, day)
			},
		},
		{
			Key: "kafka.offsets_commit_timeout_ms", Env: "FELIX_KAFKA_OFFSETS_COMMIT_TIMEOUT_MS", Kind: "ms", Default: "5000",
			Doc: "Longest wait of a commit of offsets for the log; then the client is told to try again.",
			bind: func(c *Config) binding {
				return durationOf(&c.Groups.OffsetsCommitTimeout, time.Millisecond, 100*time.Millisecond, time.Hour)
			},
		},
		{
			Key: "kafka.offset_metadata_max_bytes", Env: "FELIX_KAFKA_OFFSET_METADATA_MAX_BYTES", Kind: "n", Default: "4096",
			Doc:  "Most bytes of text that a client may attach to a committed offset.",
			bind: func(c *Config) binding { return intOf(&c.Groups.OffsetMetadataMax, 1, 32*kib) },
		},
	}
}
