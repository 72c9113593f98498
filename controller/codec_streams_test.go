package controller

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/cluster"
)

// seed is a signing key's, drawn from n.
func seed(n int) []byte {
	b := make([]byte, 32)
	binary.BigEndian.PutUint64(b[24:], uint64(n+1))
	return b
}

// streamSamples has the commands about native streams and signing keys, with every field used somewhere.
func streamSamples() []cluster.Command {
	delivery, durable, ephemeral := cluster.AtMostOnce, true, false
	ref := cluster.TopicRef{Tenant: "t", Namespace: "n", Name: "s"}
	return []cluster.Command{
		cluster.CreateTenant{Name: "t", DisplayName: "T", Key: cluster.KeyFromSeed(seed(0))},
		cluster.CreateNamespace{Tenant: "t", Name: "n", DisplayName: "N é"},
		cluster.CreateStreams{Streams: []cluster.NewStream{
			{TopicRef: cluster.TopicRef{ID: topicID(50), Tenant: "t", Namespace: "n", Name: "s"}, Shards: 3, ReplicationFactor: 1, AnyRouting: true},
			{
				TopicRef: cluster.TopicRef{ID: topicID(51), Tenant: "t", Namespace: "n", Name: "full"}, Kind: cluster.KindQueue, Shards: 2, ReplicationFactor: 1,
				Durable: true, Consistency: cluster.ConsistencyQuorum, Delivery: cluster.AtMostOnce,
				Retention: cluster.Retention{Ms: 60000, Bytes: 1 << 30}, Region: "eu", Routing: cluster.RoutingJumpHash,
			},
		}},
		cluster.UpdateStream{
			Stream: ref, Retention: &cluster.Retention{Ms: 1000}, Consistency: cluster.ConsistencyQuorum, Delivery: &delivery, Durable: &ephemeral,
		},
		cluster.UpdateStream{Stream: ref, Durable: &durable},
		cluster.UpdateStream{Stream: ref},
		cluster.PutSigningKey{Tenant: "t", Key: cluster.KeyFromSeed(seed(1))},
		cluster.PutSigningKey{Tenant: "t", Key: cluster.KeyFromSeed(seed(2))},
		cluster.ActivateSigningKey{Tenant: "t", ID: cluster.KeyFromSeed(seed(1)).ID},
		cluster.RetireSigningKey{Tenant: "t", ID: cluster.KeyFromSeed(seed(2)).ID},
		cluster.DeleteNamespace{Tenant: "default", Name: "n1"},
		cluster.DeleteTenant{Name: "gone"},
		cluster.DeleteTenant{Name: "gone before", Uncounted: true},
		cluster.Guarded{Tenant: "t", Incarnation: 300, Command: cluster.DeleteNamespace{Tenant: "t", Name: "n"}},
		cluster.Guarded{Tenant: "t", Command: cluster.CreateTopics{Topics: []cluster.NewTopic{{ID: topicID(9), Tenant: "t", Namespace: "n", Name: "guarded", Partitions: 1, ReplicationFactor: 1}}}},
	}
}

