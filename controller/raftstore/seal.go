package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// sealName is the file that a clean stop leaves: the checksum of the whole database. raft-boltdb protects neither its pages nor its choice
// between two root pages, so a flipped bit can hide whole entries; entries' own checksums cannot tell.
const sealName = "raft.seal"

// sealMagic begins the file: magic, checksum of the database (4 bytes), checksum of all before (4); big-endian.
const sealMagic = "FLXSEAL1"

const sealBytes = len(sealMagic) + 4 + 4

// writeSeal seals the database of a closed store. It needs no sync: a seal that is torn or missing only means that nothing is checked.
func writeSeal(dir string) error {
	db, err := os.ReadFile(filepath.Join(dir, dbName))
	if err != nil {
		return fmt.Errorf("raftstore: seal: %w", err)
	}
	b := binary.BigEndian.AppendUint32([]byte(sealMagic), crc32.Checksum(db, castagnoli))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if err := os.WriteFile(filepath.Join(dir, sealName), b, 0o600); err != nil {
		return fmt.Errorf("raftstore: seal: %w", err)
	}
	return nil
}

// breakSeal compares the database with the seal, if there is one, and removes the seal. It runs before the database is opened, and the
// removal is durable on return: a transaction writes pages long before it counts, so a seal that outlived the first of them would
// condemn a database that is whole.
func breakSeal(dir string) error {
	path := filepath.Join(dir, sealName)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("raftstore: seal: %w", err)
	}
	if isSeal(b) {
		if err := checkSeal(dir, binary.BigEndian.Uint32(b[len(sealMagic):])); err != nil {
			return err
		}
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("raftstore: seal: %w", err)
	}
	return syncFile(dir)
}

func isSeal(b []byte) bool {
	return len(b) == sealBytes && string(b[:len(sealMagic)]) == sealMagic &&
		crc32.Checksum(b[:sealBytes-4], castagnoli) == binary.BigEndian.Uint32(b[sealBytes-4:])
}

func checkSeal(dir string, want uint32) error {
	path := filepath.Join(dir, dbName)
	db, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("raftstore: %w", err)
	}
	if got := crc32.Checksum(db, castagnoli); got != want {
		return fmt.Errorf("raftstore: %s: %w: its checksum is %08x, at the clean stop it was %08x", path, errDamaged, got, want)
	}
	return nil
}
