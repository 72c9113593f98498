package log

import (
	"fmt"
	"time"
)

// SyncMode says when what is appended is synced to the device.
type SyncMode uint8

// The sync modes; see the cluster rules, 2.1.
const (
	// SyncNone leaves it to the operating system. Sealed segments are synced all the same, in the background.
	SyncNone SyncMode = iota
	// SyncPeriodic syncs what is dirty once an interval.
	SyncPeriodic
	// SyncOnCommit syncs before an append is acknowledged, many appends at once.
	SyncOnCommit
)

var syncModeNames = [...]string{SyncNone: "none", SyncPeriodic: "periodic", SyncOnCommit: "on_commit"}

// String returns the name of the mode, as in the configuration.
func (m SyncMode) String() string {
	if int(m) < len(syncModeNames) {
		return syncModeNames[m]
	}
	return "unknown"
}

// ParseSyncMode reads the name of a mode.
func ParseSyncMode(s string) (SyncMode, error) {
	for m, name := range syncModeNames {
		if s == name {
			return SyncMode(m), nil
		}
	}
	return 0, fmt.Errorf("sync mode %q: want none, periodic or on_commit", s)
}

// Config is what a topic says about its logs. It may change while a log is open: see Log.SetConfig.
type Config struct {
	// SegmentBytes is the size at which a segment is full, headers included (segment.bytes). Default 256 MiB, at most 2 GiB.
	SegmentBytes int64
	// SegmentAge is how much record time a segment may span, and how long it may be active (segment.ms). Default 7 days.
	SegmentAge time.Duration
	// RetentionBytes bounds the size of the log; -1 is unlimited (retention.bytes). Whole segments go, so more is kept.
	RetentionBytes int64
	// RetentionAge bounds the age of a segment's newest record; below 0 is unlimited (retention.ms).
	RetentionAge time.Duration
	// Delete applies RetentionBytes and RetentionAge; Compact keeps the last record of each key (cleanup.policy).
	Delete, Compact bool
	// DeleteRetention is how long tombstones stay readable after they were compacted (delete.retention.ms).
	DeleteRetention time.Duration
	// MinCompactionLag is the age below which a record is not compacted (min.compaction.lag.ms).
	MinCompactionLag time.Duration
	// MaxCompactionLag is the age above which a record must be compacted; 0 is never (max.compaction.lag.ms).
	MaxCompactionLag time.Duration
	// MinCleanableRatio is the part of the log that must be uncompacted before a pass is worth it (min.cleanable.dirty.ratio).
	MinCleanableRatio float64
	// IndexIntervalBytes is the distance between index entries (index.interval.bytes). Default 4096.
	IndexIntervalBytes int
}

const (
	defaultSegmentBytes       = 256 << 20
	defaultSegmentAge         = 7 * 24 * time.Hour
	defaultIndexIntervalBytes = 4096
	// maxSegmentBytes keeps positions in 32 bits.
	maxSegmentBytes = 1<<31 - 1
)

func (c Config) withDefaults() Config {
	if c.SegmentBytes <= 0 {
		c.SegmentBytes = defaultSegmentBytes
	}
	c.SegmentBytes = min(c.SegmentBytes, maxSegmentBytes)
	if c.SegmentAge <= 0 {
		c.SegmentAge = defaultSegmentAge
	}
	if c.IndexIntervalBytes <= 0 {
		c.IndexIntervalBytes = defaultIndexIntervalBytes
	}
	if c.RetentionBytes <= 0 {
		c.RetentionBytes = -1
	}
	return c
}
