package controller

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
)

func stream(n int, name string, change ...func(*cluster.NewStream)) cluster.NewStream {
	s := cluster.NewStream{
		TopicRef: cluster.TopicRef{ID: topicID(n), Tenant: "default", Namespace: "default", Name: name}, Shards: 2, ReplicationFactor: 1,
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

// conflict is the code of a ConflictError, "" for everything else.
func conflict(err error) string {
	var c *cluster.ConflictError
	if errors.As(err, &c) {
		return c.Code
	}
	return ""
}

func TestCreateStreamChecks(t *testing.T) {
	s := testState(t)
	if res := s.next(cluster.CreateStreams{Streams: []cluster.NewStream{stream(1, "have")}}); res.Items[0].Err != nil {
		t.Fatal(res.Items[0].Err)
	}
	for _, c := range []struct {
		name string
		n    cluster.NewStream
		kind errcode.Kind
	}{
		{"bad_name", stream(2, "a b"), errcode.InvalidTopic},
		{"dot_dot", stream(2, ".."), errcode.InvalidTopic},
		{"long_name", stream(2, strings.Repeat("x", 250)), errcode.InvalidTopic},
		{"long_with_namespace", stream(2, strings.Repeat("x", 240), func(n *cluster.NewStream) { n.Namespace = "namespace0" }), errcode.InvalidTopic},
		{"bad_namespace", stream(2, "s", func(n *cluster.NewStream) { n.Namespace = "-" }), errcode.InvalidTopic},
		{"no_shards", stream(2, "s", func(n *cluster.NewStream) { n.Shards = 0 }), errcode.InvalidPartitions},
		{"too_many_shards", stream(2, "s", func(n *cluster.NewStream) { n.Shards = 1025 }), errcode.InvalidPartitions},
		{"no_replicas", stream(2, "s", func(n *cluster.NewStream) { n.ReplicationFactor = 0 }), errcode.InvalidReplicationFactor},
		{"eight_replicas", stream(2, "s", func(n *cluster.NewStream) { n.ReplicationFactor = 8 }), errcode.InvalidReplicationFactor},
		{"three_of_two", stream(2, "s", func(n *cluster.NewStream) { n.ReplicationFactor = 3 }), errcode.InvalidReplicationFactor},
		{"negative_age", stream(2, "s", func(n *cluster.NewStream) { n.Retention.Ms = -1 }), errcode.InvalidRequest},
		{"negative_size", stream(2, "s", func(n *cluster.NewStream) { n.Retention.Bytes = -1 }), errcode.InvalidRequest},
		{"long_region", stream(2, "s", func(n *cluster.NewStream) { n.Region = strings.Repeat("r", 129) }), errcode.InvalidRequest},
		{"no_such_kind", stream(2, "s", func(n *cluster.NewStream) { n.Kind = 2 }), errcode.Internal},
		{"no_namespace", stream(2, "s", func(n *cluster.NewStream) { n.Namespace = "other" }), errcode.ResourceNotFound},
		{"no_tenant", stream(2, "s", func(n *cluster.NewStream) { n.Tenant = "nobody" }), errcode.ResourceNotFound},
		{"used_id", stream(1, "s"), errcode.Internal},
		{"exists_otherwise", stream(2, "have", func(n *cluster.NewStream) { n.Shards = 3 }), errcode.TopicExists},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, version := EncodeSnapshot(s.image), s.image.Version()
			res := s.next(cluster.CreateStreams{Streams: []cluster.NewStream{stream(9, "first"), c.n, stream(1, "have")}})
			if got := errcode.Of(res.Items[1].Err); got != c.kind {
				t.Errorf("%v (%v), want %v", res.Items[1].Err, got, c.kind)
			}
			if errcode.Of(res.Items[0].Err) != errcode.OperationNotAttempted || res.Items[0].Topic != nil || !res.Items[2].Unchanged {
				t.Errorf("the others: %+v, %+v", res.Items[0], res.Items[2])
			}
			s.image = rebuilt(s.image, version)
			if !bytes.Equal(EncodeSnapshot(s.image), before) {
				t.Error("a refused creation left something behind")
			}
		})
	}
	many := make([]cluster.NewStream, cluster.MaxCreateStreams+1)
	for i := range many {
		many[i] = stream(100+i, fmt.Sprint("m", i))
	}
	if res := s.next(cluster.CreateStreams{Streams: many}); errcode.Of(res.Err) != errcode.InvalidRequest {
		t.Errorf("one stream too many: %v", res.Err)
	}
	if res := s.next(cluster.CreateStreams{Streams: many[1:]}); res.Err != nil || res.Items[255].Err != nil {
		t.Errorf("as many as are allowed: %v", res.Err)
	}
}

