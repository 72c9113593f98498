package groups

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

var errDisk = errcode.New(errcode.StorageFailed, "test: disk")

// memShard is an internal shard in memory. In manual mode nothing is committed before commit is called, as under on_commit.
type memShard struct {
	mu        sync.Mutex
	batches   [][]byte
	end, hw   ids.Offset
	manual    bool
	appendErr error // of the next appends
	waitErr   error // for waiters, instead of a commit
	waits     []memWait
	appends   int
	scans     int
	scanGate  chan struct{} // a scan waits for it
}

type memWait struct {
	until  ids.Offset
	notify func(error)
}

func (m *memShard) Append(batch []byte) (base, next ids.Offset, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.appends++
	if m.appendErr != nil {
		return 0, 0, m.appendErr
	}
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return 0, 0, err
	}
	kept := slices.Clone(batch)
	recordbatch.SetBaseOffset(kept, int64(m.end))
	m.batches = append(m.batches, kept)
	base = m.end
	m.end += ids.Offset(h.LastOffsetDelta) + 1
	if !m.manual {
		m.hw = m.end
	}
	return base, m.end, nil
}

func (m *memShard) Commit(bool) {}

func (m *memShard) Wait(until ids.Offset, notify func(error)) {
	m.mu.Lock()
	err := m.waitErr
	if err == nil && m.hw < until {
		m.waits = append(m.waits, memWait{until, notify})
		m.mu.Unlock()
		return
	}
	m.mu.Unlock()
	notify(err)
}

// commit commits everything and tells the waiters.
func (m *memShard) commit() { m.tell(nil) }

// tell ends all waits with err.
func (m *memShard) tell(err error) {
	m.mu.Lock()
	waits := m.waits
	m.waits = nil
	if err == nil {
		m.hw = m.end
	}
	m.mu.Unlock()
	for _, w := range waits {
		w.notify(err)
	}
}

func (m *memShard) Scan(_ context.Context, yield func([]byte) error) error {
	m.mu.Lock()
	m.scans++
	batches, gate := slices.Clone(m.batches), m.scanGate
	m.mu.Unlock()
	if gate != nil {
		<-gate
	}
	for _, b := range batches {
		if err := yield(b); err != nil {
			return err
		}
	}
	return nil
}

func (m *memShard) waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waits)
}

func (m *memShard) scanned() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scans
}

// harness is a coordinator over shards in memory.
type harness struct {
	t      *testing.T
	c      *Coordinator
	shards [cluster.GroupsPartitions]*memShard
	opts   Options
	// session is that of members: long, for tests by the clock on the wall, on which a member must not be lost because the machine is slow.
	session time.Duration

	mu     sync.Mutex
	img    *cluster.Image
	leader ids.BrokerID
	refuse error // of opening shards
}

var (
	topicA = ids.TopicID{1, 2, 3}
	topicB = ids.TopicID{1, 2, 4}
)

const self ids.BrokerID = 1

func newHarness(t *testing.T, change ...func(*Options)) *harness {
	t.Helper()
	h := &harness{t: t, leader: self, session: 10 * time.Minute}
	for i := range h.shards {
		h.shards[i] = &memShard{}
	}
	h.img = h.image(1, topicA, topicB)
	h.opts = Options{
		Shard: func(p int32) (Shard, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.refuse != nil {
				return nil, h.refuse
			}
			if h.leader != self {
				return nil, &errcode.NotLeaderError{Leader: int32(h.leader)}
			}
			return h.shards[p], nil
		},
		Image:                 h.image0,
		InitialRebalanceDelay: -1,
	}
	for _, f := range change {
		f(&h.opts)
	}
	h.start()
	return h
}

func (h *harness) image0() *cluster.Image {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.img
}

// image makes an image with the groups' topic and the given ones; version must rise.
func (h *harness) image(version uint64, topics ...ids.TopicID) *cluster.Image {
	h.t.Helper()
	base := h.img
	if base == nil {
		base = cluster.NewImage(nil)
	}
	b := cluster.NewBuilder(base)
	if h.img == nil {
		for _, tenant := range []string{"default", "t", "u"} {
			b.PutTenant(cluster.Tenant{Name: tenant})
		}
	}
	put := func(id ids.TopicID, tenant, ns, name string, partitions int) {
		t := &cluster.Topic{ID: id, Tenant: tenant, Namespace: ns, Name: name, Durable: true, Consistency: cluster.ConsistencyLeader}
		for range partitions {
			t.Partitions = append(t.Partitions, cluster.Partition{Leader: h.leader, Epoch: ids.LeaderEpoch(version), Replicas: []ids.BrokerID{self}})
		}
		if err := b.PutTopic(t); err != nil {
			h.t.Fatal(err)
		}
	}
	put(cluster.GroupsTopicID, cluster.SystemTenant, cluster.SystemNamespace, cluster.GroupsTopicName, cluster.GroupsPartitions)
	for _, id := range []ids.TopicID{topicA, topicB} {
		if slices.Contains(topics, id) {
			put(id, "t", "default", string('a'+rune(id[2])-3), 4)
		} else if t := b.Current().TopicByID(id); t != nil {
			b.DeleteTopic(t)
		}
	}
	return b.Build(version)
}

