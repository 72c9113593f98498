package kafkaproto

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

const testTenant = "t1"

// fakeNode is a node whose shards are lists of batches in memory.
type fakeNode struct {
	mu      sync.Mutex
	image   *cluster.Image
	shards  map[ids.ShardID]*fakeShard
	created int           // calls of CreateTopic
	hold    chan struct{} // CreateTopic waits for it to close; nil: it does not
	lastID  byte
	held    map[cluster.QuotaRate]time.Duration
	drawn   []quotaDraw
}

func newFakeNode() *fakeNode {
	b := cluster.NewBuilder(cluster.NewImage(nil))
	b.SetClusterID("test-cluster")
	b.PutNode(cluster.Node{ID: "n1", Broker: 1, KafkaHost: "127.0.0.1", KafkaPort: 9092, Live: true})
	b.PutNode(cluster.Node{ID: "n2", Broker: 2, KafkaHost: "other.example", KafkaPort: 9093, Rack: "r2", Live: true})
	b.PutTenant(cluster.Tenant{Name: testTenant})
	b.PutTenant(cluster.Tenant{Name: "t2"})
	b.PutNamespace(cluster.Namespace{Tenant: testTenant, Name: "default"})
	return &fakeNode{image: b.Build(1), shards: map[ids.ShardID]*fakeShard{}}
}

// addMoved makes a topic that node 2 leads at epoch 7.
func (n *fakeNode) addMoved(stream string) *cluster.Topic {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := &cluster.Topic{Tenant: testTenant, Namespace: "default", Name: stream, Durable: true}
	t.Partitions = []cluster.Partition{{Leader: 2, Epoch: 7, Replicas: []ids.BrokerID{2}}}
	return n.addLocked(t, 0)
}

// put adds a topic of any kind.
func (n *fakeNode) put(t *cluster.Topic, partitions int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addLocked(t, partitions)
}

// add makes a topic whose partitions node 1 leads at epoch 3.
func (n *fakeNode) add(namespace, stream string, partitions int) *cluster.Topic {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addLocked(&cluster.Topic{Tenant: testTenant, Namespace: namespace, Name: stream, Durable: true}, partitions)
}

func (n *fakeNode) addLocked(t *cluster.Topic, partitions int) *cluster.Topic {
	n.lastID++
	t.ID = ids.TopicID{0: 0xfe, 15: n.lastID}
	for range partitions {
		t.Partitions = append(t.Partitions, cluster.Partition{Leader: 1, Epoch: 3, Replicas: []ids.BrokerID{1}})
	}
	b := cluster.NewBuilder(n.image)
	b.PutNamespace(cluster.Namespace{Tenant: t.Tenant, Name: t.Namespace})
	b.PutTopic(t)
	n.image = b.Build(n.image.Version() + 1)
	return t
}

func (n *fakeNode) Image() *cluster.Image {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.image
}

func (n *fakeNode) Shard(t *cluster.Topic, partition int32) (shard, error) {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, broker.ErrUnknownShard
	}
	if p := t.Partitions[partition]; p.Leader != 1 {
		return nil, &errcode.NotLeaderError{Leader: int32(p.Leader), Epoch: int32(p.Epoch)}
	}
	return n.shard(t, partition), nil
}

func (n *fakeNode) shard(t *cluster.Topic, partition int32) *fakeShard {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := t.Shard(partition)
	s := n.shards[id]
	if s == nil {
		s = &fakeShard{epoch: 3, waiters: map[*broker.Waiter]struct{}{}, commit: true}
		n.shards[id] = s
	}
	return s
}

// DrawClientQuota holds everyone for held, if the rate is theirs.
func (n *fakeNode) DrawClientQuota(_ *Caller, client string, rate cluster.QuotaRate, bytes int) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drawn = append(n.drawn, quotaDraw{client, rate, bytes})
	return n.held[rate]
}

// quotaDraw is one call of DrawClientQuota.
type quotaDraw struct {
	client string
	rate   cluster.QuotaRate
	bytes  int
}

// Published is not looked at.
func (n *fakeNode) Published(time.Duration) {}

func (n *fakeNode) CreateTopic(_ context.Context, caller *Caller, namespace, stream string) error {
	n.mu.Lock()
	hold := n.hold
	n.mu.Unlock()
	if hold != nil {
		<-hold
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.created++
	if n.image.Topic(caller.Tenant, namespace, stream) != nil {
		return nil
	}
	n.addLocked(&cluster.Topic{Tenant: caller.Tenant, Namespace: namespace, Name: stream, Durable: true}, 1)
	return nil
}

// fakeShard keeps batches as they came, with the base offset stamped.
type fakeShard struct {
	mu      sync.Mutex
	epoch   ids.LeaderEpoch
	start   ids.Offset
	hw, end ids.Offset
	batches []fakeBatch
	waiters map[*broker.Waiter]struct{}
	commit  bool // the high watermark follows the end
	hold    time.Duration
	err     error
	commits atomic.Int32
	reads   atomic.Int32
	looks   atomic.Int32
	onWait  func() // runs before the next waiter is registered
}

type fakeBatch struct {
	base, next ids.Offset
	data       []byte
	ref        *buf.Ref
}

// set changes how the shard behaves.
func (s *fakeShard) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *fakeShard) CheckEpoch(known ids.LeaderEpoch) error {
	switch {
	case known == ids.NoEpoch || known == s.epoch:
		return nil
	case known < s.epoch:
		return errcode.New(errcode.FencedEpoch, "fenced")
	default:
		return errcode.New(errcode.UnknownEpoch, "unknown")
	}
}

