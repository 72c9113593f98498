package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/ring"
	"github.com/felixlog/felix/replica"
)

// Broker is this node's data plane. New starts nothing; Start opens the shards found on disk and starts the loops; Close
// ends them and closes every log.
type Broker struct {
	opts     Options
	logger   *zap.Logger
	metrics  *metrics
	registry *registry
	quotas   *quotas

	admission *admission
	rings     *ring.Budget

	clientQuotas *clientQuotas

	producerIDs producerIDs
	openings    *openings
	failures    failures
	closing     chan struct{} // closed when Close begins
	closeOnce   sync.Once

	applyMu sync.Mutex
	applied *cluster.Image // guarded by applyMu

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New makes a broker. It reads nothing and starts nothing.
func New(opts Options) (*Broker, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	closing, m := make(chan struct{}), newMetrics(opts.Registerer)
	return &Broker{
		admission: newAdmission(&opts, m),
		rings:     ring.NewBudget(opts.RingBudget),

		opts:     opts,
		openings: newOpenings(closing, opts.Now, m),
		closing:  closing,
		logger:   opts.Logger.Named("broker"),
		metrics:  m,
		registry: newRegistry(),
		quotas:   newQuotas(opts.Quotas, opts.Now),

		clientQuotas: newClientQuotas(opts.Now, m),

		applied: opts.Metadata.Image(),
		cancel:  func() {},
	}, nil
}

// Self is this node's number.
func (b *Broker) Self() ids.BrokerID { return b.opts.Self }

// Image is the newest metadata image of this node.
func (b *Broker) Image() *cluster.Image { return b.opts.Metadata.Image() }

// Published notes how long a publish took, from its arrival to its acknowledgement, for felix_storage_append_duration_seconds.
func (b *Broker) Published(took time.Duration) {
	if m := b.opts.Shared.Metrics; m != nil {
		m.AppendSeconds.Observe(took.Seconds())
	}
}

// Start opens the shards that have files here and starts the background loops. It returns when all are open or failed: a
// shard that cannot be opened is reported and refused, the others serve. ctx bounds the opening only.
func (b *Broker) Start(ctx context.Context) error {
	loops, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel = cancel
	b.wg.Go(func() { b.follow(loops) })
	b.wg.Go(func() { b.maintain(loops) })
	return b.openFound(ctx)
}

// Close ends the loops and closes every log cleanly, so that nothing is left to recover. Waiters are told ErrClosed.
func (b *Broker) Close(ctx context.Context) error {
	b.closeOnce.Do(func() { close(b.closing) })
	b.cancel()
	b.wg.Wait()
	shards := b.registry.close()
	b.admission.close(ctx, shards)
	var g errgroup.Group
	g.SetLimit(8) // closing syncs: a few at a time keep the device busy without a burst of threads
	for _, s := range shards {
		g.Go(func() error {
			if err := s.replica.Close(ctx.Err() == nil); err != nil {
				return fmt.Errorf("close %s: %w", s.label(), err)
			}
			return nil
		})
	}
	return g.Wait()
}

// Stream returns a stream of the caller's tenant by name. Whether the caller may know of it is the front end's to decide, before.
// Errors: ErrUnknownTenant (the tenant was deleted), ErrUnknownNamespace, ErrUnknownStream.
func (b *Broker) Stream(caller *Caller, namespace, stream string) (*cluster.Topic, error) {
	img := b.Image()
	if t := img.Topic(caller.Tenant, namespace, stream); t != nil && !t.Internal {
		return t, nil
	}
	switch {
	case img.Tenant(caller.Tenant) == nil:
		return nil, ErrUnknownTenant
	case img.Namespace(caller.Tenant, namespace) == nil:
		return nil, ErrUnknownNamespace
	default:
		return nil, ErrUnknownStream
	}
}

// Shard returns the open shard of a topic taken from this broker's image, opening it if need be. Errors: ErrUnknownShard,
// ErrNoLeader, *errcode.NotLeaderError, ErrClosed, or why the log cannot be opened (StorageFailed).
func (b *Broker) Shard(t *cluster.Topic, partition int32) (*Shard, error) {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, ErrUnknownShard
	}
	p := &t.Partitions[partition]
	if p.Leader != b.opts.Self {
		if p.Leader == ids.NoBroker {
			return nil, ErrNoLeader
		}
		return nil, &errcode.NotLeaderError{Leader: int32(p.Leader), Epoch: int32(p.Epoch)}
	}
	id := ids.ShardID{Topic: t.ID, Partition: partition}
	if s := b.registry.get(id); s != nil {
		return s, nil
	}
	if err := b.failures.get(id, b.opts.Now()); err != nil {
		return nil, err
	}
	// The image that t came from is applied before anything of it is open: a deletion is found by comparing with what was
	// applied, so one that came and went between two passes would leave its shards behind.
	b.apply()
	s, err := b.registry.open(id, len(t.Partitions), func() (*Shard, error) { return b.open(t, id) })
	if err != nil {
		return nil, err
	}
	return s, b.catchUp(t)
}