// replaceTenant makes an image in which a tenant was deleted and another one made under its name, whose incarnation is the version.
func (h *harness) replaceTenant(version uint64, name string) *cluster.Image {
	b := cluster.NewBuilder(h.image0())
	b.DeleteTenant(name)
	b.SetTenantsDeleted(version)
	b.PutTenant(cluster.Tenant{Name: name, Incarnation: version})
	return b.Build(version)
}

// setImage publishes an image and tells the coordinator.
func (h *harness) setImage(img *cluster.Image) {
	h.mu.Lock()
	h.img = img
	h.mu.Unlock()
	h.c.Apply(img)
}

func (h *harness) start() {
	h.t.Helper()
	c, err := New(h.opts)
	if err != nil {
		h.t.Fatal(err)
	}
	h.c = c
	if err := c.Start(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close(context.Background()) })
	h.loaded()
}

// restart makes a new coordinator over the same logs, after the old one closed.
func (h *harness) restart() {
	h.t.Helper()
	if err := h.c.Close(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	h.start()
}

// loaded waits until no shard is loading.
func (h *harness) loaded() {
	h.t.Helper()
	h.until("shards are loaded", func() bool {
		for _, s := range h.c.shards {
			s.mu.Lock()
			busy := s.phase == loading
			s.mu.Unlock()
			if busy {
				return false
			}
		}
		return true
	})
}

// until polls a condition that other goroutines bring about.
func (h *harness) until(what string, ok func() bool) {
	h.t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			h.t.Fatalf("not in time: %s", what)
		}
		<-tick.C
	}
}

func (h *harness) log(k Key) *memShard { return h.shards[h.c.ShardOf(k)] }

var testKey = Key{Tenant: "t", Group: "g"}

type outcome struct {
	err  error
	each []error
}

// commit commits offsets of topicA, partition by partition, and returns where the answer comes.
func (h *harness) commit(k Key, member string, generation int32, offsets ...int64) <-chan outcome {
	r := &CommitRequest{Key: k, MemberID: member, Generation: generation, RetentionMs: -1}
	for p, off := range offsets {
		r.Offsets = append(r.Offsets, OffsetCommit{Topic: topicA, Partition: int32(p), Offset: off, LeaderEpoch: -1})
	}
	ch := make(chan outcome, 1)
	h.c.Commit(r, func(err error, each []error) { ch <- outcome{err, each} })
	return ch
}

// committed commits for nobody in particular and demands success.
func (h *harness) committed(k Key, offsets ...int64) {
	h.t.Helper()
	if o := receive(h.t, h.commit(k, "", -1, offsets...)); o.err != nil {
		h.t.Fatalf("commit: %v", o.err)
	}
}

func receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatal("no answer")
		panic("unreachable")
	}
}

func silent[T any](t *testing.T, ch <-chan T) {
	t.Helper()
	select {
	case v := <-ch:
		t.Fatalf("answered with %+v", v)
	default:
	}
}

// offsetOf is the committed offset of a partition of topicA, -1 for none.
func (h *harness) offsetOf(k Key, p int32) int64 {
	h.t.Helper()
	o, ok, err := h.c.Offset(k, topicA, p)
	if err != nil {
		h.t.Fatalf("offset: %v", err)
	}
	if !ok {
		return -1
	}
	return o.Offset
}

func (h *harness) join(k Key, member string) <-chan *JoinResult {
	ch := make(chan *JoinResult, 1)
	h.c.Join(&JoinRequest{
		Key: k, MemberID: member, ClientID: "c", ClientHost: "/127.0.0.1", SessionTimeout: h.session, RebalanceTimeout: time.Minute,
		ProtocolType: "consumer", Protocols: []Protocol{{Name: "range", Metadata: subscription("a")}},
	}, func(r *JoinResult) { ch <- r })
	return ch
}

func (h *harness) sync(k Key, r *JoinResult) <-chan *SyncResult {
	ch := make(chan *SyncResult, 1)
	req := &SyncRequest{Key: k, MemberID: r.MemberID, Generation: r.Generation}
	if r.Leader == r.MemberID {
		for _, m := range r.Members {
			req.Assignments = append(req.Assignments, Assignment{MemberID: m.MemberID, Bytes: []byte("part of " + m.MemberID)})
		}
	}
	h.c.Sync(req, func(r *SyncResult) { ch <- r })
	return ch
}

// settled makes a group of one member and returns its join.
func (h *harness) settled(k Key) *JoinResult {
	h.t.Helper()
	r := receive(h.t, h.join(k, ""))
	if r.Err != nil {
		h.t.Fatalf("join: %v", r.Err)
	}
	if s := receive(h.t, h.sync(k, r)); s.Err != nil {
		h.t.Fatalf("sync: %v", s.Err)
	}
	return r
}

// subscription is what a consumer says when it joins.
func subscription(topics ...string) []byte {
	b := []byte{0, 1, 0, 0, 0, byte(len(topics))}
	for _, t := range topics {
		b = append(append(b, 0, byte(len(t))), t...)
	}
	return append(b, 0, 0, 0, 0)
}

func (h *harness) listed(tenant string) []Overview {
	h.t.Helper()
	var out []Overview
	if err := h.c.List(tenant, 0, func(o Overview) bool { out = append(out, o); return true }); err != nil {
		h.t.Fatalf("list: %v", err)
	}
	return out
}

// wantErr fails the test unless err is want.
func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}
