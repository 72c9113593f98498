package replica

import "github.com/felixlog/felix/internal/errcode"

var (
	// ErrClosed is what appends and waiters get once the replica is closed, as at shutdown or before a move.
	ErrClosed = errcode.New(errcode.NotLeader, "replica: closed")
	// ErrDeleted is what appends and waiters get once the stream is deleted.
	ErrDeleted = errcode.New(errcode.UnknownShard, "replica: stream deleted")
	// ErrStopped is what appends and waiters get after a sync of this copy failed.
	ErrStopped = errcode.New(errcode.StorageFailed, "replica: stopped after a failed sync")
	// ErrFencedEpoch is for a caller that knows an older leader epoch than this replica (KIP-320).
	ErrFencedEpoch = errcode.New(errcode.FencedEpoch, "replica: leader epoch is older than the current one")
	// ErrUnknownEpoch is for a caller that knows a newer leader epoch than this replica (KIP-320).
	ErrUnknownEpoch = errcode.New(errcode.UnknownEpoch, "replica: leader epoch is newer than the current one")
)
