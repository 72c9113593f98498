package felixproto

import (
	"fmt"
	"strings"
	"testing"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/felixproto/wire"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// explicit is what a client offers that names shards.
const explicit = plainFeatures | wire.FeatureExplicitShard

// stored is a record as it lies in a shard.
type stored struct {
	key   []byte // nil: none
	value string
}

// records reads a shard to its end.
func (r *rig) records(topic *cluster.Topic, shard uint32) []stored {
	r.t.Helper()
	open, err := r.broker.Shard(topic, int32(shard))
	must(r.t, err)
	var out []stored
	must(r.t, readAll(open, func(rec *recordbatch.Record) {
		s := stored{value: string(rec.Value)}
		if rec.Key != nil {
			s.key = append([]byte{}, rec.Key...)
		}
		out = append(out, s)
	}))
	return out
}

// readAll yields every record of a shard.
func readAll(shard *broker.Shard, yield func(*recordbatch.Record)) error {
	for at := ids.Offset(0); at < shard.Bounds().HighWatermark; {
		chunks, _, err := shard.Read(at, pageBytes, true, nil)
		for _, c := range chunks {
			for data := c.Data; err == nil && len(data) > 0; {
				var (
					h     recordbatch.Header
					batch []byte
				)
				if h, batch, data, err = recordbatch.Next(data); err == nil {
					it := recordbatch.Records(h, batch[recordbatch.HeaderSize:])
					for it.Next() {
						yield(&it.Record)
					}
					at, err = ids.Offset(h.NextOffset()), it.Err()
				}
			}
			c.Ref.Release()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// producer gets a producer id.
func (s *rigStream) producer(stream string) uint64 {
	s.t.Helper()
	s.send(&wire.ProducerInit{StreamScope: wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: stream}, RequestID: 1})
	return expect[*wire.ProducerInitOK](s).ProducerID
}

// shardRequest makes each request that may name a shard.
type shardRequest struct {
	name string
	// of makes the request: with an id, a key (nil: none, where there may be none) and a shard.
	of func(id uint64, key []byte, shard wire.Opt[uint32]) wire.Message
	// writes says that it stores one record.
	writes bool
}

func shardRequests(stream string, producer uint64) []shardRequest {
	at, one := scope(stream), wire.MakePayloads([]byte("x"))
	at.TenantID, at.Namespace = "t1", "default"
	return []shardRequest{
		{"publish", func(id uint64, key []byte, shard wire.Opt[uint32]) wire.Message {
			return &wire.Publish{StreamScope: at, Payload: []byte("x"), Key: key, RequestID: wire.Some(id), Ack: wire.AckPerMessage, Shard: shard}
		}, true},
		{"publish_batch", func(id uint64, key []byte, shard wire.Opt[uint32]) wire.Message {
			return &wire.PublishBatch{StreamScope: at, Payloads: one, Key: key, RequestID: wire.Some(id), Ack: wire.AckPerBatch, Shard: shard}
		}, true},
		{"publish_idempotent", func(id uint64, key []byte, shard wire.Opt[uint32]) wire.Message {
			return &wire.PublishIdempotent{StreamScope: at, Payloads: one, Key: key, RequestID: id, ProducerID: producer, Shard: shard}
		}, true},
		{"publish_if", func(id uint64, key []byte, shard wire.Opt[uint32]) wire.Message {
			return &wire.PublishIf{StreamScope: at, Payloads: one, Key: key, RequestID: id, Shard: shard}
		}, true},
		{"commit", func(id uint64, key []byte, shard wire.Opt[uint32]) wire.Message {
			return &wire.Commit{StreamScope: at, EntityKey: key, Event: []byte("x"), RequestID: id, Shard: shard}
		}, true},
		{"state_get", func(id uint64, key []byte, shard wire.Opt[uint32]) wire.Message {
			return &wire.StateGet{StreamScope: at, EntityKey: key, Key: "k", RequestID: id, Shard: shard}
		}, false},
	}
}

// code is the error code of an answer, empty for a success, and the id that it names.
func code(m wire.Message) (code string, id uint64) {
	switch m := m.(type) {
	case *wire.PublishOK:
		return "", m.RequestID
	case *wire.CommitOK:
		return "", m.RequestID
	case *wire.StateValue:
		return "", m.RequestID
	case *wire.PublishError:
		return m.Code, m.RequestID
	case *wire.PublishRefused:
		return string(m.Reason), m.RequestID
	case *wire.NotLeader:
		return "not_leader", 0
	case *wire.Error:
		return m.Code, 0
	}
	return fmt.Sprintf("%T", m), 0
}

// TestExplicitShard has every request name each shard, under keys that belong elsewhere and without a key: the shard is where the record
// lies, and the key is the record's.
func TestExplicitShard(t *testing.T) {
	const shards = 4
	for _, key := range []string{"none", "", "k7", "customer-1"} {
		var k []byte
		if key != "none" {
			k = []byte(key)
		}
		t.Run("key_"+key, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			c := r.connect()
			for i, req := range shardRequests("demo", 0) {
				if !req.writes {
					continue
				}
				topic := r.stream("demo", shards, true)
				s := c.openAs("t1", "admin", plainFlags, explicit)
				req = shardRequests("demo", s.producer("demo"))[i]
				for shard := range uint32(shards) {
					s.send(req.of(uint64(shard)+1, k, wire.Some(shard)))
					if code, id := code(s.message()); code != "" || id != uint64(shard)+1 {
						t.Fatalf("%s to shard %d: %q for %d", req.name, shard, code, id)
					}
					got := r.records(topic, shard)
					if len(got) != 1 || got[0].value != "x" {
						t.Fatalf("%s: shard %d holds %+v", req.name, shard, got)
					}
					want := k
					if req.name == "commit" && k == nil {
						want = []byte{} // an entity always has a key
					}
					if (got[0].key == nil) != (want == nil) || string(got[0].key) != string(want) {
						t.Errorf("%s: key %q of the record, want %q", req.name, got[0].key, want)
					}
				}
				must(t, s.q.Close())
				s.ended()
				r.delete(topic)
			}
		})
	}
}

// TestExplicitShardRefused names shards that are not there, and such as are no shards. Nothing is written, and the stream goes on.
func TestExplicitShardRefused(t *testing.T) {
	const shards = 2
	r := newRig(t, rigOptions{})
	topic := r.stream("demo", shards, true)
	c := r.connect()
	for _, req := range shardRequests("demo", c.open("admin").producer("demo")) {
		s := c.openAs("t1", "admin", plainFlags, explicit)
		for i, shard := range []string{"2", "2147483648", "4294967295", "4294967296", "-1", "1.0", `"1"`, "[1]", "true"} {
			id := uint64(i) + 10
			plain := wire.AppendMessage(nil, req.of(id, []byte("k"), wire.Opt[uint32]{}))[wire.HeaderSize:]
			s.write(jsonFrame(strings.TrimSuffix(string(plain), "}") + `,"shard":` + shard + "}"))
			m := s.message()
			got, named := code(m)
			if _, plain := m.(*wire.Error); got != "invalid_request" || !plain && named != id {
				t.Errorf("%s to shard %s: %T %+v", req.name, shard, m, m)
			}
		}
		s.send(req.of(100, []byte("k"), wire.Some[uint32](shards-1)))
		if got, _ := code(s.message()); got != "" && got != string(wire.RefusedOffsetMismatch) {
			t.Errorf("%s afterwards: %q", req.name, got)
		}
	}
	if got := r.records(topic, 0); len(got) != 0 {
		t.Errorf("shard 0 holds %+v", got)
	}
	// publish_if expects the first offset, which it found taken.
	if got := r.records(topic, shards-1); len(got) != 4 {
		t.Errorf("shard %d holds %+v", shards-1, got)
	}
}

// jsonFrame is a frame with a payload as it stands.
func jsonFrame(payload string) []byte {
	b := append(wire.BeginFrame(nil, 0), payload...)
	wire.EndFrame(b)
	return b
}

// TestExplicitShardUnanswered: a publish without an answer to a shard that is not there is dropped, one with a shard that is none ends its
// stream as any malformed one does, and one to a shard that is there lies in it.
func TestExplicitShardUnanswered(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.stream("demo", 2, true)
	c := r.connect()
	s := c.openAs("t1", "admin", plainFlags, explicit)
	at := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}
	s.send(&wire.Publish{StreamScope: at, Payload: []byte("lost"), Shard: wire.Some[uint32](2)})
	s.send(&wire.Publish{StreamScope: at, Payload: []byte("kept"), Shard: wire.Some[uint32](1)})
	eventually(t, func() bool { return len(r.records(topic, 1)) == 1 })
	s.write(jsonFrame(`{"type":"publish","tenant_id":"t1","namespace":"default","stream":"demo","payload":"","shard":"1"}`))
	if e := expect[*wire.Error](s); e.Code != "invalid_request" {
		t.Errorf("%+v", e)
	}
	s.ended()
	if got := r.records(topic, 0); len(got) != 0 {
		t.Errorf("shard 0 holds %+v", got)
	}
}

// TestExplicitShardNotNegotiated: to a client that has not offered the feature it is not advertised, and a shard that the client names all
// the same is an unknown field, whatever is in it: the key decides.
func TestExplicitShardNotNegotiated(t *testing.T) {
	const shards = 8
	key := []byte("k7")
	home := wire.ShardOf(key, shards, wire.MappingModulo)
	other := (home + 1) % shards
	for _, tc := range []struct {
		name     string
		features wire.Features
		told     bool
	}{
		{"one_word", plainFeatures, false},
		{"both_words", plainFeatures | wire.FeatureInspect, false},
		{"marker_without_a_word", plainFeatures | wire.FeatureExtended, false},
		{"offered", explicit, true},
		{"offered_with_others", plainFeatures | 0xF_0000_0000, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			topic := r.stream("demo", shards, true)
			c := r.connect()
			s := c.raw()
			// By hand: the marker is there also where the second word is zero.
			a := &wire.Auth{TenantID: "t1", Token: "admin", ClientFlags: wire.Some(plainFlags)}
			a.SetFeatures(tc.features)
			a.ClientFeatures.Value |= uint32(tc.features)
			s.send(a)
			ok := expect[*wire.AuthOK](s)
			if ok.Features().Has(wire.FeatureExplicitShard) != tc.told {
				t.Errorf("advertised %x", uint64(ok.Features()))
			}
			if words := tc.features.Has(wire.FeatureExtended) || tc.features>>32 != 0; ok.Features().Has(wire.FeatureInspect) != words {
				t.Errorf("advertised %x to a client that reads both words: %v", uint64(ok.Features()), words)
			}
			want := []uint32{home, other}
			if tc.told {
				want = []uint32{other, home}
			}
			s.send(shardRequests("demo", 1)[0].of(1, key, wire.Some(other)))
			expect[*wire.PublishOK](s)
			if a, b := len(r.records(topic, want[0])), len(r.records(topic, want[1])); a != 1 || b != 0 {
				t.Errorf("shard %d holds %d, shard %d %d", want[0], a, want[1], b)
			}
			if tc.told {
				return
			}
			for i, shard := range []string{"8", "-1", `"1"`, "{}"} {
				plain := wire.AppendMessage(nil, shardRequests("demo", 1)[1].of(uint64(i)+2, key, wire.Opt[uint32]{}))[wire.HeaderSize:]
				s.write(jsonFrame(strings.TrimSuffix(string(plain), "}") + `,"shard":` + shard + "}"))
				expect[*wire.PublishOK](s)
				if got := len(r.records(topic, home)); got != i+2 {
					t.Errorf("shard %s: %d records at home", shard, got)
				}
			}
		})
	}
}

