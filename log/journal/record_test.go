package journal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/ids"
)

var allowRecord = cmp.AllowUnexported(record{})

// samples are a record of each kind.
func samples() []record {
	s := ids.ShardID{Topic: ids.TopicID{1, 2, 3, 15: 9}, Partition: 70_000}
	return []record{
		{kind: kindMark, shard: s, mark: Mark{End: 1 << 40, Segment: 1 << 39, Bytes: 1 << 30, Headers: 0xdeadbeef}, synced: 77},
		{kind: kindStart, shard: s, offset: 1 << 50},
		{kind: kindFloor, shard: s, offset: 5, synced: 1 << 40},
		{kind: kindPromise, shard: s, epoch: 12, leader: "node-1"},
		{kind: kindPromise, shard: s, epoch: -1, leader: ""},
		{kind: kindPromise, shard: s, epoch: 1 << 30, leader: ids.NodeID(strings.Repeat("n", 255))},
		{kind: kindForget, shard: ids.ShardID{Topic: s.Topic}},
		{kind: kindSyncFailed, shard: s},
		{kind: kindClean},
		{kind: kindOpened},
		{kind: kindSynced, synced: 4711},
		{kind: kindUnknownMarks},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	var all []byte
	for _, want := range samples() {
		b := appendRecord([]byte("prefix"), want)[6:]
		got, n, err := parseRecord(append(bytes.Clone(b), "more"...))
		if err != nil || n != len(b) {
			t.Fatalf("kind %d: %d of %d bytes, %v", want.kind, n, len(b), err)
		}
		if diff := cmp.Diff(want, got, allowRecord); diff != "" {
			t.Errorf("kind %d (-want +got):\n%s", want.kind, diff)
		}
		for cut := range b {
			if _, _, err := parseRecord(b[:cut]); !errors.Is(err, errShort) {
				t.Fatalf("kind %d cut to %d bytes: %v", want.kind, cut, err)
			}
		}
		for at := range b {
			bad := bytes.Clone(b)
			bad[at] ^= 1 << (at % 8)
			if _, _, err := parseRecord(bad); err == nil {
				t.Fatalf("kind %d: flip at byte %d passes", want.kind, at)
			}
		}
		all = append(all, b...)
	}
	for _, want := range samples() { // back to back
		got, n, err := parseRecord(all)
		if err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		all = all[n:]
	}
}

// TestRecordsThatLie have a right checksum and wrong content.
func TestRecordsThatLie(t *testing.T) {
	tests := []struct {
		name string
		lie  func(b []byte) []byte
		want error
	}{
		{"unknown_kind", func(b []byte) []byte { b[6] = 99; return b }, errUnknown},
		{"reserved_byte", func(b []byte) []byte { b[7] = 1; return b }, errUnknown},
		{"too_long", func(b []byte) []byte { b[4], b[5] = 0xff, 0xff; return append(b, make([]byte, 1<<16)...) }, errDamaged},
		{"short_payload", func(b []byte) []byte { b[5]--; return b[:len(b)-1] }, errDamaged},
		{"long_payload", func(b []byte) []byte { b[5]++; return append(b, 0) }, errDamaged},
		{"negative_synced", func(b []byte) []byte { b[8] = 0x80; return b }, errDamaged},
	}
	for _, tc := range tests {
		for _, r := range samples()[:4] {
			b := tc.lie(appendRecord(nil, r))
			head := bytes.Clone(b)
			rechecksumRecord(head)
			if _, _, err := parseRecord(head); !errors.Is(err, tc.want) {
				t.Errorf("%s of kind %d: %v, want %v", tc.name, r.kind, err, tc.want)
			}
		}
	}
	long := appendRecord(nil, record{kind: kindPromise, leader: "node"})
	long[recordHeader+24] = 200 // a node id longer than the payload
	rechecksumRecord(long)
	if _, _, err := parseRecord(long); !errors.Is(err, errDamaged) {
		t.Errorf("a node id longer than its record: %v", err)
	}
}

// rechecksumRecord makes the checksum of one record right.
func rechecksumRecord(b []byte) {
	file := append(make([]byte, headerBytes), b...)
	rechecksum(file)
	copy(b, file[headerBytes:])
}

func TestHeaderRoundTrip(t *testing.T) {
	want := fileHeader{seq: 1 << 40, checkpoint: 12345}
	b := appendHeader(nil, want)
	if len(b) != headerBytes {
		t.Fatalf("%d bytes", len(b))
	}
	if got, err := parseHeader(b); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for at := range b {
		bad := bytes.Clone(b)
		bad[at] ^= 2
		if _, err := parseHeader(bad); err == nil {
			t.Errorf("flip at byte %d passes", at)
		}
	}
	for n := range b {
		if _, err := parseHeader(b[:n]); !errors.Is(err, errHeader) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	flags := bytes.Clone(b)
	flags[11] = 1
	rechecksum(flags)
	if _, err := parseHeader(flags); !errors.Is(err, errVersion) {
		t.Errorf("unknown flags: %v", err)
	}
	small := appendHeader(nil, fileHeader{seq: 1, checkpoint: 3})
	if _, err := parseHeader(small); !errors.Is(err, errHeader) {
		t.Errorf("a checkpoint inside the header: %v", err)
	}
}

// TestReplayTells: which damage is a torn end and which is not.
func TestReplayTells(t *testing.T) {
	record := func(synced int64, floor ids.Offset) []byte {
		return appendRecord(nil, record{kind: kindFloor, shard: shard(1), offset: floor, synced: synced})
	}
	head := appendHeader(nil, fileHeader{seq: 3, checkpoint: headerBytes})
	one := int64(len(record(0, 0)))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	broken := func(b []byte) []byte { c := bytes.Clone(b); c[20] ^= 1; return c }
	tests := []struct {
		name  string
		file  []byte
		good  int64 // -1 for a refusal
		floor ids.Offset
	}{
		{"nothing", head, headerBytes, 0},
		{"two", join(head, record(0, 1), record(0, 2)), headerBytes + 2*one, 2},
		{"torn_last", join(head, record(0, 1), record(0, 2)[:30]), headerBytes + one, 1},
		{"broken_last", join(head, record(0, 1), broken(record(0, 2))), headerBytes + one, 1},
		{"broken_then_good_that_knows_nothing", join(head, broken(record(0, 1)), record(0, 2)), headerBytes, 0},
		{"broken_then_good_that_knows_better", join(head, broken(record(0, 1)), record(headerBytes+one, 2)), -1, 0},
		{"good_that_knows_more_than_there_is", join(head, record(headerBytes+9*one, 1)), headerBytes, 0},
		{"cut_below_what_was_synced", join(head, record(0, 1), record(headerBytes+one, 2))[:headerBytes+one-3], headerBytes, 0},
		{"zeros_behind", join(head, record(0, 1), make([]byte, 900)), headerBytes + one, 1},
		{"wrong_number", join(appendHeader(nil, fileHeader{seq: 4, checkpoint: headerBytes}), record(0, 1)), -1, 0},
		{"checkpoint_is_cut", join(appendHeader(nil, fileHeader{seq: 3, checkpoint: headerBytes + 2*one}), record(0, 1)), -1, 0},
		{"checkpoint_is_broken", join(appendHeader(nil, fileHeader{seq: 3, checkpoint: headerBytes + 2*one}), record(0, 1), broken(record(0, 2))), -1, 0},
		{"unknown_kind_is_no_torn_end", join(head, func() []byte {
			b := record(0, 1)
			b[6] = 77
			rechecksumRecord(b)
			return b
		}()), -1, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			st := newState(true)
			good, err := replay("file", tc.file, 3, st)
			var d *DamageError
			if tc.good < 0 {
				if !errors.As(err, &d) || d.File != "file" {
					t.Fatalf("%d, %v; want a refusal", good, err)
				}
				return
			}
			if err != nil || good != tc.good {
				t.Fatalf("%d, %v; want %d", good, err, tc.good)
			}
			if floor := st.slot(shard(1)).Floor; floor != tc.floor {
				t.Errorf("floor %d, want %d", floor, tc.floor)
			}
		})
	}
}