func TestCreateStreams(t *testing.T) {
	s := testState(t)
	full := stream(2, "full", func(n *cluster.NewStream) {
		n.Kind, n.Delivery, n.Routing, n.Region = cluster.KindQueue, cluster.AtMostOnce, cluster.RoutingJumpHash, "eu"
		n.Durable, n.Consistency, n.ReplicationFactor = true, cluster.ConsistencyQuorum, 2
		n.Retention = cluster.Retention{Ms: 5000, Bytes: 1 << 20}
	})
	res := s.next(cluster.CreateStreams{Streams: []cluster.NewStream{stream(1, "plain"), full}})
	if res.Err != nil || res.Items[0].Err != nil || res.Items[1].Err != nil {
		t.Fatal(res)
	}
	plain := s.image.Topic("default", "default", "plain")
	if plain.Durable || plain.MadeByKafka || plain.Consistency != cluster.ConsistencyLeader || len(plain.Partitions) != 2 || plain.Retention() != (cluster.Retention{}) {
		t.Errorf("plain: %+v", plain)
	}
	got := s.image.Topic("default", "default", "full")
	if got.Kind != cluster.KindQueue || got.Delivery != cluster.AtMostOnce || got.Routing != cluster.RoutingJumpHash || got.Region != "eu" || !got.Durable ||
		got.Consistency != cluster.ConsistencyQuorum || got.Config.RetentionMs != 5000 || got.Config.RetentionBytes != 1<<20 || got.ReplicationFactor() != 2 {
		t.Errorf("full: %+v", got)
	}
	if res.Items[1].Topic != got || res.Items[1].Unchanged {
		t.Errorf("result %+v", res.Items[1])
	}

	with := func(change func(*cluster.NewStream)) cluster.NewStream {
		n := full
		n.ID = topicID(3)
		change(&n)
		return n
	}
	for name, c := range map[string]struct {
		n    cluster.NewStream
		same bool
	}{
		"same":              {with(func(*cluster.NewStream) {}), true},
		"routing_not_named": {with(func(n *cluster.NewStream) { n.Routing, n.AnyRouting = cluster.RoutingModulo, true }), true},
		"routing":           {with(func(n *cluster.NewStream) { n.Routing = cluster.RoutingModulo }), false},
		"kind":              {with(func(n *cluster.NewStream) { n.Kind = cluster.KindStream }), false},
		"shards":            {with(func(n *cluster.NewStream) { n.Shards = 4 }), false},
		"factor":            {with(func(n *cluster.NewStream) { n.ReplicationFactor = 1 }), false},
		"durable":           {with(func(n *cluster.NewStream) { n.Durable = false }), false},
		"consistency":       {with(func(n *cluster.NewStream) { n.Consistency = cluster.ConsistencyDefault }), false},
		"delivery":          {with(func(n *cluster.NewStream) { n.Delivery = cluster.AtLeastOnce }), false},
		"age":               {with(func(n *cluster.NewStream) { n.Retention.Ms = 5001 }), false},
		"size":              {with(func(n *cluster.NewStream) { n.Retention.Bytes = 0 }), false},
		"region":            {with(func(n *cluster.NewStream) { n.Region = "" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			item := s.next(cluster.CreateStreams{Streams: []cluster.NewStream{c.n}}).Items[0]
			if c.same && (item.Err != nil || !item.Unchanged || item.Topic.ID != topicID(2)) {
				t.Errorf("%+v, want the stream as it was", item)
			}
			if !c.same && conflict(item.Err) != cluster.ConflictExists {
				t.Errorf("%+v, want a conflict", item)
			}
		})
	}
	twice := s.next(cluster.CreateStreams{Streams: []cluster.NewStream{stream(4, "two"), stream(5, "two")}})
	if twice.Items[0].Err != nil || !twice.Items[1].Unchanged || s.image.Topic("default", "default", "two").ID != topicID(4) {
		t.Errorf("named twice: %+v", twice)
	}
	grow := s.next(cluster.CreatePartitions{Topics: []cluster.MorePartitions{{Topic: cluster.TopicRef{ID: topicID(1)}, Count: 9}}})
	if errcode.Of(grow.Items[0].Err) != errcode.InvalidPartitions {
		t.Errorf("a native stream grows: %v", grow.Items[0].Err)
	}
}

// TestStreamLevelIsOwn: a native stream of three replicas is not Quorum unless it says so, as a Kafka topic is.
func TestStreamLevelIsOwn(t *testing.T) {
	s := testState(t)
	s.next(cluster.RegisterNode{ID: "c", KafkaHost: "h", KafkaPort: 3})
	s.next(cluster.CreateStreams{Streams: []cluster.NewStream{stream(1, "s", func(n *cluster.NewStream) { n.ReplicationFactor = 3 })}})
	if got := s.image.TopicByID(topicID(1)).Consistency; got != cluster.ConsistencyLeader {
		t.Errorf("consistency %v, want leader", got)
	}
}

func TestUpdateStream(t *testing.T) {
	s := testState(t)
	s.next(cluster.CreateStreams{Streams: []cluster.NewStream{stream(1, "s", func(n *cluster.NewStream) {
		n.Durable, n.Retention = true, cluster.Retention{Ms: 5000, Bytes: 10}
	})}})
	ref := cluster.TopicRef{Tenant: "default", Namespace: "default", Name: "s"}
	yes, no, once := true, false, cluster.AtMostOnce
	bad := cluster.Delivery(9)
	for _, c := range []struct {
		name   string
		update cluster.UpdateStream
		kind   errcode.Kind
		code   string
		want   string // retention, consistency, delivery afterwards
	}{
		{"nothing", cluster.UpdateStream{Stream: ref}, errcode.OK, "", "5000/10 leader AtLeastOnce"},
		{"same_durable", cluster.UpdateStream{Stream: ref, Durable: &yes}, errcode.OK, "", "5000/10 leader AtLeastOnce"},
		{"durable", cluster.UpdateStream{Stream: ref, Durable: &no, Delivery: &once}, errcode.PolicyViolation, cluster.ConflictDurabilityFixed, "5000/10 leader AtLeastOnce"},
		{"negative", cluster.UpdateStream{Stream: ref, Retention: &cluster.Retention{Ms: -1}, Delivery: &once}, errcode.InvalidRequest, "", "5000/10 leader AtLeastOnce"},
		{"bad_delivery", cluster.UpdateStream{Stream: ref, Delivery: &bad}, errcode.Internal, "", "5000/10 leader AtLeastOnce"},
		{"delivery", cluster.UpdateStream{Stream: ref, Delivery: &once}, errcode.OK, "", "5000/10 leader AtMostOnce"},
		{"consistency", cluster.UpdateStream{Stream: ref, Consistency: cluster.ConsistencyQuorum}, errcode.OK, "", "5000/10 quorum AtMostOnce"},
		{"both_bounds", cluster.UpdateStream{Stream: ref, Retention: &cluster.Retention{Ms: 6000}}, errcode.OK, "", "6000/0 quorum AtMostOnce"},
		{"defaults", cluster.UpdateStream{Stream: ref, Retention: &cluster.Retention{}}, errcode.OK, "", "0/0 quorum AtMostOnce"},
		{"missing", cluster.UpdateStream{Stream: cluster.TopicRef{Tenant: "default", Namespace: "default", Name: "x"}}, errcode.UnknownShard, "", "0/0 quorum AtMostOnce"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := s.image.TopicByID(topicID(1))
			item := s.next(c.update).Items[0]
			if errcode.Of(item.Err) != c.kind || conflict(item.Err) != c.code {
				t.Errorf("%v, want %v %s", item.Err, c.kind, c.code)
			}
			now := s.image.TopicByID(topicID(1))
			if got := fmt.Sprintf("%d/%d %v %v", now.Retention().Ms, now.Retention().Bytes, now.Consistency, now.Delivery); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if item.Err == nil && (item.Topic != now || item.Unchanged != (now == before)) {
				t.Errorf("result %+v", item)
			}
		})
	}
}

