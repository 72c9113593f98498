package controller

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
)

// maxCommandBytes bounds one command in the log: a hundred thousand topics fit.
const maxCommandBytes = 32 << 20

// OpenStore opens a store that drives m. first are commands for a store that has none yet: they become the first of its order, all or
// none, before anything else. It returns when m has everything that was acknowledged before.
type OpenStore func(ctx context.Context, m Machine, first [][]byte) (Store, error)

// Options say what a controller is made of.
type Options struct {
	// Store opens the command log. Required.
	Store OpenStore
	// Tenant and Namespace are made with a new cluster. Default "default", "default".
	Tenant    string
	Namespace string
	// Defaults configure the topics that override nothing, on this node. nil: cluster.DefaultTopicConfig.
	Defaults *cluster.TopicConfig

	Logger     *zap.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

func (o Options) withDefaults() Options {
	if o.Tenant == "" {
		o.Tenant = "default"
	}
	if o.Namespace == "" {
		o.Namespace = cluster.DefaultNamespace
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// Controller is this node's part of the control plane. Its methods may run concurrently.
type Controller struct {
	logger   *zap.Logger
	metrics  *metrics
	store    Store
	defaults *cluster.TopicConfig

	state *state // the store's apply goroutine only
	image atomic.Pointer[cluster.Image]

	mu      sync.Mutex
	changed chan struct{} // guarded by mu; closed and replaced when image moves
}

// Open opens the store and returns once the image shows everything that was acknowledged before. A new store gets a random cluster id,
// the first tenant and namespace. The caller closes it.
func Open(ctx context.Context, opts Options) (*Controller, error) {
	opts = opts.withDefaults()
	if opts.Store == nil {
		return nil, errors.New("controller: no store")
	}
	if opts.Defaults == nil {
		opts.Defaults = cluster.DefaultTopicConfig()
	}
	first, err := EncodeCommand(cluster.Bootstrap{ClusterID: newClusterID(), Tenant: opts.Tenant, Namespace: opts.Namespace})
	if err != nil {
		return nil, err
	}
	c := &Controller{
		logger:   opts.Logger.Named("controller"),
		metrics:  newMetrics(opts.Registerer),
		state:    newState(cluster.NewImage(opts.Defaults)),
		defaults: opts.Defaults,
		changed:  make(chan struct{}),
	}
	c.image.Store(c.state.image)
	if c.store, err = opts.Store(ctx, machine{c}, [][]byte{first}); err != nil {
		return nil, err
	}
	m := c.Image()
	c.logger.Debug("metadata open", zap.String("cluster_id", m.ClusterID()), zap.Uint64("version", m.Version()),
		zap.Int("topics", m.TopicCount()), zap.Int("partitions", m.PartitionCount()))
	return c, nil
}

// newClusterID is 16 random bytes in the form that Kafka uses for cluster ids: 22 characters, none of them leading dashes, which
// would read as a flag on a command line.
func newClusterID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		if s := base64.RawURLEncoding.EncodeToString(b[:]); s[0] != '-' {
			return s
		}
	}
}

// Image is the newest image; never nil. It does not wait.
func (c *Controller) Image() *cluster.Image { return c.image.Load() }

// Changed returns a channel that is closed when an image newer than the present one is published. Take it before Image, so that no
// change falls between.
func (c *Controller) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Propose has cmd ordered, made durable and applied, and returns its result once Image shows it. The result's Err and the items' errors
// are errcode kinds; the error of Propose itself says that nothing is known of the effect (ErrUnknownOutcome) or that there was none
// (ErrNotController, ErrClosed, ErrStopped, InvalidRequest for a command above 32 MiB). ctx bounds the wait, not the effect.
// ValidateOnly commands are judged by the newest image and change nothing.
func (c *Controller) Propose(ctx context.Context, cmd cluster.Command) (cluster.Result, error) {
	if validateOnly(cmd) {
		scratch := newState(c.Image())
		res := scratch.apply(c.Image().Version(), cmd)
		return res, nil
	}
	b, err := EncodeCommand(cmd)
	if err != nil {
		return cluster.Result{}, err
	}
	if len(b) > maxCommandBytes {
		return cluster.Result{}, errcode.Newf(errcode.InvalidRequest,
			"the request takes %d bytes in the metadata log, at most %d are allowed: ask for less at a time", len(b), maxCommandBytes)
	}
	res, err := c.store.Propose(ctx, b)
	if err != nil {
		c.metrics.proposalErrors.Inc()
		return cluster.Result{}, err
	}
	r, ok := res.(cluster.Result)
	if !ok {
		return cluster.Result{}, fmt.Errorf("controller: the store returned %T", res)
	}
	return r, nil
}

func validateOnly(cmd cluster.Command) bool {
	switch c := cmd.(type) {
	case cluster.Guarded:
		_, nested := c.Command.(cluster.Guarded)
		return !nested && validateOnly(c.Command)
	case cluster.CreateTopics:
		return c.ValidateOnly
	case cluster.CreatePartitions:
		return c.ValidateOnly
	case cluster.SetTopicConfigs:
		return c.ValidateOnly
	case cluster.SetClientQuotas:
		return c.ValidateOnly
	default:
		return false
	}
}

// Ready says why commands cannot be ordered now; nil when they can, as far as this member knows. It does not wait.
func (c *Controller) Ready() error { return c.store.Ready() }

// Close closes the store. The last image stays readable.
func (c *Controller) Close() error { return c.store.Close() }

func (c *Controller) publish(m *cluster.Image) {
	c.image.Store(m)
	c.metrics.observe(m)
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
}

// machine is the Controller as its store sees it.
type machine struct{ c *Controller }

// Apply decodes, applies and publishes. See Machine.
func (m machine) Apply(position uint64, command []byte) (any, error) {
	cmd, err := DecodeCommand(command)
	if err != nil {
		return nil, fmt.Errorf("metadata command at position %d: %w", position, err)
	}
	res := m.c.state.apply(position, cmd)
	m.c.metrics.applied.Inc()
	m.c.publish(m.c.state.image)
	return res, nil
}

// Snapshot freezes the image, which is immutable. See Machine.
func (m machine) Snapshot() func(io.Writer) error {
	image := m.c.state.image
	return func(w io.Writer) error {
		_, err := w.Write(EncodeSnapshot(image))
		return err
	}
}

// Restore replaces the image. See Machine.
func (m machine) Restore(from io.Reader) error {
	image, err := readSnapshot(from, m.c.defaults)
	if err != nil {
		return err
	}
	m.c.state = newState(image)
	m.c.publish(image)
	return nil
}
