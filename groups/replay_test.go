package groups

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/log/recordbatch"
)

// testRecord is one record of a batch that a test builds; a nil value is a tombstone.
type testRecord struct{ key, value []byte }

func buildBatch(tb testing.TB, codec recordbatch.Codec, records ...testRecord) []byte {
	tb.Helper()
	b := recordbatch.NewBuilder(nil, recordbatch.BuilderOptions{Codec: codec})
	for _, r := range records {
		b.Append(1, r.key, r.value)
	}
	out, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func offsetRecord(k Key, topic ids.TopicID, p int32, at int64) testRecord {
	return testRecord{appendOffsetKey(nil, k, topic, p), appendOffsetValue(nil, &offset{at: at, leaderEpoch: -1, committedAt: 1})}
}

func TestReplay(t *testing.T) {
	gone := func(r testRecord) testRecord { return testRecord{key: r.key} }
	group := testRecord{appendGroupKey(nil, testKey), appendGroupValue(nil, testGroupRecord())}
	older := testRecord{appendGroupKey(nil, testKey), appendGroupValue(nil, &groupRecord{Generation: 1})}
	other := Key{Tenant: "t", Group: "other"}
	tests := []struct {
		name    string
		records []testRecord
		groups  map[Key]int32            // generation, -1 without a record
		offsets map[Key]map[string]int64 // by topic's third byte and partition
		newer   int
		err     errcode.Kind
	}{
		{"nothing", nil, map[Key]int32{}, map[Key]map[string]int64{}, 0, errcode.OK},
		{
			"newest_stands",
			[]testRecord{older, offsetRecord(testKey, topicA, 0, 1), group, offsetRecord(other, topicB, 1, 2), offsetRecord(testKey, topicA, 0, 3)},
			map[Key]int32{testKey: 7, other: -1},
			map[Key]map[string]int64{testKey: {"3/0": 3}, other: {"4/1": 2}},
			0, errcode.OK,
		},
		{
			"tombstones",
			[]testRecord{group, offsetRecord(testKey, topicA, 0, 1), offsetRecord(other, topicA, 0, 1), gone(group), gone(offsetRecord(testKey, topicA, 0, 1)), gone(offsetRecord(other, topicB, 9, 1))},
			map[Key]int32{other: -1},
			map[Key]map[string]int64{other: {"3/0": 1}},
			0, errcode.OK,
		},
		{
			"later_releases",
			[]testRecord{{[]byte{9, 1}, []byte("x")}, {[]byte{1, 7}, nil}, {appendGroupKey(nil, other), []byte{2, 2}}, group, {appendOffsetKey(nil, other, topicA, 0), []byte{3}}},
			map[Key]int32{testKey: 7},
			map[Key]map[string]int64{},
			4, errcode.OK,
		},
		{"malformed_key", []testRecord{{[]byte{1, 1}, nil}}, nil, nil, 0, errcode.CorruptBatch},
		{"malformed_offset", []testRecord{{appendOffsetKey(nil, testKey, topicA, 0), []byte{1}}}, nil, nil, 0, errcode.CorruptBatch},
		{"malformed_group", []testRecord{{appendGroupKey(nil, testKey), []byte{1}}}, nil, nil, 0, errcode.CorruptBatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReplay()
			var err error
			if len(tt.records) > 0 {
				err = r.batch(buildBatch(t, recordbatch.CodecNone, tt.records...))
			}
			if err == nil {
				err = r.end()
			}
			if errcode.Of(err) != tt.err {
				t.Fatalf("got %v, want kind %v", err, tt.err)
			}
			if err != nil {
				return
			}
			groups, offsets := map[Key]int32{}, map[Key]map[string]int64{}
			for _, l := range r.groups {
				if l.record == nil && len(l.offsets) == 0 {
					continue
				}
				groups[l.key] = -1
				if l.record != nil {
					groups[l.key] = l.record.Generation
				}
				for at, o := range l.offsets {
					if offsets[l.key] == nil {
						offsets[l.key] = map[string]int64{}
					}
					offsets[l.key][fmt.Sprintf("%d/%d", r.topics.id(at)[2], at.partition())] = o.at
				}
			}
			if diff := cmp.Diff(tt.groups, groups); diff != "" {
				t.Errorf("groups: %s", diff)
			}
			if diff := cmp.Diff(tt.offsets, offsets); diff != "" {
				t.Errorf("offsets: %s", diff)
			}
			if r.newer != tt.newer {
				t.Errorf("%d records of later releases, want %d", r.newer, tt.newer)
			}
		})
	}
}

