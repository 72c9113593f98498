package groups

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// Coordinator keeps the groups of the internal shards that this node leads. New starts nothing; Start loads the shards; Close ends it
// and waits. All methods may be called from any goroutine.
//
// Calls that may have to wait take a function, done, which is called exactly once: outside all locks, on any goroutine, possibly before
// the call returns. It must not block for long. Every call can be refused with ErrLoading while the group's shard is being loaded,
// ErrNotCoordinator where this node does not lead it or is closing, and ErrNotAvailable where the shard cannot be read or written now.
type Coordinator struct {
	opts    Options
	limits  limits
	logger  *zap.Logger
	metrics *metrics
	shards  [cluster.GroupsPartitions]*shard

	loads  chan struct{} // a slot for each load at a time
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines; added to under a shard's lock or before Close
	groups atomic.Int64   // over all shards
	held   atomic.Int64   // bytes that groups hold for their members, over all shards

	applyMu sync.Mutex     // one image at a time
	applied *cluster.Image // guarded by applyMu; nil before Start

	closeOnce sync.Once
	closed    chan struct{} // Close has ended
}

// New makes a coordinator. It reads nothing and starts nothing.
func New(opts Options) (*Coordinator, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{
		opts: opts, limits: opts.limits(), logger: opts.Logger.Named("groups"),
		loads: make(chan struct{}, runtime.GOMAXPROCS(0)), cancel: func() {}, closed: make(chan struct{}),
	}
	for i := range c.shards {
		c.shards[i] = &shard{c: c, index: int32(i), term: 1}
	}
	c.metrics = newMetrics(opts.Registerer, c)
	return c, nil
}

// Start loads the shards that this node leads, in the background, and starts the loop of expiry. Until a shard is loaded its calls get
// ErrLoading. ctx gives values only; Close ends what Start began.
func (c *Coordinator) Start(ctx context.Context) error {
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.applyMu.Lock()
	defer c.applyMu.Unlock()
	c.applied = c.opts.Image()
	for _, s := range c.shards {
		s.mu.Lock()
		s.led = leadershipOf(c.applied, s.index)
		s.phase = loading
		s.startLoadLocked()
		s.mu.Unlock()
	}
	c.wg.Go(c.expireLoop)
	return nil
}

// Close ends the coordinator: calls are refused from now on, whoever waits to join or for an assignment is told ErrNotCoordinator, and
// what was appended is waited for until ctx ends. The shards must stay usable until it returns. Further calls wait for the first.
func (c *Coordinator) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		for _, s := range c.shards {
			s.drain()
		}
		for _, s := range c.shards {
			s.awaitIdle(ctx)
		}
		for _, s := range c.shards {
			s.close()
		}
		c.cancel()
		c.wg.Wait()
		close(c.closed)
	})
	<-c.closed
	return nil
}

// Apply tells the coordinator of an image: leadership that changed hands is taken up or given up, and offsets of topics that are gone
// are forgotten, as are the groups of tenants that are gone, with everything of them. What is gone is looked up in Options.Image, which
// may be newer: calls are taken by it. Images older than one that was applied are ignored.
func (c *Coordinator) Apply(img *cluster.Image) {
	c.applyMu.Lock()
	defer c.applyMu.Unlock()
	if c.applied == nil || img == c.applied || img.Version() < c.applied.Version() {
		return
	}
	before := c.applied
	c.applied = img
	for _, s := range c.shards {
		s.leadershipChanged(leadershipOf(img, s.index))
	}
	if tenantWent(before, img) {
		for _, s := range c.shards {
			s.forgetTenants()
		}
	}
	gone := false
	cluster.Diff(before, img, func(_, now *cluster.Topic) { gone = gone || now == nil })
	if gone {
		for _, s := range c.shards {
			s.forgetTopics()
		}
	}
}

// tenantWent says that a tenant of an image is not in a newer one, or another one is under its name.
func tenantWent(before, img *cluster.Image) bool {
	if before.TenantsDeleted() == img.TenantsDeleted() {
		return false
	}
	return slices.ContainsFunc(before.Tenants(), func(t *cluster.Tenant) bool { return !img.HasTenant(t.Name, t.Incarnation) })
}

// ShardOf is the internal shard that a group lives in; its leader is the group's coordinator. The mapping never changes: it says where
// what is stored is looked for.
func (c *Coordinator) ShardOf(k Key) int32 { return shardOf(k) }

// shardOf hashes tenant and group with FNV-1a, a zero byte between them, and folds the result.
func shardOf(k Key) int32 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(k.Tenant) {
		h = (h ^ uint64(k.Tenant[i])) * prime
	}
	h *= prime // the zero byte
	for i := range len(k.Group) {
		h = (h ^ uint64(k.Group[i])) * prime
	}
	h ^= h >> 32
	h ^= h >> 16 // the low bits of FNV alone are weak for short names
	return int32(h % cluster.GroupsPartitions)
}

func (c *Coordinator) shardFor(k Key) *shard { return c.shards[shardOf(k)] }

func (c *Coordinator) now() time.Time { return c.opts.Now() }

// leadership is who leads an internal shard, as an image says.
type leadership struct {
	leader ids.BrokerID
	epoch  ids.LeaderEpoch
}

func leadershipOf(img *cluster.Image, p int32) leadership {
	t := img.TopicByID(cluster.GroupsTopicID)
	if t == nil || int(p) >= len(t.Partitions) {
		return leadership{leader: ids.NoBroker, epoch: ids.NoEpoch}
	}
	return leadership{leader: t.Partitions[p].Leader, epoch: t.Partitions[p].Epoch}
}

// newMemberID is the id of a new member: what the client calls itself, for people, and a random UUID. Dynamic members are told apart by
// it, static ones by their instance id.
func newMemberID(r *JoinRequest) string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	name := r.ClientID
	if r.InstanceID != "" {
		name = r.InstanceID
	}
	var text [36]byte
	hex.Encode(text[0:8], u[0:4])
	hex.Encode(text[9:13], u[4:6])
	hex.Encode(text[14:18], u[6:8])
	hex.Encode(text[19:23], u[8:10])
	hex.Encode(text[24:36], u[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return name + "-" + string(text[:])
}
