package groups

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/felixlog/felix/internal/ids"
)

func testGroupRecord() *groupRecord {
	return &groupRecord{
		Generation: 7, ProtocolType: "consumer", Protocol: "range", Leader: "m1", ChangedAt: 1_700_000_000_000,
		Members: []memberRecord{
			{ID: "m1", InstanceID: "i", ClientID: "c", ClientHost: "/10.0.0.1", SessionTimeoutMs: 10000, RebalanceTimeoutMs: 300000, Subscription: []byte("s"), Assignment: []byte{0, 1}},
			{ID: "m2", Subscription: []byte{}, Assignment: []byte{}},
		},
	}
}

func TestGroupValue(t *testing.T) {
	for _, want := range []*groupRecord{testGroupRecord(), {Generation: -1}, {Generation: 3, ProtocolType: "connect", ChangedAt: 5}} {
		b := appendGroupValue(nil, want)
		got, err := parseGroupValue(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for n := range len(b) {
			if _, err := parseGroupValue(b[:n]); !errors.Is(err, errBadRecord) {
				t.Errorf("%d of %d bytes: %v", n, len(b), err)
			}
		}
		if _, err := parseGroupValue(append(bytes.Clone(b), 0)); !errors.Is(err, errBadRecord) {
			t.Errorf("a byte too many: %v", err)
		}
	}
}

// TestRecordBytes pins the format: what is written here is read by later releases.
func TestRecordBytes(t *testing.T) {
	tests := []struct {
		name      string
		got, want []byte
	}{
		{"group_key", appendGroupKey(nil, Key{Tenant: "t", Group: "gr"}), []byte("\x01\x01\x01t\x02gr")},
		{"group_key_of_an_incarnation", appendGroupKey(nil, Key{Tenant: "t", Group: "gr", Incarnation: 300}), []byte("\x02\x01\x01t\x02gr\xac\x02")},
		{
			"offset_key", appendOffsetKey(nil, Key{Tenant: "t", Group: "gr"}, ids.TopicID{0xaa, 15: 0xbb}, 258),
			[]byte("\x01\x02\x01t\x02gr\xaa\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xbb\x00\x00\x01\x02"),
		},
		{"offset_value", appendOffsetValue(nil, &offset{at: 1, leaderEpoch: -1, committedAt: 64}), []byte{1, 2, 1, 0x80, 1, 1, 0}},
		{
			"offset_value_in_full", appendOffsetValue(nil, &offset{at: 2, leaderEpoch: 3, committedAt: 4, extra: &offsetExtra{"m", 5}}),
			[]byte{1, 4, 6, 8, 10, 1, 'm'},
		},
		{
			"group_value", appendGroupValue(nil, &groupRecord{Generation: 1, ProtocolType: "p", Protocol: "q", Leader: "l", ChangedAt: 2, Members: []memberRecord{
				{ID: "l", InstanceID: "i", ClientID: "c", ClientHost: "h", SessionTimeoutMs: 3, RebalanceTimeoutMs: 4, Subscription: []byte("s"), Assignment: []byte("a")},
			}}),
			[]byte("\x01\x02\x01p\x01q\x01l\x04\x01\x01l\x01i\x01c\x01h\x06\x08\x01s\x01a"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !bytes.Equal(tt.got, tt.want) {
				t.Errorf("got %x, want %x", tt.got, tt.want)
			}
		})
	}
}

func TestOffsetValue(t *testing.T) {
	for _, want := range []offset{
		{at: 0, leaderEpoch: -1},
		{at: 1 << 60, committedAt: 1_700_000_000_000, leaderEpoch: 9},
		{at: -1, leaderEpoch: 0, extra: &offsetExtra{metadata: "x", expiresAt: -1}},
		{at: 5, extra: &offsetExtra{expiresAt: 77}},
	} {
		b := appendOffsetValue(nil, &want)
		got, err := parseOffsetValue(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(offset{}, offsetExtra{})); diff != "" {
			t.Error(diff)
		}
		for n := range len(b) {
			if _, err := parseOffsetValue(b[:n]); !errors.Is(err, errBadRecord) {
				t.Errorf("%d of %d bytes: %v", n, len(b), err)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	topic := ids.TopicID{9, 8, 7}
	k, err := parseKey(appendOffsetKey(nil, testKey, topic, 5))
	if err != nil || k.kind != kindOffset || k.topic != topic || k.partition != 5 {
		t.Fatalf("key: %+v, %v", k, err)
	}
	if got, err := parseGroupID(k.groupID); err != nil || got != testKey {
		t.Errorf("group: %+v, %v", got, err)
	}
	k, err = parseKey(appendOffsetKey(nil, again, topic, 5))
	if got, bad := parseGroupID(k.groupID); err != nil || bad != nil || got != again || k.topic != topic || k.partition != 5 {
		t.Errorf("key of an incarnation: %+v of %+v, %v, %v", k, got, err, bad)
	}
	tests := []struct {
		name string
		in   []byte
		want error
	}{
		{"empty", nil, errBadRecord},
		{"version_alone", []byte{1}, errBadRecord},
		{"later_version", []byte{3, 1, 0, 0}, errNewerRecord},
		{"no_incarnation", []byte{2, 1, 0, 0}, errBadRecord},
		{"incarnation_of_none", []byte{2, 1, 0, 0, 0}, errBadRecord},
		{"long_incarnation", []byte{2, 1, 0, 0, 0x81, 0}, errBadRecord},
		{"tail_behind_the_incarnation", []byte{2, 1, 0, 0, 1, 0}, errBadRecord},
		{"unknown_kind", []byte{1, 9, 0, 0}, errNewerRecord},
		{"no_group", []byte{1, 1, 0}, errBadRecord},
		{"length_beyond_the_end", []byte{1, 1, 200, 1, 'x'}, errBadRecord},
		{"group_with_a_tail", []byte{1, 1, 0, 0, 0}, errBadRecord},
		{"offset_without_a_topic", []byte{1, 2, 0, 0}, errBadRecord},
		{"negative_partition", appendOffsetKey(nil, testKey, topic, -1), errBadRecord},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := parseKey(tt.in); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add(appendGroupKey(nil, testKey))
	f.Add(appendOffsetKey(nil, testKey, topicA, 3))
	f.Add(appendGroupKey(nil, again))
	f.Add(appendOffsetKey(nil, again, topicA, 3))
	f.Add([]byte{1, 2, 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := parseKey(b)
		if err != nil {
			return
		}
		group, err := parseGroupID(k.groupID)
		if err != nil {
			t.Fatalf("the group of a good key: %v", err)
		}
		again := appendGroupKey(nil, group)
		if k.kind == kindOffset {
			again = appendOffsetKey(nil, group, k.topic, k.partition)
		}
		// Lengths may be written longer than need be; what was read must come out the same.
		if k2, err := parseKey(again); err != nil || k2.kind != k.kind || k2.topic != k.topic || k2.partition != k.partition {
			t.Fatalf("%+v, then %+v, %v", k, k2, err)
		}
	})
}

func FuzzParseGroupValue(f *testing.F) {
	f.Add(appendGroupValue(nil, testGroupRecord()))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parseGroupValue(b)
		if err != nil {
			return
		}
		again, err := parseGroupValue(appendGroupValue(nil, g))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(g, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParseOffsetValue(f *testing.F) {
	f.Add(appendOffsetValue(nil, &offset{at: 1, leaderEpoch: 2, committedAt: 3, extra: &offsetExtra{"m", 4}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOffsetValue(b)
		if err != nil {
			return
		}
		again, err := parseOffsetValue(appendOffsetValue(nil, &o))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(o, again, cmp.AllowUnexported(offset{}, offsetExtra{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzReplayRecord: no record makes a load panic, and what one leaves behind can be counted.
func FuzzReplayRecord(f *testing.F) {
	key, value := appendOffsetKey(nil, testKey, topicA, 3), appendOffsetValue(nil, &offset{at: 1})
	f.Add(key, value)
	f.Add(key, []byte(nil))
	f.Add(appendGroupKey(nil, testKey), appendGroupValue(nil, testGroupRecord()))
	f.Fuzz(func(t *testing.T, k, v []byte) {
		r := newReplay()
		_ = r.record(key, value)
		_ = r.record(k, v)
		_ = r.end()
		total, counted := 0, 0
		for _, l := range r.groups {
			total += len(l.offsets)
		}
		for _, n := range r.topics.counts {
			counted += n
		}
		if total != counted {
			t.Fatalf("%d offsets, %d counted", total, counted)
		}
	})
}

func FuzzParseSubscription(f *testing.F) {
	f.Add(subscription("a", "bc"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		parseSubscription(b, func([]byte) {})
	})
}
