package wire

// Mapping is how the hash of a key becomes a shard number.
type Mapping uint8

// The mappings. A stream keeps the one it was made with; caches and counters always have MappingModulo.
const (
	MappingModulo   Mapping = 0 // "modulo"
	MappingJumpHash Mapping = 1 // "jump_hash"
)

var mappingNames = [...]string{"modulo", "jump_hash"}

// String is the name on the wire.
func (m Mapping) String() string {
	if int(m) < len(mappingNames) {
		return mappingNames[m]
	}
	return "unknown"
}

// ShardOf is the shard of a key among n shards: shard 0 if there is no key (nil; an empty one is hashed) or at most one shard. Client
// and server must agree on it for ever. Source: spec/felix-wire.md 6.
func ShardOf(key []byte, n uint32, m Mapping) uint32 {
	if key == nil || n <= 1 {
		return 0
	}
	if m == MappingJumpHash {
		return jump(KeyHash(key), n)
	}
	return uint32(KeyHash(key) % uint64(n))
}

// KeyHash is the hash that keys are routed by: 64-bit FNV-1a and a finalizer.
func KeyHash(key []byte) uint64 { return finalize(fnv1a(key)) }

func fnv1a(key []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range key {
		h = (h ^ uint64(c)) * 0x00000100000001b3
	}
	return h
}

// finalize spreads the hash: FNV's low bits alone, which modulo takes, depend too little on the front of a key.
func finalize(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// jump is Lamping and Veach's jump consistent hash for n > 0. The division comes first and is of doubles: that is part of the promise.
func jump(h uint64, n uint32) uint32 {
	b, j := int64(-1), int64(0)
	for j < int64(n) {
		b = j
		h = h*2862933555777941757 + 1
		step := float64(1<<31) / float64(h>>33+1)
		j = int64(float64(b+1) * step)
	}
	return uint32(b)
}