// TestReplayOfCompressedBatches: this release writes none, but what reads a log must take any batch.
func TestReplayOfCompressedBatches(t *testing.T) {
	r := newReplay()
	for i, codec := range []recordbatch.Codec{recordbatch.CodecZstd, recordbatch.CodecNone, recordbatch.CodecLZ4} {
		if err := r.batch(buildBatch(t, codec, offsetRecord(testKey, topicA, int32(i), int64(i)))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.groups[string(appendGroupID(nil, testKey))].offsets); n != 3 {
		t.Errorf("%d offsets, want 3", n)
	}
}

// TestReplayAllocations: records of what is known already cost no memory.
func TestReplayAllocations(t *testing.T) {
	batch := replayBatches(t, 1000, 10)[0]
	r := newReplay()
	if err := r.batch(batch); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(20, func() {
		if err := r.batch(batch); err != nil {
			t.Fatal(err)
		}
	}); n > 2 {
		t.Errorf("%v allocations for a batch of known offsets", n)
	}
}

// replayBatches holds n offsets of so many groups, a thousand records a batch.
func replayBatches(tb testing.TB, n, groups int) [][]byte {
	tb.Helper()
	var out [][]byte
	var records []testRecord
	var topics [50]ids.TopicID
	for i := range topics {
		binary.BigEndian.PutUint64(topics[i][:], uint64(i+1)*0x9e3779b97f4a7c15)
	}
	for i := range n {
		k := Key{Tenant: "default", Group: fmt.Sprintf("group-%06d", i%groups)}
		rest := i / groups
		records = append(records, offsetRecord(k, topics[rest%len(topics)], int32(rest/len(topics)), int64(i)))
		if len(records) == 1000 {
			out = append(out, buildBatch(tb, recordbatch.CodecNone, records...))
			records = records[:0]
		}
	}
	return out
}

// BenchmarkReplay loads a million offsets. In mixed the records of all groups are mingled, as commits come; in sorted those of a group
// stand together.
func BenchmarkReplay(b *testing.B) {
	const n = 1_000_000
	for _, bb := range []struct {
		name   string
		groups int
	}{{"one_group", 1}, {"groups_1000", 1000}, {"groups_100000", 100_000}} {
		b.Run(bb.name, func(b *testing.B) {
			batches := replayBatches(b, n, bb.groups)
			b.ReportAllocs()
			for b.Loop() {
				r := newReplay()
				for _, batch := range batches {
					if err := r.batch(batch); err != nil {
						b.Fatal(err)
					}
				}
				if err := r.end(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}

// BenchmarkCommit is a commit of ten offsets of one group, written to memory.
func BenchmarkCommit(b *testing.B) {
	shards := map[int32]*discardShard{}
	h := &harness{leader: self}
	h.t = &testing.T{}
	h.img = h.image(1, topicA, topicB)
	c, err := New(Options{Image: h.image0, Shard: func(p int32) (Shard, error) {
		if shards[p] == nil {
			shards[p] = &discardShard{}
		}
		return shards[p], nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	s := c.shardFor(testKey)
	s.log, s.phase, s.groups = &discardShard{}, ready, map[string]*entry{}
	r := &CommitRequest{Key: testKey, Generation: -1, RetentionMs: -1}
	for p := range int32(10) {
		r.Offsets = append(r.Offsets, OffsetCommit{Topic: topicA, Partition: p, Offset: 1, LeaderEpoch: -1})
	}
	done := func(err error, _ []error) {
		if err != nil {
			b.Error(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Commit(r, done)
	}
}

// discardShard commits everything at once and keeps nothing.
type discardShard struct {
	memShard
	next ids.Offset
}

func (d *discardShard) Append([]byte) (base, next ids.Offset, err error) {
	d.next += 10
	return d.next - 10, d.next, nil
}

func (d *discardShard) Wait(_ ids.Offset, notify func(error)) { notify(nil) }
