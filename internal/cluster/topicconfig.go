package cluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/felixlog/felix/internal/errcode"
)

// TopicConfig is every configuration of a topic, parsed. Immutable once published. Field order is the table's; the configuration's
// name is beside each field. Times are milliseconds as on the wire; -1 and math.MaxInt64 mean unlimited where the table says so.
type TopicConfig struct {
	CleanupCompact bool // cleanup.policy contains compact
	CleanupDelete  bool // cleanup.policy contains delete; neither: records are kept for ever

	CompressionType      string // compression.type: "producer" or a codec's name ("uncompressed", "gzip", "snappy", "lz4", "zstd")
	CompressionGzipLevel int32  // compression.gzip.level
	CompressionLZ4Level  int32  // compression.lz4.level
	CompressionZstdLevel int32  // compression.zstd.level

	DeleteRetentionMs      int64   // delete.retention.ms
	MinCompactionLagMs     int64   // min.compaction.lag.ms
	MaxCompactionLagMs     int64   // max.compaction.lag.ms
	MinCleanableDirtyRatio float64 // min.cleanable.dirty.ratio
	FileDeleteDelayMs      int64   // file.delete.delay.ms
	SyncMessages           int64   // flush.messages
	SyncMs                 int64   // flush.ms
	IndexIntervalBytes     int32   // index.interval.bytes
	MaxMessageBytes        int32   // max.message.bytes: the largest batch as stored
	LogAppendTime          bool    // message.timestamp.type is LogAppendTime
	TimestampBeforeMaxMs   int64   // message.timestamp.before.max.ms
	TimestampAfterMaxMs    int64   // message.timestamp.after.max.ms
	MinInSyncReplicas      int32   // min.insync.replicas
	Preallocate            bool    // preallocate
	RetentionBytes         int64   // retention.bytes, a partition; -1 unlimited
	RetentionMs            int64   // retention.ms; -1 unlimited
	SegmentBytes           int64   // segment.bytes
	SegmentMs              int64   // segment.ms
	SegmentJitterMs        int64   // segment.jitter.ms
	SegmentIndexBytes      int32   // segment.index.bytes
	UncleanLeaderElection  bool    // unclean.leader.election.enable; accepted and shown, never acted on

	LocalRetentionBytes   int64 // local.retention.bytes; -2 means as retention.bytes. There is no other tier.
	LocalRetentionMs      int64 // local.retention.ms; -2 means as retention.ms
	RemoteStorage         bool  // remote.storage.enable; always false
	RemoteCopyDisable     bool  // remote.log.copy.disable; always false
	RemoteDeleteOnDisable bool  // remote.log.delete.on.disable; always false

	LeaderThrottled   string // leader.replication.throttled.replicas, as written
	FollowerThrottled string // follower.replication.throttled.replicas, as written

	Consistency Consistency // felix.consistency; ConsistencyDefault: by replication factor
}

// Codec is the codec in which batches are stored, as the batch header numbers it (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd). keep
// means that batches stay as the producer sent them, whatever codec says.
func (c *TopicConfig) Codec() (codec int8, keep bool) {
	switch c.CompressionType {
	case "uncompressed":
		return 0, false
	case "gzip":
		return 1, false
	case "snappy":
		return 2, false
	case "lz4":
		return 3, false
	case "zstd":
		return 4, false
	default:
		return 0, true
	}
}

// CodecLevel is the level for batches that are compressed here in the codec of Codec; 0 for the codecs that have none.
func (c *TopicConfig) CodecLevel() int {
	switch c.CompressionType {
	case "gzip":
		return int(c.CompressionGzipLevel)
	case "lz4":
		return int(c.CompressionLZ4Level)
	case "zstd":
		return int(c.CompressionZstdLevel)
	default:
		return 0
	}
}

// DefaultTopicConfig is the built-in configuration: every value as the table's default.
func DefaultTopicConfig() *TopicConfig {
	c := new(TopicConfig)
	for i := range topicConfigs {
		d := &topicConfigs[i]
		if _, err := d.set(c, d.Default); err != nil {
			panic(fmt.Sprintf("cluster: default of %s: %v", d.Name, err)) // the table itself is wrong; a test visits every row
		}
	}
	return c
}

