package kafkaproto

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/controller/storetest"
	"github.com/felixlog/felix/internal/buf"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/journal"
	"github.com/felixlog/felix/log/recordbatch"
)

// realHarness is a server over a real broker and a real state machine, on a file system in memory.
type realHarness struct {
	*harness
	b    *broker.Broker
	meta *controller.Controller
	self int32
	*client
}

// rights are what a caller may do, by "action namespace/stream".
type rights map[string]bool

func (r rights) Allowed(a broker.Action, namespace, stream string) bool {
	return r[a.String()+" "+namespace+"/"+stream]
}

func newRealHarness(t *testing.T, change func(*Options)) *realHarness {
	t.Helper()
	meta, err := controller.Open(t.Context(), controller.Options{Store: storetest.OpenMemory})
	if err != nil {
		t.Fatal(err)
	}
	res, err := meta.Propose(t.Context(), cluster.RegisterNode{ID: "n", KafkaHost: "127.0.0.1", KafkaPort: 9092})
	if err != nil || res.Err != nil {
		t.Fatal(err, res.Err)
	}
	fs := vfs.NewMem()
	j, err := journal.Open(fs, "data/journal", journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	syncer := log.NewSyncer(log.SyncPeriodic, time.Millisecond, 1)
	syncer.Start()
	b, err := broker.New(broker.Options{
		Metadata: meta, Self: res.Node.Broker, Dir: "data/shards", AutoCreateNamespaces: true, DefaultPartitions: 2,
		Shared: &log.Shared{FS: fs, Journal: j, Syncer: syncer, Pool: buf.NewPool(1 << 20), Now: time.Now},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Broker: b, Pool: buf.NewPool(64 << 20), AutoCreate: true, Registerer: prometheus.NewRegistry(),
		Anonymous: &Caller{Tenant: "default", Principal: "anonymous"},
	}
	if change != nil {
		change(&opts)
	}
	srv, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
		if err := errors.Join(b.Close(ctx), meta.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
		syncer.Close()
		if err := j.Close(); err != nil {
			t.Errorf("close the journal: %v", err)
		}
	})
	h := &harness{t: t, srv: srv, addr: ln.Addr().String()}
	return &realHarness{harness: h, b: b, meta: meta, self: int32(res.Node.Broker), client: h.dial()}
}

// make creates topics with a number of partitions each, through the broker.
func (h *realHarness) make(partitions int32, streams ...string) {
	h.harness.t.Helper()
	for _, s := range streams {
		namespace, stream, err := h.srv.names.split(s)
		if err != nil {
			h.harness.t.Fatal(err)
		}
		res := h.b.CreateTopics(h.harness.t.Context(), &Caller{Tenant: "default"},
			[]broker.NewTopic{{Namespace: namespace, Stream: stream, Partitions: partitions, ReplicationFactor: 1}}, false)
		if res[0].Err != nil {
			h.harness.t.Fatal(res[0].Err)
		}
	}
}

func (h *realHarness) find(name string) *cluster.Topic {
	namespace, stream, _ := h.srv.names.split(name)
	return h.b.Image().Topic("default", namespace, stream)
}

// write appends one batch with the given record timestamps (milliseconds) and waits until it is committed.
func (h *realHarness) write(topic string, partition int32, producer *recordbatch.Producer, timestamps ...int64) {
	h.harness.t.Helper()
	s, err := h.b.Shard(h.find(topic), partition)
	if err != nil {
		h.harness.t.Fatal(err)
	}
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{LeaderEpoch: -1, Producer: producer})
	for i, ts := range timestamps {
		b.Append(ts, fmt.Appendf(nil, "k%d", i), []byte("value"))
	}
	batch, err := b.Build()
	if err != nil {
		h.harness.t.Fatal(err)
	}
	res, err := s.Append(broker.AppendInput{Records: batch})
	if err != nil {
		h.harness.t.Fatal(err)
	}
	if b := s.Bounds(); b.HighWatermark != res.Next {
		h.harness.t.Fatalf("high watermark %d after an append up to %d", b.HighWatermark, res.Next)
	}
}

// at returns req with its version set.
func at[R kmsg.Request](req R, version int16) R {
	req.SetVersion(version)
	return req
}

