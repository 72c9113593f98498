// Package load is the client side of the benchmarks. It runs in a process of its own, one per trial: it reads a Spec as JSON
// from its standard input, prints a line "begin" when the measured part starts, and at the end one line with a Result. It reads
// the server's processor time itself, at the two ends of the measured part.
package load

import (
	"fmt"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/disk"
	"github.com/felixlog/felix/compat/bench/internal/hist"
)

// Kinds of load.
const (
	Produce = "produce" // as fast as possible, asynchronously
	Consume = "consume" // read everything from offset 0, as fast as possible
	Sync    = "sync"    // each worker waits for the answer of each record
	Latency = "latency" // open loop, from intended send time to delivery
	Sustain = "sustain" // open loop at a rate, produced and consumed for a time
	Cold    = "cold"    // consume files dropped from the page cache beside an open-loop producer
	Stable  = "stable"  // members of a group that begin at once, until each has its share
	Commit  = "commit"  // open loop of commits of offsets by many groups of one member
	// Of native and NATS clients; Spec.Bus says whose.
	Deliver = "deliver" // open loop of single records, from intended send time to each subscriber
	Fanout  = "fanout"  // batches as fast as the slowest subscriber takes them
	Ingest  = "ingest"  // batches as fast as they are taken, without subscribers
	Singles = "singles" // single records, each answered, with a window of them under way
	Hold    = "hold"    // connections, streams and subscriptions that do nothing
)

// Spec is one load. Which fields count depends on Kind; zero values are the client's defaults unless said otherwise.
type Spec struct {
	Kind   string `json:"kind"`
	Client string `json:"client"` // "franz" or "confluent"
	Broker string `json:"broker"`
	// ServerPID is the process whose processor time is read.
	ServerPID int `json:"server_pid"`
	// Metrics is where the server has its profiles; empty for none.
	Metrics string `json:"metrics,omitempty"`
	Topic   string `json:"topic"`
	// Topics, if above 1, spreads a Produce load in turn over that many topics: see TopicNames.
	Topics int `json:"topics,omitempty"`
	// Partitions of each topic.
	Partitions  int    `json:"partitions"`
	RecordBytes int    `json:"record_bytes"`
	Codec       string `json:"codec"` // none or lz4
	Acks        int    `json:"acks"`  // 0, 1, -1
	Idempotent  bool   `json:"idempotent"`
	LingerMS    int    `json:"linger_ms"`
	BatchBytes  int    `json:"batch_bytes"`
	InFlight    int    `json:"in_flight"` // produce requests a connection, or workers a producer for Sync
	Producers   int    `json:"producers"` // client objects; default 1
	Consumers   int    `json:"consumers"` // client objects; default 1
	// Spread says which partition a record goes to: "" the client's own choice, "own" producer i to partition i, "turn" a whole
	// batch to each partition in turn, "each" every partition in turn by record.
	Spread string `json:"spread"`
	// WarmBytes and Bytes are record bytes before and in the measured part; for Consume they count per consumer.
	WarmBytes int64 `json:"warm_bytes"`
	Bytes     int64 `json:"bytes"`
	// WarmSeconds and Seconds bound the same parts by time; zero is no bound.
	WarmSeconds float64 `json:"warm_seconds"`
	Seconds     float64 `json:"seconds"`
	// PassBytes is what one pass over the topic holds: a consumer starts again at offset 0 after it.
	PassBytes int64   `json:"pass_bytes"`
	Rate      float64 `json:"rate"` // records a second, all producers together
	// Files are the data files that Cold evicts, and SideTopic takes its producer's records.
	Files     []disk.File `json:"files,omitempty"`
	SideTopic string      `json:"side_topic"`
	// Members of the one group of a round of Stable, and groups of Commit.
	Members int `json:"members,omitempty"`
	Groups  int `json:"groups,omitempty"`
	// Balancer of Stable: "range", which is eager, or "cooperative-sticky".
	Balancer    string `json:"balancer,omitempty"`
	HeartbeatMS int    `json:"heartbeat_ms,omitempty"`
	// WarmRounds and Rounds are the rounds of Stable before and in the measured part.
	WarmRounds int `json:"warm_rounds,omitempty"`
	Rounds     int `json:"rounds,omitempty"`
	// WarmRate is the rate of Commit before the measured part.
	WarmRate float64 `json:"warm_rate,omitempty"`
	// Env is added to the client's environment.
	Env []string `json:"-"`
	// Bus is meant by the kinds of native and NATS clients.
	Bus *BusSpec `json:"bus,omitempty"`
}

// TopicNames are the topics of a load: Topic itself, or Topic with numbers when there are several.
func (s *Spec) TopicNames() []string {
	if s.Topics <= 1 {
		return []string{s.Topic}
	}
	names := make([]string, s.Topics)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", s.Topic, i)
	}
	return names
}

// Quantiles are latencies in milliseconds.
type Quantiles struct {
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
	Count int64   `json:"count"`
}

// QuantilesOf reads the quantiles of h.
func QuantilesOf(h *hist.Hist) Quantiles {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return Quantiles{ms(h.Quantile(0.5)), ms(h.Quantile(0.99)), ms(h.Quantile(0.999)), ms(h.Max()), h.Count()}
}

// Result is what a load measured. Records and Bytes count the measured part alone.
type Result struct {
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"` // of record values, uncompressed; of Deliver and Fanout those received
	// Deliveries are records received, all subscribers together.
	Deliveries int64   `json:"deliveries,omitempty"`
	WireBytes  int64   `json:"wire_bytes"` // written by or read by the client on its connections; 0 when the client does not say
	Batches    int64   `json:"batches"`    // written by the client; 0 when it does not say
	Seconds    float64 `json:"seconds"`
	ServerCPU  float64 `json:"server_cpu_s"`
	ClientCPU  float64 `json:"client_cpu_s"`
	// OtherCPU is what everything else on the machine used meanwhile, time stolen by the host included: the noise of the trial.
	OtherCPU float64 `json:"other_cpu_s"`
	// AllRecords counts the records of the whole run that the server acknowledged, warm-up included, for the check of the log's
	// end offsets.
	AllRecords int64      `json:"all_records"`
	Ack        *Quantiles `json:"ack,omitempty"`  // from the intended send time to the acknowledgement
	End        *Quantiles `json:"end,omitempty"`  // from the intended send time to the consumer
	Base       *Quantiles `json:"base,omitempty"` // Ack of the part without disturbance
	// Resident is the part of the evicted files that stayed in the page cache.
	Resident float64 `json:"resident,omitempty"`
	// RSS are samples of the server's resident memory in bytes, one a second.
	RSS []int64 `json:"rss,omitempty"`
	// RoundMS are the times to stable of the measured rounds, in order, and Generations the generation that each ended in.
	RoundMS     []float64 `json:"round_ms,omitempty"`
	Generations []int32   `json:"generations,omitempty"`
	// Held is the server's memory at each step of Hold.
	Held []Held `json:"held,omitempty"`
}