func randomStreamCommand(rng *rand.Rand, i int) cluster.Command {
	tenant := fmt.Sprint("tenant", rng.IntN(2))
	ns := fmt.Sprint("n", rng.IntN(3))
	key := cluster.KeyFromSeed(seed(rng.IntN(5)))
	stream := func(i int) cluster.NewStream {
		tenant := []string{tenant, "default"}[rng.IntN(2)]
		n := cluster.NewStream{
			TopicRef: cluster.TopicRef{ID: topicID(i), Tenant: tenant, Namespace: ns, Name: fmt.Sprint("s", rng.IntN(10))},
			Kind:     cluster.StreamKind(rng.IntN(2)), Shards: int32(rng.IntN(4)), ReplicationFactor: int16(1 + rng.IntN(2)), Durable: rng.IntN(2) == 0,
			Consistency: cluster.Consistency(rng.IntN(3)), Delivery: cluster.Delivery(rng.IntN(2)), Routing: cluster.Routing(rng.IntN(2)),
			Retention: cluster.Retention{Ms: int64(rng.IntN(3)) * 1000},
		}
		if rng.IntN(2) == 0 {
			n.Region = "eu"
		}
		return n
	}
	switch rng.IntN(24) {
	case 0:
		return cluster.DeleteTenant{Name: tenant}
	case 1:
		return cluster.DeleteNamespace{Tenant: tenant, Name: ns}
	case 2, 3:
		return cluster.CreateTenant{Name: tenant, Key: key}
	case 4, 5:
		return cluster.PutSigningKey{Tenant: tenant, Key: key}
	case 6, 7:
		return cluster.ActivateSigningKey{Tenant: tenant, ID: key.ID}
	case 8:
		return cluster.RetireSigningKey{Tenant: tenant, ID: key.ID}
	case 9, 10, 11:
		return cluster.CreateNamespace{Tenant: tenant, Name: ns, DisplayName: fmt.Sprint("N", rng.IntN(2))}
	case 12:
		return cluster.DeleteTopics{Topics: []cluster.TopicRef{{Tenant: tenant, Namespace: ns, Name: fmt.Sprint("s", rng.IntN(10))}}}
	case 13, 14:
		return cluster.UpdateStream{
			Stream:    cluster.TopicRef{Tenant: tenant, Namespace: ns, Name: fmt.Sprint("s", rng.IntN(10))},
			Retention: &cluster.Retention{Bytes: int64(rng.IntN(3))}, Consistency: cluster.Consistency(rng.IntN(3)),
		}
	case 15:
		return cluster.CreateStreams{Streams: []cluster.NewStream{stream(10_000 + 2*i), stream(10_001 + 2*i)}}
	default:
		return cluster.CreateStreams{Streams: []cluster.NewStream{stream(10_000 + 2*i)}}
	}
}

func countNative(m *cluster.Image) (streams, keys int) {
	m.EachTopic(func(t *cluster.Topic) bool {
		if t.Region != "" {
			streams++
		}
		return true
	})
	for _, t := range m.Tenants() {
		keys += len(t.Keys)
	}
	return streams, keys
}

// TestSnapshotOfVersionTwo opens a snapshot that was written before there were signing keys and native streams, and goes on from it. Its
// bytes are never to be changed.
func TestSnapshotOfVersionTwo(t *testing.T) {
	old, err := os.ReadFile("testdata/snapshot-v2.bin")
	if err != nil {
		t.Fatal(err)
	}
	m, err := DecodeSnapshot(old, nil)
	if err != nil {
		t.Fatal(err)
	}
	topic := m.Topic("default", "n", "old")
	if m.ClusterID() != "c" || len(m.Nodes()) != 2 || topic == nil || m.QuotaCount() != 1 || m.Namespace("default", "n") == nil {
		t.Fatalf("cluster %q, %d nodes, %d topics, %d quotas", m.ClusterID(), len(m.Nodes()), m.TopicCount(), m.QuotaCount())
	}
	if topic.Kind != cluster.KindStream || topic.Delivery != cluster.AtLeastOnce || topic.Routing != cluster.RoutingModulo || topic.Region != "" || topic.Config.RetentionMs != 7000 {
		t.Errorf("topic %+v", topic)
	}
	s := newState(m)
	if res := s.next(cluster.PutSigningKey{Tenant: "default", Key: cluster.KeyFromSeed(seed(0))}); res.Err != nil {
		t.Error(res.Err)
	}
	again, err := DecodeSnapshot(EncodeSnapshot(s.image), nil)
	if err != nil || !bytes.Equal(EncodeSnapshot(again), EncodeSnapshot(s.image)) || len(again.Tenant("default").Keys) != 1 {
		t.Errorf("it is not kept as it was: %v", err)
	}
}

