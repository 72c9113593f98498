package broker

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

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

const self ids.BrokerID = 1

// stubMetadata is an image that a test changes by hand.
type stubMetadata struct {
	mu      sync.Mutex
	img     *cluster.Image
	changed chan struct{}
}

func newStubMetadata() *stubMetadata {
	m := &stubMetadata{changed: make(chan struct{})}
	b := cluster.NewBuilder(cluster.NewImage(nil))
	b.SetClusterID("test")
	b.PutNode(cluster.Node{ID: "n1", Broker: self, KafkaHost: "127.0.0.1", KafkaPort: 9092, Live: true})
	b.PutTenant(cluster.Tenant{Name: "t"})
	b.PutNamespace(cluster.Namespace{Tenant: "t", Name: "ns"})
	m.img = b.Build(1)
	return m
}

func (m *stubMetadata) Image() *cluster.Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.img
}

func (m *stubMetadata) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *stubMetadata) Propose(context.Context, cluster.Command) (cluster.Result, error) {
	return cluster.Result{}, errors.New("not in this test")
}

func (m *stubMetadata) change(f func(*cluster.Builder)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := cluster.NewBuilder(m.img)
	f(b)
	m.img = b.Build(m.img.Version() + 1)
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *stubMetadata) topic(t *testing.T, name string, partitions int, overrides map[string]string) *cluster.Topic {
	t.Helper()
	topic := &cluster.Topic{
		ID: ids.TopicID{1, byte(len(name)), name[0]}, Tenant: "t", Namespace: "ns", Name: name, Durable: true, MadeByKafka: true,
		Consistency: cluster.ConsistencyLeader, Overrides: overrides,
	}
	for range partitions {
		topic.Partitions = append(topic.Partitions, cluster.Partition{Leader: self, Epoch: 0, Replicas: []ids.BrokerID{self}})
	}
	m.change(func(b *cluster.Builder) {
		if err := b.PutTopic(topic); err != nil {
			t.Fatal(err)
		}
	})
	return m.Image().TopicByID(topic.ID)
}

type fixture struct {
	meta   *stubMetadata
	fs     *vfs.Mem
	shared *log.Shared
	b      *Broker
	now    time.Time
}

func newFixture(t *testing.T, mode log.SyncMode) *fixture {
	t.Helper()
	f := &fixture{meta: newStubMetadata(), fs: vfs.NewMem(), now: time.UnixMilli(1_700_000_000_000)}
	f.open(t, f.fs, mode)
	return f
}

