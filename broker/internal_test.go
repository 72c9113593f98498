package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log"
	"github.com/felixlog/felix/log/recordbatch"
)

// internalShard makes the groups' topic and opens a shard of it.
func internalShard(t *testing.T, f *fixture) *Shard {
	t.Helper()
	n := cluster.GroupsTopic()
	topic := &cluster.Topic{
		ID: n.ID, Tenant: n.Tenant, Namespace: n.Namespace, Name: n.Name, Durable: true, Internal: true,
		Consistency: cluster.ConsistencyLeader, Overrides: n.Overrides,
	}
	for range n.Partitions {
		topic.Partitions = append(topic.Partitions, cluster.Partition{Leader: self, Replicas: []ids.BrokerID{self}})
	}
	f.meta.change(func(b *cluster.Builder) {
		if err := b.PutTopic(topic); err != nil {
			t.Fatal(err)
		}
	})
	return openInternal(t, f)
}

func openInternal(t *testing.T, f *fixture) *Shard {
	t.Helper()
	s, err := f.b.Shard(f.meta.Image().TopicByID(cluster.GroupsTopicID), 3)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func internalBatch(t *testing.T, key string, values ...string) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{})
	for _, v := range values {
		b.Append(1, []byte(key), []byte(v))
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// scanned is the values of all records that Scan yields.
func scanned(t *testing.T, s *Shard) []string {
	t.Helper()
	var out []string
	err := s.Scan(t.Context(), func(batch []byte) error {
		h, err := recordbatch.ParseHeader(batch)
		if err != nil {
			return err
		}
		it := recordbatch.Records(h, batch[recordbatch.HeaderSize:])
		for it.Next() {
			out = append(out, string(it.Record.Value))
		}
		return it.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestInternalShard(t *testing.T) {
	f := newFixture(t, log.SyncNone)
	s := internalShard(t, f)
	for i, want := range []ids.Offset{2, 3} {
		batch := internalBatch(t, "k", [][]string{{"a", "b"}, {"c"}}[i]...)
		_, next, err := s.AppendInternal(batch)
		if err != nil || next != want {
			t.Fatalf("append: next %d, %v; want %d", next, err, want)
		}
		s.Commit(false)
	}
	if got := scanned(t, s); len(got) != 3 || got[0] != "a" || got[2] != "c" {
		t.Errorf("scanned %q", got)
	}
	if hw := s.Bounds().HighWatermark; hw != 3 {
		t.Errorf("high watermark %d", hw)
	}
	if _, _, err := s.AppendInternal([]byte("short")); err == nil {
		t.Error("an append of no batch succeeded")
	}
	// Clients cannot write to it, whatever they found out.
	if _, err := s.Append(AppendInput{Records: internalBatch(t, "k", "x")}); errcode.Of(err) != errcode.InvalidTopic {
		t.Errorf("a client's append: %v", err)
	}
}

func TestScanEnds(t *testing.T) {
	f := newFixture(t, log.SyncNone)
	s := internalShard(t, f)
	if got := scanned(t, s); got != nil {
		t.Errorf("scanned %q from an empty shard", got)
	}
	for range 3 {
		if _, _, err := s.AppendInternal(internalBatch(t, "k", "v")); err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("enough")
	calls := 0
	if err := s.Scan(t.Context(), func([]byte) error { calls++; return stop }); !errors.Is(err, stop) || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Scan(ctx, func([]byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// TestInternalBatchLargerThanSegment: a coordinator's batch may be larger than a segment, and is read again after a crash.
func TestInternalBatchLargerThanSegment(t *testing.T) {
	f := newFixture(t, log.SyncOnCommit)
	if err := f.fs.SyncDir("."); err != nil { // the data directory itself, which is not the broker's
		t.Fatal(err)
	}
	s := internalShard(t, f)
	large := string(make([]byte, 33<<20))
	for _, v := range []string{"before", large, "after"} {
		if _, _, err := s.AppendInternal(internalBatch(t, "k", v)); err != nil {
			t.Fatal(err)
		}
		s.Commit(true)
		if b := s.Bounds(); b.HighWatermark != b.End {
			t.Fatalf("not committed: %+v", b)
		}
	}
	f.open(t, f.fs.CrashImage(rand.New(rand.NewPCG(1, 1))), log.SyncOnCommit)
	got := scanned(t, openInternal(t, f))
	if len(got) != 3 || got[0] != "before" || len(got[1]) != len(large) || got[2] != "after" {
		t.Errorf("%d records after a crash", len(got))
	}
}