// TestExplicitShardOldClient: a client that says nothing of what it knows has agreed to nothing.
func TestExplicitShardOldClient(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.stream("demo", 2, true)
	s := r.connect().raw()
	s.send(&wire.Auth{
		TenantID: "t1", Token: "admin", ClientFeatures: wire.Some[uint32](0x8000_0000), ClientFeaturesHigh: wire.Some[uint32](8),
	})
	expect[*wire.OK](s)
	s.send(shardRequests("demo", 1)[0].of(1, nil, wire.Some[uint32](1)))
	expect[*wire.PublishOK](s)
	if a, b := len(r.records(topic, 0)), len(r.records(topic, 1)); a != 1 || b != 0 {
		t.Errorf("%d and %d records", a, b)
	}
}

// TestExplicitShardSequences numbers batches by producer and shard, whether the shard is named or follows from the key.
func TestExplicitShardSequences(t *testing.T) {
	const shards = 3
	r := newRig(t, rigOptions{})
	topic := r.stream("demo", shards, true)
	s := r.connect().openAs("t1", "admin", plainFlags, explicit)
	at := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}
	producer := s.producer("demo")
	key := []byte("k7")
	home := wire.ShardOf(key, shards, wire.MappingModulo)
	send := func(sequence uint64, value string, shard wire.Opt[uint32]) wire.Message {
		t.Helper()
		s.send(&wire.PublishIdempotent{
			StreamScope: at, Payloads: wire.MakePayloads([]byte(value)), Key: key, RequestID: 2, ProducerID: producer, Sequence: sequence, Shard: shard,
		})
		return s.message()
	}
	offset := func(m wire.Message) uint64 {
		t.Helper()
		ok, some := m.(*wire.PublishOK)
		if !some || !ok.Offset.Set {
			t.Fatalf("got %T %+v", m, m)
		}
		return ok.Offset.Value
	}
	for shard := range uint32(shards) {
		for sequence := range uint64(3) {
			value := fmt.Sprint(shard, sequence)
			if got := offset(send(sequence, value, wire.Some(shard))); got != sequence {
				t.Errorf("shard %d, batch %d at offset %d", shard, sequence, got)
			}
			if got := offset(send(sequence, value, wire.Some(shard))); got != sequence {
				t.Errorf("shard %d, batch %d again: at offset %d", shard, sequence, got)
			}
		}
		if no, ok := send(7, "gap", wire.Some(shard)).(*wire.PublishRefused); !ok || no.Reason != wire.RefusedSequenceGap || no.Expected != 3 {
			t.Errorf("shard %d: a gap is %+v", shard, no)
		}
	}
	// The key's own shard goes on where the named one was.
	if got := offset(send(3, "by key", wire.Opt[uint32]{})); got != 3 {
		t.Errorf("by key at offset %d", got)
	}
	if got := offset(send(3, "by key", wire.Some(home))); got != 3 {
		t.Errorf("the same by name at offset %d", got)
	}
	for shard := range uint32(shards) {
		want := 3
		if shard == home {
			want++
		}
		if got := r.records(topic, shard); len(got) != want {
			t.Errorf("shard %d holds %+v", shard, got)
		}
	}
}