func (s *fakeShard) Append(in broker.AppendInput) (broker.AppendResult, error) {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return broker.AppendResult{}, s.err
	}
	b := in.Records
	if len(b) < 61 || b[16] != 2 {
		s.mu.Unlock()
		return broker.AppendResult{}, &errcode.RecordError{Code: errcode.InvalidRecord, Index: 1, Text: "not a batch"}
	}
	base := s.end
	binary.BigEndian.PutUint64(b, uint64(base))
	s.end += ids.Offset(binary.BigEndian.Uint32(b[23:])) + 1
	s.batches = append(s.batches, fakeBatch{base, s.end, b, in.Owner.Retain()})
	res := broker.AppendResult{Base: base, Next: s.end, AppendTime: -1, Start: s.start, Records: int32(s.end - base), Hold: s.hold}
	var ready []*broker.Waiter
	if s.commit {
		ready = s.commitLocked(s.end)
	}
	s.mu.Unlock()
	notifyAll(ready, nil)
	return res, nil
}

// Commit is only counted: a fake is durable, or committed by hand.
func (s *fakeShard) Commit(bool) { s.commits.Add(1) }

func (s *fakeShard) commitLocked(to ids.Offset) (ready []*broker.Waiter) {
	s.hw = to
	for w := range s.waiters {
		if w.Until <= to {
			delete(s.waiters, w)
			ready = append(ready, w)
		}
	}
	return ready
}

// manual makes commits wait for commitTo.
func (s *fakeShard) manual() {
	s.mu.Lock()
	s.commit = false
	s.mu.Unlock()
}

// commitTo moves the high watermark.
func (s *fakeShard) commitTo(to ids.Offset) {
	s.mu.Lock()
	ready := s.commitLocked(to)
	s.mu.Unlock()
	notifyAll(ready, nil)
}

// fail tells all waiters err.
func (s *fakeShard) fail(err error) {
	s.mu.Lock()
	var ready []*broker.Waiter
	for w := range s.waiters {
		delete(s.waiters, w)
		ready = append(ready, w)
	}
	s.mu.Unlock()
	notifyAll(ready, err)
}

func notifyAll(ready []*broker.Waiter, err error) {
	for _, w := range ready {
		w.Notify(err)
	}
}

func (s *fakeShard) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiters)
}

func (s *fakeShard) Wait(w *broker.Waiter) (bool, error) {
	s.mu.Lock()
	hook := s.onWait
	s.onWait = nil
	s.mu.Unlock()
	if hook != nil {
		hook()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hw >= w.Until {
		return false, nil
	}
	s.waiters[w] = struct{}{}
	return true, nil
}

func (s *fakeShard) CancelWait(w *broker.Waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.waiters[w]
	delete(s.waiters, w)
	return ok
}

func (s *fakeShard) Bounds() broker.Bounds {
	s.mu.Lock()
	defer s.mu.Unlock()
	return broker.Bounds{Start: s.start, LastStable: s.hw, HighWatermark: s.hw, End: s.end, Epoch: s.epoch}
}

func (s *fakeShard) Read(from ids.Offset, maxBytes int, firstWhole bool, dst []broker.Chunk) ([]broker.Chunk, int, error) {
	s.reads.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if from < s.start || from > s.end {
		return dst, 0, &errcode.RangeError{Requested: int64(from), Start: int64(s.start), End: int64(s.end)}
	}
	total := 0
	for _, b := range s.batches {
		if b.next <= from || b.next > s.hw {
			continue
		}
		if total+len(b.data) > maxBytes && (!firstWhole || total > 0) {
			break
		}
		dst = append(dst, broker.Chunk{Data: b.data, Ref: b.ref.Retain()})
		total += len(b.data)
	}
	return dst, total, nil
}

func (s *fakeShard) Available(from ids.Offset, limit int) int {
	s.looks.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, b := range s.batches {
		if b.next > from && b.next <= s.hw {
			n += len(b.data)
		}
	}
	return min(n, limit)
}

func (s *fakeShard) EndOfEpoch(e ids.LeaderEpoch) (ids.LeaderEpoch, ids.Offset) {
	if e == s.epoch {
		return e, s.end
	}
	return s.epoch - 1, s.start
}

// makeBatch builds a batch v2 of n records with the given value.
func makeBatch(tb testing.TB, n int, value []byte) []byte {
	tb.Helper()
	var records []byte
	for i := range n {
		r := kmsg.NewRecord()
		r.OffsetDelta = int32(i)
		r.Value = value
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		r.Length = recordLength(r)
		records = r.AppendTo(records)
	}
	b := kmsg.NewRecordBatch()
	b.PartitionLeaderEpoch = -1
	b.Magic = 2
	b.LastOffsetDelta = int32(n - 1)
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	b.NumRecords = int32(n)
	b.Records = records
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// recordLength is the length of a record without its own length field.
func recordLength(r kmsg.Record) int32 {
	r.Length = 0
	return int32(len(r.AppendTo(nil)) - 1)
}
