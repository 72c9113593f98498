package broker

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
)

// Metadata is the control plane as a broker sees it.
type Metadata interface {
	// Image is the newest image that this node has; never nil.
	Image() *cluster.Image
	// Changed returns a channel that is closed once an image newer than the present one is published.
	Changed() <-chan struct{}
	// Propose has cmd applied and returns once this node's Image shows it. The result carries per-item outcomes; the
	// error says that it is not known whether the command was applied, or that it was refused as a whole.
	Propose(ctx context.Context, cmd cluster.Command) (cluster.Result, error)
}

// Options say what a broker is made of.
type Options struct {
	Metadata Metadata
	Self     ids.BrokerID
	Shared   *log.Shared // what all logs of the node share
	Dir      string      // the shards folder of the data directory
	// CommitOnSync: the sync mode is on_commit.
	CommitOnSync bool
	// MaxDecodedBytes caps what one compressed batch may expand to where it is opened, in bytes. Default 16 MiB.
	MaxDecodedBytes int
	// MaintenanceInterval is the pause between passes of retention, roll and compaction. Default 60 s.
	MaintenanceInterval time.Duration
	// OpenWorkers open the shards found on disk at start, side by side. Default 2.
	OpenWorkers int
	// AutoCreateNamespaces lets a topic's namespace be made with it by anyone who may make the topic (single-node mode);
	// otherwise that takes ns.manage.
	AutoCreateNamespaces bool
	// DefaultPartitions is what -1 stands for when a topic is created. Default 1.
	DefaultPartitions int32
	// Quotas limit what tenants publish on this node.
	Quotas PublishQuotas

	// PublishQueueDepth is how many publishes of each tenant may be queued whatever the others do; beyond it a tenant borrows.
	// Default 512 (FELIX_BROKER_PUB_QUEUE_DEPTH).
	PublishQueueDepth int
	// PublishWorkers is how many publishes are written side by side, to logs and to memory each, and times PublishQueueDepth how many
	// may be queued in all when tenants borrow. Default 4 (FELIX_BROKER_PUB_WORKERS_PER_CONN, which is of the process, despite the
	// name).
	PublishWorkers int
	// PublishBytes bounds the batches that are queued in all when tenants borrow, TenantPublishBytes is what each tenant has
	// whatever the others do. Bytes; defaults 64 MiB (FELIX_BROKER_PUBLISH_INFLIGHT_BYTES) and 16 MiB.
	PublishBytes       int64
	TenantPublishBytes int64
	// PublishQueueWait is how long a publish that is answered on commit waits for room. Default 2 s (FELIX_PUBLISH_QUEUE_WAIT_MS).
	PublishQueueWait time.Duration
	// AckWait and QuorumTimeout bound the wait for a commit: a Quorum stream's ends at QuorumTimeout, any other's at the longer of
	// AckWait and QuorumTimeout + 500 ms. Defaults 2 s (FELIX_ACK_WAIT_TIMEOUT_MS) and 5 s (FELIX_PUBLISH_QUORUM_TIMEOUT_MS).
	AckWait       time.Duration
	QuorumTimeout time.Duration
	// CommitConcurrency is how many publishes of one shard may be written and not committed. Default 32 (FELIX_BROKER_PUB_FLUSH_CONCURRENCY).
	CommitConcurrency int
	// RingBatches and RingBytes bound what is kept of each shard of an ephemeral stream, RingBudget bounds them all together, in
	// bytes. Defaults 1024, 4 MiB and 256 MiB; see package ring.
	RingBatches int
	RingBytes   int64
	RingBudget  int64

	Logger     *zap.Logger
	Registerer prometheus.Registerer // nil: no metrics
	Now        func() time.Time      // nil: time.Now
}

func (o Options) withDefaults() Options {
	if o.MaxDecodedBytes == 0 {
		o.MaxDecodedBytes = 16 << 20
	}
	if o.MaintenanceInterval == 0 {
		o.MaintenanceInterval = time.Minute
	}
	if o.OpenWorkers == 0 {
		o.OpenWorkers = 2
	}
	if o.DefaultPartitions == 0 {
		o.DefaultPartitions = 1
	}
	if o.PublishQueueDepth == 0 {
		o.PublishQueueDepth = 512
	}
	if o.PublishWorkers == 0 {
		o.PublishWorkers = 4
	}
	if o.PublishBytes == 0 {
		o.PublishBytes = 64 << 20
	}
	if o.TenantPublishBytes == 0 {
		o.TenantPublishBytes = 16 << 20
	}
	if o.PublishQueueWait == 0 {
		o.PublishQueueWait = 2 * time.Second
	}
	if o.AckWait == 0 {
		o.AckWait = 2 * time.Second
	}
	if o.QuorumTimeout == 0 {
		o.QuorumTimeout = 5 * time.Second
	}
	if o.CommitConcurrency == 0 {
		o.CommitConcurrency = 32
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Metadata == nil:
		return errors.New("broker: no metadata")
	case o.Shared == nil:
		return errors.New("broker: no shared log parts")
	case o.Dir == "":
		return errors.New("broker: no directory")
	case o.MaxDecodedBytes < 0 || o.MaintenanceInterval < 0 || o.OpenWorkers < 0 || o.DefaultPartitions < 0:
		return errors.New("broker: negative option")
	case o.PublishQueueDepth < 0 || o.PublishWorkers < 0 || o.PublishBytes < 0 || o.TenantPublishBytes < 0 || o.CommitConcurrency < 0 ||
		o.PublishQueueWait < 0 || o.AckWait < 0 || o.QuorumTimeout < 0 || o.RingBatches < 0 || o.RingBytes < 0 || o.RingBudget < 0:
		return errors.New("broker: negative option of publishing")
	}
	return o.Quotas.validate()
}
