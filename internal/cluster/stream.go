package cluster

import (
	"fmt"
	"strconv"

	"github.com/felixlog/felix/internal/errcode"
)

// StreamKind is what a stream was declared to be. It is recorded and shown, and has no effect: any durable stream can be read as a
// queue. The numbers are stored.
type StreamKind uint8

// The kinds.
const (
	KindStream StreamKind = 0
	KindQueue  StreamKind = 1
)

// String is the word of the control API.
func (k StreamKind) String() string { return wordOf(streamKinds, k) }

var streamKinds = []string{KindStream: "Stream", KindQueue: "Queue"}

// ParseStreamKind reads the word that String writes.
func ParseStreamKind(s string) (StreamKind, error) {
	return parseWord[StreamKind]("kind", streamKinds, s)
}

// Delivery is the guarantee that a stream was declared with. It is recorded and shown, and has no effect: the guarantee follows from
// whether the stream is durable and from the way of reading. The numbers are stored.
type Delivery uint8

// The guarantees.
const (
	AtLeastOnce Delivery = 0
	AtMostOnce  Delivery = 1
)

// String is the word of the control API.
func (d Delivery) String() string { return wordOf(deliveries, d) }

var deliveries = []string{AtLeastOnce: "AtLeastOnce", AtMostOnce: "AtMostOnce"}

// ParseDelivery reads the word that String writes.
func ParseDelivery(s string) (Delivery, error) { return parseWord[Delivery]("delivery", deliveries, s) }

// Routing maps the hash of a record's key to a shard. It is fixed for a stream's life. The numbers are stored.
type Routing uint8

// The mappings.
const (
	RoutingModulo   Routing = 0 // hash % shards
	RoutingJumpHash Routing = 1 // jump consistent hash of the same hash
)

// String is the word of the control API.
func (r Routing) String() string { return wordOf(routings, r) }

var routings = []string{RoutingModulo: "modulo", RoutingJumpHash: "jump_hash"}

// ParseRouting reads the word that String writes.
func ParseRouting(s string) (Routing, error) { return parseWord[Routing]("routing", routings, s) }

func wordOf[T ~uint8](words []string, v T) string {
	if int(v) < len(words) {
		return words[v]
	}
	return "unknown"
}

// parseWord finds a word in a closed set. An unknown one is an error, never the default.
func parseWord[T ~uint8](what string, words []string, s string) (T, error) {
	for i, w := range words {
		if w == s {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("unknown %s %.64q: %s", what, s, orList(words))
}

func orList(words []string) string {
	text := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			text += " or " + w
		} else {
			text += ", " + w
		}
	}
	return text
}

// Limits of native streams. The state machine enforces them.
const (
	MaxStreamShards   = 1024
	MaxStreamReplicas = 7
	MaxCreateStreams  = 256 // streams of one command
)

// The topic configurations behind what a native stream calls by other names.
const (
	configRetentionMs    = "retention.ms"
	configRetentionBytes = "retention.bytes"
	configConsistency    = "felix.consistency"
)

// Retention bounds what each shard of a stream keeps. 0 leaves a bound to the broker.
type Retention struct {
	Ms    int64
	Bytes int64
}

// Retention is what was set for this stream. A bound that was set to "unlimited" through Kafka's tools shows as -1.
func (t *Topic) Retention() Retention {
	return Retention{Ms: overrideNumber(t.Overrides, configRetentionMs), Bytes: overrideNumber(t.Overrides, configRetentionBytes)}
}

// overrideNumber reads a number that CanonicalOverrides wrote, 0 when it is not set.
func overrideNumber(overrides map[string]string, name string) int64 {
	v, err := strconv.ParseInt(overrides[name], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// Apply sets the bounds in overrides, and removes those that are left to the broker.
func (r Retention) Apply(overrides map[string]string) {
	setNumber(overrides, configRetentionMs, r.Ms)
	setNumber(overrides, configRetentionBytes, r.Bytes)
}

func setNumber(overrides map[string]string, name string, v int64) {
	if v == 0 {
		delete(overrides, name)
	} else {
		overrides[name] = strconv.FormatInt(v, 10)
	}
}

// SetConsistency sets the level in overrides.
func SetConsistency(overrides map[string]string, c Consistency) {
	overrides[configConsistency] = c.String()
}

// NewStream is one native stream to make.
type NewStream struct {
	TopicRef // ID: drawn by the proposer, must be unused. The tenant and the namespace must exist

	Kind              StreamKind
	Shards            int32 // 1 to MaxStreamShards, fixed for life
	ReplicationFactor int16 // 1 to MaxStreamReplicas, leader included, fixed for life
	Durable           bool  // false: in memory alone
	Consistency       Consistency
	Delivery          Delivery
	Retention         Retention
	Region            string // "" anywhere
	Routing           Routing
	AnyRouting        bool // nobody asked for Routing: a stream that exists may have another
}

// CreateStreams makes native streams, all or none. A stream that exists as asked stays as it is and is Unchanged in the result; one
// that exists otherwise fails the command. When any item fails nothing is made, and the items that would have been made fail with
// OperationNotAttempted.
type CreateStreams struct {
	Streams []NewStream // at most MaxCreateStreams
}

// UpdateStream changes one stream, wholly or not at all. Nil fields stay as they are. A change of Durable is refused with a
// ConflictError: no cursor into memory may survive into a log.
type UpdateStream struct {
	Stream      TopicRef
	Retention   *Retention // in place of both bounds
	Consistency Consistency
	Delivery    *Delivery
	Durable     *bool
}

// DeleteNamespace removes a namespace with every stream in it.
type DeleteNamespace struct {
	Tenant string
	Name   string
}

// DeleteTenant removes a tenant with everything in it: namespaces, streams, signing keys, client quotas.
type DeleteTenant struct {
	Name string
	// Uncounted is read from logs of before there were incarnations, and never asked for: the deletion gives later tenants no incarnation,
	// so what was stored under those tenants stays theirs, as it does from a snapshot of that time.
	Uncounted bool
}

func (CreateStreams) command()   {}
func (UpdateStream) command()    {}
func (DeleteNamespace) command() {}
func (DeleteTenant) command()    {}

// ConflictError says that a command contradicts what is stored. Code is the stable word that programs of the control API see.
type ConflictError struct {
	Code string
	Text string
}

// The codes of conflicts.
const (
	ConflictExists          = "exists"           // it exists with another configuration
	ConflictDurabilityFixed = "durability_fixed" // whether a stream is durable cannot change
	ConflictSigningKey      = "signing_key"      // the key signs, so it cannot go
	ConflictTooManyKeys     = "too_many_keys"    // retire one first
	ConflictInitialized     = "already_initialized"
)

// Conflictf makes a ConflictError.
func Conflictf(code, format string, args ...any) *ConflictError {
	return &ConflictError{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Error is the sentence.
func (e *ConflictError) Error() string { return e.Text }

// Kind is PolicyViolation, except for what exists.
func (e *ConflictError) Kind() errcode.Kind {
	if e.Code == ConflictExists {
		return errcode.TopicExists
	}
	return errcode.PolicyViolation
}
