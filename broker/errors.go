package broker

import "github.com/felixlog/felix/internal/errcode"

var (
	// ErrUnknownShard is for a partition index that the topic does not have.
	ErrUnknownShard = errcode.New(errcode.UnknownShard, "broker: no such partition")
	// ErrNoLeader is for a shard that nobody leads now.
	ErrNoLeader = errcode.New(errcode.NoLeader, "broker: the shard has no leader")
	// ErrClosed is for verbs on a broker that is closing.
	ErrClosed = errcode.New(errcode.NotLeader, "broker: closing")
	// ErrNotEnoughReplicas is for acks=all when fewer replicas are in sync than min.insync.replicas asks for.
	ErrNotEnoughReplicas = errcode.New(errcode.NotEnoughReplicas, "broker: fewer replicas in sync than min.insync.replicas")
	// ErrInternal is for publishing to a topic that the server keeps for itself.
	ErrInternal = errcode.New(errcode.InvalidTopic, "broker: the topic is internal to the server")
	// ErrTransactional is for transactional batches, which are not served yet.
	ErrTransactional = errcode.New(errcode.UnauthorizedTransactionalID, "broker: transactions are not served")
)
