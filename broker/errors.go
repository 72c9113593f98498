package broker

import "github.com/felixlog/felix/internal/errcode"

var (
	// ErrUnknownShard is for a partition index that the topic does not have.
	ErrUnknownShard = errcode.New(errcode.UnknownShard, "broker: no such partition")
	// ErrNoLeader is for a shard that nobody leads now.
	ErrNoLeader = errcode.New(errcode.NoLeader, "broker: the shard has no leader")
	// ErrClosed is for verbs on a broker that is closing.
	ErrClosed = errcode.New(errcode.NotLeader, "broker: closing")
	// ErrDraining is for publishes that a closing broker does not write.
	ErrDraining = errcode.New(errcode.Draining, "broker: closing, nothing was written")
	// ErrNotEnoughReplicas is for acks=all when fewer replicas are in sync than min.insync.replicas asks for.
	ErrNotEnoughReplicas = errcode.New(errcode.NotEnoughReplicas, "broker: fewer replicas in sync than min.insync.replicas")
	// ErrInternal is for publishing to a topic that the server keeps for itself.
	ErrInternal = errcode.New(errcode.InvalidTopic, "broker: the topic is internal to the server")
	// ErrTransactional is for transactional batches, which are not served yet.
	ErrTransactional = errcode.New(errcode.UnauthorizedTransactionalID, "broker: transactions are not served")
	// ErrNativeProducer is for a Kafka batch with a producer id of those that native clients get.
	ErrNativeProducer = errcode.New(errcode.UnknownProducerID, "broker: the producer id is not one of Kafka's")
	// ErrEphemeral is for what needs a log on a stream that has none.
	ErrEphemeral = errcode.New(errcode.InvalidRequest, "broker: the stream is ephemeral, it has no log")
	// ErrEmptyBatch is for a publish without records.
	ErrEmptyBatch = errcode.New(errcode.InvalidRequest, "broker: the batch is empty")
	// ErrUnknownTenant is for a tenant that this node's image does not have.
	ErrUnknownTenant = errcode.New(errcode.UnknownShard, "broker: no such tenant")
	// ErrUnknownNamespace is for a namespace that the tenant does not have.
	ErrUnknownNamespace = errcode.New(errcode.UnknownShard, "broker: no such namespace")
	// ErrUnknownStream is for a stream that the namespace does not have.
	ErrUnknownStream = errcode.New(errcode.UnknownShard, "broker: no such stream")
	// ErrUnacknowledged is for a publish that was written and whose commit nobody waits for any more.
	ErrUnacknowledged = errcode.New(errcode.Unacknowledged, "broker: written, but not committed in time")
	// ErrQuorumTimeout is for a publish that was written and that no majority confirmed in time.
	ErrQuorumTimeout = errcode.New(errcode.QuorumTimeout, "broker: written, but no majority confirmed it in time")
)
