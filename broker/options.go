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
	}
	return o.Quotas.validate()
}
