package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/journal"
	"github.com/felixlog/felix/log/recordbatch"
)

// site is a broker for native publishes. Its clock is the real one, so that tests of waits run in a bubble.
type site struct {
	meta *stubMetadata
	b    *Broker
	reg  *prometheus.Registry
	pool *buf.Pool
	end  func()
}

// native gives the metadata a native stream.
func (m *stubMetadata) native(t testing.TB, tenant, name string, durable bool, shards int, change ...func(*cluster.Topic)) *cluster.Topic {
	t.Helper()
	topic := &cluster.Topic{
		ID: ids.TopicID{2, byte(len(name)), name[0], tenant[0]}, Tenant: tenant, Namespace: "ns", Name: name, Durable: durable,
		Consistency: cluster.ConsistencyLeader,
	}
	for range shards {
		topic.Partitions = append(topic.Partitions, cluster.Partition{Leader: self, Epoch: 0, Replicas: []ids.BrokerID{self}})
	}
	for _, c := range change {
		c(topic)
	}
	m.change(func(b *cluster.Builder) {
		b.PutTenant(cluster.Tenant{Name: tenant})
		b.PutNamespace(cluster.Namespace{Tenant: tenant, Name: "ns"})
		if err := b.PutTopic(topic); err != nil {
			t.Fatal(err)
		}
	})
	return m.Image().TopicByID(topic.ID)
}

