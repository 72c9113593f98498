package log

import (
	"errors"
	"math"
	"testing"

	"github.com/felixlog/felix/internal/errcode"
	"github.com/felixlog/felix/internal/ids"
	"github.com/felixlog/felix/internal/vfs"
	"github.com/felixlog/felix/log/recordbatch"
)

const nativeID = NativeProducer | 5

// sequenceError is the refusal in err, nil if it is none.
func sequenceError(err error) *errcode.SequenceError {
	var s *errcode.SequenceError
	errors.As(err, &s)
	return s
}

// TestNativeIdempotence goes through the table of the streams rules, section 11; rows S-71, S-74.
func TestNativeIdempotence(t *testing.T) {
	gap := func(expected uint64) *errcode.SequenceError {
		return &errcode.SequenceError{Reason: errcode.SequenceGap, Expected: expected}
	}
	unknown := &errcode.SequenceError{Reason: errcode.SequenceUnknownProducer}
	expired := &errcode.SequenceError{Reason: errcode.SequenceExpired}
	type step struct {
		seq  uint64
		dup  bool
		err  *errcode.SequenceError
		lost bool // the state was made from files before this step: 31 bits of the sequence are known
	}
	tests := []struct {
		name  string
		from  uint64 // a batch is taken for granted as appended with the sequence before; 0: none
		steps []step
	}{
		{"counts_batches_from_zero", 0, []step{{seq: 0}, {seq: 1}, {seq: 2}}},
		{"unknown_producer", 0, []step{{seq: 1, err: unknown}, {seq: 0}}},
		{"gap_names_the_next", 0, []step{{seq: 0}, {seq: 1}, {seq: 3, err: gap(2)}, {seq: 2}}},
		{"remembered", 0, []step{{seq: 0}, {seq: 1}, {seq: 0, dup: true}, {seq: 1, dup: true}, {seq: 2}}},
		{"older_than_remembered", 0, []step{{seq: 0}, {seq: 1}, {seq: 2}, {seq: 3}, {seq: 0, err: expired}, {seq: 1, dup: true}}},
		{"over_31_bits", 1 << 31, []step{{seq: 1 << 31}, {seq: 1<<31 + 1}, {seq: 1 << 31, dup: true}, {seq: 1<<31 + 3, err: gap(1<<31 + 2)}}},
		{"a_round_of_31_bits_back", 1<<31 + 5, []step{{seq: 1<<31 + 5}, {seq: 5, err: expired}, {seq: 1<<32 + 5, err: gap(1<<31 + 6)}}},
		{"known_from_files", 7, []step{{seq: 7, lost: true}, {seq: 8}, {seq: 7, dup: true}}},
		{"gap_known_from_files", 7, []step{{seq: 9, lost: true, err: gap(7)}, {seq: 7}}},
		{"re_send_known_from_files", 7, []step{{seq: 6, lost: true, dup: true}, {seq: 7}}},
		{"expired_known_from_files", 7, []step{{seq: 2, lost: true, err: expired}, {seq: 7}}},
		{"over_31_bits_known_from_files", 1 << 31, []step{{seq: 1<<31 - 1, lost: true, dup: true}, {seq: 1<<31 + 2, err: gap(1 << 31)}, {seq: 1 << 31}, {seq: 1<<31 + 1}}},
		{"far_from_what_files_know", 1<<31 + 9, []step{{seq: 3, lost: true, err: expired}, {seq: 1<<31 + 9}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			table := newProducerTable(10, 3)
			base := ids.Offset(100)
			note := func(seq uint64) {
				h := sent(nativeID, 0, NativeSequence(seq), 2)
				table.appendNative(h, seq, base, 0)
				base += 2
			}
			if tc.from > 0 {
				note(tc.from - 1)
			}
			for i, s := range tc.steps {
				if s.lost {
					again := newProducerTable(10, 3)
					if _, err := again.loadSnapshot(table.appendSnapshot(nil, base)); err != nil {
						t.Fatal(err)
					}
					table = again
				}
				dup, err := table.checkNative(nativeID, s.seq)
				got := sequenceError(err)
				if (dup != nil) != s.dup || (got == nil) != (s.err == nil) || got != nil && *got != *s.err {
					t.Fatalf("step %d, sequence %d: duplicate %v, %v; want %v, %v", i, s.seq, dup != nil, err, s.dup, s.err)
				}
				if dup != nil && dup.next(nativeID)-dup.base != 2 {
					t.Errorf("step %d: the original spans %d offsets", i, dup.next(nativeID)-dup.base)
				}
				if dup == nil && err == nil {
					note(s.seq)
				}
			}
		})
	}
}

// TestNativeProducersOverLifetime: row S-72 for restarts. What is known of a native producer is rebuilt from snapshots and segments.
func TestNativeProducersOverLifetime(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), withConfig(func(c *Config) { c.SegmentBytes = 700 }))
	l := e.open()
	const first = math.MaxInt32 - 6 // so that the low 31 bits go over their end
	input := func(seq uint64) AppendInput {
		in := spec{records: 3, size: 60, producer: &recordbatch.Producer{ID: nativeID, BaseSequence: NativeSequence(seq)}}.input(t)
		in.Sequence = seq
		return in
	}
	if _, err := l.Append(input(0)); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	p := l.producers.byID[nativeID]
	p.nextSeq, p.lastSeq, p.sent = first, NativeSequence(first-1), nil
	l.mu.Unlock()
	next := uint64(first)
	for life := range 4 {
		for range 4 {
			r, err := l.Append(input(next))
			if err != nil || r.Duplicate || r.Next-r.Base != 3 {
				t.Fatalf("life %d: sequence %d: %+v, %v", life, next, r, err)
			}
			next++
		}
		for seq := uint64(first); seq < next; seq++ {
			r, err := l.Append(input(seq))
			if want := ids.Offset(3 + 3*(seq-first)); err != nil || !r.Duplicate || r.Base != want || r.Next != want+3 {
				t.Fatalf("life %d: re-send of %d: %+v, %v", life, seq, r, err)
			}
		}
		if _, err := l.Append(input(next + 1)); sequenceError(err) == nil || *sequenceError(err) != (errcode.SequenceError{Expected: next}) {
			t.Fatalf("life %d: a gap gives %v", life, err)
		}
		e, l = e.restart(l, life%2 == 0)
	}
	_ = e
}

// TestConditionalAppend: row S-78. Only the batch that is made for the next offset is written, and a refused one leaves no hole.
func TestConditionalAppend(t *testing.T) {
	e := newEnv(t, vfs.NewMem())
	l := e.open()
	for _, c := range []struct{ expected, tail ids.Offset }{{0, 2}, {0, 2}, {1, 2}, {2, 4}, {5, 4}, {4, 6}} {
		in := spec{records: 2}.input(t)
		in.Conditional, in.Expected = true, c.expected
		before := l.Bounds().End
		r, err := l.Append(in)
		var mismatch *errcode.OffsetMismatchError
		switch {
		case before == c.expected:
			if err != nil || r.Base != c.expected || r.Next != c.tail {
				t.Errorf("at %d: %+v, %v", c.expected, r, err)
			}
		case !errors.As(err, &mismatch) || mismatch.Tail != int64(c.tail):
			t.Errorf("at %d of %d: %+v, %v", c.expected, before, r, err)
		}
		if end := l.Bounds().End; end != c.tail {
			t.Errorf("the log ends at %d, want %d", end, c.tail)
		}
	}
}