// catchUp closes the gap between a look-up in an image and the end of an opening: the topic may have changed or gone
// meanwhile, and the image that said so may have been applied before the shard stood in the registry.
func (b *Broker) catchUp(opened *cluster.Topic) error {
	now := b.Image().TopicByID(opened.ID)
	if now == opened {
		return nil
	}
	b.applyMu.Lock()
	defer b.applyMu.Unlock()
	if now = b.Image().TopicByID(opened.ID); now == nil {
		b.deleteTopic(opened)
		return ErrUnknownShard
	}
	b.applyTopic(now)
	return nil
}

// OpenShard returns the shard if it is open already, without opening it.
func (b *Broker) OpenShard(t *cluster.Topic, partition int32) *Shard {
	return b.registry.get(ids.ShardID{Topic: t.ID, Partition: partition})
}

func (b *Broker) open(t *cluster.Topic, id ids.ShardID) (*Shard, error) {
	s := &Shard{id: id, b: b}
	if !t.Internal { // what the server writes for itself is nobody's budget
		s.tenant = b.metrics.tenant(t.Tenant)
		s.budget = b.quotas.of(t.Tenant, s.tenant.delayed)
	}
	b.admission.join(s, t.Tenant, t.Durable)
	s.topic.Store(t)
	if !t.Durable {
		b.openRing(t, s)
		return s, nil
	}
	// The log reports to the replica, and the replica needs the log: reports come only after appends, and those only
	// after this function returned.
	l, err := log.Open(log.Options{
		Shared: b.opts.Shared, Dir: b.shardDir(id), Shard: id, Name: s.label(), Config: logConfig(t.Config),
		OnDurable: func(end ids.Offset, err error) { s.replica.Durable(end, err) },
	})
	if err != nil {
		b.metrics.openFailures.Inc()
		refusal := errcode.Newf(errcode.StorageFailed, "open: %w", err)
		if b.failures.add(id, refusal, b.opts.Now()) {
			b.metrics.shardsFailed.Inc()
			b.logger.Error("shard cannot be opened", zap.String("stream", s.name()), zap.Int32("shard", id.Partition),
				zap.Duration("tried_again_after", openRetry), zap.Error(err))
		}
		return nil, refusal
	}
	if b.failures.forget(id) {
		b.metrics.shardsFailed.Dec()
		b.logger.Info("shard opened after failures", zap.String("stream", s.name()), zap.Int32("shard", id.Partition))
	}
	s.log, s.store = l, l
	s.replica = replica.New(replica.Options{Store: l, Self: b.opts.Self, CommitOnSync: b.opts.CommitOnSync})
	s.lead(t)
	b.metrics.shardsOpen.Inc()
	return s, nil
}