// newSite opens a broker over fs.
func newSite(t testing.TB, meta *stubMetadata, fs vfs.FS, mode log.SyncMode, change ...func(*Options)) *site {
	t.Helper()
	if err := errors.Join(fs.MkdirAll("data", 0o700), fs.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(fs, "data/journal", journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	syncer := log.NewSyncer(mode, time.Hour, 1)
	syncer.Start()
	st := &site{meta: meta, reg: prometheus.NewRegistry(), pool: buf.NewPool(1 << 20)}
	opts := Options{
		Metadata: meta, Self: self, Dir: "data/shards", CommitOnSync: mode == log.SyncOnCommit, Registerer: st.reg,
		Shared: &log.Shared{FS: fs, Journal: j, Syncer: syncer, Pool: st.pool},
	}
	for _, c := range change {
		c(&opts)
	}
	if st.b, err = New(opts); err != nil {
		t.Fatal(err)
	}
	if err := st.b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	st.end = func() {
		once.Do(func() {
			if err := st.b.Close(context.WithoutCancel(t.Context())); err != nil && errcode.Of(err) != errcode.StorageFailed {
				t.Errorf("close: %v", err)
			}
			syncer.Close()
			_ = j.Close()
		})
	}
	t.Cleanup(st.end)
	return st
}

func (st *site) shard(t testing.TB, topic *cluster.Topic, p int32) *Shard {
	t.Helper()
	s, err := st.b.Shard(topic, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// counter reads a counter by name and label values.
func (st *site) counter(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := st.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if matches(m, labels) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func matches(m *dto.Metric, values []string) bool {
	have := map[string]bool{}
	for _, l := range m.GetLabel() {
		have[l.GetValue()] = true
	}
	for _, v := range values {
		if !have[v] {
			return false
		}
	}
	return true
}

// nativeBatch builds a batch as a front end does: no time, no producer.
func nativeBatch(t testing.TB, pool *buf.Pool, values ...string) *buf.Ref {
	t.Helper()
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{LeaderEpoch: -1})
	for _, v := range values {
		b.Append(0, nil, []byte(v))
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ref := pool.Get(len(out))
	copy(ref.Bytes(), out)
	return ref
}

var tester = &Caller{Tenant: "t", Principal: "tester"}

// publication makes a publish that tells done.
func (st *site) publication(t testing.TB, s *Shard, mode PublishMode, done func(PublishResult), values ...string) *Publication {
	t.Helper()
	p := &Publication{
		Caller: tester, Shard: s, Batch: nativeBatch(t, st.pool, values...), Records: len(values), Mode: mode, Expected: ids.NoOffset,
		Done: func(_ *Publication, r PublishResult) { done(r) },
	}
	for _, v := range values {
		p.Bytes += len(v)
	}
	return p
}

// answer is where a publish is told, once.
type answer chan PublishResult

func newAnswer() answer { return make(answer, 1) }

func (a answer) told(r PublishResult) {
	select {
	case a <- r:
	default:
		panic("told twice")
	}
}

// open says that nothing was told yet. In a bubble, after synctest.Wait, that is final.
func (a answer) open() bool { return len(a) == 0 }

// publish sends one publish and returns where it is told.
func (st *site) publish(t testing.TB, s *Shard, mode PublishMode, values ...string) answer {
	t.Helper()
	a := newAnswer()
	st.b.Publish(st.publication(t, s, mode, a.told, values...))
	return a
}

// mustPublish publishes on commit and returns the offset.
func (st *site) mustPublish(t testing.TB, s *Shard, values ...string) ids.Offset {
	t.Helper()
	r := <-st.publish(t, s, OnCommit, values...)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Offset
}

// stall holds the shard's lane at its next publish, and a worker with it, until the result is called.
func stall(t testing.TB, s *Shard) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	w := &Waiter{Until: s.Bounds().End + 1, Notify: func(error) { <-gate }}
	if waiting, err := s.Wait(w); !waiting || err != nil {
		t.Fatalf("the shard does not wait: %v", err)
	}
	var once sync.Once
	return func() { once.Do(func() { close(gate) }) }
}

func overload(err error) string {
	var o *OverloadError
	if errors.As(err, &o) {
		return o.Reason
	}
	return fmt.Sprint(err)
}

// TestAnswers: rows S-01 to S-05 for the broker's part. What is told when, by stream and mode.
func TestAnswers(t *testing.T) {
	st := newSite(t, newStubMetadata(), vfs.NewMem(), log.SyncPeriodic)
	durable := st.shard(t, st.meta.native(t, "t", "durable", true, 1), 0)
	ephemeral := st.shard(t, st.meta.native(t, "t", "ephemeral", false, 1), 0)
	quorum := st.shard(t, st.meta.native(t, "t", "quorum", true, 1, func(t *cluster.Topic) { t.Consistency = cluster.ConsistencyQuorum }), 0)
	tests := []struct {
		name   string
		s      *Shard
		mode   PublishMode
		offset bool
	}{
		{"S-01_ephemeral_fire_and_forget", ephemeral, FireAndForget, false},
		{"S-02_ephemeral_on_accept", ephemeral, OnAccept, false},
		{"S-02_ephemeral_on_commit", ephemeral, OnCommit, false},
		{"S-03_durable_on_commit", durable, OnCommit, true},
		{"S-04_durable_on_accept", durable, OnAccept, false},
		{"S-05_durable_on_commit_beside_others", durable, OnCommit, true},
		{"durable_fire_and_forget", durable, FireAndForget, false},
		{"quorum_is_always_on_commit", quorum, OnAccept, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			at := tc.s.Bounds().End
			var got PublishResult
			told := 0
			st.b.Publish(st.publication(t, tc.s, tc.mode, func(r PublishResult) {
				got = r
				told++
				if r.Offset != ids.NoOffset && tc.s.Bounds().HighWatermark <= r.Offset {
					t.Error("it is told before it can be read")
				}
			}, "a", "b"))
			if told != 1 || got.Err != nil || got.Duplicate || (got.Offset != ids.NoOffset) != tc.offset || tc.offset && got.Offset != at {
				t.Errorf("told %d times: %+v", told, got)
			}
			if v := values(t, tc.s, at); len(v) != 2 || v[0] != "a" || v[1] != "b" {
				t.Errorf("read %q", v)
			}
		})
	}
	if !durable.Durable() || ephemeral.Durable() || !errors.Is(ephemeral.NeedLog(), ErrEphemeral) || durable.NeedLog() != nil {
		t.Error("the shards do not know what they are")
	}
	if n := st.counter(t, "felix_publish_requests_total", "ok"); n != 3 {
		t.Errorf("%v publishes counted as ok", n)
	}
	if n := st.counter(t, "felix_publish_requests_total", "accepted"); n != 5 {
		t.Errorf("%v publishes counted as accepted", n)
	}
	if n := st.counter(t, "felix_publish_bytes_total"); n != 16 {
		t.Errorf("%v bytes counted", n)
	}
}

// TestRefusals: what is refused before it is looked for room, and by whom it is owed; row S-80.
func TestRefusals(t *testing.T) {
	st := newSite(t, newStubMetadata(), vfs.NewMem(), log.SyncPeriodic)
	durable := st.shard(t, st.meta.native(t, "t", "durable", true, 1, func(t *cluster.Topic) {
		t.Overrides = map[string]string{"max.message.bytes": "1000"}
	}), 0)
	compacted := st.shard(t, st.meta.native(t, "t", "compacted", true, 1, func(t *cluster.Topic) {
		t.Overrides = map[string]string{"cleanup.policy": "compact"}
	}), 0)
	ephemeral := st.shard(t, st.meta.native(t, "t", "ephemeral", false, 1), 0)
	tests := []struct {
		name   string
		s      *Shard
		change func(*Publication)
		want   errcode.Kind
	}{
		{"S-80_publish_if_on_ephemeral", ephemeral, func(p *Publication) { p.Expected = 0 }, errcode.InvalidRequest},
		{"S-80_publish_if_without_payloads", durable, func(p *Publication) { p.Expected, p.Records = 0, 0 }, errcode.InvalidRequest},
		{"no_batch", durable, func(p *Publication) { p.Batch.Release(); p.Batch = nil }, errcode.InvalidRequest},
		{"too_large_for_the_topic", durable, func(p *Publication) {
			p.Batch.Release()
			p.Batch = nativeBatch(t, st.pool, strings.Repeat("x", 1000))
		}, errcode.BatchTooLarge},
		{"no_key_in_a_compacted_topic", compacted, nil, errcode.InvalidRecord},
		{"producer_of_nobody", durable, func(p *Publication) { p.Producer = 1 << 62 }, errcode.UnknownProducerID},
		{"kafka_producer", durable, func(p *Publication) { p.Producer = 7 }, errcode.UnknownProducerID},
		{"not_a_batch", durable, func(p *Publication) { p.Batch.Shrink(20) }, errcode.Internal},
		{"wrong_count", durable, func(p *Publication) { p.Records = 2 }, errcode.Internal},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := newAnswer()
			p := st.publication(t, tc.s, OnCommit, a.told, "v")
			if tc.change != nil {
				tc.change(p)
			}
			before := tc.s.Bounds().End
			st.b.Publish(p)
			if r := <-a; errcode.Of(r.Err) != tc.want || r.Offset != ids.NoOffset {
				t.Errorf("told %+v, want %v", r, tc.want)
			}
			if end := tc.s.Bounds().End; end != before || p.Batch != nil {
				t.Errorf("it was written, or the batch is still held: %v", p.Batch)
			}
		})
	}
	if _, err := ephemeral.Append(AppendInput{Records: []byte{}}); !errors.Is(err, ErrEphemeral) {
		t.Errorf("a Kafka append to an ephemeral shard: %v", err)
	}
}

func TestStream(t *testing.T) {
	st := newSite(t, newStubMetadata(), vfs.NewMem(), log.SyncPeriodic)
	st.meta.native(t, "t", "here", false, 1)
	tests := []struct {
		name, tenant, namespace, stream string
		want                            error
	}{
		{"there", "t", "ns", "here", nil},
		{"S-23_unknown_stream", "t", "ns", "gone", ErrUnknownStream},
		{"S-23_unknown_namespace", "t", "nowhere", "here", ErrUnknownNamespace},
		{"S-23_unknown_tenant", "nobody", "ns", "here", ErrUnknownTenant},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			topic, err := st.b.Stream(&Caller{Tenant: tc.tenant}, tc.namespace, tc.stream)
			if !errors.Is(err, tc.want) || (topic != nil) != (tc.want == nil) {
				t.Errorf("%v, %v", topic, err)
			}
		})
	}
}

