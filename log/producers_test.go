package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

// sent makes the header of a producer's batch.
func sent(id int64, epoch int16, seq, n int32) *recordbatch.Header {
	return &recordbatch.Header{ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq, LastOffsetDelta: n - 1, MaxTimestamp: 1000 + int64(seq), RecordCount: n}
}

// TestIdempotence goes through the table of spec/kafka.md 3.5.
func TestIdempotence(t *testing.T) {
	type step struct {
		h     *recordbatch.Header
		never bool
		dup   bool
		err   error
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"first_batch_of_empty_log_starts_at_zero", []step{{h: sent(1, 0, 0, 3), never: true}}},
		{"first_batch_of_empty_log_out_of_order", []step{{h: sent(1, 0, 3, 1), never: true, err: ErrOutOfOrderSequence}}},
		{"unknown_producer_of_used_log_takes_any_sequence", []step{{h: sent(1, 0, 77, 1)}, {h: sent(1, 0, 78, 1)}}},
		{"next_sequence", []step{{h: sent(1, 0, 0, 3)}, {h: sent(1, 0, 3, 1)}}},
		{"gap", []step{{h: sent(1, 0, 0, 3)}, {h: sent(1, 0, 4, 1), err: ErrOutOfOrderSequence}}},
		{"overlap_is_no_duplicate", []step{{h: sent(1, 0, 0, 3)}, {h: sent(1, 0, 1, 2), err: ErrOutOfOrderSequence}}},
		{"duplicate_of_last", []step{{h: sent(1, 0, 0, 3)}, {h: sent(1, 0, 0, 3), dup: true}}},
		{"duplicate_of_earlier", []step{{h: sent(1, 0, 0, 1)}, {h: sent(1, 0, 1, 1)}, {h: sent(1, 0, 2, 1)}, {h: sent(1, 0, 0, 1), dup: true}}},
		{"same_first_other_last", []step{{h: sent(1, 0, 0, 3)}, {h: sent(1, 0, 0, 2), err: ErrOutOfOrderSequence}}},
		{"older_epoch", []step{{h: sent(1, 5, 0, 1)}, {h: sent(1, 4, 1, 1), err: ErrInvalidProducerEpoch}}},
		{"newer_epoch_from_zero", []step{{h: sent(1, 5, 0, 1)}, {h: sent(1, 6, 0, 1)}, {h: sent(1, 6, 1, 1)}}},
		{"newer_epoch_not_from_zero", []step{{h: sent(1, 5, 0, 1)}, {h: sent(1, 6, 1, 1), err: ErrOutOfOrderSequence}}},
		{"newer_epoch_forgets_batches", []step{{h: sent(1, 5, 0, 1)}, {h: sent(1, 6, 0, 2)}, {h: sent(1, 6, 0, 1), err: ErrOutOfOrderSequence}}},
		{"wraps_to_zero", []step{{h: sent(1, 0, math.MaxInt32, 1)}, {h: sent(1, 0, 0, 1)}}},
		{"straddles_the_wrap", []step{{h: sent(1, 0, math.MaxInt32-1, 4)}, {h: sent(1, 0, math.MaxInt32-1, 4), dup: true}, {h: sent(1, 0, 2, 1)}}},
		{"producers_are_apart", []step{{h: sent(1, 0, 0, 1)}, {h: sent(2, 0, 0, 1)}, {h: sent(1, 0, 1, 1)}, {h: sent(2, 0, 1, 1)}}},
		{"marker_leaves_epoch_without_batches", []step{{h: sent(1, 3, -1, 1)}, {h: sent(1, 3, 1, 1), err: ErrOutOfOrderSequence}, {h: sent(1, 3, 0, 1)}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			table := newProducerTable(10, 5)
			base := ids.Offset(0)
			for i, s := range tc.steps {
				if s.h.BaseSequence < 0 {
					table.append(s.h, base, 0)
					continue
				}
				dup, err := table.check(s.h, s.never)
				if !errors.Is(err, s.err) || (err == nil) != (s.err == nil) || (dup != nil) != s.dup {
					t.Fatalf("step %d: duplicate %v, %v; want %v, %v", i, dup != nil, err, s.dup, s.err)
				}
				if dup != nil && dup.span() != int64(s.h.LastOffsetDelta)+1 {
					t.Fatalf("step %d: duplicate spans %d offsets", i, dup.span())
				}
				if err == nil && dup == nil {
					table.append(s.h, base, 0)
					base += ids.Offset(s.h.LastOffsetDelta) + 1
				}
			}
		})
	}
}

func TestProducerWindow(t *testing.T) {
	table := newProducerTable(10, 5)
	for i := range int32(8) {
		table.append(sent(1, 0, i, 1), ids.Offset(i), 0)
	}
	for i := range int32(8) {
		dup, err := table.check(sent(1, 0, i, 1), false)
		if i < 3 {
			if !errors.Is(err, ErrOutOfOrderSequence) {
				t.Errorf("sequence %d has left the window: %v", i, err)
			}
			continue
		}
		if err != nil || dup == nil || dup.base != ids.Offset(i) {
			t.Errorf("sequence %d: %+v, %v", i, dup, err)
		}
	}
	if n := cap(table.byID[1].sent); n > 8 {
		t.Errorf("room for %d batches", n)
	}
}

