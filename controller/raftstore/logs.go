package raftstore

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/felixlog/felix/controller"
)

// Keys under which hashicorp/raft keeps its term and vote.
const (
	keyCurrentTerm   = "CurrentTerm"
	keyLastVoteTerm  = "LastVoteTerm"
	keyLastVoteCand  = "LastVoteCand"
	errTextNotStored = "not found" // raft compares the text
)

var errNotStored = errors.New(errTextNotStored)

// logs is raft's LogStore and StableStore. Over raft-boltdb it adds two things. It latches: after the first failed write every later
// one fails, because what a failed sync left behind is not known. And while the member is alone it holds back term and vote,
// see the package comment.
type logs struct {
	db     *raftboltdb.BoltStore
	failed func(error) // told once, of the first failed write

	mu       sync.Mutex
	err      error             // the latched error
	lone     bool              // the newest configuration in the log has one server
	pending  map[string][]byte // held-back stable values; newer than those in db
	lastTerm uint64            // of the last entry, as of the opening
}

// newLogs wraps an open database. servers is the number of members in the newest snapshot, for a log that names none.
func newLogs(db *raftboltdb.BoltStore, servers int, failed func(error)) (*logs, error) {
	l := &logs{db: db, failed: failed, pending: map[string][]byte{}}
	last, inLog, err := verify(db)
	if err != nil {
		return nil, err
	}
	if inLog > 0 {
		servers = inLog
	}
	l.lastTerm, l.lone = last.Term, servers == 1
	return l, nil
}

// setLone tells whether the member is alone, once raft knows the configuration. From false on, nothing is held back.
func (l *logs) setLone(lone bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lone = lone
	if lone {
		return nil
	}
	return l.writePendingLocked()
}

func (l *logs) latch(err error) error {
	if err == nil {
		return nil
	}
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = fmt.Errorf("%w: %w", controller.ErrStopped, err)
	}
	err = l.err
	l.mu.Unlock()
	if first && l.failed != nil {
		l.failed(err)
	}
	return err
}

func (l *logs) latched() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// FirstIndex is raft.LogStore's.
func (l *logs) FirstIndex() (uint64, error) { return l.db.FirstIndex() }

// LastIndex is raft.LogStore's.
func (l *logs) LastIndex() (uint64, error) { return l.db.LastIndex() }

// GetLog reads an entry and checks it. Damage latches: raft would panic on it or go on without the entry.
func (l *logs) GetLog(index uint64, log *raft.Log) error {
	err := readEntry(l.db, index, log)
	if errors.Is(err, errDamaged) {
		return l.latch(err)
	}
	if errors.Is(err, raft.ErrLogNotFound) {
		return raft.ErrLogNotFound // raft compares by identity
	}
	return err
}

// StoreLog is raft.LogStore's.
func (l *logs) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs writes and syncs entries. Raft calls it from one goroutine.
func (l *logs) StoreLogs(entries []*raft.Log) error {
	if err := l.latched(); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type != raft.LogConfiguration {
			continue
		}
		// Before a second member exists, everything that it may rely on is durable.
		if err := l.setLone(len(raft.DecodeConfiguration(e.Data).Servers) == 1); err != nil {
			return l.latch(err)
		}
	}
	return l.latch(guarded(func() error { return l.db.StoreLogs(sealed(entries)) }))
}

// DeleteRange removes entries, from min to max inclusive.
func (l *logs) DeleteRange(low, high uint64) error {
	if err := l.latched(); err != nil {
		return err
	}
	return l.latch(guarded(func() error { return l.db.DeleteRange(low, high) }))
}

// Set keeps a stable value: now, or with the first entry that needs it while the member is alone.
func (l *logs) Set(key, value []byte) error {
	l.mu.Lock()
	if err := l.err; err != nil {
		l.mu.Unlock()
		return err
	}
	if l.lone && isTermOrVote(string(key)) {
		l.pending[string(key)] = append([]byte(nil), value...)
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	return l.latch(guarded(func() error { return l.db.Set(key, value) }))
}

// Get returns a stable value.
func (l *logs) Get(key []byte) ([]byte, error) {
	l.mu.Lock()
	v, ok := l.pending[string(key)]
	l.mu.Unlock()
	if ok {
		return append([]byte(nil), v...), nil
	}
	v, err := l.db.Get(key)
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return nil, errNotStored
	}
	return v, err
}

// SetUint64 is Set for a number.
func (l *logs) SetUint64(key []byte, v uint64) error { return l.Set(key, putUint64(v)) }

// GetUint64 is Get for a number; 0 when it is not stored. The current term is never below that of the last entry.
func (l *logs) GetUint64(key []byte) (uint64, error) {
	b, err := l.Get(key)
	switch {
	case errors.Is(err, errNotStored):
		b = putUint64(0)
	case err != nil:
		return 0, err
	case len(b) != 8:
		return 0, fmt.Errorf("stable value %q has %d bytes", key, len(b))
	}
	v := getUint64(b)
	if string(key) == keyCurrentTerm {
		v = max(v, l.lastTerm)
	}
	return v, nil
}

func isTermOrVote(key string) bool {
	return key == keyCurrentTerm || key == keyLastVoteTerm || key == keyLastVoteCand
}

// writePendingLocked makes what was held back durable: the term before the vote in it.
func (l *logs) writePendingLocked() error {
	for _, key := range []string{keyCurrentTerm, keyLastVoteTerm, keyLastVoteCand} {
		v, ok := l.pending[key]
		if !ok {
			continue
		}
		if err := l.db.Set([]byte(key), v); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		delete(l.pending, key)
	}
	return nil
}

// Close closes the database.
func (l *logs) Close() error { return l.db.Close() }
