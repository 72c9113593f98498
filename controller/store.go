package controller

import (
	"context"
	"io"

	"github.com/felixlog/felix/internal/errcode"
)

// Store is an ordered, durable log of commands with snapshots. Implementations pass the suite in storetest.
type Store interface {
	// Propose appends a command and returns what the local Machine's Apply returned for it. On a nil error the command is
	// durable and applied here. ErrUnknownOutcome: it may or may not take effect later. ErrNotController: it was not
	// taken and never will be. Any number of calls may run at a time; their order is the store's choice.
	Propose(ctx context.Context, command []byte) (any, error)
	// Ready says why Propose would fail now, nil when it would not as far as this member knows. It asks nobody else and does not wait.
	Ready() error
	// Close stops applying and releases everything. What Propose acknowledged stays. Calling it again is fine.
	Close() error
}

// Machine is what a Store drives. The store calls its methods from one goroutine at a time, except for the function that Snapshot
// returned, which may run beside them.
type Machine interface {
	// Apply applies the command at a position of the order. Positions rise; they need not be dense. An error means that
	// this member cannot go on: the store applies nothing after it and fails every Propose with it.
	Apply(position uint64, command []byte) (any, error)
	// Snapshot freezes the state and returns a function that writes it.
	Snapshot() func(io.Writer) error
	// Restore replaces the state by what such a function wrote.
	Restore(io.Reader) error
}

var (
	// ErrUnknownOutcome is for a command whose effect is not known: the wait was cut short, or the store lost its leadership.
	ErrUnknownOutcome = errcode.New(errcode.QuorumTimeout, "controller: it is not known whether the command took effect")
	// ErrNotController is for a command given to a member that cannot order it now.
	ErrNotController = errcode.New(errcode.NotController, "controller: this member does not lead the metadata log")
	// ErrClosed is for proposals to a store that is closed.
	ErrClosed = errcode.New(errcode.NotController, "controller: closed")
	// ErrStopped is for proposals to a member whose state machine met an entry that it cannot apply, or whose disk failed.
	ErrStopped = errcode.New(errcode.StorageFailed, "controller: stopped by an earlier error")
)
