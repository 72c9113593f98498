package raftstore

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/felixlog/felix/controller"
)

// fsm is raft's state machine over a controller.Machine. Raft calls Apply, Snapshot and Restore from one goroutine.
type fsm struct {
	machine controller.Machine
	stopped func(error) // told once, of what stops the machine

	mu      sync.Mutex
	applied uint64        // position of the last command applied
	err     error         // why nothing is applied any more
	moved   chan struct{} // closed and replaced when applied or err changes
}

func newFSM(m controller.Machine, stopped func(error)) *fsm {
	return &fsm{machine: m, stopped: stopped, moved: make(chan struct{})}
}

// failure travels through raft's response to the proposer.
type failure struct{ err error }

// Apply applies one committed command.
func (f *fsm) Apply(entry *raft.Log) any {
	if err := f.stop(); err != nil {
		return failure{err}
	}
	res, err := f.machine.Apply(entry.Index, entry.Data)
	if err != nil {
		err = fmt.Errorf("%w: %w", controller.ErrStopped, err)
		f.note(entry.Index, err)
		f.stopped(err)
		return failure{err}
	}
	f.note(entry.Index, nil)
	return res
}

func (f *fsm) stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *fsm) note(position uint64, err error) {
	f.mu.Lock()
	f.applied = max(f.applied, position)
	if err != nil {
		f.err = err
	}
	close(f.moved)
	f.moved = make(chan struct{})
	f.mu.Unlock()
}

// waitFor returns once the command at position is applied, or the machine has stopped, or ctx ends.
func (f *fsm) waitFor(ctx context.Context, position uint64) error {
	for {
		f.mu.Lock()
		applied, err, moved := f.applied, f.err, f.moved
		f.mu.Unlock()
		if err != nil || applied >= position {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("raftstore: at entry %d of %d: %w", applied, position, context.Cause(ctx))
		}
	}
}

// Snapshot freezes the machine's state; raft writes it beside later Applies.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.stop(); err != nil {
		return nil, err
	}
	return frozen(f.machine.Snapshot()), nil
}

// Restore replaces the machine's state.
func (f *fsm) Restore(from io.ReadCloser) error {
	defer func() { _ = from.Close() }() // only read from
	return f.machine.Restore(from)
}

type frozen func(io.Writer) error

// Persist writes the frozen state to a file of raft's snapshot store.
func (s frozen) Persist(sink raft.SnapshotSink) error {
	if err := s(sink); err != nil {
		_ = sink.Cancel() // the error that counts is the write's
		return fmt.Errorf("write snapshot: %w", err)
	}
	return sink.Close()
}

// Release has nothing to give back.
func (s frozen) Release() {}
