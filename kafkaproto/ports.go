package kafkaproto

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/felixlog/felix/broker"
	"github.com/felixlog/felix/groups"
	"github.com/felixlog/felix/internal/cluster"
	"github.com/felixlog/felix/internal/ids"
)

// Caller is who sends requests on a connection; see broker.Caller.
type Caller = broker.Caller

// Identity is what a credential proves.
type Identity struct {
	Caller Caller
	// Expires is when the credential ends; zero means never. Clients are told, and connections that do not authenticate
	// again before then are closed (KIP-368).
	Expires time.Time
	// CheckCertificate refuses the certificate of a client (nil when it showed none) that is not the principal's, with an error of
	// kind AuthenticationFailed. nil asks for nothing. It is not called on a listener without TLS, where there is none to look at.
	CheckCertificate func(*x509.Certificate) error
}

// Verifier checks SASL credentials. Implementations are safe for concurrent use.
type Verifier interface {
	// VerifyPlain checks the user name and password of SASL PLAIN. The user name is the tenant of the credential: an identity of another
	// one is refused, and the caller's incarnation is that of the tenant for which the credential was checked. An error of kind AuthenticationFailed carries a reason
	// that the client may read; for every other error the client gets a general sentence and the error goes to the log.
	// Neither may contain the password.
	VerifyPlain(ctx context.Context, user, password string) (Identity, error)
}

// shard is what produce and fetch ask of one shard; *broker.Shard is the one in production.
type shard interface {
	CheckEpoch(known ids.LeaderEpoch) error
	Append(in broker.AppendInput) (broker.AppendResult, error)
	// Commit has what was appended made durable where that is what commits it; with now before it returns.
	Commit(now bool)
	waiting
	reading
}

// waiting is the part of a shard that tells when the high watermark reaches an offset.
type waiting interface {
	// Wait registers w and reports true, unless the high watermark is there already (false, nil) or never will be (false,
	// error). See replica.Waiter for the life of w.
	Wait(w *broker.Waiter) (bool, error)
	// CancelWait takes w back. False means that its Notify ran, runs or is about to.
	CancelWait(w *broker.Waiter) bool
}

// reading is the part of a shard that fetch reads from.
type reading interface {
	Bounds() broker.Bounds
	Read(from ids.Offset, maxBytes int, firstWhole bool, dst []broker.Chunk) ([]broker.Chunk, int, error)
	Available(from ids.Offset, limit int) int
	EndOfEpoch(e ids.LeaderEpoch) (ids.LeaderEpoch, ids.Offset)
}

// node is what the data path asks of the broker; see onBroker for the one in production.
type node interface {
	Image() *cluster.Image
	// Shard returns the open shard of a partition that this node leads.
	Shard(t *cluster.Topic, partition int32) (shard, error)
	// Published notes how long an acknowledged produce took.
	Published(took time.Duration)
	// DrawClientQuota takes bytes from what the quota of the caller's client allows, and returns how long the client is over it. With 0
	// bytes it only asks.
	DrawClientQuota(caller *Caller, client string, rate cluster.QuotaRate, bytes int) time.Duration
	// CreateTopic makes a topic as auto-creation does: durable, with the defaults of the broker. A topic that exists by
	// now is success.
	CreateTopic(ctx context.Context, caller *Caller, namespace, stream string) error
}

// Groups coordinates the groups of the shards that this node leads; *groups.Coordinator is the one in production, whose documentation
// is the contract. All calls may come from any goroutine. A done is called once, on any goroutine, possibly before the call
// returns, and never under a lock that a call takes.
type Groups interface {
	// ShardOf is the number of the internal shard that holds a group.
	ShardOf(k groups.Key) int32
	groupMembers
	groupOffsets
	groupTools
}

// groupMembers is what members ask.
type groupMembers interface {
	Join(r *groups.JoinRequest, done func(*groups.JoinResult))
	Sync(r *groups.SyncRequest, done func(*groups.SyncResult))
	Heartbeat(k groups.Key, member, instance string, generation int32) error
	Leave(k groups.Key, members []groups.Leaving, done func(err error, each []error))
}

// groupOffsets is what is asked about committed offsets. Topics are resolved and rights checked before.
type groupOffsets interface {
	Commit(r *groups.CommitRequest, done func(err error, each []error))
	Offset(k groups.Key, topic ids.TopicID, partition int32) (groups.CommittedOffset, bool, error)
	AllOffsets(k groups.Key) ([]groups.CommittedOffset, error)
	DeleteOffsets(k groups.Key, list []groups.TopicPartition, done func(err error, each []error))
}

// groupTools is what tools ask.
type groupTools interface {
	List(tenant string, incarnation uint64, yield func(groups.Overview) bool) error
	Describe(k groups.Key) (groups.Description, error)
	Delete(k groups.Key, done func(error))
}