// openRing completes the shard of an ephemeral stream: nothing of it is on disk, so nothing can fail.
func (b *Broker) openRing(t *cluster.Topic, s *Shard) {
	s.ring = ring.New(ring.Options{
		Batches: b.opts.RingBatches, Bytes: b.opts.RingBytes, Budget: b.rings, Pool: b.opts.Shared.Pool, Now: b.opts.Now,
		Producers: b.opts.Shared.MaxProducers, ProducerBatches: b.opts.Shared.ProducerBatches, ProducerExpiry: b.opts.Shared.ProducerExpiry,
	})
	s.store = s.ring
	s.replica = replica.New(replica.Options{Store: s.ring, Self: b.opts.Self})
	s.lead(t)
	b.metrics.shardsOpen.Inc()
}

// lead gives the shard the leader epoch and replica set that t names.
func (s *Shard) lead(t *cluster.Topic) {
	p := &t.Partitions[s.id.Partition]
	need := 1
	if t.Consistency == cluster.ConsistencyQuorum && t.Durable {
		need = len(p.Replicas)/2 + 1
	}
	s.replica.Lead(p.Epoch, p.Replicas, need)
}

func (s *Shard) name() string {
	t := s.topic.Load()
	return t.Tenant + "/" + t.Namespace + "/" + t.Name
}

func (s *Shard) label() string { return s.name() + "/" + strconv.Itoa(int(s.id.Partition)) }

func (b *Broker) topicDir(id ids.TopicID) string { return path.Join(b.opts.Dir, id.String()) }

func (b *Broker) shardDir(id ids.ShardID) string {
	return path.Join(b.topicDir(id.Topic), strconv.Itoa(int(id.Partition)))
}