func TestDeleteNamespaceAndTenant(t *testing.T) {
	s := testState(t)
	for _, cmd := range []cluster.Command{
		cluster.CreateTenant{Name: "t", Key: cluster.KeyFromSeed(seed(0))},
		cluster.CreateNamespace{Tenant: "t", Name: "a"},
		cluster.CreateNamespace{Tenant: "t", Name: "b"},
		cluster.CreateStreams{Streams: []cluster.NewStream{
			stream(1, "y", func(n *cluster.NewStream) { n.Tenant, n.Namespace = "t", "a" }),
			stream(2, "x", func(n *cluster.NewStream) { n.Tenant, n.Namespace = "t", "a" }),
			stream(3, "x", func(n *cluster.NewStream) { n.Tenant, n.Namespace = "t", "b" }),
			stream(4, "x"),
		}},
		cluster.SetClientQuotas{Changes: []cluster.QuotaChange{
			quotaOf("t", "u", cluster.RateChange{Rate: cluster.ProducerByteRate, Value: 1}),
			quotaOf("default", "u", cluster.RateChange{Rate: cluster.ProducerByteRate, Value: 1}),
		}},
	} {
		if res := s.next(cmd); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	before := s.image
	for _, cmd := range []cluster.Command{
		cluster.DeleteNamespace{Tenant: "t", Name: "none"}, cluster.DeleteNamespace{Tenant: "none", Name: "a"}, cluster.DeleteTenant{Name: "none"},
	} {
		if res := s.next(cmd); errcode.Of(res.Err) != errcode.ResourceNotFound {
			t.Errorf("%+v: %v, want ResourceNotFound", cmd, res.Err)
		}
	}
	if res := s.next(cluster.DeleteNamespace{Tenant: "t", Name: "a"}); res.Err != nil {
		t.Fatal(res.Err)
	}
	if got, want := s.image.Deleted(), []ids.TopicID{topicID(2), topicID(1)}; !cmp.Equal(got, want) {
		t.Errorf("remembered %v, want them in the order of their names, %v", got, want)
	}
	if s.image.Namespace("t", "a") != nil || s.image.Namespace("t", "b") == nil || s.image.TopicCount() != 2 || s.image.PartitionCount() != 4 {
		t.Errorf("%d topics with %d partitions are left", s.image.TopicCount(), s.image.PartitionCount())
	}
	if res := s.next(cluster.DeleteTenant{Name: "t"}); res.Err != nil {
		t.Fatal(res.Err)
	}
	if s.image.Tenant("t") != nil || len(s.image.Namespaces("t")) != 0 || s.image.TopicCount() != 1 || s.image.Quotas("t") != nil || !s.image.WasDeleted(topicID(3)) {
		t.Error("something of the tenant is left")
	}
	if s.image.Quotas("default") == nil || s.image.Namespace("default", "default") == nil || s.image.TopicByID(topicID(4)) == nil {
		t.Error("something of another tenant went too")
	}
	if before.Tenant("t") == nil || before.Quotas("t") == nil || before.Namespace("t", "a") == nil || before.TopicCount() != 4 {
		t.Error("an older image changed")
	}
	gone := map[ids.TopicID]bool{}
	cluster.Diff(before, s.image, func(old, now *cluster.Topic) { gone[old.ID] = now == nil })
	if want := (map[ids.TopicID]bool{topicID(1): true, topicID(2): true, topicID(3): true}); !cmp.Equal(gone, want) {
		t.Errorf("brokers are told that %v went, want %v", gone, want)
	}
	if res := s.next(cluster.CreateTenant{Name: "t"}); res.Err != nil || res.Unchanged || len(s.image.Tenant("t").Keys) != 0 {
		t.Errorf("made again: %+v", res)
	}
}