// TestKilledAfterTheAnswer: rows S-06 and S-07.
func TestKilledAfterTheAnswer(t *testing.T) {
	for _, tc := range []struct {
		name  string
		mode  log.SyncMode
		image func(*vfs.Mem) *vfs.Mem
	}{
		{"S-06_on_commit_machine", log.SyncOnCommit, func(m *vfs.Mem) *vfs.Mem { return m.CrashImage(rand.New(rand.NewPCG(1, 2))) }},
		{"S-07_periodic_process", log.SyncPeriodic, (*vfs.Mem).ProcessKillImage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fs := vfs.NewMem()
			meta := newStubMetadata()
			topic := meta.native(t, "t", "s", true, 1)
			st := newSite(t, meta, fs, tc.mode)
			s := st.shard(t, topic, 0)
			for i := range 5 {
				if off := st.mustPublish(t, s, strconv.Itoa(i)); off != ids.Offset(i) {
					t.Fatalf("publish %d at %d", i, off)
				}
			}
			again := newSite(t, meta, tc.image(fs), tc.mode)
			if got := fmt.Sprint(values(t, again.shard(t, topic, 0), 0)); got != "[0 1 2 3 4]" {
				t.Errorf("after the kill: %s", got)
			}
		})
	}
}

// TestFailedSync: row S-46.
func TestFailedSync(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	meta := newStubMetadata()
	st := newSite(t, meta, disk, log.SyncOnCommit)
	s := st.shard(t, meta.native(t, "t", "s", true, 1), 0)
	st.mustPublish(t, s, "good")
	disk.Add(vfs.Rule{Err: syscall.EIO, Sticky: true, Nth: 1, Match: func(op vfs.Op) bool {
		return (op.Kind == vfs.OpSync || op.Kind == vfs.OpDatasync) && strings.HasSuffix(op.Path, ".log")
	}})
	if r := <-st.publish(t, s, OnCommit, "bad"); errcode.Of(r.Err) != errcode.StorageFailed || r.Offset != ids.NoOffset {
		t.Errorf("told %+v", r)
	}
	disk.Clear()
	if got := fmt.Sprint(values(t, s, 0)); got != "[good]" {
		t.Errorf("read %s", got)
	}
	for _, mode := range []PublishMode{OnCommit, OnAccept, FireAndForget} {
		if r := <-st.publish(t, s, mode, "later"); errcode.Of(r.Err) != errcode.StorageFailed {
			t.Errorf("mode %d afterwards: %+v", mode, r)
		}
	}
}

