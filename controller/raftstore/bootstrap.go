package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

const (
	dbName  = "raft.db"
	tmpName = "raft.db.tmp"
	// snapshotsName is the directory that raft.FileSnapshotStore uses.
	snapshotsName = "snapshots"
	dirMode       = 0o700
	lockTimeout   = time.Second // how long to wait for another process that has the database open
	// initialBytes of zeros make up a new database file, so that the first transactions overwrite allocated blocks: a sync that
	// need not record a new file size is cheaper.
	initialBytes = 128 << 10
)

func putUint64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func getUint64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

func openDB(path string, noSync bool) (*raftboltdb.BoltStore, error) {
	var db *raftboltdb.BoltStore
	err := guarded(func() (err error) {
		db, err = raftboltdb.New(raftboltdb.Options{
			Path:        path,
			NoSync:      noSync,
			BoltOptions: &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoGrowSync: noSync},
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return db, nil
}

// createFiles makes the database of a new cluster of one member with the given commands as its first entries. It is written aside
// and renamed, so that a crash leaves either nothing or all of it: one sync of the file, one of the directory, one of the directory above.
func createFiles(dir string, server raft.Server, commands [][]byte) error {
	tmp := filepath.Join(dir, tmpName)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the rest of an unfinished start: %w", err)
	}
	if err := fill(tmp, server, commands); err != nil {
		return fmt.Errorf("create %s: %w", tmp, err)
	}
	if err := syncFile(tmp); err != nil {
		return err
	}
	// Raft's snapshot store makes this directory too, but does not make its name durable; the log is cut once a snapshot is in it.
	if err := os.MkdirAll(filepath.Join(dir, snapshotsName), dirMode); err != nil {
		return fmt.Errorf("create metadata log: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, dbName)); err != nil {
		return fmt.Errorf("create metadata log: %w", err)
	}
	return errors.Join(syncFile(dir), syncFile(filepath.Dir(dir)))
}

func fill(tmp string, server raft.Server, commands [][]byte) error {
	db, err := openDB(tmp, true)
	if err != nil {
		return err
	}
	entries := []*raft.Log{{
		Index: 1, Term: 1, Type: raft.LogConfiguration,
		Data: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{server}}),
	}}
	for i, c := range commands {
		entries = append(entries, &raft.Log{Index: uint64(i + 2), Term: 1, Type: raft.LogCommand, Data: c})
	}
	err = errors.Join(db.SetUint64([]byte(keyCurrentTerm), 1), db.StoreLogs(sealed(entries)), db.Close())
	if err != nil {
		return err
	}
	return pad(tmp)
}

// pad appends zeros up to initialBytes.
func pad(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() >= initialBytes {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, initialBytes-info.Size()), info.Size())
	return errors.Join(err, f.Close())
}

// syncFile makes a file's content, or a directory's entries, durable.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