func (f *fixture) open(t *testing.T, fs *vfs.Mem, mode log.SyncMode) {
	t.Helper()
	f.fs = fs
	j, err := journal.Open(fs, "data/journal", journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	syncer := log.NewSyncer(mode, time.Millisecond, 1)
	syncer.Start()
	f.shared = &log.Shared{FS: fs, Journal: j, Syncer: syncer, Pool: buf.NewPool(1 << 20), Now: func() time.Time { return f.now }}
	f.b, err = New(Options{
		Metadata: f.meta, Self: self, Shared: f.shared, Dir: "data/shards",
		CommitOnSync: mode == log.SyncOnCommit, Now: func() time.Time { return f.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.b.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		syncer.Close()
		if err := j.Close(); err != nil {
			t.Errorf("close the journal: %v", err)
		}
	})
}

func (f *fixture) shard(t *testing.T, topic *cluster.Topic, p int32) *Shard {
	t.Helper()
	s, err := f.b.Shard(topic, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// batch builds one uncompressed or compressed batch with a record per value, at the fixture's time.
func (f *fixture) batch(t *testing.T, codec recordbatch.Codec, values ...string) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{Codec: codec, LeaderEpoch: -1})
	for _, v := range values {
		b.Append(f.now.UnixMilli(), []byte("k"), []byte(v))
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (f *fixture) append(t *testing.T, s *Shard, values ...string) AppendResult {
	t.Helper()
	res, err := s.Append(AppendInput{Records: f.batch(t, recordbatch.CodecNone, values...), ZstdAllowed: true})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// values reads a shard from an offset to its high watermark.
func values(t *testing.T, s *Shard, from ids.Offset) []string {
	t.Helper()
	chunks, _, err := s.Read(from, 1<<20, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range chunks {
		for rest := c.Data; len(rest) > 0; {
			h, one, next, err := recordbatch.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			records, err := recordbatch.Open(nil, h, one, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			it := recordbatch.Records(h, records)
			for it.Next() {
				if it.Record.Offset >= int64(from) {
					out = append(out, string(it.Record.Value))
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
			rest = next
		}
		c.Ref.Release()
	}
	return out
}

func TestAppendAndReadAcrossReopening(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	topic := f.meta.topic(t, "orders", 2, nil)
	s := f.shard(t, topic, 1)
	if res := f.append(t, s, "a", "b"); res.Base != 0 || res.Next != 2 || res.AppendTime != -1 || res.Records != 2 {
		t.Errorf("first append = %+v", res)
	}
	if res := f.append(t, s, "c"); res.Base != 2 {
		t.Errorf("second append at %d, want 2", res.Base)
	}
	if got := values(t, s, 1); len(got) != 2 || got[0] != "b" {
		t.Errorf("read %q", got)
	}
	image := f.fs.ProcessKillImage()
	g := &fixture{meta: f.meta, now: f.now}
	g.open(t, image, log.SyncPeriodic)
	if got := values(t, g.shard(t, topic, 1), 0); len(got) != 3 {
		t.Errorf("after a kill read %q, want three records", got)
	}
}

func TestOnCommitWaitsForTheSync(t *testing.T) {
	f := newFixture(t, log.SyncOnCommit)
	s := f.shard(t, f.meta.topic(t, "orders", 1, nil), 0)
	res := f.append(t, s, "a")
	done := make(chan error, 1)
	w := &Waiter{Until: res.Next, Notify: func(err error) { done <- err }}
	waiting, err := s.Wait(w)
	if err != nil {
		t.Fatal(err)
	}
	if waiting {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if b := s.Bounds(); b.HighWatermark != 1 {
		t.Errorf("high watermark %d, want 1", b.HighWatermark)
	}
}

func TestTopicSettingsAreHonoured(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	s := f.shard(t, f.meta.topic(t, "stamped", 1, map[string]string{"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"}), 0)
	f.now = f.now.Add(time.Hour)
	res, err := s.Append(AppendInput{Records: f.batch(t, recordbatch.CodecGzip, "x")})
	if err != nil {
		t.Fatal(err)
	}
	if res.AppendTime != f.now.UnixMilli() {
		t.Errorf("append time %d, want %d", res.AppendTime, f.now.UnixMilli())
	}
	chunks, _, err := s.Read(0, 1<<20, true, nil)
	if err != nil || len(chunks) != 1 {
		t.Fatalf("read: %d chunks, %v", len(chunks), err)
	}
	h, err := recordbatch.ParseHeader(chunks[0].Data)
	if err != nil || h.Codec() != recordbatch.CodecZstd || !h.LogAppendTime() || h.MaxTimestamp != f.now.UnixMilli() {
		t.Errorf("stored header %+v, %v: want zstd, LogAppendTime, the broker's time", h, err)
	}
	if err := recordbatch.CheckCRC(chunks[0].Data); err != nil {
		t.Error(err)
	}
	chunks[0].Ref.Release()

	tests := []struct {
		name      string
		overrides map[string]string
		in        AppendInput
		want      errcode.Kind
	}{
		{"too large", map[string]string{"max.message.bytes": "100"}, AppendInput{Records: f.batch(t, recordbatch.CodecNone, string(make([]byte, 200)))}, errcode.BatchTooLarge},
		{"too new", nil, AppendInput{Records: func() []byte {
			late := *f
			late.now = f.now.Add(2 * time.Hour)
			return late.batch(t, recordbatch.CodecNone, "x")
		}()}, errcode.InvalidTimestamp},
		{"min isr", map[string]string{"min.insync.replicas": "2"}, AppendInput{Records: f.batch(t, recordbatch.CodecNone, "x"), RequireAll: true}, errcode.NotEnoughReplicas},
		{"zstd too early", nil, AppendInput{Records: f.batch(t, recordbatch.CodecZstd, "x")}, errcode.UnsupportedCodec},
		{"no key", map[string]string{"cleanup.policy": "compact"}, AppendInput{Records: func() []byte {
			b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{Codec: recordbatch.CodecLZ4})
			b.Append(f.now.UnixMilli(), nil, []byte("v"))
			out, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return out
		}()}, errcode.InvalidRecord},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := f.shard(t, f.meta.topic(t, string(rune('a'+i))+"topic", 1, tc.overrides), 0)
			if _, err := s.Append(tc.in); errcode.Of(err) != tc.want {
				t.Errorf("append: %v (%v), want %v", err, errcode.Of(err), tc.want)
			}
			if b := s.Bounds(); b.End != 0 {
				t.Errorf("log end %d after a refusal, want 0", b.End)
			}
		})
	}
}

func TestDeletionEndsWaitersAndRemovesFiles(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	topic := f.meta.topic(t, "orders", 1, nil)
	s := f.shard(t, topic, 0)
	f.append(t, s, "a")
	told := make(chan error, 1)
	if waiting, err := s.Wait(&Waiter{Until: 2, Notify: func(err error) { told <- err }}); !waiting || err != nil {
		t.Fatalf("wait: %v, %v", waiting, err)
	}
	f.meta.change(func(b *cluster.Builder) { b.DeleteTopic(topic); b.Remember([]ids.TopicID{topic.ID}) })
	f.b.apply()
	if err := <-told; errcode.Of(err) != errcode.UnknownShard {
		t.Errorf("waiter told %v, want unknown shard", err)
	}
	if _, err := f.fs.Stat(f.b.topicDir(topic.ID)); err == nil {
		t.Error("the topic's directory is still there")
	}
	if _, err := s.Append(AppendInput{Records: f.batch(t, recordbatch.CodecNone, "b")}); errcode.Of(err) != errcode.UnknownShard {
		t.Errorf("append after deletion: %v, want unknown shard", err)
	}
	// Looking it up through an image of before finds nothing and makes nothing.
	if _, err := f.b.Shard(topic, 0); errcode.Of(err) != errcode.UnknownShard {
		t.Errorf("stale look-up: %v, want unknown shard", err)
	}
}

func TestLeadershipFromTheImage(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	topic := f.meta.topic(t, "orders", 1, nil)
	s := f.shard(t, topic, 0)
	f.append(t, s, "a")
	move := func(leader ids.BrokerID, epoch ids.LeaderEpoch) *cluster.Topic {
		moved := topic.Clone()
		moved.Partitions = []cluster.Partition{{Leader: leader, Epoch: epoch, Replicas: []ids.BrokerID{leader}}}
		f.meta.change(func(b *cluster.Builder) {
			if err := b.PutTopic(moved); err != nil {
				t.Fatal(err)
			}
		})
		f.b.apply()
		return f.meta.Image().TopicByID(topic.ID)
	}
	now := move(7, 4)
	var notLeader *errcode.NotLeaderError
	if _, err := f.b.Shard(now, 0); !errors.As(err, &notLeader) || notLeader.Leader != 7 || notLeader.Epoch != 4 {
		t.Errorf("shard led elsewhere: %v", err)
	}
	if _, err := s.Append(AppendInput{Records: f.batch(t, recordbatch.CodecNone, "b")}); !errors.As(err, &notLeader) || notLeader.Leader != 7 {
		t.Errorf("append after resigning: %v", err)
	}
	now = move(self, 5)
	s = f.shard(t, now, 0)
	if res := f.append(t, s, "b"); res.Base != 1 {
		t.Errorf("append at %d, want 1", res.Base)
	}
	if got := s.EpochAt(1); got != 5 {
		t.Errorf("leader epoch of offset 1 is %d, want 5", got)
	}
	if e, end := s.EndOfEpoch(0); e != 0 || end != 1 {
		t.Errorf("end of leader epoch 0 = %d, %d, want 0, 1", e, end)
	}
	for known, want := range map[ids.LeaderEpoch]errcode.Kind{-1: errcode.OK, 5: errcode.OK, 4: errcode.FencedEpoch, 6: errcode.UnknownEpoch} {
		if got := errcode.Of(s.CheckEpoch(known)); got != want {
			t.Errorf("CheckEpoch(%d) = %v, want %v", known, got, want)
		}
	}
}

func TestDeleteRecords(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	s := f.shard(t, f.meta.topic(t, "orders", 1, nil), 0)
	f.append(t, s, "a", "b", "c")
	var outOfRange *errcode.RangeError
	if _, err := s.DeleteRecords(t.Context(), 4); !errors.As(err, &outOfRange) {
		t.Errorf("past the high watermark: %v", err)
	}
	if start, err := s.DeleteRecords(t.Context(), 2); err != nil || start != 2 {
		t.Errorf("DeleteRecords(2) = %d, %v", start, err)
	}
	if start, err := s.DeleteRecords(t.Context(), 1); err != nil || start != 2 {
		t.Errorf("DeleteRecords(1) = %d, %v, want the start unmoved", start, err)
	}
	if _, _, err := s.Read(1, 1<<20, true, nil); !errors.As(err, &outOfRange) || !outOfRange.TooOld() {
		t.Errorf("read below the start: %v", err)
	}
	if start, err := s.DeleteRecords(t.Context(), ids.NoOffset); err != nil || start != 3 {
		t.Errorf("DeleteRecords(-1) = %d, %v", start, err)
	}
	if b := s.Bounds(); b.Start != 3 || b.HighWatermark != 3 || b.LastStable != 3 || b.End != 3 {
		t.Errorf("bounds %+v, want all 3", b)
	}
}

func TestConcurrentOpensMeetOneLog(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	topic := f.meta.topic(t, "orders", 1, nil)
	var wg sync.WaitGroup
	got := make([]*Shard, 16)
	for i := range got {
		wg.Go(func() { got[i], _ = f.b.Shard(topic, 0) })
	}
	wg.Wait()
	for _, s := range got {
		if s == nil || s != got[0] {
			t.Fatal("two callers got two shards")
		}
	}
	if _, err := f.b.Shard(topic, 1); errcode.Of(err) != errcode.UnknownShard {
		t.Errorf("partition 1 of 1: %v", err)
	}
	if _, err := f.b.Shard(topic, -1); errcode.Of(err) != errcode.UnknownShard {
		t.Errorf("partition -1: %v", err)
	}
}

func TestOrphansAreKept(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	topic := f.meta.topic(t, "orders", 1, nil)
	f.append(t, f.shard(t, topic, 0), "a")
	image := f.fs.ProcessKillImage()
	for _, tc := range []struct {
		name       string
		remembered bool
		kept       bool
	}{{"unknown", false, true}, {"remembered as deleted", true, false}} {
		t.Run(tc.name, func(t *testing.T) {
			g := &fixture{meta: newStubMetadata(), now: f.now}
			if tc.remembered {
				g.meta.change(func(b *cluster.Builder) { b.Remember([]ids.TopicID{topic.ID}) })
			}
			g.open(t, image.ProcessKillImage(), log.SyncPeriodic)
			_, err := g.fs.Stat(g.b.topicDir(topic.ID))
			if kept := err == nil; kept != tc.kept {
				t.Errorf("kept = %v, want %v", kept, tc.kept)
			}
		})
	}
}

func TestAShardThatCannotBeOpenedIsTriedSeldom(t *testing.T) {
	f := newFixture(t, log.SyncPeriodic)
	topic := f.meta.topic(t, "orders", 1, nil)
	f.append(t, f.shard(t, topic, 0), "a")
	// A whole stop, so that the record counts as synced, and damage to it is no torn tail.
	if err := errors.Join(f.b.Close(t.Context()), f.shared.Journal.Close()); err != nil {
		t.Fatal(err)
	}
	image := f.fs.ProcessKillImage()
	file := f.b.shardDir(topic.Shard(0)) + "/00000000000000000000.log"
	overwrite := func(b []byte, at int64) {
		t.Helper()
		h, err := image.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if _, err := h.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	var magic [1]byte
	h, err := image.OpenFile(file, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.ReadAt(magic[:], 0); err != nil {
		t.Fatal(err)
	}
	_ = h.Close()
	overwrite([]byte{^magic[0]}, 0)

	g := &fixture{meta: f.meta, now: f.now}
	g.open(t, image, log.SyncPeriodic)
	failed := func() float64 {
		var m dto.Metric
		if err := g.b.metrics.shardsFailed.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetGauge().GetValue()
	}
	_, first := g.b.Shard(topic, 0)
	if errcode.Of(first) != errcode.StorageFailed || failed() != 1 {
		t.Fatalf("opening damaged files: %v, %v shards failed", first, failed())
	}
	overwrite(magic[:], 0) // mended, but it is too soon to look
	if _, again := g.b.Shard(topic, 0); !errors.Is(again, first) {
		t.Errorf("second try: %v, want the same error without a look", again)
	}
	g.now = g.now.Add(openRetry)
	if got := values(t, g.shard(t, topic, 0), 0); len(got) != 1 || failed() != 0 {
		t.Errorf("after the mending: %q, %v shards failed", got, failed())
	}
}