// TestFullDisk: row S-47.
func TestFullDisk(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	meta := newStubMetadata()
	st := newSite(t, meta, disk, log.SyncPeriodic)
	s := st.shard(t, meta.native(t, "t", "s", true, 1), 0)
	st.mustPublish(t, s, "a")
	disk.Add(vfs.Rule{Err: syscall.ENOSPC, Nth: 1, ShortWrite: true, Match: func(op vfs.Op) bool { return op.Kind == vfs.OpWrite }})
	if r := <-st.publish(t, s, OnCommit, "no"); errcode.Of(r.Err) != errcode.Overloaded || r.Offset != ids.NoOffset {
		t.Errorf("told %+v", r)
	}
	if off := st.mustPublish(t, s, "b"); off != 1 {
		t.Errorf("the next is at %d", off)
	}
	if got := fmt.Sprint(values(t, s, 0)); got != "[a b]" {
		t.Errorf("read %s", got)
	}
}

// TestOneOrder: row S-45. All who read see one order, that of offsets, and each publisher's own in it.
func TestOneOrder(t *testing.T) {
	for _, mode := range []log.SyncMode{log.SyncPeriodic, log.SyncOnCommit} {
		t.Run(mode.String(), func(t *testing.T) {
			meta := newStubMetadata()
			st := newSite(t, meta, vfs.NewMem(), mode)
			s := st.shard(t, meta.native(t, "t", "s", true, 1), 0)
			const publishers, each, readers = 8, 100, 4
			var wg sync.WaitGroup
			for p := range publishers {
				wg.Go(func() {
					for i := range each {
						st.mustPublish(t, s, fmt.Sprintf("%d-%d", p, i))
					}
				})
			}
			seen := make([][]string, readers)
			for r := range readers {
				wg.Go(func() {
					for at := ids.Offset(0); at < publishers*each; at = ids.Offset(len(seen[r])) {
						moved := make(chan error, 1)
						if waiting, err := s.Wait(&Waiter{Until: at + 1, Notify: func(err error) { moved <- err }}); err != nil {
							t.Error(err)
							return
						} else if waiting {
							<-moved
						}
						seen[r] = append(seen[r], values(t, s, at)...)
					}
				})
			}
			wg.Wait()
			replay := values(t, s, 0)
			next := map[string]int{}
			for _, v := range replay {
				p, i, _ := strings.Cut(v, "-")
				if strconv.Itoa(next[p]) != i {
					t.Fatalf("publisher %s: %s comes when %d is next", p, i, next[p])
				}
				next[p]++
			}
			for r := range readers {
				if fmt.Sprint(seen[r]) != fmt.Sprint(replay) {
					t.Errorf("reader %d saw another order", r)
				}
			}
		})
	}
}

