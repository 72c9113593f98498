package broker

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// maintain runs passes of retention, roll by age and compaction over the open shards, one shard after the other, until ctx
// ends. One loop for all shards: an idle shard costs a look, not a timer.
func (b *Broker) maintain(ctx context.Context) {
	t := time.NewTicker(b.opts.MaintenanceInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			b.MaintainOnce(ctx)
		}
	}
}

// MaintainOnce runs one pass now. A shard whose pass fails is counted and logged; the others go on.
func (b *Broker) MaintainOnce(ctx context.Context) {
	for _, s := range b.registry.all() {
		if ctx.Err() != nil {
			return
		}
		if s.log == nil {
			continue
		}
		if _, err := s.log.Maintain(ctx); err != nil && ctx.Err() == nil {
			b.metrics.maintenanceFailures.Inc()
			b.logger.Warn("maintenance failed", zap.String("stream", s.name()), zap.Int32("shard", s.id.Partition), zap.Error(err))
		}
	}
}
