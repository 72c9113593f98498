package kafkaproto

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// fakeGroups notes what it is asked and answers as it is told. Calls with a done are answered at once, or wait for release.
type fakeGroups struct {
	mu       sync.Mutex
	hold     bool
	held     []func()
	err      error // of every call, when set
	each     []error
	join     groups.JoinResult
	sync     groups.SyncResult
	lists    map[string][]groups.Overview // by tenant
	listErr  error
	describe map[groups.Key]groups.Description
	offsets  map[groups.Key]map[groups.TopicPartition]groups.CommittedOffset

	joins      []groups.JoinRequest
	syncs      []groups.SyncRequest
	heartbeats []string
	leaves     []groups.Leaving
	commits    []groups.CommitRequest
	deleted    []groups.Key
	asked      []groups.Key // of the calls about offsets and members
}

func newFakeGroups() *fakeGroups {
	return &fakeGroups{
		lists: map[string][]groups.Overview{}, describe: map[groups.Key]groups.Description{},
		offsets: map[groups.Key]map[groups.TopicPartition]groups.CommittedOffset{},
	}
}

// set changes how it answers.
func (g *fakeGroups) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// noted is what a field of g holds.
func noted[T any](g *fakeGroups, field *T) T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return *field
}

// finish runs an answer, now or at release.
func (g *fakeGroups) finish(answer func()) {
	g.mu.Lock()
	if g.hold {
		g.held = append(g.held, answer)
		g.mu.Unlock()
		return
	}
	g.mu.Unlock()
	answer()
}

func (g *fakeGroups) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held)
}

// release answers what waits, and holds no more.
func (g *fakeGroups) release() {
	g.mu.Lock()
	held := g.held
	g.held, g.hold = nil, false
	g.mu.Unlock()
	for _, answer := range held {
		answer()
	}
}

// ShardOf puts groups "a..." in shard 0, "b..." in 1 and so on.
func (g *fakeGroups) ShardOf(k groups.Key) int32 {
	if k.Group == "" {
		return 0
	}
	return int32(k.Group[0]) - 'a'
}

func (g *fakeGroups) Join(r *groups.JoinRequest, done func(*groups.JoinResult)) {
	own := *r
	own.Protocols = slices.Clone(r.Protocols)
	for i := range own.Protocols {
		own.Protocols[i].Metadata = slices.Clone(own.Protocols[i].Metadata)
	}
	g.mu.Lock()
	g.joins = append(g.joins, own)
	res := g.join
	if g.err != nil {
		res = groups.JoinResult{Err: g.err, MemberID: r.MemberID}
	}
	g.mu.Unlock()
	g.finish(func() { done(&res) })
}

func (g *fakeGroups) Sync(r *groups.SyncRequest, done func(*groups.SyncResult)) {
	own := *r
	own.Assignments = slices.Clone(r.Assignments)
	for i := range own.Assignments {
		own.Assignments[i].Bytes = slices.Clone(own.Assignments[i].Bytes)
	}
	g.mu.Lock()
	g.syncs = append(g.syncs, own)
	res := g.sync
	if g.err != nil {
		res = groups.SyncResult{Err: g.err}
	}
	g.mu.Unlock()
	g.finish(func() { done(&res) })
}

func (g *fakeGroups) Heartbeat(k groups.Key, member, instance string, generation int32) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, k)
	g.heartbeats = append(g.heartbeats, strings.Join([]string{k.Tenant, k.Group, member, instance, string('0' + generation)}, "/"))
	return g.err
}

// items is what a call about several things ends with.
func (g *fakeGroups) items(k groups.Key, done func(error, []error)) {
	g.mu.Lock()
	g.asked = append(g.asked, k)
	err, each := g.err, g.each
	g.mu.Unlock()
	g.finish(func() { done(err, each) })
}

func (g *fakeGroups) Leave(k groups.Key, members []groups.Leaving, done func(error, []error)) {
	g.set(func() { g.leaves = append(g.leaves, members...) })
	g.items(k, done)
}