func plain(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// wantCode compares a wire code with a kind.
func wantCode(t *testing.T, what string, got int16, want errcode.Kind) {
	t.Helper()
	if got != want.Kafka() {
		t.Errorf("%s: error code %d, want %d (%v)", what, got, want.Kafka(), want)
	}
}

// only is a caller of tenant default with some rights.
func only(list ...string) func(*Options) {
	r := rights{}
	for _, s := range list {
		r[s] = true
	}
	return func(o *Options) { o.Anonymous = &Caller{Tenant: "default", Rights: r} }
}

// TestAdminAPIsAnswerEveryVersion sends an empty request of each API in each served version: the answer must decode and no connection drop.
func TestAdminAPIsAnswerEveryVersion(t *testing.T) {
	h := newRealHarness(t, nil)
	for _, a := range adminAPIs() {
		for v := a.min; v <= a.max; v++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			if p, ok := req.(*kmsg.InitProducerIDRequest); ok {
				p.ProducerID, p.ProducerEpoch = -1, -1
			}
			if resp := h.ask(req); resp.GetVersion() != v {
				t.Errorf("%s %d is answered in version %d", a.name, v, resp.GetVersion())
			}
		}
	}
}

func TestListOffsets(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(3, "t")
	now := time.Now().UnixMilli()
	h.write("t", 0, nil, now-50, now-10, now-30) // offsets 0 to 2
	h.write("t", 0, nil, now-20, now-10)         // 3, 4
	s, err := h.b.Shard(h.find("t"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteRecords(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ask := func(version int16, topic string, partition, epoch int32, ts int64) kmsg.ListOffsetsResponseTopicPartition {
		t.Helper()
		req := at(kmsg.NewPtrListOffsetsRequest(), version)
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = partition, ts, epoch
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp := h.ask(req).(*kmsg.ListOffsetsResponse)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != partition {
			t.Fatalf("answer %+v", resp)
		}
		return resp.Topics[0].Partitions[0]
	}
	for _, c := range []struct {
		name      string
		version   int16
		partition int32
		epoch     int32
		ts        int64
		offset    int64
		timestamp int64
		leader    int32
		kind      errcode.Kind
	}{
		{"latest", 11, 0, -1, -1, 5, -1, 0, errcode.OK},
		{"earliest", 11, 0, -1, -2, 1, -1, 0, errcode.OK},
		{"old_version", 1, 0, -1, -1, 5, -1, -1, errcode.OK},
		{"max", 7, 0, -1, -3, 1, now - 10, 0, errcode.OK},
		{"local", 8, 0, -1, -4, 1, -1, 0, errcode.OK},
		{"tiered", 9, 0, -1, -5, -1, -1, -1, errcode.OK},
		{"pending", 11, 0, -1, -6, -1, -1, -1, errcode.OK},
		{"by_time", 11, 0, -1, now - 25, 1, now - 10, 0, errcode.OK},
		{"by_time_past_all", 11, 0, -1, now, -1, -1, -1, errcode.OK},
		{"empty_latest", 11, 1, -1, -1, 0, -1, 0, errcode.OK},
		{"empty_earliest", 11, 1, -1, -2, 0, -1, 0, errcode.OK},
		{"empty_max", 11, 1, -1, -3, -1, -1, -1, errcode.OK},
		{"empty_by_time", 11, 1, -1, 0, -1, -1, -1, errcode.OK},
		{"max_too_early", 6, 0, -1, -3, -1, -1, -1, errcode.UnsupportedVersion},
		{"local_too_early", 7, 0, -1, -4, -1, -1, -1, errcode.UnsupportedVersion},
		{"tiered_too_early", 8, 0, -1, -5, -1, -1, -1, errcode.UnsupportedVersion},
		{"pending_too_early", 10, 0, -1, -6, -1, -1, -1, errcode.UnsupportedVersion},
		{"undefined", 11, 0, -1, -7, -1, -1, -1, errcode.UnsupportedVersion},
		{"epoch_current", 11, 0, 0, -1, 5, -1, 0, errcode.OK},
		{"epoch_newer", 11, 0, 1, -1, -1, -1, -1, errcode.UnknownEpoch},
		{"no_partition", 11, 3, -1, -1, -1, -1, -1, errcode.UnknownShard},
		{"negative_partition", 11, -1, -1, -1, -1, -1, -1, errcode.UnknownShard},
	} {
		p := ask(c.version, "t", c.partition, c.epoch, c.ts)
		wantCode(t, c.name, p.ErrorCode, c.kind)
		if p.Offset != c.offset || p.Timestamp != c.timestamp || p.LeaderEpoch != c.leader {
			t.Errorf("%s: offset %d, timestamp %d, epoch %d, want %d, %d, %d", c.name, p.Offset, p.Timestamp, p.LeaderEpoch, c.offset, c.timestamp, c.leader)
		}
	}
	wantCode(t, "unknown topic", ask(11, "none", 0, -1, -1).ErrorCode, errcode.UnknownShard)
	wantCode(t, "illegal name", ask(11, "a b", 0, -1, -1).ErrorCode, errcode.UnknownShard)

	req := at(kmsg.NewPtrListOffsetsRequest(), 5)
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = "t"
	for _, p := range []int32{0, 1, 0} {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	parts := h.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions
	for i, want := range []errcode.Kind{errcode.InvalidRequest, errcode.OK, errcode.InvalidRequest} {
		wantCode(t, fmt.Sprint("duplicate, entry ", i), parts[i].ErrorCode, want)
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(1, "t")
	h.write("t", 0, nil, 1, 2, 3)
	if res, err := h.meta.Propose(t.Context(), cluster.RegisterNode{ID: "n", KafkaHost: "127.0.0.1", KafkaPort: 9092}); err != nil || res.Err != nil {
		t.Fatal(err, res.Err)
	}
	eventually(t, "the new leader epoch", func() bool {
		s, err := h.b.Shard(h.find("t"), 0)
		return err == nil && s.Bounds().Epoch == 1
	})
	h.write("t", 0, nil, 4, 5)
	for _, c := range []struct {
		name               string
		partition          int32
		current, requested int32
		epoch              int32
		end                int64
		kind               errcode.Kind
	}{
		{"current", 0, 1, 1, 1, 5, errcode.OK},
		{"older", 0, 1, 0, 0, 3, errcode.OK},
		{"newer", 0, -1, 2, -1, -1, errcode.OK},
		{"fenced", 0, 0, 0, -1, -1, errcode.FencedEpoch},
		{"unknown", 0, 2, 1, -1, -1, errcode.UnknownEpoch},
		{"no_partition", 1, -1, 0, -1, -1, errcode.UnknownShard},
	} {
		for v := int16(2); v <= 4; v++ {
			req := at(kmsg.NewPtrOffsetForLeaderEpochRequest(), v)
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = "t"
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = c.partition, c.current, c.requested
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			p := h.ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			wantCode(t, c.name, p.ErrorCode, c.kind)
			if p.LeaderEpoch != c.epoch || p.EndOffset != c.end || p.Partition != c.partition {
				t.Errorf("%s: epoch %d ends at %d, want %d, %d", c.name, p.LeaderEpoch, p.EndOffset, c.epoch, c.end)
			}
		}
	}
}

func TestInitProducerID(t *testing.T) {
	h := newRealHarness(t, nil)
	seen := map[int64]bool{}
	for v := int16(0); v <= 5; v++ {
		resp := h.ask(at(kmsg.NewPtrInitProducerIDRequest(), v)).(*kmsg.InitProducerIDResponse)
		if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 || seen[resp.ProducerID] {
			t.Errorf("version %d: %+v", v, resp)
		}
		seen[resp.ProducerID] = true
	}
	empty, txn := "", "txn"
	for _, c := range []struct {
		name  string
		txn   *string
		id    int64
		epoch int16
		kind  errcode.Kind
	}{
		{"ignored", nil, 7, 3, errcode.OK},
		{"empty_txn", &empty, -1, -1, errcode.InvalidRequest},
		{"txn", &txn, -1, -1, errcode.UnauthorizedTransactionalID},
		{"id_alone", nil, 7, -1, errcode.InvalidRequest},
		{"epoch_alone", nil, -1, 7, errcode.InvalidRequest},
	} {
		req := at(kmsg.NewPtrInitProducerIDRequest(), 4)
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = c.txn, c.id, c.epoch
		resp := h.ask(req).(*kmsg.InitProducerIDResponse)
		wantCode(t, c.name, resp.ErrorCode, c.kind)
		if c.kind == errcode.OK && (resp.ProducerEpoch != 0 || seen[resp.ProducerID]) || c.kind != errcode.OK && (resp.ProducerID != -1 || resp.ProducerEpoch != -1) {
			t.Errorf("%s: id %d, epoch %d", c.name, resp.ProducerID, resp.ProducerEpoch)
		}
	}
}

func TestFindCoordinatorRefusesReadably(t *testing.T) {
	h := newRealHarness(t, nil)
	for v := int16(0); v <= 6; v++ {
		for keyType, want := range map[int8]errcode.Kind{0: errcode.UnauthorizedGroup, 1: errcode.UnauthorizedTransactionalID, 9: errcode.InvalidRequest} {
			if v == 0 && keyType != 0 {
				continue
			}
			req := at(kmsg.NewPtrFindCoordinatorRequest(), v)
			req.CoordinatorKey, req.CoordinatorKeys, req.CoordinatorType = "g", []string{"g", "h"}, keyType
			resp := h.ask(req).(*kmsg.FindCoordinatorResponse)
			list := resp.Coordinators
			if v < 4 {
				list = []kmsg.FindCoordinatorResponseCoordinator{{ErrorCode: resp.ErrorCode, ErrorMessage: resp.ErrorMessage, NodeID: resp.NodeID, Port: resp.Port}}
			} else if len(list) != 2 || list[0].Key != "g" || list[1].Key != "h" {
				t.Errorf("version %d answers %+v", v, list)
			}
			for _, c := range list {
				wantCode(t, fmt.Sprintf("version %d, type %d", v, keyType), c.ErrorCode, want)
				if c.NodeID != -1 || c.Port != -1 || v >= 1 && plain(c.ErrorMessage) == "" {
					t.Errorf("version %d: %+v", v, c)
				}
			}
		}
	}
}

func TestDeleteRecords(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(2, "t", "compacted")
	h.b.AlterTopicConfigs(t.Context(), &Caller{Tenant: "default"}, []broker.ConfigChanges{{
		Topic: broker.TopicName{Namespace: "default", Stream: "compacted"}, Changes: []cluster.ConfigChange{{Name: "cleanup.policy", Value: "compact"}},
	}}, false)
	h.write("t", 0, nil, 1, 2, 3, 4)
	ask := func(topic string, partition int32, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
		t.Helper()
		req := at(kmsg.NewPtrDeleteRecordsRequest(), 2)
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = partition, offset
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		return h.ask(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	}
	for _, c := range []struct {
		name      string
		topic     string
		partition int32
		offset    int64
		low       int64
		kind      errcode.Kind
	}{
		{"to_2", "t", 0, 2, 2, errcode.OK},
		{"lower_changes_nothing", "t", 0, 1, 2, errcode.OK},
		{"beyond", "t", 0, 5, -1, errcode.OffsetOutOfRange},
		{"negative", "t", 0, -2, -1, errcode.OffsetOutOfRange},
		{"high_watermark", "t", 0, -1, 4, errcode.OK},
		{"empty", "t", 1, -1, 0, errcode.OK},
		{"no_partition", "t", 2, 0, -1, errcode.UnknownShard},
		{"no_topic", "none", 0, 0, -1, errcode.UnknownShard},
		{"compacted", "compacted", 0, 0, -1, errcode.PolicyViolation},
	} {
		p := ask(c.topic, c.partition, c.offset)
		wantCode(t, c.name, p.ErrorCode, c.kind)
		if p.LowWatermark != c.low || p.Partition != c.partition {
			t.Errorf("%s: low watermark %d, want %d", c.name, p.LowWatermark, c.low)
		}
	}
}

func TestDescribeProducersAndLogDirs(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(2, "t", "n.u")
	h.write("t", 1, &recordbatch.Producer{ID: 7, Epoch: 2}, 100, 200)
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = "t", []int32{0, 1, 2}
	req.Topics = append(req.Topics, rt)
	parts := h.ask(req).(*kmsg.DescribeProducersResponse).Topics[0].Partitions
	if len(parts) != 3 || len(parts[0].ActiveProducers) != 0 || len(parts[1].ActiveProducers) != 1 {
		t.Fatalf("answer %+v", parts)
	}
	p := parts[1].ActiveProducers[0]
	if p.ProducerID != 7 || p.ProducerEpoch != 2 || p.LastSequence != 1 || p.LastTimestamp != 200 || p.CurrentTxnStartOffset != -1 || p.CoordinatorEpoch != -1 {
		t.Errorf("producer %+v", p)
	}
	wantCode(t, "no partition", parts[2].ErrorCode, errcode.UnknownShard)

	for v := int16(1); v <= 5; v++ {
		resp := h.ask(at(kmsg.NewPtrDescribeLogDirsRequest(), v)).(*kmsg.DescribeLogDirsResponse)
		if len(resp.Dirs) != 1 || len(resp.Dirs[0].Topics) != 2 || resp.Dirs[0].Dir == "" {
			t.Fatalf("version %d: %+v", v, resp)
		}
		for _, topic := range resp.Dirs[0].Topics {
			for _, p := range topic.Partitions {
				if written := topic.Topic == "t" && p.Partition == 1; (p.Size > 0) != written {
					t.Errorf("size of %s/%d is %d", topic.Topic, p.Partition, p.Size)
				}
			}
		}
	}
	some := at(kmsg.NewPtrDescribeLogDirsRequest(), 4)
	st := kmsg.NewDescribeLogDirsRequestTopic()
	st.Topic, st.Partitions = "t", []int32{1, 9}
	none := kmsg.NewDescribeLogDirsRequestTopic()
	none.Topic, none.Partitions = "none", []int32{0}
	some.Topics = append(some.Topics, st, none)
	dirs := h.ask(some).(*kmsg.DescribeLogDirsResponse).Dirs
	if len(dirs[0].Topics) != 1 || len(dirs[0].Topics[0].Partitions) != 1 || dirs[0].Topics[0].Partitions[0].Partition != 1 {
		t.Errorf("asked for one partition: %+v", dirs[0].Topics)
	}
}

func TestDescribeCluster(t *testing.T) {
	h := newRealHarness(t, nil)
	for v := int16(0); v <= 2; v++ {
		resp := h.ask(at(kmsg.NewPtrDescribeClusterRequest(), v)).(*kmsg.DescribeClusterResponse)
		if resp.ErrorCode != 0 || resp.ClusterID != h.b.Image().ClusterID() || resp.ControllerID != h.self || len(resp.Brokers) != 1 ||
			resp.Brokers[0].Host != "127.0.0.1" || resp.Brokers[0].Port != 9092 || resp.Brokers[0].NodeID != h.self {
			t.Errorf("version %d: %+v", v, resp)
		}
	}
	req := at(kmsg.NewPtrDescribeClusterRequest(), 1)
	req.EndpointType = 2
	wantCode(t, "controllers", h.ask(req).(*kmsg.DescribeClusterResponse).ErrorCode, errcode.MismatchedEndpointType)
	req = at(kmsg.NewPtrDescribeClusterRequest(), 1)
	req.IncludeClusterAuthorizedOperations = true
	if ops := h.ask(req).(*kmsg.DescribeClusterResponse).ClusterAuthorizedOperations; ops != clusterOperations(&Caller{Tenant: "default"}) {
		t.Errorf("authorized operations %b", ops)
	}
}

func TestDescribeTopicPartitionsPages(t *testing.T) {
	h := newRealHarness(t, nil)
	h.make(3, "b", "a.x", "c")
	type part struct {
		topic string
		p     int32
	}
	var got []part
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	pages := 0
	for {
		resp := h.ask(req).(*kmsg.DescribeTopicPartitionsResponse)
		pages++
		n := 0
		for _, topic := range resp.Topics {
			wantCode(t, plain(topic.Topic), topic.ErrorCode, errcode.OK)
			if ids.TopicID(topic.TopicID) != h.find(*topic.Topic).ID || topic.AuthorizedOperations == 0 {
				t.Errorf("topic %+v", topic)
			}
			for _, p := range topic.Partitions {
				n++
				got = append(got, part{*topic.Topic, p.Partition})
				if p.LeaderID != h.self || len(p.Replicas) != 1 || len(p.ISR) != 1 || p.EligibleLeaderReplicas == nil {
					t.Errorf("partition %+v", p)
				}
			}
		}
		if n > 2 {
			t.Errorf("a page has %d partitions", n)
		}
		if resp.NextCursor == nil || pages > 20 {
			break
		}
		cur := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cur.Topic, cur.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &cur
	}
	want := []part{{"a.x", 0}, {"a.x", 1}, {"a.x", 2}, {"b", 0}, {"b", 1}, {"b", 2}, {"c", 0}, {"c", 1}, {"c", 2}}
	if fmt.Sprint(got) != fmt.Sprint(want) || pages != 5 {
		t.Errorf("%d pages with %v, want 5 with %v", pages, got, want)
	}
	req = kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range []string{"none", "b", "a b", "b"} {
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = name
		req.Topics = append(req.Topics, rt)
	}
	req.ResponsePartitionLimit = 100
	named := h.ask(req).(*kmsg.DescribeTopicPartitionsResponse).Topics
	if len(named) != 3 {
		t.Fatalf("%d topics answered, want 3: %+v", len(named), named)
	}
	for i, want := range []struct {
		name string
		kind errcode.Kind
	}{{"a b", errcode.InvalidTopic}, {"b", errcode.OK}, {"none", errcode.UnknownShard}} {
		if plain(named[i].Topic) != want.name {
			t.Errorf("topic %d is %s, want %s", i, plain(named[i].Topic), want.name)
		}
		wantCode(t, want.name, named[i].ErrorCode, want.kind)
	}
	cur := kmsg.NewDescribeTopicPartitionsRequestCursor()
	cur.Topic, cur.Partition = "b", -1
	req.Cursor = &cur
	wantCode(t, "negative cursor", h.ask(req).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].ErrorCode, errcode.InvalidRequest)
}
