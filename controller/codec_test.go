package controller

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// samples has every command, with every field used somewhere.
func samples() []cluster.Command {
	full := cluster.NewTopic{
		ID: topicID(1), Tenant: "t", Namespace: "n", Name: "s", CreateNamespace: true, Partitions: 3, ReplicationFactor: 2,
		Assignment: [][]ids.BrokerID{{1, 2}, {2, 1}}, Durable: true, MadeByKafka: true, Internal: true,
		Overrides: map[string]string{"retention.ms": "1", "cleanup.policy": "compact", "": ""},
	}
	ref := cluster.TopicRef{ID: topicID(2), Tenant: "t", Namespace: "n", Name: "s"}
	return append([]cluster.Command{
		cluster.Bootstrap{ClusterID: "c", Tenant: "default", Namespace: "default"},
		cluster.RegisterNode{ID: "n1", KafkaHost: "::1", KafkaPort: 9092, Rack: "r", Clean: true},
		cluster.CreateTenant{Name: "t", DisplayName: "T é"},
		cluster.CreateNamespace{Tenant: "t", Name: "n"},
		cluster.CreateTopics{Topics: []cluster.NewTopic{full, {ID: topicID(3), Name: "x", Partitions: -1, ReplicationFactor: -1}}},
		cluster.DeleteTopics{Topics: []cluster.TopicRef{ref, {Name: "x"}}},
		cluster.CreatePartitions{Topics: []cluster.MorePartitions{{Topic: ref, Count: 7, Assignment: [][]ids.BrokerID{{1}}}}},
		cluster.SetTopicConfigs{Topics: []cluster.TopicConfigChange{{Topic: ref, Replace: true, Changes: []cluster.ConfigChange{
			{Name: "a", Op: cluster.ConfigAppend, Value: "v"}, {Name: "b", Op: cluster.ConfigDelete},
		}}}},
		cluster.AllocateProducerIDs{Count: 1000},
		cluster.SetClientQuotas{Changes: []cluster.QuotaChange{
			{
				Entity: cluster.QuotaEntity{
					Tenant: "default", User: cluster.QuotaName{Kind: cluster.QuotaNamed, Name: "u é"}, Client: cluster.QuotaName{Kind: cluster.QuotaDefault},
				},
				Rates: []cluster.RateChange{{Rate: cluster.ProducerByteRate, Value: 1 << 40}, {Rate: cluster.ConsumerByteRate, Value: 1}},
			},
			{
				Entity: cluster.QuotaEntity{Tenant: "default", Client: cluster.QuotaName{Kind: cluster.QuotaNamed, Name: "c"}},
				Rates:  []cluster.RateChange{{Rate: cluster.ProducerByteRate}},
			},
		}},
	}, append(streamSamples(), resourceSamples()...)...)
}

func TestCommandRoundTrip(t *testing.T) {
	for _, cmd := range samples() {
		b, err := EncodeCommand(cmd)
		if err != nil {
			t.Errorf("%T: %v", cmd, err)
			continue
		}
		back, err := DecodeCommand(b)
		if err != nil {
			t.Errorf("%T: %v", cmd, err)
		}
		if diff := cmp.Diff(cmd, back); diff != "" {
			t.Errorf("%T: %s", cmd, diff)
		}
		for i := range b {
			flipped := bytes.Clone(b)
			flipped[i] ^= 0x10
			if _, err := DecodeCommand(flipped); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%T with byte %d changed: %v, want ErrCorrupt", cmd, i, err)
			}
			if _, err := DecodeCommand(b[:i]); err == nil {
				t.Errorf("%T cut to %d bytes is accepted", cmd, i)
			}
		}
	}
	for _, cmd := range []cluster.Command{
		nil,
		cluster.CreateTopics{ValidateOnly: true},
		cluster.CreatePartitions{ValidateOnly: true},
		cluster.SetTopicConfigs{ValidateOnly: true},
		cluster.SetClientQuotas{ValidateOnly: true},
		cluster.Guarded{Tenant: "t"},
		cluster.Guarded{Tenant: "t", Command: cluster.CreateTopics{ValidateOnly: true}},
		cluster.Guarded{Tenant: "t", Command: cluster.Guarded{Tenant: "t", Command: cluster.AllocateProducerIDs{Count: 1}}},
	} {
		if _, err := EncodeCommand(cmd); err == nil {
			t.Errorf("%T has an encoding", cmd)
		}
	}
}