func (g *fakeGroups) Commit(r *groups.CommitRequest, done func(error, []error)) {
	own := *r
	own.Offsets = slices.Clone(r.Offsets)
	g.set(func() { g.commits = append(g.commits, own) })
	g.items(r.Key, func(err error, each []error) {
		g.set(func() {
			if g.offsets[own.Key] == nil {
				g.offsets[own.Key] = map[groups.TopicPartition]groups.CommittedOffset{}
			}
			for i := range own.Offsets {
				o := &own.Offsets[i]
				if err == nil && (i >= len(each) || each[i] == nil) {
					g.offsets[own.Key][groups.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = groups.CommittedOffset{
						Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata,
					}
				}
			}
		})
		done(err, each)
	})
}

func (g *fakeGroups) Offset(k groups.Key, topic ids.TopicID, partition int32) (groups.CommittedOffset, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, ok := g.offsets[k][groups.TopicPartition{Topic: topic, Partition: partition}]
	return o, ok, g.err
}

func (g *fakeGroups) AllOffsets(k groups.Key) ([]groups.CommittedOffset, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []groups.CommittedOffset
	for _, o := range g.offsets[k] {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b groups.CommittedOffset) int {
		return cmp.Or(slices.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	return out, g.err
}

func (g *fakeGroups) DeleteOffsets(k groups.Key, list []groups.TopicPartition, done func(error, []error)) {
	g.set(func() {
		for _, tp := range list {
			delete(g.offsets[k], tp)
		}
	})
	g.items(k, done)
}

func (g *fakeGroups) List(tenant string, _ uint64, yield func(groups.Overview) bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.lists[tenant] {
		if !yield(o) {
			break
		}
	}
	return g.listErr
}

func (g *fakeGroups) Describe(k groups.Key) (groups.Description, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d, ok := g.describe[k]
	switch {
	case g.err != nil:
		return groups.Description{}, g.err
	case !ok:
		return groups.Description{}, groups.ErrGroupNotFound
	default:
		return d, nil
	}
}

func (g *fakeGroups) Delete(k groups.Key, done func(error)) {
	g.mu.Lock()
	g.deleted = append(g.deleted, k)
	err := g.err
	if err == nil && k.Group == "busy" {
		err = groups.ErrNonEmptyGroup
	}
	g.mu.Unlock()
	g.finish(func() { done(err) })
}

// newGroupHarness is a harness with a fake coordinator and the internal topic of groups: shard 0 is led by node 1, 1 by node 2, 2 by
// nobody, 3 by a node that nobody knows; the others do not exist.
func newGroupHarness(t testing.TB, change func(*Options)) (*harness, *fakeGroups) {
	t.Helper()
	fake := newFakeGroups()
	h := newHarness(t, func(o *Options) {
		o.Groups = fake
		if change != nil {
			change(o)
		}
	})
	h.node.putGroupsTopic(1, 2, ids.NoBroker, 9)
	return h, fake
}

// putGroupsTopic makes the internal topic of groups, with a shard for each leader.
func (n *fakeNode) putGroupsTopic(leaders ...ids.BrokerID) {
	topic := &cluster.Topic{
		ID: cluster.GroupsTopicID, Tenant: cluster.SystemTenant, Namespace: cluster.SystemNamespace, Name: cluster.GroupsTopicName,
		Durable: true, Internal: true,
	}
	for _, leader := range leaders {
		topic.Partitions = append(topic.Partitions, cluster.Partition{Leader: leader, Epoch: 3, Replicas: []ids.BrokerID{1}})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	b := cluster.NewBuilder(n.image)
	b.PutTopic(topic)
	n.image = b.Build(n.image.Version() + 1)
}

// groupKey is a group of the tests' tenant.
func groupKey(name string) groups.Key { return groups.Key{Tenant: testTenant, Group: name} }
