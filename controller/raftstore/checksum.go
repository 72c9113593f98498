package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// errDamaged is for a metadata log whose bytes are not what was written.
var errDamaged = errors.New("the metadata log is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers everything of an entry that decides what it does. raft-boltdb keeps none; raft leaves the field Extensions to
// whoever stands between the two.
func checksum(e *raft.Log) []byte {
	b := binary.BigEndian.AppendUint64(nil, e.Index)
	b = binary.BigEndian.AppendUint64(b, e.Term)
	b = append(b, byte(e.Type))
	return binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, e.Data))
}

// sealed returns copies of entries with their checksums. Copies, because raft shares the originals with its replication.
func sealed(entries []*raft.Log) []*raft.Log {
	out := make([]*raft.Log, len(entries))
	for i, e := range entries {
		c := *e
		c.Extensions = checksum(e)
		out[i] = &c
	}
	return out
}

// readEntry reads and checks one entry. A position that should be there and is not is damage too.
func readEntry(db *raftboltdb.BoltStore, index uint64, e *raft.Log) error {
	*e = raft.Log{} // decoding fills in what is stored and leaves the rest
	err := guarded(func() error { return db.GetLog(index, e) })
	if err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	if e.Index != index || string(e.Extensions) != string(checksum(e)) {
		return fmt.Errorf("%w: entry %d does not match its checksum", errDamaged, index)
	}
	e.Extensions = nil
	return nil
}

// verify reads every entry of the log, so that damage is found, and told, before anything of it is applied. It returns the last entry
// and the number of servers in the newest configuration of the log, 0 when the log has none.
func verify(db *raftboltdb.BoltStore) (lastEntry raft.Log, servers int, err error) {
	var first, last uint64
	err = guarded(func() (err error) {
		if first, err = db.FirstIndex(); err == nil {
			last, err = db.LastIndex()
		}
		return err
	})
	if err != nil {
		return raft.Log{}, 0, err
	}
	for i := first; i <= last && i > 0; i++ {
		if err := readEntry(db, i, &lastEntry); err != nil {
			return raft.Log{}, 0, err
		}
		if lastEntry.Type == raft.LogConfiguration {
			servers = len(raft.DecodeConfiguration(lastEntry.Data).Servers)
		}
	}
	return lastEntry, servers, nil
}

// guarded turns a panic of the database, which is its answer to a damaged page, into an error. So it does with a fault: a damaged page
// number leads outside the mapped file.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return f()
}