// TestEphemeralReadersMissNothing: what reads from inside Notify sees every record, however small the ring.
func TestEphemeralReadersMissNothing(t *testing.T) {
	meta := newStubMetadata()
	st := newSite(t, meta, vfs.NewMem(), log.SyncPeriodic, func(o *Options) { o.RingBatches = 1 })
	s := st.shard(t, meta.native(t, "t", "s", false, 1), 0)
	const publishers, each = 4, 200
	var mu sync.Mutex
	var seen []string
	at := ids.Offset(0)
	w := &Waiter{Until: 1}
	w.Notify = func(err error) {
		if err != nil {
			return
		}
		for {
			got := values(t, s, at)
			mu.Lock()
			seen = append(seen, got...)
			mu.Unlock()
			at += ids.Offset(len(got))
			w.Until = at + 1
			if waiting, err := s.Wait(w); waiting || err != nil {
				return
			}
		}
	}
	if waiting, err := s.Wait(w); !waiting || err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	answers := make(chan answer, publishers*each)
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				answers <- st.publish(t, s, OnAccept, fmt.Sprintf("%d-%d", p, i))
			}
		})
	}
	wg.Wait()
	close(answers)
	for a := range answers {
		if r := <-a; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	st.end() // what was accepted is written
	if len(seen) != publishers*each {
		t.Errorf("%d of %d seen", len(seen), publishers*each)
	}
}

// TestRestartOfAnEphemeralShard: nothing is on disk, and nothing is left after a new start.
func TestRestartOfAnEphemeralShard(t *testing.T) {
	meta := newStubMetadata()
	topic := meta.native(t, "t", "s", false, 1)
	fs := vfs.NewMem()
	st := newSite(t, meta, fs, log.SyncPeriodic)
	s := st.shard(t, topic, 0)
	st.mustPublish(t, s, "a")
	if b := s.Bounds(); b.HighWatermark != 1 || b.End != 1 || s.SizeBytes() == 0 {
		t.Errorf("%+v", b)
	}
	st.end()
	if dirs, err := fs.ReadDir("data/shards"); err == nil && len(dirs) > 0 {
		t.Errorf("files are left: %v", dirs)
	}
	again := newSite(t, meta, fs, log.SyncPeriodic)
	if b := again.shard(t, topic, 0).Bounds(); b.End != 0 {
		t.Errorf("after a restart %+v", b)
	}
}