// TestSnapshotOfVersionThree opens a snapshot that was written before tenants had incarnations, and goes on from it: a tenant that is made
// again is another one. Its bytes are never to be changed.
func TestSnapshotOfVersionThree(t *testing.T) {
	old, err := os.ReadFile("testdata/snapshot-v3.bin")
	if err != nil {
		t.Fatal(err)
	}
	m, err := DecodeSnapshot(old, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.TenantsDeleted() != 0 || !m.HasTenant("t", 0) || len(m.Tenant("t").Keys) != 2 || m.Topic("t", "n", "full") == nil {
		t.Fatalf("tenants deleted %d, tenant %+v, %d topics", m.TenantsDeleted(), m.Tenant("t"), m.TopicCount())
	}
	s := newState(m)
	for _, cmd := range []cluster.Command{cluster.DeleteTenant{Name: "t"}, cluster.CreateTenant{Name: "t"}} {
		if res := s.next(cmd); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	again, err := DecodeSnapshot(EncodeSnapshot(s.image), nil)
	if err != nil || !bytes.Equal(EncodeSnapshot(again), EncodeSnapshot(s.image)) {
		t.Fatalf("it is not kept as it was: %v", err)
	}
	if want := s.image.TenantsDeleted(); want == 0 || again.TenantsDeleted() != want || again.HasTenant("t", 0) || !again.HasTenant("t", want) || !again.HasTenant("default", 0) {
		t.Errorf("tenants deleted %d, tenant %+v", again.TenantsDeleted(), again.Tenant("t"))
	}
}

// TestLogOfBeforeIncarnations replays commands as they were written before tenants had incarnations: it comes to what a snapshot of that time
// says, and what is deleted from then on counts.
func TestLogOfBeforeIncarnations(t *testing.T) {
	s := newState(cluster.NewImage(nil))
	command := func(kind byte, texts ...string) []byte {
		w := &writer{b: []byte{commandVersion, kind}}
		for _, text := range texts {
			w.text(text)
		}
		return w.seal()
	}
	for _, b := range [][]byte{
		command(kindBootstrap, "c", "default", "default"), command(kindCreateTenant, "a", ""), command(kindDeleteTenant, "a"),
		command(kindCreateTenant, "a", ""), command(kindCreateTenant, "b", "B"),
	} {
		cmd, err := DecodeCommand(b)
		if err != nil {
			t.Fatal(err)
		}
		if res := s.next(cmd); res.Err != nil {
			t.Fatal(res.Err)
		}
		if again, err := EncodeCommand(cmd); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%+v is written otherwise now: %v", cmd, err)
		}
	}
	w := &writer{b: append([]byte(snapshotMagic), noIncarnationsVersion)}
	w.uint(s.image.Version())
	w.text("c")
	w.int(int64(s.image.NextBroker()))
	w.int(s.image.NextProducerID())
	w.count(0) // nodes
	w.count(3)
	for _, tenant := range [][2]string{{"a", ""}, {"b", "B"}, {"default", ""}} {
		w.text(tenant[0])
		w.text(tenant[1])
		if tenant[0] == "default" {
			w.count(1)
			w.text("default")
			w.text("")
		} else {
			w.count(0)
		}
		w.count(0) // keys
	}
	for range 4 { // deleted, quotas, replica sets, topics
		w.count(0)
	}
	m, err := DecodeSnapshot(w.seal(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(EncodeSnapshot(m), EncodeSnapshot(s.image)) {
		t.Fatalf("log and snapshot differ: tenants deleted %d and %d, tenant a %+v and %+v",
			s.image.TenantsDeleted(), m.TenantsDeleted(), s.image.Tenant("a"), m.Tenant("a"))
	}
	s.next(cluster.DeleteTenant{Name: "a"})
	deleted := s.image.Version()
	s.next(cluster.CreateTenant{Name: "a"})
	if !s.image.HasTenant("a", deleted) || !s.image.HasTenant("b", 0) {
		t.Errorf("a deletion of now: tenants %+v, %+v", s.image.Tenant("a"), s.image.Tenant("b"))
	}
}

// TestCommandsOfBefore reads commands as they were written before there were native streams. The bytes are never to be changed.
func TestCommandsOfBefore(t *testing.T) {
	old, err := os.ReadFile("testdata/commands-v1.bin")
	if err != nil {
		t.Fatal(err)
	}
	want := samples()
	for i := 0; len(old) > 0; i++ {
		n, size := binary.Uvarint(old)
		cmd, err := DecodeCommand(old[size : size+int(n)])
		if err != nil {
			t.Fatalf("command %d: %v", i, err)
		}
		if diff := cmp.Diff(want[i], cmd); diff != "" {
			t.Errorf("command %d: %s", i, diff)
		}
		b, err := EncodeCommand(cmd)
		if err != nil || !bytes.Equal(b, old[size:size+int(n)]) {
			t.Errorf("command %d is written otherwise now: %v", i, err)
		}
		old = old[size+int(n):]
		if i == 9 && len(old) > 0 {
			t.Fatal("more commands than there were")
		}
	}
}
