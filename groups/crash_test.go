package groups_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/journal"
)

// metadata is an image that does not change.
type metadata struct{ img *cluster.Image }

func (m metadata) Image() *cluster.Image    { return m.img }
func (m metadata) Changed() <-chan struct{} { return make(chan struct{}) }
func (m metadata) Propose(context.Context, cluster.Command) (cluster.Result, error) {
	panic("not in this test")
}

type shard struct{ *broker.Shard }

func (s shard) Append(b []byte) (base, next ids.Offset, err error) { return s.AppendInternal(b) }

func (s shard) Wait(until ids.Offset, notify func(error)) {
	if waits, err := s.Shard.Wait(&broker.Waiter{Until: until, Notify: notify}); !waits {
		notify(err)
	}
}

var topic = ids.TopicID{1}

// open makes a coordinator over a broker over a disk.
func open(t *testing.T, disk *vfs.Mem) *groups.Coordinator {
	t.Helper()
	const self = 1
	b := cluster.NewBuilder(cluster.NewImage(nil))
	b.PutTenant(cluster.Tenant{Name: "t"})
	n := cluster.GroupsTopic()
	for _, topic := range []*cluster.Topic{
		{ID: n.ID, Tenant: n.Tenant, Namespace: n.Namespace, Name: n.Name, Internal: true, Overrides: n.Overrides},
		{ID: topic, Tenant: "t", Namespace: "default", Name: "a"},
	} {
		topic.Durable, topic.Consistency = true, cluster.ConsistencyLeader
		for range n.Partitions {
			topic.Partitions = append(topic.Partitions, cluster.Partition{Leader: self, Replicas: []ids.BrokerID{self}})
		}
		if err := b.PutTopic(topic); err != nil {
			t.Fatal(err)
		}
	}
	img := b.Build(1)
	if err := disk.MkdirAll("data", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := disk.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(disk, "data/journal", journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	syncer := log.NewSyncer(log.SyncOnCommit, time.Millisecond, 2)
	syncer.Start()
	node, err := broker.New(broker.Options{
		Metadata: metadata{img}, Self: self, Dir: "data/shards", CommitOnSync: true,
		Shared: &log.Shared{FS: disk, Journal: j, Syncer: syncer, Pool: buf.NewPool(1 << 20), Now: time.Now},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := groups.New(groups.Options{
		Image: func() *cluster.Image { return img }, InitialRebalanceDelay: -1,
		Shard: func(p int32) (groups.Shard, error) {
			s, err := node.Shard(img.TopicByID(cluster.GroupsTopicID), p)
			return shard{s}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close(context.Background())
		_ = node.Close(context.Background())
		syncer.Close()
		_ = j.Close()
	})
	deadline := time.Now().Add(time.Minute)
	for c.List("t", 0, func(groups.Overview) bool { return true }) != nil {
		if time.Now().After(deadline) {
			t.Fatal("not loaded in time")
		}
		<-time.NewTimer(time.Millisecond).C
	}
	return c
}

func answer[T any](t *testing.T, call func(done func(T))) T {
	t.Helper()
	ch := make(chan T, 1)
	call(func(v T) { ch <- v })
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatal("no answer")
		panic("unreachable")
	}
}

// TestCrash: after a power loss that keeps an arbitrary part of what was not synced, every commit that was acknowledged is there, and a
// member goes on in its generation with its assignment.
func TestCrash(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			disk := vfs.NewMem()
			c := open(t, disk)
			k := groups.Key{Tenant: "t", Group: "g"}
			joined := answer(t, func(done func(*groups.JoinResult)) {
				c.Join(&groups.JoinRequest{
					Key: k, ClientID: "c", SessionTimeout: 10 * time.Minute, RebalanceTimeout: time.Minute,
					ProtocolType: "consumer", Protocols: []groups.Protocol{{Name: "range", Metadata: []byte("m")}},
				}, done)
			})
			if joined.Err != nil {
				t.Fatal(joined.Err)
			}
			sync := &groups.SyncRequest{
				Key: k, MemberID: joined.MemberID, Generation: joined.Generation,
				Assignments: []groups.Assignment{{MemberID: joined.MemberID, Bytes: []byte("all")}},
			}
			if r := answer(t, func(done func(*groups.SyncResult)) { c.Sync(sync, done) }); r.Err != nil {
				t.Fatal(r.Err)
			}
			commit := func(c *groups.Coordinator, offset int64) error {
				return answer(t, func(done func(error)) {
					c.Commit(&groups.CommitRequest{
						Key: k, MemberID: joined.MemberID, Generation: joined.Generation, RetentionMs: -1,
						Offsets: []groups.OffsetCommit{{Topic: topic, Partition: 2, Offset: offset, LeaderEpoch: -1}},
					}, func(err error, _ []error) { done(err) })
				})
			}
			for offset := range int64(20) {
				if err := commit(c, offset); err != nil {
					t.Fatal(err)
				}
			}
			c = open(t, disk.CrashImage(rand.New(rand.NewPCG(seed, 1))))
			if o, ok, err := c.Offset(k, topic, 2); err != nil || !ok || o.Offset != 19 {
				t.Errorf("offset %+v, %v, %v, want 19", o, ok, err)
			}
			if err := c.Heartbeat(k, joined.MemberID, "", joined.Generation); err != nil {
				t.Errorf("heartbeat: %v", err)
			}
			sync.Assignments = nil
			if r := answer(t, func(done func(*groups.SyncResult)) { c.Sync(sync, done) }); r.Err != nil || string(r.Assignment) != "all" {
				t.Errorf("sync: %+v", r)
			}
			if err := commit(c, 20); err != nil {
				t.Errorf("commit: %v", err)
			}
		})
	}
}