// TestEphemeralShardThatIsDeleted: its waiters and publishers are told.
func TestEphemeralShardThatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meta := newStubMetadata()
		st := newSite(t, meta, vfs.NewMem(), log.SyncPeriodic)
		topic := meta.native(t, "t", "s", false, 1)
		s := st.shard(t, topic, 0)
		told := make(chan error, 1)
		if waiting, err := s.Wait(&Waiter{Until: 1, Notify: func(err error) { told <- err }}); !waiting || err != nil {
			t.Fatal(err)
		}
		meta.change(func(b *cluster.Builder) { b.DeleteTopic(topic) })
		if err := <-told; errcode.Of(err) != errcode.UnknownShard {
			t.Errorf("the waiter is told %v", err)
		}
		if r := <-st.publish(t, s, OnAccept, "a"); errcode.Of(r.Err) != errcode.UnknownShard {
			t.Errorf("a publisher is told %+v", r)
		}
		if _, err := st.b.Stream(tester, "ns", "s"); !errors.Is(err, ErrUnknownStream) {
			t.Error(err)
		}
	})
}

// TestLostLeadership: a publish that waits for its commit when leadership goes is told that it may have been written, one that comes
// later that it was not. What an ephemeral shard held is gone.
func TestLostLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meta := newStubMetadata()
		gate := &gateFS{FS: vfs.NewMem()}
		st := newSite(t, meta, gate, log.SyncOnCommit)
		durable := meta.native(t, "t", "durable", true, 1)
		ephemeral := meta.native(t, "t", "ephemeral", false, 1)
		d, e := st.shard(t, durable, 0), st.shard(t, ephemeral, 0)
		st.mustPublish(t, d, "a")
		st.mustPublish(t, e, "a")
		open := gate.shut()
		waits := st.publish(t, d, OnCommit, "b")
		synctest.Wait()
		if !waits.open() {
			t.Fatalf("told before the sync: %+v", <-waits)
		}
		for _, topic := range []*cluster.Topic{durable, ephemeral} {
			moved := *topic
			moved.Partitions = []cluster.Partition{{Leader: 2, Epoch: 1, Replicas: []ids.BrokerID{2}}}
			meta.change(func(b *cluster.Builder) {
				if err := b.PutTopic(&moved); err != nil {
					t.Fatal(err)
				}
			})
		}
		if r := <-waits; errcode.Of(r.Err) != errcode.LeadershipLost {
			t.Errorf("told %+v", r)
		}
		open()
		synctest.Wait()
		for _, s := range []*Shard{d, e} {
			r := <-st.publish(t, s, OnCommit, "c")
			var notLeader *errcode.NotLeaderError
			if !errors.As(r.Err, &notLeader) || notLeader.Leader != 2 {
				t.Errorf("afterwards %+v", r)
			}
		}
		if b := e.Bounds(); b.Start != b.End {
			t.Errorf("the ring holds %+v", b)
		}
	})
}

// gateFS holds syncs of segments while it is shut.
type gateFS struct {
	vfs.FS
	mu   sync.Mutex
	gate chan struct{}
}

// shut has syncs wait until the result is called.
func (g *gateFS) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := make(chan struct{})
	g.gate = gate
	var once sync.Once
	return func() {
		once.Do(func() {
			g.mu.Lock()
			g.gate = nil
			g.mu.Unlock()
			close(gate)
		})
	}
}

func (g *gateFS) wait() {
	g.mu.Lock()
	gate := g.gate
	g.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (g *gateFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := g.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &gateFile{File: f, fs: g}, nil
}

type gateFile struct {
	vfs.File
	fs *gateFS
}

func (f *gateFile) Sync() error {
	f.fs.wait()
	return f.File.Sync()
}

func (f *gateFile) Datasync() error {
	f.fs.wait()
	return f.File.Datasync()
}