// TestExplicitShardState keeps an entity's state by the shard that its commits name.
func TestExplicitShardState(t *testing.T) {
	const shards = 3
	r := newRig(t, rigOptions{})
	r.stream("demo", shards, true)
	s := r.connect().openAs("t1", "admin", plainFlags, explicit)
	at := wire.StreamScope{TenantID: "t1", Namespace: "default", Stream: "demo"}
	key := []byte("order-42")
	home := wire.ShardOf(key, shards, wire.MappingModulo)
	for shard := range uint32(shards) {
		if shard == home {
			continue
		}
		s.send(&wire.Commit{
			StreamScope: at, EntityKey: key, Event: []byte("e"), RequestID: 1, Shard: wire.Some(shard), ExpectedOffset: wire.Some[uint64](0),
			Changes: []wire.Change{{Op: wire.ChangePut, Key: "k", Value: fmt.Append(nil, shard)}},
		})
		if ok := expect[*wire.CommitOK](s); ok.Offset != 0 {
			t.Errorf("shard %d: %+v", shard, ok)
		}
	}
	for shard := range uint32(shards) {
		want := fmt.Sprint(shard)
		if shard == home {
			want = ""
		}
		s.send(&wire.StateGet{StreamScope: at, EntityKey: key, Key: "k", RequestID: 2, Shard: wire.Some(shard)})
		if v := expect[*wire.StateValue](s); string(v.Value) != want {
			t.Errorf("shard %d: state %q, want %q", shard, v.Value, want)
		}
	}
	s.send(&wire.StateGet{StreamScope: at, EntityKey: key, Key: "k", RequestID: 2})
	if v := expect[*wire.StateValue](s); v.Value != nil {
		t.Errorf("at home: state %q", v.Value)
	}
}