func TestUnknownCommandIsRefused(t *testing.T) {
	for _, b := range [][]byte{
		{2, 1},
		{1, 0},
		{1, 99},
		{1},
		{},
		{1, kindAllocateProducerIDs, 2, 0},
		{1, kindDeleteTopics, 200, 1},
		{1, kindCreateTenantWithKey, 0, 0, 1, 't', 0},
		{1, kindDisplayedNamespace, 0, 1, 't', 1, 'n'},
		{1, kindCreateStreams, 200, 1},
		{1, kindCreateResources, 0, 200, 1},
		{1, kindUpdateCache, 1, 't', 1, 'n', 1, 'c', 2, 0},
		{1, kindPausePlacement, 2},
		{1, kindGuarded, 1, 't'},
		{1, kindGuarded, 1, 't', 0},
		{1, kindGuarded, 1, 't', 0, 99},
		{1, kindGuarded, 1, 't', 0, kindGuarded, 1, 't', 0, kindAllocateProducerIDs, 2},
	} {
		if cmd, err := DecodeCommand((&writer{b: b}).seal()); err == nil {
			t.Errorf("% x decodes to %+v", b, cmd)
		}
	}
}

// TestSameCommandsSameSnapshot applies one random sequence to two machines, one of which is stopped and restored from a snapshot
// again and again: their snapshots must be equal to the byte.
func TestSameCommandsSameSnapshot(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	one, two := newState(cluster.NewImage(nil)), newState(cluster.NewImage(nil))
	streams, keys, caches, rules := 0, 0, 0, 0
	for i := range 1200 {
		cmd := randomCommand(rng, i)
		if i > 10 && rng.IntN(4) == 0 {
			cmd = cluster.Guarded{Tenant: "default", Incarnation: uint64(rng.IntN(4) / 3), Command: cmd}
		}
		b, err := EncodeCommand(cmd)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*state{one, two} {
			cmd, err := DecodeCommand(b)
			if err != nil {
				t.Fatal(err)
			}
			s.apply(uint64(i+1), cmd)
		}
		haveStreams, haveKeys := countNative(one.image)
		streams, keys = max(streams, haveStreams), max(keys, haveKeys)
		caches, rules = max(caches, one.image.CacheCount()), max(rules, min(one.image.PolicyCount(), one.image.GroupingCount()))
		a := EncodeSnapshot(one.image)
		if i%20 == 0 {
			m, err := DecodeSnapshot(a, nil)
			if err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			two = newState(m)
		}
		if !bytes.Equal(a, EncodeSnapshot(two.image)) {
			t.Fatalf("step %d: the machines differ", i)
		}
	}
	if streams < 2 || keys < 3 {
		t.Errorf("at most %d streams with a region, %d keys at a time: the sequence shows little", streams, keys)
	}
	if caches < 5 || rules < 5 {
		t.Errorf("at most %d caches, %d policies and groupings at a time: the sequence shows little", caches, rules)
	}
	if one.image.TopicCount() < 5 || len(one.image.Deleted()) < 5 || one.image.QuotaCount() < 3 {
		t.Errorf("%d topics, %d deletions, %d quotas: the sequence shows little", one.image.TopicCount(), len(one.image.Deleted()), one.image.QuotaCount())
	}
}

func randomCommand(rng *rand.Rand, i int) cluster.Command {
	name := fmt.Sprint("t", rng.IntN(30))
	ns := fmt.Sprint("n", rng.IntN(3))
	ref := cluster.TopicRef{Tenant: "default", Namespace: ns, Name: name}
	switch {
	case i == 0:
		return cluster.Bootstrap{ClusterID: "c", Tenant: "default", Namespace: "default"}
	case i < 4 || rng.IntN(30) == 0:
		return cluster.RegisterNode{ID: ids.NodeID(fmt.Sprint("node", rng.IntN(4))), KafkaHost: "h", KafkaPort: 1, Clean: rng.IntN(2) == 0}
	}
	switch rng.IntN(11) {
	case 6, 7:
		return randomStreamCommand(rng, i)
	case 8, 9, 10:
		return randomResourceCommand(rng, i)
	case 4:
		name := func() cluster.QuotaName {
			n := cluster.QuotaName{Kind: cluster.QuotaNameKind(rng.IntN(3))}
			if n.Kind == cluster.QuotaNamed {
				n.Name = fmt.Sprint("q", rng.IntN(3))
			}
			return n
		}
		return cluster.SetClientQuotas{Changes: []cluster.QuotaChange{{
			Entity: cluster.QuotaEntity{Tenant: "default", User: name(), Client: name()},
			Rates:  []cluster.RateChange{{Rate: cluster.QuotaRate(1 + rng.IntN(2)), Value: int64(rng.IntN(3))}},
		}}}
	case 0:
		return cluster.DeleteTopics{Topics: []cluster.TopicRef{ref}}
	case 1:
		return cluster.CreatePartitions{Topics: []cluster.MorePartitions{{Topic: ref, Count: int32(rng.IntN(8))}}}
	case 2:
		return cluster.SetTopicConfigs{Topics: []cluster.TopicConfigChange{{Topic: ref, Replace: rng.IntN(2) == 0, Changes: []cluster.ConfigChange{
			{Name: "retention.ms", Op: cluster.ConfigOp(rng.IntN(2)), Value: fmt.Sprint(rng.IntN(100))},
			{Name: "cleanup.policy", Op: cluster.ConfigOp(rng.IntN(4)), Value: []string{"compact", "delete"}[rng.IntN(2)]},
		}}}}
	case 3:
		return cluster.AllocateProducerIDs{Count: int32(rng.IntN(100))}
	default:
		return cluster.CreateTopics{Topics: []cluster.NewTopic{{
			ID: topicID(i), Tenant: "default", Namespace: ns, Name: name, CreateNamespace: true, Partitions: int32(rng.IntN(4)),
			ReplicationFactor: int16(rng.IntN(3)), MadeByKafka: true, Overrides: map[string]string{"segment.ms": fmt.Sprint(1 + rng.IntN(9))},
		}}}
	}
}

