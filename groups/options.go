package groups

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// Shard is one internal shard that is led here: the log that a part of the groups is kept in. Its methods may be called from any
// goroutine; Append by one at a time.
type Shard interface {
	// Append writes one batch, which was built by this package, as the next records and returns its base offset and the one behind
	// it. It is committed when the high watermark reaches next. The bytes are given up until Append returns. After an error nothing
	// was written; one of kind Overloaded or RecordListTooLarge leaves the log as it was, after any other it takes no more.
	Append(batch []byte) (base, next ids.Offset, err error)
	// Commit has what was appended made durable where that is what commits it; with now on the caller's goroutine.
	Commit(now bool)
	// Wait calls notify once: with nil when the high watermark reaches until, or with the reason why it never will here. That may
	// happen on any goroutine and before Wait returns; notify must not block.
	Wait(until ids.Offset, notify func(error))
	// Scan yields every batch from the log start to the log end as of the call, one after the other; the bytes are valid during the
	// call of yield. It ends with the first error, of yield or its own.
	Scan(ctx context.Context, yield func(batch []byte) error) error
}

// Options say what a coordinator is made of. The zero value of a number is its default.
type Options struct {
	// Shard returns internal shard p if this node leads it. Errors: NotLeader, NoLeader; others are tried again later.
	Shard func(p int32) (Shard, error)
	// Image is the newest metadata of this node; never nil.
	Image func() *cluster.Image
	// HighWatermark is that of a shard that is open on this node, for the lag of groups; nil: lag is not shown.
	HighWatermark func(t *cluster.Topic, partition int32) (hw ids.Offset, ok bool)
	// DefaultNamespace is the namespace whose topics clients name without a prefix, for matching subscriptions. Default: cluster.DefaultNamespace.
	DefaultNamespace string

	MinSessionTimeout time.Duration // group.min.session.timeout.ms, 6 s
	MaxSessionTimeout time.Duration // group.max.session.timeout.ms, 30 min
	// InitialRebalanceDelay is how long the first join of an empty group waits for others (group.initial.rebalance.delay.ms). Default
	// 3 s; negative: none.
	InitialRebalanceDelay time.Duration
	MaxGroupSize          int // members of one group (group.max.size); 0: no limit but that of bytes
	MaxGroups             int // groups on this node, 100,000; one more is refused
	MaxMemberBytes        int // what one group may hold for its members, 256 MiB
	MaxHeldBytes          int // what all groups of this node may hold for their members before new members are refused, 1 GiB
	// OffsetRetention is how long offsets are kept once their group is empty (offsets.retention.minutes), 7 days.
	OffsetRetention   time.Duration
	OffsetMetadataMax int           // bytes of metadata with one offset (offset.metadata.max.bytes), 4096
	CommitTimeout     time.Duration // longest wait for a write to be committed (offsets.commit.timeout.ms), 5 s
	ExpiryInterval    time.Duration // between looks for expired offsets (offsets.retention.check.interval.ms), 10 min
	MaxLagSeries      int           // series of the lag metric, 1000; negative: none

	Logger     *zap.Logger
	Registerer prometheus.Registerer // nil: no metrics
	Now        func() time.Time      // nil: time.Now
}

func (o Options) withDefaults() Options {
	setDefault(&o.DefaultNamespace, cluster.DefaultNamespace)
	setDefault(&o.MinSessionTimeout, 6*time.Second)
	setDefault(&o.MaxSessionTimeout, 30*time.Minute)
	setDefault(&o.InitialRebalanceDelay, 3*time.Second)
	setDefault(&o.MaxGroups, 100_000)
	setDefault(&o.MaxMemberBytes, 256<<20)
	setDefault(&o.MaxHeldBytes, 1<<30)
	setDefault(&o.OffsetRetention, 7*24*time.Hour)
	setDefault(&o.OffsetMetadataMax, 4096)
	setDefault(&o.CommitTimeout, 5*time.Second)
	setDefault(&o.ExpiryInterval, 10*time.Minute)
	setDefault(&o.MaxLagSeries, 1000)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

func (o Options) validate() error {
	switch {
	case o.Shard == nil:
		return errors.New("groups: no shards")
	case o.Image == nil:
		return errors.New("groups: no metadata")
	case o.MinSessionTimeout < 0 || o.MaxSessionTimeout < o.MinSessionTimeout:
		return errors.New("groups: the largest session timeout is below the smallest")
	case o.MaxGroupSize < 0 || o.MaxGroups < 0 || o.MaxMemberBytes < 0 || o.MaxHeldBytes < 0 || o.OffsetMetadataMax < 0:
		return errors.New("groups: negative limit")
	case o.OffsetRetention < 0 || o.CommitTimeout < 0 || o.ExpiryInterval < 0:
		return errors.New("groups: negative time")
	}
	return nil
}

func (o *Options) limits() limits {
	return limits{
		minSession: o.MinSessionTimeout, maxSession: o.MaxSessionTimeout,
		initialRebalanceDelay: max(o.InitialRebalanceDelay, 0),
		maxSize:               o.MaxGroupSize, maxBytes: o.MaxMemberBytes,
	}
}
