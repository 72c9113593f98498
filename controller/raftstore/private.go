package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// privateSnapshots are raft's file snapshots, for the owner alone: they hold the seeds of signing keys, and the library makes its files for
// everybody.
type privateSnapshots struct {
	raft.SnapshotStore
	dir string // where the library keeps them
}

// newPrivateSnapshots takes what others may read of the snapshots that are there away from them.
func newPrivateSnapshots(store raft.SnapshotStore, dir string) (privateSnapshots, error) {
	s := privateSnapshots{store, filepath.Join(dir, snapshotsName)}
	return s, tighten(s.dir)
}

// Create begins a snapshot, whose file is empty so far.
func (s privateSnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, err
	}
	if err := tighten(s.dir); err != nil {
		return nil, errors.Join(err, sink.Cancel())
	}
	return privateSink{sink, s.dir}, nil
}

type privateSink struct {
	raft.SnapshotSink
	dir string
}

// Close ends the snapshot. What the library wrote last is taken from others too.
func (s privateSink) Close() error {
	return errors.Join(s.SnapshotSink.Close(), tighten(s.dir))
}

// tighten takes every right of others and of the group to what is in a directory. There are a handful of files.
func tighten(dir string) error {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an old snapshot that the library removes
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(path, info.Mode().Perm()&0o700)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("raftstore: snapshots: %w", err)
	}
	return nil
}
