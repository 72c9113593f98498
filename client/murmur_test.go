package client

import "testing"

// TestMurmur checks the hash against values that Kafka's clients share.
func TestMurmur(t *testing.T) {
	for _, tc := range []struct {
		key  string
		hash int32
	}{
		{"21", -973932308},
		{"foobar", -790332482},
		{"a-little-bit-long-string", -985981536},
		{"a-little-bit-longer-string", -1486304829},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
		{"abc", 479470107},
	} {
		if got := int32(murmur2([]byte(tc.key))); got != tc.hash {
			t.Errorf("%s: got %d, want %d", tc.key, got, tc.hash)
		}
	}
	if got := KafkaShardOf([]byte("foobar"), 10); got != uint32((int64(-790332482)&0x7FFFFFFF)%10) {
		t.Errorf("got shard %d", got)
	}
}