func TestProducerEvictionAndExpiry(t *testing.T) {
	table := newProducerTable(3, 5)
	for i := range int64(3) {
		table.append(sent(i, 0, 0, 1), 0, 100+i)
	}
	table.append(sent(0, 0, 1, 1), 0, 200) // producer 1 is now the longest idle
	table.append(sent(9, 0, 0, 1), 0, 201)
	if table.evicted != 1 || table.byID[1] != nil || table.len() != 3 {
		t.Fatalf("evicted %d, %d left", table.evicted, table.len())
	}
	if n := table.expire(200); n != 1 || table.byID[2] != nil {
		t.Errorf("expired %d", n)
	}
	if n := table.expire(1000); n != 2 || table.byID != nil || table.oldest != nil || table.newest != nil {
		t.Errorf("expired %d, list %v %v", n, table.oldest, table.newest)
	}
	table.append(sent(5, 0, 0, 1), 0, 1000)
	if table.len() != 1 {
		t.Error("an emptied table takes no producer")
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	table := newProducerTable(100, 64)
	for i := range int64(20) {
		for s := range int32(i * 5) {
			table.append(sent(i, int16(i), s, 1), ids.Offset(s), 500+i)
		}
	}
	table.append(sent(77, 3, -1, 1), 5, 900)
	b := table.appendSnapshot([]byte("prefix"), 1234)[6:]
	got := newProducerTable(100, 64)
	off, err := got.loadSnapshot(b)
	if err != nil || off != 1234 {
		t.Fatal(off, err)
	}
	all := cmp.AllowUnexported(producerTable{}, producer{}, sentBatch{})
	for p, q := table.oldest, got.oldest; p != nil || q != nil; p, q = p.newer, q.newer {
		a, b := *p, *q
		a.older, a.newer, b.older, b.newer = nil, nil, nil, nil
		if diff := cmp.Diff(a, b, all); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	if again := got.appendSnapshot(nil, 1234); string(again) != string(b) {
		t.Error("encodes differently")
	}
	for n := range b {
		if _, err := newProducerTable(100, 64).loadSnapshot(b[:n]); !errors.Is(err, errSnapshot) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func FuzzSnapshot(f *testing.F) {
	table := newProducerTable(100, 64)
	f.Add(table.appendSnapshot(nil, 0))
	for i := range int32(3) {
		table.append(sent(int64(i), 1, i, 2), 5, 100)
		table.append(sent(nativeID, 0, i, 2), 5, 100)
	}
	f.Add(table.appendSnapshot(nil, 12))
	f.Fuzz(func(t *testing.T, b []byte) {
		if b = bytes.Clone(b); len(b) >= snapshotHeadBytes { // or the checksum would stop nearly every input
			binary.BigEndian.PutUint32(b[24:], snapshotCRC(b))
		}
		table := newProducerTable(1<<20, 64)
		off, err := table.loadSnapshot(b)
		if err != nil {
			return
		}
		again := newProducerTable(1<<20, 64)
		if o, err := again.loadSnapshot(table.appendSnapshot(nil, off)); err != nil || o != off || again.len() != table.len() {
			t.Fatalf("%d, %v", o, err)
		}
	})
}

// TestProducersOverLifetime: duplicates are answered with where the original is, over rolls, restarts of both kinds and retention.
func TestProducersOverLifetime(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes = 700 }))
	l := e.open()
	batch := func(seq int32) spec {
		return spec{records: 2, size: 60, producer: &recordbatch.Producer{ID: 4, BaseSequence: seq}, timestamp: int64(5000 + seq)}
	}
	seq := int32(0)
	for life := range 6 {
		for range 4 {
			if r := mustAppend(t, l, batch(seq)); r.Duplicate || r.Base != ids.Offset(seq) {
				t.Fatalf("life %d: %+v", life, r)
			}
			seq += 2
		}
		for back := int32(2); back <= seq && back <= 128; back += 2 {
			at := seq - back
			in := batch(at).input(t)
			r, err := l.Append(in)
			if err != nil {
				t.Fatalf("life %d, seq %d: re-send of %d: %v", life, seq, at, err)
			}
			want := AppendResult{Base: ids.Offset(at), Next: ids.Offset(at + 2), Duplicate: true, MaxTimestamp: int64(5001 + at)}
			if r != want {
				t.Fatalf("life %d: re-send of %d: %+v, want %+v", life, at, r, want)
			}
		}
		in := batch(seq + 2).input(t)
		if _, err := l.Append(in); !errors.Is(err, ErrOutOfOrderSequence) {
			t.Fatalf("life %d: a gap gives %v", life, err)
		}
		if life == 3 {
			if err := l.AdvanceStart(l.Bounds().End); err != nil {
				t.Fatal(err)
			}
			e.pass(l)
		}
		e, l = e.restart(l, life%2 == 0)
	}
	var states []ProducerState
	l.Producers(func(p ProducerState) bool { states = append(states, p); return true })
	if len(states) != 1 || states[0].LastSequence != seq-1 || states[0].ID != 4 || states[0].LastTimestamp != int64(5000+seq-1) {
		t.Errorf("%+v", states)
	}
	e.now = e.now.Add(25 * 60 * 60 * 1e9)
	if res, err := l.Maintain(t.Context()); err != nil || res.ExpiredProducers != 1 {
		t.Errorf("a day later: %+v, %v", res, err)
	}
	if r := mustAppend(t, l, batch(5000)); r.Duplicate {
		t.Errorf("a forgotten producer: %+v", r)
	}
}