// TestExplicitShardElsewhere names a shard that another server leads, and one that nobody leads, beside one of ours.
func TestExplicitShardElsewhere(t *testing.T) {
	r := newRig(t, rigOptions{})
	const other ids.BrokerID = 2
	r.meta.change(func(b *cluster.Builder) { b.PutNode(cluster.Node{ID: "n2", Broker: other, Live: true}) })
	r.stream("demo", 3, true, func(topic *cluster.Topic) {
		topic.Partitions[1] = cluster.Partition{Leader: other, Replicas: []ids.BrokerID{other}}
		topic.Partitions[2].Leader = ids.NoBroker
	})
	s := r.connect().openAs("t1", "admin", plainFlags, explicit)
	producer := s.producer("demo")
	for _, tc := range []struct {
		shard uint32
		want  map[string]string // by request, where it is another than that of the rest
		rest  string
	}{
		{0, map[string]string{"publish_if": string(wire.RefusedOffsetMismatch)}, ""},
		{1, nil, "not_leader"},
		{2, nil, "shard_unavailable"},
	} {
		for _, req := range shardRequests("demo", producer) {
			// The key would go to shard 0.
			s.send(req.of(1, nil, wire.Some(tc.shard)))
			m := s.message()
			want, some := tc.want[req.name]
			if !some {
				want = tc.rest
			}
			got, _ := code(m)
			if got != want {
				t.Errorf("%s to shard %d: %T %+v", req.name, tc.shard, m, m)
			}
			if to, ok := m.(*wire.NotLeader); ok && to.NodeID != "n2" {
				t.Errorf("%s to shard %d: to %q", req.name, tc.shard, to.NodeID)
			}
		}
	}
}
