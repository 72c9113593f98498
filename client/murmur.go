package client

import "encoding/binary"

// KafkaShardOf is the partition, of a topic with so many, to which Kafka's own producers send a key: murmur2, as their default partitioners
// have it. It tells which shard to read for a key that a Kafka client wrote, or a publisher with Murmur2. Native publishes go by the native
// hash otherwise, see Client.ShardOf. shards must be above 0.
func KafkaShardOf(key []byte, shards int) uint32 {
	return (murmur2(key) & 0x7FFFFFFF) % uint32(shards)
}

// murmur2 is Austin Appleby's hash with Kafka's seed.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747B28C
		m    = 0x5BD1E995
		r    = 24
	)
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