// ParseTopicConfig returns base with overrides applied. Overrides are checked one by one and against each other; relations that
// involve a value not overridden are judged by the built-in default, never by base, so that every node decides alike. base is not
// changed; nil means DefaultTopicConfig(). Errors: errcode.InvalidConfig, naming the configuration.
func ParseTopicConfig(overrides map[string]string, base *TopicConfig) (*TopicConfig, error) {
	if base == nil {
		base = DefaultTopicConfig()
	}
	c := *base
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if _, err := setConfig(&c, name, overrides[name]); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

// CanonicalOverrides checks overrides as ParseTopicConfig does and returns them with each value's text in canonical form (spaces
// trimmed, numbers without leading zeros, list order kept). It returns nil for no overrides.
func CanonicalOverrides(overrides map[string]string) (map[string]string, error) {
	if len(overrides) == 0 {
		return nil, nil
	}
	c := DefaultTopicConfig()
	out := make(map[string]string, len(overrides))
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		text, err := setConfig(c, name, overrides[name])
		if err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, c.validate()
}

func setConfig(c *TopicConfig, name, value string) (string, error) {
	d := TopicConfigByName(name)
	if d == nil {
		return "", errcode.Newf(errcode.InvalidConfig, "unknown topic config name: %s", name)
	}
	text, err := d.set(c, value)
	if err != nil {
		return "", errcode.Newf(errcode.InvalidConfig, "invalid value %q for configuration %s: %w", value, name, err)
	}
	return text, nil
}

// validate checks what involves more than one value.
func (c *TopicConfig) validate() error {
	switch {
	case c.MinCompactionLagMs > c.MaxCompactionLagMs:
		return errcode.Newf(errcode.InvalidConfig, "conflict: min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", c.MinCompactionLagMs, c.MaxCompactionLagMs)
	case c.RemoteStorage:
		return errcode.Newf(errcode.InvalidConfig, "remote.storage.enable: this cluster has no tiered storage")
	case c.RemoteCopyDisable:
		return errcode.Newf(errcode.InvalidConfig, "remote.log.copy.disable: this cluster has no tiered storage")
	case c.RemoteDeleteOnDisable:
		return errcode.Newf(errcode.InvalidConfig, "remote.log.delete.on.disable: this cluster has no tiered storage")
	}
	return nil
}

// ApplyConfigChange returns what overrides[ch.Name] becomes under ch, and whether it is set at all. The value is not checked
// further than lists need it; see CanonicalOverrides. The present value of a list that is not overridden is the built-in default.
// Errors: errcode.InvalidConfig for an unknown name, for append or subtract on something that is not a list.
func ApplyConfigChange(overrides map[string]string, ch ConfigChange) (value string, set bool, err error) {
	d := TopicConfigByName(ch.Name)
	if d == nil {
		return "", false, errcode.Newf(errcode.InvalidConfig, "unknown topic config name: %s", ch.Name)
	}
	switch ch.Op {
	case ConfigSet:
		return ch.Value, true, nil
	case ConfigDelete:
		return "", false, nil
	case ConfigAppend, ConfigSubtract:
		if d.Type != TypeList {
			return "", false, errcode.Newf(errcode.InvalidConfig, "cannot append to or subtract from %s: it is not a list", ch.Name)
		}
		now, ok := overrides[ch.Name]
		if !ok {
			now = d.Default
		}
		return editList(now, ch.Op, ch.Value), true, nil
	default:
		return "", false, errcode.Newf(errcode.InvalidRequest, "unknown operation %d on configuration %s", ch.Op, ch.Name)
	}
}

// CheckDuplicates refuses a list that names one thing twice, as the reference broker does. It is for proposers: what is in the log or in a
// snapshot already is taken all the same.
func CheckDuplicates(name, value string) error {
	if name != "cleanup.policy" {
		return nil
	}
	seen := map[string]bool{}
	for _, word := range splitList(value) {
		if word != "" && seen[word] {
			return errcode.Newf(errcode.InvalidConfig, "%s names %.64q twice", name, word)
		}
		seen[word] = true
	}
	return nil
}

// editList appends the elements that are not there yet, or removes those that are.
func editList(now string, op ConfigOp, value string) string {
	list := splitList(now)
	for _, e := range splitList(value) {
		i := slices.Index(list, e)
		switch {
		case op == ConfigAppend && i < 0:
			list = append(list, e)
		case op == ConfigSubtract && i >= 0:
			list = slices.Delete(list, i, i+1)
		}
	}
	return joinList(list)
}