// follow applies each newer image until ctx ends.
func (b *Broker) follow(ctx context.Context) {
	for {
		changed := b.opts.Metadata.Changed()
		b.apply()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// apply brings the open shards to the newest image. Callers that changed the metadata run it before they answer, so that a
// deletion or a new configuration holds from the answer on.
func (b *Broker) apply() {
	b.applyMu.Lock()
	defer b.applyMu.Unlock()
	img := b.opts.Metadata.Image()
	if img == b.applied {
		return
	}
	cluster.Diff(b.applied, img, func(_, now *cluster.Topic) {
		if now != nil {
			b.applyTopic(now)
		}
	})
	cluster.Diff(b.applied, img, func(old, now *cluster.Topic) {
		if now == nil {
			b.deleteTopic(old)
		}
	})
	b.applied = img
}

func (b *Broker) applyTopic(t *cluster.Topic) {
	for _, s := range b.registry.ofTopic(t.ID) {
		s.topic.Store(t)
		if s.log != nil {
			s.log.SetConfig(logConfig(t.Config))
		}
		p := &t.Partitions[s.id.Partition]
		if p.Leader == b.opts.Self {
			s.lead(t)
			continue
		}
		s.replica.Resign(p.Epoch, p.Leader)
		if s.ring != nil {
			s.ring.Reset() // what another leader writes is another sequence of records
		}
	}
}

func (b *Broker) deleteTopic(t *cluster.Topic) {
	for _, s := range b.registry.removeTopic(t.ID) {
		b.metrics.shardsOpen.Dec()
		if err := s.replica.Delete(); err != nil {
			b.logger.Error("deleted shard leaves files behind", zap.String("stream", s.name()), zap.Int32("shard", s.id.Partition), zap.Error(err))
		}
	}
	b.metrics.shardsFailed.Sub(float64(b.failures.forgetTopic(t.ID)))
	if t.Durable {
		b.removeFiles(t.ID)
	}
}

// removeFiles removes what is left of a deleted topic. A failure is logged: the next start tries again, since the metadata
// remembers the deletion.
func (b *Broker) removeFiles(id ids.TopicID) {
	fs := b.opts.Shared.FS
	if err := log.RemoveDir(fs, b.topicDir(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		b.logger.Error("deleted topic leaves files behind", zap.Stringer("topic_id", id), zap.Error(err))
		return
	}
	if err := b.opts.Shared.Journal.Forget(id); err != nil {
		b.logger.Error("journal keeps a deleted topic", zap.Stringer("topic_id", id), zap.Error(err))
	}
}

// openFound opens every shard that has files here, a few at a time.
func (b *Broker) openFound(ctx context.Context) error {
	fs := b.opts.Shared.FS
	topics, err := fs.ReadDir(b.opts.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", b.opts.Dir, err)
	}
	began := b.opts.Now()
	img := b.Image()
	var g errgroup.Group
	g.SetLimit(b.opts.OpenWorkers)
	opened := 0
	for _, entry := range topics {
		id, err := ids.ParseTopicID(entry.Name)
		if err != nil {
			b.finishRemoval(entry.Name)
			continue // not ours: kept
		}
		t := img.TopicByID(id)
		if t == nil {
			b.orphan(img, id)
			continue
		}
		parts, err := fs.ReadDir(b.topicDir(id))
		if errors.Is(err, os.ErrNotExist) {
			continue // the metadata catches up meanwhile, and has just deleted it
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", b.topicDir(id), err)
		}
		for _, entry := range parts {
			n, err := strconv.ParseInt(entry.Name, 10, 32)
			if err != nil || ctx.Err() != nil {
				continue
			}
			opened++
			g.Go(func() error {
				// A shard that fails to open is reported by open and answered with its error; it holds up no other.
				_, _ = b.Shard(t, int32(n))
				return nil
			})
		}
	}
	err = g.Wait()
	if opened > 0 {
		b.logger.Info("shards opened", zap.Int("shards", opened), zap.Duration("took", b.opts.Now().Sub(began).Round(time.Millisecond)))
	}
	return errors.Join(err, ctx.Err())
}

// finishRemoval removes a directory of deleted records whose removal was interrupted. A failure is tried again at the next start.
func (b *Broker) finishRemoval(name string) {
	if !log.IsRemoved(name) {
		return
	}
	if err := b.opts.Shared.FS.RemoveAll(path.Join(b.opts.Dir, name)); err != nil {
		b.logger.Error("files of a deleted topic are left", zap.String("directory", name), zap.Error(err))
	}
}

func (b *Broker) orphan(img *cluster.Image, id ids.TopicID) {
	if img.WasDeleted(id) {
		b.removeFiles(id)
		return
	}
	b.metrics.orphans.Inc()
	b.logger.Warn("files of an unknown topic are kept", zap.Stringer("topic_id", id))
}

// logConfig is what the log needs of a topic's configuration.
func logConfig(c *cluster.TopicConfig) log.Config {
	return log.Config{
		SegmentBytes:       c.SegmentBytes,
		SegmentAge:         milliseconds(c.SegmentMs),
		RetentionBytes:     retentionBytes(c.RetentionBytes),
		RetentionAge:       milliseconds(c.RetentionMs),
		Delete:             c.CleanupDelete,
		Compact:            c.CleanupCompact,
		DeleteRetention:    milliseconds(c.DeleteRetentionMs),
		MinCompactionLag:   milliseconds(c.MinCompactionLagMs),
		MaxCompactionLag:   milliseconds(c.MaxCompactionLagMs),
		MinCleanableRatio:  c.MinCleanableDirtyRatio,
		IndexIntervalBytes: int(c.IndexIntervalBytes),
	}
}

// milliseconds turns a configured number into a duration without overflow; a negative number stays negative: no bound.
func milliseconds(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}

// retentionBytes gives a bound of 0 the meaning it has at Kafka, nothing but the active segment: to the log 0 is no bound.
func retentionBytes(n int64) int64 {
	if n == 0 {
		return 1
	}
	return n
}
