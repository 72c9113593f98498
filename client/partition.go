package client

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/felixlog/felix/felixproto/wire"
)

// Partitioner says how a publisher chooses the shard of records that name none.
type Partitioner uint8

const (
	// NativeHash sends a key to the shard that the native protocol maps it to, see Client.ShardOf, and records without a key to shard 0. It
	// is the default.
	NativeHash Partitioner = iota
	// Murmur2 sends a key to the partition that the default partitioners of Kafka's clients choose, see KafkaShardOf, so that a key lies on
	// one shard whoever writes it. Records without a key stay with one shard until a full batch of them (MaxBatchBytes or MaxBatchRecords)
	// has gone there, and with another one, chosen at random, after that: Kafka's rule too (KIP-794). The server must support publishes
	// that name their shard. Such publishes travel as JSON, a third larger than others.
	Murmur2
)

// sticky chooses the shards of records without a key, for Murmur2.
type sticky struct {
	mu             sync.Mutex
	shard          uint32 // guarded by mu
	bytes, records int    // guarded by mu: what may still go there
}

// take chooses the shard of so many records of so many bytes, lengths included.
func (s *sticky) take(shards uint32, bytes, records int, o *PublisherOptions) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes < bytes || s.records < records || s.shard >= shards {
		s.shard, s.bytes, s.records = rand.Uint32N(shards), o.MaxBatchBytes, o.MaxBatchRecords
	}
	s.bytes -= bytes
	s.records -= records
	return s.shard
}

// routeAge is after what time a publisher looks again how many shards there are, if nothing else makes it look: named shards stay where
// they are when a stream grows, so no refusal tells of it. Kafka's clients take as long.
const routeAge = 5 * time.Minute

// unansweredAge is the same of a publisher that gets no answers: no refusal tells it that a shard has moved.
const unansweredAge = 20 * time.Second

// shardFrameOverhead bounds what the JSON of a publish has beside names, key and payloads.
const shardFrameOverhead = 512

// shardFrameRoom is how many bytes the JSON of payloads may take in one frame under a key. A byte of a name may take six.
func (p *Publisher) shardFrameRoom(key []byte) int { return p.c.messageRoom(p.stream, key) }

// messageRoom is how many bytes a message about a stream may have beside its names and a key.
func (c *Client) messageRoom(s Stream, key []byte) int {
	names := len(c.cfg.Tenant) + len(s.Namespace) + len(s.Name)
	return wire.DefaultMaxFrameBytes - shardFrameOverhead - 6*names - (4*len(key)/3 + 4)
}

// jsonBytes bounds the JSON of so many payloads that take so many bytes with their lengths: base64, two quotes and a comma each.
func jsonBytes(encoded, count int) int {
	if encoded > math.MaxInt/4 {
		return math.MaxInt
	}
	return 4*encoded/3 + count + 1
}

// errShardNotTaken says that a server would ignore the shard that a publish names, and put it elsewhere.
var errShardNotTaken = &Error{Code: CodeUnsupported, Class: ClassFatal, Message: "the server takes no requests that name their shard"}

func errNoShard(s Stream) error {
	return &Error{Code: CodeInvalidRequest, Class: ClassFatal, Message: "the stream " + s.String() + " has no such shard"}
}
