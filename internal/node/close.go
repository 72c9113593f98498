package node

import (
	"context"
	"errors"
	"os"
	"time"

	"go.uber.org/zap"
)

// ErrForced says that a stop had to cut something off: the drain budget ran out, or somebody was in a hurry. Everything that was
// acknowledged is kept all the same.
var ErrForced = errors.New("stop was forced: some requests were not answered")

// closeShare of the drain budget is kept for closing logs after clients were let go.
const closeShare = 5

// minCloseTime is given to the closing of logs even when clients took all of the budget.
const minCloseTime = 5 * time.Second

// Close stops the node: readiness falls, the predrain passes, clients are answered and let go, logs are synced and closed, the clean
// mark is written, and the metrics port goes last. hurry, when it is not nil, ends the wait that is going on each time it delivers.
// It returns nil after a clean stop, ErrForced (joined with why) when something was cut off, and other errors when something could not
// be written. Further calls return the first one's result.
func (n *Node) Close(ctx context.Context, hurry <-chan struct{}) error {
	n.closeOnce.Do(func() { n.closeErr = n.close(ctx, hurry) })
	return n.closeErr
}

func (n *Node) close(ctx context.Context, hurry <-chan struct{}) error {
	began := time.Now()
	if n.admin != nil {
		n.admin.set(draining)
	}
	if n.api != nil {
		n.api.Drain()
	}
	n.removeReadyFile()
	n.predrain(ctx, hurry)

	budget := n.config.ShutdownDrain
	deadline := time.Now().Add(budget)
	n.logger.Info("draining", zap.Duration("budget", budget))
	n.closeDevelopment()
	n.closeGroups(ctx)
	// Calls of the API are short, and what they ask for goes to the controller, which closes last.
	apiForced := n.drainAPI(ctx, budget/closeShare)
	forced := n.drainKafka(ctx, hurry, budget-budget/closeShare)
	forced = errors.Join(forced, n.drainNative(ctx, max(time.Until(deadline)-budget/closeShare, minCloseTime)))

	forced = errors.Join(apiForced, forced)

	rest, cancel := context.WithTimeout(ctx, max(time.Until(deadline), minCloseTime))
	defer cancel()
	failed := n.closeData(rest)

	took := time.Since(began)
	n.metrics.drainMillis.Set(float64(took.Milliseconds()))
	switch {
	case failed != nil:
		n.logger.Error("stopped with errors", zap.Duration("took", took), zap.Error(failed))
	case forced != nil:
		n.logger.Warn("stopped by force", zap.Duration("took", took), zap.Error(forced))
	default:
		n.logger.Info("drain complete", zap.Duration("took", took))
	}
	if n.admin != nil {
		failed = errors.Join(failed, n.admin.close())
	}
	if n.lock != nil {
		failed = errors.Join(failed, n.lock.release())
	}
	n.wg.Wait()
	return errors.Join(forced, failed)
}

// removeReadyFile takes the ready file away, so that its presence keeps meaning that the node serves.
func (n *Node) removeReadyFile() {
	if n.config.ReadyFile == "" {
		return
	}
	if err := os.Remove(n.config.ReadyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.logger.Warn("ready file stays behind", zap.Error(err))
	}
}

// predrain serves on for a while after readiness fell, or until somebody is in a hurry.
func (n *Node) predrain(ctx context.Context, hurry <-chan struct{}) {
	if n.config.ShutdownPredrain == 0 {
		return
	}
	n.logger.Info("waiting before the drain, so that load balancers look away", zap.Duration("predrain", n.config.ShutdownPredrain))
	t := time.NewTimer(n.config.ShutdownPredrain)
	defer t.Stop()
	select {
	case <-t.C:
	case <-hurry:
		n.logger.Info("predrain cut short by a second signal")
	case <-ctx.Done():
	}
}

// drainKafka lets the Kafka clients go within the budget, and says so while it waits.
func (n *Node) drainKafka(ctx context.Context, hurry <-chan struct{}, budget time.Duration) error {
	if n.kafka == nil {
		return nil
	}
	n.logger.Info("waiting for Kafka requests to be answered", zap.Duration("at_most", budget))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	n.wg.Go(func() { done <- n.kafka.Close(ctx) })
	t := time.NewTimer(budget)
	defer t.Stop()
	tell := time.NewTicker(progressEvery)
	defer tell.Stop()
	began := time.Now()
	var err error
wait:
	for {
		select {
		case err = <-done:
			break wait
		case <-t.C:
			cancel(errDrainDeadline)
			err = <-done
			break wait
		case <-hurry:
			cancel(errHurry)
			err = <-done
			break wait
		case <-tell.C:
			n.logger.Info("still waiting for Kafka requests to be answered", zap.Float64("connections", n.gauge("felix_kafka_connections")),
				zap.Duration("waited", time.Since(began).Round(time.Second)))
		}
	}
	if err == nil {
		return nil
	}
	n.metrics.drainForced.WithLabelValues(subsystemKafka).Inc()
	n.logger.Warn("Kafka connections cut off", zap.Error(err))
	return errors.Join(ErrForced, err)
}

// gauge reads one of the process's own gauges; -1 when there is none of that name.
func (n *Node) gauge(name string) float64 {
	families, err := n.registry.Gather()
	if err != nil {
		return -1
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

var (
	errDrainDeadline = errors.New("drain deadline expired")
	errHurry         = errors.New("a second signal ended the drain")
)

// closeData closes logs, controller and journal, in that order, and writes the clean mark if all of them closed clean.
func (n *Node) closeData(ctx context.Context) error {
	var failed error
	if n.broker != nil {
		n.logger.Info("syncing and closing logs")
		if err := n.broker.Close(ctx); err != nil {
			n.metrics.drainForced.WithLabelValues(subsystemBroker).Inc()
			failed = errors.Join(failed, err)
		}
	}
	if n.shared != nil {
		n.shared.Syncer.Close()
	}
	if n.controller != nil {
		if err := n.controller.Close(); err != nil {
			n.metrics.drainForced.WithLabelValues(subsystemController).Inc()
			failed = errors.Join(failed, err)
		}
	}
	if n.journal != nil {
		// Only a node that opened its broker has shards whose state the mark can vouch for.
		if failed == nil && n.broker != nil {
			failed = n.journal.SetClean()
		}
		failed = errors.Join(failed, n.journal.Close())
	}
	return failed
}

// abandon closes what a start that failed had opened, without a drain. The clean mark is not written again by a start that got no
// further than the journal: an unclean start is always safe, and only costs new leader epochs.
func (n *Node) abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), minCloseTime)
	defer cancel()
	var failed error
	n.closeDevelopment()
	n.closeGroups(ctx)
	if n.api != nil {
		failed = n.api.Close(ctx)
	}
	if n.kafka != nil {
		failed = errors.Join(failed, n.kafka.Close(ctx))
	}
	if n.native != nil {
		failed = errors.Join(failed, n.native.Close(ctx))
	}
	failed = errors.Join(failed, n.closeData(ctx))
	if n.admin != nil {
		failed = errors.Join(failed, n.admin.close())
	}
	if n.lock != nil {
		failed = errors.Join(failed, n.lock.release())
	}
	n.wg.Wait()
	return failed
}