func TestSnapshotRefusesDamage(t *testing.T) {
	s := testState(t)
	s.next(samples()[4])
	good := EncodeSnapshot(s.image)
	if _, err := DecodeSnapshot(good, nil); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := DecodeSnapshot(bad, nil); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d changed: %v, want ErrCorrupt", i, err)
		}
		if _, err := DecodeSnapshot(good[:i], nil); err == nil {
			t.Errorf("a snapshot cut to %d bytes is accepted", i)
		}
	}
	newer := &writer{b: append([]byte(snapshotMagic), snapshotVersion+1)}
	if _, err := DecodeSnapshot(newer.seal(), nil); err == nil {
		t.Error("a snapshot of a newer version is accepted")
	}
}

// TestSnapshotOfVersionOne opens a snapshot that was written before there were client quotas. Its bytes are never to be changed.
func TestSnapshotOfVersionOne(t *testing.T) {
	old, err := os.ReadFile("testdata/snapshot-v1.bin")
	if err != nil {
		t.Fatal(err)
	}
	m, err := DecodeSnapshot(old, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.ClusterID() != "c" || len(m.Nodes()) != 2 || m.Topic("default", "default", "old") == nil || m.QuotaCount() != 0 {
		t.Errorf("cluster %q, %d nodes, %d topics, %d quotas", m.ClusterID(), len(m.Nodes()), m.TopicCount(), m.QuotaCount())
	}
	again, err := DecodeSnapshot(EncodeSnapshot(m), nil)
	if err != nil || !bytes.Equal(EncodeSnapshot(again), EncodeSnapshot(m)) {
		t.Errorf("it is not kept as it was: %v", err)
	}
}

// FuzzCommand feeds bodies, whose checksum is made right, to the decoder: what parses must encode to something that parses to the same.
func FuzzCommand(f *testing.F) {
	for _, cmd := range samples() {
		b, err := EncodeCommand(cmd)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		cmd, err := DecodeCommand((&writer{b: bytes.Clone(body)}).seal())
		if err != nil {
			return
		}
		b, err := EncodeCommand(cmd)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeCommand(b)
		if err != nil || !cmp.Equal(cmd, back) {
			t.Fatalf("%+v became %+v, %v", cmd, back, err)
		}
	})
}

// FuzzSnapshot does the same for snapshots.
func FuzzSnapshot(f *testing.F) {
	s := newState(cluster.NewImage(nil))
	for i, cmd := range append(samples()[:2], append(streamSamples(), samples()...)...) {
		s.apply(uint64(i+1), cmd)
		b := EncodeSnapshot(s.image)
		f.Add(b[:len(b)-4])
	}
	for _, name := range []string{"snapshot-v1.bin", "snapshot-v2.bin", "snapshot-v3.bin", "snapshot-v3-streams.bin"} {
		if old, err := os.ReadFile("testdata/" + name); err == nil {
			f.Add(old[:len(old)-4])
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := DecodeSnapshot((&writer{b: bytes.Clone(body)}).seal(), nil)
		if err != nil {
			return
		}
		b := EncodeSnapshot(m)
		again, err := DecodeSnapshot(b, nil)
		if err != nil || !bytes.Equal(EncodeSnapshot(again), b) {
			t.Fatalf("a snapshot does not survive a round trip: %v", err)
		}
	})
}
